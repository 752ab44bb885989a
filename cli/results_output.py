"""The table of an evaluation in a terminal, and as Markdown."""

import os
import textwrap
from pathlib import Path

import typer
from rich.table import Table as RichTable

from selfwire.cli import output
from selfwire.cli.json_output import add_result
from selfwire.core.errors import ConfigError
from selfwire.evals.evaluation.table import Table
from selfwire.runs.estimates import CostEstimate

NARROW = 8
"""Characters within which the name of a column stands in one line, whatever is below it."""


def show_standings(found: Table) -> None:
    """Print the table, narrow enough for 120 columns, and its notes."""
    out, table = output.make_console(), RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for at, name in enumerate(found.head):
        wide = max(NARROW, *(len(row[at]) for row in found.rows))
        table.add_column(textwrap.fill(name.replace("/", " per "), wide, break_long_words=False), no_wrap=True)
    for row in found.rows:
        table.add_row(*row)
    out.print()
    out.print(table)
    out.print("\n".join(found.notes))


def show_estimate(found: CostEstimate) -> None:
    """Print a dry run."""
    for notice in found.notices:
        typer.echo(notice, err=True)
    add_result(dry_run=True, low=found.low, likely=found.likely, high=found.high, notices=found.notices)
    typer.echo(found.text)


def refuse_unwritable(path: Path) -> None:
    """Refuse a file for the table where none can be made, before anything is measured.

    Raises:
        ConfigError: it is a folder, or lies in none that can be written to.
    """
    if path.is_dir():
        raise ConfigError(f"the table cannot be written to {path}: it is a folder; name a file with --markdown")
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(
            f"the table cannot be written to {path}: {path.parent} is no folder that can be written to; make it, or "
            "name another with --markdown"
        )


def write_markdown(found: Table, path: Path) -> None:
    """Write the table as Markdown, below the command that made it.

    Raises:
        ConfigError: the file cannot be written.
    """
    notes = "\n".join(f"- {note}" for note in found.notes)
    output.write_text(path, f"`{output.get_command_line()}`\n\n{found.markdown}\n\n{notes}\n", "the table")
