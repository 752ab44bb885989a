"""Graphs of the user's own as systems: asked as they are, their models metered, budgeted and journalled."""

import asyncio
import json
import linecache
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from typing_extensions import TypedDict

import selfwire
from selfwire.cli.commands import FAILED, STOPPED
from selfwire.core.errors import BudgetError, ConfigError
from selfwire.core.task import Question
from selfwire.graphs.own_graph import (
    OwnGraphConfig,
    _list_given,
    empty_cache,
    lacks_server,
    load_graph,
    map_graph,
)
from selfwire.models.sync import ROOM, make_room
from tests.commands import call
from tests.processes import start, wait_for
from tests.wire.server import Body, WireServer, lying, refused, silent, text

APP = """
import os
from dataclasses import dataclass
from typing import Annotated, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import dynamic_prompt, wrap_tool_call
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import Send, interrupt
from langchain_core.tools import tool
from pydantic import BaseModel

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)


class Plan(TypedDict):
    input: str
    plan: str
    response: str


def plan(state: Plan) -> dict:
    return {"plan": model.invoke("Plan: " + state["input"]).text}


async def act(state: Plan) -> dict:
    return {"response": (await model.ainvoke(state["plan"] + state["input"])).text}


builder = StateGraph(Plan)
builder.add_node(plan)
builder.add_node(act)
builder.add_edge(START, "plan")
builder.add_edge("plan", "act")
builder.add_edge("act", END)
planner = builder.compile()


def chat(state: MessagesState) -> dict:
    return {"messages": [model.invoke(state["messages"])]}


uncompiled = StateGraph(MessagesState)
uncompiled.add_node(chat)
uncompiled.add_edge(START, "chat")
uncompiled.add_edge("chat", END)
remembering = uncompiled.compile(checkpointer=InMemorySaver())

agent = create_agent(model, [], system_prompt="You add.")


def make():
    return create_agent(model, [])


chain = ChatPromptTemplate.from_messages([("system", "You add."), ("user", "{question}")]) | model


class Typed(BaseModel):
    query: str
    count: int = 0
    answer: str = ""


def solve(state: Typed) -> dict:
    return {"answer": model.invoke(state.query).text}


pydantic_builder = StateGraph(Typed)
pydantic_builder.add_node(solve)
pydantic_builder.add_edge(START, "solve")
pydantic_builder.add_edge("solve", END)
typed = pydantic_builder.compile()


class Open(TypedDict):
    left: str
    right: str


ambiguous_builder = StateGraph(Open)
ambiguous_builder.add_node("copy", lambda state: {"right": model.invoke(state["left"]).text})
ambiguous_builder.add_edge(START, "copy")
ambiguous_builder.add_edge("copy", END)
ambiguous = ambiguous_builder.compile()


class Wide(Open):
    middle: str


wide_builder = StateGraph(Wide)
wide_builder.add_node("copy", lambda state: {"right": model.invoke(state["left"]).text})
wide_builder.add_edge(START, "copy")
wide_builder.add_edge("copy", END)
wide = wide_builder.compile()


def ask(state: MessagesState) -> dict:
    return {"messages": [("ai", interrupt("may I?"))]}


waiting_builder = StateGraph(MessagesState)
waiting_builder.add_node(ask)
waiting_builder.add_edge(START, "ask")
waiting_builder.add_edge("ask", END)
waiting = waiting_builder.compile(checkpointer=InMemorySaver())


def swallow(state: MessagesState) -> dict:
    said = "nothing"
    for _ in range(9):
        try:
            said = model.invoke(state["messages"]).text
        except Exception:
            pass
    return {"messages": [("ai", said)]}


swallowing_builder = StateGraph(MessagesState)
swallowing_builder.add_node(swallow)
swallowing_builder.add_edge(START, "swallow")
swallowing_builder.add_edge("swallow", END)
swallowing = swallowing_builder.compile()
number = 7
from selfwire.graphs.dytopo import Dytopo as method


@dataclass
class Manner:
    prompt: str = "You add."


@dynamic_prompt
def say_how(request):
    return request.runtime.context.prompt


contextual = create_agent(model, [], middleware=[say_how], context_schema=Manner)


def ask_by_manner(state: MessagesState, runtime: Runtime[Manner]) -> dict:
    manner = runtime.context.prompt if runtime.context else "You multiply."
    seen = "No notes." if runtime.store is None else "Notes."
    return {"messages": [model.invoke(f"{manner} {seen} {state['messages'][-1].text}")]}


mannered = StateGraph(MessagesState, context_schema=Manner).add_node(ask_by_manner).add_edge(START, "ask_by_manner")


def recall(state: MessagesState, *, store: BaseStore) -> dict:
    notes = [item.value["said"] for item in store.search(("notes",))]
    store.put(("notes",), state["messages"][-1].id, {"said": state["messages"][-1].text})
    return {"messages": [model.invoke(f"You know: {notes}. {state['messages'][-1].text}")]}


def recall_at_run_time(state: MessagesState, runtime: Runtime) -> dict:
    return recall(state, store=runtime.store)


recalling = StateGraph(MessagesState).add_node(recall).add_edge(START, "recall")
recalling_late = StateGraph(MessagesState).add_node("recall", recall_at_run_time).add_edge(START, "recall")


@wrap_tool_call
def pass_on(request, handler):
    return handler(request)


@tool
def add(n: int) -> str:
    'Add one.'
    return str(n + 1)


synchronous = create_agent(model, [add], middleware=[pass_on], checkpointer=InMemorySaver())
"""
TASKS = [{"input": f"What is {n} plus 1?", "reference": str(n + 1)} for n in range(4)]
ONCE = (
    "uncompiled", "remembering", "agent", "make", "chain", "model", "typed", "contextual", "recalling",
    "recalling_late",
)  # fmt: skip
CALLS = {**dict.fromkeys(ONCE, 4), "planner": 8}
"""Calls for the four tasks, by graph."""


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer(text("Answer: 3")) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_MODEL", server.url)
    Path("own_app.py").write_text(APP)
    Path("q.jsonl").write_text("\n".join(map(json.dumps, TASKS)))
    return tmp_path / "home"


