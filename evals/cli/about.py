"""Commands about selfwire itself: version."""

from importlib.metadata import PackageNotFoundError, version

import typer


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("version")(show_version)


def show_version() -> None:
    """Print the version."""
    typer.echo(f"selfwire {installed_version()}")


def installed_version() -> str:
    """The version of the installed distribution, or "unknown" in a source tree that is not installed."""
    try:
        return version("selfwire")
    except PackageNotFoundError:
        return "unknown"
