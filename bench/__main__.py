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
        shown(out, "an evaluation", fresh.submit(harness.measure_evaluation_harness).result())
    shown(out, "the wrapper around models", wrapper.measure_wrapper())
    metered = MeteredModel(wrapper.Scripted(), journal=Journal.memory())
    shown(out, "a team, agents asking through the wrapper", team.measure_team(metered))
    shown(out, "a team, agents answering at once", team.measure_team())
    shown(out, "rounds of DyTopo", rounds.measure_rounds())
    shown(out, "the trained router of EvoMAS", routing.measure_routing())
    shown(out, "retrieval over 100,000 passages", retrieval.measure_retrieval())
    shown(out, "groups of HERA", groups.measure_groups())
    shown(out, "what is stored, what is imported", storage.measure_storage())


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
