"""The Updater mu: the next task state from the last one and the outcome of a stage (Eq. 7, App. B.3).

A pure function. The active subtask by verdict:

    success                            DONE         completed, with its artifact; the next pending one is active
    refine, refinements left           NEED-REFINE  pending, with its outcome and what is wrong; it stays active
    refine, no refinements left        FAILED       failed, and the planner must plan anew
    fail                               FAILED       failed, and the planner must plan anew
"""

from collections.abc import Sequence

from selfwire.core.text import excerpt
from selfwire.evolvers.evomas.state import (
    ARTIFACT_LENGTH,
    FEEDBACK_LENGTH,
    HISTORY,
    Assessment,
    HistoryEntry,
    Subtask,
    TaskState,
)


def compute_next_state(
    state: TaskState,
    layers: Sequence[Sequence[str]],
    outcome: str | None,
    assessment: Assessment,
    *,
    refinements: int = 2,
) -> TaskState:
    """s_t = mu(s_{t-1}, G_{t-1}, xi_{t-1}).

    Args:
        state: s_{t-1}; without an active subtask nothing changes.
        outcome: of the workflow; None without an answer.
        refinements: how often a subtask is sent back before it fails.
    """
    current = state.current
    if current is None:
        return state
    after = apply_assessment(current, outcome or "", assessment, refinements=refinements)
    subtasks = tuple(after if subtask.id == after.id else subtask for subtask in state.subtasks)
    pending = [subtask.id for subtask in subtasks if subtask.status == "pending"]
    past = HistoryEntry(subtask=current.id, layers=tuple(map(tuple, layers)), verdict=assessment.verdict)
    return state.replace(
        subtasks=subtasks,
        active=after.id if after.status == "pending" else next(iter(pending), None),
        assessment=assessment,
        history=(*state.history, past)[-HISTORY:],
        hint="",
        replan=after.status == "failed",
    )


def apply_assessment(subtask: Subtask, outcome: str, assessment: Assessment, *, refinements: int) -> Subtask:
    """The subtask after a verdict; see the table above."""
    if assessment.verdict == "success":
        artifact = excerpt(outcome, ARTIFACT_LENGTH, subtask.goal)
        return subtask.replace(status="completed", artifact=artifact, trouble="", attempt="")
    trouble = excerpt(assessment.feedback, FEEDBACK_LENGTH) or "It was not done, and nobody said why."
    if assessment.verdict == "refine" and subtask.refinements < refinements:
        attempt = excerpt(outcome, ARTIFACT_LENGTH, subtask.goal) or subtask.attempt
        return subtask.replace(refinements=subtask.refinements + 1, trouble=trouble, attempt=attempt)
    return subtask.replace(status="failed", trouble=trouble, attempt="")
