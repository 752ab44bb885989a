"""`selfwire run`: what a budget stops is not lost."""

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import selfwire
from selfwire.cli.commands import STOPPED, WRONG
from selfwire.cli.json_output import print_error, print_text
from selfwire.cli.output import print_or_write
from selfwire.core.errors import ConfigError
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.models.metered_chat import PROBE
from tests.commands import call
from tests.wire.server import Fault, WireServer

QUESTION = "Who am I?"


@pytest.mark.parametrize(("method", "calls"), [("tacomas", 7), ("dytopo", 4)])
def test_a_run_that_a_budget_stops_prints_the_best_answer_until_then(tmp_path: Path, method: str, calls: int) -> None:
    result = call(tmp_path, "run", method, "Where am I?", "--budget-calls", str(calls), code=STOPPED)
    assert result.stdout.strip()
    assert "\nstopped; the answer is the best until then: budget exhausted" in result.stderr
    assert "resume" not in result.stderr


def test_what_names_no_model_asks_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFWIRE_MODEL", "offline:system")
    here = ("eval", "direct", "--benchmark", "archive", "--tasks", "1")
    assert "model offline:system" in call(tmp_path, *here).stdout
    assert "model offline," in call(tmp_path, *here, "--model", "offline").stdout


@pytest.mark.parametrize("method", ["hiva", "hera", "tacomas"])
def test_a_run_that_is_stopped_before_there_is_an_answer_says_so(tmp_path: Path, method: str) -> None:
    result = call(tmp_path, "run", method, QUESTION, "--budget-calls", "1", code=STOPPED)
    assert result.stdout == ""
    assert "\nstopped, before there was any answer: budget exhausted" in result.stderr


def test_show_tells_the_rounds_of_a_run_that_is_stopped(tmp_path: Path) -> None:
    result = call(tmp_path, "run", "tacomas", QUESTION, "--budget-calls", "7", "--show", code=STOPPED)
    assert "round 1: " in result.stdout
    assert "ended: stopped; the answer is that of round 1" in result.stdout


@pytest.mark.parametrize("method", ["hiva", "dytopo"])
def test_a_server_that_cannot_be_reached_stops_a_run_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr("asyncio.sleep", at_once)
    address = ("--model", "openai:mine", "--base-url", "http://me:secret@127.0.0.1:9/v1")
    result = call(tmp_path, "run", method, QUESTION, *address, "--embedder", "hashing", code=STOPPED)
    assert result.stdout == ""
    stopped = (
        "\nstopped, before there was any answer: http://127.0.0.1:9 does not answer: no connection after 6 attempts"
    )
    assert f"{stopped}, and nothing was paid (OpenAIConnectionError: Connection error.)" in result.stderr
    assert ": check the address and that a server runs there, then try again" in result.stderr
    assert "0 calls, 0 tokens, $0.00" in result.stderr
    assert "then try again" in result.stderr
    assert "secret" not in result.stderr


async def at_once(seconds: float) -> None:
    """Sleeps for no time at all."""


def asked_of_the_archive(home: Path, method: str, *more: str) -> Result:
    [task] = load_benchmark("archive", size=20).splits(0, train=1, gate=0, test=0).train
    result = call(home, "run", method, task.input, "--benchmark", "archive", "--show", *more)
    return result


@pytest.mark.parametrize("method", ["tacomas", "dytopo"])
def test_the_answer_and_the_cost_are_printed_once(tmp_path: Path, method: str) -> None:
    result = asked_of_the_archive(tmp_path, method)
    assert "\nanswer\n" not in result.stdout
    assert "spent:" not in result.stdout
    assert "calls, " in result.stderr
    assert "untrained" not in result.stdout


def test_show_names_the_needs_and_offers_of_dytopo(tmp_path: Path) -> None:
    assert re.search(r"^  Analyst needs: \S.*; offers: \S", asked_of_the_archive(tmp_path, "dytopo").stdout, re.M)


def test_an_untrained_router_is_called_so(tmp_path: Path) -> None:
    assert "the router is untrained" in asked_of_the_archive(tmp_path, "evomas").stdout
    assert "untrained" not in asked_of_the_archive(tmp_path, "evomas", "--set", "adapter=fixed").stdout


def test_a_run_without_an_answer_prints_its_cost(tmp_path: Path) -> None:
    assert re.search(
        r"^1 call, [\d,]+ tokens",
        call(tmp_path, "run", "hiva", QUESTION, "--budget-calls", "1", code=STOPPED).stderr,
        re.M,
    )


