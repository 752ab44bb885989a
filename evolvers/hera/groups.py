"""Group-relative comparison of the trajectories of one question (Sec. 3.1, Alg. 2)."""

from collections.abc import Sequence
from typing import Literal

from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel
from selfwire.evolvers.hera.library import UsageCounts, count_successes
from selfwire.evolvers.trajectory_text import count_agent_tokens, get_score

GroupKind = Literal["mixed", "zero", "other"]
"""Both successes and failures; only scores of 0; neither."""


class Group(FrozenModel):
    """The graded trajectories of one question.

    Args:
        order: indices of the trajectories in the batch, the best first.
        failed: index of the best-ranked failed trajectory; None if all succeeded.
    """

    question: str
    order: tuple[int, ...]
    outcome: GroupKind
    failed: int | None = None


def rank_trajectories(trajectories: Sequence[Trajectory], indices: Sequence[int]) -> tuple[int, ...]:
    """Indices of the graded trajectories of a group, by score, then by fewer tokens; ties by sample."""

    def key(index: int) -> tuple[float, int, int]:
        trajectory = trajectories[index]
        return -(get_score(trajectory) or 0.0), count_agent_tokens(trajectory), trajectory.sample

    return tuple(sorted(indices, key=key))


def classify_group(scores: Sequence[float], success_at: float) -> GroupKind:
    """The kind of a group with these scores."""
    if len({score >= success_at for score in scores}) == 2:
        return "mixed"
    return "zero" if scores and all(score == 0 for score in scores) else "other"


def make_groups(trajectories: Sequence[Trajectory], success_at: float) -> tuple[Group, ...]:
    """The groups of a batch, in the order of their questions; ungraded trajectories are left out."""
    indices: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        if get_score(trajectory) is not None:
            indices.setdefault(trajectory.question.id, []).append(index)
    return tuple(_group(question, found, trajectories, success_at) for question, found in indices.items())


def _group(question: str, indices: Sequence[int], trajectories: Sequence[Trajectory], success_at: float) -> Group:
    order = rank_trajectories(trajectories, indices)
    scores = [get_score(trajectories[index]) or 0.0 for index in order]
    failed = next((index for index, score in zip(order, scores, strict=True) if score < success_at), None)
    return Group(question=question, order=order, outcome=classify_group(scores, success_at), failed=failed)


def count_uses(trajectories: Sequence[Trajectory], success_at: float) -> UsageCounts:
    """(uses, successes) of every insight that graded rollouts were shown, by its id."""
    scored = ((done, score) for done in trajectories if (score := get_score(done)) is not None)
    return count_successes(
        ((shown["id"], score) for done, score in scored for shown in done.notes.get("insights", ())), success_at
    )
