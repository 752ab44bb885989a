"""The Evaluator judges the active subtask (App. B.2, C.2); one synthesis answers where no subtask succeeded."""

from collections.abc import Sequence
from typing import NamedTuple

from selfwire.core.errors import TaskBudgetError
from selfwire.core.excerpt import excerpt
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.evolvers.evomas.schemas import Assessed, LastAnswer
from selfwire.evolvers.evomas.state import ARTIFACT_LENGTH, FEEDBACK_LENGTH, Assessment, TaskState, format_state
from selfwire.evolvers.prompted_model import PromptedModel

NOT_JUDGED = "The outcome could not be judged."


class AssessmentResult(NamedTuple):
    """An assessment, its cost, and whether it is only the fallback."""

    assessment: Assessment
    usage: Usage
    fell_back: bool = False


async def evaluate(
    state: TaskState, outcome: str, meta_model: PromptedModel, *, checks: str = "", scope: Scope
) -> AssessmentResult:
    """Give e_t: verdict, confidence and feedback on the active subtask of the state before the update.

    Without a valid reply the subtask is sent back (a reward of 0 that may be refined): nothing passes unjudged.
    """
    goal = state.current.goal if state.current else state.objective
    reply, usage = await meta_model.ask_or(
        None,
        Assessed,
        "evaluator",
        scope=scope.at(node="evaluator"),
        by="judge",
        task=state.objective,
        state=format_state(state),
        subtask=goal,
        outcome=outcome,
        checks=checks or "(nothing was looked up)",
    )
    if reply is None:
        return AssessmentResult(Assessment(verdict="refine", feedback=NOT_JUDGED), usage, fell_back=True)
    return AssessmentResult(to_assessment(reply), usage)


def to_assessment(reply: Assessed) -> Assessment:
    """The paper's verdict from a binary reward; a partial success, below 1, is no success."""
    feedback = excerpt(reply.feedback.strip(), FEEDBACK_LENGTH)
    if reply.reward >= 1:
        return Assessment(verdict="success", confidence=reply.confidence, feedback=feedback)
    return Assessment(verdict="refine" if reply.refine else "fail", confidence=reply.confidence, feedback=feedback)


def make_no_outcome_assessment(why: str) -> Assessment:
    """The assessment of a stage without an outcome: it may be tried again."""
    return Assessment(verdict="refine", feedback=excerpt(f"Nobody of the workflow answered: {why}", FEEDBACK_LENGTH))


async def compose_last_answer(
    state: TaskState, attempts: Sequence[str], meta_model: PromptedModel, *, scope: Scope
) -> tuple[str, Usage]:
    """The answer of a run in which no subtask succeeded: one synthesis of the attempts, oldest first.

    Without a valid reply, or where the task's calls are used up, it is the last attempt as it is.
    """
    share = 2 * ARTIFACT_LENGTH // len(attempts)
    parts = [excerpt(text, share, state.objective) for text in attempts]
    try:
        reply, usage = await meta_model.ask_or(
            None,
            LastAnswer,
            "synthesis",
            scope=scope.at(node="synthesis"),
            task=state.objective,
            state=format_state(state),
            attempts="\n\n".join(f"[attempt {n}]\n{text}" for n, text in enumerate(parts, 1)),
        )
    except TaskBudgetError:
        return attempts[-1], Usage()
    return (reply.answer.strip() if reply else "") or attempts[-1], usage
