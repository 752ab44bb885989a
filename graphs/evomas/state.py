"""State and context of EvoMAS's graph; a reference can be part of neither."""

from pydantic import Field

from selfwire.core.trajectory import Step
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.stages import Stage
from selfwire.evolvers.evomas.state import TaskState
from selfwire.graphs.run_context import RunContext
from selfwire.graphs.typed_state import State


class EvomasContext(RunContext):
    """What can be chosen per run; each field's description says what it does."""

    stages: int | None = Field(default=None, ge=1, le=100, description="Most stages; empty for the graph's own.")


class EvomasState(State):
    """What flows through the graph, beside what every state has.

    Attributes:
        error: why there is no answer; None if there is one.
        pool: the agents, without what was learned of them.
        router: fingerprint of the workflow whose weights choose; weights are too large for a state.
        task: the task state s_t.
        stage: the present stage so far; None before the first plan.
        status: why the run ended; "" until then.
    """

    error: str | None = None
    pool: Workflow
    router: str
    task: TaskState
    stage: Stage | None = None
    stages: tuple[Stage, ...] = ()
    steps: tuple[Step, ...] = ()
    status: str = ""

    @property
    def present(self) -> Stage:
        """The present stage, in nodes that come after the plan."""
        assert self.stage is not None, "a plan begins a stage"
        return self.stage
