"""Calls of a user's own graph that were answered before a kill are given their replies, and not sent again."""

import asyncio
import json
import signal
import time
import warnings
from asyncio import Future
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from langchain_core._api import LangChainBetaWarning
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk

from selfwire.cli.commands import FAILED
from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.errors import BudgetError, JournalError
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget
from selfwire.graphs.own_graph import OwnGraph
from selfwire.models.budget import Ledger, Prices
from selfwire.models.call_meter import CallMeter
from selfwire.models.sync import run_sync
from selfwire.store.journal import Journal
from selfwire.store.library import open_library
from tests import processes
from tests.commands import call
from tests.kills import run_of, start
from tests.processes import kill_when, wait_for
from tests.wire.server import Body, WireServer

T = TypeVar("T")

APP = '''
import asyncio
import operator
import os
from typing import Annotated, TypedDict

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Send
from pydantic import BaseModel

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0, temperature=1)
streaming = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0, streaming=True)


class State(TypedDict):
    question: str
    said: Annotated[list[str], operator.add]
    answer: str


def chain(*steps):
    builder = StateGraph(State).add_sequence([(f"step{n}", step) for n, step in enumerate(steps)])
    return builder.add_edge(START, "step0").compile()


def note(text):
    return {"said": [text], "answer": text}


def write(state):
    return f"{state['question']} So far: {state.get('said')}"


def ask(state: State):
    return note(model.invoke(write(state)).text)


async def ask_later(state: State):
    return note((await model.ainvoke(write(state))).text)


async def ask_on_the_loop(state: State):
    return note(model.invoke("first: " + write(state)).text + model.invoke("second: " + write(state)).text)


def stream(state: State):
    whole = None
    for chunk in model.stream(write(state)):
        whole = chunk if whole is None else whole + chunk
    return note(model.invoke([("user", write(state)), whole, ("user", "And?")]).text)


async def stream_later(state: State):
    return note("".join([chunk.text async for chunk in model.astream(write(state))]))


def ask_in_chunks(state: State):
    return note(streaming.invoke(write(state)).text)


class Number(BaseModel):
    number: int


def ask_for_number(state: State):
    return note(str(model.with_structured_output(Number, method=METHOD).invoke(write(state)).number))


class Signing(BaseChatModel):
    """Takes bytes, which are no text, and signs its replies with them."""

    model: str = "signing"

    @property
    def _llm_type(self):
        return "signing"

    def _generate(self, messages, stop=None, run_manager=None, **given):
        sent = messages[0].content[1]["data"]
        assert isinstance(sent, bytes)
        said = model.invoke("Sign: " + messages[0].content[0]["text"]).text
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said, additional_kwargs={"signature": sent}))])


signing = Signing()


class Sealing(Signing):
    """Seals without a server, and keeps a line for each call."""

    def _generate(self, messages, stop=None, run_manager=None, **given):
        with open("sealed.txt", "a") as sealed:
            sealed.write("sealed\\n")
        return ChatResult(generations=[ChatGeneration(message=AIMessage("x", additional_kwargs={"seal": b"\\xff"}))])


def seal(state: State):
    return note(Sealing().invoke(write(state)).text)


def ask_with_bytes(state: State):
    media = {"type": "media", "mime_type": "audio/mp3", "data": b"\\xff\\xfe"}
    reply = signing.invoke([("user", [{"type": "text", "text": write(state)}, media])])
    return note(reply.text + str(reply.additional_kwargs["signature"]))


@tool
def count(n: int) -> str:
    """Count on."""
    return str(n + 1)


class Uncached(ChatOpenAI):
    """Passes LangChain's cache by."""

    def _generate_with_cache(self, messages, stop=None, run_manager=None, **given):
        return self._generate(messages, stop=stop, run_manager=run_manager, **given)


uncached = Uncached(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)


def ask_uncached(state: State):
    return note(uncached.invoke(write(state)).text)


past_the_cache = chain(ask_uncached, ask_uncached)
counting = model.bind_tools([count])


def count_streaming(state: MessagesState):
    whole = None
    for chunk in counting.stream([("system", "You count and count on."), *state["messages"]]):
        whole = chunk if whole is None else whole + chunk
    return {"messages": [whole]}


async def count_streaming_later(state: MessagesState):
    whole = None
    async for chunk in counting.astream([("system", "You count and count on."), *state["messages"]]):
        whole = chunk if whole is None else whole + chunk
    return {"messages": [whole]}


def loop(node):
    builder = StateGraph(MessagesState).add_node("count", node).add_node("tools", ToolNode([count]))
    builder.add_conditional_edges("count", tools_condition).add_edge("tools", "count")
    return builder.add_edge(START, "count").compile()


counts, counts_later = loop(count_streaming), loop(count_streaming_later)
METHOD = "json_schema"
bytewise = chain(ask_with_bytes, ask)
synchronous = chain(ask, ask, ask, ask)
asynchronous = chain(ask_later, ask_later, ask_later)
on_the_loop = chain(ask_on_the_loop, ask_later)
streams = chain(stream, stream)
streams_later = chain(stream_later, stream_later, stream_later)
in_chunks = chain(ask_in_chunks, ask_in_chunks, ask_in_chunks)
structured = chain(ask_for_number, ask_for_number, ask_for_number)


def ask_alike(state: State):
    return note(model.invoke("The same request.").text)


samples = chain(ask_alike, ask_alike, lambda state: note(model.invoke(str(sorted(state["said"]))).text))


def send(state: State):
    return [Send("part", state) for _ in range(3)]


fanned = StateGraph(State)
fanned.add_node("part", lambda state: {"said": [model.invoke("The same request.").text]})
fanned.add_node("join", lambda state: note(model.invoke("Join " + str(sorted(state["said"]))).text))
fanned.add_conditional_edges(START, send, ["part"])
fanned.add_edge("part", "join")
fanned = fanned.compile()


agent = create_agent(model, [count], system_prompt="You count.")


def fail(state: State):
    raise ValueError("no " + ask(state)["answer"])


failing = chain(ask, fail)
sealed_and_failing = chain(seal, fail)


def swallow(state: State):
    try:
        return ask(state)
    except Exception:
        return note("none")


swallowing = chain(swallow, swallow)


def doubt(state: State):
    if state["answer"] == "reply 1":
        raise ValueError("no reply 1")
    return ask(state)


doubting = chain(ask, doubt)


@task
def draft(question: str) -> str:
    return model.invoke(question).text


@entrypoint()
def workflow(question: str) -> str:
    drafts = [draft(f"{question} {n}") for n in range(2)]
    return model.invoke(" ".join(done.result() for done in drafts)).text
'''
CALLS = {
    "synchronous": 4,
    "asynchronous": 3,
    "on_the_loop": 3,
    "streams": 4,
    "streams_later": 3,
    "in_chunks": 3,
    "structured": 3,
    "samples": 3,
    "fanned": 4,
    "agent": 3,
    "workflow": 3,
}
"""Calls for a question, by graph."""
TASKS = 2
QUIET = 0.3
"""Seconds after which nothing but the last request is under way."""


