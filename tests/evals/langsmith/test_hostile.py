"""What LangSmith is sent holds no key, and a server that is no LangSmith gets none and ends no run with a traceback."""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langsmith import Client
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from selfwire.core.errors import ConfigError
from selfwire.core.task import Task
from selfwire.evals.langsmith import TaskSet, open_client, open_uploads, translate_errors, upload_examples
from selfwire.evals.traces import read_project
from selfwire.models import tracing
from selfwire.models.tracing import BoundedSession
from tests.commands import call
from tests.wire.langsmith_server import LangSmithServer
from tests.wire.server import Body, LocalServer, WireServer, refused

KEY = "sk-of-this-test-0123456789abcdef"
TASK_SET = TaskSet(benchmark="b", split="test", seed=0, tasks=(Task(id="t", input="What is 1?", reference="1"),))
APP = """
import os

from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph


def ask(state: MessagesState):
    model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], max_retries=0)
    first = model.invoke(state["messages"])
    check = ("system", f"You check what the clerk has said: {first.text}. Say whether it is right.")
    return {"messages": [first, model.invoke([check, *state["messages"], first])]}


graph = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()
"""


async def repeat_the_key(body: Body) -> AIMessage:
    """A model that repeats the key, and calls a tool with it if there is one."""
    if body.get("tools") and len(body["messages"]) < 3:
        return AIMessage("", tool_calls=[{"name": "calculator", "args": {"expression": KEY}, "id": "1"}])
    return AIMessage(f"It is {KEY}. Answer: 2")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    monkeypatch.chdir(tmp_path)
    Path("own_app.py").write_text(APP)
    Path("q.jsonl").write_text(json.dumps({"input": "What is 1 plus 1?", "reference": "2"}))
    with WireServer(repeat_the_key) as server:
        monkeypatch.setenv("MY_MODEL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield server


@pytest.mark.parametrize("system", ["own_app.py:graph", "single"])
@pytest.mark.parametrize("fails", [False, True])
def test_no_key_is_uploaded_that_a_model_or_an_error_repeats(
    model: WireServer, langsmith_server: LangSmithServer, tmp_path: Path, system: str, *, fails: bool
) -> None:
    model.always = refused(f"bad key {KEY}") if fails else None
    named = ("--model", "openai:mine", "--base-url", model.url, "--tools", "calculator") if system == "single" else ()
    asked = ("eval", system, "--benchmark", "q.jsonl", "--grader", "contains", "--langsmith", *named)
    done = call(tmp_path, *asked, code=None)
    assert bool(done.exit_code) == fails
    langsmith_server.settled()
    told = [langsmith_server.runs, langsmith_server.feedback, langsmith_server.sessions]
    assert len(langsmith_server.runs) > 2
    assert KEY not in json.dumps(told, default=str)


@pytest.mark.parametrize("references", [True, False])
def test_no_key_in_a_task_is_uploaded(
    langsmith_server: LangSmithServer, model: WireServer, *, references: bool
) -> None:
    task = Task(id="t", input=f"Is {KEY} a key?", reference=[KEY])
    with open_uploads() as client:
        upload_examples(client, TASK_SET.replace(tasks=(task,), references=references))
    [example] = langsmith_server.examples.values()
    assert example["inputs"] == {"question": "Is *** a key?"}
    assert KEY not in json.dumps(example, default=str)


def test_no_key_that_a_model_repeats_is_in_the_record_of_an_own_graph(model: WireServer, tmp_path: Path) -> None:
    asked = ("eval", "own_app.py:graph", "--benchmark", "q.jsonl", "--grader", "contains")
    call(tmp_path, *asked, "--budget-calls", "1", code=3)
    [run] = [path.name for path in (tmp_path / "runs").iterdir()]
    call(tmp_path, "eval", "--resume", run, "--budget-calls", "2")
    assert len(model.asked) == 2
    call(tmp_path, *asked, "--seed", "1")  # where no reply is one on record, with the key masked
    assert len(model.asked) == 4
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert any(b"It is ***" in path.read_bytes() for path in files)
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []


class Elsewhere(LocalServer):
    """A server that sends every request to another one, and that other one."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        methods = ["GET", "POST", "PATCH"]
        routes = [Route("/there{path:path}", self._take, methods=methods), Route("/{path:path}", self._lead)]
        routes += [Route("/{path:path}", self._lead, methods=methods)]
        super().__init__(routes)

    async def _take(self, request: Request) -> Response:
        self.keys.append(request.headers.get("x-api-key", ""))
        return JSONResponse([])

    async def _lead(self, request: Request) -> Response:
        return RedirectResponse(f"http://localhost:{self.port}/there{request.url.path}", 307)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    with Elsewhere() as server:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("LANGSMITH_API_KEY", KEY)
        yield server


def test_no_redirect_carries_the_key_to_another_host(model: WireServer, elsewhere: Elsewhere, tmp_path: Path) -> None:
    asked = ("eval", "single", "--benchmark", "q.jsonl", "--grader", "contains", "--langsmith")
    led = f"it redirects to 'http://localhost:{elsewhere.port}/there/"
    assert led in call(tmp_path, *asked, code=2).output
    with pytest.raises(ConfigError, match=led):
        read_project("mine")
    assert elsewhere.keys == []


@pytest.mark.usefixtures("elsewhere")
def test_a_client_follows_no_redirect_from_its_first_request_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[Any]()

    class Seen(Client):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            seen.append(type(self.session))

    monkeypatch.setattr("selfwire.evals.langsmith.Client", Seen)
    with open_client():
        assert seen == [BoundedSession]


class Odd(LocalServer):
    """A server whose lists never end, or that answers everything with a list."""

    def __init__(self, *, lists: bool) -> None:
        self.pages, self._lists, self._id = 0, lists, str(uuid.uuid4())
        super().__init__([Route("/{path:path}", self._answer, methods=["GET", "POST", "PATCH"])])

    async def _answer(self, request: Request) -> Response:
        named = {"id": self._id, "name": "mine", "created_at": "2025-01-01T00:00:00+00:00"}
        if not self._lists or request.url.path == "/datasets":
            return JSONResponse([named] if self._lists else [])
        if request.url.path == "/examples" and request.method == "GET":
            self.pages += 1
            rows = [{**named, "id": str(uuid.uuid4()), "dataset_id": self._id, "inputs": {}} for _ in range(100)]
            return JSONResponse(rows)
        return JSONResponse({})


def test_a_list_of_examples_without_an_end_is_read_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    with Odd(lists=True) as server:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", f"http://127.0.0.1:{server.port}")
        with open_uploads() as client, translate_errors(client):
            upload_examples(client, TASK_SET)
        assert server.pages == 11


class Endless(LocalServer):
    """A server that sends a byte now and then, asks for a pause of a day, or sends a long reply."""

    def __init__(self, way: str) -> None:
        self._way = way
        super().__init__([Route("/{path:path}", self._answer, methods=["GET", "POST", "PATCH"])])

    async def _answer(self, request: Request) -> Response:
        if self._way == "pause":
            return Response("", 429, {"Retry-After": "86400"})
        return StreamingResponse(self._drip() if self._way == "drip" else iter(["[" * 2**16] * 64))

    async def _drip(self) -> AsyncIterator[str]:
        for _ in range(60):
            yield " "
            await asyncio.sleep(0.5)


@pytest.mark.parametrize(
    ("way", "told"),
    [("drip", "within 1 seconds"), ("pause", "within 1 seconds"), ("long", "a reply of more than 1 MiB")],
)
def test_no_reply_of_langsmith_lasts_or_grows_without_an_end(
    monkeypatch: pytest.MonkeyPatch, way: str, told: str
) -> None:
    monkeypatch.setattr(tracing, "LONGEST_REQUEST", 1.0)
    monkeypatch.setattr(tracing, "LARGEST_REPLY", 2**20)
    with Endless(way) as server:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", f"http://127.0.0.1:{server.port}")
        with pytest.raises(ConfigError, match=f"cannot be reached: .*{told}; check LANGSMITH_ENDPOINT"):
            read_project("mine")


def test_a_langsmith_that_takes_no_trace_does_not_keep_a_process_that_ends() -> None:
    program = (
        "from langsmith import Client, RunTree\n"
        "from selfwire.models import tracing\n"
        "tracing.LONGEST_REQUEST, tracing.LAST_UPLOADS = 1.0, 2.0\n"
        "limits = dict(size_limit=1, size_limit_bytes=10**7, scale_up_nthreads_limit=1, scale_up_qsize_trigger=1000)\n"
        "client = Client(session=tracing.BoundedSession(), info={'batch_ingest_config': limits})\n"
        "for number in range(20):\n"
        "    RunTree(name=f'run {number}', ls_client=client).post()\n"
    )
    with Endless("drip") as server:
        settings = {"LANGSMITH_ENDPOINT": f"http://127.0.0.1:{server.port}", "LANGSMITH_API_KEY": KEY}
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **settings}, capture_output=True, text=True, timeout=120
        )
    assert done.returncode == 0, done.stderr
    assert "not sent within 2 seconds after the end" in done.stderr


class Ending(LangSmithServer):
    """A server whose reply at the end of an experiment is not that of LangSmith."""

    def __init__(self, reply: str | None) -> None:
        self._reply = reply
        super().__init__()

    def _routes(self) -> list[Route]:
        return [Route("/sessions/{id}", self._end, methods=["PATCH"]), *super()._routes()]

    async def _end(self, request: Request) -> Response:
        return Response("", 429, {"Retry-After": "86400"}) if self._reply is None else Response(self._reply)


@pytest.mark.parametrize("reply", ["[]", "", "<html>"])
def test_a_reply_of_another_form_during_an_evaluation_costs_no_results(
    model: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reply: str
) -> None:
    asked = ("eval", "own_app.py:graph", "--benchmark", "q.jsonl", "--grader", "contains", "--langsmith")
    with Ending(reply) as server:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", server.url)
        monkeypatch.setenv("LANGSMITH_API_KEY", KEY)
        call(tmp_path, *asked)
    [said] = [record.message for record in caplog.records if record.name.startswith("selfwire")]
    assert "what is measured here goes on" in said
    assert "does not answer as LangSmith does" in said


def test_a_pause_that_langsmith_asks_for_costs_no_results(
    model: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracing, "LONGEST_REQUEST", 1.0)
    with Ending(None) as server:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", server.url)
        monkeypatch.setenv("LANGSMITH_API_KEY", KEY)
        call(tmp_path, "eval", "own_app.py:graph", "--benchmark", "q.jsonl", "--grader", "contains", "--langsmith")
    [said] = [record.message for record in caplog.records if record.name.startswith("selfwire")]
    assert "what is measured here goes on" in said


def test_a_reply_of_another_form_is_an_error_in_words(model: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with Odd(lists=False) as server:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", f"http://127.0.0.1:{server.port}")
        with pytest.raises(ConfigError, match="does not answer as LangSmith does"), open_uploads() as client:
            with translate_errors(client):
                upload_examples(client, TASK_SET)
    with pytest.raises(ZeroDivisionError), translate_errors(client):
        raise ZeroDivisionError  # no error of LangSmith's
