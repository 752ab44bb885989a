"""The command line, called in this process."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from selfwire.cli.app import build


def call(home: Path, *words: str, code: int | None = 0, stdin: str | None = None, **env: str) -> Result:
    """Call the command with a home and further environment; it must end with the exit code, if one is given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["selfwire", *words])  # tables quote it
        result = CliRunner().invoke(build(), words, env={"SELFWIRE_HOME": str(home), **env}, input=stdin)
    if code not in (None, result.exit_code):
        raise AssertionError(result.output) from result.exception
    return result
