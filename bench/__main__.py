"""`make bench`: every overhead, side by side in one run, as a table."""

import os
import pkgutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from rich.console import Console
from rich.table import Table

from selfwire import bench
from selfwire.bench import harness, retrieval, routing, storage, team, wrapper
from selfwire.bench.measuring import Row
from selfwire.bench.models import CannedChatModel
from selfwire.runtime.journal import Journal
from selfwire.runtime.metered import MeteredModel


def main() -> None:
    """Measure and print; bounds are aims, nothing enforces them."""
    out = Console(width=None if os.isatty(1) else 160, highlight=False)
    out.print(f"load average when started: {os.getloadavg()[0]:.1f}; ratios are side by side in one run")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:  # first, as peaks of memory are inherited
        print_table(out, "an evaluation", fresh.submit(harness.measure_evaluation_harness).result())
    print_table(out, "the wrapper around models", wrapper.measure_wrapper())
    metered = MeteredModel(CannedChatModel(), journal=Journal.memory())
    print_table(out, "a team, agents asking through the wrapper", team.measure_team(metered))
    print_table(out, "a team, agents answering at once", team.measure_team())
    for method in load_method_benches():
        print_table(out, method.TITLE, method.measure())
    print_table(out, "the trained router of EvoMAS", routing.measure_routing())
    print_table(out, "retrieval over 100,000 passages", retrieval.measure_retrieval())
    print_table(out, "what is stored, what is imported", storage.measure_storage())


def load_method_benches() -> Iterator[Any]:
    """The benches of single methods: packages below this one with a `TITLE` and `measure`."""
    for found in pkgutil.iter_modules(bench.__path__):
        if found.ispkg:
            yield import_module(f"{bench.__name__}.{found.name}")


def print_table(out: Console, title: str, rows: list[Row]) -> None:
    """Print one table."""
    table = Table("what", "value", "unit", "aim", title=title, title_justify="left", box=None)
    for row in rows:
        aim = "" if row.bound is None else f"<= {row.bound:g}"
        missed = row.bound is not None and row.value > row.bound
        table.add_row(row.what, f"{row.value:,.2f}", row.unit, f"{aim} (missed)" if missed else aim)
    out.print(table)
    out.print()


if __name__ == "__main__":
    main()
