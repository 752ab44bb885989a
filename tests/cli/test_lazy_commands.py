"""Commands are known by name and one line before they are imported."""

import gc
import re
import shlex

import pytest
from typer.testing import CliRunner

from selfwire.cli import main
from selfwire.cli.app import build
from selfwire.cli.commands import COMMANDS, EXAMPLES, load_command
from selfwire.evals.benchmarks import multihop
from tests import processes


def count_full_collections() -> None:
    """Start the command line with as much as it imports; print how often the collector goes through all of it."""
    before = gc.get_stats()[2]["collections"]
    kept = list[object]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("selfwire.cli.app.build", lambda: lambda: kept.extend([] for _ in range(200_000)))
        main()
    print(gc.get_stats()[2]["collections"] - before)  # noqa: T201


def test_the_garbage_collector_does_not_go_through_all_that_is_imported_again_and_again() -> None:
    out, _ = processes.wait_for(processes.start("tests.cli.test_lazy_commands:count_full_collections"))
    assert out == "0\n"


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


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_help_begins_with_a_call_that_can_be_copied(name: str) -> None:
    head = CliRunner().invoke(build(), [name, "--help"]).output.partition("Arguments:")[0].partition("Options:")[0]
    [shown] = re.findall(r"^  Example:\n    selfwire (.*)$", head, re.MULTILINE)
    command, *words = shlex.split(shown)
    load_command(command).make_context(command, words)  # raises where the call does not fit the command


def test_the_example_of_recall_has_a_benchmark_that_it_reads() -> None:
    assert EXAMPLES["recall"] in multihop.NAMES


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
