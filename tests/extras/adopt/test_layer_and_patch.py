"""Requests of a program under a layer of changed texts are those of the program with the patch applied."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from selfwire.extras.adopt.layer import list_texts
from selfwire.extras.adopt.page import format_inventory
from selfwire.extras.adopt.patch import make_patch
from selfwire.extras.adopt.reader import read_program
from selfwire.graphs.own_graph import load_graph
from selfwire.models.text_layer import TextLayer
from tests.wire.server import WireServer, text

APP = '''
import os

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)
SHORT = "Hello."


@tool
def find_book(name: str) -> str:
    """Finds things."""
    return name


@tool
def find_film(name: str) -> str:
    """Finds things."""
    return name


@tool
def find_song(name: str) -> str:
    """Finds a song."""
    return name


class Talk(MessagesState):
    sailor: str
    lawyer: str


def sail(state: Talk) -> dict:
    return {"sailor": model.invoke([("system", "Speak like a sailor."), ("user", "Be nice.")]).text}


def sue(state: Talk) -> dict:
    return {"lawyer": model.invoke([("system", "Speak like a lawyer."), ("user", SHORT)]).text}


builder = StateGraph(Talk)
builder.add_node(sail)
builder.add_node(sue)
builder.add_node("library", create_agent(model, [find_book, find_film, find_song], system_prompt="Be nice."))
builder.add_edge(START, "sail")
builder.add_edge("sail", "sue")
builder.add_edge("sue", "library")
builder.add_edge("library", END)
graph = builder.compile()
'''


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    monkeypatch.chdir(tmp_path)
    with WireServer(text("Yes.")) as server:
        monkeypatch.setenv("MY_MODEL", server.url)
        yield server


def write(name: str, source: str = APP) -> str:
    Path(name).write_text(source, encoding="utf-8")
    return f"{name}:graph"


def send(server: WireServer, target: str, layer: TextLayer) -> list[str]:
    """The system messages and descriptions of tools in the requests of a graph."""
    server.asked.clear()
    with layer.active():
        load_graph(target).invoke({"messages": [HumanMessage("Find something.")]})
    sent = [message["content"] for asked in server.asked for message in asked.body["messages"][:2]]
    tools = [tool["function"] for tool in server.asked[-1].body["tools"]]
    return [*sent, *(f"{tool['name']}: {tool['description']}" for tool in tools)]


TOOLS = '''
import os

from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)


class Ask(BaseTool):
    name: str = "ask_hives"
    description: str = """Asks the hives.
    Name one hive.
    """

    def _run(self, hive: str) -> str:
        return hive


def count_bees(hive: str) -> int:
    """Counts the bees.

    At night alone.
    """
    return 1


def chat(state: MessagesState) -> dict:
    bound = model.bind_tools([Ask(), count_bees])
    return {"messages": [bound.invoke([("system", "You keep bees."), *state["messages"]])]}


graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()
'''


def test_lines_and_paragraphs_of_new_descriptions_are_sent_as_the_patched_program_does(server: WireServer) -> None:
    target = write("bees_before.py", TOOLS)
    texts = {text.name: text for text in list_texts(target)}
    changed = {
        "ask-hives": texts["ask-hives"].shown.replace("Asks", "Asks all"),
        "count-bees": "Counts them.\n\nNot by day.\nNever twice.",
    }
    under = send(server, target, TextLayer(texts.values(), changed))
    Path("new.patch").write_text(make_patch(target, changed, dict.fromkeys(changed, "because")), encoding="utf-8")
    subprocess.run(["git", "apply", "new.patch"], check=True)
    target = write("bees_after.py", Path("bees_before.py").read_text(encoding="utf-8"))
    assert send(server, target, TextLayer(())) == under
    assert any("Asks all the hives." in part for part in under)


OWN_TOOL = """
class Count(BaseTool):
    name: str = "count"
    description: str = DOC

    def _run(self, hive: str) -> str:
        return hive
