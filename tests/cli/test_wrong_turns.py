"""What a newcomer does a little wrong: the message names the way that was meant, and nothing is lost."""

import json
from contextlib import closing
from pathlib import Path

import pytest
import typer

from selfwire.cli.commands import WRONG
from selfwire.models.sync import run_sync
from selfwire.runs.record import JOURNAL, REQUEST, get_run_folder, list_run_names
from selfwire.store.journal import Journal
from tests.commands import call

TASKS = "".join(f'{{"input": "What is {n} + {n}?", "reference": "{2 * n}"}}\n' for n in range(20))
SMALL = tuple("--train 4 --gate-size 4 --gate-tasks 1 --batch 1 --test 0 --no-baselines --iterations 1".split())
EVOLVE = ("evolve", "hiva", "--benchmark", "archive", "--gate", "off", *SMALL, "--name", "mine")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("my.jsonl").write_text(TASKS)
    return tmp_path / "home"


@pytest.mark.parametrize("target", ["single", "cot", "self-refine"])
def test_a_baselines_question_has_a_page(home: Path, target: str) -> None:
    done = call(home, "run", target, "What is 1 + 1?", "--report", "page.html")
    assert "its page is" in done.stderr
    assert done.stdout.strip()
    assert f"{target} on one question" in Path("page.html").read_text()


def test_a_page_that_fails_does_not_hide_the_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def take_its_place(answer: str | None) -> None:
        Path("page.html").mkdir()
        typer.echo(answer)

    monkeypatch.setattr("selfwire.cli.run.print_text", take_its_place)
    done = call(home, "run", "hiva", "What is 1 + 1?", "--report", "page.html", code=WRONG)
    assert done.stdout == "Answer: unknown\n"
    assert "2 calls" in done.stderr
    assert "page.html" in done.stderr.splitlines()[-1]


def test_an_evaluation_names_the_command_that_resumes_the_run_of_another(home: Path) -> None:
    call(home, *EVOLVE)
    [run] = list_run_names(home)
    for command in ("eval", "compare"):
        refused = call(home, command, "--resume", run, code=WRONG).stderr
        assert f"run {run!r} was begun by `selfwire evolve`, not by `selfwire eval`" in refused
        assert f"go on with `selfwire evolve --resume {run}`" in refused


def test_a_config_file_that_is_nested_too_deeply_is_one_line(home: Path) -> None:
    Path("selfwire.toml").write_text("a=" + "[" * 50_000)
    for command in (("runs",), ("version",)):
        refused = call(home, *command, code=WRONG).stderr
        assert refused == "error: the config file selfwire.toml is nested too deeply to be read; write it flatter\n"


def test_the_ending_of_a_links_name_counts(home: Path) -> None:
    Path("my.jsonl").rename("blob123")
    Path("linked.jsonl").symlink_to("blob123")
    Path("zero.jsonl").symlink_to("/dev/zero")
    assert call(home, "check", "--benchmark", "linked.jsonl", "--grader", "numeric", code=None).exit_code != WRONG
    call(home, "eval", "cot", "--benchmark", "linked.jsonl", "--grader", "numeric", "--tasks", "1")
    [run] = list_run_names(home)
    header = json.loads((home / "runs" / run / "results.jsonl").read_text().splitlines()[0])
    assert header["benchmark"].endswith("linked.jsonl")
    refused = call(home, "check", "--benchmark", "zero.jsonl", "--grader", "f1", code=WRONG).stderr
    assert f"task file {Path('zero.jsonl').absolute()} cannot be read: it is a pipe, a socket or a device" in refused


def test_an_evolution_says_that_its_name_has_versions(home: Path) -> None:
    first = call(home, *EVOLVE).stdout
    assert "has versions" not in first
    [run] = list_run_names(home)
    told = call(home, *EVOLVE, "--seed", "1").stdout
    assert f"'mine' has versions, and its head is mine@{run}.1: this run starts from the first team of hiva" in told
    assert "go on from the head with --team mine, or choose another --name" in told
    assert told.index("has versions") < told.index("iteration 1")
    assert "has versions" not in call(home, *EVOLVE, "--team", "mine").stdout


def test_a_run_that_is_spelled_wrong_is_named(home: Path) -> None:
    call(home, "eval", "cot", "--benchmark", "my.jsonl", "--tasks", "1")
    [run] = list_run_names(home)
    for command in ("show", "report"):
        refused = call(home, command, f"{run[:-1]}_", code=WRONG).stderr
        assert f"there is no run '{run[:-1]}_'; did you mean the run {run}? And there is no team" in refused
        refused = call(home, command, "nothere", code=WRONG).stderr
        assert "there is no run 'nothere'; `selfwire runs` lists them. And there is no team 'nothere'" in refused


def test_a_saved_team_in_the_place_of_a_run_or_a_question_is_named(home: Path) -> None:
    call(home, *EVOLVE)
    [run] = list_run_names(home)
    for command in (("measures", "mine"), ("evolve", "--resume", "mine")):
        assert f"'mine' is a saved team, which run {run!r} made" in call(home, *command, code=WRONG).stderr
    swapped = call(home, "run", "What is 1 + 1?", "mine", code=WRONG).stderr
    assert "the team stands before the question: selfwire run mine 'What is 1 + 1?'" in swapped


def test_a_router_without_a_choice_says_so(home: Path) -> None:
    call(home, *EVOLVE, "--iterations", "0")
    refused = call(home, "selection", "mine", "What is 1 + 1?", "--benchmark", "archive", code=WRONG).stderr
    assert refused.splitlines()[-1] == "error: the router of 'mine' chose nothing: no agent that ran has two successors"


def test_a_comparison_with_few_tasks_names_its_own_way_out_and_misspelled_systems_first(home: Path) -> None:
    asked = ("--benchmark", "my.jsonl", "--grader", "numeric")
    assert "did you mean single?" in call(home, "compare", "hiva", "singel", *asked, code=WRONG).stderr
    refused = call(home, "compare", "hiva", "single", *asked, code=WRONG).stderr
    assert "takes chance for a gain; --evolve none evolves nothing first" in refused


def test_prunings_of_older_versions_are_listed_as_such(home: Path) -> None:
    call(home, *EVOLVE)
    [run] = list_run_names(home)
    with closing(Journal.open(get_run_folder(home, run) / JOURNAL)) as journal:
        request = run_sync(journal.get_note(REQUEST))
        evolution = {**request["evolution"], "iterations": 0, "pruning": {"batch": 1}}
        run_sync(journal.put_note(REQUEST, {**request, "evolution": evolution}))
    assert call(home, "runs").stdout.splitlines()[1].split()[1] == "prune"
