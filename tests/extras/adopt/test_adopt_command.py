"""The command that reads a program: its page, its JSON, its exit codes, and what it does not import."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from typer.testing import CliRunner

import selfwire
from selfwire.cli.app import build
from selfwire.core.errors import ConfigError
from selfwire.extras.adopt.reader import read_program
from tests.extras.adopt.corpus import find_folder

PAGE = """\
review:graph: read from 1 file, nothing was run

nodes
  review.py:17  write  (function)
  review.py:22  review  (function)

edges
  review.py:40  START -> write  (data: edge)
  review.py:41  write -> review  (data: edge)
  review.py:29  review -> END | write  (code: returns by decide)

models
  review.py:6  ChatOpenAI  gpt-4o

texts
  review.py:7   user constant  'APPROVED'  [node review]  do not change: compared at review.py:31
  review.py:8   user constant  'please try again'  [node write]  do not change: compared at review.py:18
  review.py:18  user constant  'This is your first try.'  [node write]
  review.py:19  user constant  'Write a slogan.'  [node write]
  review.py:23  user f-string  'Judge the slogan. Say {APPROVED} if it is good, else REJECTED....'  [node review]  \
keep: REJECTED

5 texts, 2 edges as data and 1 as code, 0 opaque things; measure it: selfwire eval review:graph --benchmark TASKS.jsonl
"""
HELD = """
from dataclasses import dataclass

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore


@dataclass
class Context:
    prompt: str = "You chat."


def chat(state: MessagesState, runtime: Runtime[Context]):
    return {"messages": ChatOpenAI(model="m").invoke([("system", runtime.context.prompt), *state["messages"]])}


builder = StateGraph(MessagesState, context_schema=Context).add_node("chat", chat).add_edge(START, "chat")
graph = builder.compile(checkpointer=InMemorySaver(), store=InMemoryStore())


def make():
    return builder.compile()
"""
LIGHT = """
import sys
sys.argv = ["selfwire", "adopt", "review:graph"]
from selfwire.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(*sorted({"langgraph", "langchain_core", "langchain_openai", "numpy", "review", "asyncio"} & set(sys.modules)))
"""


def test_the_page_has_a_line_for_each_thing_and_the_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(find_folder("signals"))
    done = CliRunner().invoke(build(), ["adopt", "review:graph"])
    assert (done.exit_code, done.stdout) == (0, PAGE)


def test_json_has_the_whole_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(find_folder("signals"))
    found = json.loads(CliRunner().invoke(build(), ["adopt", "review:graph", "--json"]).stdout)
    assert found == {"command": "adopt", "inventory": read_program("review:graph").model_dump(mode="json")}


def test_a_name_that_cannot_be_read_is_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(find_folder("signals"))
    done = CliRunner().invoke(build(), ["adopt", "review:app"])
    assert done.exit_code == 2
    assert done.stderr == (
        "error: review.py:1 has no 'app'; it has builder, graph; name an attribute that holds a graph, as "
        "review.py:graph\n"
    )


@pytest.mark.parametrize("options", [["--call-tools"], ["--question", "Why?"], ["--set", "answer=x"]])
def test_options_that_would_do_nothing_are_refused(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(find_folder("signals"))
    done = CliRunner().invoke(build(), ["adopt", "review:graph", *options])
    assert done.exit_code == 2
    assert f"{options[0]} " in done.stderr
    assert "would do nothing: give --confirm" in done.stderr


def test_no_framework_is_imported_nor_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], cwd=find_folder("signals"), capture_output=True, text=True, check=True
    )
    assert done.stdout == PAGE + "\n"


def test_in_python_a_graph_is_read_by_its_name_or_as_the_module_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(find_folder("signals"))
    found = selfwire.adopt("review:graph")
    assert str(found) == PAGE.rstrip()
    assert repr(found).startswith(
        "<Inventory of review:graph: 2 nodes, 3 edges, 0 agents, 0 tools, 1 models, 5 texts, 0 op"
    )
    assert json.loads(found.model_dump_json())["texts"][0]["line"] == 7
    module, held = ModuleType("review"), StateGraph(MessagesState)
    monkeypatch.setitem(sys.modules, "review", module)
    module.__file__, module.graph = str(Path("review.py").resolve()), held  # type: ignore[attr-defined]
    assert selfwire.adopt(held).replace(program="review:graph") == found
    with pytest.raises(ConfigError, match="no file shows where this function was made; pass the function that makes"):
        selfwire.adopt(lambda: None)
    for wrong in (3, None):  # which modules hold under some name
        with pytest.raises(ConfigError, match=f"or a name as 'my_app.graph:graph', not {wrong}"):
            selfwire.adopt(wrong)


def test_a_graph_is_found_by_its_builder_however_it_was_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "held.py").write_text(HELD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    held = importlib.import_module("held")
    monkeypatch.delitem(sys.modules, "held")
    monkeypatch.setitem(sys.modules, "held", held)
    other = held.builder.compile(checkpointer=InMemorySaver(), store=InMemoryStore())
    for graph, name in (
        (held.builder, "builder"),
        (held.graph, "graph"),
        (held.make, "make"),
        (held.make(), "builder"),
        (other, "builder"),
        (other.with_config(tags=["x"]), "builder"),
    ):
        found = selfwire.adopt(graph)
        assert (found.program, [text.pieces for text in found.texts]) == (f"held.py:{name}", [("You chat.",)])