def evaluate(home: Path, graph: str, *more: str, code: int = 0) -> Any:
    return call(home, "eval", graph, "--benchmark", "q.jsonl", "--grader", "contains", "--json", *more, code=code)


@pytest.mark.parametrize("name", CALLS)
def test_a_graph_is_measured_as_it_is_and_its_calls_are_counted(home: Path, server: WireServer, name: str) -> None:
    found = json.loads(evaluate(home, f"own_app.py:{name}").stdout)
    _, own = found["systems"]
    assert own["score"] == 0.25
    assert own["spend"]["calls"] == len(server.asked) == CALLS[name]
    assert own["spend"]["input_tokens"] > 0
    assert found["spend"]["calls"] == CALLS[name]


def test_its_table_has_dollars_and_seconds_of_a_task_though_selfwire_asks_no_model(
    home: Path, server: WireServer
) -> None:
    Path("prices.json").write_text('{"openai:mine": {"input": 1000, "output": 1000}}')
    found = evaluate(home, f"own_app.py:{next(iter(CALLS))}", "--prices", "prices.json")
    assert re.search(r"\$ per .* s per ", found.output)
    _, *rows = next(home.rglob("results.jsonl")).read_text(encoding="utf-8").splitlines()
    assert all(row["seconds"] > 0 for row in map(json.loads, rows) if row["calls"])


def test_without_context_and_store_a_graph_is_asked_as_plain_langgraph_asks_it(home: Path, server: WireServer) -> None:
    evaluate(home, "own_app.py:mannered")
    assert [asked.body["messages"][0]["content"][:23] for asked in server.asked] == ["You multiply. No notes."] * 4


@pytest.mark.parametrize("name", ["recalling", "recalling_late"])
def test_each_task_has_a_store_of_its_own_where_the_graph_needs_one(home: Path, server: WireServer, name: str) -> None:
    evaluate(home, f"own_app.py:{name}")
    assert all(asked.body["messages"][0]["content"].startswith("You know: []. What is") for asked in server.asked)


def test_an_error_that_a_context_does_not_mend_is_not_asked_for_again(home: Path, server: WireServer) -> None:
    lines = [
        "def parse(state: MessagesState) -> dict:",
        "    raise ValueError(model.invoke(state['messages']).text)",
        "parsing = StateGraph(MessagesState, context_schema=Manner).add_node(parse).add_edge(START, 'parse')",
    ]
    Path("parsing_app.py").write_text("\n".join([APP, *lines]), encoding="utf-8")
    evaluate(home, "parsing_app.py:parsing", code=1)
    assert len(server.asked) == 4


def make_error(line: str, **known: Any) -> Exception:
    """The error of a line of code, which a traceback shows as it does one of a file."""
    name = f"<{line}>"
    linecache.cache[name] = (len(line), None, [f"{line}\n"], name)
    with pytest.raises((AttributeError, TypeError, ValueError)) as caught:
        exec(compile(line, name, "exec"), {"re": re, "asdict": asdict, **known})
    return caught.value


