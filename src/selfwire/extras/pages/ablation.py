"""Reads a study: a method beside itself with parts switched off, and beside controls, over seeds."""

from collections.abc import Iterable, Mapping, Sequence

from selfwire.core.values import format_count
from selfwire.evals.statistics import IntervalEstimate, compute_mean
from selfwire.extras.lab.ablation.plan import Study
from selfwire.extras.lab.ablation.rows import OUTCOMES, EvolutionRow, VariantRow
from selfwire.extras.lab.ablation.table import UNDECIDED, VariantRows, describe_sizes, list_variants
from selfwire.extras.pages.data import RunReport, SystemLine
from selfwire.extras.pages.verdicts import estimate_scores, get_gain, name_gains
from selfwire.graphs.method import FULL, RANDOM
from selfwire.runs.spec import STAMP


def describe_study(study: Study, rows: Sequence[VariantRow], name: str) -> RunReport:
    """Build the page of a study.

    Args:
        name: of its file or run.
    """
    known = [name for name in study.known if any(row.variant == name for row in rows)]
    study = study.replace(variants=tuple(known))
    variants = list_variants(study, rows)
    lines = {key: _make_line(key, variant, study) for key, variant in variants.items()}
    seeds = format_count(len({row.seed for row in rows}), "seed")
    return RunReport(
        run=name,
        title=f"ablation of {study.method} on {study.benchmark}",
        verdict=describe_parts(variants, lines, study.method),
        standfirst=f"{describe_sizes(study, len({row.seed for row in rows}))} {_describe_pairs(lines)}",
        facts=(
            ("benchmark", study.benchmark),
            ("model", study.models.agent),
            ("runs", f"{len(rows)} over {seeds}"),
            ("errors", str(sum(row.errors for row in rows))),
            ("time", f"{sum(row.seconds for row in rows) / 60:.0f} min of all runs together"),
            *_list_spend(rows),
        ),
        warning=STAMP if study.models.is_offline else "",
        systems=(*_make_seed_line(rows), *lines.values()),
        systems_title="The method and its variants",
        counted="seeds",
    )


def describe_parts(variants: Mapping[str, VariantRows], lines: Mapping[str, SystemLine], method: str) -> str:
    """Which variants are shown to do worse than what they lack a part of, and which better."""
    decided = [key for key, variant in variants.items() if variant.against and not variant.undecided]
    compared = [lines[key] for key in decided if lines[key].gain]
    if not compared:
        return f"Nothing to compare yet: {method} and its variants need two seeds that both have."
    worse = sorted((line for line in compared if line.gain and line.gain.high < 0), key=get_gain)
    better = sorted((line for line in compared if line.gain and line.gain.low > 0), key=get_gain, reverse=True)
    many = format_count(len(compared), "variant")
    told = []
    if worse:
        told.append(f"{len(worse)} of {many} of {method} score{'s' * (len(worse) == 1)} lower: {name_gains(worse)}")
    if better:
        told.append(f"{len(better)} of {many} score{'s' * (len(better) == 1)} higher: {name_gains(better)}")
    if not told:
        return f"No effect shown: none of {many} of {method} differs from what it is compared with."
    return f"{'; '.join(told)}."


def _describe_pairs(lines: Mapping[str, SystemLine]) -> str:
    undecided = sum(line.note.startswith(UNDECIDED) for line in lines.values())
    told = "Differences are variant minus full method, paired by seed, with 95 % interval."
    return f"{told} {format_count(undecided, 'variant')} had nothing to decide." if undecided else told


def _make_line(key: str, variant: VariantRows, study: Study) -> SystemLine:
    rows, against = variant.rows, "" if variant.against in ("", FULL) else study.known[variant.against].title
    undecided = UNDECIDED
    if variant.undecided and variant.decisions:
        undecided = f"{UNDECIDED}: {variant.decisions} decisions were free"
    beside, gain = f"from {against}" if against else "", None
    if (found := variant.difference) is not None and not variant.undecided:
        gain = IntervalEstimate(value=-found.value, low=-found.high, high=-found.low, n=found.n)
    return SystemLine(
        name="random edits" if key == RANDOM else variant.title,
        score=estimate_scores(variant.scores),
        calls=compute_mean([row.calls for row in rows]),
        tokens=compute_mean([row.tokens for row in rows]),
        tasks=len(rows),
        errors=sum(row.errors for row in rows),
        gain=gain,
        note=undecided if variant.undecided and variant.against else beside,
        main=key == FULL,
        samples=tuple(variant.scores),
        details=_list_details(variant),
    )


def _list_details(variant: VariantRows) -> dict[str, str]:
    found = {"free decisions": str(variant.decisions)} if variant.decisions else {}
    if variant.evolved:
        found["agents"] = variant.format_mean("nodes")
        found[" / ".join(OUTCOMES)] = variant.outcomes
        found["calls to evolve"] = variant.format_mean("evolution_calls", ",.0f")
    return found


def _make_seed_line(rows: Iterable[VariantRow]) -> tuple[SystemLine, ...]:
    """The team before evolution, one score per seed."""
    evolved = [row for row in rows if isinstance(row, EvolutionRow)]
    first = {row.seed: row for row in evolved if row.variant == FULL} or {row.seed: row for row in evolved}
    if not first:
        return ()
    scores = [row.before for row in first.values()]
    calls = compute_mean([row.calls_before for row in first.values()])
    line = SystemLine(
        name="seed team",
        score=estimate_scores(scores),
        calls=calls,
        tokens=None,
        tasks=len(first),
        samples=tuple(scores),
    )
    return (line,)


def _list_spend(rows: Iterable[VariantRow]) -> list[tuple[str, str]]:
    evolved = [row for row in rows if isinstance(row, EvolutionRow)]
    if not evolved:
        return []
    priced = [row.dollars for row in evolved if row.dollars is not None]
    spent = sum(priced)
    dollars = f", ${spent:,.2f}" if len(priced) == len(evolved) and spent else ""
    return [("evolutions", f"{sum(row.evolution_calls for row in evolved):,} calls{dollars}")]