@dataclass
class Samples:
    """A model that never says the same twice, and breaks or keeps silent at the requests of some numbers."""

    silent: set[int] = field(default_factory=set)
    silence: float = 60.0
    broken: set[int] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    at: float = 0.0

    async def __call__(self, body: Body) -> AIMessage:
        self.asked.append(json.dumps(body["messages"]))
        number, self.at = len(self.asked), time.monotonic()
        if number in self.silent:
            await asyncio.sleep(self.silence)
        if number in self.broken:
            raise RuntimeError("the server breaks")
        if body.get("response_format"):
            return AIMessage(json.dumps({"number": number}))
        turns = sum(message["role"] == "assistant" for message in body["messages"])
        if body.get("tools") and turns < 2:
            return AIMessage("", tool_calls=[{"name": "count", "args": {"n": number}, "id": f"call-{number}"}])
        return AIMessage(f"reply {number}")


@pytest.fixture
def model() -> Samples:
    return Samples()


@pytest.fixture
def home(tmp_path: Path, model: Samples, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    Path("my_app.py").write_text(APP, encoding="utf-8")
    rows = [{"input": f"What is {n} plus 1?", "reference": str(n + 1)} for n in range(TASKS)]
    Path("q.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with WireServer(model) as server:
        monkeypatch.setenv("MY_MODEL", server.url)
        yield tmp_path / "home"


def is_waiting(model: Samples, asked: int) -> bool:
    """Whether so many requests were made, the last of which waits; all before it are answered by then."""
    return len(model.asked) >= asked and time.monotonic() - model.at > QUIET


def evaluate(name: str) -> tuple[str, ...]:
    return ("eval", f"my_app.py:{name}", "--benchmark", "q.jsonl", "--grader", "contains", "--concurrency", "1")


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_after_ctrl_c_the_reply_in_flight_is_recorded_and_no_call_is_sent(
    home: Path, model: Samples, name: str
) -> None:
    model.silent, model.silence = {2}, 2 + QUIET
    process = start(home, *evaluate(name))
    while not is_waiting(model, 2):
        assert process.poll() is None
        time.sleep(0.01)
    asked = len(model.asked)
    process.send_signal(signal.SIGINT)
    out, errors = wait_for(process, code=130)
    assert len(model.asked) == asked
    assert "stopping: up to 30 seconds for the replies to" in errors
    assert f"go on with: selfwire eval --resume {run_of(home)}" in out
    call(home, "eval", "--resume", run_of(home))
    assert len(model.asked) == TASKS * CALLS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_after_kill_9_no_call_is_sent_again_that_was_answered(home: Path, model: Samples, name: str) -> None:
    calls = CALLS[name]
    model.silent = {calls, 2 * calls}  # the last of the first task, and after the resume the last but one of the second
    kill_when(start(home, *evaluate(name)), lambda: is_waiting(model, calls))
    kill_when(start(home, "eval", "--resume", run_of(home)), lambda: is_waiting(model, 2 * calls))
    call(home, "eval", "--resume", run_of(home))
    assert len(model.asked) == TASKS * calls + len(model.silent)
    for number in model.silent:  # the first request after the kill is that without an answer, by the same replies
        assert model.asked[number] == model.asked[number - 1]
    found = json.loads(call(home, "eval", "--resume", run_of(home), "--json").stdout)
    assert found["spend"]["calls"] == TASKS * calls


@pytest.mark.parametrize("name", CALLS)
def test_a_task_that_a_budget_has_stopped_pays_for_the_rest_alone(home: Path, model: Samples, name: str) -> None:
    calls = CALLS[name]
    assert call(home, *evaluate(name), "--budget-calls", str(calls + 2), code=3)
    assert len(model.asked) == calls + 2
    resumed = call(home, "eval", "--resume", run_of(home), "--budget-calls", str(TASKS * calls), "--json")
    assert len(model.asked) == TASKS * calls
    assert not any(asked in model.asked[: calls + 2] for asked in model.asked[calls + 2 :] if "The same" not in asked)
    own = json.loads(resumed.stdout)["systems"][1]
    assert own["spend"]["calls"] == TASKS * calls
    assert own["errors"] == 0


def test_bytes_are_sent_and_a_reply_with_bytes_is_never_given_as_another(home: Path, model: Samples) -> None:
    assert call(home, *evaluate("bytewise"), "--budget-calls", "2", code=3)  # the outer model's, and the inner one's
    assert len(model.asked) == 1
    resumed = call(home, "eval", "--resume", run_of(home), "--budget-calls", "20", "--json")
    assert len(model.asked) == 2 * TASKS
    assert all("xfe'" in asked for asked in model.asked[1::2])  # as Python shows the bytes of the signature
    found = json.loads(resumed.stdout)
    assert (found["systems"][1]["errors"], found["spend"]["calls"]) == (0, 3 * TASKS + 1)


@pytest.mark.parametrize("name", ["counts", "counts_later"])
def test_a_stream_that_offers_rewritten_tools_gives_the_replies_on_record(
    home: Path, model: Samples, name: str
) -> None:
    team = OwnGraph(f"my_app.py:{name}", {}).seed()
    team = team.apply(Rewiring(RewritePrompt("count-2", "Add one to a number."), why="it is plainer"))
    home.mkdir()
    with open_library(home) as library:
        run_sync(library.save("plain", team, run="r", step=0))
    asked = ("eval", "plain", *evaluate(name)[2:])
    call(home, *asked, "--budget-calls", "2", code=3)
    call(home, "eval", "--resume", run_of(home), "--budget-calls", "20")
    assert len(model.asked) == 3 * TASKS


def test_a_model_that_passes_the_cache_by_is_paid_for_each_time(home: Path, model: Samples) -> None:
    call(home, *evaluate("past_the_cache"), "--budget-calls", "1", code=3)
    call(home, "eval", "--resume", run_of(home), "--budget-calls", "2", code=3)
    assert len(model.asked) == 2
    found = json.loads(call(home, "eval", "--resume", run_of(home), "--budget-calls", "20", "--json").stdout)
    assert found["spend"]["calls"] == len(model.asked) == 2 + 2 * TASKS


def test_what_others_have_put_on_chat_models_before_the_first_run_stays(tmp_path: Path) -> None:
    script = """
import selfwire.models.call_meter as meter
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel

seen = []


def watch(name):
    ask = getattr(BaseChatModel, name)
    setattr(BaseChatModel, name, lambda *args, **given: (seen.append(name), ask(*args, **given))[1])


for name in ("generate", "generate_prompt", "_generate_with_cache", "stream"):
    watch(name)
meter._install()
meter._install()
model = FakeListChatModel(responses=["a"])
model.invoke("x")
[*model.stream("x")]
print(*seen)
"""
    (tmp_path / "watching.py").write_text(script)
    said, _ = processes.wait_for(processes.start("tests.processes:run_python", str(tmp_path / "watching.py")))
    assert said.split() == ["generate_prompt", "generate", "_generate_with_cache", "stream"]


def test_a_task_whose_program_fails_is_asked_again_only_by_request(home: Path, model: Samples) -> None:
    call(home, *evaluate("failing"), code=FAILED)
    assert len(model.asked) == 2 * TASKS
    call(home, "eval", "--resume", run_of(home), code=FAILED)
    assert len(model.asked) == 2 * TASKS
    call(home, "eval", "--resume", run_of(home), "--retry-failed", code=FAILED)
    assert len(model.asked) == 4 * TASKS


def test_a_task_whose_replies_cannot_be_given_again_is_asked_again_once(home: Path, model: Samples) -> None:
    call(home, *evaluate("sealed_and_failing"), code=FAILED)
    call(home, "eval", "--resume", run_of(home), "--retry-failed", code=FAILED)
    assert len(Path("sealed.txt").read_text().splitlines()) == 2 * TASKS


def test_a_task_that_was_asked_again_goes_on_with_its_new_replies(home: Path, model: Samples) -> None:
    call(home, *evaluate("doubting"))
    assert len(model.asked) == 3  # the first task ends at its first reply
    call(home, "eval", "--resume", run_of(home), "--retry-failed", "--budget-calls", "4", code=3)
    found = json.loads(call(home, "eval", "--resume", run_of(home), "--budget-calls", "9", "--json").stdout)
    assert len(model.asked) == 5
    assert "reply 4" in model.asked[4]
    assert (found["systems"][1]["errors"], found["spend"]["calls"]) == (0, 5)


def test_a_task_that_was_under_way_is_no_failed_one(home: Path, model: Samples) -> None:
    call(home, *evaluate("synchronous"), "--budget-calls", "2", code=3)
    call(home, "eval", "--resume", run_of(home), "--retry-failed", "--budget-calls", "20")
    assert len(model.asked) == TASKS * CALLS["synchronous"]


def test_a_call_that_failed_is_sent_again_and_what_is_before_it_is_not(home: Path, model: Samples) -> None:
    model.broken = {2, 4}
    call(home, *evaluate("synchronous"), code=FAILED)
    assert len(model.asked) == 4
    call(home, "eval", "--resume", run_of(home))
    assert len(model.asked) == TASKS * CALLS["synchronous"] + len(model.broken)


def test_a_journal_that_fails_stops_the_run_even_if_the_graph_hides_it(
    home: Path, model: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise JournalError("journal failed: the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "record", fail)
        assert "the disk is full" in call(home, *evaluate("swallowing"), code=None).stderr
    assert len(model.asked) == 1


def begin_stream(model: BaseChatModel, meter: CallMeter) -> Iterator[AIMessageChunk]:
    parts = model.stream("Count.", {"callbacks": [meter]})
    assert next(parts).text == "one"
    return parts


def begin_events(model: BaseChatModel, meter: CallMeter) -> Iterator[Any]:
    with warnings.catch_warnings(action="ignore", category=LangChainBetaWarning):
        events = iter(model.stream_events("Count.", {"callbacks": [meter]}, version="v3"))
        next(events)
    return events


async def make_refused(model: BaseChatModel, read: Callable[[CallMeter], T]) -> tuple[CallMeter, Future[T]]:
    """Make a meter that refuses a call while a thread of a pool has begun to read a stream."""
    meter = CallMeter(Ledger(Budget(calls=1)), Journal.memory(), Prices(table={}), Scope())
    await meter.recall()
    reading = asyncio.get_running_loop().run_in_executor(None, read, meter)
    while not meter._under_way:  # noqa: ASYNC110 - a thread begins it
        await asyncio.sleep(0.001)
    with pytest.raises(BudgetError):
        await asyncio.to_thread(model.invoke, "Count.", {"callbacks": [meter]})
    return meter, reading


@pytest.mark.parametrize("begin", [begin_stream, begin_events])
async def test_after_a_refusal_nobody_waits_for_a_stream_that_a_program_has_left(
    begin: Callable[[BaseChatModel, CallMeter], Iterator[Any]],
) -> None:
    """It has an open end, as the program holds it, and no thread reads on."""
    model = GenericFakeChatModel(messages=iter([AIMessage("one two")]))
    meter, reading = await make_refused(model, partial(begin, model))
    held = await reading
    await asyncio.wait_for(meter.close(), 10)
    assert meter.ledger.spent.calls == 0
    assert list(held)


@pytest.mark.parametrize("seconds", [0, 0.3])
async def test_after_a_refusal_a_stream_that_a_thread_reads_slowly_is_paid_and_recorded(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Journal.record

    def record_slowly(*given: Any) -> None:
        time.sleep(seconds)
        record(*given)

    monkeypatch.setattr(Journal, "record", record_slowly)
    model = GenericFakeChatModel(messages=iter([AIMessage("one two three")]))

    def read(meter: CallMeter) -> None:
        for _ in model.stream("Count.", {"callbacks": [meter]}):
            time.sleep(0.05)  # such as a write to a file

    meter, reading = await make_refused(model, read)
    await meter.close()
    assert ([call.reply for call in meter.calls], meter.ledger.spent.calls) == (["one two three"], 1)
    assert len(await meter.journal.list_replies(meter.scope)) == 1
    await reading
