"""The command that makes the page of a run: report."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from selfwire.cli.json_output import add_result
from selfwire.cli.options import Home
from selfwire.cli.trajectories import is_run, suggest_run
from selfwire.extras.pages.page import write_report, write_study_page
from selfwire.extras.pages.reading import find_run
from selfwire.runs.inputs import require_saved

STUDY = ".jsonl"
"""How files of studies end."""


def report(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN|NAME|FILE",
            help="A run, a saved team: the run that made it, or the .jsonl of `ablate`.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File of the page; if none, report.html in the run's folder, or beside FILE."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    home: Home = None,
) -> None:
    """Make one HTML page of a run: the team and how it changed, scores, costs, every message; needs no network."""
    if name.endswith(STUDY):
        rows = Path(name)
        _tell(name, write_study_page(rows, out or rows.with_suffix(".html")), show)
        return
    with suggest_run(home, name):
        run = find_run(home, name if is_run(home, name) else require_saved(name))
    _tell(run, write_report(home, run, out), show, "run ")


def _tell(name: str, page: Path, show: bool, kind: str = "") -> None:
    file = page.resolve()
    add_result(run=name, file=str(file))
    typer.echo(f"the page of {kind}{name} is {file}")
    if show:
        webbrowser.open(file.as_uri())