@dataclass
class Words:
    tone: str = "plain"


class Notes(TypedDict):
    tone: str


RUNTIME = SimpleNamespace(context=None, store=None)
LANGGRAPHS = "Cannot inject store into tools with InjectedStore annotations - please compile your graph with a store."


@pytest.mark.parametrize("schema", [Words, Notes])
@pytest.mark.parametrize(
    ("line", "is_lacking"),
    [
        ("re.search('x', 'y').group(1)", False),
        ("re.search('x', 'y')[1]", False),
        ("raise ValueError('the text was restored')", False),
        ("runtime.context.tone", True),
        ("runtime.context['tone']", True),
        ("asdict(runtime.context)", True),
        ("runtime.store.search", True),
        ("raise ValueError(langgraphs)", True),
    ],
)
def test_a_context_or_a_store_is_lacking_where_the_failing_line_shows_it(
    line: str, is_lacking: bool, schema: type[Any]
) -> None:
    graph = StateGraph(MessagesState, context_schema=schema)
    graph.add_node("ask", lambda state: {}).add_edge(START, "ask")
    error = make_error(line, runtime=RUNTIME, langgraphs=LANGGRAPHS)
    assert lacks_server(graph.compile(), error) == is_lacking
    assert lacks_server(graph.compile(), make_error("words.tone", words=None)) == (schema is Words)


@pytest.mark.parametrize("name", ["planner", "agent"])
@pytest.mark.parametrize(
    "words",
    [
        "run own_app.py:{} what",
        "eval own_app.py:{} --benchmark q.jsonl",
        "compare own_app.py:{} single --benchmark q.jsonl",
    ],
)
def test_a_server_that_cannot_be_reached_is_named_and_stops_every_command_at_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: str, name: str
) -> None:
    monkeypatch.setenv("MY_MODEL", "http://127.0.0.1:9/v1")
    stopped = call(home, *words.format(name).split(), code=STOPPED).stderr
    assert "http://127.0.0.1:9 does not answer: no connection (openai:mine, OpenAIConnectionError: " in stopped
    assert "check the address and that a server runs there" in stopped


def test_an_error_of_a_model_names_model_and_address(home: Path, server: WireServer) -> None:
    server.always = refused("no such key")
    done = call(home, "run", "own_app.py:planner", "What is 1 + 2?", code=2)
    assert "no such key" in done.stderr
    assert f"(openai:mine at {server.url.removesuffix('/v1')} failed)" in done.stderr


def test_a_connection_that_fails_after_an_answer_costs_its_task(home: Path, server: WireServer) -> None:
    lines = [
        "elsewhere = ChatOpenAI(model='other', base_url='http://127.0.0.1:9/v1', api_key='k', max_retries=0)",
        "def parse(state: MessagesState) -> dict:",
        "    return {'messages': [elsewhere.invoke([model.invoke(state['messages'])])]}",
        "parsing = StateGraph(MessagesState).add_node(parse).add_edge(START, 'parse')",
    ]
    Path("parsing_app.py").write_text("\n".join([APP, *lines]), encoding="utf-8")
    found = evaluate(home, "parsing_app.py:parsing", code=FAILED)
    assert json.loads(found.stdout)["systems"][1]["errors"] == len(server.asked) == 4
    assert "http://127.0.0.1:9 does not answer: no connection (openai:other, " in found.output


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_a_call_that_is_never_answered_costs_its_task(home: Path, server: WireServer, way: str) -> None:
    ask = {
        "invoke": "model.invoke(state['messages']).text",
        "stream": "''.join(chunk.text for chunk in model.stream(state['messages']))",
        "ainvoke": "(await model.ainvoke(state['messages'])).text",
        "astream": "''.join([chunk.text async for chunk in model.astream(state['messages'])])",
    }[way]
    source = f"{'async ' * way.startswith('a')}def say(state):\n    return {{'messages': [{ask}]}}"
    more = "quiet = StateGraph(MessagesState).add_node(say).add_edge(START, 'say')"
    Path("quiet_app.py").write_text("\n".join([APP, source, more]), encoding="utf-8")
    server.always = silent(60.0)
    limits = ("--concurrency", "1", "--budget-calls", "1", "--tasks", "2", "--timeout", "0.2")
    found = evaluate(home, "quiet_app.py:quiet", *limits, code=FAILED)
    assert json.loads(found.stdout)["systems"][1]["errors"] == len(server.asked) == 2
    assert "no answer within 1 seconds, which is 5 times --timeout (openai:mine failed)" in found.output


