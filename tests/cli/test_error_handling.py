import pytest
import typer

from selfwire.cli.commands import STOPPED
from selfwire.cli.error_handling import print_before_exit
from selfwire.core.errors import BudgetError, ConfigError


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
