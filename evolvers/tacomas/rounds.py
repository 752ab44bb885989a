"""Records of rounds, the best round, and the figures of a run (Alg. 1, App. C.3-C.7)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import sqrt
from typing import Literal, NamedTuple

from pydantic import Field

from selfwire.core.edits import Rewiring
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Message, Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel
from selfwire.evolvers.tacomas.judge import Contribution, Judgement, mean_contribution
from selfwire.evolvers.tacomas.schemas import TimeControl
from selfwire.evolvers.tacomas.slow import Delta, RefusedChange
from selfwire.evolvers.tacomas.work import Notes

StopReason = Literal["threshold", "rounds", "price", "stop", "failure", "stopped"]
"""A confirmed score reached tau; R rounds are over; another round was not expected to pay for its calls; the meta-model
stopped; a model outside the team failed; a budget or an outage has stopped the run."""


class TacomasRound(FrozenModel):
    """A round of a run.

    Args:
        number: t, from 0.
        answer: the sink's; None if the round ended without one.
        error: why there is no answer.
        silent: agents whose model failed, with the reason; the team went on without them.
        score: s_t, the judge's; None where there is no answer or no valid verdict.
        confirmed: whether a second judgement reached the threshold too.
        failed: what the checklist's items that did not pass ask for.
        struck: criteria of its items that the task allows no answer to pass.
        weights: w_v per agent after the replicator's update of this round.
        notes: what the coach wrote after the round, by agent.
        mean: m_t; None where no agent was scored.
        slow: whether a slow update followed.
        applied: its rewirings.
        refused: its proposals, and the coach's, that were not carried out, with reasons.
        lost: messages on their way to agents that died, as `source->target`.
        control: the meta-model's word on whether to go on.
        fault: why the run ended with this round: how the judge or the meta-model failed; None if neither did.
        usage: cost of the round: team, judging, coaching, slow update.
    """

    number: int = Field(ge=0)
    goal: str
    answer: str | None = None
    error: str | None = None
    silent: FrozenJson = Field(default_factory=FrozenMap)
    score: float | None = Field(default=None, ge=0, le=1)
    confirmed: bool = False
    failed: tuple[str, ...] = ()
    struck: tuple[str, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    weights: FrozenJson = Field(default_factory=FrozenMap)
    notes: FrozenJson = Field(default_factory=FrozenMap)
    mean: float | None = None
    nodes: int = 0
    edges: int = 0
    topology: Topology | None = None
    slow: bool = False
    applied: tuple[Rewiring, ...] = ()
    refused: tuple[RefusedChange, ...] = ()
    births: tuple[str, ...] = ()
    deaths: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    control: TimeControl = "continue"
    rationale: str = ""
    fault: str | None = None
    usage: Usage = Usage()


class Figures(FrozenModel):
    """Figures of a run.

    Args:
        best: number of the round whose answer was given; None if none has one.
        stop: why the run ended.
        means: m_t per round; None where no agent was scored, as in the last round (D12).
        mean_change: mean of m_{t+1} - m_t over consecutive rounds with both; None if there are none.
        standard_error: of that mean; None with fewer than two changes.
        first_score, best_score: the judge's.
        judged: the judge's word on the answer that was given: whether it is confirmed as good; None if it was not
            scored.
        oracle: whether labels were used; never.
    """

    rounds: int
    best: int | None
    stop: StopReason
    means: tuple[float | None, ...]
    mean_change: float | None
    standard_error: float | None
    slow_updates: int
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    topology: Topology | None
    first_score: float | None
    best_score: float | None
    judged: bool | None
    calls: int
    oracle: Literal[False] = False

    @property
    def measures(self) -> dict[str, float]:
        """Figures that evaluations average over runs (App. C.3, C.4 and C.7)."""
        found = {
            "change of contributions per round": self.mean_change,
            "slow updates": self.slow_updates,
            "agents more than at first": self.nodes[-1] - self.nodes[0],
            "edges more than at first": self.edges[-1] - self.edges[0],
        }
        return {name: float(value) for name, value in found.items() if value is not None}


class RunSoFar(NamedTuple):
    """Material of coach and meta-model (xi in Eq. 1).

    Attributes:
        rounds: all so far, at least one.
        done: the team's work in the last round.
        notes: refinements that the agents have.
    """

    rounds: Sequence[TacomasRound]
    done: Trajectory
    notes: Notes


def begin_round(
    before: Sequence[TacomasRound], done: Trajectory, topology: Topology, weights: Mapping[str, float]
) -> TacomasRound:
    """The record of a round that the team has run.

    Args:
        before: the rounds before it, the last of which sets its goal.
    """
    return TacomasRound(
        number=len(before),
        goal="; ".join(before[-1].failed) if before and before[-1].failed else "Answer the task.",
        answer=done.answer,
        error=done.error,
        silent={step.agent: step.error for step in done.steps if step.error is not None},
        weights=weights,
        nodes=len(topology.nodes),
        edges=len(topology.edges),
        topology=topology,
        usage=done.usage,
    )


def with_judgement(
    last: TacomasRound, found: Judgement, scores: tuple[Contribution, ...], *, fault: str | None, cost: Usage
) -> TacomasRound:
    """The last round with what the judge found.

    Args:
        fault: how the judge failed; None if it did not.
        cost: of the contributions' scores or of the failure.
    """
    return last.replace(
        score=found.score,
        confirmed=found.confirmed,
        failed=found.failed,
        struck=found.struck,
        contributions=scores,
        mean=mean_contribution(scores),
        fault=fault,
        usage=last.usage + found.usage + cost,
    )


def with_slow_update(last: TacomasRound, delta: Delta, lost: Sequence[Message]) -> TacomasRound:
    """The last round with the slow update that followed it."""
    return last.replace(
        slow=True,
        applied=delta.applied,
        refused=delta.refused,
        births=delta.births,
        deaths=delta.deaths,
        lost=tuple(f"{message.source}->{message.target}" for message in lost),
        control=delta.control,
        rationale=delta.rationale,
        usage=last.usage + delta.usage,
    )


def find_best_round(rounds: Sequence[TacomasRound]) -> int | None:
    """Number of the answered round with the highest score, ties to the latest (D4); None if none has an answer.

    A confirmed round comes before all others: a score whose second verdict was not valid is doubtful.
    """
    answered = [done for done in rounds if done.answer is not None]
    if not answered:
        return None
    best = max(answered, key=lambda done: (done.confirmed, -1.0 if done.score is None else done.score, done.number))
    return best.number


def compute_expected_gain(rounds: Sequence[TacomasRound]) -> float:
    """Gain of the best score that another round lets one expect (D24): min(1 - max s, (1 - s_0) / n) after n rounds.

    It is the mean gain of the rounds before, what is missing counted as if one more round had brought all of it, and at
    most what is missing. A round without a score counts 0.
    """
    scores = [done.score or 0.0 for done in rounds]
    return min(1.0 - max(scores), (1.0 - scores[0]) / len(scores))


def find_stop_reason(rounds: Sequence[TacomasRound], *, limit: int, price: float = 0.0) -> StopReason | None:
    """Why a run ends after its last round; None if it goes on.

    Args:
        rounds: all so far, at least one.
        price: score that the team's calls in another round cost, as in the last one (D24).
    """
    last = rounds[-1]
    if last.confirmed:
        return "threshold"
    if last.fault is not None:
        return "failure"
    if last.control == "stop":
        return "stop"
    if len(rounds) >= limit:
        return "rounds"
    return "price" if compute_expected_gain(rounds) < price else None


def render_goal(run: "RunSoFar") -> str:
    """What the last answer did not achieve, for coach and meta-model, and what no answer can."""
    last = run.rounds[-1]
    goals = [*last.failed, *([] if run.done.answer else ["An answer: the last round ended without one."])]
    struck = [f"Not to be pursued, as the task allows no answer that meets it: {text}" for text in last.struck]
    return "\n".join(f"- {text}" for text in (*goals, *struck))


def is_slow(rounds: Sequence[TacomasRound], *, interval: int, threshold: float) -> bool:
    """Whether a slow update follows the last round (Alg. 1, line 9).

    Its score is below tau or missing, and (t + 1) mod K = 0 or the slow update before asked for another.
    """
    last = rounds[-1]
    due = len(rounds) % interval == 0 or (len(rounds) > 1 and rounds[-2].control == "slow_again")
    return due and (last.score is None or last.score < threshold)


def changes(means: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean of the changes m_{t+1} - m_t, and its standard error."""
    steps = [after - before for before, after in pairwise(means) if before is not None and after is not None]
    if not steps:
        return None, None
    mean = sum(steps) / len(steps)
    if len(steps) < 2:
        return mean, None
    variance = sum((step - mean) ** 2 for step in steps) / (len(steps) - 1)
    return mean, sqrt(variance / len(steps))


