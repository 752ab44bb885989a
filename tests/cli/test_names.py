"""One name, one meaning: a method's bare name is the method, and `team:` or `@` mean a saved team."""

import json
from pathlib import Path

import pytest

import selfwire
from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.models.sync import run_sync
from selfwire.store.library import open_library
from tests.commands import call

OWN = Team(method="hiva", agents=(Agent(id="mine", prompt="Answer."),), topology=make_chain("mine"))
CLASH = "hiva is a method; the team that is saved under the same name is team:hiva"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with open_library(tmp_path) as library:
        run_sync(library.save("hiva", OWN, run="r", step=1))
        run_sync(library.save("own", OWN, run="r", step=2))
    return tmp_path


def test_a_bare_name_of_a_method_is_the_method(home: Path) -> None:
    shown = call(home, "show", "hiva")
    assert shown.stdout.startswith("method hiva, its seed team  hiva  ")
    assert CLASH in shown.stderr
    asked = call(home, "run", "hiva", "Who?")
    assert f"method hiva, its seed team; {CLASH}\n" in asked.stderr


@pytest.mark.parametrize("name", ["team:hiva", "hiva@1", "hiva@r.1"])
def test_team_and_at_mean_the_saved_team(home: Path, name: str) -> None:
    assert call(home, "show", name).stdout.startswith(f"hiva@r.1  hiva  {OWN.fingerprint}")
    asked = call(home, "run", name, "Who?")
    assert f"saved team hiva@r.1 of method hiva ({OWN.fingerprint})" in asked.stderr
    assert call(home, "diff", name, "own").stdout == "no difference\n"


def test_two_saved_teams_at_once_are_refused(home: Path) -> None:
    asked = call(home, "run", "own", "Who?", "--team", "hiva", code=2)
    assert "'own' names a saved team, and --team hiva another" in asked.stderr


def test_every_command_says_what_it_measures(home: Path) -> None:
    compared = call(
        home,
        "compare",
        "hiva",
        "team:hiva",
        "own",
        "single",
        "--evolve",
        "none",
        "--benchmark",
        "archive",
        "--tasks",
        "1",
        code=0,
    )
    lines = compared.stdout.splitlines()[1:6]
    assert lines[0].startswith("hiva: method hiva, its seed team ")
    assert lines[1:] == [
        f"team-hiva: saved team hiva@r.1 of method hiva ({OWN.fingerprint})",
        f"own: saved team own@r.2 of method hiva ({OWN.fingerprint})",
        "single: baseline single",
        CLASH,
    ]
    header = json.loads(next((home / "runs").glob("*/results.jsonl")).read_text().splitlines()[0])
    assert [one["version"] for one in header["contestants"]] == ["", "", "hiva@r.1", "own@r.2", ""]


@pytest.mark.parametrize(
    "arguments",
    [
        ("diff", "hiva", "own"),
        ("export", "single", "x.json"),
        ("report", "hiva"),
        ("run", "hiva", "Who?", "--team", "all"),
        ("evolve", "hiva", "--benchmark", "archive", "--team", "hiva"),
    ],
)
def test_where_a_saved_team_is_wanted_a_method_is_refused(home: Path, arguments: tuple[str, ...]) -> None:
    result = call(home, *arguments, code=2)
    assert result.stdout == ""
    assert "and a saved team is wanted here; a saved team of that name is team:" in result.stderr


def test_where_a_saved_team_is_wanted_a_graph_is_told_how_it_becomes_one(home: Path) -> None:
    told = call(home, "prune", "my_app:graph", "--benchmark", "archive", code=2).stderr
    assert "a saved team is wanted here; save it with `selfwire adopt my_app:graph --name NAME`" in told


def test_history_and_front_say_what_a_name_of_no_team_means(tmp_path: Path) -> None:
    given = ("--benchmark", "archive", "--name", "mine", "--iterations", "1", "--train", "1", "--test", "1")
    evolved = call(tmp_path, "evolve", "hiva", *given, "--batch", "1", "--gate", "off", "--gate-size", "0", "--json")
    run = json.loads(evolved.stdout)["run"]
    measured = json.loads(call(tmp_path, "eval", "direct", "--benchmark", "archive", "--tasks", "1", "--json").stdout)
    for command in ("history", "front"):
        assert f"{run!r} is a run, whose team is 'mine'" in call(tmp_path, command, run, code=2).stderr
        assert "is a run, which has saved no team" in call(tmp_path, command, measured["run"], code=2).stderr
        assert "'hera' is a method, and has no versions" in call(tmp_path, command, "hera", code=2).stderr
        assert "saved there are mine\n" in call(tmp_path, command, "other", code=2).stderr


@pytest.mark.parametrize(("name", "kind"), [("hiva", "method"), ("single", "baseline"), ("all", "word of ")])
def test_a_team_gets_no_name_that_would_go_on_to_mean_something_else(home: Path, name: str, kind: str) -> None:
    evolved = call(home, "evolve", "hiva", "--benchmark", "archive", "--name", name, code=2)
    trained = call(home, "train", "evomas", "--benchmark", "archive", "--name", name, code=2)
    told = f"{name!r} is a {kind}"
    assert told in evolved.stderr
    assert told in trained.stderr
    assert f"save the team under another name, or as team:{name}" in evolved.stderr
    with pytest.raises(ConfigError, match=told):
        selfwire.save(OWN, name, home=home)
    with pytest.raises(ConfigError, match=told):
        selfwire.evolve(OWN, "archive", name=name, home=home)
    assert selfwire.save(OWN, f"team:{name}", home=home).name == name
    assert selfwire.load(f"team:{name}", home=home) == OWN


def test_a_team_that_is_saved_under_a_methods_name_is_told_how_it_is_called(home: Path) -> None:
    sizes = [option for name in ("train", "gate-size", "test", "batch") for option in (f"--{name}", "1")]
    sizes += ["--gate", "mean"]
    result = call(home, "evolve", "hiva", "--benchmark", "archive", "--name", "team:hiva", "--iterations", "1", *sizes)
    assert "look at it with `selfwire show team:hiva`" in result.stdout
