"""What LangSmith is told of a task's outcome: the environment's figures, and errors as a measure of their own."""

from collections.abc import Mapping
from typing import Any

from langsmith.evaluation import EvaluationResult

from selfwire.core.trajectory import Trajectory
from selfwire.graphs.evolution.rollouts import fault

SCORE, SOLVED, ERROR = "score", "solved", "error"
"""Keys of feedback; `error` is 1 for a task that ended as an error, which has no `score` then."""


def measures(done: Trajectory) -> list[EvaluationResult]:
    """Feedback on a graded trajectory.

    A task that ended as an error is neither solved nor unsolved, so it has no score that a mean could count as 0.
    What the environment said in words is the comment of the score; other figures of it are measures of their own.
    """
    error, feedback = fault(done), done.feedback
    told = [EvaluationResult(key=ERROR, score=float(error is not None), comment=error)]
    if feedback is None:
        return told
    figures = {"calls": done.usage.calls, "tokens": done.usage.tokens, **_figures(feedback.details)}
    return [
        EvaluationResult(key=SCORE, score=feedback.score, comment=feedback.text),
        EvaluationResult(key=SOLVED, score=float(feedback.solved)),
        *told,
        *(EvaluationResult(key=name, score=figure) for name, figure in figures.items()),
    ]


def _figures(details: Mapping[str, Any]) -> dict[str, float]:
    taken = (SCORE, SOLVED, ERROR)
    return {n: float(v) for n, v in details.items() if isinstance(v, int | float) and n not in taken}