def compute_figures(rounds: Sequence[TacomasRound], *, stop: StopReason, calls: int) -> Figures:
    """The figures of a finished run."""
    means = tuple(done.mean for done in rounds)
    best = find_best_round(rounds)
    mean, error = changes(means)
    return Figures(
        rounds=len(rounds),
        best=best,
        stop=stop,
        means=means,
        mean_change=mean,
        standard_error=error,
        slow_updates=sum(done.slow for done in rounds),
        nodes=tuple(done.nodes for done in rounds),
        edges=tuple(done.edges for done in rounds),
        topology=rounds[-1].topology,
        first_score=rounds[0].score,
        best_score=None if best is None else rounds[best].score,
        judged=None if best is None or rounds[best].score is None else rounds[best].confirmed,
        calls=calls,
    )


def count_agreement(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """How often judge and environment agreed on an answer, where both graded it.

    Returns:
        `judged` cases, `agreed` ones, and the two ways to be wrong: `passed_wrong` and `failed_right`.
    """
    graded = [(done.notes.get("figures", {}), done.feedback) for done in trajectories if done.feedback]
    words = [(figures.get("judged"), feedback.solved) for figures, feedback in graded]
    known = [(judged, solved) for judged, solved in words if judged is not None]
    return {
        "judged": len(known),
        "agreed": sum(judged == solved for judged, solved in known),
        "passed_wrong": sum(judged and not solved for judged, solved in known),
        "failed_right": sum(solved and not judged for judged, solved in known),
    }
