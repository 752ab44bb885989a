"""Commands whose output goes to a program that has ended, such as `head`."""

import os
import sys
from io import FileIO, TextIOWrapper
from pathlib import Path

import pytest

from selfwire.cli.app import build
from selfwire.cli.commands import NO_READER
from selfwire.runs.record import list_run_names
from tests.commands import call

EVAL = ("eval", "single", "--benchmark", "archive", "--tasks", "1")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    call(folder, *EVAL)
    return folder


@pytest.mark.parametrize("command", [("runs",), ("runs", "--json"), ("show", "hiva"), ("show", "--help"), EVAL])
def test_a_command_that_nobody_reads_ends_quietly(
    home: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SELFWIRE_HOME", str(home))
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(SystemExit) as end:
            build()(command)
        pipe.flush()  # as Python does when it ends
    assert end.value.code == NO_READER
    told = capfd.readouterr().err.lower()
    assert "error" not in told
    assert "traceback" not in told


class Pipe(TextIOWrapper):
    """A pipe whose reader ends when a line is on its way to it."""

    def __init__(self, until: str) -> None:
        self.until, (self.reading, writing) = until, os.pipe()
        super().__init__(FileIO(writing, "w"), encoding="utf-8", write_through=True)

    def write(self, text: str) -> int:
        if text.startswith(self.until):
            os.close(self.reading)
            self.until = "\0"
        return super().write(text)


def test_a_run_whose_reader_ends_says_so_and_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFWIRE_HOME", str(tmp_path))
    with Pipe("trivial baseline: ") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(SystemExit) as end:
            build()(EVAL)
    assert end.value.code == NO_READER
    monkeypatch.undo()
    [run] = list_run_names(tmp_path)
    assert f"{run}: stopped: nobody reads what it prints; go on with: " in call(tmp_path, "runs").output
    call(tmp_path, "eval", "--resume", run)