def test_steps_name_the_nodes_and_a_finished_task_is_not_asked_again(home: Path, server: WireServer) -> None:
    run = json.loads(evaluate(home, "own_app.py:planner").stdout)["run"]
    shown = call(home, "show", run, "--task", "line-3", "--at", "own-app").stdout
    assert "plan (graph)" in shown
    assert "act (graph)" in shown
    asked = len(server.asked)
    call(home, "eval", "--resume", run)
    assert len(server.asked) == asked


def test_middleware_that_only_works_synchronously_is_asked_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(body: Body) -> AIMessage:
        is_first = body["messages"][-1]["role"] == "user"
        calls = [{"name": "add", "args": {"n": 1}, "id": "1"}] if is_first else []
        return AIMessage("" if is_first else "Answer: 3", tool_calls=calls)

    with WireServer(answer) as server:
        monkeypatch.setenv("MY_MODEL", server.url)
        found = json.loads(evaluate(home, "own_app.py:synchronous", "--concurrency", "1").stdout)
        assert [len(asked.body["messages"]) for asked in server.asked] == [1, 3] * 4  # the first try's reply is kept
    assert found["systems"][1]["score"] == 0.25


WAITING = """
import selfwire
from langgraph.func import entrypoint, task


@task
def write(question: str) -> str:
    return "Answer: " + question


@entrypoint()
def workflow(question: str) -> str:
    return write(question).result()


if __name__ == "__main__":
    tasks = [{"input": f"{number}", "reference": f"{number}"} for number in range(48)]
    print(selfwire.evaluate(workflow, tasks, "contains", concurrency=40).score)
"""


def test_threads_that_wait_for_others_do_not_take_all_of_the_event_loop(tmp_path: Path) -> None:
    program = tmp_path / "waiting.py"
    program.write_text(WAITING)
    said, _ = wait_for(start("tests.processes:run_python", str(program), cwd=tmp_path))
    assert said.startswith("1.00 ")


def test_two_workers_measure_it_too(home: Path, server: WireServer) -> None:
    found = json.loads(evaluate(home, "own_app.py:planner", "--workers", "2").stdout)
    assert found["systems"][1]["spend"]["calls"] == len(server.asked) == 8


@pytest.mark.parametrize("name", ["planner", "swallowing"])
def test_a_call_over_the_budget_is_not_sent_even_if_the_graph_hides_the_refusal(
    home: Path, server: WireServer, name: str
) -> None:
    done = evaluate(home, f"own_app.py:{name}", "--budget-calls", "3", "--concurrency", "1", code=3)
    assert len(server.asked) == 3
    assert "budget exhausted" in done.stderr + done.stdout
    assert "CallMeter" not in done.stderr


def test_a_task_over_its_cap_scores_nothing(home: Path, server: WireServer) -> None:
    found = json.loads(evaluate(home, "own_app.py:planner", "--calls-per-task", "1").stdout)
    own = found["systems"][1]
    assert (own["score"], own["capped"], len(server.asked)) == (0.0, 4, 4)


def test_a_graph_that_waits_for_a_person_is_an_error_and_no_zero(home: Path, server: WireServer) -> None:
    found = json.loads(evaluate(home, "own_app.py:waiting", code=1).stdout)
    own = found["systems"][1]
    assert (own["errors"], own["score"], server.asked) == (4, None, [])
    assert "waits for a person" in own["fault"]


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("ambiguous", (), "several text fields could be it: left, right; say it with --set input="),
        ("wide", (), "; and graph 'own_app.py:wide' does not show where the answer is in its output"),
        ("ambiguous", ("--set", 'input={"left": "x"}'), "has no {question}"),
        ("number", (), "is a int, not a graph"),
        ("method", (), "is a method, not a graph; a command finds a method by the entry point of an installed package"),
        ("nothing", (), "graph 'own_app.py:nothing': own_app.py has no 'nothing'; it has "),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name_before_a_call(
    home: Path, server: WireServer, name: str, more: tuple[str, ...], told: str
) -> None:
    assert told in evaluate(home, f"own_app.py:{name}", *more, code=2).stderr
    assert server.asked == []
    assert not (home / "runs").exists()


@pytest.mark.parametrize(("name", "more"), [("ambiguous", ()), ("wide", ("--set", "answer=right"))])
def test_the_way_out_works(home: Path, server: WireServer, name: str, more: tuple[str, ...]) -> None:
    more = ("--set", 'input={"left": "{question}"}', *more)
    assert json.loads(evaluate(home, f"own_app.py:{name}", *more).stdout)["systems"][1]["score"] == 0.25


