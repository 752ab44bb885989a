"""What LangSmith is told of a task's outcome: the environment's figures, and errors as a measure of their own."""

from collections.abc import Mapping
from typing import Any

from langsmith.evaluation import EvaluationResult

from selfwire.core.trajectory import Trajectory
from selfwire.evals.baselines.single import CUT
from selfwire.evals.evaluation.rows import make_task_row
from selfwire.graphs.rollouts import get_fault

SCORE, SOLVED, ERROR = "score", "solved", "error"
"""Keys of feedback; `error` is 1 for a task that ended as an error, which has no `score` then."""


def make_feedback(done: Trajectory) -> list[EvaluationResult]:
    """Feedback on a graded trajectory, with the scores of the local harness's rows.

    A task that ended as an error is neither solved nor unsolved, so it has no score that a mean could count as 0.
    What the environment said in words is the comment of the score; other figures of it are measures of their own.
    """
    row, error, feedback = make_task_row("", done.question, done, done.usage, ""), get_failure(done), done.feedback
    told = [EvaluationResult(key=ERROR, score=float(error is not None), comment=error)]
    if row.score is None:
        return told
    said = feedback.text if feedback else "Its calls were used up before it had an answer."
    told.insert(0, EvaluationResult(key=SCORE, score=row.score, comment=said))
    told.insert(1, EvaluationResult(key=SOLVED, score=float(bool(row.solved))))
    known = feedback is not None and not done.notes.get(CUT)  # what a cap cut short has steps that nobody counted
    costs = {"calls": row.calls, "tokens": row.input_tokens + row.output_tokens} if known else {}
    figures = {**costs, **_figures(row.details)}
    return told + [EvaluationResult(key=name, score=figure) for name, figure in figures.items()]


def get_failure(done: Trajectory) -> str | None:
    """Why a task ended as an error, in words that may be uploaded; None where its cap of calls ended it."""
    return get_fault(done) if make_task_row("", done.question, done, done.usage, "").error else None


def _figures(details: Mapping[str, Any]) -> dict[str, float]:
    taken = (SCORE, SOLVED, ERROR)
    return {n: float(v) for n, v in details.items() if isinstance(v, int | float) and n not in taken}
