"""Commands about selfwire itself: version."""

import typer

from selfwire.runs.version import get_version


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("version")(show_version)


def show_version() -> None:
    """Print the version."""
    typer.echo(f"selfwire {get_version()}")
