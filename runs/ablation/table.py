"""The table of a study, in Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from selfwire.core.errors import ConfigError
from selfwire.core.trajectory import DecisionCount, sum_decisions
from selfwire.core.values import format_count
from selfwire.evals.evaluation.table import Column, format_difference
from selfwire.evals.evaluation.table import build_table as build_columns
from selfwire.evals.statistics import IntervalEstimate, compute_mean, compute_paired_interval, compute_sd
from selfwire.graphs.variants import FULL
from selfwire.runs.ablation.plan import Study
from selfwire.runs.ablation.rows import OUTCOMES, EvolutionRow, Row
from selfwire.runs.report import STAMP

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
    rows: Sequence[Row]
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
        return missing if None in found else format(compute_mean([float(one) for one in found]), form)


def _mean(name: str, figure: str, form: str = ".1f", missing: str = DASH) -> Column[VariantRows]:
    return Column(name, lambda one: one.format_mean(figure, form, missing))


VARIANT = Column[VariantRows]("variant", lambda one: one.title)
AFTER = Column[VariantRows]("score after, mean ± sd", lambda one: format_spread(one.scores))
RANGE = Column[VariantRows]("range", lambda one: format_range(one.scores))
VERSUS = Column[VariantRows]("full − variant [95 %]", lambda one: one.versus)
COSTS = (_mean("calls/task", "calls"), _mean("tokens/task", "tokens", ",.0f"))
FREE = Column[VariantRows]("free decisions", lambda one: str(one.decisions or DASH), silent=DASH)
BOUGHT = (_mean("score per 100 calls", "per_hundred_calls"), _mean("S", "efficiency", missing="n/a"))
SPENT = Column[VariantRows](
    "calls of the evolution",
    lambda one: one.format_mean("evolution_calls", ",.0f") if one.evolved else DASH,
    silent=DASH,
)
EVOLUTION_COLUMNS = (
    VARIANT,
    AFTER,
    RANGE,
    Column[VariantRows]("after − before [95 %]", lambda one: _format_difference(compute_gain(one.evolved))),
    VERSUS,
    FREE,
    _mean("nodes", "nodes"),
    *COSTS,
    *BOUGHT,
    Column[VariantRows](" / ".join(OUTCOMES), lambda one: one.outcomes),
    SPENT,
)
EVALUATION_COLUMNS = (
    VARIANT,
    Column[VariantRows]("score, mean ± sd", lambda one: format_spread(one.scores)),
    RANGE,
    VERSUS,
    FREE,
    *COSTS,
    _mean("rounds/task", "rounds"),
    *BOUGHT,
    Column[VariantRows]("errors", lambda one: str(sum(row.errors for row in one.rows))),
)


def build_table(study: Study, rows: Sequence[Row], command: str = "") -> str:
    """Markdown: the sizes and the command, a line per variant, and notes.

    Intervals are Student's, over seeds, paired by seed.
    """
    variants = list_variants(study, rows)
    table = build_columns(EVOLUTION_COLUMNS if study.evolves else EVALUATION_COLUMNS, [*variants.values()])
    if evolved := VariantRows("", rows).evolved:
        cells = _seed_cells(evolved)
        table = table._replace(rows=(tuple(cells.get(name, DASH) for name in table.head), *table.rows))
    about = [
        describe_sizes(study, len({row.seed for row in rows})),
        *([f"{STAMP}."] if study.models.is_offline else []),
        *([f"Made with `{command}`."] if command else []),
    ]
    notes = [*_notes(rows), *_list_undecided(variants)]
    return "\n\n".join(["\n".join(about), table.markdown, "\n".join(notes)]) + "\n"


def build_comparison(studies: Sequence[tuple[Study, Sequence[Row]]], against: str, chosen: Sequence[str] = ()) -> str:
    """Markdown: variants of studies of several methods beside one of them, on the seeds that both have.

    Args:
        against: METHOD/VARIANT.
        chosen: the variants that are shown, named so; all by default.

    Raises:
        ConfigError: the studies have other test tasks, or there is no such variant.
    """
    if len({(one.benchmark, one.sizes, one.models) for one, _ in studies}) > 1:
        raise ConfigError("studies that are compared need one benchmark, one set of sizes and the same models")
    found = {
        f"{study.method}/{name}": VariantRows(f"{study.method}, {study.known[name].title}", kept)
        for study, rows in studies
        for name in study.chosen
        if (kept := [row for row in rows if row.variant == name])
    }
    if missing := [one for one in (against, *chosen) if one not in found]:
        raise ConfigError(f"there are no rows of {missing[0]!r}; there are {', '.join(found)}")
    main = found[against]
    columns: tuple[Column[VariantRows], ...] = (
        VARIANT,
        Column("seeds", lambda one: str(len(one.rows))),
        AFTER,
        Column(f"{main.title} − this [95 %]", lambda one: _format_difference(_compare(one, main))),
        COSTS[0],
        SPENT,
    )
    return build_columns(columns, [found[one] for one in chosen or found]).markdown


def _compare(one: VariantRows, main: VariantRows) -> IntervalEstimate | None:
    return None if one is main else compute_difference(one.rows, main.rows)


def describe_sizes(study: Study, seeds: int) -> str:
    """What a study compares, and on how much."""
    sizes, title = study.sizes, f"{study.method} on {study.benchmark}, {format_count(seeds, 'seed')} per variant"
    if not study.evolves:
        return f"{title}, {format_count(sizes.test, 'test task')} each."
    return (
        f"{title}, {format_count(study.iterations, 'iteration')} of {format_count(study.batch, 'train task')}, "
        f"{format_count(study.gate_tasks, 'gate task')} per comparison, splits {sizes.train}/{sizes.gate}/"
        f"{sizes.test} (train/gate/test), scores on the test split."
    )


def compute_difference(less: Sequence[Row], more: Sequence[Row]) -> IntervalEstimate | None:
    """Mean of `more` − `less` over the seeds that both have, with its interval; None with fewer than two."""
    first, second = ({row.seed: row.after for row in side} for side in (less, more))
    shared = sorted(set(first) & set(second))
    if len(shared) < 2:
        return None
    return compute_paired_interval([first[seed] for seed in shared], [second[seed] for seed in shared]).clip(-1, 1)


def compute_gain(rows: Sequence[EvolutionRow]) -> IntervalEstimate | None:
    """Mean of after − before over seeds, with its interval; None with fewer than two."""
    if len(rows) < 2:
        return None
    return compute_paired_interval([row.before for row in rows], [row.after for row in rows]).clip(-1, 1)


def list_variants(study: Study, rows: Sequence[Row]) -> dict[str, VariantRows]:
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


def _find_vacuous(rows: Sequence[Row]) -> DecisionCount | None:
    """The decisions of runs in which the router had nothing to decide; None if it had."""
    decided = VariantRows("", rows).decisions
    return decided if decided is not None and decided.is_vacuous else None


def _list_undecided(variants: Mapping[str, VariantRows]) -> Iterator[str]:
    """The ablations that compare nothing, as what they switch off never had a choice."""
    for one in variants.values():
        if one.undecided and one.against:
            yield (
                f"{one.title}: {UNDECIDED}. In the runs of {one.against}, {variants[one.against].decisions} decisions "
                "of the router were free, so this line says nothing about it."
            )


def _seed_cells(rows: Sequence[EvolutionRow]) -> dict[str, str]:
    """The seed workflow by column: one score per seed, from the runs of the full method or else of the others."""
    first = {row.seed: row for row in rows if row.variant == FULL} or {row.seed: row for row in rows}
    before, calls = [row.before for row in first.values()], [row.calls_before for row in first.values()]
    per_hundred = compute_mean([100 * row.before / max(row.calls_before, 1) for row in first.values()])
    return {
        VARIANT.name: "seed workflow",
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


def _notes(rows: Sequence[Row]) -> list[str]:
    errors, minutes = sum(row.errors for row in rows), sum(row.seconds for row in rows) / 60
    merged = any(row.unusable is None for row in rows if isinstance(row, EvolutionRow))
    return [
        "Intervals: Student's t at 95 %, over seeds, paired by seed. S = 100 P / (C + 0.01), C in dollars per task, is "
        "n/a at $0.",
        f"Infrastructure errors, counted apart from scores: {errors}. All runs took {minutes:.0f} minutes together.",
        *(["Unusable replies were not counted apart: they are among those without a change."] if merged else []),
    ]
