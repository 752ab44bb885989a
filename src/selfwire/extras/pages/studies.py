"""Pages of studies, from the file of their rows or from their record among the runs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from selfwire.core.values import format_count
from selfwire.evals.statistics import IntervalEstimate, compute_mean
from selfwire.evals.table import expect_rows
from selfwire.extras.lab.ablation.plan import Study, Subject, WorldStudy
from selfwire.extras.lab.ablation.record import STUDY_ROWS, RecordedStudy
from selfwire.extras.lab.ablation.rows import OUTCOMES, EvolutionRow, VariantRow, parse_study_rows, read_subject
from selfwire.extras.lab.ablation.table import UNDECIDED, VariantRows, describe_sizes, list_variants
from selfwire.extras.lab.worlds.catalogue import load_world
from selfwire.extras.lab.worlds.gains import Claim, Scale, WorldResult, format_decisions
from selfwire.extras.pages.data import MechanismLine, RunReport, SystemLine
from selfwire.extras.pages.verdicts import estimate_scores, get_gain, name_gains
from selfwire.graphs.method import FULL, RANDOM
from selfwire.runs.spec import STAMP


def describe_world(about: WorldStudy, results: Sequence[WorldResult], name: str) -> RunReport:
    """Build the page of a world."""
    world = load_world(about.method, about.world)
    lines = _list_systems(results, world.scale) if results else ()
    mechanisms = tuple(_make_mechanism(claim, results) for claim in world.claims) if results else ()
    return RunReport(
        run=name,
        title=f"{about.method} in the world {about.world}",
        verdict=_describe_mechanisms(mechanisms, about),
        standfirst=_describe_possible(results, world.scale),
        facts=(
            ("method", about.method),
            ("world", about.world),
            ("seeds", str(len(results))),
            ("model", "none: agents are simulated"),
        ),
        mechanisms=mechanisms,
        systems=lines,
        systems_title="The systems",
        counted="seeds",
    )


def _make_mechanism(claim: Claim, results: Sequence[WorldResult]) -> MechanismLine:
    of, decisions = claim.scale, format_decisions(results, claim.main)
    return MechanismLine(
        name=claim.mechanism,
        main=claim.main,
        control=claim.control,
        possible=compute_mean([of.score(result, of.most) - of.score(result, claim.control) for result in results]),
        gain=claim.compare(results) if len(results) > 1 else None,
        samples=tuple(of.score(result, claim.main) - of.score(result, claim.control) for result in results),
        decisions="" if decisions == "-" else decisions,
    )


def _list_systems(results: Sequence[WorldResult], scale: Scale) -> tuple[SystemLine, ...]:
    """A line per system, the best first, with its difference from the full method."""
    possible = compute_mean([scale.score(result, scale.most) - scale.score(result, scale.least) for result in results])
    lines = []
    for name, figures in results[0].figures.items():
        samples = [scale.score(result, name) for result in results]
        above = compute_mean([scale.score(result, name) - scale.score(result, scale.least) for result in results])
        decisions = format_decisions(results, name)
        lines.append(
            SystemLine(
                name=name,
                score=estimate_scores(samples),
                calls=_mean_figure(results, name, "calls"),
                tokens=_mean_figure(results, name, "tokens") if "tokens" in figures else None,
                tasks=len(results),
                gain=scale.compare(results, name, scale.main) if name != scale.main and len(results) > 1 else None,
                main=name == scale.main,
                samples=tuple(samples),
                details={
                    **({"share of the possible gain": f"{above / possible:.2f}"} if possible else {}),
                    **({"free decisions": decisions} if decisions != "-" else {}),
                },
            )
        )
    return tuple(sorted(lines, key=lambda line: -line.score.value if line.score else 0.0))


def _mean_figure(results: Sequence[WorldResult], name: str, figure: str) -> float:
    return compute_mean([result.figures[name].get(figure, 0.0) for result in results])


def _describe_mechanisms(lines: Sequence[MechanismLine], about: WorldStudy) -> str:
    compared = [line for line in lines if line.gain]
    if not compared:
        return f"Nothing to compare yet: the mechanisms of {about.method} need two seeds."
    worth = sorted((line for line in compared if line.gain and line.gain.low > 0), key=get_gain, reverse=True)
    many = format_count(len(compared), "mechanism")
    if not worth:
        return f"No effect shown: none of {many} of {about.method} gains anything for sure in the world {about.world}."
    verb = "gains" if len(worth) == 1 else "gain"
    return f"{len(worth)} of {many} of {about.method} {verb} in the world {about.world}: {name_gains(worth)}."


def _describe_possible(results: Sequence[WorldResult], scale: Scale) -> str:
    if not results:
        return "No seed is done yet."
    least, most = (compute_mean([scale.score(seed, name) for seed in results]) for name in (scale.least, scale.most))
    return (
        f"{format_count(len(results), 'seed')}. “{scale.least}” scores {least:.2f} and “{scale.most}” {most:.2f}: the "
        f"possible gain is {most - least:.2f}. Differences are from “{scale.main}”, paired by seed, with 95 % interval."
    )


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
    calls = format_count(sum(row.evolution_calls for row in evolved), "call")
    return [("evolutions", f"{calls}{dollars}")]


def read_study_file(rows: Path) -> RunReport:
    """Build the page of a study's file.

    Raises:
        ConfigError: the file is no study's.
    """
    head, found = read_subject(rows)
    with expect_rows(rows, "study", "`selfwire ablate --out` writes such files"):
        return describe_rows(head, found, rows.name)


def describe_recorded(notes: Mapping[str, Any], study: object, run: str) -> RunReport:
    """Build the page of a study that is on record as a run.

    Args:
        notes: of its journal, its rows among them.
        study: what it is about.
    """
    rows = [row for name, row in notes.items() if name.startswith(STUDY_ROWS)]
    return describe_rows(RecordedStudy.model_validate(study).head, rows, run)


def describe_rows(head: Subject, rows: Sequence[Any], name: str) -> RunReport:
    """Build the page of a study.

    Args:
        name: of its file or run.
    """
    if isinstance(head, Study):
        return describe_study(head, parse_study_rows(head, rows), name)
    results = [row.get("result", row) for row in rows]
    return describe_world(head, [WorldResult.model_validate(result) for result in results], name)