def test_it_is_compared_with_a_baseline(home: Path, server: WireServer) -> None:
    model = ("--model", "openai:mine", "--base-url", server.url, "--retries", "0")
    given = ("--benchmark", "q.jsonl", "--grader", "contains", "--calls-per-task", "2", *model)
    done = call(home, "compare", "own_app.py:planner", "mine=own_app.py:agent", "direct", *given, OPENAI_API_KEY="k")
    assert "graphs with models of their own" in done.stdout


def test_a_run_of_somebody_else_imports_no_graph(home: Path, server: WireServer, monkeypatch: Any) -> None:
    run = json.loads(evaluate(home, "own_app.py:planner").stdout)["run"]
    Path("own_app.py").write_text("raise SystemExit('imported')")
    monkeypatch.setenv("SELFWIRE_CONFIG_HOME", str(home / "another"))  # of a user who has started no run
    refused = call(home, "eval", "--resume", run, code=2)
    assert "names the code of the graphs own_app.py:planner; nothing of that was used" in refused.stderr


class Asked(TypedDict):
    question: str
    answer: str


def test_a_file_is_executed_once_however_often_its_graph_is_loaded(home: Path, server: WireServer) -> None:
    with Path("own_app.py").open("a") as app:
        app.write("\nwith open('executed', 'a') as log:\n    log.write('x')\n")
    evaluate(home, "own_app.py:planner")
    assert load_graph("own_app.py:planner") is load_graph("own_app.py:planner")
    assert Path("executed").read_text() == "x"


def test_makers_of_langgraphs_server_make_graphs(home: Path, server: WireServer) -> None:
    Path("makers_app.py").write_text(
        "from langchain_core.runnables import RunnableLambda\n"
        "def plain(size=2): return RunnableLambda(lambda given: size)\n"
        "def configured(config): return RunnableLambda(lambda given: len(config['configurable']))\n"
        "async def awaited(config): return RunnableLambda(lambda given: 3)\n"
        "def other(number, size): return number\n"
    )
    made = {name: load_graph(f"makers_app.py:{name}").invoke(1) for name in ("plain", "configured", "awaited")}
    assert made == {"plain": 2, "configured": 0, "awaited": 3}

    async def load_inside() -> int:
        return int(load_graph("makers_app.py:awaited").invoke(1))

    assert asyncio.run(load_inside()) == 3
    with pytest.raises(ConfigError) as caught:
        load_graph("makers_app.py:other")
    assert str(caught.value) == (
        "graph 'makers_app.py:other' cannot be made: makers_app.py:5: it needs number and size; name a function that "
        "needs no arguments, or LangGraph's config alone"
    )


CONTEXTS = """
import asyncio
from contextlib import asynccontextmanager, contextmanager
from langchain_core.runnables import RunnableLambda

@asynccontextmanager
async def served(config):
    queue, said = asyncio.Queue(), []

    async def work():
        while True:
            (await queue.get()).append("worked")

    task, loop = asyncio.create_task(work()), asyncio.get_running_loop()
    async def put():
        await queue.put(said)
        await asyncio.sleep(0)
        return said

    yield RunnableLambda(lambda given: list(asyncio.run_coroutine_threadsafe(put(), loop).result()))
    task.cancel()
    print("left served")

@contextmanager
def opened():
    yield RunnableLambda(lambda given: given + 1)
    print("left opened")
"""


