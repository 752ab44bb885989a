"""What flows through TacoMAS's machine: JSON only, and nothing that a reference could be part of."""

from typing import Any

from pydantic import Field
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.trajectory import Message, Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.tacomas.judge import Item
from selfwire.evolvers.tacomas.rounds import Round
from selfwire.graphs.run_context import RunContext


class TacomasContext(RunContext):
    """What can be chosen per run; each field's description says what it does."""

    rounds: int | None = Field(default=None, ge=1, le=100, description="Most rounds; empty for the graph's own.")


class TacomasInput(TypedDict):
    """What a run is given."""

    question: str


class TacomasState(TypedDict, total=False):
    """What flows through the machine.

    Keys:
        question: the user's question; the machine's input.
        answer: of the best round so far; None if none has one.
        error: why there is no answer; None if there is.
        id, kind: the question's id, and the benchmark's name for its sort.
        scope: place of the run.
        workflow: the current team.
        tools: what the team held at first, and so what newborns may hold.
        checklist: what an answer must satisfy.
        weights: w_v by agent.
        notes: refinements by agent, oldest first.
        carried: messages that the next round delivers.
        rounds: what is kept of every round.
        done: the last round's trajectory.
        best: the best round's trajectory; None if none has an answer.
        figures: what the run came to; set when it ends.
        usage: what the question has cost so far.
        oracle: whether labels were used; always False.
    """

    question: str
    answer: str | None
    error: str | None
    id: str
    kind: str
    scope: dict[str, Any]
    workflow: dict[str, Any]
    tools: list[str]
    checklist: list[dict[str, Any]]
    weights: dict[str, float]
    notes: dict[str, list[str]]
    carried: list[dict[str, Any]]
    rounds: list[dict[str, Any]]
    done: dict[str, Any]
    best: dict[str, Any] | None
    figures: dict[str, Any]
    usage: dict[str, Any]
    oracle: bool


def get_workflow(state: TacomasState) -> Workflow:
    """The current team."""
    return Workflow.model_validate(state["workflow"])


def get_rounds(state: TacomasState) -> list[Round]:
    """All rounds so far."""
    return [Round.model_validate(one) for one in state["rounds"]]


def get_trajectory(state: TacomasState) -> Trajectory:
    """The last round."""
    return Trajectory.model_validate(state["done"])


def get_checklist(state: TacomasState) -> list[Item]:
    """The checklist."""
    return [Item.model_validate(one) for one in state["checklist"]]


def get_carried(state: TacomasState) -> list[Message]:
    """Messages on their way."""
    return [Message.model_validate(one) for one in state["carried"]]


def to_json(rounds: list[Round]) -> list[dict[str, Any]]:
    """Rounds as the state keeps them."""
    return [one.model_dump(mode="json") for one in rounds]
