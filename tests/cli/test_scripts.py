"""For scripts: `--json`, `--version`, selfwire.toml and exit codes."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from selfwire.cli.commands import COMMANDS, FAILED, STOPPED, WRONG
from selfwire.cli.config_file import list_commands
from selfwire.core.plugins import compute_code_hash, get_version
from tests.commands import call
from tests.wire.server import Fault, WireServer

SIZES = tuple("--gate mean --iterations 1 --batch 1 --train 2 --gate-size 1 --test 2 --gate-tasks 1".split())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def call_for_json(home: Path, *arguments: str, code: int = 0) -> Any:
    found = json.loads(call(home, *arguments, "--json", code=code).stdout)
    assert found["command"] == " ".join(arguments[: 2 if arguments[0] == "insights" else 1])
    return found


def test_every_command_takes_json_and_says_so() -> None:
    assert {name for name, options in list_commands().items() if "json" not in options} == set()
    assert {name.split()[0] for name in list_commands()} == set(COMMANDS)


def test_the_json_of_an_evolution_and_of_what_reads_it(home: Path) -> None:
    evolved = call_for_json(home, "evolve", "hiva", "--benchmark", "archive", "--name", "mine", *SIZES)
    assert evolved["status"] == "finished"
    names = [system["name"] for system in evolved["systems"]]
    assert (names[-1], "seed team" in names) == ("evolved team", True)
    run = evolved["run"]
    [listed] = call_for_json(home, "runs")["runs"]
    assert (listed["run"], listed["summary"]["status"]) == (run, "finished")
    history = call_for_json(home, "history", "mine")["history"]
    assert [one["step"] for one in history["versions"]] == [0, 1]
    shown = call_for_json(home, "show", "mine@1")
    assert (shown["version"]["run"], shown["team"]["method"]) == (run, "hiva")
    listed = call_for_json(home, "show", run)["trajectories"]
    assert {"place", "task", "score"} <= {*listed[0]}
    task = call_for_json(home, "show", run, "--task", listed[0]["task"])
    assert task["trajectory"]["question"]["id"] == listed[0]["task"]
    assert "memory" in call_for_json(home, "diff", "mine@0", "mine@1")["changes"]
    assert call_for_json(home, "measures", run)["measures"]["whole"]["queries"] == 1
    moved = call_for_json(home, "rollback", "mine", "0")
    assert (moved["before"], moved["now"]) == (f"mine@{run}.1", f"mine@{run}.0")
    assert call_for_json(home, "clean", "--all", "--yes")["runs"] == [run]


def test_the_json_of_an_evaluation_and_of_a_dry_run(home: Path) -> None:
    asked = ("compare", "hiva", "single", "--evolve=none", "--benchmark", "archive", "--tasks", "2")
    dry = call_for_json(home, *asked, "--dry-run")
    assert 0 < dry["low"]["calls"] < dry["high"]["calls"]
    found = call_for_json(home, *asked)
    assert (found["status"], found["against"], found["tasks"]) == ("finished", "single", 2)
    assert [one["name"] for one in found["systems"]] == ["trivial", "hiva", "single"]
    assert found["systems"][1]["score"] == found["systems"][1]["interval"]["value"]
    assert found["systems"][1]["difference"]["n"] == 2
    assert Path(found["results"]).is_file()


def test_the_json_of_a_question_and_of_errors(home: Path) -> None:
    answered = call_for_json(home, "run", "hiva", "Who?")
    assert (answered["status"], answered["answer"]) == ("finished", "Answer: unknown")
    assert answered["spend"]["calls"] == len(answered["trajectory"]["steps"]) == 2
    stopped = call_for_json(home, "run", "hiva", "Who?", "--budget-calls", "1", code=STOPPED)
    assert (stopped["status"], stopped["answer"]) == ("stopped", None)
    wrong = call(home, "eval", "hiva", "--benchmark", "archive", "--tasks", "0", "--json", code=WRONG)
    assert json.loads(wrong.stdout) == {"command": "eval", "error": "--tasks must be 1 or more, not 0"}
    assert wrong.stderr == "error: --tasks must be 1 or more, not 0\n"


@pytest.mark.parametrize(
    ("line", "command", "error"),
    [
        ("evl --json", "", "No such command 'evl'"),
        ("--foo eval --json", "eval", "No such option: --foo"),
        ("eval hiva --jsn --json", "eval", "No such option: --jsn"),
        ("eval hiva --tasks x --json", "eval", "--tasks must be a whole number, not 'x'"),
        ("show --json", "show", "Missing argument 'ref'"),
        ("diff hiva hiva --json", "diff", "'hiva' is a method, and a saved team is wanted here"),
        ("insights lst --json", "insights", "No such command 'lst'"),
        ("--config no.toml runs --json", "runs", "the config file no.toml cannot be read"),
    ],
)
def test_an_error_before_the_command_begins_is_json_too(home: Path, line: str, command: str, error: str) -> None:
    result = call(home, *line.split(), code=WRONG)
    found = json.loads(result.stdout)
    assert ({*found}, found["command"]) == ({"command", "error"}, command)
    assert found["error"].startswith(error)
    assert not call(home, *line.replace("--json", "").split(), code=WRONG).stdout


def test_a_run_that_stops_names_what_resumes_it(home: Path) -> None:
    asked = ("eval", "hiva", "--benchmark", "archive", "--tasks", "3", "--budget-calls", "4", "--concurrency", "1")
    found = call_for_json(home, *asked, code=STOPPED)
    assert (found["status"], found["resume"]) == ("stopped", f"selfwire eval --resume {found['run']}")
    assert found["error"].startswith("budget exhausted")


def test_version(home: Path) -> None:
    assert call(home, "--version").stdout == f"selfwire {get_version()} (code {compute_code_hash()})\n"
    assert call_for_json(home, "version")["version"] == get_version()


def test_the_file_gives_options_and_flags_win(home: Path) -> None:
    Path("selfwire.toml").write_text(
        '[shared]\nseed = 7\ntasks = 3\njson = true\n[eval]\ntasks = 2\nset = ["nodes=9"]\n'
    )
    found = json.loads(call(home, "eval", "hiva", "--benchmark", "archive").stdout)
    assert (found["seed"], found["tasks"]) == (7, 2)
    assert found["systems"][1]["config"] == {"nodes": 9}
    assert (
        json.loads(call(home, "eval", "cot", "--benchmark", "archive", "--tasks=1", "--set", "samples=1").stdout)[
            "tasks"
        ]
        == 1
    )
    assert "names" in json.loads(call(home, "history").stdout)
    Path("other.toml").write_text("[shared]\nseed = 8\n")
    assert "seed 8" in call(home, "--config", "other.toml", "eval", "cot", "--benchmark", "archive", "--tasks=1").stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[evl]\ntasks = 1\n", "unknown table [evl]; did you mean eval?"),
        ("[evolve]\nbatsch = 1\n", "[evolve] has an unknown key 'batsch'; did you mean batch?"),
        ("[shared]\ngate_size = 1\n", "[shared] has an unknown key 'gate_size'; did you mean gate-size?"),
        ("[insights.lst]\n", "unknown table [insights lst]; did you mean insights list?"),
        ("seed = 1\n", "'seed' stands in no table"),
        ("[evolve]\nbatch = 'a'\n", "[evolve] batch = 'a': "),
        ("[train]\nupdates = 0\n", "[train] updates = 0: "),
        ("[run]\nshow = 'yes'\n", "[run] show = 'yes': write true or false"),
        ("[run]\nseed = true\n", "[run] seed = True: give a value"),
        ("[eval]\nset = 'nodes=9'\n", "[eval] set = 'nodes=9': write a list"),
        ("[eval\n", "is no TOML: "),
        (f"[eval]\ntasks = {'9' * 5000}\n", "selfwire.toml has a number that is too long to be read; write a smaller"),
    ],
)
def test_a_file_that_cannot_be_used(home: Path, text: str, told: str) -> None:
    Path("selfwire.toml").write_text(text)
    result = call(home, "history", code=WRONG)
    assert told in result.stderr
    assert "selfwire.toml" in result.stderr


def test_a_missing_file_is_refused(home: Path) -> None:
    assert "nowhere.toml cannot be read" in call(home, "--config", "nowhere.toml", "history", code=WRONG).stderr


def test_init_writes_a_file_that_can_be_used_and_replaces_none(home: Path) -> None:
    call(home, "init")
    text = Path("selfwire.toml").read_text()
    assert all(line[:1] in ("", "#", "[") for line in text.splitlines())
    tomllib.loads(text)
    lines = [line.removeprefix("# ") if " = " in line and line[:2] == "# " else line for line in text.splitlines()]
    named = tomllib.loads("\n".join(line for line in lines if not line.startswith("#")))
    Path("selfwire.toml").write_text("[evolve]\nbatch = 3\n")
    assert "exists already" in call(home, "init", code=WRONG).stderr
    assert Path("selfwire.toml").read_text() == "[evolve]\nbatch = 3\n"
    assert (named["evolve"]["iterations"], named["shared"]["retries"]) == (10, 5)


def refuse_all(body: dict[str, Any]) -> Fault | None:
    return Fault(status=400, message="no such luck") if len(body["messages"]) > 1 else None


def test_errors_alone_are_no_success(home: Path, wire_server: WireServer) -> None:
    wire_server.picky = refuse_all
    address = ("--model", "openai:mine", "--base-url", wire_server.url, "--embedder", "hashing")
    asked = ("eval", "hiva", "--benchmark", "archive", "--tasks", "2", *address)
    assert "error: all tasks of hiva ended as errors" in call(home, *asked, code=FAILED).stderr
    call(home, *asked, "--max-errors", "2")
    told = call(home, *asked, "--max-errors", "1", code=FAILED).stderr
    assert "2 tasks ended as errors, more than --max-errors 1" in told


def test_a_team_that_has_only_learned_is_not_called_the_best(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evolving = ("evolve", "hiva", "--benchmark", "archive", *SIZES, "--gate", "off", "--no-baselines")
    assert "the best team is 'hiva-archive'" in call(home, *evolving).stdout
    monkeypatch.setattr("selfwire.cli.evolve.get_structure", lambda team: "the same")
    told = call(home, *evolving, "--seed", "1").stdout
    assert "agents, tools and topology are as they were; what was learned beside them is in 'hiva-archive'" in told
    assert "best workflow" not in told


def test_no_best_workflow_is_praised_where_nothing_was_evolved(home: Path) -> None:
    stopped = call(home, "evolve", "hiva", "--benchmark", "archive", "--budget-calls", "1", *SIZES, code=STOPPED)
    assert "nothing was evolved" in stopped.stdout
    assert "best workflow" not in stopped.stdout


def test_an_empty_text_of_a_config_file_leaves_an_option_as_it_is_without_it(tmp_path: Path) -> None:
    # as `init` writes them, uncommented
    (tmp_path / "selfwire.toml").write_text('[shared]\nmodel = ""\nbase-url = ""\n')
    told = call(tmp_path, "--config", str(tmp_path / "selfwire.toml"), "run", "single", "Who?", "--json")
    assert json.loads(told.stdout)["status"] == "finished"