def test_contexts_that_make_graphs_are_entered_once_and_left_when_the_process_ends(
    home: Path, server: WireServer
) -> None:
    Path("contexts_app.py").write_text(CONTEXTS)
    lines = [
        "from selfwire.graphs.own_graph import load_graph",
        "served = load_graph('contexts_app.py:served')",
        "assert load_graph('contexts_app.py:served') is served",
        "print(served.invoke(1), load_graph('contexts_app.py:opened').invoke(1))",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['worked'] 2", "left opened", "left served"]
    assert done.stderr == ""


ENDING = """
import sys
from contextlib import asynccontextmanager

@asynccontextmanager
async def served():
    sys.exit("no licence")
    yield

async def made():
    sys.exit("no licence")
"""


LEAVING = """
import asyncio, sys
from contextlib import asynccontextmanager
from pathlib import Path
from langchain_core.runnables import RunnableLambda

tasks = []

async def refresh():
    try:
        await asyncio.sleep(600)
    finally:
        Path("cancelled.txt").touch()

async def made():
    tasks.append(asyncio.create_task(refresh()))
    await asyncio.sleep(0)  # which begins it
    return RunnableLambda(str)

async def leave():
    sys.exit("no licence")

@asynccontextmanager
async def served():
    tasks.append(asyncio.create_task(leave()))
    try:
        yield RunnableLambda(str)
    finally:
        await asyncio.sleep(0)
        print("left")
"""


def test_what_a_coroutine_that_makes_a_graph_leaves_running_is_cancelled(home: Path, server: WireServer) -> None:
    Path("leaving_app.py").write_text(LEAVING)
    before = {*threading.enumerate()}
    load_graph("leaving_app.py:made")
    for thread in {*threading.enumerate()} - before:
        if thread.name == "foreign loop":
            thread.join(10)
            assert not thread.is_alive()
    assert Path("cancelled.txt").exists()


def test_a_context_that_makes_a_graph_is_left_even_if_its_task_ends_the_process(tmp_path: Path) -> None:
    (tmp_path / "leaving_app.py").write_text(LEAVING)
    program = (
        "import time; from selfwire.graphs.own_graph import load_graph; "
        "load_graph('leaving_app.py:served'); time.sleep(0.2)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=env, timeout=100, capture_output=True, text=True, check=True
    )
    assert done.stdout == "left\n"


@pytest.mark.parametrize("name", ["served", "made"])
def test_a_function_that_ends_the_process_in_place_of_making_a_graph_is_an_error(
    home: Path, server: WireServer, name: str
) -> None:
    Path("ending_app.py").write_text(ENDING)
    with pytest.raises(ConfigError, match=r"cannot be made: .*no licence"):
        load_graph(f"ending_app.py:{name}")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            "import os\nos.environ['NO_SUCH_KEY']",
            "fault_app.py:2: KeyError: 'NO_SUCH_KEY'; set NO_SUCH_KEY in the environ",
        ),
        (
            "import no_such.more",
            "fault_app.py:1: ModuleNotFoundError: No module named 'no_such'; install no_such beside",
        ),
        ("\nimport fault_of_another", "fault_of_another.py:3: AssertionError: no licence; mend it, or name another"),
        ("graph = = 1", "fault_app.py:1: SyntaxError: invalid syntax (fault_app.py, line 1); mend it"),
        ("import json\njson.loads('{')", "fault_app.py:2: JSONDecodeError: Expecting property name"),
        ("from langgraph.graph import StateGraph\ngraph = StateGraph(dict).compile()", "fault_app.py:2: ValueError"),
    ],
)
def test_a_fault_of_an_import_has_its_line_and_the_way_out(
    home: Path, server: WireServer, source: str, why: str
) -> None:
    Path("fault_app.py").write_text(source)
    Path("fault_of_another.py").write_text("\n\nassert False, 'no licence'")
    with pytest.raises(ConfigError) as caught:
        load_graph("fault_app.py:graph")
    assert str(caught.value).startswith(f"graph 'fault_app.py:graph' cannot be imported: {why}")


def test_a_file_that_failed_is_tried_again(home: Path, server: WireServer) -> None:
    Path("half_app.py").write_text("raise RuntimeError('not yet')")
    with pytest.raises(ConfigError, match="not yet"):
        load_graph("half_app.py:graph")
    Path("half_app.py").write_text("from langchain_core.runnables import RunnableLambda\ngraph = RunnableLambda(str)")
    assert load_graph("half_app.py:graph").invoke(3) == "3"


CHAIN = "from langchain_core.runnables import RunnableLambda\n{}graph = RunnableLambda(str)"


def test_a_file_of_a_package_imports_as_the_package_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    package, loose = tmp_path / "src" / "own_package_of_test", tmp_path / "src" / "own_folder_of_test"
    for folder in (package, loose):
        folder.mkdir(parents=True)
        (folder / "texts.py").write_text("TEXT = 'Chat.'")
    (package / "__init__.py").touch()
    both = "from .texts import TEXT\nfrom own_package_of_test.texts import TEXT as SAME\n"
    (package / "graph.py").write_text(CHAIN.format(both))
    (loose / "graph.py").write_text(CHAIN.format("from own_folder_of_test.texts import TEXT\n"))
    for folder in (package, loose):
        assert load_graph(f"src/{folder.name}/graph.py:graph").invoke(3) == "3"
    assert sys.modules["own_package_of_test.graph"].SAME == "Chat."
    other = tmp_path / "other" / "own_package_of_test"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    (other / "graph.py").write_text(CHAIN.format(""))
    with pytest.raises(ConfigError, match="which this process has imported from another file"):
        load_graph("other/own_package_of_test/graph.py:graph")


