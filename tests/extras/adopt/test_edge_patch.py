"""Inserted agents in a patch: in every form of a builder, applied by git, and asked as the evolved graph asks."""

import ast
import asyncio
import importlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import ParrotFakeChatModel

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, Rewiring
from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.extras.adopt.edge_patch import _drop_element
from selfwire.extras.adopt.patch import make_patch
from selfwire.graphs.insertions import (
    BESIDE,
    INSERTED,
    TAKEN_OUT,
    Insertion,
    Removal,
    Specialist,
    build_variant,
    list_graph_edits,
)
from selfwire.graphs.own_graph import load_graph
from selfwire.models.text_layer import TextLayer

HEAD = """from typing import Annotated, Literal, TypedDict

from langchain_core.language_models.fake_chat_models import ParrotFakeChatModel
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel

model = ParrotFakeChatModel()
"""
STATE = """

class Desk(TypedDict):
    question: str
    notes: str
    answer: str


def read(state: Desk) -> dict:
    return {"notes": model.invoke("Read: " + state["question"]).text}


def decide(state: Desk) -> dict:
    return {"answer": model.invoke("Decide: " + state["notes"]).text}

"""
NODES = "\nbuilder = StateGraph(Desk)\nbuilder.add_node(read)\nbuilder.add_node(decide)\n"
ENDS = 'builder.add_edge(START, "read")\nbuilder.add_edge("read", "decide")\nbuilder.add_edge("decide", END)\n'
MADE = "graph = builder.compile()\n"
BUILDERS = {
    "calls": NODES + ENDS.replace('"decide")\n', '"decide")  # on\n') + MADE,
    "entries": f"""{NODES}
builder.set_entry_point("read")
builder.add_edge(start_key="read", end_key="decide")
builder.set_finish_point("decide")
{MADE}""",
    "chained": """
graph = (
    StateGraph(Desk)
    .add_node(read)
    .add_node(decide)
    .add_edge(START, "read")
    .add_edge("read", "decide")
    .add_edge("decide", END)
    .compile()
)
""",
    "lined": """
begun = StateGraph(Desk).add_node(read).add_node(decide).add_edge(START, "read").add_edge("read", "decide")
builder = begun.add_edge("decide", END)
graph = builder.compile()
""",
    "bracketed": """
builder = StateGraph(Desk).add_sequence([(read), (decide)])
builder.add_edge(START, "read")
builder.add_edge("decide", END)
graph = builder.compile()
""",
    "sequence": """
builder = StateGraph(Desk).add_sequence([read, decide])
builder.add_edge(START, "read")
builder.add_edge("decide", END)
graph = builder.compile()
""",
    "constants": f"""
READ, DECIDE = "read", "decide"
{NODES}builder.add_edge(START, READ).add_edge(READ, DECIDE)
builder.add_edge(DECIDE, END)
{MADE}""",
    "made": """

def make():
    made = StateGraph(Desk)
    made.add_node(read)
    made.add_node(decide)
    made.add_edge(START, "read")
    made.add_edge("read", "decide")
    made.add_edge("decide", END)
    return made.compile()


graph = make()
""",
    "named": f"""
builder = StateGraph(Desk)
node, edge = builder.add_node, builder.add_edge
node(read)
node(decide)
edge(START, "read")
edge("read", "decide")
edge("decide", END)
{MADE}""",
    "named_once": f"""{NODES}
edge = builder.add_edge
edge(START, "read").add_edge("read", "decide")
builder.add_edge("decide", END)
{MADE}""",
    "made_by_name": """

def make():
    made = StateGraph(Desk)
    edge = made.add_edge
    made.add_node(read)
    made.add_node(decide)
    edge(START, "read")
    edge("read", "decide")
    made.add_edge("decide", END)
    return made.compile()


graph = make()
""",
}
PROMPT = 'You check "it".\nKeep \\ and {braces}.'
Edit = Insertion | Removal | Specialist
CHECK = Insertion(agent="date-checker", after="decide", before=("__end__",), field="answer", question="question")
NOTES = Insertion(agent="note-checker", after="read", before=("decide",), field="notes")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def make_team(*edits: Edit) -> Team:
    beside = [edit for edit in edits if isinstance(edit, Specialist)]
    insertions = [edit for edit in edits if isinstance(edit, Insertion)]
    removals = [edit.model_dump(mode="json") for edit in edits if isinstance(edit, Removal)]
    team = Team(method="x", agents=(Agent(id="graph", prompt="x"),), topology=make_chain("graph"))
    for agent in [*(found.agent for found in insertions), *(found.agent for found in beside)]:
        team = team.apply(Rewiring(AddAgent(Agent(id=agent, prompt=f"{PROMPT} {agent}")), why="a check"))
    return team.with_memory(
        **{
            INSERTED: [found.model_dump(mode="json") for found in insertions],
            BESIDE: [found.model_dump(mode="json") for found in beside],
            TAKEN_OUT: removals,
        }
    )


