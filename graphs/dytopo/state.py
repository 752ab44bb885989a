"""What flows through DyTopo's machine, what can be chosen per run, and what a run comes to."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.task import Question
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Message, Routing, Step, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.domain import DytopoMemory
from selfwire.evolvers.dytopo.rounds import Round
from selfwire.graphs.run_context import RunContext


class DytopoContext(RunContext):
    """What can be chosen per run; each field's description says what it does."""

    rounds: int | None = Field(default=None, ge=1, le=100, description="Most rounds; empty for the graph's own.")
    domain: str | None = Field(
        default=None, min_length=1, description="Team for a kind of task: general, code or math; a workflow goes first."
    )


class DytopoInput(TypedDict):
    """What a run is given."""

    question: str


class DytopoState(TypedDict, total=False):
    """What flows through the machine, as JSON.

    Keys:
        question: the user's question; the machine's input.
        answer: the machine's output.
        error: why there is no answer; None if there is one.
        usage: what the question has cost so far; attempts that raised are not in it.
        scope: place of the run.
        workflow: the team.
        goal: C_task of the current round.
        memories: H_i of every worker.
        said: what everybody said in this round, in agent order.
        graph: G of this round.
        rounds: the rounds that are done.
        stopped: "complete", or "rounds" if there were no more.
    """

    question: str
    answer: str | None
    error: str | None
    usage: dict[str, Any]
    scope: dict[str, Any]
    workflow: dict[str, Any]
    goal: str
    memories: dict[str, list[dict[str, Any]]]
    said: list[dict[str, Any]]
    graph: dict[str, Any]
    rounds: list[dict[str, Any]]
    stopped: str


class Report(FrozenModel):
    """What a run came to.

    Args:
        answer: taken from the last global state; None if nobody gave one.
        error: why there is none.
        stopped: "complete" if the manager's word was confirmed, "stopped" if a budget or an outage was why, else
            "rounds".
        rounds: with goal, what was said, edges with scores, order, density, messages, tokens.
        topology: the last round's, over which its messages were delivered.
    """

    answer: str | None
    error: str | None = None
    stopped: str
    rounds: tuple[Round, ...]
    topology: Topology

    @classmethod
    def of(cls, state: DytopoState) -> "Report":
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
            [f"Round {one.number + 1}: {one.goal}", *format_round(_noted(one), nearest=True)] for one in self.rounds
        )
        return "\n\n".join(map("\n".join, titled))

    def trajectory(self, question: Question, workflow: str, sample: int = 0) -> Trajectory:
        """The run as a trajectory: a step per worker and round, the manager as overhead.

        Args:
            question: what was asked.
            workflow: fingerprint of the team.
            sample: number of the sample.
        """
        steps, inbox = list[Step](), tuple[Message, ...]()
        for one in self.rounds:
            steps += _steps(one, inbox)
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
                "rounds": [_noted(one) for one in self.rounds],
                "topology": self.topology.model_dump(mode="json"),
            },
        )


def _steps(one: Round, inbox: tuple[Message, ...]) -> list[Step]:
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


def _noted(one: Round) -> dict[str, Any]:
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


def format_round(noted: Mapping[str, Any], *, nearest: bool) -> list[str]:
    """A round for people, below its title: edges with scores, order, density, tokens, who failed, the manager's word.

    Args:
        noted: of the round, as a trajectory notes it.
        nearest: whether the nearest pair without an edge is named.
    """
    graph, managed = noted["graph"], noted["managed"]
    edges = [_edge(edge) for edge in graph["edges"]]
    lines = [
        f"  edges: {', '.join(edges) or 'none'}",
        f"  order: {', '.join(graph['order'])}; density {graph['density']:.2f}; {noted['tokens']:,} tokens",
    ]
    if nearest and graph["best_rejected"]:
        lines.append(f"  nearest pair without an edge: {_edge(graph['best_rejected'])}")
    lines += [f"  {worker} failed, and the round went on without it: {why}" for worker, why in noted["failed"].items()]
    if managed:
        word, why = "complete" if managed["complete"] else "not complete", managed["why"]
        lines.append(f"  manager: {word}{f' ({why})' if why else ''}")
    return lines


def _edge(scored: Mapping[str, Any]) -> str:
    score = scored.get("score")
    return f"{scored['source']} -> {scored['target']}{'' if score is None else f' ({score:.2f})'}"
