"""What a run of DyTopo came to, as a value, as a trajectory and as lines for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from selfwire.core.task import Question
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Message, Routing, Step, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.domain import DytopoMemory
from selfwire.evolvers.dytopo.rounds import Round


class Report(FrozenModel):
    """What a run came to.

    Args:
        stopped: "complete" if the manager's word was confirmed, "stopped" if a budget or an outage was why, "failed"
            if all workers of a round failed, else "rounds".
        topology: the last round's, over which its messages were delivered.
    """

    answer: str | None
    error: str | None = None
    stopped: str
    rounds: tuple[Round, ...]
    topology: Topology

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "Report":
        """Read a run off its final state."""
        rounds = tuple(Round.model_validate(one) for one in state["rounds"])
        return cls(
            answer=state["answer"],
            error=state["error"],
            stopped=state["stopped"],
            rounds=rounds,
            topology=rounds[-1].to_topology(DytopoMemory.of(Workflow.model_validate(state["workflow"])).domain),
        )

    @property
    def usage(self) -> Usage:
        """What workers and manager cost together."""
        return sum_usages(one.usage for one in self.rounds)

    @property
    def text(self) -> str:
        """The run for people: per round goal, edges with scores, order, density, failures, tokens."""
        titled = (
            [
                f"Round {one.number + 1}: {_title(one.goal, self.rounds[0].goal)}",
                *format_round(_to_notes(one), nearest=True),
            ]
            for one in self.rounds
        )
        return "\n\n".join(map("\n".join, titled))

    def trajectory(self, question: Question, workflow: str, sample: int = 0) -> Trajectory:
        """The run as a trajectory of the workflow with this fingerprint: a step per worker and round."""
        steps, inbox = list[Step](), tuple[Message, ...]()
        for one in self.rounds:
            steps += _to_steps(one, inbox)
            inbox = one.messages
        return Trajectory(
            question=question,
            workflow=workflow,
            steps=tuple(steps),
            answer=self.answer,
            error=self.error,
            sample=sample,
            overhead=sum_usages(one.managed.usage for one in self.rounds if one.managed),
            notes={
                "stopped": self.stopped,
                "rounds": [_to_notes(one) for one in self.rounds],
                "topology": self.topology.model_dump(mode="json"),
            },
        )


def _to_steps(one: Round, inbox: tuple[Message, ...]) -> list[Step]:
    found = []
    for said in one.said:
        out = [edge for edge in one.graph.edges if edge.source == said.worker]
        scores = {edge.target: edge.score for edge in out if edge.score is not None}
        found.append(
            Step(
                node=said.worker,
                agent=said.worker,
                visit=one.number,
                inbox=tuple(mail for mail in inbox if mail.target == said.worker),
                output=said.public or said.answer,
                error=said.error,
                tools=said.tools,
                routing=Routing(chosen=tuple(e.target for e in out), scores=scores, why="needs matched with offers"),
                sent=tuple(mail for mail in one.messages if mail.source == said.worker),
                usage=said.usage,
            )
        )
    return found


def _to_notes(one: Round) -> dict[str, Any]:
    managed = one.managed.model_dump(mode="json", exclude={"usage"}) if one.managed else None
    return {
        "goal": one.goal,
        "graph": one.graph.model_dump(mode="json"),
        "needs": {said.worker: said.descriptors.model_dump() for said in one.said},
        "failed": one.failed,
        "dropped": len(one.dropped),
        "managed": managed,
        "tokens": one.usage.tokens,
        "seconds": one.seconds,
    }


def format_notes(notes: Mapping[str, Any]) -> Sequence[str]:
    """A paragraph per round, and why the run ended."""
    found = notes.get("rounds", ())
    rounds = [
        "\n".join([f"round {number}: {_title(one['goal'], found[0]['goal'])}", *format_round(one, nearest=False)])
        for number, one in enumerate(found, 1)
    ]
    return [*rounds, f"ended: {notes['stopped']}"] if notes.get("stopped") else rounds


def format_round(notes: Mapping[str, Any], *, nearest: bool) -> list[str]:
    """A round for people, below its title: edges with scores, order, needs and offers, failures, the manager's word.

    Args:
        nearest: whether the nearest pair without an edge is named.
    """
    graph, managed = notes["graph"], notes["managed"]
    edges = [_edge(edge) for edge in graph["edges"]]
    lines = [
        f"  edges: {', '.join(edges) or 'none'}",
        f"  order: {', '.join(graph['order'])}; density {graph['density']:.2f}; {notes['tokens']:,} tokens",
    ]
    if nearest and graph["best_rejected"]:
        lines.append(f"  nearest pair without an edge: {_edge(graph['best_rejected'])}")
    lines += [
        f"  {worker} needs: {named['query'] or 'nothing'}; offers: {named['key'] or 'nothing'}"
        for worker, named in notes["needs"].items()
    ]
    lines += [f"  {worker} failed, and the round went on without it: {why}" for worker, why in notes["failed"].items()]
    if managed:
        word, why = "complete" if managed["complete"] else "not complete", managed["why"]
        said = " ".join(managed["public"].split())
        lines.append(f"  manager: {word}{f' ({why})' if why else ''}{f': {said}' if said else ''}")
    return lines


def _title(goal: str, task: str) -> str:
    return "the task" if goal == task else goal


def _edge(scored: Mapping[str, Any]) -> str:
    score = scored.get("score")
    return f"{scored['source']} -> {scored['target']}{'' if score is None else f' ({score:.2f})'}"