def run_variant(target: str, given: Any, *edits: Edit) -> Any:
    graph = build_variant(target, load_graph(target), make_team(*edits))
    with TextLayer((), None, ParrotFakeChatModel).active():
        return graph.invoke(given)


def write_patch(target: str, *edits: Edit) -> str:
    team = make_team(*edits)
    names = {edit.node if isinstance(edit, Removal) else edit.agent: "because" for edit in edits}
    return make_patch(target, {}, names, list_graph_edits(team))


def check(source: str, name: str, *edits: Edit, given: Any = None, **files: str) -> str:
    """Compare the evolved graph with the patched program, which the model lets repeat its requests."""
    for file, text in {**files, name: source}.items():
        Path(f"{file}.py").write_text(text, encoding="utf-8")
    given = given or {"question": "When?"}
    evolved = run_variant(f"{name}.py:graph", given, *edits)
    Path("new.patch").write_text(write_patch(f"{name}.py:graph", *edits), encoding="utf-8")
    subprocess.run(["git", "apply", "new.patch"], check=True, capture_output=True)
    for file in files:
        sys.modules.pop(file, None)
    written = Path(f"{name}.py").read_text(encoding="utf-8")
    Path(f"{name}_patched.py").write_text(written, encoding="utf-8")  # a name that this process has not imported
    importlib.invalidate_caches()
    patched = load_graph(f"{name}_patched.py:graph").invoke(given)
    kept: dict[str, Any] = {"id": None, "additional_kwargs": {}, "response_metadata": {}}
    shown = [
        {**state, "messages": [m.model_copy(update=kept) for m in state.get("messages", ())]}
        for state in (evolved, patched)
    ]
    assert shown[0] == shown[1]
    subprocess.run([sys.executable, "-m", "ruff", "check", "--isolated", "--ignore", "F401", "."], check=True)
    return written


@pytest.mark.parametrize("name", BUILDERS)
def test_edges_are_split_in_every_form(name: str) -> None:
    again = Insertion(agent="date-reader", after="date-checker", before=("__end__",), field="answer")
    start = Insertion(agent="asker", after="__start__", before=("read",), field="question")
    source = check(f"{HEAD}{STATE}{BUILDERS[name]}", name, CHECK, NOTES, again, start)
    assert "def date_checker(state: Desk) -> dict:" in source
    assert source.count("DATE_CHECKER") == 2


