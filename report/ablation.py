"""Reads a study: a method beside itself with parts switched off, and beside controls, over seeds."""

from collections.abc import Iterable, Mapping, Sequence

from selfwire.core.values import format_count
from selfwire.evals.statistics import IntervalEstimate, compute_mean
from selfwire.graphs.variants import FULL, RANDOM
from selfwire.report.data import RunReport, SystemLine
from selfwire.report.verdicts import estimate_scores, name_gains
from selfwire.runs.ablation.plan import Study
from selfwire.runs.ablation.rows import OUTCOMES, EvolutionRow, Row
from selfwire.runs.ablation.table import UNDECIDED, VariantRows, describe_sizes, list_variants
from selfwire.runs.report import STAMP


def describe_study(study: Study, rows: Sequence[Row], name: str) -> RunReport:
    """What the page of a study shows.

    Args:
        name: of its file or run.
    """
    known = [one for one in study.known if any(row.variant == one for row in rows)]
    study = study.replace(variants=tuple(known))
    variants = list_variants(study, rows)
    lines = {key: _make_line(key, one, study) for key, one in variants.items()}
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
    compared = [lines[key] for key, one in variants.items() if one.against and not one.undecided and lines[key].gain]
    if not compared:
        return f"Nothing to compare yet: {method} and its variants need two seeds that both have."
    worse = sorted((one for one in compared if one.gain and one.gain.high < 0), key=_get_gain)
    better = sorted((one for one in compared if one.gain and one.gain.low > 0), key=_get_gain, reverse=True)
    many = format_count(len(compared), "variant")
    told = []
    if worse:
        told.append(f"{len(worse)} of {many} of {method} {_agree(worse, 'scores', 'score')} lower: {name_gains(worse)}")
    if better:
        told.append(f"{len(better)} of {many} {_agree(better, 'scores', 'score')} higher: {name_gains(better)}")
    if not told:
        return f"No effect shown: none of {many} of {method} differs from what it is compared with."
    return f"{'; '.join(told)}."


def _agree(lines: Sequence[SystemLine], one: str, several: str) -> str:
    return one if len(lines) == 1 else several


def _get_gain(line: SystemLine) -> float:
    return line.gain.value if line.gain else 0.0


def _describe_pairs(lines: Mapping[str, SystemLine]) -> str:
    undecided = sum(one.note.startswith(UNDECIDED) for one in lines.values())
    told = "Differences are variant minus full method, paired by seed, with 95 % interval."
    return f"{told} {format_count(undecided, 'variant')} had nothing to decide." if undecided else told


def _make_line(key: str, one: VariantRows, study: Study) -> SystemLine:
    rows, against = one.rows, "" if one.against in ("", FULL) else study.known[one.against].title
    undecided = f"{UNDECIDED}: {one.decisions} decisions were free" if one.undecided and one.decisions else UNDECIDED
    beside = f"from {against}" if against else ""
    return SystemLine(
        name="random edits" if key == RANDOM else one.title,
        score=estimate_scores(one.scores),
        calls=compute_mean([row.calls for row in rows]),
        tokens=compute_mean([row.tokens for row in rows]),
        tasks=len(rows),
        errors=sum(row.errors for row in rows),
        gain=None if one.undecided or one.difference is None else _negate(one.difference),
        note=undecided if one.undecided and one.against else beside,
        main=key == FULL,
        samples=tuple(one.scores),
        details=_list_details(one),
    )


def _list_details(one: VariantRows) -> dict[str, str]:
    found = {"free decisions": str(one.decisions)} if one.decisions else {}
    if one.evolved:
        found["agents"] = one.format_mean("nodes")
        found[" / ".join(OUTCOMES)] = one.outcomes
        found["calls to evolve"] = one.format_mean("evolution_calls", ",.0f")
    return found


def _make_seed_line(rows: Iterable[Row]) -> tuple[SystemLine, ...]:
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


def _list_spend(rows: Iterable[Row]) -> list[tuple[str, str]]:
    evolved = [row for row in rows if isinstance(row, EvolutionRow)]
    if not evolved:
        return []
    priced = [row.dollars for row in evolved if row.dollars is not None]
    spent = sum(priced)
    dollars = f", ${spent:,.2f}" if len(priced) == len(evolved) and spent else ""
    return [("evolutions", f"{sum(row.evolution_calls for row in evolved):,} calls{dollars}")]


def _negate(one: IntervalEstimate) -> IntervalEstimate:
    return IntervalEstimate(value=-one.value, low=-one.high, high=-one.low, n=one.n)