@pytest.mark.parametrize("status", [401, 404])
def test_a_refused_key_or_model_is_an_input_that_cannot_be_used(
    tmp_path: Path, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    wire_server.picky = lambda body: Fault(status=status, message="Incorrect API key provided")
    address = ("--model", "openai:mine", "--base-url", wire_server.url, "--embedder", "hashing")
    told = call(tmp_path, "run", "single", QUESTION, *address, code=WRONG).stderr.splitlines()[-1]
    assert told.startswith("error: ")
    assert f"Error code: {status} - Incorrect API key provided (openai:mine at " in told
    assert told.endswith("; nothing was answered, so ask again with the right key, --model or --base-url")
    monkeypatch.setenv("OPENAI_BASE_URL", wire_server.url)
    with pytest.raises(ConfigError, match="ask again with the right key, model or --base-url"):
        selfwire.run("single", QUESTION, model="openai:mine", home=tmp_path)


def refuse_all_but_probes(body: dict[str, Any]) -> Fault | None:
    return None if body["messages"][-1]["content"] == PROBE.content else Fault(status=400, message="no such luck")


def test_an_agent_that_fails_leaves_no_answer_and_says_why(tmp_path: Path, wire_server: WireServer) -> None:
    wire_server.picky = refuse_all_but_probes
    address = ("--model", "openai:mine", "--base-url", wire_server.url, "--embedder", "hashing")
    result = call(tmp_path, "run", "hiva", QUESTION, *address, code=WRONG)
    assert result.stdout == ""
    asked, spent, error = result.stderr.splitlines()
    assert asked == "method hiva, its seed team"
    assert spent.startswith("1 call, ")
    cause = "ModelError: OpenAIInvalidRequestError: Error code: 400 - no such luck"
    assert error.startswith(f"error: {cause} (openai:mine at ")
    assert "the model's length refuses; so 'source' failed, and sink 'aggregator' received nothing; look at" in error
    assert error.endswith("look at the steps with --show, then try again")


def test_the_offline_model_says_which_questions_it_knows_and_its_example_works(tmp_path: Path) -> None:
    result = call(tmp_path, "run", "hiva", "What is the capital of France?")
    told = result.stderr
    assert "selfwire run hiva 'What is the capital of France?' --model openai:gpt-4o-mini" in told
    [example] = re.findall(r'generated benchmarks: selfwire (run hiva ".*" --benchmark archive)$', told, re.M)
    example = call(tmp_path, "run", *shlex.split(example)[1:])
    assert "Answer: Paula Boubrur" in example.stdout
    assert "offline model answers only" not in example.stderr


def test_a_method_that_asks_often_says_so_first(tmp_path: Path) -> None:
    told = call(tmp_path, "run", "tacomas", QUESTION, "--budget-calls", "2", code=STOPPED).stderr
    [most] = re.findall(
        r"^tacomas makes about 31 model calls for one question, and about (\d+) where it takes all its rounds; --bu",
        told,
        re.M,
    )
    spent = call(
        tmp_path, "run", "tacomas", QUESTION
    ).stderr  # the offline model does not know, so all rounds are taken
    assert 31 < int(spent.splitlines()[-1].split()[0]) < int(most)
    assert "model calls for one question" not in call(tmp_path, "run", "hiva", QUESTION, "--budget-calls", "2").stderr


def test_a_baseline_answers_too(tmp_path: Path) -> None:
    result = call(tmp_path, "run", "cot", QUESTION, "--show")
    assert "baseline cot" in result.stderr
    assert result.stdout.strip()


@pytest.mark.parametrize(
    ("question", "more", "proposed"),
    [
        ("Write a Python function `median(values)` that returns the median.", (), "code"),
        ("Find all positive integers n such that n divides 2^n + 1.", (), "math"),
        ("Write a Python function `median(values)`.", ("--set", "domain=general"), ""),
        ("Which of the two programmes was first broadcast?", (), ""),
        ("Who wrote the code of Hammurabi?", (), ""),
    ],
)
def test_a_team_for_the_kind_of_question_is_proposed_without_a_call(
    tmp_path: Path, question: str, more: tuple[str, ...], proposed: str
) -> None:
    result = call(tmp_path, "run", "dytopo", question, *more, "--budget-calls", "1", code=None)
    said = re.findall(r"the question asks for (\w+): --set domain=\1 has a team for that", result.stderr)
    assert said == ([proposed] if proposed else [])


def test_no_team_is_proposed_by_a_method_that_has_one(tmp_path: Path) -> None:
    result = call(tmp_path, "run", "hiva", "Write a Python function.", "--budget-calls", "1", code=None)
    assert "--set domain" not in result.stderr


def test_another_program_gets_an_answer_as_it_is_and_a_terminal_nothing_that_acts_on_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = "\x1b[31mred \x1b]0;title\x07 \u202eback\u2028line"
    print_text(answer)
    assert capsys.readouterr().out == f"{answer}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_text(answer)
    assert capsys.readouterr().out == r"\x1b[31mred \x1b]0;title\x07 \u202eback\u2028line" + "\n"
    assert not print_or_write(Path("-"), f"{answer}\n", "the patch", kind="team", force=False)
    assert capsys.readouterr().out == r"\x1b[31mred \x1b]0;title\x07 \u202eback\u2028line" + "\n"


def test_json_for_another_program_is_utf_8_in_every_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="latin-1"))
    print_error("caf\u00e9 \u2192 here", ["run", "--json"], ["run"])
    assert json.loads(written.getvalue().decode()) == {"command": "run", "error": "caf\u00e9 \u2192 here"}