def test_counts_of_tokens_that_cannot_be_are_replaced_by_estimates(home: Path, server: WireServer) -> None:
    names, counts = ("prompt_tokens", "completion_tokens", "total_tokens"), cycle([-5, "5", 2.5])
    server.picky = lambda body: lying(usage=dict.fromkeys(names, next(counts)))
    found = json.loads(evaluate(home, "own_app.py:planner").stdout)
    own = found["systems"][1]
    assert (own["errors"], own["spend"]["calls"]) == (0, 8)
    assert own["spend"]["input_tokens"] > 0


def test_in_python_a_graph_is_a_system_as_an_object(home: Path, server: WireServer) -> None:
    model = ChatOpenAI(model="mine", base_url=server.url, api_key="k", max_retries=0)
    graph = StateGraph(Asked)
    graph.add_node("solve", lambda state: {"answer": str(model.invoke(state["question"]).text)})
    graph.add_edge(START, "solve")
    graph.add_edge("solve", END)
    found = selfwire.evaluate(graph.compile(), TASKS, "contains", home=home)
    assert (found.score and found.score.value, found.cost.calls) == (0.25, 4)
    both = selfwire.compare({"mine": graph.compile(), "chain": model}, TASKS, "contains", home=home)
    assert {name: score and score.value for name, score in both.scores.items() if name != "trivial"} == {
        "mine": 0.25, "chain": 0.25,
    }  # fmt: skip
    with pytest.raises(BudgetError):
        selfwire.evaluate(graph.compile(), TASKS, "contains", home=home, budget={"calls": 2})


def test_every_thread_of_a_graph_that_langchain_starts_is_metered(home: Path, server: WireServer) -> None:
    names: set[str] = set()

    def solve(question: str) -> str:
        names.add(threading.current_thread().name)
        model = ChatOpenAI(model="mine", base_url=server.url, api_key="k", max_retries=0)
        return "\n".join(message.text for message in model.batch([question, question]))

    found = selfwire.evaluate(RunnableLambda(solve), TASKS, "contains", home=home)
    assert found.cost.calls == len(server.asked) == 8
    assert names


def test_a_pool_of_threads_of_the_graph_itself_is_metered(home: Path, server: WireServer) -> None:
    def solve(question: str) -> str:
        model = ChatOpenAI(model="mine", base_url=server.url, api_key="k", max_retries=0)
        with ThreadPoolExecutor(2) as pool:
            return "\n".join(message.text for message in pool.map(model.invoke, [question, question]))

    found = selfwire.evaluate(RunnableLambda(solve), TASKS, "contains", home=home)
    assert found.cost.calls == len(server.asked) == 8
    server.asked.clear()
    with pytest.raises(BudgetError):
        selfwire.evaluate(RunnableLambda(solve), TASKS, "contains", home=home, budget={"calls": 4}, seed=1)
    assert len(server.asked) <= 4


def test_a_node_that_gives_calls_to_its_event_loops_threads_is_metered(home: Path, server: WireServer) -> None:
    async def solve(state: Asked) -> dict[str, Any]:
        model = ChatOpenAI(model="mine", base_url=server.url, api_key="k", max_retries=0)
        loop = asyncio.get_running_loop()
        return {"answer": (await loop.run_in_executor(None, model.invoke, state["question"])).text}

    graph = StateGraph(Asked).add_node("solve", solve).add_edge(START, "solve").compile()
    assert selfwire.evaluate(graph, TASKS, "contains", home=home).cost.calls == len(server.asked) == 4


def test_what_a_node_has_cached_is_not_taken_over(home: Path, server: WireServer) -> None:
    lines = [
        "from langgraph.cache.memory import InMemoryCache",
        "from langgraph.types import CachePolicy",
        "builder = StateGraph(MessagesState).add_edge(START, 'chat')",
        "builder.add_node('chat', chat, cache_policy=CachePolicy())",
        "caching = builder.compile(cache=InMemoryCache())",
    ]
    Path("caching_app.py").write_text("\n".join([APP, *lines]), encoding="utf-8")
    graph = load_graph("caching_app.py:caching")
    given = {"messages": [HumanMessage("1 + 1?", id="1")]}
    for _ in range(2):
        empty_cache(graph).invoke(given)
    assert len(server.asked) == 2
    for _ in range(2):
        graph.invoke(given)
    assert len(server.asked) == 3


