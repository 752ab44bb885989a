"""What commands tell: before they run, of what could not be used, and with which model."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from typer.testing import Result

import selfwire
from selfwire.cli.commands import FAILED, STOPPED, WRONG
from selfwire.core.errors import ConfigError
from tests.commands import call
from tests.wire.server import Body, Fault, WireServer, text

ROWS = "frage,question,answer\n" + "".join(f"x,What is {n} plus 1?,{n + 1}\n" for n in range(24))
OWN = ("--benchmark", "q.csv", "--grader", "numeric")
SIZES = tuple("--gate mean --batch 1 --gate-tasks 1 --train 4 --gate-size 4 --test 0 --no-baselines".split())
GUESSED = "q.csv: question from 'question', reference from 'answer'; guessed, --input-field"
NUMBER = text("Answer: 1")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("q.csv").write_text(ROWS, encoding="utf-8")
    return tmp_path / "home"


def refusing(pick: Callable[[Body], Fault | None]) -> WireServer:
    """A server that answers some requests with a fault, and all others with a number."""
    server = WireServer(NUMBER)
    server.picky = pick
    return server


def evolve_offline(home: Path) -> None:
    """The team `mine`, which keeps what two iterations propose."""
    sizes = (*SIZES, "--iterations", "2", "--gate", "off")
    call(home, "evolve", "hiva", "--benchmark", "archive", "--name", "mine", *sizes)


def evolve_by(home: Path, server: WireServer, code: int = 0) -> Result:
    """The team `mine` on own tasks, by the model of a server."""
    sizes = (*SIZES, "--iterations", "1")
    return call(home, "evolve", "hiva", *OWN, "--name", "mine", *sizes, *reached(server), code=code)


def reached(server: WireServer) -> tuple[str, ...]:
    return "--model", "openai:mine", "--base-url", server.url, "--embedder", "hashing", "--retries", "0"


@pytest.mark.parametrize(
    "command",
    [("evolve", "hiva", "--gate", "mean"), ("eval", "single"), ("compare", "single", "cot"), ("train", "evomas")],
)
def test_a_dry_run_says_which_fields_are_guessed(home: Path, command: tuple[str, ...]) -> None:
    result = call(home, *command, *OWN, "--dry-run")
    assert GUESSED in result.stderr
    assert "nothing was sent" in result.stdout


def test_a_dry_run_refuses_dollars_that_cannot_be_counted(home: Path) -> None:
    asked = (*OWN, "--model", "openai:of-my-own", "--dry-run", "--budget-usd", "1")
    assert (
        "the price of openai:of-my-own is not known"
        in call(home, "evolve", "hiva", "--gate", "mean", *asked, code=WRONG).stderr
    )
    Path("prices.json").write_text('{"openai:of-my-own": {"input": 1, "output": 1}}')
    assert (
        "dollars: about $" in call(home, "evolve", "hiva", "--gate", "mean", *asked, "--prices", "prices.json").stdout
    )


def test_a_dry_run_refuses_an_objective_in_dollars_that_cannot_be_counted(home: Path) -> None:
    asked = ("evolve", "hiva", *OWN, "--model", "openai:of-my-own", "--dry-run", "--anyway")
    priced = (*asked, "--objective", "score - 2*dollars")
    told = call(home, *priced, code=WRONG).stderr
    assert "'score - 2*dollars' cannot be computed: the price of openai:of-my-own is not known" in told
    assert "or count tokens or calls in its place" in told
    assert "nothing was sent" in call(home, *asked, "--objective", "score - tokens/100000").stdout
    Path("prices.json").write_text('{"openai:of-my-own": {"input": 1, "output": 1}}')
    assert "nothing was sent" in call(home, *priced, "--prices", "prices.json").stdout


def test_replies_that_nobody_can_use_are_no_proposals(home: Path) -> None:
    with WireServer(NUMBER) as server:
        told = call(
            home, "evolve", "hiva", *OWN, *SIZES, "--iterations", "1", "--name", "mine", *reached(server)
        ).stdout
    assert (
        ", unusable reply: agents, tools and topology are as they were; the model's reply could not be read in" in told
    )
    assert "nothing was evolved" in told
    assert "unusable reply" in call(home, "history", "mine").stdout


def test_a_team_that_another_model_was_evolved_with_is_told_before_it_runs(home: Path) -> None:
    with WireServer(NUMBER) as server:
        evolve_by(home, server)
    other = "evolved with openai:mine, and offline answers now (--model openai:mine for the same)"
    lines = call(home, "eval", "mine", *OWN, "--tasks", "2", "--model", "offline").stdout.splitlines()
    assert lines[0].endswith("2 tasks, seed 0, model offline")
    assert lines[1].endswith(other)
    assert any("test split, 2 tasks, model offline" in line for line in lines)
    assert other in call(home, "run", "mine", "What is 1 plus 1?", "--model", "offline").stderr
    assert other not in call(home, "eval", "hiva", *OWN, "--tasks", "2").stdout


def test_a_saved_team_is_asked_with_its_own_model_where_none_is_named(home: Path) -> None:
    with WireServer(NUMBER) as server:
        evolve_by(home, server)
        before = len(server.asked)
        asked = ("run", "mine", "What is 1 plus 1?", "--base-url", server.url)
        assert "; openai:mine answers, with which it was evolved" in call(home, *asked).stderr
        assert len(server.asked) > before
        Path("selfwire.toml").write_text('[run]\nmodel = "openai:other"\n', encoding="utf-8")
        other = "evolved with openai:mine, and openai:other answers now"
        assert other in call(home, *asked).stderr


@pytest.mark.parametrize(
    "command",
    [
        ("eval", "mine", "--tasks", "2"),
        ("evolve", "mine", "--name", "more", "--iterations", "1", *SIZES),
        ("evolve", "hiva", "--team", "mine", "--name", "more", "--iterations", "1", *SIZES),
    ],
)
def test_every_command_asks_a_saved_team_with_its_own_model(home: Path, command: tuple[str, ...]) -> None:
    with WireServer(NUMBER) as server:
        evolve_by(home, server)
        del server.asked[:]
        told = call(home, *command, *OWN, "--base-url", server.url, "--embedder", "hashing").stdout
    assert "model openai:mine" in told
    assert {asked.body["model"] for asked in server.asked} == {"mine"}


@pytest.mark.parametrize("command", [("compare", "mine", "single"), ("prune", "mine"), ("train", "hiva")])
def test_a_dry_run_of_a_saved_team_counts_the_price_of_its_own_model(home: Path, command: tuple[str, ...]) -> None:
    with WireServer(NUMBER) as server:
        evolve_by(home, server)
    start = ("--team", "mine") if command[0] == "train" else ()
    told = call(home, *command, *start, *OWN, "--dry-run", "--budget-usd", "1", code=WRONG).stderr
    assert "the price of openai:mine is not known" in told


def test_teams_of_different_models_need_one_that_answers(home: Path) -> None:
    call(home, "evolve", "hiva", *OWN, "--name", "other", *SIZES, "--iterations", "1")
    with WireServer(NUMBER) as server:
        evolve_by(home, server)
    asked = ("compare", "mine", "other", *OWN, "--tasks", "2")
    told = call(home, *asked, code=WRONG).stderr
    assert "the teams were evolved with offline and openai:mine; say which answers, with --model" in told
    assert "model offline" in call(home, *asked, "--model", "offline").stdout


class _Chat(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "own-chat"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Answer: 1"))])


PAIRS = [{"input": f"What is {n} plus 1?", "reference": str(n + 1)} for n in range(9)]
WHICH = (
    "team 'mine' was evolved with a chat model without a name, which cannot be made here; say which model answers, as "
    "in --model openai:gpt-4o-mini"
)


def evolve_by_own_chat(home: Path) -> None:
    """The team `mine`, by a chat model that no name means."""
    selfwire.evolve(
        "hiva",
        PAIRS[:4],
        "numeric",
        valset=PAIRS[4:6],
        testset=PAIRS[6:8],
        model=_Chat(),
        iterations=1,
        batch=1,
        gate="off",
        name="mine",
        home=home,
    )


def test_a_team_of_a_chat_model_of_the_users_own_says_how_another_is_named(home: Path) -> None:
    evolve_by_own_chat(home)
    for command in (
        ("run", "mine", "What is 1 plus 1?"),
        ("eval", "mine", *OWN, "--tasks", "2"),
        ("compare", "single", "mine", *OWN, "--tasks", "2"),
        ("evolve", "hiva", "--team", "mine", *OWN, *SIZES, "--name", "more", "--iterations", "1"),
        ("prune", "mine", *OWN, "--gate-size", "4", "--batch", "1", "--test", "0"),
        ("train", "hiva", "--team", "mine", *OWN, "--train", "4", "--test", "0"),
        ("eval", "mine", *OWN, "--tasks", "2", "--dry-run"),
        ("evolve", "hiva", "--team", "mine", *OWN, *SIZES, "--name", "more", "--dry-run"),
        ("selection", "mine", "What is 1 plus 1?"),
    ):
        assert WHICH in call(home, *command, code=WRONG).stderr, command
    told = call(home, "run", "mine", "What is 1 plus 1?", "--model", "offline").stderr
    assert "; evolved with a chat model without a name, and offline answers now\n" in told


@pytest.mark.parametrize(
    "ask",
    [
        lambda home: selfwire.run("mine", "What is 1 plus 1?", home=home),
        lambda home: selfwire.evaluate("mine", PAIRS, "numeric", home=home),
        lambda home: selfwire.compare(["single", "mine"], PAIRS, "numeric", home=home),
        lambda home: selfwire.evolve("mine", PAIRS[:4], "numeric", valset=PAIRS[4:], gate="off", home=home),
    ],
)
def test_in_python_too_a_team_of_a_chat_model_of_the_users_own_says_so(home: Path, ask: Callable[[Path], Any]) -> None:
    evolve_by_own_chat(home)
    with pytest.raises(ConfigError, match=re.escape(WHICH.replace("--model", "model"))):
        ask(home)


def test_only_what_belongs_to_the_model_is_told_of_the_team(home: Path) -> None:
    with WireServer(NUMBER) as server:
        evolve_by(home, server)
    told = call(home, "run", "mine", "What is 1 plus 1?", "--base-url", "nowhere", code=WRONG).stderr
    assert "--base-url 'nowhere' is no address" in told
    assert "cannot be made here" not in told


@pytest.mark.parametrize("option", ["--model", "--meta-model", "--judge-model"])
def test_an_empty_name_is_no_model(home: Path, option: str) -> None:
    for command in (
        ("run", "hiva", "What is 1 plus 1?"),
        ("eval", "single", *OWN, "--tasks", "1"),
        ("evolve", "hiva", *OWN, *SIZES, "--iterations", "1", "--name", "more"),
    ):
        assert "unknown model ''" in call(home, *command, option, "", code=WRONG).stderr, command


def test_an_empty_name_is_not_the_model_of_a_saved_team(home: Path) -> None:
    with WireServer(NUMBER) as server:
        evolve_by(home, server)
        del server.asked[:]
        asked = ("eval", "mine", *OWN, "--tasks", "1", "--base-url", server.url, "--model", "")
        assert "unknown model ''" in call(home, *asked, code=WRONG).stderr
        assert not server.asked
    with pytest.raises(ConfigError, match="unknown model ''"):
        selfwire.run("hiva", "What is 1 plus 1?", model="", home=home)


def test_an_evolution_that_stops_early_does_not_praise_an_older_team(home: Path) -> None:
    evolve_offline(home)
    with refusing(lambda body: Fault(status=500, message="no room")) as server:
        stopped = evolve_by(home, server, STOPPED)
    assert "nothing was evolved" in stopped.stdout
    listed = call(home, "runs").stdout
    last = listed.splitlines()[-1]
    cause = "OpenAIAPIError: Error code: 500 - no room (openai:mine at http://127.0.0.1:"
    assert f": stopped: OutageError: {cause}" in last
    assert re.search(r"; go on with: selfwire evolve --resume hiva-q-\w+$", last)


def test_a_provider_that_answers_nothing_stops_a_run_and_a_task_that_fails_does_not(home: Path) -> None:
    """Exit code 3 where no call gets through and the run can go on later, 1 where it ended and all tasks failed."""
    long = f"no such model. {'Read the manual. ' * 40}The end"
    with refusing(lambda body: Fault(status=500, message=long)) as server:
        told = call(home, "eval", "single", *OWN, "--tasks", "2", *reached(server), code=STOPPED)
    assert "The end" in told.stderr
    assert "go on with: selfwire eval --resume" in told.stdout
    with refusing(lambda body: Fault(status=400, message=long) if "What is" in str(body) else None) as server:
        failed = call(home, "eval", "single", *OWN, "--tasks", "2", *reached(server), code=FAILED)
    run = failed.stdout.split()[1].rstrip(":")
    assert "The end" in call(home, "show", run).stdout


@pytest.mark.parametrize("status", [401, 404])
@pytest.mark.parametrize(
    "command",
    [
        ("eval", "single", "--tasks", "6"),
        ("compare", "hiva", "single", "--tasks", "4", "--gate", "mean"),
        ("evolve", "hiva", *SIZES),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_wrong_key_or_model_is_refused_and_leaves_no_run(
    home: Path, status: int, command: tuple[str, ...], workers: str
) -> None:
    with refusing(lambda body: Fault(status=status, message="Incorrect API key provided: sk-a1b2c3d4e5")) as server:
        told = call(home, *command, *OWN, *reached(server), "--workers", workers, code=WRONG)
    cause = f"Error code: {status} - Incorrect API key provided: *** (openai:mine at "
    assert cause in told.stderr.splitlines()[-1]
    assert "no run is kept: start again with the right key, --model or --base-url" in told.stderr
    assert "go on with" not in told.output
    assert "there are no runs" in call(home, "runs").stdout


def test_a_wrong_key_of_the_critics_stops_a_run_that_has_cost_something(home: Path) -> None:
    refusal = Fault(status=401, message="no")
    with refusing(lambda body: refusal if body["model"] == "critic" else None) as server:
        meta = ("--meta-model", "openai:critic")
        told = call(home, "evolve", "hiva", *OWN, *SIZES, *reached(server), *meta, code=STOPPED)
    assert "go on with: selfwire evolve --resume" in told.stdout
    assert "without a reply" not in told.stdout


def test_a_run_whose_server_was_not_there_owes_nothing_and_keeps_its_address(home: Path) -> None:
    nowhere = ("--model", "openai:mine", "--base-url", "http://127.0.0.1:9/v1", "--embedder", "hashing")
    asked = ("eval", "single", *OWN, "--tasks", "4", "--concurrency", "3", "--retries", "1")
    stopped = call(home, *asked, *nowhere, code=STOPPED)
    assert "stopped: http://127.0.0.1:9 does not answer: no connection after 2 attempts, and noth" in stopped.stderr
    told = stopped.stdout
    assert "without a reply" not in told
    assert "spent: 0 calls, 0 tokens, $0.00\n" in told
    assert "without a reply" not in call(home, "runs").stdout
    run = re.findall(r"--resume (\S+)", told)[0]
    with WireServer(NUMBER) as server:
        refused = call(home, "eval", "--resume", run, "--base-url", server.url, code=WRONG).stderr
    assert "has --base-url http://127.0.0.1:9/v1, not " in refused
    assert "start a new run" in refused


def test_a_task_of_an_evaluation_is_shown_of_a_system_not_of_the_trivial_baseline(home: Path) -> None:
    run = call(home, "eval", "single", *OWN, "--tasks", "2").stdout.split()[1].rstrip(":")
    listed = call(home, "show", run).stdout.splitlines()
    assert [line for line in listed if not line.startswith(" ")] == ["single", "trivial"]
    task = listed[1].split()[0]
    assert f"{run}, single (also at trivial: choose with --at)" in call(home, "show", run, "--task", task).stdout
    assert f"{run}, trivial" in call(home, "show", run, "--task", task, "--at", "trivial").stdout


def test_diff_and_show_say_what_was_learned(home: Path) -> None:
    evolve_offline(home)
    changed = call(home, "diff", "mine@0", "mine").stdout
    assert "; runs 0 -> 2" in changed
    assert not [
        line
        for line in changed.splitlines()
        if line[:1] not in ("+", "-") and not line.startswith(("memory", "prompt"))
    ]
    assert "\nlearned\n  hiva: beliefs " in call(home, "show", "mine").stdout


def test_what_spreadsheets_leave_behind_is_no_task(home: Path) -> None:
    Path("s.csv").write_text("question;answer\nOne?;1\n\n;\nTwo?;2\n;;\n", encoding="utf-8-sig")
    assert "/s.csv, 2 tasks, seed 0" in call(home, "eval", "single", "--benchmark", "s.csv").stdout


def test_a_benchmark_that_is_misspelled_is_guessed(home: Path) -> None:
    told = call(home, "eval", "single", "--benchmark", "Archiv", code=WRONG).stderr
    assert "unknown benchmark 'Archiv'; did you mean archive? Or choose" in told


def test_an_address_without_a_path_is_doubted_before_anything_is_sent(home: Path) -> None:
    with WireServer(NUMBER) as server:
        bare = server.url.removesuffix("/v1")
        asked = ("run", "hiva", "Who?", "--model", "openai:mine", "--retries", "0", "--embedder", "hashing")
        told = call(home, *asked, "--base-url", bare, code=WRONG).stderr
        assert f"--base-url {bare} has no path; most servers answer at {server.url}" in told
        assert "has no path" not in call(home, *asked, "--base-url", server.url).stderr
