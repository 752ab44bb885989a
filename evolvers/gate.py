"""The gate: is a candidate accepted in the place of the incumbent, on fresh tasks that both have run? Method-free."""

from collections.abc import Sequence

from pydantic import Field

from selfwire.core.values import FrozenModel

TIE = 1e-9
"""Differences of mean scores below this are ties."""


class GateDecision(FrozenModel):
    """What the gate decides.

    Args:
        accepted: whether the candidate takes the incumbent's place.
        why: the reason, with the figures.
        difference: mean of candidate - incumbent over the compared tasks; None if none could be compared.
        compared: tasks that both finished.
        left_out: tasks that ended as an error for either.
        patience_used: equal scores at more calls that were accepted in a row, this verdict included.
        try_pruning: whether the patience is used up, so that a cheaper workflow should be tried.
    """

    accepted: bool
    why: str
    difference: float | None
    compared: int = Field(ge=0)
    left_out: int = Field(ge=0)
    patience_used: int = Field(ge=0)
    try_pruning: bool = False


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
    """Accept if the paired mean difference is at least the margin; a dearer tie only so often in a row.

    Args:
        incumbent_scores, candidate_scores: N scores in [0, 1], task by task; None for an error.
        incumbent_calls, candidate_calls: N model calls, task by task.
        patience_used: dearer ties accepted in a row before this one.
        margin: least difference, >= 0.
        patience: most dearer ties in a row.

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
        return _verdict(False, why, None, 0, left_out, patience_used)
    difference, dearer = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    accepted, why, used = _ruling(difference, dearer, patience_used, margin, patience)
    verdict = _verdict(accepted, f"{why} over {len(pairs)} tasks", difference, len(pairs), left_out, used)
    return verdict.replace(try_pruning=not accepted and abs(difference) < TIE and margin < TIE)


def _ruling(difference: float, dearer: float, used: int, margin: float, patience: int) -> tuple[bool, str, int]:
    if difference < margin - TIE:
        return False, f"mean difference {difference:+.3f} is below the margin {margin:.3f}", used
    if abs(difference) >= TIE or dearer <= 0:
        return True, f"mean difference {difference:+.3f} at {dearer:+.2f} calls per task", 0
    if used < patience:
        return True, f"a tie at {dearer:+.2f} calls per task, {used + 1} of {patience} in a row", used + 1
    return False, f"a tie at {dearer:+.2f} calls per task, and {patience} such ties in a row were accepted", used


def _verdict(
    accepted: bool, why: str, difference: float | None, compared: int, left_out: int, used: int
) -> GateDecision:
    return GateDecision(
        accepted=accepted, why=why, difference=difference, compared=compared, left_out=left_out, patience_used=used
    )
