"""A task's outcome as LangSmith feedback: the environment's figures, and errors as another measure."""

from collections.abc import Mapping
from typing import Any

from langsmith.evaluation import EvaluationResult

from selfwire.core.trajectory import Trajectory
from selfwire.evals.baselines.single import CUT
from selfwire.evals.evaluation.rows import make_task_row
from selfwire.graphs.rollouts import get_fault

SCORE, SOLVED, ERROR = "score", "solved", "error"
"""Keys of feedback; `error` is 1 for a task that ended as an error, which has no `score`."""


def make_feedback(done: Trajectory) -> list[EvaluationResult]:
    """Feedback on a graded trajectory, with the same scores as the local rows.

    A task that ended as an error is neither solved nor unsolved, so it has no score that a mean could count as 0. The
    environment's text is the comment of the score; its other figures are further measures.
    """
    row, error, feedback = make_task_row("", done.question, done, done.usage, ""), get_failure(done), done.feedback
    failed = EvaluationResult(key=ERROR, score=float(error is not None), comment=error)
    if row.score is None:
        return [failed]
    comment = feedback.text if feedback else "Its calls were used up before it had an answer."
    is_complete = feedback is not None and not done.notes.get(CUT)  # after a cut, some calls are not counted
    costs = {"calls": row.calls, "tokens": row.input_tokens + row.output_tokens} if is_complete else {}
    figures = {**costs, **_select_figures(row.details)}
    return [
        EvaluationResult(key=SCORE, score=row.score, comment=comment),
        EvaluationResult(key=SOLVED, score=float(bool(row.solved))),
        failed,
        *(EvaluationResult(key=name, score=figure) for name, figure in figures.items()),
    ]


def get_failure(done: Trajectory) -> str | None:
    """Why a task ended as an error, in words that may be uploaded; None if its cap of calls ended it."""
    return get_fault(done) if make_task_row("", done.question, done, done.usage, "").error else None


def _select_figures(details: Mapping[str, Any]) -> dict[str, float]:
    taken = (SCORE, SOLVED, ERROR)
    return {n: float(v) for n, v in details.items() if isinstance(v, int | float) and n not in taken}
