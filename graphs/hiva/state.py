"""What flows through HiVA's graph, and what can be chosen per run."""

from pydantic import Field

from selfwire.core.edits import Rewiring
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.gradients import Backward, Gradient, Loss
from selfwire.evolvers.hiva.knowledge import TaskConcepts
from selfwire.evolvers.rewriting import DeclinedProposal
from selfwire.graphs.run_context import RunContext, apply_prompt_edits
from selfwire.graphs.typed_state import State


class HivaContext(RunContext):
    """What can be chosen per run; each field's description says what it does."""

    evolve: bool = Field(default=False, description="Whether the team learns from this question.")
    iterations: int = Field(default=1, ge=1, le=100, description="Most rounds of evolution on this question (T).")


class HivaState(State):
    """What flows through the graph, beside what every state has.

    Attributes:
        ran: the workflow that made this round's trajectories; set as learning begins.
        reflection: cost of loss to evolve_topology in this round.
        losses, passes: per trajectory; a pass is None where nothing is propagated.
        applied, declined: rewirings of this round, and proposals that were not applied.
        iteration: rounds of evolution done on this question.
        solved: whether every answer of this round was; None where nothing says.
        oracle: whether labels were used on this very question.
        concepts: of the task; None where it has not been characterised.
        overhead: cost of characterising it, until a trajectory has it.
        saved: reference of the version that this question's learning saved last, such as `hiva@studio-3f2a9c.1`.
    """

    workflow: Workflow
    ran: Workflow
    trajectories: tuple[Trajectory, ...] = ()
    reflection: Usage = Usage()
    losses: tuple[Loss, ...] = ()
    passes: tuple[Backward | None, ...] = ()
    applied: tuple[Rewiring, ...] = ()
    declined: tuple[DeclinedProposal, ...] = ()
    iteration: int = 0
    solved: bool | None = None
    oracle: bool = False
    concepts: TaskConcepts | None = None
    overhead: Usage = Usage()
    saved: str = ""

    @property
    def round_scope(self) -> Scope:
        """Scope of this round."""
        return self.scope.at(iteration=self.scope.iteration + self.iteration)

    @property
    def gradients(self) -> tuple[Gradient, ...]:
        """All gradients of this round, in task order."""
        return tuple(gradient for backward in self.passes if backward for gradient in backward.gradients)


def with_prompt_edits(workflow: Workflow, context: HivaContext) -> Workflow:
    """The workflow with the prompts that were edited for this run.

    Raises:
        ConfigError: the run evolves, which would keep the edits, or the team has lost an edited agent.
    """
    if context.prompts and context.evolve:
        raise ConfigError(
            f"prompts of {', '.join(context.prompts)} are edited for this run only, and evolve would keep what it "
            "makes of them: take the edits back or turn evolve off"
        )
    return apply_prompt_edits(workflow, context)
