"""The command that makes the page of a run: report."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from selfwire.cli.json_output import add_result
from selfwire.cli.options import Home
from selfwire.cli.trajectories import is_run
from selfwire.report.page import FILE, write_report
from selfwire.report.reading import find_run
from selfwire.runs.folders import get_run_folder
from selfwire.runs.targets import require_saved


def report(
    name: Annotated[str, typer.Argument(metavar="RUN|NAME", help="A run, or a saved team: the run that made it.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File of the page; report.html in the run's folder if none.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    home: Home = None,
) -> None:
    """Make one HTML page of a run: the team and how it changed, scores, costs, every message; needs no network."""
    run = find_run(home, name if is_run(home, name) else require_saved(name))
    file = write_report(home, run, out or get_run_folder(home, run) / FILE).resolve()
    add_result(run=run, file=str(file))
    typer.echo(f"the page of run {run} is {file}")
    if show:
        webbrowser.open(file.as_uri())
