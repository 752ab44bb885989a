"""The command that writes a config file: init."""

from pathlib import Path
from typing import Annotated

import typer

from selfwire.cli import output
from selfwire.cli.commands import FILE
from selfwire.cli.config_file import write_template
from selfwire.cli.json_output import add_result
from selfwire.core.errors import ConfigError


def init(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path(FILE),
) -> None:
    """Write a config file with every option, its help and its default, all commented out."""
    if file.exists():
        raise ConfigError(f"{file} exists already; move it away, or name another file")
    output.write_text(file, write_template(ctx), "the config file")
    add_result(file=str(file))
    typer.echo(f"wrote {file}; take away the # before the options that you want to keep there")
