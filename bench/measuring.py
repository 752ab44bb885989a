"""The timer of all benches, and the tables of their rows, printed or kept for a page of docs."""

import asyncio
import gc
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from inspect import isawaitable
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

from rich.console import Console
from rich.table import Table

from selfwire.core.values import FrozenModel
from selfwire.extras.lab.code_version import find_code_version

T = TypeVar("T")


class Row(FrozenModel):
    """A line of the table, or with `column` a cell of it.

    Args:
        bound: the aim; None where there is none.
        spread: lower and upper quartile over rounds.
        note: stands for the value where there is none.
    """

    what: str
    value: float = 0.0
    unit: str = ""
    bound: float | None = None
    column: str = ""
    spread: tuple[float, float] | None = None
    note: str = ""


def map_in_processes(act: Callable[..., T], *given: Iterable[Any], workers: int = 2) -> Iterator[T]:
    """Call a function in fresh processes, two at a time, as `map` does; yields the results in order."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as processes:
        yield from processes.map(act, *given)


class Elapsed(NamedTuple):
    """Wall and CPU seconds."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "Elapsed":
        """Both clocks."""
        return cls(time.perf_counter(), time.process_time())

    def until_now(self, calls: int = 1) -> "Elapsed":
        """The time per call since then."""
        end = Elapsed.now()
        return Elapsed((end.wall - self.wall) / calls, (end.cpu - self.cpu) / calls)


def get_median(times: Sequence[Elapsed]) -> Elapsed:
    """The median of each clock."""
    return Elapsed(median(run.wall for run in times), median(run.cpu for run in times))


async def measure_call(act: Callable[[], Any], repeat: int = 1) -> Elapsed:
    """The time of one call, awaited if it can be."""
    start = Elapsed.now()
    for _ in range(repeat):
        result = act()
        if isawaitable(result):
            await result
    return start.until_now(repeat)


def measure_by_turns(*variants: Callable[[], Any], rounds: int, repeat: int = 1) -> list[Elapsed]:
    """Median times after one warm-up; the variants take turns, so that a busy machine slows all alike."""

    async def measure() -> list[Elapsed]:
        times: list[list[Elapsed]] = [[] for _ in variants]
        for variant in variants:
            await measure_call(variant)
        for _ in range(rounds):
            for taken, variant in zip(times, variants, strict=True):
                gc.collect()
                taken.append(await measure_call(variant, repeat))
        return [get_median(taken) for taken in times]

    return asyncio.run(measure())


def make_cells(what: str, cells: Mapping[str, str | float]) -> list[Row]:
    """Make the cells of a line; a text is a note, a number a value."""
    return [
        Row(what=what, column=column, note=cell) if isinstance(cell, str) else Row(what=what, column=column, value=cell)
        for column, cell in cells.items()
    ]


Line = dict[str, str]
"""Cells by the title of their column."""


def make_lines(rows: Sequence[Row]) -> list[Line]:
    """A line per row; rows with columns share the line of what they are about."""
    lines: dict[str, Line] = {}
    columns = dict.fromkeys(row.column for row in rows if row.column)
    for row in rows:
        if row.column:
            lines.setdefault(row.what, {"": row.what, **dict.fromkeys(columns, "")})[row.column] = _format_cell(row)
        elif columns:
            lines[row.what] = {"": row.what, **dict.fromkeys(columns, row.note)}
        else:
            value = row.note or f"{row.value:,.2f}"
            lines[f"{len(lines)}"] = {"what": row.what, "value": value, "unit": row.unit, "aim": _format_aim(row)}
    return [*lines.values()]


def _format_cell(row: Row) -> str:
    if row.note:
        return row.note
    spread = f" ({row.spread[0]:,.2f} to {row.spread[1]:,.2f})" if row.spread else ""
    aim = f", aim {row.bound:.2f}" if row.bound is not None else ""
    return f"{row.value:,.2f}{spread}{aim}"


def _format_aim(row: Row) -> str:
    if row.bound is None:
        return ""
    aim = f"<= {row.bound:.4g}"
    return f"{aim} (missed)" if row.value > row.bound else aim


def print_table(out: Console, title: str, rows: Sequence[Row]) -> None:
    """Print one table."""
    lines = make_lines(rows)
    table = Table(*lines[0], title=title, title_justify="left", box=None)
    for line in lines:
        table.add_row(*line.values())
    out.print(table)
    out.print()


def keep_lines(rows: Sequence[Row], file: Path) -> None:
    """Write rows as lines of JSON."""
    keep_table(make_lines(rows), file)


def keep_table(lines: Sequence[Line], file: Path) -> None:
    """Write the lines as JSON below the code that made them, for a table of kind `cells` on a page of docs."""
    head = find_code_version().model_dump()
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in (head, *lines))
    file.write_text(text, encoding="utf-8")