@pytest.mark.parametrize("state", [{"text": str}, {"text": str, "answer": str}, {"answer": str, "notes": str}])
def test_the_answer_may_be_in_the_field_of_a_given_input(state: dict[str, type]) -> None:
    graph = (
        StateGraph(cast(Any, TypedDict)("State", state))
        .add_node("solve", lambda state: state)
        .add_edge(START, "solve")
        .compile()
    )
    asked = next(iter(state))
    found = map_graph("x", graph, OwnGraphConfig(input={asked: "Briefly: {question}"}))
    assert found.answer == ("answer" if "answer" in state else asked,)


def test_a_path_into_the_output_leads_to_the_answer() -> None:
    chain: Any = RunnableLambda(lambda question: {"result": {"text": question}})
    assert map_graph("x", chain, OwnGraphConfig(answer="result.text")).answer == ("result", "text")
    with pytest.raises(ConfigError, match=r"ModuleNotFoundError: .*; name it as module:attribute or"):
        load_graph("no_such_module_here:graph")


@pytest.mark.parametrize(
    ("asked", "put", "left"),
    [
        ("12", "Price list: 12 kettles, 120 cups", "Price list: 12 kettles, 120 cups"),
        ("12", "Prices.\n\n12", "Prices."),
        ("How many cups?", "Prices. How many cups? Be brief.", "Prices.  Be brief."),
    ],
)
def test_a_question_that_critics_read_already_is_taken_out_of_no_word(asked: str, put: str, left: str) -> None:
    asking: Any = SimpleNamespace(texts={"main": [put]}, reply="")
    assert _list_given(asking, Question(id="1", input=asked)) == {"main": [left]}


async def test_a_pool_that_the_user_has_set_stays_the_event_loops_own() -> None:
    loop, mine = asyncio.get_running_loop(), ThreadPoolExecutor(1, thread_name_prefix="mine")
    loop.set_default_executor(mine)
    make_room()
    name = await asyncio.to_thread(lambda: threading.current_thread().name)
    assert name.startswith("mine")


HANGING = """
import asyncio, threading
from selfwire.models.sync import make_room
from selfwire.models.sync import run_sync

async def leave():
    make_room()
    try:
        await asyncio.wait_for(asyncio.to_thread(threading.Event().wait), 0.1)
    except TimeoutError:
        print(await asyncio.to_thread(lambda: "done"))

run_sync(leave())
"""
SAVING = """
import asyncio, atexit, multiprocessing, sys, time
from selfwire.models.sync import make_room
from selfwire.models.sync import run_sync

def save():
    time.sleep(0.5)
    fork = multiprocessing.get_context("fork").Process(target=print, args=["forked"])
    fork.start()
    fork.join()
    print("saved", flush=True)

async def leave():
    make_room()
    asyncio.get_running_loop().run_in_executor(None, save)

atexit.register(print, "exit")
(asyncio.run if sys.argv[1] == "own" else run_sync)(leave())
print("end", flush=True)
"""


def test_a_thread_of_a_graph_that_hangs_keeps_no_process_from_ending() -> None:
    """As one that reads the stream of a server that has fallen silent."""
    ended = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=100, check=True)
    assert ended.stdout == "done\n"


@pytest.mark.parametrize(("loop", "said"), [("own", "forked saved end exit"), ("ours", "end forked saved exit")])
def test_calls_that_nobody_waits_for_end_before_their_loop_or_process(loop: str, said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SAVING, loop], capture_output=True, text=True, timeout=100, check=True
    )
    assert (ended.stdout.split(), ended.stderr) == (said.split(), "")


async def test_more_calls_than_there_are_threads_wait_for_each_other() -> None:
    make_room()
    begun, free = list[str](), threading.Event()

    def wait() -> None:
        begun.append(threading.current_thread().name)
        free.wait()

    calls = [asyncio.create_task(asyncio.to_thread(wait)) for _ in range(ROOM + 9)]
    while len(begun) < ROOM:  # noqa: ASYNC110 - threads fill it
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    assert begun == ROOM * ["graph"]
    free.set()
    await asyncio.gather(*calls)
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(lambda: 1 / 0)


async def test_what_a_program_keeps_per_thread_is_there_in_its_next_calls() -> None:
    make_room()
    local, made = threading.local(), list[object]()

    def connect() -> None:
        if not hasattr(local, "connection"):
            local.connection = object()
            made.append(local.connection)

    for _ in range(50):
        await asyncio.to_thread(connect)
    assert len(made) == 1


async def test_threads_end_with_their_event_loop() -> None:
    async def ask() -> threading.Thread:
        make_room()
        return await asyncio.to_thread(threading.current_thread)

    thread = await asyncio.to_thread(asyncio.run, ask())
    thread.join(10)
    assert not thread.is_alive()
