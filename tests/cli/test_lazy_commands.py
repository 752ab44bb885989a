"""Commands are known by name and one line before they are imported."""

import re

import pytest
from typer.testing import CliRunner

from selfwire.cli.app import build
from selfwire.cli.commands import COMMANDS, load_command


def test_the_help_lists_every_command_with_a_line_that_is_not_cut() -> None:
    text = CliRunner().invoke(build(), ["--help"]).output
    listed = dict(re.findall(r"^  (\w+) +(.+)$", text.partition("Commands:")[2], re.MULTILINE))
    assert listed == {name: line for name, (_, line) in COMMANDS.items()} | {"version": "Print the version."}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_explains_itself_when_it_is_called(name: str) -> None:
    command = load_command(name)
    done = CliRunner().invoke(build(), [name, "--help"])
    assert done.exit_code == 0
    assert command.help.split()[0] in done.output
    assert done.output.startswith(f"Usage: selfwire {name} ")


def test_a_name_that_is_nearly_one_gets_the_right_one_proposed() -> None:
    done = CliRunner().invoke(build(), ["evolv"])
    assert done.exit_code == 2
    assert "Did you mean 'evolve'" in done.output


def test_completion_offers_names_of_commands_and_of_their_options() -> None:
    def complete(line: str) -> str:
        words = {"_SELFWIRE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        return CliRunner().invoke(build(), [], env=words, prog_name="selfwire").output

    assert complete("selfwire ev").split() == ["evolve", "eval"]
    assert "--benchmark" in complete("selfwire ablate --be").split()
    assert complete("selfwire insights ex").split() == ["export"]
