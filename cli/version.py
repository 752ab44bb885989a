"""The command that prints the version: version."""

import typer

from selfwire.cli.json_output import add_result
from selfwire.runs.run_record import get_version


def version() -> None:
    """Print the version."""
    add_result(version=get_version())
    typer.echo(f"selfwire {get_version()}")
