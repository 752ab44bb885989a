"""The table of a study, in Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from selfwire.core.errors import ConfigError
from selfwire.core.trajectory import DecisionCount, sum_decisions
from selfwire.core.values import format_count
from selfwire.evals.statistics import IntervalEstimate, compute_mean, compute_paired_interval, compute_sd
from selfwire.evals.table import Column, format_difference
from selfwire.evals.table import build_table as build_columns
from selfwire.extras.lab.ablation.plan import Study
from selfwire.extras.lab.ablation.rows import OUTCOMES, EvolutionRow, VariantRow
from selfwire.graphs.method import FULL
from selfwire.runs.spec import STAMP

DASH = "—"
_format_difference = partial(format_difference, digits=3, missing=DASH)
UNDECIDED = "nothing to decide"


class VariantRows(NamedTuple):
    """The rows of a variant, one per seed.

    Attributes:
        against: the variant that it lacks a part of; "" for one that is compared with none.
        difference: `against` − this, over the seeds that both have.
        undecided: whether what it switches off never had a choice, so that nothing is compared.
    """

    title: str
    rows: Sequence[VariantRow]
    against: str = ""
    difference: IntervalEstimate | None = None
    undecided: bool = False

    @property
    def versus(self) -> str:
        """The difference formatted; the variant that it is from is named unless it is `full`."""
        if not self.against:
            return DASH
        if self.undecided:
            return UNDECIDED
        difference = _format_difference(self.difference)
        return difference if self.against == FULL else f"{difference} from {self.against}"

    @property
    def scores(self) -> list[float]:
        """Scores after the evolution."""
        return [row.after for row in self.rows]

    @property
    def evolved(self) -> list[EvolutionRow]:
        """The rows of evolutions."""
        return [row for row in self.rows if isinstance(row, EvolutionRow)]

    @property
    def decisions(self) -> DecisionCount | None:
        """Decisions of the router over all seeds."""
        return sum_decisions(row.decisions for row in self.rows)

    @property
    def outcomes(self) -> str:
        """Mean counts of iterations by their outcome."""
        return " / ".join(map(self.format_mean, OUTCOMES.values()))

    def format_mean(self, figure: str, form: str = ".1f", missing: str = DASH) -> str:
        """The mean of a figure, if every row has it."""
        found = [getattr(row, figure) for row in self.rows]
        return missing if None in found else format(compute_mean([float(number) for number in found]), form)


def _mean(name: str, figure: str, form: str = ".1f", missing: str = DASH) -> Column[VariantRows]:
    return Column(name, lambda variant: variant.format_mean(figure, form, missing))


VARIANT = Column[VariantRows]("variant", lambda variant: variant.title)
AFTER = Column[VariantRows]("score after, mean ± sd", lambda variant: format_spread(variant.scores))
RANGE = Column[VariantRows]("range", lambda variant: format_range(variant.scores))
VERSUS = Column[VariantRows]("full − variant [95 %]", lambda variant: variant.versus)
COSTS = (_mean("calls/task", "calls"), _mean("tokens/task", "tokens", ",.0f"))
FREE = Column[VariantRows]("free decisions", lambda variant: str(variant.decisions or DASH), silent=DASH)
BOUGHT = (_mean("score per 100 calls", "per_hundred_calls"), _mean("S", "efficiency", missing="n/a"))
SPENT = Column[VariantRows](
    "calls of the evolution",
    lambda variant: variant.format_mean("evolution_calls", ",.0f") if variant.evolved else DASH,
    silent=DASH,
)
EVOLUTION_COLUMNS = (
    VARIANT,
    AFTER,
    RANGE,
    Column[VariantRows]("after − before [95 %]", lambda variant: _format_difference(compute_gain(variant.evolved))),
    VERSUS,
    FREE,
    _mean("nodes", "nodes"),
    *COSTS,
    *BOUGHT,
    Column[VariantRows](" / ".join(OUTCOMES), lambda variant: variant.outcomes),
    SPENT,
)
EVALUATION_COLUMNS = (
    VARIANT,
    Column[VariantRows]("score, mean ± sd", lambda variant: format_spread(variant.scores)),
    RANGE,
    VERSUS,
    FREE,
    *COSTS,
    _mean("rounds/task", "rounds"),
    *BOUGHT,
    Column[VariantRows]("errors", lambda variant: str(sum(row.errors for row in variant.rows))),
)


def build_table(study: Study, rows: Sequence[VariantRow], command: str = "") -> str:
    """Markdown: the sizes and the command, a line per variant, and notes.

    Intervals are Student's, over seeds, paired by seed.
    """
    variants = list_variants(study, rows)
    table = build_columns(EVOLUTION_COLUMNS if study.evolves else EVALUATION_COLUMNS, [*variants.values()])
    if cells := _seed_cells(VariantRows("", rows).evolved):
        table = table._replace(rows=(tuple(cells.get(name, DASH) for name in table.head), *table.rows))
    about = [
        describe_sizes(study, len({row.seed for row in rows})),
        *([f"{STAMP}."] if study.models.is_offline else []),
        *([f"Made with `{command}`."] if command else []),
    ]
    notes = [*_notes(rows), *_list_undecided(variants), *_list_idle(variants)]
    return "\n\n".join(["\n".join(about), table.markdown, "\n".join(notes)]) + "\n"


def build_comparison(
    studies: Sequence[tuple[Study, Sequence[VariantRow]]], against: str, chosen: Sequence[str] = ()
) -> str:
    """Markdown: variants of studies of several methods beside one of them, on the seeds that both have.

    Args:
        against: METHOD/VARIANT.
        chosen: the variants that are shown, named so; all by default.

    Raises:
        ConfigError: the studies have other test tasks, or there is no such variant.
    """
    if len({(compared.benchmark, compared.sizes, compared.models) for compared, _ in studies}) > 1:
        raise ConfigError("studies that are compared need one benchmark, one set of sizes and the same models")
    found = {
        f"{study.method}/{name}": VariantRows(f"{study.method}, {study.known[name].title}", kept)
        for study, rows in studies
        for name in study.chosen
        if (kept := [row for row in rows if row.variant == name])
    }
    if missing := [name for name in (against, *chosen) if name not in found]:
        raise ConfigError(f"there are no rows of {missing[0]!r}; there are {', '.join(found)}")
    main = found[against]
    columns: tuple[Column[VariantRows], ...] = (
        VARIANT,
        Column("seeds", lambda variant: str(len(variant.rows))),
        AFTER,
        Column(f"{main.title} − this [95 %]", lambda variant: _format_difference(_compare(variant, main))),
        COSTS[0],
        SPENT,
    )
    return build_columns(columns, [found[name] for name in chosen or found]).markdown


def _compare(variant: VariantRows, main: VariantRows) -> IntervalEstimate | None:
    return None if variant is main else compute_difference(variant.rows, main.rows)


def describe_sizes(study: Study, seeds: int) -> str:
    """Describe the comparison of a study and its sizes, for the line above its table."""
    sizes, title = study.sizes, f"{study.method} on {study.benchmark}, {format_count(seeds, 'seed')} per variant"
    if not study.evolves:
        return f"{title}, {format_count(sizes.test, 'test task')} each."
    return (
        f"{title}, {format_count(study.iterations, 'iteration')} of {format_count(study.batch, 'train task')}, "
        f"{format_count(study.gate_tasks, 'gate task')} per comparison, splits {sizes.train}/{sizes.gate}/"
        f"{sizes.test} (train/gate/test), scores on the test split."
    )


def compute_difference(less: Sequence[VariantRow], more: Sequence[VariantRow]) -> IntervalEstimate | None:
    """Mean of `more` − `less` over the seeds that both have, with its interval; None with fewer than two."""
    first, second = ({row.seed: row.after for row in side} for side in (less, more))
    shared = sorted(set(first) & set(second))
    if len(shared) < 2:
        return None
    return compute_paired_interval([first[seed] for seed in shared], [second[seed] for seed in shared])


def compute_gain(rows: Sequence[EvolutionRow]) -> IntervalEstimate | None:
    """Mean of after − before over seeds, with its interval; None with fewer than two."""
    if len(rows) < 2:
        return None
    return compute_paired_interval([row.before for row in rows], [row.after for row in rows])


def list_variants(study: Study, rows: Sequence[VariantRow]) -> dict[str, VariantRows]:
    """The variants that have rows, by name, each beside the one that it is compared with."""
    by_variant = {name: [row for row in rows if row.variant == name] for name in study.chosen}
    found = {}
    for name, own in by_variant.items():
        variant = study.known[name]
        others = by_variant.get(variant.against, []) if variant.against != name else []
        if own:
            found[name] = VariantRows(
                variant.title,
                own,
                against="" if name == variant.against else variant.against,
                difference=compute_difference(own, others),
                undecided=variant.choice and _find_vacuous(others) is not None,
            )
    return found


def _find_vacuous(rows: Sequence[VariantRow]) -> DecisionCount | None:
    """The decisions of runs in which the router had nothing to decide; None if it had."""
    decided = VariantRows("", rows).decisions
    return decided if decided is not None and decided.is_vacuous else None


def _list_undecided(variants: Mapping[str, VariantRows]) -> Iterator[str]:
    """The ablations that compare nothing, as what they switch off never had a choice."""
    for variant in variants.values():
        if variant.undecided and variant.against:
            yield (
                f"{variant.title}: {UNDECIDED}. In the runs of {variant.against}, "
                f"{variants[variant.against].decisions} decisions of the router were free, "
                "so this line says nothing about it."
            )


def _list_idle(variants: Mapping[str, VariantRows]) -> Iterator[str]:
    """The ablations that compare nothing, as every run is the same without what they switch off."""
    for variant in variants.values():
        if variant.against in variants and not variant.undecided:
            others = [row.replace(seconds=0) for row in variants[variant.against].rows]
            if all(row.replace(variant=variant.against, seconds=0) in others for row in variant.rows):
                yield (
                    f"{variant.title}: its runs are those of {variant.against}, seed by seed. What it changes did "
                    "nothing in them, so its row says nothing about it."
                )


def _seed_cells(rows: Sequence[EvolutionRow]) -> dict[str, str]:
    """The seed team by column: one score per seed, from the runs of the full method or else of the others.

    Nothing where these are not of one seed team, as variants that run it in other ways are not.
    """
    full = [row for row in rows if row.variant == FULL]
    first = {row.seed: row for row in full or rows}
    if not first or any(row.before != first[row.seed].before for row in full or rows):
        return {}
    before, calls = [row.before for row in first.values()], [row.calls_before for row in first.values()]
    per_hundred = compute_mean([100 * row.before / max(row.calls_before, 1) for row in first.values()])
    return {
        VARIANT.name: "seed team",
        AFTER.name: format_spread(before),
        RANGE.name: format_range(before),
        COSTS[0].name: f"{compute_mean(calls):.1f}",
        BOUGHT[0].name: f"{per_hundred:.1f}",
    }


def format_spread(scores: Sequence[float]) -> str:
    """Mean and standard deviation."""
    return f"{compute_mean(scores):.3f} ± {compute_sd(scores):.3f}"


def format_range(scores: Sequence[float]) -> str:
    """Least and greatest."""
    return f"{min(scores):.2f}–{max(scores):.2f}"


def _notes(rows: Sequence[VariantRow]) -> list[str]:
    errors, minutes = sum(row.errors for row in rows), sum(row.seconds for row in rows) / 60
    merged = any(row.unusable is None for row in rows if isinstance(row, EvolutionRow))
    return [
        "Intervals: Student's t at 95 %, over seeds, paired by seed; where all seeds differ by the same, as wide as so "
        "few seeds allow. S = 100 P / (C + 0.01), C in dollars per task, is n/a at $0.",
        f"Infrastructure errors, counted apart from scores: {errors}. All runs took {minutes:.0f} minutes together.",
        *(["Unusable replies were not counted apart: they are among those without a change."] if merged else []),
    ]
