"""The result of a run in a sentence."""

from collections import Counter
from collections.abc import Iterable, Sequence

from selfwire.core.values import format_count
from selfwire.evals.statistics import IntervalEstimate, compute_student_interval
from selfwire.extras.pages.data import MechanismLine, Place, SystemLine, TeamVersion

_NAMED = 3
"""Most gains that a verdict names."""


def describe_verdict(
    method: str, systems: Iterable[SystemLine], gain: IntervalEstimate | None, worth: str, status: str
) -> str:
    """Gain on test tasks and whether it is worth its calls, as `worth` says; without a test the state so far."""
    lines = {line.name: line for line in systems}
    before, after = lines.get("seed team"), lines.get("evolved team")
    if gain is None or before is None or after is None or before.score is None or after.score is None:
        return f"No test yet: this evolution with {method} is {status}."
    scores = f"{before.score.value:.2f} → {after.score.value:.2f} on {gain.n} held-out tasks"
    interval = f"{format_gain(gain)}{_compare_cost(before, after)}"
    said = f"{describe_gain('The team', gain)}: {scores}, {interval}."
    return f"{said} {worth[0].upper()}{worth[1:]}." if worth else said


def describe_gain(what: str, gain: IntervalEstimate) -> str:
    """Whether it got better, in words."""
    if gain.low > 0:
        return f"{what} got better"
    return f"{what} got worse" if gain.high < 0 else "No effect shown"


def format_gain(gain: IntervalEstimate) -> str:
    """A difference with its interval and signs, such as `+0.73 [+0.66, +0.81]`."""
    return f"{gain.value:+z.2f} [{gain.low:+z.2f}, {gain.high:+z.2f}]"


def get_gain(line: SystemLine | MechanismLine) -> float:
    """The gain of a line, by which lines are sorted; 0 where nothing was compared."""
    return line.gain.value if line.gain else 0.0


def name_gains(lines: Sequence[SystemLine | MechanismLine]) -> str:
    """The first gains by name, and how many there are more."""
    named = ", ".join(f"{line.name} {format_gain(line.gain)}" for line in lines[:_NAMED] if line.gain)
    return f"{named} and {len(lines) - _NAMED} more" if len(lines) > _NAMED else named


def estimate_scores(scores: Sequence[float]) -> IntervalEstimate:
    """Mean of one score per seed with Student's interval; no width for a single seed."""
    if len(scores) < 2:
        return IntervalEstimate(value=scores[0], low=scores[0], high=scores[0], n=1)
    return compute_student_interval(scores).clip(0, 1)


def _compare_cost(before: SystemLine, after: SystemLine) -> str:
    if not before.calls:
        return ""
    times = after.calls / before.calls
    return f", at {times:.1f} times the calls" if round(times, 1) != 1 else ", at as many calls"


def make_standfirst(versions: Iterable[TeamVersion], places: Iterable[Place]) -> str:
    """How the team got there, in a sentence or two."""
    versions = tuple(versions)
    if not versions:
        return "Nothing has been saved yet."
    outcomes = Counter(version.outcome for version in versions if version.outcome)
    listed = ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items())) or "none yet"
    many = len({done.task for place in places for done in place.outcomes})
    first, last = versions[0], versions[-1]
    grown = f"from {format_count(len(first.nodes), 'agent')} to {len(last.nodes)}"
    return f"Outcomes of iterations: {listed}. The team went {grown}. {format_count(many, 'task')} were run."
