"""What flows through EvoMAS's machine: JSON only, and nothing that a reference could be part of."""

from typing import Any

from pydantic import Field
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.stages import Stage
from selfwire.evolvers.evomas.state import TaskState
from selfwire.graphs.run_context import RunContext


class EvomasContext(RunContext):
    """What can be chosen per run; each field's description says what it does."""

    stages: int | None = Field(default=None, ge=1, le=100, description="Most stages; empty for the graph's own.")


class EvomasInput(TypedDict):
    """What a run is given."""

    question: str


class EvomasState(TypedDict, total=False):
    """What flows through the machine.

    Keys:
        question: the user's question; the machine's input.
        answer: the final answer; None until there is one.
        error: why there is none; None if there is.
        id, kind: the question's id, and the benchmark's name for its sort.
        scope: place of the run.
        pool: the agents, without what was learned of them.
        router: fingerprint of the workflow whose weights choose; weights are too large for a state.
        task: the task state s_t.
        stage: the present stage, as far as it has come.
        stages: the stages that are over.
        steps: what the agents did, stage after stage.
        status: why the run ended; "" before it has.
        usage: what the question has cost so far.
    """

    question: str
    answer: str | None
    error: str | None
    id: str
    kind: str
    scope: dict[str, Any]
    pool: dict[str, Any]
    router: str
    task: dict[str, Any]
    stage: dict[str, Any]
    stages: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    status: str
    usage: dict[str, Any]


def get_pool(state: EvomasState) -> Workflow:
    """The agents."""
    return Workflow.model_validate(state["pool"])


def get_task(state: EvomasState) -> TaskState:
    """The task state."""
    return TaskState.model_validate(state["task"])


def get_stage(state: EvomasState) -> Stage:
    """The present stage."""
    return Stage.model_validate(state["stage"])


def get_stages(state: EvomasState) -> list[Stage]:
    """The stages that are over."""
    return [Stage.model_validate(one) for one in state["stages"]]
