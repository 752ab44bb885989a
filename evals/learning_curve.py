"""The learning curve of a run: score and tokens of every query in the order of training (HERA, Sec. 5.3)."""

from collections.abc import Sequence

from pydantic import Field

from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel
from selfwire.evals.table import Column, ResultTable, build_table
from selfwire.evals.topology_metrics import compute_known_mean, format_known, split_by_query
from selfwire.evolvers.trajectory_text import get_score


class Point(FrozenModel):
    """A query of training.

    Args:
        query: its place, from 1.
        trajectories: their number, including errors, which count for no mean.
        score: mean over its graded trajectories; None if there is none.
        tokens: mean over them, planning included.
        window_score, window_tokens: means over the window that ends here; the first windows are shorter.
    """

    query: int = Field(ge=1)
    question: str
    trajectories: int = Field(ge=1)
    score: float | None
    tokens: float | None
    window_score: float | None
    window_tokens: float | None


def compute_learning_curve(trajectories: Sequence[Trajectory], window: int) -> tuple[Point, ...]:
    """Compute a point per query of trajectories in the order of training; a window has at least 1 query."""
    if window < 1:
        raise ValueError(f"a window has at least 1 query, not {window}")
    queries = split_by_query(trajectories)
    graded = [[trajectory for trajectory in some if get_score(trajectory) is not None] for some in queries]
    scores = [compute_known_mean([get_score(trajectory) for trajectory in some]) for some in graded]
    tokens = [compute_known_mean([float(trajectory.usage.tokens) for trajectory in some]) for some in graded]
    return tuple(
        Point(
            query=place,
            question=some[0].question.id,
            trajectories=len(some),
            score=scores[place - 1],
            tokens=tokens[place - 1],
            window_score=compute_known_mean(scores[max(place - window, 0) : place]),
            window_tokens=compute_known_mean(tokens[max(place - window, 0) : place]),
        )
        for place, some in enumerate(queries, 1)
    )


def build_curve_table(curve: Sequence[Point], window: int) -> ResultTable:
    """Build a table with a row per query."""
    columns = (
        Column[Point]("query", lambda point: str(point.query)),
        Column[Point]("score", lambda point: format_known(point.score, ",.3f")),
        Column[Point]("tokens", lambda point: format_known(point.tokens, ",.0f")),
        Column[Point]("score so far", lambda point: format_known(point.window_score, ",.3f")),
        Column[Point]("tokens so far", lambda point: format_known(point.window_tokens, ",.0f")),
        Column[Point]("question", lambda point: point.question),
    )
    note = f"score and tokens: means over a query's trajectories; so far: over the last {window} queries"
    return build_table(columns, curve, (note,))
