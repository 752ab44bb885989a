"""What flows through HiVA's machine, and what can be chosen per run."""

from typing import Any

from pydantic import Field
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.errors import ConfigError
from selfwire.core.workflow import Workflow
from selfwire.graphs.run_context import RunContext, apply_prompt_edits


class HivaContext(RunContext):
    """What can be chosen per run; each field's description says what it does."""

    evolve: bool = Field(default=False, description="Whether the team learns from this question.")
    iterations: int = Field(default=1, ge=1, le=100, description="Most rounds of evolution on this question (T).")


class HivaInput(TypedDict):
    """What a run is given."""

    question: str


class HivaState(TypedDict, total=False):
    """What flows through the machine, as JSON.

    Keys:
        question: the user's question; the machine's input.
        answer: the machine's output.
        usage: what the question has cost so far; attempts that raised are not in it.
        workflow: the current workflow.
        ran: the workflow that made this round's trajectories; set as learning begins.
        trajectories: of this round.
        reflection: what loss to evolve_topology have cost in this round.
        losses, passes: per trajectory; a pass is None where nothing is propagated.
        applied, declined: rewirings of this round, and proposals that were not applied.
        iteration: rounds of evolution done on this question.
        solved: whether every answer of this round was; None where nothing says.
        oracle: whether labels were used on this very question.
        scope: place of the run.
    """

    question: str
    answer: str
    usage: dict[str, Any]
    workflow: dict[str, Any]
    ran: dict[str, Any]
    trajectories: list[dict[str, Any]]
    reflection: dict[str, Any]
    losses: list[dict[str, Any]]
    passes: list[dict[str, Any] | None]
    applied: list[dict[str, Any]]
    declined: list[dict[str, Any]]
    iteration: int
    solved: bool | None
    oracle: bool
    scope: dict[str, Any]


def with_prompt_edits(workflow: Workflow, context: HivaContext) -> Workflow:
    """The workflow with the prompts that were edited for this run.

    Raises:
        ConfigError: the run evolves, which would keep the edits, or an edited agent is not there any more.
    """
    if context.prompts and context.evolve:
        raise ConfigError(
            f"prompts of {', '.join(context.prompts)} are edited for this run only, and evolve would keep what it "
            "makes of them: take the edits back or turn evolve off"
        )
    return apply_prompt_edits(workflow, context)
