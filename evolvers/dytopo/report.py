"""Report of a DyTopo run: as a value, as a trajectory and as lines for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Message, Routing, Step, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenModel
from selfwire.evolvers.dytopo.domain import DytopoMemory
from selfwire.evolvers.dytopo.rounds import DytopoRound


class Report(FrozenModel):
    """Result of a run.

    Args:
        stopped: "complete" if the manager's word was confirmed, "stopped" if a budget or an outage was why, "failed"
            if all workers of a round failed, else "rounds".
        topology: the last round's, over which its messages were delivered.
    """

    answer: str | None
    error: str | None = None
    stopped: str
    rounds: tuple[DytopoRound, ...]
    topology: Topology

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "Report":
        """Read a run off its final state."""
        rounds = tuple(DytopoRound.model_validate(done) for done in state["rounds"])
        return cls(
            answer=state["answer"],
            error=state["error"],
            stopped=state["stopped"],
            rounds=rounds,
            topology=rounds[-1].to_topology(DytopoMemory.of(Team.model_validate(state["workflow"])).domain),
        )

    @property
    def usage(self) -> Usage:
        """Cost of workers and manager together."""
        return sum_usages(done.usage for done in self.rounds)

    @property
    def text(self) -> str:
        """The run for people: per round goal, edges with scores, order, density, failures, tokens."""
        titled = (
            [
                f"Round {done.number + 1}: {_title(done.goal, self.rounds[0].goal)}",
                *format_round(_to_notes(done), nearest=True),
            ]
            for done in self.rounds
        )
        return "\n\n".join(map("\n".join, titled))

    def trajectory(self, question: Question, team: str, sample: int = 0) -> Trajectory:
        """The run as a trajectory of the team with this fingerprint: a step per worker and round."""
        steps, inbox = list[Step](), tuple[Message, ...]()
        for done in self.rounds:
            steps += _to_steps(done, inbox)
            inbox = done.messages
        return Trajectory(
            question=question,
            workflow=team,
            steps=tuple(steps),
            answer=self.answer,
            error=self.error,
            sample=sample,
            overhead=sum_usages(done.managed.usage for done in self.rounds if done.managed),
            notes={
                "stopped": self.stopped,
                "rounds": [_to_notes(done) for done in self.rounds],
                "topology": self.topology.model_dump(mode="json"),
            },
        )


def _to_steps(done: DytopoRound, inbox: tuple[Message, ...]) -> list[Step]:
    found = []
    for said in done.said:
        out = [edge for edge in done.graph.edges if edge.source == said.worker]
        scores = {edge.target: edge.score for edge in out if edge.score is not None}
        found.append(
            Step(
                node=said.worker,
                agent=said.worker,
                visit=done.number,
                inbox=tuple(mail for mail in inbox if mail.target == said.worker),
                output=said.public or said.answer,
                error=said.error,
                tools=said.tools,
                routing=Routing(chosen=tuple(e.target for e in out), scores=scores, why="needs matched with offers"),
                sent=tuple(mail for mail in done.messages if mail.source == said.worker),
                usage=said.usage,
            )
        )
    return found


def _to_notes(done: DytopoRound) -> dict[str, Any]:
    managed = done.managed.model_dump(mode="json", exclude={"usage"}) if done.managed else None
    return {
        "goal": done.goal,
        "graph": done.graph.model_dump(mode="json"),
        "needs": {said.worker: said.descriptors.model_dump() for said in done.said},
        "failed": done.failed,
        "dropped": len(done.dropped),
        "managed": managed,
        "tokens": done.usage.tokens,
        "seconds": done.seconds,
    }


def format_notes(notes: Mapping[str, Any]) -> Sequence[str]:
    """A paragraph per round, and why the run ended."""
    found = notes.get("rounds", ())
    rounds = [
        "\n".join([f"round {number}: {_title(done['goal'], found[0]['goal'])}", *format_round(done, nearest=False)])
        for number, done in enumerate(found, 1)
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
