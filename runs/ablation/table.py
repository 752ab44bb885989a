"""The table of a study, in Markdown."""

from collections.abc import Mapping, Sequence

from selfwire.evals.statistics import IntervalEstimate, compute_mean, compute_paired_interval, compute_sd
from selfwire.graphs.variants import FULL
from selfwire.runs.ablation.plan import Study
from selfwire.runs.ablation.rows import EvaluationRow, EvolutionRow, Row
from selfwire.runs.report import STAMP

HEAD = (
    "variant",
    "score after, mean ± sd",
    "range",
    "after − before [95 %]",
    "full − variant [95 %]",
    "nodes",
    "calls/task",
    "tokens/task",
    "score per 100 calls",
    "S",
    "accepted / rejected / unchanged",
    "calls of the evolution",
)

MEASURED_HEAD = (
    "variant",
    "score, mean ± sd",
    "range",
    "full − variant [95 %]",
    "calls/task",
    "tokens/task",
    "rounds/task",
    "score per 100 calls",
    "S",
    "errors",
)

KINDS = ("accepted", "rejected", "unchanged")


def build_table(study: Study, rows: Sequence[Row], command: str = "") -> str:
    """Markdown: how it was made, a line per variant, and what must be known to read it.

    Intervals are Student's, over seeds, paired by seed.

    Args:
        study: what was run.
        rows: its results.
        command: that made them.
    """
    by_variant = {name: [row for row in rows if row.variant == name] for name in study.chosen}
    evolved = [row for row in rows if isinstance(row, EvolutionRow)]
    head = HEAD if study.evolves else MEASURED_HEAD
    lines = [_line(head), _line(["---"] * len(head)), *([_seed_line(evolved)] if evolved else [])]
    lines += [_line(_cells(study, name, by_variant)) for name, found in by_variant.items() if found]
    told = [
        _sizes(study, len({row.seed for row in rows})),
        *([f"{STAMP}."] if study.models.is_offline else []),
        *([f"Made with `{command}`."] if command else []),
    ]
    return "\n\n".join(["\n".join(told), "\n".join(lines), "\n".join(_notes(rows))]) + "\n"


def _sizes(study: Study, seeds: int) -> str:
    sizes = study.sizes
    if not study.evolves:
        return f"{study.method} on {study.benchmark}, {seeds} seeds per variant, {sizes.test} test tasks each."
    return (
        f"{study.method} on {study.benchmark}, {seeds} seeds per variant, {study.iterations} iterations of "
        f"{study.batch} train tasks, {study.gate_tasks} gate tasks per comparison, splits {sizes.train}/{sizes.gate}/"
        f"{sizes.test} (train/gate/test), scores on the test split."
    )


def compute_difference(less: Sequence[Row], more: Sequence[Row]) -> IntervalEstimate | None:
    """Mean of `more` − `less` over the seeds that both have, with its interval; None with fewer than two."""
    first, second = ({row.seed: row.after for row in side} for side in (less, more))
    shared = sorted(set(first) & set(second))
    return (
        compute_paired_interval([first[seed] for seed in shared], [second[seed] for seed in shared])
        if len(shared) > 1
        else None
    )


def compute_gain(rows: Sequence[EvolutionRow]) -> IntervalEstimate | None:
    """Mean of after − before over seeds, with its interval; None with fewer than two."""
    return compute_paired_interval([row.before for row in rows], [row.after for row in rows]) if len(rows) > 1 else None


def _cells(study: Study, name: str, by_variant: Mapping[str, Sequence[Row]]) -> list[str]:
    """A line under `HEAD`, or under `MEASURED_HEAD` for a method that does not evolve."""
    rows, versus = by_variant[name], _versus(study, name, by_variant)
    after = [row.after for row in rows]
    evolved = [row for row in rows if isinstance(row, EvolutionRow)]
    efficiency = [row.efficiency for row in rows if row.efficiency is not None]
    score, span = f"{compute_mean(after):.3f} ± {compute_sd(after):.3f}", f"{min(after):.2f}–{max(after):.2f}"
    calls, tokens = (
        f"{compute_mean([row.calls for row in rows]):.1f}",
        f"{compute_mean([row.tokens for row in rows]):,.0f}",
    )
    bought = f"{compute_mean([row.per_hundred_calls for row in rows]):.1f}"
    share = f"{compute_mean(efficiency):.1f}" if len(efficiency) == len(rows) else "n/a"
    if not evolved:
        rounds = [row.rounds for row in rows if isinstance(row, EvaluationRow) and row.rounds is not None]
        took, errors = f"{compute_mean(rounds):.1f}" if rounds else "—", str(sum(row.errors for row in rows))
        return [study.known[name].title, score, span, versus, calls, tokens, took, bought, share, errors]
    nodes = f"{compute_mean([row.nodes for row in evolved]):.1f}"
    outcomes = " / ".join(f"{compute_mean([float(getattr(row, kind)) for row in evolved]):.1f}" for kind in KINDS)
    cost = f"{compute_mean([row.evolution_calls for row in evolved]):,.0f}"
    title = study.known[name].title
    return [
        title,
        score,
        span,
        format_difference(compute_gain(evolved)),
        versus,
        nodes,
        calls,
        tokens,
        bought,
        share,
        outcomes,
        cost,
    ]


def _versus(study: Study, name: str, by_variant: Mapping[str, Sequence[Row]]) -> str:
    """What the variant lacks beside the one that it is a part of; that one is named where it is not `full`."""
    against = study.known[name].against
    if name == against:
        return format_difference(None)
    said = format_difference(compute_difference(by_variant[name], by_variant.get(against, [])))
    return said if against == FULL else f"{said} from {against}"


def _seed_line(rows: Sequence[EvolutionRow]) -> str:
    """The seed workflow: one score per seed, as the full method's runs and the others' measured it."""
    first = {row.seed: row for row in rows if row.variant == FULL} or {row.seed: row for row in rows}
    before, calls = [row.before for row in first.values()], [row.calls_before for row in first.values()]
    score = f"{compute_mean(before):.3f} ± {compute_sd(before):.3f}"
    per_hundred = compute_mean([100 * row.before / max(row.calls_before, 1) for row in first.values()])
    known = ["seed workflow", score, f"{min(before):.2f}–{max(before):.2f}", "—", "—"]
    return _line([*known, "—", f"{compute_mean(calls):.1f}", "—", f"{per_hundred:.1f}", "—", "—", "—"])


def _notes(rows: Sequence[Row]) -> list[str]:
    errors, minutes = sum(row.errors for row in rows), sum(row.seconds for row in rows) / 60
    gates = "Without the gate the weights of the knowledge distance stay uniform, as nothing is held out."
    return [
        "Intervals: Student's t at 95 %, over seeds, paired by seed. S = 100 P / (C + 0.01), C in dollars per task, is "
        f"n/a at $0.{f' {gates}' if any(row.variant == 'no-gate' for row in rows) else ''}",
        f"Infrastructure errors, counted apart from scores: {errors}. All runs took {minutes:.0f} minutes together.",
    ]


def format_difference(estimate: IntervalEstimate | None) -> str:
    """A difference with its interval, signed; a dash where there is none."""
    if estimate is None:
        return "—"
    return f"{estimate.value:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}]"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
