"""Commands about runs: runs, clean."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from selfwire.cli import output
from selfwire.cli.json_output import add_result
from selfwire.cli.options import Home
from selfwire.core.values import format_count, format_value
from selfwire.runs.folders import (
    INTERRUPTED,
    RunSummary,
    get_run_folder,
    get_runs_folder,
    list_run_names,
    remove_run,
    summarise_run,
)
from selfwire.runtime.storage import home_folder, refuse_foreign
from selfwire.runtime.workflow_library import LIBRARY_FILE

_FIELDS = ("command", "method", "benchmark", "model", "name", "status", "iteration", "score")


def runs(home: Home = None) -> None:
    """List runs, the newest last: what they did, how they stand, what they spent."""

    async def all_of_them() -> list[RunSummary]:
        return [await summarise_run(home, run) for run in list_run_names(home)]

    found = asyncio.run(all_of_them())
    add_result(runs=found)
    if not found:
        typer.echo(f"there are no runs in {get_runs_folder(home)}")
        return
    table = Table("run", *_FIELDS, "spend", box=None, pad_edge=False)
    for one in found:
        told = {**one.summary, "status": str(one.summary.get("status", "")).partition(":")[0]}
        fields = [format_value(told[name]) if name in told else "" for name in _FIELDS]
        table.add_row(one.run, *fields, "?" if one.spend is None else output.format_spend(one.spend))
    out = output.make_console()
    out.print(table)
    for one in found:
        if one.open_calls:
            calls = format_count(one.open_calls, "call")
            out.print(f"{one.run}: {calls} never settled; unknown, at most {one.open_tokens:,} tokens")
        if (status := str(one.summary.get("status", ""))).startswith("stopped: "):
            line = output.format_resume_line(str(one.summary["command"]), one.run, home)
            out.print(f"{one.run}: {status}; {line}")
        if one.summary.get("status") == INTERRUPTED:
            line = output.format_resume_line(str(one.summary["command"]), one.run, home)
            out.print(f"{one.run}: its process is gone; {line}")
        if one.trouble:
            out.print(f"{one.run}: {one.trouble}")


def clean(
    names: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Runs; without any, all runs.")] = None,
    library: Annotated[bool, typer.Option("--library", help="Remove all saved workflows too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: Home = None,
) -> None:
    """Remove runs with their journals and checkpoints, and with --library the saved workflows."""
    chosen = names or list(list_run_names(home))
    for run in chosen:
        get_run_folder(home, run)
    shelf = home_folder(home) / LIBRARY_FILE if library else None
    if shelf and shelf.exists():
        refuse_foreign(shelf)
    else:
        shelf = None
    _remove(home, chosen, shelf, yes=yes)


def _remove(home: str | None, chosen: list[str], shelf: Path | None, *, yes: bool) -> None:
    what = [f"runs {', '.join(chosen)}"] if chosen else []
    what += [f"all saved workflows in {shelf}"] if shelf else []
    if not what:
        typer.echo(f"nothing to remove in {home_folder(home)}")
        return
    if not yes and not typer.confirm(f"Remove {' and '.join(what)}?"):
        typer.echo("nothing was removed")
        return
    for run in chosen:
        remove_run(home, run)
    if shelf:
        shelf.unlink()
    add_result(runs=chosen, library=None if shelf is None else str(shelf))
    typer.echo(f"removed {' and '.join(what)}")
