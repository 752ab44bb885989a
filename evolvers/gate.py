"""The gate decides, on fresh tasks that both have run, whether a candidate replaces the incumbent. Method-free."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from selfwire.core.values import FrozenModel

TIE = 1e-9  # differences of mean scores below this are ties


class GateDecision(FrozenModel):
    """The gate's decision.

    Args:
        why: the reason, with the figures.
        difference: mean of candidate - incumbent over the compared tasks; None if none could be compared.
        compared: tasks that both finished.
        left_out: tasks that ended as an error for either.
        patience_used: ties at more calls that were accepted in a row, this decision included.
        try_pruning: whether the patience is used up, so that a cheaper workflow should be tried.
        unchanged: why there was nothing to compare, where the team is as it was: no change was proposed, or only what
            could not be used.
    """

    accepted: bool
    why: str
    difference: float | None
    compared: int = Field(ge=0)
    left_out: int = Field(ge=0)
    patience_used: int = Field(ge=0)
    try_pruning: bool = False
    unchanged: Literal["", "no change", "unusable reply"] = ""


def name_outcome(decision: Mapping[str, Any]) -> str:
    """Outcome of an iteration by its decision on record: accepted, rejected, no change or unusable reply."""
    return decision.get("unchanged") or ("accepted" if decision["accepted"] else "rejected")


def decide(
    incumbent_scores: Sequence[float | None],
    candidate_scores: Sequence[float | None],
    incumbent_calls: Sequence[float],
    candidate_calls: Sequence[float],
    patience_used: int,
    *,
    margin: float = 0.0,
    patience: int = 3,
) -> GateDecision:
    """Accept if the paired mean difference is at least the margin; ties at more calls only so often in a row.

    Args:
        incumbent_scores, candidate_scores: N scores in [0, 1], task by task; None for an error.
        incumbent_calls, candidate_calls: N model calls, task by task.
        patience_used: ties at more calls that were accepted in a row before this one.
        margin: least difference, >= 0.
        patience: most ties at more calls in a row.

    Raises:
        ValueError: the sequences differ in length, or the margin is negative.
    """
    lengths = {len(s) for s in (incumbent_scores, candidate_scores, incumbent_calls, candidate_calls)}
    if len(lengths) != 1:
        raise ValueError(f"scores and calls must name the same tasks; lengths are {sorted(lengths)}")
    if margin < 0:
        raise ValueError(f"the margin must be at least 0, not {margin}")
    rows = zip(incumbent_scores, candidate_scores, incumbent_calls, candidate_calls, strict=True)
    pairs = [(new - old, after - before) for old, new, before, after in rows if old is not None and new is not None]
    left_out = len(incumbent_scores) - len(pairs)
    if not pairs:
        why = f"no task could be compared: all {left_out} ended as an error"
        return GateDecision(
            accepted=False, why=why, difference=None, compared=0, left_out=left_out, patience_used=patience_used
        )
    difference, extra = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    accepted, why, used = _rule(difference, extra, patience_used, margin, patience)
    return GateDecision(
        accepted=accepted,
        why=f"{why} over {len(pairs)} tasks",
        difference=difference,
        compared=len(pairs),
        left_out=left_out,
        patience_used=used,
        try_pruning=not accepted and abs(difference) < TIE and margin < TIE,
    )


def _rule(difference: float, extra: float, used: int, margin: float, patience: int) -> tuple[bool, str, int]:
    if difference < margin - TIE:
        return False, f"mean difference {difference:+.3f} is below the margin {margin:.3f}", used
    if abs(difference) >= TIE or extra <= 0:
        return True, f"mean difference {difference:+.3f} at {extra:+.2f} calls per task", 0
    if used < patience:
        return True, f"a tie at {extra:+.2f} calls per task, {used + 1} of {patience} in a row", used + 1
    return False, f"a tie at {extra:+.2f} calls per task, and {patience} such ties in a row were accepted", used
