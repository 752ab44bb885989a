"""`make bench`: every overhead, side by side in one run, as a table."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from rich.console import Console
from rich.table import Table

from selfwire.bench import groups, harness, retrieval, rounds, routing, storage, team, wrapper
from selfwire.bench.team import Row
from selfwire.runtime.journal import Journal
from selfwire.runtime.metered import MeteredModel


def main() -> None:
    """Measure and print; bounds are what is aimed for, not what is enforced."""
    out = Console(width=None if os.isatty(1) else 160, highlight=False)
    out.print(f"load average when started: {os.getloadavg()[0]:.1f}; ratios are side by side in one run")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:  # first, as peaks of memory are inherited
        shown(out, "an evaluation", fresh.submit(harness.run).result())
    shown(out, "the wrapper around models", wrapper.run())
    metered = MeteredModel(wrapper.Scripted(), journal=Journal.memory())
    shown(out, "a team, agents asking through the wrapper", team.run(metered))
    shown(out, "a team, agents answering at once", team.run())
    shown(out, "rounds of DyTopo", rounds.run())
    shown(out, "the trained router of EvoMAS", routing.run())
    shown(out, "retrieval over 100,000 passages", retrieval.run())
    shown(out, "groups of HERA", groups.run())
    shown(out, "what is stored, what is imported", storage.run())


def shown(out: Console, title: str, rows: list[Row]) -> None:
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
