"""The contestants beside each other, with what must be known to read the table."""

from collections.abc import Iterator, Sequence
from textwrap import shorten
from typing import NamedTuple

from selfwire.evals.evaluation.table import HEAD, SystemSummary, choose_comparison, format_cells
from selfwire.runs.evaluation.run import Evaluation
from selfwire.runs.report import STAMP
from selfwire.runtime.sync import run_sync

FAULT = 160
"""Most characters of an error below the table; `selfwire show RUN` and the results have it whole."""
SILENT = {"difference [95 %]": "-", "over cap": "0", "evolution": "none", "S": "n/a"}
"""What says nothing, by column; a column in which nothing else stands is left out."""


class ResultsTable(NamedTuple):
    """A table.

    Attributes:
        head: names of the columns.
        rows: cells of a contestant.
        notes: to read below it.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def build_results_table(run: Evaluation, lines: Sequence[SystemSummary]) -> ResultsTable:
    """The table of an evaluation.

    Args:
        run: what was measured.
        lines: the benchmark's own rule and the contestants.
    """
    against = choose_comparison(lines, run.request.against)
    rows = [format_cells(line, against) for line in lines]
    offline = set(run.request.models.roles.values()) == {"offline"}
    shown = [at for at, name in enumerate(HEAD) if _says_something(name, rows, billed=not offline)]
    return ResultsTable(
        head=tuple(HEAD[at] for at in shown),
        rows=tuple(tuple(row[at] for at in shown) for row in rows),
        notes=(_conditions(run, against), *_remarks(run, lines, rows)),
    )


def _says_something(name: str, rows: Sequence[tuple[str, ...]], *, billed: bool) -> bool:
    """Whether a column is shown: not the share of solved tasks where it is the score, nor what the stand-in takes."""
    column = [row[HEAD.index(name)] for row in rows]
    if name == "solved [95 %]":
        return column != [row[HEAD.index("score [95 %]")] for row in rows]
    if name in ("$/task", "s/task"):
        return billed
    return name not in SILENT or any(cell != SILENT[name] for cell in column)


def _conditions(run: Evaluation, against: SystemSummary) -> str:
    asked = run.request
    cap = f"at most {asked.calls_per_task} calls per task" if asked.calls_per_task else "no cap of calls"
    evolved = "; calls per task are those of answering, evolution has its own column" if asked.evolving else ""
    return (
        f"{run.benchmark.name}, {asked.split} split, {len(run.tasks)} tasks, seed {asked.seed}, {cap}; errors are "
        f"counted apart; differences are paired by task, from {against.contestant.name}{evolved}; "
        "S = 100 P / ($ per task + 0.01)"
    )


def _remarks(run: Evaluation, lines: Sequence[SystemSummary], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for line in lines:
        if line.errors:
            yield f"{line.contestant.name}: {line.errors} errors, such as {shorten(line.fault, FAULT)}"
        if line.capped:
            yield f"{line.contestant.name}: {line.capped} tasks over the cap of calls, which score 0"
    for line, row in zip(lines, rows, strict=True):
        if told := [f"{name} {line.figures[name]:.3f}" for name in run.benchmark.figures if name in line.figures]:
            yield f"{row[0]}: {', '.join(told)}"
        if line.judged:
            yield f"{row[0]}: its own judge was right on {line.agreed} of {line.judged}"
    if run.benchmark.aside is not None:
        yield from run_sync(run.benchmark.aside())
    if run.request.models.is_offline:
        yield STAMP
