"""Commands against servers that take no JSON schema as response format."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from selfwire.cli.commands import FAILED, WRONG
from selfwire.models import structured
from selfwire.models.providers import make_chat_model
from selfwire.models.sync import run_sync
from selfwire.runs.record import list_run_names
from tests.commands import call
from tests.journals import read_journal
from tests.wire.server import Fault, WireServer, served

METHODS = ("hiva", "hera", "tacomas", "dytopo", "evomas")
REFUSAL = Fault(status=500, message="Input should be 'text' or 'json_object', 'loc': ('body', 'response_format')")


def picky(body: dict[str, Any]) -> Fault | None:
    """As llama.cpp's Python server."""
    return REFUSAL if body.get("response_format", {}).get("type") == "json_schema" else None


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    monkeypatch.setattr(structured, "_known", {})
    with WireServer(served(make_chat_model("offline"))) as one:
        one.picky = picky
        yield one


def ask(home: Path, server: WireServer, *arguments: str, code: int | None = 0) -> Result:
    address = ("--model", "openai:mine", "--base-url", server.url, "--embedder", "hashing")
    return call(home, *arguments, *address, code=code)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_answers(
    tmp_path: Path, server: WireServer, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = ask(tmp_path, server, "run", method, "Who am I?")
    assert result.stdout.strip(), result.stderr
    told = [line for line in caplog.messages if "--structured tool" in line]
    refused = [asked for asked in server.asked if asked.body.get("response_format")]
    assert len(told) == (len(refused) > 0)


def test_a_mode_can_be_set(tmp_path: Path, server: WireServer, caplog: pytest.LogCaptureFixture) -> None:
    ask(tmp_path, server, "run", "hera", "Who am I?", "--structured", "prompt", "--timeout", "60")
    assert not any("response_format" in asked.body or "tool_choice" in asked.body for asked in server.asked)
    assert not caplog.records


@pytest.mark.parametrize("command", [("run", "hera", "Who?"), ("eval", "hera", "--benchmark", "archive")])
def test_a_mode_that_is_none_is_refused(tmp_path: Path, server: WireServer, command: tuple[str, ...]) -> None:
    result = ask(tmp_path, server, *command, "--structured", "function", code=WRONG)
    assert "structured" in result.stderr
    assert "'native', 'tool', 'json' or 'prompt'" in result.stderr


@pytest.mark.parametrize("method", ["hiva", "tacomas"])  # one is evolved, the other measured
def test_workers_of_a_study_keep_a_limit_together(tmp_path: Path, server: WireServer, method: str) -> None:
    server.delay = 0.05
    sizes = (
        ("--iterations", "1", "--batch", "1", "--train", "1", "--gate-size", "1", "--gate-tasks", "1")
        if method == "hiva"
        else ()
    )
    study = ("ablate", method, "--variants", "full", "--seeds", "2", "--test", "1", *sizes)
    out = ("--out", str(tmp_path / "rows.jsonl"))
    ask(tmp_path, server, *study, *out, "--workers", "2", "--requests-at-once", "1")
    assert server.most_active == 1
    made = len(server.asked)
    ask(tmp_path, server, *study, *out, "--requests-at-once", "2")  # a limit may be another one
    assert len(server.asked) == made > 0


@pytest.mark.parametrize("command", [("ablate", "hiva"), ("eval", "hiva"), ("evolve", "hiva"), ("train", "evomas")])
def test_a_cluster_that_cannot_share_a_limit_is_refused(
    tmp_path: Path, server: WireServer, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    limits = ("--executor", "ray", "--ray-address", "127.0.0.1:9", "--requests-per-minute", "60")
    result = ask(tmp_path, server, *command, "--benchmark", "archive", *limits, code=WRONG)
    assert "a cluster shares limits of requests and tokens in PostgreSQL; set SELFWIRE_BUDGET" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [("eval", "single"), ("evolve", "hiva")])
@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("mysql://x/y", "at which a budget is shared, not 'mysql'; set another"),
        ("postgresql://u:secret@127.0.0.1:9/db", "://127.0.0.1:9/db cannot be used: "),
    ],
)
def test_workers_whose_budget_cannot_be_shared_are_refused_before_a_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], address: str, told: str
) -> None:
    monkeypatch.setenv("SELFWIRE_BUDGET", address)
    options = ("--benchmark", "archive", "--workers", "2", "--budget-calls", "100")
    result = call(tmp_path, *command, *options, code=WRONG)
    assert told in result.stderr
    assert "SELFWIRE_BUDGET" in result.stderr
    assert "secret" not in result.stderr
    assert not list_run_names(tmp_path)


SMALL = ("--benchmark", "archive", "--iterations", "1", "--batch", "2", "--train", "2", "--retries", "0")
COMMANDS = (
    ("eval", "dytopo", "--benchmark", "archive", "--tasks", "1", "--retries", "0", "--set", "rounds=2"),
    ("evolve", "hera", *SMALL, "--gate-size", "0", "--gate", "off", "--test", "0"),
    ("compare", "hera", *SMALL, "--gate", "mean", "--gate-size", "1", "--gate-tasks", "1", "--tasks", "1"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_run_is_resumed_with_other_settings(tmp_path: Path, server: WireServer, command: tuple[str, ...]) -> None:
    ask(tmp_path, server, *command, "--structured", "native", code=None)  # not all of them get through
    run = next((tmp_path / "runs").iterdir()).name

    resume = partial(call, tmp_path, command[0], "--resume", run)
    assert "'native', 'tool', 'json' or 'prompt'" in resume("--structured", "function", code=WRONG).stderr
    before = len(server.asked)
    ends = FAILED if command[0] == "eval" else 0  # what the server says is of no use to a single task
    resume("--structured", "prompt", "--tokens-per-minute", "900000", "--requests-at-once", "3", code=ends)
    assert len(server.asked) > before
    assert not any("response_format" in asked.body for asked in server.asked[before:])
    before = len(server.asked)
    resume(code=ends)
    assert len(server.asked) == before
    with closing(read_journal(tmp_path / "runs" / run / "journal.sqlite")) as journal:
        models = run_sync(journal.get_note("request"))["models"]
    found = models["structured"], models["tokens_per_minute"], models["requests_at_once"]
    assert found == ("prompt", 900_000, 3)