ROUTED = """

class Desk(TypedDict):
    question: str
    notes: str
    answer: str


def read(state: Desk) -> dict:
    return {"notes": model.invoke("Read: " + state["question"]).text}


def decide(state: Desk) -> dict:
    return {"answer": model.invoke("Decide: " + state["notes"]).text}


def route(state: Desk) -> Literal["decide", "__end__"]:
    return "decide" if "?" in state["question"] else "__end__"


def is_open(state: Desk):
    return "?" in state["question"]


def name_next(state):
    return route(state)


builder = StateGraph(Desk)
builder.add_node(read)
builder.add_node(decide)
builder.add_edge(START, "read")
builder.add_edge("decide", END)
"""
CONDITIONAL = {
    "literal": 'builder.add_conditional_edges("read", route)  # on\n' + MADE,
    "named": 'builder.add_conditional_edges(source="read", path=route)\n' + MADE,
    "wrapped": 'builder.add_conditional_edges(\n    "read",\n    route,\n)\n' + MADE,
    "bracketed": 'builder.add_conditional_edges("read", (\n    route  # )\n))\n' + MADE,
    "keyword_in_brackets": 'builder.add_conditional_edges("read", path=(route))\n' + MADE,
    "listed": 'builder.add_conditional_edges("read", name_next, ["decide", END])\n' + MADE,
    "mapped": 'builder.add_conditional_edges("read", is_open, {True: "decide", False: END})\n' + MADE,
    "keyword": 'builder.add_conditional_edges("read", is_open, path_map={True: "decide", False: END})\n' + MADE,
    "chained": 'graph = builder.add_conditional_edges("read", route, ["decide", END]).compile()\n',
    "alias": 'branch = builder.add_conditional_edges\nbranch("read", route)\n' + MADE,
    "folded": (
        'graph = (\n    builder\n    .add_conditional_edges("read", is_open, {True: "decide", False: END})\n'
        "    .compile()\n)\n"
    ),
}
AHEAD = Insertion(
    agent="note-checker", after="read", before=("decide",), field="notes", question="question", is_conditional=True
)
ASIDE = Insertion(agent="closer", after="read", before=("__end__",), field="notes", is_conditional=True)
BEHIND = Insertion(agent="note-reader", after="note-checker", before=("decide",), field="notes")


@pytest.mark.parametrize("name", CONDITIONAL)
@pytest.mark.parametrize("edits", [(AHEAD,), (ASIDE,), (AHEAD, ASIDE, BEHIND, CHECK)], ids=["ahead", "aside", "all"])
@pytest.mark.parametrize("question", ["When?", "Thanks."])
def test_the_ends_of_a_router_lead_to_new_nodes_in_every_form(
    name: str, edits: tuple[Insertion, ...], question: str
) -> None:
    source = check(f"{HEAD}{ROUTED}{CONDITIONAL[name]}", f"{name}_routed", *edits, given={"question": question})
    assert ('"note_checker"' in source) is (AHEAD in edits)
    assert source.count('add_node("closer", closer)') == (ASIDE in edits)
    assert source.count("add_conditional_edges") == 1


