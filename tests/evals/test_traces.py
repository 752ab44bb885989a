"""Tasks from traces, of a file and of LangSmith's own client against a local server."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from langsmith.utils import LangSmithConnectionError
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from urllib3.exceptions import ProtocolError

import selfwire
from selfwire.core.errors import ConfigError
from selfwire.evals.baselines import make_baseline
from selfwire.evals.langsmith import get_langsmith_address, translate_errors
from selfwire.evals.tasks import read_tasks
from selfwire.evals.traces import TraceRules, make_tasks
from selfwire.models import tracing
from tests.commands import call
from tests.wire.langsmith_server import LangSmithServer
from tests.wire.server import LocalServer

GOOD = {"key": "user", "score": 1}
BAD = {"key": "user", "score": 0}
MESSAGES = {
    "messages": [
        {"type": "system", "content": "Be short."},
        {"type": "human", "content": [{"type": "text", "text": "Where is the "}, {"type": "text", "text": "invoice?"}]},
    ]
}
OWN = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"]}


def trace(question: Any, answer: Any = "billing", *feedback: object, **fields: Any) -> dict[str, Any]:
    """A trace of a graph with a question and an answer."""
    inputs = question if isinstance(question, dict) else {"question": question}
    outputs = answer if isinstance(answer, dict) else {"answer": answer}
    return {"inputs": inputs, "outputs": outputs, "feedback": [*feedback], **fields}


@pytest.mark.parametrize(
    ("given", "question", "reference"),
    [
        (trace("Q?", "A", GOOD), "Q?", "A"),
        (trace("Q?", "A", BAD, {"key": "fix", "correction": {"answer": "B"}}), "Q?", "B"),
        (trace("Q?", "A", {"key": "fix", "score": None, "correction": "B"}), "Q?", "B"),
        (trace({"user": "ann", "query": "Q?"}, {"steps": [], "said": "A"}, GOOD), "Q?", "A"),
        (
            trace(MESSAGES, {"messages": [*MESSAGES["messages"], {"type": "ai", "content": "A"}]}, GOOD),
            "Where is the invoice?",
            "A",
        ),
        (
            trace(
                {"messages": [[["user", "Q?"]]]},
                {"messages": [{**OWN, "kwargs": {"type": "ai", "content": "A"}}, {"role": "tool", "content": "x"}]},
                GOOD,
            ),
            "Q?",
            "A",
        ),
    ],
)
def test_question_and_reference_are_found_where_applications_have_them(
    given: dict[str, Any], question: str, reference: str
) -> None:
    [task] = make_tasks([given], TraceRules()).tasks
    assert (task["input"], task["reference"]) == (question, reference)


def test_every_trace_that_becomes_no_task_is_counted_by_its_reason() -> None:
    talk = {"messages": [["user", "Hello"], ["assistant", "Hi"], ["user", "And mine?"]]}
    found = make_tasks(
        [
            trace("Q1", "A", GOOD, id="run-1"),
            trace("Q1", "other", GOOD),
            trace("Q2", "A", BAD),
            trace("Q3", "A"),
            trace("Q4", "A", GOOD, error="TimeoutError"),
            trace("Q5", "A", GOOD, parent_run_id="run-1"),
            trace(talk, "A", GOOD),
            trace({"one": "x", "two": "y"}, "A", GOOD),
            trace("Q6", {"done": True}, GOOD),
            trace("Q7", "A", GOOD, {"key": "judge", "score": 0.4}),
        ],
        TraceRules(),
    )
    assert found.tasks == [{"id": "run-1", "input": "Q1", "reference": "A"}]
    assert found.kept == {"approved": 1}
    assert found.left_out == {
        "that ask the same question": 1,
        "rated below 1": 2,
        "without a verdict": 1,
        "that ended in an error": 1,
        "inside another trace": 1,
        "with more than one message of a person": 1,
        "without a text that asks": 1,
        "without a text that answers": 1,
    }


def test_rules_choose_the_feedback_and_keep_what_is_not_rated() -> None:
    traces = [trace("Q1", "A", GOOD, {"key": "judge", "score": 0.4}), trace("Q2", "A", {"key": "judge", "score": 0.9})]
    assert [task["input"] for task in make_tasks(traces, TraceRules(feedback="user")).tasks] == ["Q1"]
    assert [task["input"] for task in make_tasks(traces, TraceRules(feedback="judge", least=0.8)).tasks] == ["Q2"]
    kept = make_tasks([trace("Q1", "A", GOOD), trace("Q2"), trace("Q3", "A", BAD)], TraceRules(unrated=True))
    assert [task.get("reference") for task in kept.tasks] == ["A", None, None]
    with pytest.raises(ConfigError, match="no trace becomes a task: 0 tasks; left out: 1 without a verdict; rate or"):
        make_tasks([trace("Q")], TraceRules())


def test_tasks_of_traces_that_share_an_id_get_ids_of_their_own() -> None:
    traces = [trace(f"Q{n}", "A", GOOD, id=name) for n, name in enumerate(("chat", "chat", "chat-2"))]
    assert [task["id"] for task in make_tasks(traces, TraceRules()).tasks] == ["chat", "chat-2", "chat-2-3"]


def test_a_file_of_traces_becomes_a_file_of_tasks(tmp_path: Path) -> None:
    traces, tasks = tmp_path / "traces.jsonl", tmp_path / "tasks.jsonl"
    traces.write_text("".join(json.dumps(trace(f"Q{n}", "billing", GOOD)) + "\n" for n in range(3)))
    done = call(tmp_path, "tasks", "from-jsonl", str(traces), str(tasks))
    assert "wrote 3 tasks: 3 approved" in done.stdout
    assert [task.input for task in read_tasks(tasks).tasks] == ["Q0", "Q1", "Q2"]
    assert "exists already" in call(tmp_path, "tasks", "from-jsonl", str(traces), str(tasks), code=2).stderr
    wrong = call(tmp_path, "tasks", "from-jsonl", str(tasks), str(tmp_path / "other.jsonl"), code=2)
    assert "no line has the field 'inputs', the first has 'id', 'input', 'reference'" in wrong.stderr
    table = call(tmp_path, "tasks", "from-jsonl", str(traces), str(tmp_path / "tasks.csv"), code=2)
    assert "tasks.csv would get JSON lines, a task in each; give it a name that ends in .jsonl" in table.stderr
    assert not (tmp_path / "tasks.csv").exists()
    traces.write_text("")
    empty = call(tmp_path, "tasks", "from-jsonl", str(traces), str(tmp_path / "other.jsonl"), code=2)
    assert f"{traces} has no line with a trace" in empty.stderr


@pytest.mark.parametrize("feedback", [[{"key": "user", "score": "high"}], {"key": "user", "score": 1}, True, 5])
def test_feedback_of_another_form_is_not_called_missing(feedback: Any) -> None:
    with pytest.raises(ConfigError, match="left out: 1 with feedback of another form"):
        make_tasks([{**trace("Q", "A"), "feedback": feedback}], TraceRules())


@pytest.mark.parametrize("score", [math.nan, -(10**400)])
def test_a_score_that_is_no_number_or_far_below_approves_nothing(score: float) -> None:
    odd = trace("Q", "A", {"key": "user", "score": score})
    with pytest.raises(ConfigError, match="left out: 1 rated below 1;"):
        make_tasks([odd], TraceRules())


def test_half_a_character_keeps_no_file_from_being_written(tmp_path: Path) -> None:
    traces, tasks = tmp_path / "traces.jsonl", tmp_path / "tasks.jsonl"
    traces.write_text(json.dumps(trace("Q\ud800", "A", GOOD)))
    assert "wrote 1 task: 1 approved" in call(tmp_path, "tasks", "from-jsonl", str(traces), str(tasks)).stdout
    assert [task.input for task in read_tasks(tasks).tasks] == ["Q\ufffd"]
    traces.write_text(json.dumps({"x" * 100_000: 1, "y": 2}))
    wrong = call(tmp_path, "tasks", "from-jsonl", str(traces), str(tasks), "--force", code=2)
    assert len(wrong.stderr) < 1000


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LangSmithServer]:
    with LangSmithServer(key="secret") as found:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", found.url)
        monkeypatch.setenv("LANGSMITH_API_KEY", "secret")
        yield found


def test_a_project_of_langsmith_becomes_a_file_of_tasks(
    tmp_path: Path, server: LangSmithServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = str(uuid4())
    server.sessions[project] = {
        "id": project,
        "name": "desk",
        "tenant_id": project,
        "start_time": "2026-01-01T00:00:00",
        "reference_dataset_id": None,
    }
    for number in range(3):
        run = str(uuid4())
        server.runs[run] = {
            **trace(f"Q{number}"), "id": run, "name": "desk", "session_id": project, "run_type": "chain",
            "start_time": f"2026-01-0{number + 1}T00:00:00", "trace_id": run, "parent_run_id": None,
        }  # fmt: skip
        if number:
            times = {"created_at": "2026-01-05T00:00:00", "modified_at": "2026-01-05T00:00:00"}
            rated = {"id": str(uuid4()), "run_id": run, "trace_id": run, **(GOOD if number == 1 else BAD), **times}
            server.feedback.append(rated)
    done = json.loads(call(tmp_path, "tasks", "from-langsmith", "desk", str(tmp_path / "t.jsonl"), "--json").stdout)
    assert (done["tasks"], done["kept"]) == (1, {"approved": 1})
    assert done["left_out"] == {"rated below 1": 1, "without a verdict": 1}
    assert not server.unknown
    monkeypatch.setattr(tracing, "LARGEST_REPLY", 2**20)
    server.runs[run]["inputs"] = {"question": "Q" * 2**20}
    long = call(tmp_path, "tasks", "from-langsmith", "desk", str(tmp_path / "u.jsonl"), code=2)
    assert "a reply of more than 1 MiB" in long.stderr
    missing = call(tmp_path, "tasks", "from-langsmith", "mine", str(tmp_path / "u.jsonl"), code=2)
    assert "has no project 'mine'" in missing.stderr
    monkeypatch.setenv("LANGSMITH_API_KEY", "wrong")
    refused = call(tmp_path, "tasks", "from-langsmith", "desk", str(tmp_path / "u.jsonl"), code=2)
    assert "check LANGSMITH_API_KEY" in refused.stderr
    for name in ("LANGSMITH_API_KEY", "LANGSMITH_ENDPOINT"):
        monkeypatch.delenv(name)
    nowhere = call(tmp_path, "tasks", "from-langsmith", "desk", str(tmp_path / "u.jsonl"), code=2)
    assert "no LangSmith is named: set LANGSMITH_API_KEY" in nowhere.stderr
    assert not (tmp_path / "u.jsonl").exists()


@pytest.mark.parametrize("reply", [JSONResponse({"ok": True}), JSONResponse([{"ok": True}]), HTMLResponse("<html>")])
def test_a_server_that_is_no_langsmith_is_named_with_the_setting_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: Response
) -> None:
    selfwire.save(make_baseline("single").seed([]), "mine", home=tmp_path)
    commands = (("tasks", "from-langsmith", "desk", str(tmp_path / "t.jsonl")), ("push", "mine"), ("pull", "mine"))
    with LocalServer([Route("/{path:path}", lambda request: reply)]) as other:
        address = f"http://127.0.0.1:{other.port}"
        monkeypatch.setenv("LANGSMITH_ENDPOINT", address)
        for command in commands:
            told = call(tmp_path, *command, code=2).stderr
            assert address in told
            assert "check LANGSMITH_ENDPOINT" in told
            assert "pydantic" not in told
    told = call(tmp_path, *commands[0], code=2).stderr
    assert f"LangSmith at {address} cannot be reached: [Errno 111] Connection refused; check LANGSMITH_END" in told
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "nonsense")
    told = call(tmp_path, *commands[0], code=2).stderr
    assert told == "error: LANGSMITH_ENDPOINT='nonsense' is no address: it must begin with http:// or https://\n"


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (None, "LangSmithConnectionError"),
        (ConnectionError(), "ConnectionError"),
        (OSError(ProtocolError("cut", ConnectionResetError(104, "Reset by peer"))), "[Errno 104] Reset by peer"),
    ],
)
def test_a_cut_connection_is_told_by_its_innermost_error(cause: Exception | None, reason: str) -> None:
    client: Any = SimpleNamespace(api_url="http://desk")
    with pytest.raises(ConfigError) as found, translate_errors(client):
        raise LangSmithConnectionError from cause
    assert str(found.value).startswith(f"LangSmith at http://desk cannot be reached: {reason}; check")


def test_the_scheme_of_an_address_is_read_in_capitals_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "HTTPS://desk")
    assert get_langsmith_address() == "HTTPS://desk"
