import traceback
from pathlib import Path
from typing import NoReturn

import pytest
import typer

from selfwire.cli.commands import INTERRUPTED, STOPPED
from selfwire.cli.error_handling import exit_on, print_before_exit
from selfwire.core.errors import BudgetError, ConfigError
from selfwire.runs.record import list_run_names
from selfwire.store.journal import Journal
from tests.commands import call


def test_last_words_know_that_a_run_is_finished() -> None:
    said: list[bool] = []
    with print_before_exit(said.append):
        pass
    assert said == [True]


def test_what_a_budget_stops_says_why_first(capsys: pytest.CaptureFixture[str]) -> None:
    def say(finished: bool) -> None:
        assert capsys.readouterr().err == "stopped: all is spent\n"
        assert not finished

    with pytest.raises(typer.Exit) as end, print_before_exit(say):
        raise BudgetError("all is spent")
    assert end.value.exit_code == STOPPED


def test_ctrl_c_goes_on_behind_the_last_words() -> None:
    said: list[bool] = []
    with pytest.raises(KeyboardInterrupt), print_before_exit(said.append):
        raise KeyboardInterrupt
    assert said == [False]


def test_a_fault_that_cannot_be_resumed_has_last_words_where_asked_for() -> None:
    said: list[bool] = []
    with pytest.raises(ConfigError), print_before_exit(said.append):
        raise ConfigError("no")
    assert said == []
    with pytest.raises(ConfigError), print_before_exit(said.append, on_any_error=True):
        raise ConfigError("no")
    assert said == [False]


def test_a_resumed_run_that_ctrl_c_stops_while_it_opens_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    sizes = ("--benchmark", "archive", "--iterations", "1", "--batch", "2", "--train", "2", "--gate", "off")
    call(tmp_path, "evolve", "hiva", *sizes, "--test", "0", "--gate-size", "0", "--no-baselines")
    [run] = list_run_names(tmp_path)
    monkeypatch.setattr(Journal, "open", interrupt)
    stopped = call(tmp_path, "evolve", "--resume", run, code=INTERRUPTED)
    assert stopped.stderr == f"go on with: selfwire evolve --resume {run}\nstopped\n"


def test_how_to_go_on_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt) as stopped, print_before_exit(lambda finished: None):
        raise KeyboardInterrupt
    with pytest.raises(typer.Exit):
        exit_on(stopped.value, ["evolve", "--resume", "first"], traceback=False)
    assert capsys.readouterr().err == "stopped\n"


def test_the_traceback_of_an_error_ends_in_the_error() -> None:
    with pytest.raises(KeyError) as found, print_before_exit(lambda finished: None, on_any_error=True):
        raise KeyError("unexpected")
    assert traceback.format_exception_only(found.value) == ["KeyError: 'unexpected'\n"]
