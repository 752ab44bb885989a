"""Rows of a table of training: score, tokens and teams of evolutions, by quarter or by quarter and type of question.

An evolution that a comparison began is named as COMPARISON/evolved/SYSTEM, and one of several with a label before, such
as `"hera on archive=.selfwire/runs/compare-archive-1f/evolved/hera"`; its runs on train tasks are read, and no model is
asked.
"""

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.measuring import Line, keep_table
from selfwire.cli.memory import TRAIN
from selfwire.cli.trajectories import read_trajectories
from selfwire.core.errors import ConfigError
from selfwire.evals.topology_metrics import MetricsRow, RunMetrics, compute_run_metrics, format_known

EVOLUTION = "evolution"
"""The run's name in the folder of an evolved system."""


def measure_evolution(folder: Path) -> RunMetrics:
    """Measure an evolution's runs on train tasks.

    Raises:
        ConfigError: the folder holds no evolution, or one without runs.
    """
    found = [done for place, done in read_trajectories(folder, EVOLUTION) if place.endswith(TRAIN)]
    if not found:
        raise ConfigError(f"{folder} has no trajectories of training; name COMPARISON/evolved/SYSTEM")
    return compute_run_metrics(found)


def make_training_lines(label: str, found: RunMetrics, *, crossed: bool) -> Iterator[Line]:
    """A line per quarter of training, or per quarter and type of question; without a label none names the evolution."""
    for group in found.crossed if crossed else found.phases:
        quarter, _, kind = group.name.partition(", ")
        names = {"evolution": label, "quarter": quarter, "type of question": kind}
        yield {**{column: name for column, name in names.items() if name}, **_format_measures(group)}


def _format_measures(group: MetricsRow) -> Line:
    return {
        "queries": str(group.queries),
        "score": format_known(group.f1, ".2f"),
        "tokens": format_known(group.tokens, ",.0f"),
        "agents": format_known(group.agents, ".1f"),
        "score per agent": format_known(group.efficiency, ".3f"),
        "entropy": format_known(group.entropy, ".2f"),
        "self-loops": format_known(group.self_loops, ".2f"),
        "cycles": format_known(group.cycles, ".2f"),
        "diameter": format_known(group.diameter, ".1f"),
    }


def _split_label(named: str) -> tuple[str, str, str]:
    return named.partition("=") if "=" in named else ("", "", named)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the rows of some evolutions."""
    parser = ArgumentParser(prog="python -m bench.training", description="Write rows of a table of training.")
    parser.add_argument("file", type=Path)
    parser.add_argument("evolutions", nargs="+", metavar="[LABEL=]COMPARISON/evolved/SYSTEM")
    parser.add_argument("--crossed", action="store_true", help="each quarter by type of question")
    given = parser.parse_args(arguments)
    try:
        measured = [(label, measure_evolution(Path(place))) for label, _, place in map(_split_label, given.evolutions)]
    except ConfigError as error:
        parser.error(str(error))
    keep_table(
        [line for label, found in measured for line in make_training_lines(label, found, crossed=given.crossed)],
        given.file,
    )


if __name__ == "__main__":
    main()
