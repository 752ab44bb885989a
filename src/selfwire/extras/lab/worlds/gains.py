"""Gains in a world: the largest possible one, the gain of each system, and the share of a mechanism in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from selfwire.core.values import FrozenModel
from selfwire.evals.statistics import IntervalEstimate, compute_mean, compute_student_interval
from selfwire.evals.table import Column, build_table, format_difference

SYSTEM = Column[str]("system", str)


class WorldResult(FrozenModel):
    """Figures of a seed.

    Args:
        figures: numbers by name, of each system; which ones is the world's matter. `made` and `free` are decisions.
    """

    seed: int
    figures: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Scale:
    """The scale on which a world's systems are compared.

    Attributes:
        figure: the figure that counts; more is better.
        least: the system that gets nothing of the possible gain, such as chance or the team as it starts.
        most: the system that gets all of it: an upper bound, computed where it can be.
        main: the method as it is.
        tasks: what the figure is divided by to be a score per task.
        digits: of differences behind the decimal point.
    """

    figure: str
    least: str
    most: str
    main: str
    tasks: int = 1
    digits: int = 2

    def score(self, result: WorldResult, name: str) -> float:
        """A system's score per task with one seed."""
        return result.figures[name][self.figure] / self.tasks

    def estimate(self, results: Sequence[WorldResult], name: str) -> IntervalEstimate:
        """A system's score, over seeds."""
        return compute_student_interval([self.score(result, name) for result in results])

    def rank(self, results: Sequence[WorldResult]) -> list[str]:
        """The systems, the best first."""
        return sorted(results[0].figures, key=lambda name: -self.estimate(results, name).value)

    def compare(
        self, results: Sequence[WorldResult], name: str, other: str, confidence: float = 0.95
    ) -> IntervalEstimate:
        """How much more one system scores than another, paired by seed."""
        differences = [self.score(result, name) - self.score(result, other) for result in results]
        return compute_student_interval(differences, confidence)

    def claim(self, mechanism: str, control: str, main: str = "") -> "Claim":
        """Make a claim on this scale; without `main` the system that has the mechanism is the main one."""
        return Claim(self, mechanism, main or self.main, control)


@dataclass(frozen=True)
class Claim:
    """Worth of a mechanism: a system that has it less one that lacks only it; `Scale.claim` makes it.

    Attributes:
        mechanism: what is switched.
        main, control: the systems with it and without it.
    """

    scale: Scale
    mechanism: str
    main: str
    control: str

    def compare(self, results: Sequence[WorldResult], confidence: float = 0.95) -> IntervalEstimate:
        """The measured gain, paired by seed."""
        return self.scale.compare(results, self.main, self.control, confidence)

    def compute_possible(self, results: Sequence[WorldResult]) -> float:
        """How much more than the control the best possible system scores."""
        return self.scale.compare(results, self.scale.most, self.control).value


def format_gains(results: Sequence[WorldResult], scale: Scale, claims: Sequence[Claim] = ()) -> str:
    """Markdown: the possible gain, each system's part of it, best first, and what each mechanism is worth."""
    gain = scale.compare(results, scale.most, scale.least)
    least, most = (scale.estimate(results, name).value for name in (scale.least, scale.most))
    text = f"{len(results)} seeds. {scale.least} scores {least:.2f}, {scale.most} {most:.2f}; possible gain {gain}."
    shown = [text, build_table(_list_columns(results, scale, gain.value), scale.rank(results)).markdown]
    if claims:
        shown.append(build_table(list_claim_columns(results), claims).markdown)
    return "\n\n".join(shown)


def list_claim_columns(results: Sequence[WorldResult], comparisons: int = 1) -> tuple[Column[Claim], ...]:
    """The columns of a table of claims; one says what is left of each as one of several comparisons (Bonferroni)."""

    def compare_width(claim: Claim) -> str:
        gain, possible = claim.compare(results), claim.compute_possible(results)
        return f"{(gain.high - gain.low) / 2 / possible:.2f}" if possible > 0 else "-"

    def stands(claim: Claim) -> str:
        gain = claim.compare(results, 1 - 0.05 / comparisons)
        return "yes" if gain.low > 0 or gain.high < 0 else "no"

    return (
        Column("mechanism", lambda claim: claim.mechanism),
        Column("best possible gain on the control", lambda claim: f"{claim.compute_possible(results):.2f}"),
        Column(
            "measured gain, paired [95 %]",
            lambda claim: format_difference(claim.compare(results), claim.scale.digits),
        ),
        Column(f"not 0 over all {comparisons}", stands if comparisons > 1 else lambda claim: "-", "-"),
        Column("half the interval, of the possible gain", compare_width),
        Column("with", lambda claim: claim.main),
        Column("control", lambda claim: claim.control),
        Column("free decisions", lambda claim: format_decisions(results, claim.main), "-"),
    )


def format_decisions(results: Sequence[WorldResult], name: str) -> str:
    """The free decisions of a system among all that it made; a dash where it makes none."""
    made, free = (sum(int(result.figures[name].get(figure, 0)) for result in results) for figure in ("made", "free"))
    return f"{free:,} of {made:,}" if made else "-"


def mean_column(results: Sequence[WorldResult], figure: str, form: str = ".1f", title: str = "") -> Column[str]:
    """The mean of a figure over seeds, by system; a dash for a system without it."""

    def format_mean(name: str) -> str:
        found = [result.figures[name][figure] for result in results if figure in result.figures[name]]
        return f"{compute_mean(found):{form}}" if found else "-"

    return Column(title or figure, format_mean, "-")


def _list_columns(results: Sequence[WorldResult], scale: Scale, gain: float) -> tuple[Column[str], ...]:
    def share(name: str) -> str:
        return f"{scale.compare(results, name, scale.least).value / gain:.2f}" if gain else "-"

    def compare(name: str) -> str:
        return format_difference(scale.compare(results, scale.main, name) if name != scale.main else None, scale.digits)

    return (
        SYSTEM,
        Column("score [95 %]", lambda name: str(scale.estimate(results, name))),
        Column("share of the possible gain", share),
        Column(f"{scale.main} − this, paired", compare),
        mean_column(results, "calls", ",.0f"),
        mean_column(results, "tokens", ",.0f"),
        Column("free decisions", lambda name: format_decisions(results, name), "-"),
    )
