"""Reads the results of a method's world."""

from collections.abc import Sequence

from selfwire.core.values import format_count
from selfwire.evals.statistics import compute_mean
from selfwire.extras.lab.ablation.plan import WorldStudy
from selfwire.extras.lab.worlds.catalogue import load_world
from selfwire.extras.lab.worlds.gains import Claim, Scale, WorldResult, format_decisions
from selfwire.extras.pages.data import MechanismLine, RunReport, SystemLine
from selfwire.extras.pages.verdicts import estimate_scores, get_gain, name_gains


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
