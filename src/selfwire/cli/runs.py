"""Commands about runs: runs, clean."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from selfwire.cli import output
from selfwire.cli.json_output import add_result
from selfwire.cli.options import Home
from selfwire.cli.versions import format_score, format_time
from selfwire.core.errors import ConfigError, JournalError
from selfwire.core.values import format_count, format_value
from selfwire.evals.table import ResultTable
from selfwire.runs.record import (
    INTERRUPTED,
    RunSummary,
    get_run_folder,
    get_runs_folder,
    list_held_runs,
    list_run_names,
    remove_run,
    summarise_run,
)
from selfwire.store.library import LIBRARY_FILE, format_home_option, home_folder, refuse_foreign

_FIELDS = ("command", "method", "benchmark", "model", "name", "status", "iteration", "score")


def runs(home: Home = None) -> None:
    """List runs, the newest last: what they did, how they stand, what they spent."""
    found = [summarise_run(home, run) for run in list_run_names(home)]
    add_result(runs=found)
    if not found:
        typer.echo(f"there are no runs in {get_runs_folder(home)}")
        return
    rows = []
    for listed in found:
        status, errors = str(listed.summary.get("status", "")).partition(":")[0], listed.summary.get("errors")
        told = {**listed.summary, "status": status}
        told |= {"command": verb} if (verb := told.get("verb")) else {}
        if status == "finished" and isinstance(errors, int) and errors:
            told["status"] = f"{status}, {format_count(errors, 'error')}"
        told |= {"score": format_score(told["score"])} if told.get("score") is not None else {}
        fields = [format_value(told[name]) if name in told else "" for name in _FIELDS]
        fields.append(format_time(listed.started) if listed.started else "")
        spent = "?" if listed.spend is None else output.format_spend(listed.spend)
        rows.append((listed.run, *fields, spent))
    output.print_table(ResultTable(("run", *_FIELDS, "started", "spend"), tuple(rows)))
    out = output.make_console()
    for listed in found:
        if lost := output.format_unsettled(listed.open_calls, listed.open_tokens):
            out.print(f"{listed.run}: {lost}")
        if why := _describe_stop(listed):
            command = str(listed.summary["command"])
            out.print(f"{listed.run}: {why}; {output.format_resume_line(command, listed.run, home)}")
        if listed.trouble:
            out.print(f"{listed.run}: {listed.trouble}")
    if len(stopped := [listed.run for listed in found if _describe_stop(listed)]) >= MANY_STOPPED:
        there = format_home_option(home)
        out.print(f"{len(stopped)} runs have stopped; remove those of no use: selfwire clean{there} {stopped[0]} ...")


MANY_STOPPED = 3
"""Number of stopped runs from which on `clean` is named."""


def _describe_stop(listed: RunSummary) -> str:
    """Describe why a run has not finished; "" if it has, or still runs."""
    status = str(listed.summary.get("status", ""))
    if status == INTERRUPTED:
        return "its process is gone"
    return " ".join(status.split()) if status.startswith("stopped: ") else ""


def clean(
    names: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Runs; without any, all runs.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All runs; needed with --yes where none is named.")] = False,
    library: Annotated[bool, typer.Option("--library", help="Remove all saved teams too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: Home = None,
) -> None:
    """Remove runs with their journals and checkpoints, and with --library the saved teams."""
    if names and every:
        raise ConfigError("name runs, or give --all, and not both")
    chosen = names or list(list_run_names(home))
    if chosen and yes and not names and not every:  # a script whose list is empty
        there = format_count(len(chosen), "run")
        raise ConfigError(
            f"--yes asks nobody, and no run is named; name them, or give --all for the {there} in {home_folder(home)}"
        )
    for run in chosen:
        get_run_folder(home, run)
    shelf = home_folder(home) / LIBRARY_FILE if library else None
    if shelf and shelf.exists():
        refuse_foreign(shelf)
        _refuse_held(home, shelf)
    else:
        shelf = None
    _remove(home, chosen, shelf, yes=yes, way="--yes" if names or not chosen else "--all --yes")


def _remove(home: str | None, chosen: list[str], shelf: Path | None, *, yes: bool, way: str) -> None:
    what = [f"runs {', '.join(chosen)}"] if chosen else []
    what += [f"all saved teams in {shelf}"] if shelf else []
    if not what:
        typer.echo(f"nothing to remove in {home_folder(home)}")
        return
    if not yes:
        try:
            agreed = typer.confirm(f"Remove {' and '.join(what)}?")
        except typer.Abort:
            if sys.stdin.isatty():  # Ctrl-C
                raise
            raise ConfigError(f"nobody can be asked whether to remove {' and '.join(what)}; give {way}") from None
        if not agreed:
            typer.echo("nothing was removed")
            return
    _remove_all(home, chosen)
    if shelf:
        _refuse_held(home, shelf)
        shelf.unlink()
    add_result(runs=chosen, library=None if shelf is None else str(shelf))
    typer.echo(f"removed {' and '.join(what)}")


def _remove_all(home: str | None, chosen: list[str]) -> None:
    """Remove runs; one that cannot be removed keeps no other, and is an error at the end."""
    faults = []
    for run in chosen:
        try:
            remove_run(home, run)
        except (ConfigError, JournalError) as error:
            faults.append(error)
    if len(faults) < len(chosen) and len(faults) > 0:
        typer.echo(f"removed {format_count(len(chosen) - len(faults), 'run')}")
    if faults:
        raise faults[0]


def _refuse_held(home: str | None, shelf: Path) -> None:
    if held := list_held_runs(home):
        raise ConfigError(
            f"run {held[0]!r} is at work and saves its teams in {shelf}, which stays; wait for it, or stop it"
        )