"""
MADE_TOOL = "\ncount = StructuredTool.from_function(lambda hive: hive, name='count', description=DOC)\n"
SCHEMA = "\nclass count(BaseModel):\n    DOC\n\n    hive: str\n"
ARGUMENTS = "Counts bees.\n\n    Args:\n        hive: a name of a hive.\n    "


@pytest.mark.parametrize(
    ("made", "tool", "doc"),
    [
        (OWN_TOOL, "Count()", ARGUMENTS),
        (OWN_TOOL, "Count()", "\n    Counts bees.\n\n    At night alone.\n    "),
        (MADE_TOOL, "count", ARGUMENTS),
        (SCHEMA, "count", "Counts bees.\n\n    At night alone.\n    "),
    ],
    ids=["own-arguments", "own-line", "made-arguments", "schema"],
)
@pytest.mark.parametrize("new", ["Count.", "Count.\nNot by day.", "Count.\n\nNot by day.\nNever twice."])
def test_a_new_description_stands_in_the_source_as_it_was_sent(
    server: WireServer, made: str, tool: str, doc: str, new: str
) -> None:
    bound = SEARCHES.partition("class Search")[0] + made.replace("DOC", f'"""{doc}"""')
    bound = bound.replace("import StructuredTool", "import BaseTool, StructuredTool")
    chat = (
        f"\n\ndef chat{SEARCHES.partition('def chat')[2].partition('.add_edge')[0]}.add_edge(START, 'chat').compile()"
    )
    source = bound + chat.replace("[Search]", f"[{tool}]").replace("builder", "graph")
    target = write("counting.py", source)
    texts = {text.shown: text for text in list_texts(target)}
    changed = {next(text.name for text in texts.values() if text.tool): new}
    under = send(server, target, TextLayer(texts.values(), changed))
    Path("new.patch").write_text(make_patch(target, changed, dict.fromkeys(changed, "because")), encoding="utf-8")
    subprocess.run(["git", "apply", "new.patch"], check=True)
    target = write("counting_after.py", Path("counting.py").read_text(encoding="utf-8"))
    assert send(server, target, TextLayer(())) == under
    assert "Not by day." in under[-1] or "\n" not in new


SEARCHES = """
import os

from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)


class Search(BaseModel):
    \"\"\"Search the archive of bridges.\"\"\"

    words: str


def run(words: str) -> str:
    \"\"\"Run a search.\"\"\"
    return words


def chat(state: MessagesState) -> dict:
    return {"messages": [model.bind_tools([Search]).invoke([("system", "You know bridges."), *state["messages"]])]}