@pytest.mark.parametrize(
    ("ends", "router", "path_map"),
    [
        ('{True: "decide", False: END}', "is_open", "ENDS"),
        ('["decide"]', "route", "[*ENDS, END]"),
        ("{False: END}", "is_open", '{True: "decide", **ENDS}'),
        ('["decide", END]', "is_open", '{True: "decide", False: ENDS[len(ENDS) - 1], None: END}'),
    ],
    ids=["name", "stars", "two stars", "several"],
)
def test_a_router_by_a_mapping_that_a_patch_cannot_change_is_named_with_what_to_do(
    ends: str, router: str, path_map: str
) -> None:
    mapped = f'ENDS = {ends}\nbuilder.add_conditional_edges("read", {router}, {path_map})\n{MADE}'
    Path("kept.py").write_text(f"{HEAD}{ROUTED}{mapped}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"kept.py:\d+ has the conditional edge of read in a form") as refusal:
        write_patch("kept.py:graph", ASIDE)
    told = str(refusal.value)
    assert 'have its path_map lead to "closer" in place of END' in told
    assert told.endswith('builder.add_node("closer", closer)\nbuilder.add_edge("closer", END)')


def test_a_loop_of_tools_gets_an_agent_before_its_end() -> None:
    body = """from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def find(words: str) -> str:
    \\"\\"\\"Find a rule.\\"\\"\\"
    return "Rule 1."


def agent(state: MessagesState) -> dict:
    if len(state["messages"]) > 1:
        return {"messages": [model.invoke(state["messages"])]}
    call = {"name": "find", "args": {"words": "x"}, "id": "1"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


builder = StateGraph(MessagesState)
builder.add_node(agent)
builder.add_node("tools", ToolNode([find]))
builder.add_edge(START, "agent")
builder.add_conditional_edges("agent", tools_condition)
builder.add_edge("tools", "agent")
graph = builder.compile()
""".replace("\\", "")
    found = Insertion(agent="closer", after="agent", before=("__end__",), field="messages", is_conditional=True)
    source = check(f"{HEAD}{body}", "loop_of_tools", found, given={"messages": [("user", "When?")]})
    assert 'add_conditional_edges("agent", tools_condition, {"tools": "tools", END: "closer"})' in source


FIRST = Removal(node="read", after=("__start__",), before="decide", agents=("gone",))
LAST = Removal(node="decide", after=("read",), before="__end__", agents=("gone",))
ASKER = Insertion(agent="asker", after="__start__", before=("read",), field="question")
READER = Insertion(agent="reader", after="read", before=("decide",), field="notes")


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("edits", [(FIRST,), (LAST,), (FIRST, ASKER), (LAST, READER)], ids=["a", "b", "c", "d"])
def test_a_node_is_taken_out_in_every_form(name: str, edits: tuple[Insertion | Removal, ...]) -> None:
    given = {"question": "When?", "notes": "Soon."}
    source = check(f"{HEAD}{STATE}{BUILDERS[name]}", f"{name}_less", *edits, given=given)
    below = source[source.rindex("StateGraph(Desk)") :]
    gone, stays = ("read", "decide") if edits[0] is FIRST else ("decide", "read")
    assert f"({gone})" not in below
    assert f'"{gone}"' not in below
    assert stays in below.lower()


def test_two_nodes_in_a_row_are_taken_out() -> None:
    nodes = """

def polish(state: Desk) -> dict:
    return {"answer": model.invoke("Polish: " + state["answer"]).text}

"""
    edges = 'builder.add_node("polish", polish).add_edge("decide", "polish")\nbuilder.set_finish_point("polish")\n'
    middle = LAST.replace(before="polish")
    last = Removal(node="polish", after=("decide",), before="__end__", agents=("gone",))
    built = NODES + ENDS.replace('builder.add_edge("decide", END)\n', edges) + MADE
    source = check(f"{HEAD}{STATE}{nodes}{built}", "shorter", middle, last)
    assert source.endswith('builder.add_edge(START, "read")\nbuilder.add_edge("read", END)\n' + MADE)


POLISH = """

def polish(state: Desk) -> dict:
    return {"answer": model.invoke("Polish: " + state["answer"]).text}


builder = StateGraph(Desk).add_node(read).add_node(decide).add_node(polish)
builder.add_conditional_edges(START, lambda state: state["question"], ["read", "decide"])
"""
BOTH = Removal(node="polish", after=("decide", "read"), before="__end__", agents=("gone",))


@pytest.mark.parametrize("way", ["read", "decide"])
@pytest.mark.parametrize("edits", [(), (READER.replace(before=("polish",), field="answer"),)], ids=["alone", "grown"])
def test_each_edge_to_a_node_that_is_taken_out_is_led_past_it(way: str, edits: tuple[Insertion, ...]) -> None:
    edges = 'builder.add_edge("read", "polish").add_edge("decide", "polish")\nbuilder.set_finish_point("polish")\n'
    given = {"question": way, "notes": "Soon.", "answer": "Now."}
    source = check(f"{HEAD}{STATE}{POLISH}{edges}{MADE}", f"both_{way}", BOTH, *edits, given=given)
    assert source.count("polish") == 1  # its function
    assert source.count("END)") == 2


def test_several_edges_to_a_node_of_a_sequence_are_not_written_but_named() -> None:
    edges = 'builder.add_edge("read", "polish").add_sequence([decide, polish])\n'
    source = f"{HEAD}{STATE}{POLISH.replace('.add_node(decide).add_node(polish)', '')}{edges}{MADE}"
    Path("listed.py").write_text(source, encoding="utf-8")
    puts = r'put builder.add_edge\("decide", END\) and builder.add_edge\("read", END\) there'
    with pytest.raises(ConfigError, match=puts):
        write_patch("listed.py:graph", BOTH)


def test_a_node_of_a_loop_is_not_taken_out_but_named_with_what_to_do() -> None:
    loop = 'for pair in [("read", "decide"), ("decide", END)]:\n    builder.add_edge(*pair)\n'
    source = f'{HEAD}{STATE}{NODES}builder.add_edge(START, "read")\n{loop}{MADE}'
    Path("looped.py").write_text(source, encoding="utf-8")
    with pytest.raises(ConfigError, match=r'looped.py:\d+ has the node .*put builder.add_edge\("read", END\) there'):
        write_patch("looped.py:graph", LAST)


EXPERT = Specialist(
    agent="date-expert",
    beside="decide",
    after="read",
    field="answer",
    reads=("question", "notes"),
    question="question",
    merge="date-checker",
)


@pytest.mark.parametrize("name", sorted(BUILDERS.keys() - {"sequence", "bracketed"}))
@pytest.mark.parametrize("edits", [(), (READER,), (FIRST,)], ids=["a", "b", "c"])
def test_an_agent_beside_a_node_gets_a_field_of_its_own_in_every_form(name: str, edits: tuple[Edit, ...]) -> None:
    given = {"question": "When?", "notes": "Soon."}
    source = check(f"{HEAD}{STATE}{BUILDERS[name]}", f"{name}_more", CHECK, EXPERT, *edits, given=given)
    assert "class DateCheckerState(Desk):\n    date_expert_text: str\n" in source
    assert "def date_checker(state: DateCheckerState) -> dict:" in source
    assert 'edge("date_expert", "date_checker")' in source
    before = "START" if FIRST in edits else '"reader"' if edits else '"read"'
    assert f'edge({before}, "date_expert")' in source


def test_an_agent_beside_a_node_of_messages_reads_them() -> None:
    body = """

def talk(state: MessagesState) -> dict:
    return {"messages": [("ai", model.invoke(state["messages"]).text)]}


builder = StateGraph(MessagesState).add_node(talk)
builder.add_edge(START, "talk")
builder.add_edge("talk", END)
graph = builder.compile()
"""
    merge = Insertion(agent="joiner", after="talk", before=("__end__",), field="messages")
    found = Specialist(
        agent="expert", beside="talk", after="__start__", field="messages", reads=("messages",), merge="joiner"
    )
    source = check(f"{HEAD}{body}", "talking_more", merge, found, given={"messages": [("user", "When?")]})
    assert "class JoinerState(MessagesState):\n    expert_text: str\n" in source
    said = load_graph("talking_more_patched.py:graph").invoke({"messages": [("user", "When?")]})["messages"]
    assert len(said) == 2
    assert said[1].text.startswith('<more>\nYou check "it".')


def test_an_agent_beside_a_node_of_a_sequence_is_written_with_what_to_do() -> None:
    Path("listed.py").write_text(f"{HEAD}{STATE}{BUILDERS['sequence']}", encoding="utf-8")
    found = EXPERT.replace(beside="read", after="__start__", field="notes", reads=("question",), merge="note-checker")
    with pytest.raises(ConfigError, match=r"listed.py:\d+ has the edge read -> decide in a form") as refusal:
        write_patch("listed.py:graph", NOTES, found)
    told = str(refusal.value)
    for line in (
        'return {"date_expert_text": model.invoke("\\n".join(asked)).text}',
        "class NoteCheckerState(Desk):",
        'builder.add_edge(START, "date_expert")',
        'builder.add_edge("date_expert", "note_checker")',
    ):
        assert line in told


def test_the_order_of_agents_behind_a_node_is_that_of_the_evolved_graph() -> None:
    first = Insertion(agent="first", after="decide", before=("date-checker",), field="answer")
    source = check(f"{HEAD}{STATE}{NODES}{ENDS}{MADE}", "ordered", CHECK, first)
    assert 'builder.add_edge("decide", "first")\nbuilder.add_edge("first", "date_checker")' in source


def test_a_node_inside_a_function_is_written_beside_it_with_its_model() -> None:
    body = """

def build(llm):
    async def decide(state: Desk):
        return {"answer": (await llm.with_config(tags=["a"]).ainvoke("Decide: " + state["question"])).text}

    made = StateGraph(Desk)
    made.add_node("decide", decide)
    made.add_edge(START, "decide")
    made.add_edge("decide", END)
    return made.compile()


graph = build(model)
"""
    inner = CHECK.replace(question="")
    Path("inner.py").write_text(f"{HEAD}{STATE}{body}", encoding="utf-8")
    patch = write_patch("inner.py:graph", inner)
    assert '+DATE_CHECKER = """You check "it".' in patch
    assert "+    async def date_checker(state: Desk) -> dict:" in patch
    assert '+        reply = await llm.ainvoke("\\n".join(asked))' in patch
    Path("new.patch").write_text(patch, encoding="utf-8")
    subprocess.run(["git", "apply", "new.patch"], check=True, capture_output=True)
    graph = load_graph("inner.py:graph")
    assert asyncio.run(graph.ainvoke({"question": "When?"}))["answer"].startswith("<text>\nDecide: When?")


def test_nodes_of_another_file_are_written_there_and_imported() -> None:
    head = "from langgraph.graph import END, START, StateGraph\n\nfrom desk_nodes import Desk, decide, read\n"
    source = check(f"{head}{NODES}{ENDS}{MADE}", "apart", CHECK, desk_nodes=f"{HEAD}{STATE}")
    assert "import Desk, date_checker, decide, read" in source
    assert "def date_checker(state: Desk) -> dict:" in Path("desk_nodes.py").read_text(encoding="utf-8")


def test_a_node_that_a_function_makes_or_that_gets_a_part_of_the_state_is_no_form() -> None:
    body = """

class Part(TypedDict):
    question: str


def ask(state: Part) -> dict:
    return {"notes": model.invoke("Ask: " + state["question"]).text}


def make_node(llm):
    def decide(state: Desk) -> dict:
        return {"answer": llm.invoke("Decide: " + state["notes"]).text}

    return decide


builder = StateGraph(Desk)
builder.add_node("ask", ask)
builder.add_node("decide", make_node(model))
builder.add_edge(START, "ask")
builder.add_edge("ask", "decide")
builder.add_edge("decide", END)
graph = builder.compile()
"""
    desk = STATE.partition("\n\ndef read")[0]
    source = check(f"{HEAD}{desk}{body}", "makers", CHECK, NOTES.replace(after="ask"))
    assert "\ndef date_checker(state) -> dict:" in source
    assert source.index("return decide") < source.index("StateGraph(Desk)")


def test_fields_of_a_typed_state_are_attributes() -> None:
    body = """

class Typed(BaseModel):
    question: str
    answer: str = ""


def decide(state: Typed) -> dict:
    return {"answer": model.invoke("Decide: " + state.question).text}


builder = StateGraph(Typed).add_node(decide).add_edge(START, "decide")
builder.add_edge("decide", END)
graph = builder.compile()
"""
    assert '"<text>", state.answer, "</text>"' in check(f"{HEAD}{body}", "typed", CHECK)


def test_a_node_with_a_positional_state_is_a_form_and_a_byte_order_mark_moves_nothing() -> None:
    nodes = STATE.replace("state: Desk)", "state: Desk, /)")
    head = f"\ufeff{HEAD}"
    source = check(f"{head}{nodes}{BUILDERS['calls']}", "positional", CHECK, NOTES)
    assert source.startswith("\ufefffrom typing")
    assert source.index("def note_checker(state: Desk)") < source.index("def decide(")


def test_an_answer_among_messages_is_replaced_where_nodes_are_objects() -> None:
    body = """

class Talker:
    def __init__(self, llm):
        self.llm = llm

    def __call__(self, state: MessagesState) -> dict:
        return {"messages": [("ai", self.llm.invoke(state["messages"]).text)]}


def make_graph():
    llm = ParrotFakeChatModel()
    tooled = llm.bind(stop=["x"])
    builder = StateGraph(MessagesState)
    builder.add_node("talk", Talker(tooled))
    builder.add_edge(START, "talk")
    builder.add_edge("talk", END)
    return builder.compile()


graph = make_graph()
"""
    found = Insertion(agent="import", after="talk", before=("__end__",), field="messages")
    given = {"messages": [("user", "When?")]}
    source = check(f"{HEAD}{body}", "talking", found, given=given)
    assert "    def agent_import(state: MessagesState) -> dict:\n        messages" in source
    assert 'llm.invoke([*messages, ("user", AGENT_IMPORT)])' in source
    said = load_graph("talking_patched.py:graph").invoke(given)["messages"]
    assert [message.text.partition("\n")[0] for message in said] == ["When?", 'You check "it".']


JOINED = "def join(made, source, end):\n    made.add_edge(source, end)\n\n\n"
JOINS = 'join(builder, START, "read")\njoin(builder, "read", "decide")\njoin(builder, "decide", END)\n'
LOOP = 'for source, end in [("read", "decide"), ("decide", END)]:\n    builder.add_edge(source, end)\n'


@pytest.mark.parametrize(
    ("edges", "told"),
    [
        (f'builder.add_edge(START, "read")\n{LOOP}', "refused.py:29 has the edge decide -> END in a form"),
        ('for pair in [(START, "read"), ("read", "decide"), ("decide", END)]:\n    builder.add_edge(*pair)\n', "form"),
        (f"{JOINED}{JOINS}", "refused.py:28 has the edge decide -> END in a form"),
        ('builder.add_edge(START, "read").add_edge("read", "decide")\n', "has no edge decide -> END any more; evolve"),
    ],
)
def test_an_edge_that_cannot_be_split_is_named_with_the_text_to_put_there(edges: str, told: str) -> None:
    Path("refused.py").write_text(f"{HEAD}{STATE}{NODES}{edges}{MADE}", encoding="utf-8")
    with pytest.raises(ConfigError, match=told) as refusal:
        write_patch("refused.py:graph", CHECK)
    if "form" in told:
        assert 'return {"answer": reply.text}' in str(refusal.value)
        assert 'builder.add_edge("decide", "date_checker")\nbuilder.add_edge("date_checker", END)' in str(refusal.value)


def test_a_program_of_long_sums_gets_a_patch_or_a_sentence() -> None:
    for name, terms in (("long", 1_500), ("longer", 5_000)):
        deep = " + ".join(f'"Text {number}."' for number in range(terms))
        asked = 'return {"answer": model.invoke("Decide: "'
        state = STATE.replace(asked, f'prompt = {deep}\n    return {{"answer": model.invoke(prompt')
        Path(f"{name}.py").write_text(f"{HEAD}{state}{BUILDERS['calls']}", encoding="utf-8")
    assert "+def date_checker(state: Desk) -> dict:" in write_patch("long.py:graph", CHECK)
    with pytest.raises(ConfigError, match=r"longer\.py:graph is nested too deeply to be read"):
        write_patch("longer.py:graph", CHECK)


@pytest.mark.parametrize(
    ("node", "left"),
    [
        ("a", "[\n    c,  # second\n    d,\n]"),
        ("c", "[\n    a,  # first\n    d,\n]"),
        ("d", "[\n    a,  # first\n    c,  # second\n]"),
    ],
)
def test_a_node_on_a_line_of_its_own_goes_with_its_comment(node: str, left: str) -> None:
    text = "b.add_sequence([\n    a,  # first\n    c,  # second\n    d,\n])"
    made: Any = ast.parse(text).body[0]
    call: Any = SimpleNamespace(node=made.value, at=SimpleNamespace(file=SimpleNamespace(text=text, path=Path("x.py"))))
    edit = _drop_element(call, node)
    assert edit is not None
    assert text[: edit.begin] + edit.text + text[edit.end :] == f"b.add_sequence({left})"