builder = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").add_edge("chat", "tools")
graph = builder.add_node("tools", ToolNode([StructuredTool.from_function(run, name=Search.__name__)])).compile()
"""


def test_a_schema_that_is_offered_is_evolved_beside_a_tool_of_its_name_that_runs_its_calls(server: WireServer) -> None:
    target = write("bridges.py", SEARCHES)
    texts = {text.shown: text for text in list_texts(target)}
    changed = {texts["Search the archive of bridges."].name: "Search by the river."}
    assert send(server, target, TextLayer(texts.values(), changed))[-1] == "Search: Search by the river."
    assert "Run a search." not in texts  # which no model reads


@pytest.mark.parametrize("given", ["model.bind_tools([sail, dive])", "bind(model)"])
def test_a_tool_is_evolved_unless_a_node_alone_runs_it_where_others_are_offered(server: WireServer, given: str) -> None:
    bound = SEARCHES.replace("model.bind_tools([Search])", given.replace("dive", "row"))
    tools = "".join(
        f'\n\ndef {name}(words: str) -> str:\n    """{name.title()} to the bridge."""\n    return words\n'
        for name in ("sail", "row", "dive")
    )
    source = bound.replace("\n\ndef chat", f"{tools}\n\ndef chat").replace(
        "StructuredTool.from_function(run, name=Search.__name__)", "sail, row, dive"
    )
    shown = {text.shown for text in list_texts(write("boats.py", f"from other import bind\n{source}")) if text.tool}
    offered = ["Sail", "Row"] if "bind_tools" in given else ["Sail", "Row", "Dive"]
    assert shown == {f"{name} to the bridge." for name in offered}


EDITS: tuple[Mapping[str, str], ...] = (
    {"sail": "Speak like a lawyer.", "sue": "Speak like a sailor."},
    {"find-book": "Finds a song.", "find-song": "Finds things."},
    {"find-film": "Finds a film."},
    {"find-book": "Finds a book by its name.", "find-film": "Finds a film by its name."},
    {"library": "You lead the library. Be nice."},
    {"sail": "Be nice.", "library": "Speak like a sailor.", "find-film": "Be nice."},
)


@pytest.mark.parametrize("changed", EDITS, ids=lambda changed: "+".join(changed))
def test_what_runs_is_what_the_patch_writes(server: WireServer, changed: Mapping[str, str]) -> None:
    target = write("talk_before.py")
    texts = list_texts(target)
    plain, under = send(server, target, TextLayer(texts)), send(server, target, TextLayer(texts, changed))
    Path("new.patch").write_text(make_patch(target, changed, dict.fromkeys(changed, "because")), encoding="utf-8")
    subprocess.run(["git", "apply", "new.patch"], check=True)
    name = f"talk_{len(plain)}_{EDITS.index(changed)}.py"  # that this process has not imported
    target = write(name, Path("talk_before.py").read_text(encoding="utf-8"))
    assert send(server, target, TextLayer(())) == under
    differing = [number for number, (old, new) in enumerate(zip(plain, under, strict=True)) if old != new]
    assert len(differing) == len(changed)


def test_a_short_prompt_is_evolved_as_a_whole_system_message_and_other_short_ones_say_why_not(
    server: WireServer,
) -> None:
    target = write("talk_short.py")
    assert "Be nice." in {text.shown for text in list_texts(target) if text.is_whole}
    page = format_inventory(read_program(target))
    lines = {line for line in page.splitlines() if "not evolved" in line}
    [hello] = [line for line in lines if "'Hello.'" in line]
    assert hello.endswith("not evolved: fewer than 12 letters, and not known as a whole system message")
    assert not [line for line in lines if "'Be nice.'" in line and "system" in line.partition("'")[0]]


@pytest.mark.parametrize(
    ("prompt", "is_evolved"),
    [
        ('"Be nice."', True),
        ("NICE", True),
        ('"Be nice." + " And be brief, always."', True),  # is one text
        ('NICE + " And be brief, always."', False),
        ('f"{NICE} And be brief, always."', False),
        ("GROWN", False),
        ('"\\n".join([NICE, "And be brief."])', False),
    ],
)
def test_a_short_prompt_is_evolved_where_the_source_shows_that_it_is_the_whole_message(
    server: WireServer, prompt: str, *, is_evolved: bool
) -> None:
    constants = 'NICE = "Be nice."\nGROWN = "Be nice."\nGROWN += " And be brief, always."\n'
    source = APP.replace('system_prompt="Be nice."', f"system_prompt={prompt}").replace(
        "\n\n\n@tool", f"\n{constants}\n\n@tool", 1
    )
    texts = [text.shown for text in list_texts(write("talk_parts.py", source))]
    assert any(shown.startswith("Be nice.") for shown in texts) is is_evolved


def test_an_address_is_not_evolved(server: WireServer) -> None:
    address = "https://bakery.example/menu"
    target = write("talk_address.py", APP.replace('system_prompt="Be nice."', f'system_prompt="{address}"'))
    assert address not in {text.shown for text in list_texts(target)}
    page = format_inventory(read_program(target)).splitlines()
    assert [line.rpartition("  ")[2] for line in page if address in line] == ["not evolved: an address"]
