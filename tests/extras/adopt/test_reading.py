"""Reading of a program by its name: errors with a way out, files of others, the work it takes."""

import ast
import json
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from selfwire.core.errors import ConfigError
from selfwire.core.text import mask_secrets
from selfwire.extras.adopt import prompt_files, reader, source
from selfwire.extras.adopt.names import SourceFile, Surroundings, Traced
from selfwire.extras.adopt.reader import read_program
from selfwire.extras.adopt.source import Program, open_program
from selfwire.extras.adopt.syntax import parse_expression

GRAPH = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

llm = ChatOpenAI(model="gpt-4o")


def chat(state):
    return {"messages": [llm.invoke([("system", PROMPT), *state["messages"]])]}


graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


Write = Callable[[str, str], Path]


def refuse(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_program(name)
    return str(caught.value)


def test_a_name_that_is_none_is_refused() -> None:
    assert refuse("my_app") == "'my_app' names no graph; write it as my_app.graph:graph or my_app/graph.py:graph"


@pytest.mark.parametrize("folder", ["OUTSIDE", "../outside"])
def test_folders_outside_the_program_are_not_searched(
    write: Write, tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = list[Path]()
    search = Path.glob

    def see(folder: Path, pattern: str) -> Iterator[Path]:
        searched.append(folder.resolve())
        return search(folder, pattern)

    write("outside/secret.md", "Do not read me.")
    write("app/prompts/a.md", "Answer briefly.")
    loads = "''.join(path.read_text() for path in Path({!r}).rglob('*.md'))"
    read = " + ".join(loads.format(name) for name in ("prompts", folder.replace("OUTSIDE", f"{tmp_path}/outside")))
    write("app/app.py", f"from pathlib import Path\nPROMPT = {read}\n{GRAPH}")
    monkeypatch.chdir(tmp_path / "app")
    monkeypatch.setattr(Path, "glob", see)
    read_program("app:graph")
    assert {*searched} == {tmp_path / "app" / "prompts"}


def test_a_missing_file_is_named_with_the_folder(write: Write, tmp_path: Path) -> None:
    assert refuse("my_app.graph:graph") == (
        f"there is no file of 'my_app.graph': my_app.graph is looked for as my_app/graph.py below {tmp_path}; go to "
        "the program's folder, or name the file as my_app/graph.py:graph"
    )
    assert refuse("my_app/graph.py:graph").startswith("there is no file of 'my_app/graph.py'")


def test_a_missing_attribute_is_named_with_those_that_are_graphs(write: Write) -> None:
    write("app.py", "PROMPT = 'Chat.'\n" + GRAPH)
    assert (
        refuse("app:app")
        == "app.py:1 has no 'app'; it has graph; name an attribute that holds a graph, as app.py:graph"
    )
    write("app.py", "def build(flag=False):\n    builder = StateGraph(dict)\n    return builder.compile()\n")
    assert (
        refuse("app:graph")
        == "app.py:1 has no 'graph'; it has build; name an attribute that holds a graph, as app.py:build"
    )


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "class Desk:\n    def build(self):\n        return StateGraph(dict).compile()\n",
            "methods of Desk make one; write graph = Desk(...).FIELD, or .METHOD(), in a file of the program, and name "
            "that graph",
        ),
        (
            "def build():\n    return create_agent('openai:m')\n",
            "it has build; name an attribute that holds a graph, as ",
        ),
        (
            "desk = StateGraph(dict).compile()\n\ndef note(state):\n    return create_agent('openai:m')\n",
            "it has note, desk; name an attribute that holds a graph, as app.py:desk",
        ),
        ("ROWS = 3\n", "no function and no class of it makes a graph; name the file of one that does"),
    ],
)
def test_a_missing_graph_is_refused_with_what_makes_one(write: Write, source: str, told: str) -> None:
    write("app.py", source)
    assert refuse("app.py:graph").startswith(f"app.py:1 has no 'graph'; {told}")


def test_a_notebook_is_refused_with_how_to_make_a_file_of_it(write: Write) -> None:
    write("app.ipynb", "{}")
    assert refuse("app.ipynb:graph") == (
        "app.ipynb is a notebook, which is not read: write its code to a file by jupyter nbconvert --to script "
        "app.ipynb, and name that"
    )


def test_an_attribute_that_is_no_graph_is_named_with_its_line(write: Write) -> None:
    write("app.py", "\nPROMPT = 'Chat.'\n" + GRAPH)
    assert refuse("app:PROMPT").startswith("app.py:2: 'PROMPT' is no graph; name a compiled graph")


def test_a_class_is_refused_with_how_to_name_the_graph_of_an_object(write: Write) -> None:
    write(
        "app.py",
        GRAPH.replace("PROMPT", "'Chat.'") + "\n\nclass Desk:\n    def __init__(self):\n        self.app = graph\n",
    )
    assert refuse("app:Desk") == (
        "app.py:15: 'Desk' is no graph; if its objects hold one, write graph = Desk(...).FIELD, or .METHOD(), in a "
        "file of the program, and name that graph"
    )


def test_a_syntax_error_is_named_with_file_and_line(write: Write) -> None:
    write("app.py", "from prompts import PROMPT\n" + GRAPH)
    write("prompts.py", "\n\nPROMPT = (\n")
    found = refuse("app:graph")
    assert found.startswith("prompts.py:3 is no valid Python 3.")
    assert found.endswith("mend that line, or run selfwire with the Python that the program needs")


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ("# -*- coding: rot13 -*-\n", "'rot13' is not a text encoding"),
        (f"number = {'-' * 20000}1\n", "it is nested too deeply"),
    ],
)
def test_code_that_python_cannot_parse_is_refused_in_a_sentence(write: Write, start: str, told: str) -> None:
    write("app.py", start + GRAPH)
    found = refuse("app:graph")
    assert found.startswith("app.py:1 is no valid Python 3.")
    assert told in found


LISTS = "l0: &l0 [You help.]\n" + "".join(f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}]\n" for n in range(1, 21)) + "ask: *l20\n"
MERGES = "m0: &m0 {a: You help.}\n" + "".join(f"m{n}: &m{n}\n  <<: [*m{n - 1}, *m{n - 1}]\n" for n in range(1, 20))


@pytest.mark.parametrize(
    ("aliases", "read"), [(LISTS, 0), (MERGES + "ask: *m19\n", 0), ("ask: &a {b: *a}\n", 0), ("ask: You help.\n", 1)]
)
def test_a_file_whose_aliases_multiply_is_passed_over(write: Write, aliases: str, read: int) -> None:
    write("prompts.yaml", aliases)
    write("app.py", "import yaml\n\nPROMPT = yaml.safe_load(open('prompts.yaml'))['ask']\n" + GRAPH)
    assert len(read_program("app:graph").texts) == read


@pytest.mark.parametrize("text", ["-" * 20000 + "1", "\x00", "(" * 20000, "1 +"])
def test_an_annotation_that_is_no_expression_is_none(text: str) -> None:
    assert parse_expression(text) is None


def test_a_missing_module_of_the_program_is_named_with_the_line_of_the_import(write: Write) -> None:
    write("app/__init__.py", "")
    write("app/graph.py", "\nfrom .prompts import PROMPT\n" + GRAPH)
    assert refuse("app.graph:graph") == (
        "app/graph.py:2 imports '.prompts', which has no file beside it; add the file, or correct the import"
    )


def test_a_missing_module_that_is_tried_is_none(write: Write) -> None:
    write("app/__init__.py", "")
    write("app/graph.py", "try:\n    from .own import PROMPT\nexcept ImportError:\n    PROMPT = 'Chat.'\n" + GRAPH)
    assert [text.pieces for text in read_program("app.graph:graph").texts] == [("Chat.",)]


def test_packages_of_others_are_not_read(write: Write) -> None:
    write("app.py", "from texts_of_others import PROMPT\n" + GRAPH)
    write("site-packages/texts_of_others.py", "PROMPT = 'Chat.'\n")
    found = read_program("app:graph")
    assert (found.files, found.texts) == (("app.py",), ())
    assert [(thing.line, thing.reason) for thing in found.opaque] == [(10, "a text comes from another package: PROMPT")]


def test_a_graph_of_another_package_is_opaque(write: Write) -> None:
    write("app.py", "from library import graph\n")
    [thing] = read_program("app:graph").opaque
    assert (thing.file, thing.line) == ("app.py", 1)
    assert thing.reason == "the source does not show the graph 'graph'; another package makes it"


def test_files_outside_the_program_are_not_read(write: Write, tmp_path: Path) -> None:
    write("other/secret.md", "Do not read this.")
    write("project/app.py", f"PROMPT = open({str(tmp_path / 'other/secret.md')!r}).read()\n" + GRAPH)
    write("project/pyproject.toml", "")
    found = read_program("project/app.py:graph")
    assert found.texts == ()
    assert found.opaque[0].reason.endswith("is not found from the source alone")


def test_names_that_form_a_circle_end(write: Write) -> None:
    write("app.py", "from other import PROMPT\n" + GRAPH)
    write("other.py", "from app import PROMPT as BACK\n\nPROMPT = PROMPT + BACK if BACK else 'Chat.'\n")
    assert [text.pieces for text in read_program("app:graph").texts] == [("Chat.",)]


def test_names_that_are_made_of_themselves_end(write: Write) -> None:
    again = """
PROMPT = "Chat."
PROMPT = PROMPT.strip() + PROMPT
llm = llm.bind_tools([])
graph = graph.with_config()
path = path / path
"""
    write("app.py", GRAPH + again)
    assert [text.pieces for text in read_program("app:graph").texts] == [("Chat.",)]


def test_code_that_is_nested_too_deeply_is_refused_in_a_sentence(write: Write) -> None:
    write("app.py", f"PROMPT = {' + '.join(['name'] * 3000)}\n" + GRAPH)
    assert refuse("app:graph").startswith("the code of app:graph is nested too deeply to be read")


def test_lists_that_grow_in_functions_that_call_each_other_twice_are_told_of_in_a_sentence(write: Write) -> None:
    helpers = ["def help0(text, parts):\n    return text + ''.join(parts)\n"]
    for number in range(1, 40):
        helpers.append(
            f"def help{number}(text, parts):\n"
            "    for part in parts:\n"
            "        text = text + part\n"
            "        parts = parts + [text]\n"
            f"    if len(text) > {number}:\n"
            f"        return help{number - 1}(text, parts)\n"
            f"    return help{max(0, number - 2)}(text, [*parts, 'part {number}'])\n"
        )
    write("app.py", "\n".join(helpers) + "\nPROMPT = help39('You help.', ['first'])\n" + GRAPH)
    inventory = read_program("app:graph")
    assert [node.name for node in inventory.nodes] == ["chat"]
    assert "may be more than can be followed" in inventory.opaque[0].reason


def set_patience(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    for name in ("PATIENCE", "LEAST_PATIENCE"):
        monkeypatch.setattr(source, name, steps)


def test_a_graph_that_is_followed_no_further_is_not_told_as_that_of_another_package(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_patience(monkeypatch, 3)
    write("app.py", GRAPH)
    [opaque] = read_program("app:graph").opaque
    assert opaque.reason == "the graph 'graph' may be more than can be followed"


def test_files_in_a_folder_are_read_once_however_often_they_are_asked_for(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        write(f"layouts/{number}.json", json.dumps({"id": f"layout {number}", "hint": f"Hint number {number}."}))
    loading = """
LAYOUTS = {}
for path in Path(__file__).parent.joinpath("layouts").glob("*.json"):
    layout = json.loads(path.read_text())
    LAYOUTS[layout["id"]] = layout["hint"]


def pick(name):
    for other in LAYOUTS:
        if other != name:
            name = LAYOUTS.get(other, name)
    return LAYOUTS.get(name, name)
"""
    write("app.py", "import json\nfrom pathlib import Path\n" + loading + "PROMPT = pick('layout 1')\n" + GRAPH)
    asked = Counter[Path]()
    read_text = prompt_files.read_text_file

    def count(path: Path) -> str | None:
        asked[path] += 1
        return read_text(path)

    monkeypatch.setattr(prompt_files, "read_text_file", count)
    read_program("app:graph")
    assert len(asked) == 12
    assert max(asked.values()) <= 2  # as a whole, and below the keys that are asked for


@pytest.mark.parametrize(
    ("start", "is_opaque"),
    [
        ("threading.Thread(target=llm.invoke, args=('Chat.',)).start()", True),
        ("threading.Thread(target=ask).start()", True),
        ("threading.Thread(target=print, args=('Chat.',)).start()", False),
        ("ThreadPoolExecutor().submit(ask)", False),
    ],
)
def test_a_thread_that_asks_a_model_is_opaque(write: Write, start: str, is_opaque: bool) -> None:
    node = f"def ask():\n    llm.invoke(PROMPT)\n\n\ndef work(state):\n    {start}\n"
    head = "import threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
    write(
        "app.py",
        head
        + "PROMPT = 'Chat.'\n"
        + GRAPH.replace("def chat(", f"{node}\n\ndef chat(").replace("return", "work(state)\n    return"),
    )
    found = [(thing.reason, thing.way_out) for thing in read_program("app:graph").opaque]
    said = "a thread of its own asks a model, where no other text can be put in its place"
    way_out = "use a ThreadPoolExecutor, or target=contextvars.copy_context().run with the function in args"
    assert found == [(said, way_out)] * is_opaque


@pytest.mark.parametrize("name", ["p.yaml", "p.json"])
def test_a_file_with_an_impossible_date_is_read_as_none(write: Write, name: str) -> None:
    write(name, "{since: 2024-02-30, texts: [{name: ask, text: Chat.}]}")
    loaded = f"import yaml\nDATA = yaml.safe_load(open('{name}'))\n"
    write("app.py", loaded + "PROMPT = [part['text'] for part in DATA['texts'] if part['name'] == 'ask'][0]\n" + GRAPH)
    assert [node.name for node in read_program("app:graph").nodes] == ["chat"]


@pytest.mark.parametrize(
    "call",
    [
        "re.sub(r'<.*>', 'Say it plainly.', CHAT)",
        "re.sub(r'<.*>', 'Say it plainly.', string=CHAT)",
        "re.sub(r'<.*>', 'Say it plainly.', CHAT, 1)",
        "re.sub(pattern=r'<.*>', repl='Say it plainly.', string=CHAT)",
        "sub(r'<.*>', 'Say it plainly.', string=CHAT)",
        "TAGS.sub('Say it plainly.', CHAT)",
        "TAGS.sub('Say it plainly.', CHAT, 1)",
        "TAGS.sub('Say it plainly.', string=CHAT, count=1)",
        "re.compile(r'<.*>').sub('Say it plainly.', CHAT, 1)",
    ],
)
def test_the_text_of_a_substitution_is_followed(write: Write, call: str) -> None:
    head = "import re\nfrom re import sub\nTAGS = re.compile(r'<.*>')\nCHAT = 'Chat <b>kindly.'\n"
    write("app.py", f"{head}PROMPT = {call}\n{GRAPH}")
    assert [text.pieces for text in read_program("app:graph").texts] == [("Chat <b>kindly.",)]


@pytest.mark.parametrize(
    "call",
    [
        "re.sub(r'---.*---', '', TEXT)",
        "re.sub(r'---.*---', '', string=TEXT)",
        "HEAD.sub('', TEXT, 1)",
        "HEAD.sub('', string=TEXT)",
        "TEXT[4:].partition('---\n')[2]",
    ],
)
def test_the_text_behind_front_matter_is_followed_through_a_substitution(write: Write, call: str) -> None:
    write("p.md", "---\nname: p\n---\nChat.\n")
    call = call.replace("\n", "\\n")
    head = "import re\nfrom pathlib import Path\nHEAD = re.compile(r'---.*---')\nTEXT = Path('p.md').read_text()\n"
    write("app.py", f"{head}PROMPT = {call}\n{GRAPH}")
    assert [(text.file, text.pieces) for text in read_program("app:graph").texts] == [("p.md", ("Chat.\n",))]


TWO_NODES = """
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

llm = ChatOpenAI(model="gpt-4o")
{}


def plan(state):
    return {{"messages": [llm.invoke([("system", {}), *state["messages"]])]}}


def solve(state):
    return {{"messages": [llm.invoke([("system", {}), *state["messages"]])]}}


builder = StateGraph(MessagesState)
builder.add_sequence([plan, solve])
graph = builder.add_edge(START, "plan").compile()
"""
REGISTERED = """
class Step:
    texts: dict[str, str] = {}
    name = ""

    def __init_subclass__(cls, *, key="", **more):
        super().__init_subclass__(**more)
        FILLED


class Plan(Step, key="plan"):
    name = "plan"
    text = "Plan it."


class Solve(Step, key="solve"):
    name = "solve"
    text = "Solve it."
"""
OTHERS = """
class Texts:
    of: dict[str, str] = {}

    @classmethod
    def add(cls, key):
        def register(made):
            cls.of[key] = made.text
            return made

        return register


@Texts.add("plan")
class Plan:
    text = "Plan it."


@Texts.add("solve")
class Solve:
    text = "Solve it."
"""
REGISTERING = """
class Texts:
    _only = None

    def __init__(self):
        self._texts = {}

    @classmethod
    def only(cls):
        if cls._only is None:
            cls._only = cls()
        return cls._only

    def register(self, name, text, version=1):
        self._texts[(name, version)] = text

    def get(self, name, version=1):
        return self._texts[(name, version)]


TEXTS = Texts.only()
TEXTS.register("plan", "Plan it.")
TEXTS.register("solve", "Solve it.")
TEXTS.register("solve", "Solve it anew.", version=2)
"""
FILLING = """
TEXTS = {}


def register(name, text):
    TEXTS[name] = text


register("plan", "Plan it.")
register("solve", "Solve it.")
"""
ADDED_ITEMS = """
from collections import defaultdict

TEXTS = defaultdict(list)
TEXTS["plan"].append("Plan it.")
TEXTS["solve"] += ["Solve it."]
"""
AUTO = """
from enum import StrEnum, auto


class Step(StrEnum):
    PLAN = auto()
    SOLVE = auto()


TEXTS = {Step.PLAN: "Plan it.", Step.SOLVE: "Solve it."}
"""
PARSED = """
from pydantic import BaseModel


class Part(BaseModel):
    ask: str


class Parts(BaseModel):
    steps: dict[str, Part]


TEXTS = Parts(**{"steps": {"plan": {"ask": "Plan it."}, "solve": {"ask": "Solve it."}}})
"""
BY_CLASS = """
class Step:
    @property
    def text(self):
        return TEXTS[CLASS.__name__.lower()]


class Plan(Step):
    pass


class Solve(Step):
    pass


TEXTS = {"plan": "Plan it.", "solve": "Solve it."}
STEPS = {"plan": Plan(), "solve": Solve()}
"""
GENERIC = """
from typing import Generic, TypeVar

T = TypeVar("T")


class Book(Generic[T]):
    def __init__(self, texts):
        self.texts = texts

    def __getitem__(self, key):
        return self.texts[key]


TEXTS = Book[str]({"plan": "Plan it.", "solve": "Solve it."})
"""
MIXED = """
class Base:
    def ask(self):
        return "No."


class Own:
    def ask(self):
        return self.text


class Mixin:
    def ask(self):
        return super().ask()


class Plan(Mixin, Own, Base):
    text = "Plan it."


class Solve(Mixin, Own, Base):
    text = "Solve it."


TEXTS = {"plan": Plan(), "solve": Solve()}
"""
ENTERED = """
class Step:
    known = {}

    def __init__(self, key, text):
        self.text = text
        Step.known[key] = self


Step("plan", "Plan it.")
Step("solve", "Solve it.")
"""
YIELDED = """
def ask(kind):
    reply = yield {"plan": "Plan it.", "solve": "Solve it."}[kind]
    return {"reply": reply, "kind": "No."}
"""
SPACE = "from types import SimpleNamespace\n\nTEXTS = SimpleNamespace(**{'plan': 'Plan it.', 'solve': 'Solve it.'})"
UNPACKED = "plan_text, solve_text = [text.strip() for text in ('Plan it.', 'Solve it.')]"
NUMBERED = "TEXTS = dict(enumerate(['Plan it.', 'Solve it.'], start=1))"
PAIRS = "TEXTS = dict([('plan', 'Plan it.'), ('solve', 'Solve it.')])"
MADE = "TEXTS = dict((key, text) for key, text in [('plan', 'Plan it.'), ('solve', 'Solve it.')])"


@pytest.mark.parametrize(
    ("constants", "item"),
    [
        (REGISTERED.replace("FILLED", "TEXTS[cls.name] = cls.text") + "TEXTS = {}\n", "TEXTS['{}']"),
        (REGISTERED.replace("FILLED", "Step.texts[key] = cls.text"), "Step.texts['{}']"),
        (REGISTERED.replace("FILLED", "cls.texts[key or cls.name] = cls.text"), "Step.texts['{}']"),
        (REGISTERED.replace("FILLED", "Step.texts[key] = cls"), "Step.texts['{}']().text"),
        (REGISTERED.replace("FILLED", "pass"), "{{made.name: made.text for made in Step.__subclasses__()}}['{}']"),
        (OTHERS, "Texts.of['{}']"),
        (REGISTERING, "TEXTS.get('{}')"),
        (FILLING, "TEXTS['{}']"),
        (ADDED_ITEMS, "'\\n'.join(TEXTS['{}'])"),
        (AUTO, "TEXTS[Step('{}')]"),
        (PARSED, "TEXTS.steps['{}'].ask"),
        (PAIRS, "TEXTS['{}']"),
        (MADE, "TEXTS['{}']"),
        (BY_CLASS.replace("CLASS", "type(self)"), "STEPS['{}'].text"),
        (BY_CLASS.replace("CLASS", "self.__class__"), "STEPS['{}'].text"),
        (GENERIC, "TEXTS['{}']"),
        (MIXED, "TEXTS['{}'].ask()"),
        (ENTERED, "Step.known['{}'].text"),
        (YIELDED, "next(ask('{}'))"),
        (SPACE, "TEXTS.{}"),
        (UNPACKED, "{}_text"),
    ],
)
def test_an_item_of_what_a_registry_or_a_list_of_pairs_has_is_followed(write: Write, constants: str, item: str) -> None:
    write("app.py", TWO_NODES.format(constants, item.format("plan"), item.format("solve")))
    used = {text.pieces: text.used_by for text in read_program("app:graph").texts}
    assert used == {("Plan it.",): ("node plan",), ("Solve it.",): ("node solve",)}


def test_the_number_of_an_enumerated_text_is_its_key(write: Write) -> None:
    write("app.py", TWO_NODES.format(NUMBERED, "TEXTS[1]", "TEXTS[2]"))
    used = {text.pieces: text.used_by for text in read_program("app:graph").texts}
    assert used == {("Plan it.",): ("node plan",), ("Solve it.",): ("node solve",)}


def test_a_long_table_is_opaque(write: Write) -> None:
    write("rows.csv", "ask\n" + "Plan it.\n" * 65)
    write("app.py", "import csv\nPROMPT = [row['ask'] for row in csv.DictReader(open('rows.csv'))]\n" + GRAPH)
    found = read_program("app:graph")
    assert not found.texts
    assert [thing.reason for thing in found.opaque] == ["a text is cut out of rows.csv by code"]


def test_a_value_of_a_store_is_followed_by_its_namespace_and_key(write: Write) -> None:
    head = "from langgraph.store.memory import InMemoryStore\nstore = InMemoryStore()\n"
    put = "store.put(('house',), 'rules', {'text': 'Chat kindly.'})\n"
    write("app.py", head + put + GRAPH.replace("PROMPT", "store.get(('house',), 'rules').value['text']"))
    assert [(text.pieces, text.used_by) for text in read_program("app:graph").texts] == [
        (("Chat kindly.",), ("node chat",))
    ]


SUMS = """
from langchain_core.prompts import ChatPromptTemplate, HumanMessagePromptTemplate

base = ChatPromptTemplate.from_messages([("system", "You work at a paper.")])
chain = base + HumanMessagePromptTemplate.from_template("Write it: {title}") + ("ai", "Here it is.") | llm


def chat(state):
    return {"messages": [chain.invoke({"title": state["messages"][-1].text})]}


graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()
"""


def test_a_message_that_is_added_to_a_prompt_is_followed(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + SUMS)
    found = {text.pieces: text.role for text in read_program("app:graph").texts}
    assert found == {
        ("You work at a paper.",): "system",
        ("Write it: ", ""): "user",
        ("Here it is.",): "assistant",
    }


CHOICE = """
from langchain.agents import create_agent

AGENTS = {
    name: create_agent(llm, [], system_prompt=prompt, name=name)
    for name, prompt in [("plan", "You plan it."), ("solve", "You solve it.")]
}


def choose(state):
    said = llm.invoke("Choose one of these: " + ", ".join(AGENTS)).text
    return {"messages": [name for name in sorted(AGENTS) if name in said]}


builder = StateGraph(MessagesState).add_node(choose).add_edge(START, "choose")
for name, agent in AGENTS.items():
    builder.add_node(name, agent).add_edge("choose", name)
graph = builder.compile()
"""


def test_who_reads_the_keys_of_a_dict_uses_none_of_its_values(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + CHOICE)
    used = {text.pieces: text.used_by for text in read_program("app:graph").texts}
    assert used[("You plan it.",)] == ("node plan", "agent plan")
    assert used[("You solve it.",)] == ("node solve", "agent solve")


NAMED = """
from enum import StrEnum, auto


class Step(StrEnum):
    PLAN = auto()
    SOLVE = auto()


def plan(state):
    return {"messages": [llm.invoke("Plan it.")]}


def solve(state):
    return {"messages": [llm.invoke("Solve it.")]}


WAYS = [(START, Step.PLAN), (Step.PLAN, Step.SOLVE), (Step.SOLVE, END)]
builder = StateGraph(MessagesState)
for step in {end for way in WAYS for end in way} - {START, END}:
    builder.add_node(step, globals()[step])
for way in WAYS:
    builder.add_edge(*way)
graph = builder.compile()
"""


def test_nodes_may_be_named_by_an_enum_and_a_difference_of_sets(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0].replace("START,", "END, START,") + NAMED)
    found = read_program("app:graph")
    assert [node.name for node in found.nodes] == ["plan", "solve"]
    ends = sorted((edge.source, *edge.ends) for edge in found.edges)
    assert ends == [("__start__", "plan"), ("plan", "solve"), ("solve", "__end__")]


WIRING = """
class Flow:
    def __init__(self):
        self.graph = StateGraph(MessagesState)

    def step(self, after=None, last=False):
        def add(function):
            self.graph.add_node(function)
            self.graph.add_edge(after or START, function.__name__)
            if last:
                self.graph.add_edge(function.__name__, END)
            return function

        return add


flow = Flow()


@flow.step()
def plan(state):
    return {"messages": [llm.invoke([("system", "Plan it."), *state["messages"]])]}


@flow.step("plan", last=True)
def solve(state):
    return {"messages": [llm.invoke([("system", "Solve it."), *state["messages"]])]}


graph = flow.graph.compile()
"""


def test_a_method_that_decorates_nodes_wires_them(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0].replace("START,", "END, START,") + WIRING)
    found = read_program("app:graph")
    assert [node.name for node in found.nodes] == ["plan", "solve"]
    ends = sorted((edge.source, *edge.ends) for edge in found.edges)
    assert ends == [("__start__", "plan"), ("plan", "solve"), ("solve", "__end__")]
    assert not found.opaque


FACTORIES = """
def factory(function):
    def make(prompt):
        def node(state):
            return function(prompt, state)

        return node

    return make


@factory
def ask(prompt, state):
    return {"messages": [llm.invoke([("system", prompt), *state["messages"]])]}


builder = StateGraph(MessagesState)
builder.add_node("plan", ask("Plan it."))
builder.add_node("solve", ask("Solve it."))
builder.add_edge(START, "plan").add_edge("plan", "solve")
graph = builder.compile()
"""


def test_a_function_that_its_decorator_makes_a_factory_of_nodes_is_followed(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + FACTORIES)
    found = read_program("app:graph")
    assert [(node.name, node.target) for node in found.nodes] == [("plan", "node"), ("solve", "node")]
    assert not found.opaque
    used = {text.pieces: text.used_by for text in found.texts}
    assert used == {("Plan it.",): ("node plan",), ("Solve it.",): ("node solve",)}


OVERRIDDEN = """
class Line(StateGraph):
    def add_node(self, name, action, **more):
        def logged(state):
            print(name)
            return action(state)

        return super().add_node(name, logged, **more)

    def add_edge(self, source, target):
        print(source, target)
        return super().add_edge(source, target)

    def compile(self, **more):
        self.add_edge("solve", END)
        return super().compile(name="line", **more)


def plan(state):
    return {"messages": [llm.invoke([("system", "Plan it."), *state["messages"]])]}


def solve(state):
    return {"messages": [llm.invoke([("system", "Solve it."), *state["messages"]])]}


builder = Line(MessagesState)
builder.add_node("plan", plan).add_node("solve", solve)
builder.add_edge(START, "plan")
builder.add_edge("plan", "solve")
graph = builder.compile()
"""


def test_methods_of_a_builder_that_a_class_of_the_program_overrides_are_followed(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0].replace("START,", "END, START,") + OVERRIDDEN)
    found = read_program("app:graph")
    assert [node.name for node in found.nodes] == ["plan", "solve"]
    ends = {(edge.source, edge.ends) for edge in found.edges}
    assert ends == {("__start__", ("plan",)), ("plan", ("solve",)), ("solve", ("__end__",))}
    assert len(found.edges) == len(ends)
    used = {text.pieces: text.used_by for text in found.texts}
    assert used == {("Plan it.",): ("node plan",), ("Solve it.",): ("node solve",)}


INSTALLING = """
class Planning:
    def ask(self, state):
        return {"messages": [llm.invoke([("system", "Plan it."), *state["messages"]])]}

    def install(self, builder, name):
        builder.add_node(name, self.ask)


class Solving:
    def ask(self, state):
        return {"messages": [llm.invoke([("system", "Solve it."), *state["messages"]])]}

    def install(self, builder, name):
        builder.add_node(name, self.ask)


builder = StateGraph(MessagesState)
{}
builder.add_edge(START, "plan").add_edge("plan", "solve")
graph = builder.compile()
"""


ADDING = """
def add(builder, function, after=START, last=False):
    builder.add_node(function)
    builder.add_edge(after, function.__name__)
    if last:
        builder.add_edge(function.__name__, END)


def plan(state):
    return {"messages": [llm.invoke("Plan it.")]}


def solve(state):
    return {"messages": [llm.invoke("Solve it.")]}


builder = StateGraph(MessagesState)
add(builder, plan)
add(builder, solve, "plan", last=True)
graph = builder.compile()
"""


def test_an_edge_that_a_call_does_not_ask_for_is_none(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0].replace("START,", "END, START,") + ADDING)
    ends = sorted((edge.source, *edge.ends) for edge in read_program("app:graph").edges)
    assert ends == [("__start__", "plan"), ("plan", "solve"), ("solve", "__end__")]


REGISTERED = """
NODES, EDGES = {}, []


def node(*after, last=False):
    def register(function):
        NODES[function.__name__] = function
        for before in after:
            EDGES.append((before, function.__name__))
        if last:
            EDGES.append((function.__name__, END))
        return function

    return register


@node(START)
def plan(state):
    return {"messages": [llm.invoke("Plan it.")]}


@node("plan", last=True)
def solve(state):
    return {"messages": [llm.invoke("Solve it.")]}


builder = StateGraph(MessagesState)
for name, function in NODES.items():
    builder.add_node(name, function)
for edge in EDGES:
    builder.add_edge(*edge)
graph = builder.compile()
"""


LEAVING = REGISTERED.replace("if last:\n            EDGES", "if not last:\n            return function\n        EDGES")
IN_CLASS = """
class Flow:
    def __init__(self):
        self.nodes, self.edges = {}, []

    def node(self, before, last=False):
        def register(function):
            self.nodes[function.__name__] = function
            self.edges.append((before, function.__name__))
            if last:
                self.edges.append((function.__name__, END))
            return function

        return register


flow = Flow()
NODES, EDGES = flow.nodes, flow.edges
""" + REGISTERED.partition("return register\n")[2].replace("@node", "@flow.node")
WITHOUT_FIRST = REGISTERED.replace("*after,", "after=None,").replace("@node(START)", "@node()")
WITHOUT_FIRST = WITHOUT_FIRST.replace(
    "for before in after:\n            EDGES.append((before, function.__name__))",
    "if after is None:\n            EDGES.append((START, function.__name__))\n"
    "        else:\n            EDGES.append((after, function.__name__))",
)


@pytest.mark.parametrize("program", [REGISTERED, LEAVING, IN_CLASS, WITHOUT_FIRST])
def test_an_edge_that_a_decorator_is_not_asked_for_is_none(write: Write, program: str) -> None:
    write("app.py", GRAPH.partition("def chat")[0].replace("START,", "END, START,") + program)
    assert not read_program("app:graph").opaque
    ends = sorted((edge.source, *edge.ends) for edge in read_program("app:graph").edges)
    assert ends == [("__start__", "plan"), ("plan", "solve"), ("solve", "__end__")]


CREW = """
class Worker:
    tools = []

    def __init__(self, llm):
        self.llm = llm.bind_tools(self.tools) if self.tools else llm

    def __call__(self, state):
        return {"messages": [self.llm.invoke([("system", self.prompt), *state["messages"]])]}


class Searcher(Worker):
    name, prompt, tools = "searcher", "Search it.", [find]


class Writer(Worker):
    name, prompt = "writer", "Write it."


def wants_tools(state):
    return bool(state["messages"][-1].tool_calls)


crew = [Searcher(llm), Writer(llm)]
builder = StateGraph(MessagesState).add_edge(START, "searcher")
for worker, following in zip(crew, [*crew[1:], None]):
    builder.add_node(worker.name, worker)
    target = following.name if following else END
    if worker.tools:
        builder.add_node(f"{worker.name}_tools", ToolNode(worker.tools))
        builder.add_edge(f"{worker.name}_tools", worker.name)
        builder.add_conditional_edges(worker.name, wants_tools, {True: f"{worker.name}_tools", False: target})
    else:
        builder.add_edge(worker.name, target)
graph = builder.compile()
"""


@pytest.mark.parametrize(
    ("change", "nodes"),
    [
        ("", ["searcher", "searcher_tools", "writer"]),
        ("Writer.tools.append(find)\n", ["searcher", "searcher_tools", "writer", "writer_tools"]),
    ],
)
def test_who_has_no_tools_has_no_node_for_them_and_who_is_followed_does_not_end(
    write: Write, change: str, nodes: list[str]
) -> None:
    imports = "from langgraph.prebuilt import ToolNode\n" + GRAPH.partition("def chat")[0].replace(
        "START,", "END, START,"
    )
    tool = "def find(name: str) -> str:\n    return name\n\n\n"
    write("app.py", imports + tool + CREW.replace("crew = [", f"{change}crew = ["))
    inventory = read_program("app:graph")
    assert sorted(node.name for node in inventory.nodes) == nodes
    edges = {(edge.source, end) for edge in inventory.edges for end in edge.ends}
    assert ("writer", "__end__") in edges
    assert ("searcher", "__end__") not in edges


CHANGING = """
def plan(state):
    return {{"messages": [llm.invoke("Plan it.")]}}


def solve(state):
    return {{"messages": [llm.invoke("Solve it.")]}}


{before}


def add(builder, ready=False):
{within}
    if ready:
        builder.add_edge("plan", "solve")


def build():
    ready = False
    builder = StateGraph(MessagesState).add_node(plan).add_node(solve).add_edge(START, "plan")
{wire}
    return builder.compile()


graph = build()
"""
SWITCH = "READY = False\n\n\ndef switch():\n    global READY\n    READY = True\n\n\nswitch()\n"
LOADED = "class Settings(BaseSettings):\n    debug: bool = False\n\n\n"
MADE_OF_LOADED = f"{LOADED}class Own(Settings):\n    ready: bool = False\n\n\nsettings = Own()"
PLAIN = "class Settings:\n    ready = False\n\n\nsettings = Settings()\n"
SETTING = f"{PLAIN.partition('settings')[0]}    def set(self):\n        {{}}\n\n\nsettings = Settings()\nsettings.set()"
GIVEN = "class Settings:\n    def __init__(self, /, ready):\n        self.ready = ready"
NESTED_SWITCH = "def switch():\n    nonlocal ready\n    ready = True\n\nswitch()\n"
EDGE = "if {}:\n    builder.add_edge('plan', 'solve')\n"
LATER = EDGE.format("ready") + "ready = True\n"


def wire(write: Write, before: str, within: str, wire: str) -> list[tuple[str, ...]]:
    parts = {"before": before, "within": textwrap.indent(within, "    "), "wire": textwrap.indent(wire, "    ")}
    imports = GRAPH.partition("def chat")[0] + "from pydantic_settings import BaseSettings\n"
    write("app.py", imports + CHANGING.format(**parts))
    return sorted((edge.source, *edge.ends) for edge in read_program("app:graph").edges)


@pytest.mark.parametrize(
    ("before", "within", "calls"),
    [
        (SWITCH, "", EDGE.format("READY")),
        (SWITCH.replace("True", "1").replace("False", "0"), "", EDGE.format("READY == 1")),
        (SWITCH.replace("True", "0").replace("False", "1"), "", f"if READY:\n    pass\nel{EDGE.format('plan')}"),
        (f"{SWITCH}FLAG = READY", "", EDGE.format("FLAG")),
        (f"{SWITCH}\n\ndef is_ready():\n    return READY", "", EDGE.format("is_ready()")),
        (SWITCH, "", "add(builder, READY)"),
        ("", "", NESTED_SWITCH + EDGE.format("ready")),
        (f"{PLAIN}settings.ready = True", "", EDGE.format("settings.ready")),
        (f"{PLAIN}setattr(settings, 'ready', True)", "", EDGE.format("settings.ready")),
        (f"{PLAIN}for name in dir(llm):\n    setattr(settings, name, True)", "", EDGE.format("settings.ready")),
        (f"{PLAIN}settings.__dict__['ready'] = True", "", EDGE.format("settings.ready")),
        (f"{PLAIN}vars(settings).update(ready=True)", "", EDGE.format("settings.ready")),
        (f"{PLAIN}fields = vars(settings)\nfields['ready'] = True", "", EDGE.format("settings.ready")),
        ("class Known(dict):\n    pass\n\n\nknown = Known()", "", EDGE.format("not known")),
        ("class Known(UserList):\n    pass\n\n\nclass Own(Known):\n    pass", "", EDGE.format("not Own()")),
        ("READY = False\nglobals()['READY'] = True", "", EDGE.format("READY")),
        ("READY = False\nglobals().update(READY=True)", "", EDGE.format("READY")),
        (PLAIN.replace("Settings:", "Settings(BaseSettings):"), "", EDGE.format("settings.ready")),
        (MADE_OF_LOADED, "", EDGE.format("settings.ready")),
        (SETTING.format("self.ready = True"), "", EDGE.format("settings.ready")),
        (SETTING.format("self.ready, self.more = True, 1"), "", EDGE.format("settings.ready")),
        ("", "", "for part in range(2):\n" + textwrap.indent(LATER, "    ")),
        ("", "", "for part in 'ab':\n    for other in ['c']:\n" + textwrap.indent(LATER, "        ")),
        ("", "", "while plan:\n" + textwrap.indent(LATER, "    ")),
        ("", "if llm.name:\n    ready = True", "add(builder, ready=False)"),
    ],
)
def test_an_edge_whose_test_reads_what_the_program_changes_is_kept(
    write: Write, before: str, within: str, calls: str
) -> None:
    assert wire(write, before, within, calls) == [("__start__", "plan"), ("plan", "solve")]


@pytest.mark.parametrize(
    ("before", "calls"),
    [
        ("READY = False", EDGE.format("READY")),
        ("READY = False\nFLAG = READY", EDGE.format("FLAG")),
        (PLAIN, EDGE.format("settings.ready")),
        (GIVEN, EDGE.format("Settings(0).ready")),
        (GIVEN, EDGE.format("not Settings(0)")),
        ("", "add(builder)"),
        ("READY = False", "add(builder, READY)"),
        ("def connect(builder, then):\n    if then is None:\n        EDGE", "connect(builder, solve)"),
        ("def connect(builder, then=()):\n    for part in [*then]:\n        EDGE", "connect(builder)"),
        ("MODE = 'short'", "if MODE == 'short':\n    pass\nelse:\n    EDGE"),
        ("READY = None", "if READY is None:\n    pass\nel" + EDGE.format("builder")),
        ("WAYS = [('plan', 'solve', 1)]", "for a, b, kept in WAYS:\n    if kept != 2:\n        continue\n    EDGE"),
        ("WAYS = [('plan', 'solve', False)]", "for a, b, kept in WAYS:\n    if not kept:\n        continue\n    EDGE"),
    ],
)
def test_an_edge_whose_test_is_false_at_all_times_is_none(write: Write, before: str, calls: str) -> None:
    edge = "builder.add_edge('plan', 'solve')"
    assert wire(write, before.replace("EDGE", edge), "", calls.replace("EDGE", edge)) == [("__start__", "plan")]


FIRST_IN_REST = """
class Base:
    KIND = "Plan it."
    texts = {{}}

    {}


class Plan(Base):
    text = "Solve it."


PROMPT = {}
"""


@pytest.mark.parametrize(
    ("method", "prompt", "texts"),
    [
        ("def __init_subclass__(cls, /, **kw):\n        cls.kind = 1", "Base.KIND", ["Plan it."]),
        ("def __init_subclass__(*args, **kw):\n        super().__init_subclass__(**kw)", "Base.KIND", ["Plan it."]),
        ("@classmethod\n    def make(cls, /):\n        cls.KIND = 'Make it.'", "Base.KIND", ["Make it.", "Plan it."]),
        ("@classmethod\n    def make(*args):\n        return args[0]()", "Base.KIND", ["Plan it."]),
        ("def __init_subclass__(cls, /, **kw):\n        Base.texts['a'] = cls.text", "Base.texts['a']", ["Solve it."]),
        ("def __init_subclass__(*args, **kw):\n        Base.texts['a'] = 'Take it.'", "Base.texts['a']", ["Take it."]),
        ("def __post_init__(*args):\n        args[0].kind = 1", "Base().KIND", ["Plan it."]),
        ("def __post_init__(self, /):\n        self.kind = self.KIND", "Base().kind", ["Plan it."]),
        ("def __init__(self, /, kind):\n        self.kind = kind", "Base('Take it.').kind", ["Take it."]),
        ("def __init__(*args):\n        args[0].kind = 1", "Base().KIND", ["Plan it."]),
    ],
)
def test_a_method_may_take_its_class_or_object_by_place_alone(
    write: Write, method: str, prompt: str, texts: list[str]
) -> None:
    write("app.py", FIRST_IN_REST.format(method, prompt) + GRAPH)
    assert sorted(piece for text in read_program("app:graph").texts for piece in text.pieces) == texts


def test_a_class_may_have_the_name_of_its_base_class(write: Write) -> None:
    write("settings.py", "class Settings:\n    ask = 'Plan it.'\n")
    extended = "from settings import Settings\n\n\nclass Settings(Settings):\n    ready = True\n\n\n"
    write("app.py", f"{extended}PROMPT = Settings().ask\n{GRAPH}")
    assert [text.pieces for text in read_program("app:graph").texts] == [("Plan it.",)]


def test_members_of_an_enum_may_have_two_names(write: Write) -> None:
    kinds = "class Kind(StrEnum):\n    PLAN = DRAFT = auto()\n\n\n"
    texts = "TEXTS = {'plan': 'Plan it.', 'draft': 'Draft it.'}\nPROMPT = TEXTS[Kind.DRAFT]\n"
    write("app.py", f"from enum import StrEnum, auto\n\n\n{kinds}{texts}{GRAPH}")
    assert [text.pieces for text in read_program("app:graph").texts] == [("Plan it.",)]


@pytest.mark.parametrize(
    "calls",
    [
        "Planning().install(builder, 'plan')\nSolving().install(builder, 'solve')",
        "for part, name in ((Planning(), 'plan'), (Solving(), 'solve')):\n    part.install(builder, name)",
        "plan, solve = Planning(), Solving()\nplan.install(builder, 'plan')\nsolve.install(builder, 'solve')",
    ],
)
def test_methods_of_one_name_add_the_nodes_of_their_own_calls(write: Write, calls: str) -> None:
    program = GRAPH.partition("def chat")[0] + INSTALLING.replace("{}\nbuilder", f"{calls}\nbuilder")
    write("app.py", program)
    found = read_program("app:graph")
    assert sorted(node.name for node in found.nodes) == ["plan", "solve"]
    used = {text.pieces: text.used_by for text in found.texts}
    assert used == {("Plan it.",): ("node plan",), ("Solve it.",): ("node solve",)}


def test_a_node_that_either_of_two_classes_adds_runs_the_method_of_each(write: Write) -> None:
    calls = "part = Planning() if llm.name else Solving()\npart.install(builder, 'plan')"
    program = GRAPH.partition("def chat")[0] + INSTALLING.replace("{}\nbuilder", f"{calls}\nbuilder")
    write("app.py", program)
    asked = [number for number, line in enumerate(program.splitlines(), 1) if "def ask" in line]
    assert [(node.name, node.line) for node in read_program("app:graph").nodes] == [("plan", line) for line in asked]


FACTORY = """
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

llm = ChatOpenAI(model="gpt-4o")


class Step(BaseModel):
    ask: str

    @property
    def template(self):
        return ChatPromptTemplate.from_messages([("system", self.ask)])


STEPS = {"plan": Step(ask="Plan it."), "solve": Step(ask="Solve it.")}


def make(name: str):
    chain = STEPS[name].template | llm

    def node(state):
        return {"messages": [chain.invoke(state)]}

    return node


builder = StateGraph(MessagesState).add_edge(START, "plan").add_edge("plan", "solve")
builder.add_node("plan", make("plan"))
builder.add_node("solve", make("solve"))
graph = builder.compile()
"""


def test_each_node_that_one_function_makes_sends_the_texts_of_its_own_call(write: Write) -> None:
    write("app.py", FACTORY)
    used = {text.pieces: text.used_by for text in read_program("app:graph").texts}
    assert used == {("Plan it.",): ("node plan",), ("Solve it.",): ("node solve",)}


CHAINED = """
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import RunnableLambda

ask = RunnableLambda(lambda state: "Plan it.") | llm
judge = (lambda state: {"thing": "what is said"}) | PromptTemplate.from_template("Judge {thing}.") | llm


def plan(state):
    return {"messages": [ask.invoke(state), judge.invoke(state)]}


graph = StateGraph(MessagesState).add_node(plan).add_edge(START, "plan").compile()
"""


def test_what_functions_of_a_chain_hand_on_is_followed(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + CHAINED)
    found = {text.pieces: text.role for text in read_program("app:graph").texts}
    assert found == {("Plan it.",): "user", ("what is said",): "", ("Judge ", "."): ""}


def test_a_schema_that_create_model_makes_has_its_docstring_and_all_its_fields(write: Write) -> None:
    write(
        "app.py",
        "from pydantic import Field, create_model\n"
        "NAMES = {'a': 'Points of A.', 'b': 'Points of B.'}\n"
        "FIELDS = {name: (int, Field(description=text)) for name, text in NAMES.items()}\n"
        "Score = create_model('Score', __doc__='Points for all.', **FIELDS)\n"
        "PROMPT = 'Chat.'\n" + GRAPH.replace("llm.invoke", "llm.with_structured_output(Score).invoke"),
    )
    found = sorted("".join(text.pieces) for text in read_program("app:graph").texts)
    assert found == ["Chat.", "Points for all.", "Points of A.", "Points of B."]


OPEN = """
from enum import Enum
from pathlib import Path

import yaml


class Tone(Enum):
    kind = "Be kind."
    brief = "Be brief."


def load(config):
    settings = config.get("configurable", {})
    texts = yaml.safe_load(Path(settings.get("shop", "red") + ".yaml").read_text())
    tones = [Tone[settings.get("tone", "kind")], Tone(settings.get("other", "Be brief."))]
    return "\\n".join([texts["ask"], *(tone.value for tone in tones)])


def chat(state, config):
    return {"messages": [llm.invoke([("system", load(config)), *state["messages"]])]}
"""


def test_a_default_is_not_all_that_a_setting_may_be(write: Write) -> None:
    write("red.yaml", "ask: You sell red things.\n")
    write("blue.yaml", "ask: You sell blue things.\n")
    head, _, rest = GRAPH.partition("def chat")
    write("app.py", head + OPEN + rest.partition("graph = ")[1] + rest.partition("graph = ")[2])
    found = sorted("".join(text.pieces) for text in read_program("app:graph").texts)
    assert found == ["Be brief.", "Be kind.", "You sell blue things.", "You sell red things."]


SENT = """
import json
from dataclasses import dataclass
from pathlib import Path

from langgraph.types import Send

STEPS = [step for step in json.loads(Path("steps.json").read_text()) if step["enabled"]]


@dataclass
class Job:
    step: dict
    number: int = 0


def chat(job: Job):
    return {"messages": [llm.invoke(job.step["ask"])]}


def fan_out(state):
    return [Send("chat", Job(step=step)) for step in STEPS]


graph = StateGraph(MessagesState).add_node(chat).add_conditional_edges(START, fan_out, ["chat"]).compile()
"""


def test_fields_of_a_sent_object_are_followed_to_the_enabled_items_of_a_file(write: Write) -> None:
    write("steps.json", '[{"ask": "Plan it.", "enabled": true}, {"ask": "Tell jokes.", "enabled": false}]')
    write("app.py", GRAPH.partition("def chat")[0] + SENT)
    assert [(text.pieces, text.used_by) for text in read_program("app:graph").texts] == [
        (("Plan it.",), ("node chat",))
    ]


WORKERS = """
from dataclasses import dataclass

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool, tool

llm = "openai:gpt-4o"


@tool
def find(word: str):
    \"""Find a word.\"""


@tool
def count(word: str):
    \"""Count a word.\"""


TOOLS = {"finder": [find], "counter": [count]}


def make_worker(name, model):
    return create_agent(model, tools=TOOLS[name], name=name)


def as_tool(name, model):
    worker = make_worker(name, model)

    def ask(task: str):
        return worker.invoke({"messages": [("user", task)]})

    return StructuredTool.from_function(ask, name=f"ask_{name}", description="Ask " + name)


@dataclass
class Settings:
    workers: tuple[str, ...] = ("finder", "counter")


def make_graph(settings: Settings | None = None):
    own = settings or Settings()
    return create_agent(llm, tools=[as_tool(worker, llm) for worker in own.workers], name="lead")
"""


def test_an_agent_that_several_calls_make_has_the_tools_of_its_own_call(write: Write) -> None:
    write("app.py", WORKERS)
    made = sorted((agent.name, agent.tools) for agent in read_program("app:make_graph").agents)
    assert made == [("counter", ("count",)), ("finder", ("find",)), ("lead", ("ask_finder", "ask_counter"))]


OWNED = """
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph


class Team:
    def __init__(self):
        self.llm = ChatOpenAI(model="m")
        self.graph = self.build()

    def build(self):
        return StateGraph(MessagesState).add_node("one", self.make()).add_edge(START, "one").compile()

    def make(self):
        return create_agent(self.llm, [], system_prompt="Chat kindly.")


def make_team():
    return Team()


if __name__ == "__main__":
    make_team().graph.invoke({"messages": []})

graph = make_team().graph
"""


def test_an_agent_that_two_calls_make_alike_is_there_once(write: Write) -> None:
    write("app.py", OWNED)
    assert [agent.maker for agent in read_program("app:graph").agents] == ["create_agent"]


def test_a_method_that_hands_out_a_model_sends_nothing(write: Write) -> None:
    models = "class Models:\n    def chat(self):\n        return llm\n\n\nmodels = Models()\n\n\n"
    write(
        "app.py",
        GRAPH.replace("def chat", f"{models}PROMPT = 'Chat kindly.'\n\n\ndef chat").replace(
            "llm.invoke", "models.chat().invoke"
        ),
    )
    inventory = read_program("app:graph")
    assert [model.maker for model in inventory.models] == ["ChatOpenAI"]
    assert [text.pieces for text in inventory.texts] == [("Chat kindly.",)]


@pytest.mark.parametrize("ask", ["litellm.completion", "ollama.chat"])
def test_a_client_may_get_model_and_messages_without_keywords(write: Write, ask: str) -> None:
    sent = GRAPH.replace("llm.invoke(", f"{ask}('m', ").replace("PROMPT", "'Chat kindly.'")
    write("app.py", f"import litellm, ollama\n{sent}")
    inventory = read_program("app:graph")
    assert ask in [model.maker for model in inventory.models]
    assert not inventory.opaque


DESCRIBED = """
from langchain_core.tools import StructuredTool, tool
from langchain_core.tools import tool as make_tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from outside_jobs import Job


def add(number: float) -> float:
    \"\"\"Add two numbers.

    They may be large.
    \"\"\"
    return number


def halve(number: float) -> float:
    \"\"\"Nobody reads this of halves.\"\"\"
    return number


@tool
def divide(number: float) -> float:
    \"\"\"Divide two numbers.\"\"\"
    return number


@tool(description="Multiply two numbers.")
def multiply(number: float) -> float:
    \"\"\"Nobody reads this of products.\"\"\"
    return number


def square(number: float) -> float:
    \"\"\"Square a number.\"\"\"
    return number


halved = StructuredTool.from_function(func=halve, name="halve", description="Halve a number.")
tools = [make_tool(add), divide, multiply, halved, StructuredTool.from_function(square)]
job = Job(halve)


def chat(state):
    prompt = f"Call these functions for {job.description}:"
    for part in tools:
        prompt += f"{part.name}: {part.description}"
    return {"messages": [ChatOpenAI(model="m").invoke([("system", prompt), *state["messages"]])]}


graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()
"""


def test_a_description_of_a_tool_that_a_prompt_holds_is_a_text_of_it(write: Write) -> None:
    write("app.py", DESCRIBED)
    sent = {text.pieces[0] for text in read_program("app:graph").texts if "node chat" in text.used_by}
    assert sent >= {
        "Add two numbers.\n\nThey may be large.",
        "Divide two numbers.",
        "Halve a number.",
        "Multiply two numbers.",
        "Square a number.",
        "Call these functions for ",
    }
    assert not [text for text in sent if text.startswith("Nobody")]


LISTED = """
import json
from pathlib import Path

import yaml

HERE = Path(__file__).parent


class Prompts:
    def __init__(self, folder="prompts", listed="listed.yaml"):
        self.folder = HERE / folder
        self.listed = self.load(listed)

    def load(self, name):
        path = self.folder / name
        if not path.exists():
            return {"prompts": {}}
        with open(path) as file:
            return yaml.safe_load(file)

    def get(self, name):
        return (self.folder / self.listed["prompts"][name]["file"]).read_text()


listed = json.loads((HERE / "prompts" / "listed.json").read_text())
FIRST = Prompts().get("chat")
EACH = {part["name"]: (HERE / "prompts" / part["path"]).read_text() for part in listed["parts"]}
GOT = (HERE / "prompts" / listed.get("end")).read_text()
"""


@pytest.mark.parametrize(
    ("prompt", "read"), [("FIRST", "Chat kindly."), ("EACH['chat']", "Chat kindly."), ("GOT", "Say goodbye.")]
)
def test_a_file_whose_name_stands_in_another_file_is_read(write: Write, prompt: str, read: str) -> None:
    write("prompts/chat.md", "Chat kindly.")
    write("prompts/end.md", "Say goodbye.")
    write("prompts/left.md", "Nobody reads this.")
    write("prompts/listed.yaml", "prompts:\n  chat:\n    file: chat.md\n")
    write("prompts/listed.json", '{"parts": [{"name": "chat", "path": "chat.md"}], "end": "end.md"}')
    write("app.py", f"{LISTED}\n\nPROMPT = {prompt}\n{GRAPH}")
    inventory = read_program("app:graph")
    assert [text.pieces for text in inventory.texts] == [(read,)]
    assert not inventory.opaque


@pytest.mark.parametrize("about", ["A description of it. " * 20, "Use **bold** words/links"])
def test_a_text_beside_the_name_of_a_file_may_be_no_name(write: Write, about: str) -> None:
    write("prompts/chat.md", "Chat kindly.")
    write("prompts/listed.json", json.dumps({"file": "chat.md", "about": about}))
    loaded = "listed = json.loads((HERE / 'prompts' / 'listed.json').read_text())"
    sent = GRAPH.replace("PROMPT", "(HERE / 'prompts' / listed[state['kind']]).read_text()")
    write("app.py", f"import json\nfrom pathlib import Path\n\nHERE = Path(__file__).parent\n{loaded}\n{sent}")
    assert [text.pieces for text in read_program("app:graph").texts] == [("Chat kindly.",)]


METHODS = """
class Desk:
    STEPS = {"plan": {"ask": "Plan it."}, "solve": {"ask": "Solve it."}}

    def make(self, step):
        def node(state):
            return {"messages": [llm.invoke(step["ask"])]}

        return node

    def build(self):
        builder = StateGraph(MessagesState).add_edge(START, "plan").add_edge("plan", "solve")
        for name, step in self.STEPS.items():
            builder.add_node(name, self.make(step))
        return builder.compile()


graph = Desk().build()
"""


def test_each_node_that_one_method_makes_sends_the_texts_of_its_own_call(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + METHODS)
    used = {text.pieces: text.used_by for text in read_program("app:graph").texts}
    assert used == {("Plan it.",): ("node plan",), ("Solve it.",): ("node solve",)}


SCHEMA = """
from pydantic import BaseModel

DOC = "Write a plan."
PROMPT = "Chat."


class Plan(BaseModel):
    __doc__ = DOC
    step: str
"""


@pytest.mark.parametrize(
    ("given", "texts"), [("Plan", ["Chat.", "Write a plan."]), ("Plan, method='json_mode'", ["Chat."])]
)
def test_a_schema_is_sent_with_the_docstring_that_it_names_but_not_in_json_mode(
    write: Write, given: str, texts: list[str]
) -> None:
    write("app.py", SCHEMA + GRAPH.replace("llm.invoke", f"llm.with_structured_output({given}).invoke"))
    assert sorted("".join(text.pieces) for text in read_program("app:graph").texts) == texts


def test_a_part_of_a_comprehension_may_be_any_of_its_texts(write: Write) -> None:
    parts = "PARTS = [text for text in ('Plan it.', 'Solve it.') if len(text) > 2]\n"
    write("app.py", f"{parts}PROMPT = ' '.join(PARTS[:1])\n{GRAPH}")
    assert sorted(text.pieces for text in read_program("app:graph").texts) == [("Plan it.",), ("Solve it.",)]


NAMED_RESULT = """
from langchain_core.tools import tool

SORRY = "There is none."


@tool
def find(word: str):
    \"""Find a word.\"""
    if not word:
        return SORRY
    if word == "?":
        return [f"One of {part}." for part in word]
    return {"a": "1"}[word]


def chat(state):
    return {"messages": [llm.bind_tools([find]).invoke(state["messages"])]}


graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()
"""


def test_a_constant_that_a_tool_returns_is_a_text(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + NAMED_RESULT)
    found = sorted("{}".join(text.pieces) for text in read_program("app:graph").texts)
    assert found == ["Find a word.", "One of {}.", "There is none."]


def make_program(helpers: int) -> str:
    """A program whose node passes a prompt through many functions, each with two callers."""
    lines = ["PROMPT = 'Chat.'", "def f0(a, b='x'):", "    return a + b"]
    for index in range(1, helpers):
        lines += [f"def f{index}(a, b=PROMPT):", f"    return f{index - 1}(a, b) if a else f{index - 1}(b, a)"]
    return "\n".join([*lines, f"TEXT = f{helpers - 1}(PROMPT)", GRAPH.replace("PROMPT", "TEXT")])


def read_opened(monkeypatch: pytest.MonkeyPatch) -> Program:
    opened: list[Program] = []

    def open_and_keep(module: str) -> tuple[Program, SourceFile]:
        program, file = open_program(module)
        opened.append(program)
        return program, file

    monkeypatch.setattr(reader, "open_program", open_and_keep)
    read_program("app:graph")
    return opened[0]


def count_steps(monkeypatch: pytest.MonkeyPatch) -> int:
    program = read_opened(monkeypatch)
    assert program.patience == source.PATIENCE
    return len(program.traced)


@pytest.mark.parametrize(
    "lines",
    ["text = 'You help.'\n" + "text = text + ' More.'\n" * 300, "text = 'You help.'" + ".strip()" * 300 + "\n"],
    ids=["bound anew", "chain"],
)
def test_an_expression_that_is_followed_no_further_leaves_nothing_behind(
    write: Write, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    set_patience(monkeypatch, 100)
    write("app.py", lines + GRAPH.replace("PROMPT", "text"))
    program = read_opened(monkeypatch)
    assert program.ended
    assert not program.asked
    assert not program.active


def test_the_work_grows_with_the_program_not_with_its_paths(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    for helpers in (10, 20, 40):
        write("app.py", make_program(helpers))
        steps.append(count_steps(monkeypatch))
    assert steps[2] < 5 * steps[1] < 25 * steps[0]
    assert steps[2] < 20_000


def test_what_is_found_before_an_expression_is_followed_no_further_stays(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_patience(monkeypatch, 40)
    lines = ["def pick(kind):", "    if kind == 'first':", "        return 'You help first.'"]
    lines += [f"    if kind == '{number}':\n        return help{number}(kind)" for number in range(60)]
    lines += [f"def help{number}(kind):\n    return 'You help as number {number}.'" for number in range(60)]
    write("app.py", "\n".join([*lines, "PROMPT = pick(input())", GRAPH]))
    inventory = read_program("app:graph")
    assert ("You help first.",) in [text.pieces for text in inventory.texts]
    assert 1 < len(inventory.texts) < 60
    [opaque] = inventory.opaque
    assert "may be more than can be followed" in opaque.reason
    assert "name the module that holds the graph alone" in opaque.way_out


def test_a_sum_of_lists_with_more_elements_than_are_followed_is_told_of(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MOST", 4)
    parts = [[f"You help as number {number}." for number in range(start, start + 3)] for start in (0, 3)]
    write("app.py", f"PROMPT = ' '.join(text for text in {parts[0]} + {parts[1]})\n{GRAPH}")
    inventory = read_program("app:graph")
    assert len(inventory.texts) == 4
    assert "may be more than can be followed" in inventory.opaque[0].reason


def test_functions_that_hand_dicts_to_each_other_in_a_loop_are_followed_in_a_bound_of_steps(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["from pydantic import BaseModel", "class Row(BaseModel):"]
    lines += [f"    field{number}: dict = {{}}" for number in range(4)]
    for number in range(40):
        after, other = (number + 1) % 40, (number * 7 + 3) % 40
        lines += [
            f"def merge{number}(row, found):",
            "    known = {**row.model_dump(), 'field0': found}",
            "    for key in known:",
            f"        known[key] = merge{other}(Row(**known), known)",
            f"    return merge{after}(Row(**known), known.get('field1', found))",
        ]
    write("app.py", "\n".join([*lines, "PROMPT = merge0(Row(field1={'a': 'You help.'}), {})['a']", GRAPH]))
    steps, trace = list[None](), Program.trace

    def count(self: Program, *given: Any) -> Any:
        steps.append(None)
        assert len(steps) < 300_000, "an expression is followed anew for each way that leads to it"
        return trace(self, *given)

    monkeypatch.setattr(Program, "trace", count)
    assert [node.name for node in read_program("app:graph").nodes] == ["chat"]


LEAF = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

llm = ChatOpenAI(model="gpt-4o")


def find_leaf(row):
    while row.has_rows():
        row = row.first() if row.is_left() else row.last()
    return row.text()


def chat(state):
    return {"messages": [llm.invoke("Answer with care: " + find_leaf(state["tree"]))]}


graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()
"""


def test_the_maker_of_a_name_that_is_bound_anew_from_itself_is_sought_once(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced, trace = [], Program.trace

    def count(self: Program, *given: Any) -> Any:
        traced.append(given)
        assert len(traced) < 5_000, "each round of the loop is followed for itself"
        return trace(self, *given)

    monkeypatch.setattr(Program, "trace", count)
    write("app.py", LEAF)
    assert [text.pieces[0] for text in read_program("app.py:graph").texts] == ["Answer with care: "]


DIG = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

llm = ChatOpenAI(model="gpt-4o")


def parse(reply):
    notes, pages = [], []
    for line in reply.split("\\n"):
        notes.append(line)
        pages.extend(line.split(" "))
    return {"notes": notes, "pages": pages, "more": [note for note in notes if note]}


def study(question):
    found = parse(llm.invoke("Study: " + question).text)
    return {"notes": found["notes"], "pages": list(set(found["pages"])), "more": found["more"]}


def dig(question, depth, notes=None, pages=None):
    if notes is None:
        notes = []
    if pages is None:
        pages = set()
    results = [study(part) for part in question.split("\\n")]
    every, seen, more = notes.copy(), pages.copy(), []
    if not results:
        return {"notes": every, "pages": seen, "more": more}
    for result in results:
        every.extend(result["notes"])
        seen.update(result["pages"])
        if isinstance(result["more"], list):
            more.extend(result["more"])
        else:
            more.append(result["more"])
        if depth > 1:
            deeper = dig(question, depth - 1, notes=every, pages=seen)
            every = deeper["notes"]
            every.extend(list(set(dig(result["pages"], depth - 1, notes=every, pages=seen)["notes"])))
            more.extend(dig(result["more"], depth - 2, notes=more, pages=seen)["pages"])
            seen.update(deeper["pages"])
            if deeper.get("more"):
                more.extend(deeper["more"])
    return {"notes": list(set(every)), "pages": list(seen), "more": trim(more)}


def trim(parts):
    kept = []
    for part in reversed(parts):
        kept.insert(0, part)
    return kept


def chat(state):
    found = dig(state["messages"][-1].content, 2)
    text = "\\n".join(list(set(found["notes"])) + found["more"])
    return {"messages": [llm.invoke("Sum up with care: " + text)]}


graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()
"""


def test_a_program_whose_recursion_makes_lists_of_each_other_is_read(write: Write) -> None:
    write("app.py", DIG)
    assert [text.pieces[0] for text in read_program("app.py:graph").texts] == ["Study: ", "Sum up with care: "]


COMPILED_TWICE = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

llm = ChatOpenAI(model="gpt-4o")


def answer(state):
    return {"messages": [llm.invoke("Answer with care: " + state["messages"][-1].content)]}


def build(kinds):
    builder = StateGraph(MessagesState)
    for kind in kinds:
        builder.add_node(kind, answer)
        builder.add_edge(START, kind)
    return builder


class Desk:
    def __init__(self, kinds=("left", "right")):
        self.builder = build(kinds)
        self.graph = self.builder.compile()

    def resume(self, saver):
        self.graph = self.builder.compile(checkpointer=saver)


graph = Desk().graph
"""


def test_a_graph_that_is_compiled_in_two_methods_has_each_node_once(write: Write) -> None:
    write("app.py", COMPILED_TWICE)
    found = read_program("app.py:graph")
    assert [node.name for node in found.nodes] == ["left", "right"]
    assert [edge.ends for edge in found.edges] == [("left",), ("right",)]


OFFICE = """
from langchain_core.prompts import PromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel, Field


class Reply(BaseModel):
    letter: str = Field(description="The letter in full.")


class Crew:
    def __init__(self):
        llm = ChatOpenAI(model="gpt-4o")
        self.sort_letter = PromptTemplate.from_template("Sort this letter: {letter}") | llm
        answer = PromptTemplate(template="Answer this letter: {letter}", input_variables=["letter"])
        self.answer_letter = answer | llm.with_structured_output(Reply)


class Nodes:
    def __init__(self):
        self.crew = Crew()

    def sort(self, state):
        return {"messages": [self.crew.sort_letter.invoke({"letter": state["messages"][-1].content})]}

    def answer(self, state):
        return {"messages": [self.crew.answer_letter.invoke({"letter": state["messages"][-1].content})]}


nodes = Nodes()
builder = StateGraph(MessagesState)
builder.add_node("sort", nodes.sort)
builder.add_node("answer", nodes.answer)
builder.add_edge(START, "sort")
builder.add_edge("sort", "answer")
graph = builder.compile()
"""


def test_what_an_object_has_in_a_field_is_used_by_those_that_read_the_field(write: Write) -> None:
    write("app.py", OFFICE)
    assert {text.pieces[0]: text.used_by for text in read_program("app.py:graph").texts} == {
        "The letter in full.": ("node answer",),
        "Sort this letter: ": ("node sort",),
        "Answer this letter: ": ("node answer",),
    }


LITELLM = """
from langgraph.graph import START, StateGraph
from litellm import completion as ask
from typing_extensions import TypedDict


class Mail(TypedDict):
    letter: str


def rate(state: Mail) -> Mail:
    messages = [{"role": "system", "content": "Rate the letter from one to ten."}]
    reply = ask(model="groq/any", messages=[*messages, {"role": "user", "content": state["letter"]}])
    return {"letter": reply.choices[0].message.content}


graph = StateGraph(Mail).add_node(rate).add_edge(START, "rate").compile()
"""


def test_a_function_of_litellm_asks_a_model_past_langchain(write: Write) -> None:
    write("app.py", LITELLM)
    found = read_program("app.py:graph")
    assert [(text.role, text.hindrance) for text in found.texts] == [("system", "sent past LangChain")]
    assert [(model.maker, model.names) for model in found.models] == [("completion", ("groq/any",))]


def test_a_validated_dict_is_parsed_once_for_all_calls(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "from pydantic import BaseModel\nclass Step(BaseModel):\n    ask: str\n"
    load = "def load(a):\n    return Step.model_validate({'ask': 'Chat.', 'more': a}).ask\n"
    write("app.py", f"{head}{load}PROMPT = load('x') + load('y') + load('z')\n{GRAPH}")
    modes = list[str]()

    def parse(text: str, *args: Any, mode: str = "exec", **more: Any) -> Any:
        modes.append(mode)
        return compile(text, "app.py", mode, ast.PyCF_ONLY_AST)

    monkeypatch.setattr(ast, "parse", parse)
    assert [text.pieces for text in read_program("app:graph").texts] == [("Chat.",)]
    assert modes.count("eval") == 1


LOOP = """
import bisect
import os
from itertools import chain

import registry
import yaml
from pathlib import Path

CONFIG = yaml.safe_load(Path("config.yaml").read_text())
STEPS = []


def plan(state):
    return {"messages": [llm.invoke("Plan it.")]}


def add_step(steps, name):
    steps.append(name)


%s

builder = StateGraph(MessagesState)
builder.add_node("first", plan)
for name in %s:
    builder.add_node(name, plan)
    builder.add_edge("first", name)
graph = builder.compile()
"""


WITH_STEPS = "class Flow:\n    ways = []\n\n    def __init__(self, **more):\n        "


def list_nodes(write: Write, before: str, loop: str) -> list[str]:
    write("config.yaml", "review: false\n")
    write("registry.py", "STEPS = []\n")
    write("app.py", GRAPH.partition("def chat")[0] + LOOP % (before, loop))
    return [node.name for node in read_program("app:graph").nodes]


@pytest.mark.parametrize(
    ("before", "loop"),
    [
        ("NAMES = ['review']", "chain(STEPS, NAMES)"),
        ("add_step(STEPS, os.environ['STEP'])", "STEPS"),
        ("registry.STEPS.append(os.environ['STEP'])", "registry.STEPS"),
        ("bisect.insort(STEPS, os.environ['STEP'])", "STEPS"),
        ("steps = globals()['STEPS']\nsteps.append(os.environ['STEP'])", "STEPS"),
        ("globals()['STEPS'].append(os.environ['STEP'])", "STEPS"),
        (f"{WITH_STEPS}self.__dict__.update(more)\n\n\nflow = Flow(ways=[os.environ['STEP']])", "flow.ways"),
        (f"{WITH_STEPS}setattr(self, *more.popitem())\n\n\nflow = Flow(ways=[llm.name])", "flow.ways"),
        ("push = STEPS.append\npush(os.environ['STEP'])", "STEPS"),
    ],
)
def test_a_list_that_other_code_may_fill_is_not_empty(write: Write, before: str, loop: str) -> None:
    assert len(list_nodes(write, before, loop)) == 2


@pytest.mark.parametrize("loop", ["[]", "STEPS", "chain(STEPS, ())"])
def test_a_loop_over_an_empty_list_adds_no_node(write: Write, loop: str) -> None:
    assert list_nodes(write, "", loop) == ["first"]


@pytest.mark.parametrize(
    ("changes", "nodes"),
    [
        ("", ["plan"]),
        ("if os.getenv('REVIEW'):\n    CONFIG['review'] = True\n", ["plan", "review"]),
        ("def configure(**more):\n    CONFIG.update(more)\n", ["plan", "review"]),
        ("def override(config):\n    config['review'] = True\noverride(CONFIG)\n", ["plan", "review"]),
        ("def load():\n    global CONFIG\n    CONFIG = {'review': True}\n", ["plan", "review"]),
        ("if os.getenv('REVIEW'):\n    CONFIG = {'review': True}\n", ["plan", "review"]),
    ],
)
def test_a_switch_of_a_file_is_known_unless_the_program_changes_it(
    write: Write, changes: str, nodes: list[str]
) -> None:
    write("config.yaml", "review: false\n")
    head = (
        "import os\nimport yaml\nfrom pathlib import Path\nCONFIG = yaml.safe_load(Path('config.yaml').read_text())\n"
    )
    build = "builder = StateGraph(MessagesState)\nbuilder.add_node('plan', chat)\nif CONFIG['review']:\n"
    build += "    builder.add_node('review', chat)\ngraph = builder.compile()\n"
    write("app.py", head + changes + GRAPH.partition("graph = ")[0].replace("PROMPT", "'Chat.'") + build)
    assert [node.name for node in read_program("app:graph").nodes] == nodes


EDGES = """
from library import install

STEPS = [{"name": "plan", "on": True}, {"name": "review", "on": False}]


def plan(state):
    return {"messages": [llm.invoke("Plan it.")]}


builder = StateGraph(MessagesState)
for step in STEPS:
    if step["on"]:
        builder.add_node(step["name"], plan)
builder.nodes["third"] = plan
install(builder)
builder.add_edge("plan", "review").add_edge("review", "plan").add_edge("third", "plan").add_edge("guard", "plan")
graph = builder.compile()
"""


def test_only_edges_of_nodes_that_a_loop_skips_are_left_out(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + EDGES)
    assert [edge.source for edge in read_program("app:graph").edges] == ["plan", "third", "guard"]


FRONT = """---
name: desk
---
You help at the desk.
"""
DESK = """
from pathlib import Path

import yaml

TEXT = Path("desk.md").read_text()
POLICY = yaml.safe_load(Path("policy.yaml").read_text())


def part(state):
    return {"messages": [llm.invoke(TEXT.split("---", 2)[2] + POLICY["tone"])]}


def whole(state):
    return {"messages": [llm.invoke(TEXT + Path("policy.yaml").read_text())]}


graph = StateGraph(MessagesState).add_node(part).add_node(whole).add_edge(START, "part").compile()
"""


@pytest.mark.parametrize(("first", "second"), [("part", "whole"), ("whole", "part")])
def test_a_whole_file_is_listed_beside_the_parts_that_others_send(write: Write, first: str, second: str) -> None:
    write("desk.md", FRONT)
    write("policy.yaml", "name: shop\ntone: Be kind to all.\n")
    nodes = f"add_node({first}).add_node({second})"
    write("app.py", GRAPH.partition("def chat")[0] + DESK.replace("add_node(part).add_node(whole)", nodes))
    used = {text.pieces: text.used_by for text in read_program("app:graph").texts}
    assert used == {
        (FRONT,): ("node whole",),
        ("You help at the desk.\n",): ("node part",),
        ("Be kind to all.",): ("node part",),
        ("name: shop\ntone: Be kind to all.\n",): ("node whole",),
    }


def test_an_agent_that_a_call_of_another_function_makes_is_not_left_out(write: Write) -> None:
    head = WORKERS.partition("def as_tool")[0].replace('"counter": [count]', '"counter": [count], "plain": [find]')
    nodes = "from langgraph.graph import StateGraph, MessagesState\nclass Team:\n    def __init__(self, name):\n"
    nodes += "        self.agent = make_worker(name, llm)\n    def work(self, state):\n"
    nodes += "        return self.agent.invoke(state)\ndef other(state):\n"
    nodes += "    return make_worker('plain', llm).invoke(state)\nbuilder = StateGraph(MessagesState)\n"
    nodes += "builder.add_node('a', Team('finder').work).add_node('b', Team('counter').work).add_node(other)\n"
    write("app.py", head + nodes + "graph = builder.compile()\n")
    assert {agent.name for agent in read_program("app:graph").agents} >= {"finder", "counter", "plain"}


def test_a_model_that_sends_the_schema_in_json_mode_has_its_texts(write: Write) -> None:
    given = GRAPH.replace("langchain_openai", "langchain_anthropic").replace("ChatOpenAI", "ChatAnthropic")
    asked = given.replace("llm.invoke", "llm.with_structured_output(Plan, method='json_mode').invoke")
    write("app.py", SCHEMA + asked)
    assert sorted("".join(text.pieces) for text in read_program("app:graph").texts) == ["Chat.", "Write a plan."]


UNSENT = """
from dataclasses import dataclass

from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool

CITIES = ["Paris text.", "Berlin text."]
ROWS = [{"log": {"topic": "Row topic."}}]


@dataclass
class LogEntry:
    topic: str


def make_entry():
    return LogEntry(topic="Internal log topic.")


@tool
def find(word: str):
    \"""Find a word.\"""
    for city in CITIES:
        if city in word:
            return len(city)


def chat(state):
    print(make_entry().topic)
    for row in ROWS:
        print(row["log"]["topic"])
    chain = {"topic": lambda _: "Sent topic.", "note": lambda _: "Unsent note."} | PROMPT | llm
    return {"topic": "x", "log": {"topic": "Written topic."}, "messages": [chain.invoke(state)]}


def end(state):
    for row in load():
        llm.bind_tools([find]).invoke(row["log"]["topic"] + state["topic"])
    return state


PROMPT = ChatPromptTemplate.from_template("Talk of {topic}.")
graph = StateGraph(MessagesState).add_node(chat).add_node(end).add_edge(START, "chat").compile()
"""


def test_what_no_model_is_sent_is_no_text(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + UNSENT)
    found = sorted("{}".join(text.pieces) for text in read_program("app:graph").texts)
    assert found == ["Find a word.", "Sent topic.", "Talk of {}.", "x"]


def test_items_that_nodes_add_to_each_other_are_followed_once(write: Write) -> None:
    node = "def n{0}(state):\n    text = state['plan']['text']\n    llm.invoke(text)\n"
    node += "    return {{'plan': {{'text': text + 'Plus {0}.'}}}}\nbuilder.add_node(n{0})\n"
    nodes = "".join(node.format(number) for number in range(150))
    head = GRAPH.partition("def chat")[0] + "builder = StateGraph(MessagesState)\n"
    write("app.py", head + nodes + "graph = builder.compile()\n")
    found = read_program("app:graph").texts
    assert len(found) == 150
    assert {len(text.used_by) for text in found} == {150}


def test_fields_that_nodes_make_of_each_other_in_a_long_chain_are_followed(write: Write) -> None:
    node = "def n{0}(state):\n    text = state['f{1}'] + 'Plus {0}.'\n    llm.invoke(text)\n"
    node += "    return {{'f{0}': text}}\nbuilder.add_node(n{0})\n"
    nodes = "".join(node.format(number, number - 1) for number in range(1, 301))
    head = GRAPH.partition("def chat")[0] + "builder = StateGraph(MessagesState)\n"
    write("app.py", head + nodes + "graph = builder.compile()\n")
    used = {"".join(text.pieces): len(text.used_by) for text in read_program("app:graph").texts}
    assert used == {f"Plus {number}.": 301 - number for number in range(1, 301)}


def test_a_class_of_many_diamonds_is_ordered_at_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    diamond = "class A{1}(A{0}): pass\nclass B{1}(A{0}): pass\nclass A{2}(A{1}, B{1}): pass\n"
    classes = "class A0:\n    text = 'Chat.'\n" + "".join(diamond.format(n, n + 1, n + 2) for n in range(0, 24, 2))
    write("app.py", f"{classes}PROMPT = A24().text\n{GRAPH}")
    asked, known = list[str](), Program.list_bases

    def list_bases(program: Program, of: Traced) -> Iterator[Traced]:
        asked.append(of.node.name)
        return known(program, of)

    monkeypatch.setattr(Program, "list_bases", list_bases)
    assert [text.pieces for text in read_program("app:graph").texts] == [("Chat.",)]
    assert len(asked) < 2000


def test_each_early_return_is_asked_once_and_not_for_every_line_behind_it(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    returns = "".join(f"    if state['n'] == {number}:\n        return 'Say {number}.'\n" for number in range(150))
    sent = "def pick(state):\n" + returns + "    return 'Say no more.'\n"
    sent += "def node(state):\n    llm.invoke(pick(state))\nbuilder.add_node(node)\n"
    write(
        "app.py",
        GRAPH.partition("def chat")[0] + f"builder = StateGraph(MessagesState)\n{sent}graph = builder.compile()\n",
    )
    asked, known = list[str](), Program.is_skipped

    def is_skipped(program: Program, test: ast.expr, at: Surroundings) -> bool:
        asked.append(ast.unparse(test))
        return known(program, test, at)

    monkeypatch.setattr(Program, "is_skipped", is_skipped)
    found = read_program("app:graph").texts
    assert {text.pieces for text in found} == {(f"Say {said}.",) for said in (*range(150), "no more")}
    assert len(asked) < 20 * 150


PLACED = """
from dataclasses import dataclass

from langgraph.types import Send


@dataclass
class Job:
    number: int
    ask: str


def list_more():
    yield "Judge it."


def list_asked():
    yield "Plan it."
    yield from list_more()


def chat(job: Job):
    return {"messages": [llm.invoke(job.ask)]}


def fan_out(state):
    return [Send("chat", Job(1, "Solve it.")), *(Send("chat", Job(2, ask)) for ask in list_asked())]


graph = StateGraph(MessagesState).add_node(chat).add_conditional_edges(START, fan_out, ["chat"]).compile()
"""


def test_what_a_sent_object_is_given_by_place_and_a_generator_of_another_is_followed(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + PLACED)
    found = sorted(text.pieces for text in read_program("app:graph").texts)
    assert found == [("Judge it.",), ("Plan it.",), ("Solve it.",)]


DECORATED = """
import functools


class WithRules:
    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return "Follow the rules. " + self.function(*args, **kwargs)


class Prefixed:
    def __init__(self, prefix):
        self.prefix = prefix

    def __call__(self, function):
        def inner(*args):
            return self.prefix + function(*args)
        return inner


def signed(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) + " Sign it."
    return inner


class Counted:
    def __init__(self, node):
        self.node, self.count = node, 0

    def __call__(self, state):
        llm.invoke("Count it.")
        return self.node(state)


@WithRules
def plan(topic):
    return "Plan: " + topic


@Prefixed("Be kind. ")
@signed
def ask(topic):
    return "Ask: " + topic


def chat(state):
    return {"messages": [llm.invoke(plan("Paris"))]}


@Counted
def other(state):
    return {"messages": [llm.invoke(ask("Rome"))]}


graph = StateGraph(MessagesState).add_node(chat).add_node("other", other).add_edge(START, "chat").compile()
"""


def test_what_decorators_of_a_function_add_to_its_text_is_followed(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + DECORATED)
    used = {"".join(text.pieces): text.used_by for text in read_program("app:graph").texts}
    by_chat = dict.fromkeys(("Follow the rules. ", "Plan: ", "Paris"), ("node chat",))
    by_other = dict.fromkeys(("Be kind. ", " Sign it.", "Ask: ", "Rome", "Count it."), ("node other",))
    assert used == by_chat | by_other


REPLACED = """
def finish(parts, last):
    parts.append("Be brief.")
    parts += [last]
    return " ".join(parts)


def soften(text, kind=False):
    text = text + " Please."
    if kind:
        text = f"Kindly: {text}"
    return text


def choose(text=None):
    if text is None:
        text = "Nothing was passed."
    return text


def replace(text):
    text = "In its place."
    return text


def chat(state):
    asked = [finish(["Answer."], "End."), soften("Sum up.", kind=True), choose("Chosen."), replace("Unsent.")]
    return {"messages": [llm.invoke(text) for text in asked]}


graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()
"""


def test_what_a_function_adds_to_an_argument_or_puts_in_its_place_is_followed(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + REPLACED)
    found = sorted("{}".join(text.pieces) for text in read_program("app:graph").texts)
    kept = ["Answer.", "Be brief.", "Chosen.", "End.", "In its place.", "Kindly: {}", "Sum up."]
    assert found == [" Please.", *kept]


CACHED = """
TEXTS = {"chat": "Chat.", "plan": "Plan.", "sum": "Sum up.", "list": "List it.", "never": "Unsent."}


class Prompts:
    def __init__(self):
        self.known = {}

    def __getitem__(self, name):
        if name not in self.known:
            self.known[name] = TEXTS[name]
        return self.known[name]


class Missing(dict):
    def __missing__(self, name):
        self[name] = "It is: " + TEXTS[name]
        return self[name]


class Named:
    def __getattr__(self, name):
        return TEXTS[name]


class Got:
    def __init__(self):
        self.known = {}

    def find(self, name):
        text = self.known.get(name)
        if text is None:
            text = self.known[name] = TEXTS[name]
        return text


prompts, got = Prompts(), Got()


def chat(state):
    return {"messages": [llm.invoke(prompts["chat"] + Missing()["plan"])]}


def end(state):
    return {"messages": [llm.invoke(Named().sum + got.find("list"))]}


graph = StateGraph(MessagesState).add_node(chat).add_node(end).add_edge(START, "chat").compile()
"""


def test_an_item_that_an_object_makes_when_it_is_asked_is_followed_by_its_key(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + CACHED)
    used = {"".join(text.pieces): text.used_by for text in read_program("app:graph").texts}
    by_chat = dict.fromkeys(("Chat.", "Plan.", "It is: "), ("node chat",))
    assert used == by_chat | dict.fromkeys(("Sum up.", "List it."), ("node end",))


DOCUMENTS = """
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

DOCUMENTS = [Document("The door closes at nine.", metadata={"title": "House rules", "id": "Unsent id."})]
STORED = [Document(page_content="Pets are welcome.", metadata={"source": "Pet rules", "id": "Unsent number."})]
store = InMemoryVectorStore.from_documents(STORED, embeddings)
retriever = InMemoryVectorStore.from_texts(["Pay."], embeddings, metadatas=[{"source": "Prices"}]).as_retriever()


def chat(state):
    shown = "".join(f"{part.metadata['title']}{part.page_content}" for part in DOCUMENTS)
    return {"messages": [llm.invoke(shown)]}


def search(state):
    found = store.similarity_search("Unsent question.")
    return {"messages": [llm.invoke("".join(part.metadata["source"] for part in found))]}


def retrieve(state):
    return {"found": retriever.invoke("Unsent query.")}


def end(state):
    shown = [part.page_content + part.metadata.get("source", "") for part in state["found"]]
    return {"messages": [llm.invoke("".join(shown))]}


builder = StateGraph(MessagesState).add_node(chat).add_node(search).add_node(retrieve).add_node(end)
graph = builder.add_edge(START, "chat").compile()
"""


def test_metadata_of_documents_is_followed_where_it_is_sent(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + DOCUMENTS)
    used = {"{}".join(text.pieces): text.used_by for text in read_program("app:graph").texts}
    by_chat = dict.fromkeys(("The door closes at nine.", "House rules"), ("node chat",))
    assert used == by_chat | {"Pet rules": ("node search",)} | dict.fromkeys(("Pay.", "Prices"), ("node end",))


@pytest.mark.parametrize("placeholder", ["MessagesPlaceholder('messages')", "('placeholder', '{messages}')"])
def test_messages_that_a_placeholder_takes_in_are_followed(write: Write, placeholder: str) -> None:
    head = "from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder\n"
    made = f"chain = ChatPromptTemplate.from_messages([('system', 'Serve {{user}}.'), {placeholder}]) | llm\n"
    asked = "state = {**state, 'messages': [('user', 'Ask again.')]}\n    return {'messages': [chain.invoke(state)]}"
    node = GRAPH.replace('return {"messages": [llm.invoke([("system", PROMPT), *state["messages"]])]}', asked)
    write("app.py", head + node.replace("\n\n\ndef chat", f"\n{made}\n\ndef chat"))
    assert [text.pieces for text in read_program("app:graph").texts] == [("Serve ", "."), ("Ask again.",)]


@pytest.mark.parametrize(
    "asked",
    [
        "llm.invoke('{tone}'.format(**PARTS))",
        "llm.invoke('{tone}'.format_map(PARTS))",
        "llm.invoke('{tone}'.format(tone=PARTS['tone'], topic='Unsent.'))",
        "llm.invoke('%(tone)s' % PARTS)",
        "llm.invoke(Template('$tone').substitute(PARTS))",
        "llm.invoke(PromptTemplate.from_template('{tone}').invoke(PARTS))",
        "llm.invoke(PromptTemplate.from_template('{tone}').format(**PARTS))",
        "(PromptTemplate.from_template('{tone}') | llm).invoke(PARTS)",
        "(PromptTemplate.from_template('{tone}').partial(tone=PARTS['tone']) | llm).invoke({'topic': 'Unsent.'})",
        "(ChatPromptTemplate.from_messages([SystemMessage(''), ('user', f'{DOT}{{tone}}')]) | llm).invoke(PARTS)",
    ],
)
def test_what_no_hole_of_a_template_names_is_not_filled_into_it(write: Write, asked: str) -> None:
    head = "from string import Template\nfrom langchain_core.prompts import ChatPromptTemplate, PromptTemplate\n"
    head += "from langchain_core.messages import SystemMessage\nDOT = '.'\n"
    head += "PARTS = {'tone': 'Be kind.', 'topic': 'Unsent topic.'}\n"
    write("app.py", head + GRAPH.replace('llm.invoke([("system", PROMPT), *state["messages"]])', asked))
    assert [text.pieces for text in read_program("app:graph").texts] == [("Be kind.",)]


RESULTS = """
import json

from langchain_core.tools import tool

PRICES = {"tea": "Tea costs two euros.", "milk": "Milk costs one euro."}


class Shelf:
    def describe(self, item):
        return self.rows[item] if item in self.rows else f"There is no {item}."


shelf = Shelf()


@tool
def find_price(item: str) -> str:
    \"""Find a price.\"""
    return PRICES.get(item, f"Nobody sells {item}.")


@tool
def describe(items: list) -> str:
    \"""Describe items.\"""
    return "; ".join(shelf.describe(item) for item in items)


@tool
def search(queries: list) -> str:
    \"""Search pages.\"""
    found = [f"Nothing about {query}." for query in queries]
    return json.dumps({"note": "See below."}) + "\\n".join(found) or "Ask for something."


def chat(state):
    return {"messages": [llm.bind_tools([find_price, describe, search]).invoke(state["messages"])]}


graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()
"""


def test_what_a_tool_returns_of_a_table_of_an_object_and_of_joined_texts_is_listed(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + RESULTS)
    texts = read_program("app:graph").texts
    assert {"{}".join(text.pieces): text.used_by for text in texts if text.role == "tool result"} == {
        "Tea costs two euros.": ("tool find_price",),
        "Milk costs one euro.": ("tool find_price",),
        "Nobody sells {}.": ("tool find_price",),
        "There is no {}.": ("tool describe",),
        "Nothing about {}.": ("tool search",),
        "See below.": ("tool search",),
        "Ask for something.": ("tool search",),
    }


RANKED = """
from langchain_core.documents import Document

HANDBOOK = [Document(page_content="Work at home."), Document(page_content="Travel by train.")]


def retrieve(question, most):
    ranked = sorted(HANDBOOK, key=lambda part: part.page_content.count(question))
    return ranked[:most]


def find(state):
    return {"found": retrieve(state["messages"][-1].text, 2)}


def chat(state):
    return {"messages": [llm.invoke("".join(part.page_content for part in state["found"]))]}


graph = StateGraph(MessagesState).add_node(find).add_node(chat).add_edge(START, "find").compile()
"""


def test_documents_that_a_function_ranks_and_cuts_are_followed(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + RANKED)
    used = {text.pieces: text.used_by for text in read_program("app:graph").texts}
    assert used == dict.fromkeys((("Work at home.",), ("Travel by train.",)), ("node chat",))


BOUND = """
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

DATA = json.loads(Path("prompts.json").read_text())


@dataclass
class Reviewer:
    name: str
    system: str


REVIEWERS = {name: Reviewer(name, entry["system"]) for name, entry in DATA.items()}


class Review:
    def __init__(self, reviewers=REVIEWERS):
        self.reviewers = reviewers

    def review(self, state, *, reviewer):
        return {"messages": [llm.invoke([("system", reviewer.system), *state["messages"]])]}

    def build(self):
        builder = StateGraph(MessagesState)
        for name, reviewer in self.reviewers.items():
            builder.add_node(name, partial(self.review, reviewer=reviewer))
        return builder


graph = Review().build().compile()
"""


def test_a_method_that_partial_binds_for_each_node_sends_the_text_of_its_own(write: Write) -> None:
    write("prompts.json", '{"style": {"system": "Judge the style."}, "speed": {"system": "Judge the speed."}}')
    write("app.py", GRAPH.partition("def chat")[0] + BOUND)
    used = {text.pieces: text.used_by for text in read_program("app:graph").texts}
    assert used == {("Judge the style.",): ("node style",), ("Judge the speed.",): ("node speed",)}


HANDED_ON = """
from langchain_core.messages import SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langgraph.types import Command

LANGUAGES = {"de": "German"}
translate_chain = (
    RunnableParallel(
        language=RunnableLambda(lambda state: LANGUAGES[state["lang"]]), note=lambda state: "Unsent note."
    )
    | ChatPromptTemplate.from_template("Write {language}.")
    | llm
)
chat_chain = ChatPromptTemplate.from_template("Serve {user}.") | llm


def brief(state):
    asked = {"type": "override", "value": [SystemMessage("Lead the team.")]}
    return Command(goto="lead", update={"team_messages": asked, "user": "A guest.", "log": "Unsent log."})


def lead(state):
    return {"messages": [llm.invoke(state["team_messages"])]}


def translate(state):
    return {"messages": [translate_chain.invoke(state)]}


def chat(state):
    state = {**state, "time": "Unsent time."}
    return {"messages": [chat_chain.invoke(state)]}


builder = StateGraph(MessagesState).add_node(brief).add_node(lead).add_node(translate).add_node(chat)
graph = builder.add_edge(START, "brief").compile()
"""


def test_what_the_state_and_parallel_functions_fill_into_a_prompt_is_followed(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + HANDED_ON)
    used = {"{}".join(text.pieces): text.used_by for text in read_program("app:graph").texts}
    by_chat = {"Serve {}.": ("node chat",), "A guest.": ("node chat",)}
    by_translate = {"Write {}.": ("node translate",), "German": ("node translate",)}
    assert used == by_chat | by_translate | {"Lead the team.": ("node brief", "node lead")}


@pytest.mark.parametrize("template", ["'Talk. ' + state['more']", "load()", "f'{state} {{topic}}'", "state['whole']"])
def test_a_template_of_which_the_source_shows_a_part_may_have_any_hole(write: Write, template: str) -> None:
    asked = f"llm.invoke(({template}).format(topic='Rome.', tone='Be kind.'))"
    write("app.py", GRAPH.replace('llm.invoke([("system", PROMPT), *state["messages"]])', asked))
    assert {("Rome.",), ("Be kind.",)} <= {text.pieces for text in read_program("app:graph").texts}


FILLED = """
import json
from string import Template

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import RunnableLambda

PARTS = {"tone": "Be kind.", "topic": "Rome."}
HISTORY, TONE = "topic", "{tone}"
first = PromptTemplate.from_template("{tone}")
chat_prompt = ChatPromptTemplate.from_messages([("system", "{tone}")])
appended = ChatPromptTemplate.from_messages([("system", "{tone}")])
appended.append(("user", "{topic}"))
extended = ChatPromptTemplate.from_messages([("system", "{tone}")])
extended.messages.extend([MessagesPlaceholder("topic")])
parts = [("system", "{tone}")]
parts += [("user", "{topic}")]
placed = ChatPromptTemplate.from_messages([("system", "{tone}"), MessagesPlaceholder(HISTORY)])
named = ChatPromptTemplate.from_messages([("system", "{tone}"), MessagesPlaceholder(variable_name=HISTORY)])
more = "{tone} "


def fill(prompt):
    prompt.append(("user", "{topic}"))


def get_prompt():
    return got


got = ChatPromptTemplate.from_messages([("system", "{tone}")])
get_prompt().append(("user", "{topic}"))
filled = ChatPromptTemplate.from_messages([("system", "{tone}")])
fill(filled)


def build(x):
    return f"{json.dumps(x)}"


def unpack(x):
    tone, words = x["tone"], x["topic"]
    return [SystemMessage(f"{tone}"), HumanMessage(words)]


def chat(state):
    global more
    more += "{topic}"
    ASKED


graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()
"""


@pytest.mark.parametrize(
    "asked",
    [
        "((first + ' {topic}') | llm).invoke(PARTS)",
        "((chat_prompt + HumanMessage('') + ('user', '{topic}')) | llm).invoke(PARTS)",
        "((chat_prompt + appended) | llm).invoke(PARTS)",
        "(appended | llm).invoke(PARTS)",
        "(extended | llm).invoke(PARTS)",
        "(filled | llm).invoke(PARTS)",
        "(ChatPromptTemplate.from_messages(parts) | llm).invoke(PARTS)",
        "((first.partial(topic=PARTS['topic']) + ' {topic}') | llm).invoke({'tone': PARTS['tone']})",
        "(placed | llm).invoke(PARTS)",
        "(named | llm).invoke(PARTS)",
        "(PromptTemplate.from_template('{tone} {{topic}}', template_format=state['format']) | llm).invoke(PARTS)",
        "(got | llm).invoke(PARTS)",
        "llm.invoke((Template('$tone') if state else state['template']).substitute(PARTS))",
        "(RunnableLambda(build) | llm).invoke(PARTS)",
        "(RunnableLambda(unpack) | llm).invoke(PARTS)",
        "llm.invoke('{}'.format(PARTS))",
        "llm.invoke('{tone} {0}'.format(PARTS, tone=''))",
        "llm.invoke('%s' % PARTS)",
        "llm.invoke(more.format(**PARTS))",
        "llm.invoke(('{tone} {' + HISTORY + '}').format(**PARTS))",
        "llm.invoke(f'{{tone}} {{{HISTORY}}}'.format(**PARTS))",
        "llm.invoke(TONE.replace('tone', '{tone} {topic}').format(**PARTS))",
        "llm.invoke('{tone} {a topic}'.format(**{'tone': PARTS['tone'], 'a topic': PARTS['topic']}))",
        "llm.invoke('%(tone)s %(a topic)s' % {'tone': PARTS['tone'], 'a topic': PARTS['topic']})",
    ],
)
def test_all_that_is_filled_into_a_template_that_may_have_other_holes_is_kept(write: Write, asked: str) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + FILLED.replace("ASKED", asked))
    assert {("Be kind.",), ("Rome.",)} <= {text.pieces for text in read_program("app:graph").texts}


def test_what_a_dict_takes_in_of_a_field_of_the_state_is_filled(write: Write) -> None:
    head = "from langchain_core.prompts import PromptTemplate\n"
    made = "chain = PromptTemplate.from_template('{rules} {topic}') | llm\n"
    made += "def start(state):\n    return {'ctx': {'rules': 'Never promise.'}}\n"
    text = GRAPH.replace('[("system", PROMPT), *state["messages"]]', "''").replace(
        "    return", "    chain.invoke({**state['ctx'], 'topic': 'Rome.', 'other': 'Unsent.'})\n    return"
    )
    text = text.replace("\ndef chat", made + "\ndef chat").replace(".add_node(chat)", ".add_node(chat).add_node(start)")
    write("app.py", head + text)
    assert {text.pieces for text in read_program("app:graph").texts} == {("Never promise.",), ("Rome.",)}


@pytest.mark.parametrize("made", ["', '.join(sorted(FAQ))", "sorted(FAQ, key=len)", "list(FAQ)", "', '.join(FAQ)"])
def test_a_tool_that_returns_the_keys_of_a_dict_returns_none_of_its_values(write: Write, made: str) -> None:
    tool = "from langchain_core.tools import tool\nFAQ = {'pay': 'Pay by card.'}\n"
    tool += f'@tool\ndef topics():\n    """List topics."""\n    return {made}\n\n\n'
    text = GRAPH.replace("llm.invoke", "llm.bind_tools([topics]).invoke").replace('("system", PROMPT), ', "")
    write("app.py", tool + text)
    assert [text.pieces for text in read_program("app:graph").texts] == [("List topics.",)]


@pytest.mark.parametrize("made", ["PARTS", "sorted(PARTS)"])
def test_texts_of_a_list_of_which_items_are_replaced_are_followed(write: Write, made: str) -> None:
    write("app.py", f"PARTS = ['Chat.']\nPARTS[0] = 'Be kind.'\nPROMPT = ' '.join({made})\n" + GRAPH)
    assert {text.pieces for text in read_program("app:graph").texts} == {("Chat.",), ("Be kind.",)}


def test_a_node_has_the_name_that_a_function_makes_of_the_one_that_it_is_given(write: Write) -> None:
    wire = "def wire(builder, name):\n    name = name.lower()\n    builder.add_node(name, chat)\n\n\n"
    build = "builder = StateGraph(MessagesState)\nwire(builder, 'Chat')\ngraph = builder.compile()\n"
    write("app.py", GRAPH.partition("graph = ")[0].replace("PROMPT", "'Chat.'") + wire + build)
    assert [node.name for node in read_program("app:graph").nodes] == ["chat"]


HELD = """
import contextlib
from collections import defaultdict, namedtuple

from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langgraph.prebuilt import ToolNode
from langgraph.types import Send
from pydantic import BaseModel, Field

STYLES = defaultdict(lambda: "Be plain.", {"short": "Be short."})
Pair = namedtuple("Pair", "system, user")
PAIR = Pair("Serve the guest.", user="Ask the guest.")


class Plan(BaseModel):
    steps: list["Part"]


class Part(BaseModel):
    text: str = Field(description="Say what to do.")


@contextlib.contextmanager
def open_style():
    yield "Be open."


def recall(state):
    return "Recall it."


chain = RunnablePassthrough.assign(past=recall) | ChatPromptTemplate.from_template("Go on from {past}.") | llm


def chat(state):
    with open_style() as style:
        llm.invoke([("system", STYLES[state["style"]] + style + PAIR.system), ("user", PAIR.user)])
    llm.with_structured_output(Plan).invoke(state["messages"])
    return {"messages": [chain.invoke(state)], "topics": ["The sea.", "The sky."]}


def fan_out(state):
    return [Send("work", {"topic": topic}) for topic in state["topics"]]


def work(state):
    return {"messages": [llm.invoke(f"Write of {state['topic']}")]}


tools = ToolNode([], handle_tool_errors="The tool broke.")
builder = StateGraph(MessagesState).add_node(chat).add_node(work).add_node("tools", tools).add_edge(START, "chat")
graph = builder.add_conditional_edges("chat", fan_out, ["work"]).compile()
"""


def test_texts_in_collections_contexts_elements_of_fields_and_named_types_are_followed(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + HELD)
    used = {"{}".join(text.pieces): text.used_by for text in read_program("app:graph").texts}
    chat = ["Be plain.", "Be short.", "Serve the guest.", "Ask the guest.", "Say what to do.", "Be open.", "Recall it."]
    by_chat = dict.fromkeys([*chat, "Go on from {}."], ("node chat",))
    by_work = dict.fromkeys(("Write of {}", "The sea.", "The sky."), ("node work",))
    assert used == by_chat | by_work | {"The tool broke.": ("node tools",)}


@pytest.mark.parametrize(
    "made",
    [
        "parts + ['Be kind.']",
        "[*parts, 'Be kind.']",
        "[part.strip() for part in [*parts, 'Be kind.']]",
        "sorted(parts) + ['Be kind.']",
        "[first for first in [*parts, 'Be kind.'] for second in parts if first != second]",
        "[part for _, part in enumerate([*parts, 'Be kind.'])]",
    ],
)
def test_a_list_that_is_made_of_itself_is_iterated_over_once(write: Write, made: str) -> None:
    build = f"def build(state):\n    parts = ['Chat.']\n    if state:\n        parts = {made}\n"
    build += "    return ' '.join(part for part in parts if part)\n\n\n"
    write("app.py", build + GRAPH.replace("PROMPT", "build(state)"))
    assert [text.pieces for text in read_program("app:graph").texts] == [("Chat.",), ("Be kind.",)]


DISPATCHED = """from functools import singledispatch, singledispatchmethod


@singledispatch
def explain(part):
    return "Explain it."


@explain.register
def _(part: int):
    return "Explain a number."


@explain.register(list)
def explain_list(part):
    return "Explain a list."


class Desk:
    @singledispatchmethod
    def label(self, part):
        return "Label it."

    @label.register
    def _(self, part: int):
        return "Label a number."
"""
PARTIAL_METHOD = """from functools import partialmethod


class Desk:
    def ask(self, place, *, task, tone="Be brief."):
        return f"{self.rule} {place} {task} {tone}"

    rule = "Keep the rule."
    plan = partialmethod(ask, "At home.", task="Plan it.")


desk = Desk()
"""
VARIED = """from contextvars import ContextVar

tone = ContextVar("tone", default="Be calm.")


def change(text):
    tone.set(text)
    return tone.get()
"""
GATHERED = """import asyncio


async def ask(place):
    return f"Go to {place}."


async def ask_all(state, places):
    said = await asyncio.gather(*[ask(place) for place in places])
    return " ".join(text for text, _ in zip(said, places)) + state["notes"]
"""
AWAITED = """import asyncio
from other import memory


async def ask(place):
    return f"Go to {place}."


async def pick():
    ONE
    return TWO
"""
CALLS = "ask('town'), ask('port')"
REPLACED_MARKS = (
    "def fill(text, **slots):\n    for key in slots:\n        text = text.replace({}, slots[key])\n    return text\n"
)


@pytest.mark.parametrize(
    ("made", "prompt", "texts"),
    [
        (DISPATCHED, "explain(state)", ["Explain it.", "Explain a number.", "Explain a list."]),
        (DISPATCHED, "Desk().label(state)", ["Label it.", "Label a number."]),
        (PARTIAL_METHOD, "desk.plan()", ["Be brief.", "Keep the rule.", "At home.", "Plan it."]),
        (PARTIAL_METHOD, "desk.plan(tone='Be long.')", ["Keep the rule.", "At home.", "Plan it.", "Be long."]),
        (VARIED, "change('Be brisk.')", ["Be calm.", "Be brisk."]),
        (VARIED, "ContextVar('other').get('Be cold.')", ["Be cold."]),
        ("ONE, *REST = ['Plan it.', 'End it.']", "' '.join([ONE, *REST])", ["Plan it.", "End it."]),
        ("ONE, *REST = ['Plan it.', 'Solve it.', 'End it.']", "' '.join(REST)", ["Solve it.", "End it."]),
        ("*_, LAST = ['Plan it.', 'Solve it.', 'End it.']", "LAST", ["End it."]),
        ("_, *REST, LAST = ['Plan it.', 'Solve it.', 'End it.']", "REST[0]", ["Solve it."]),
        ("ONE, TWO = ('Plan it.',) + ('Solve it.',)", "TWO", ["Solve it."]),
        ("ONE, *REST = ('Plan it.',) + ('End it.',)", "' '.join(REST)", ["End it."]),
        ("from itertools import chain\nA, B = ['Go.'], ['Stop.']", "' '.join(chain(A, B))", ["Go.", "Stop."]),
        ("V = {'a': 'Plan it.'}\nV.update(b='Solve it.')", "' '.join(V.values())", ["Plan it.", "Solve it."]),
        ("V = {'a': 'Plan it.'}\nV.update(b='Solve it.')", "' '.join(V.keys())", []),
        ("FAQ = {'How much?': 'It is free.', 'dogs': 'They pay.'}", "' '.join([*FAQ])", ["How much?"]),
        ("FAQ = {'How much?': 'It is free.'}", "' '.join(sorted(FAQ))", ["How much?"]),
        ("A = {'a': 'Go.'}", "' '.join(f'{n} {text}' for n, (_, text) in enumerate(A.items()))", ["Go."]),
        ("from collections import deque\nA = deque(['Go.'])\nA.appendleft('Stop.')", "' '.join(A)", ["Go.", "Stop."]),
        ("from itertools import cycle\nA = cycle(['Go.', 'Stop.'])", "next(A)", ["Go.", "Stop."]),
        ("A = [['Go.'], ['Stop.']]", "' '.join(chain.from_iterable(A))", ["Go.", "Stop."]),
        ("A = ['Go.', 'Stop.']", "min(A, key=len)", ["Go.", "Stop."]),
        ("A = ['Go.', 'Stop.']", "str.join(' ', A)", ["Go.", "Stop."]),
        ("A = 'Go on.'", "A.center(9)", ["Go on."]),
        ("GO, STOP = 'Go.', 'Stop.'", "globals()['GO']", ["Go."]),
        ("GO_ON, STOP = 'Go.', 'Stop.'", "globals()[f'{state}_ON']", ["Go."]),
        ("class Texts:\n    GO = 'Go.'\n    STOP = 'Stop.'", "vars(Texts)['GO']", ["Go."]),
        ("class Texts:\n    GO = 'Go.'\n    STOP = 'Stop.'", "Texts.__dict__['STOP']", ["Stop."]),
        ("PROMPT = 'An old one.'\nPROMPT = 'Chat.'", "PROMPT", ["Chat."]),
        ("PROMPT = 'Old.'\nPROMPT += 'Go on.'\nPROMPT = 'Chat.'\nPROMPT += 'Stop.'", "PROMPT", ["Chat.", "Stop."]),
        ("PROMPT = 'By day.'\nif llm.name:\n    PROMPT = 'By night.'", "PROMPT", ["By day.", "By night."]),
        ("PROMPT = 'Chat.'\n\n\ndef late():\n    return PROMPT\n\n\nPROMPT = 'Later.'", "late()", ["Chat.", "Later."]),
        ("PROMPT = 'Chat.'\nPROMPT = PROMPT.strip()", "PROMPT", ["Chat."]),
        (GATHERED, "ask_all(state, state['places'])", ["Go to {}."]),
        *(
            (AWAITED.replace("ONE", first).replace("TWO", second), "pick()", texts)
            for first, second, texts in [
                (f"one, two = await asyncio.gather({CALLS})", "two", ["Go to {}.", "port"]),
                (f"made = await asyncio.gather({CALLS})", "made[0]", ["Go to {}.", "town"]),
                (f"made = await asyncio.gather({CALLS})", "made[-1]", ["Go to {}.", "port"]),
                (f"made = [asyncio.create_task(part) for part in ({CALLS})]", "await made[1]", ["Go to {}.", "port"]),
                ("made = [ask(part) for part in ('town', 'port')]", "await made[1]", ["Go to {}.", "port"]),
                ("made = asyncio.create_task(ask('port'))", "made.result()", ["Go to {}.", "port"]),
                ("made = [part for part in memory.gather('Go.', 'Stop.')]", "''.join(made)", []),
                ("made = memory.create_task('Go.')", "made", []),
            ]
        ),
        (REPLACED_MARKS.format('"{{" + key + "}}"'), "fill('Ask {{WHO}} now.', WHO='Ann')", ["Ask {} now.", "Ann"]),
        (REPLACED_MARKS.format('f"{{{{{key}}}}}"'), "fill('Ask {{WHO}} now.', WHO='Ann')", ["Ask {} now.", "Ann"]),
    ],
)  # fmt: skip
def test_texts_are_followed_through_what_python_offers(write: Write, made: str, prompt: str, texts: list[str]) -> None:
    before, node = GRAPH.split("\n\n\ndef chat")
    write("app.py", f"{before}\n{made}\n\n\ndef chat{node.replace('PROMPT', prompt)}")
    assert ["{}".join(text.pieces) for text in read_program("app:graph").texts] == texts


ADAPTED = """
from dataclasses import dataclass, replace


class Chat:
    def complete(self, text):
        return llm.invoke(text)


@dataclass
class Judge:
    view: str
    tone: str = "Be kind."

    def __call__(self, state):
        return {"messages": [Chat().complete(f"{self.view} {self.tone}")]}


taste = Judge("Judge the taste.")
smell = replace(taste, view="Judge the smell.", tone="Be strict.")
builder = StateGraph(MessagesState).add_node("taste", taste).add_node("smell", smell).add_edge(START, "taste")
graph = builder.compile()
"""


def test_fields_with_which_objects_are_made_are_followed_where_a_method_of_another_sends_them(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + ADAPTED)
    found = [text.pieces[0] for text in read_program("app:graph").texts]
    assert found == ["Be kind.", "Judge the taste.", "Judge the smell.", "Be strict."]
    assert [model.maker for model in read_program("app:graph").models] == ["ChatOpenAI"]  # and not Chat


NAMED_BY_DECORATOR = """
def node(name):
    def mark(function):
        function.node_name = name
        return function

    return mark


@node("plan")
def first(state):
    return {"messages": [llm.invoke("Plan it.")]}


builder = StateGraph(MessagesState)
for step in (first,):
    builder.add_node(step.node_name, step)
    builder.add_edge(START, step.node_name)
graph = builder.compile()
"""


def test_a_node_has_the_name_that_a_decorator_gives_its_function(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + NAMED_BY_DECORATOR)
    found = read_program("app:graph")
    assert ([node.name for node in found.nodes], found.opaque) == (["plan"], ())


TASKS_OF_REPLIES = """
from langgraph.func import entrypoint, task


class Trip:
    def __init__(self, city):
        self.city = city


class Hub:
    texts = {"pick": "Pick a city.", "plan": "Plan it."}

    def pull(self, name):
        return self.texts[name]


hub = Hub()


@task
async def pick(question):
    reply = await llm.ainvoke(hub.pull("pick") + question)
    return Trip(reply.text.split()[0])


@task
async def plan(trip):
    return (await llm.ainvoke(f"Go to {trip.city}. " + hub.pull("plan"))).text


@entrypoint()
async def travel(question):
    return await plan(await pick(question))
"""


def test_a_reply_of_another_function_and_a_hub_of_the_program_itself_give_no_text_of_their_own(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + TASKS_OF_REPLIES)
    found = {"{}".join(text.pieces): (text.role, text.used_by) for text in read_program("app:travel").texts}
    by_pick, by_plan = ("user", ("node pick",)), ("user", ("node plan",))
    assert found == {"Pick a city.": by_pick, "Go to {}. ": by_plan, "Plan it.": by_plan}


@pytest.mark.parametrize("handed", ["", ", {'loans': 'Go to the desk for loans.'}"])
def test_an_agent_has_a_tool_for_each_entry_of_a_dict_and_none_of_an_empty_one(write: Write, handed: str) -> None:
    made = "from typing import NamedTuple\nfrom langchain.agents import create_agent\n"
    made += "from langchain_core.tools import tool\n\n\n"
    made += "class Desk(NamedTuple):\n    name: str\n    ways: dict = {}\n\n\ndef hand_over(to, why):\n"
    made += "    @tool(f'go_to_{to}', description=why)\n    def go():\n        return 'Moved.'\n\n    return go\n\n\n"
    made += "def make(desk):\n    return create_agent(llm, [hand_over(to, why) for to, why in desk.ways.items()])\n\n\n"
    write("app.py", f"{GRAPH.partition('def chat')[0]}{made}graph = make(Desk('cards'{handed}))\n")
    [agent] = read_program("app:graph").agents
    assert agent.tools == (("go_to_loans",) if "loans" in handed else ())


def test_a_message_in_a_file_has_its_role_and_all_files_of_a_folder_are_listed(write: Write) -> None:
    write("p.json", '{"ask": {"role": "system", "content": "Ask the guest."}}')
    write("texts/plan.md", "Plan it.")
    write("texts/solve.txt", "Solve it.")
    write("app.md", "Be brief.")
    made = "import json\nfrom pathlib import Path\n\nASK = json.load(open('p.json'))['ask']\n"
    made += "TEXTS = {path.stem: path.read_text() for path in Path('texts').glob('*')}\n"
    made += "BRIEF = Path(__file__).with_suffix('.md').read_text()\n"
    asked = GRAPH.replace('[("system", PROMPT), ', '[ASK, ("user", TEXTS["solve"] + BRIEF), ')
    write("app.py", made + asked)
    found = [(text.role, *text.pieces) for text in read_program("app:graph").texts]
    assert found == [("user", "Be brief."), ("system", "Ask the guest."), ("user", "Solve it.")]


def test_texts_on_one_line_of_toml_are_several(write: Write) -> None:
    write("p.toml", 'hints = ["Plan it.", "Solve it."]\n')
    loaded = "import tomllib\nPROMPT = ' '.join(tomllib.load(open('p.toml', 'rb'))['hints'])\n"
    write("app.py", loaded + GRAPH)
    found = [(*text.pieces, text.column, text.end_column) for text in read_program("app:graph").texts]
    assert found == [("Plan it.", 10, 18), ("Solve it.", 22, 31)]


WAITING = """
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from pydantic import Field, create_model

Step = create_model("Step", __doc__="A step.", text=(str, Field(description="Say what to do.")))


class Plan(BaseModel):
    steps: list[Step]


@tool
def book(day: str) -> str:
    "Book a day."
    return interrupt(day)


class Pay(BaseTool):
    name: str = "pay"
    description: str = "Pay a bill."

    def _run(self, bill: str) -> str:
        return interrupt(bill)


TOOLS = {made.name: made for made in (book, Pay())}


def chat(state):
    llm.with_structured_output(Plan).invoke("Plan it.")
    return {"messages": [llm.bind_tools([*TOOLS.values()]).invoke(state["messages"])]}


def work(state):
    return {"messages": [TOOLS[call["name"]].invoke(call) for call in state["messages"][-1].tool_calls]}


lists = create_agent(llm, [], middleware=[TodoListMiddleware(tool_description="Keep a list.")])
builder = StateGraph(MessagesState).add_node(chat).add_node("lists", lists).add_node(WORK).add_edge(START, "chat")
graph = builder.add_edge("chat", "lists").compile()
"""


@pytest.mark.parametrize(
    ("node", "pauses"),
    [
        ("work", [("book", "interrupt in a tool"), ("pay", "interrupt in a tool")]),
        ("'work', ToolNode([book, Pay()])", [("work", "interrupt"), ("work", "interrupt")]),
    ],
)
def test_interrupts_in_tools_and_schemas_in_schemas_are_listed(
    write: Write, node: str, pauses: list[tuple[str, str]]
) -> None:
    program = WAITING.replace("WORK", node).replace("import Field", "import BaseModel, Field")
    write("app.py", GRAPH.partition("def chat")[0] + program)
    found = read_program("app:graph")
    assert [(pause.node, pause.kind) for pause in found.interrupts] == pauses
    kinds = {"".join(text.pieces): text.kind for text in found.texts if text.used_by}
    assert kinds == {
        "A step.": "docstring",
        "Say what to do.": "field description",
        "Plan it.": "constant",
        "Keep a list.": "tool description",
        "Book a day.": "docstring",
        "Pay a bill.": "tool description",
    }


GIVEN_BY_SUPER = """
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, StructuredTool


class Look(BaseTool):
    name: str = "look"
    description: str = ""

    def __init__(self, kind):
        super().__init__(description=f"Look for {kind}.")

    def _run(self, q):
        return q


class Step:
    def __init_subclass__(cls, prompt):
        cls.prompt = prompt

    def __call__(self, state):
        return {"messages": [llm.invoke(self.prompt)]}


class Plan(Step, prompt="Plan it."):
    pass


class Solve(Step, prompt="Never sent."):
    def __call__(self, state):
        return {"messages": [llm.invoke("Solve it.")]}


def walk(city):
    return city


schema = {"type": "object", "properties": {"city": {"type": "string", "description": "Name a city."}}}
walking = StructuredTool.from_function(walk, name="walk", description="Walk on.", args_schema=schema)
agent = create_agent(llm, [Look("wine"), walking])
builder = StateGraph(MessagesState).add_node("plan", Plan()).add_node("solve", Solve()).add_node("agent", agent)
graph = builder.add_edge(START, "plan").add_edge("plan", "solve").add_edge("solve", "agent").compile()
"""


def test_a_class_has_what_it_gives_its_base_class_and_a_tool_the_arguments_of_a_dict(write: Write) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + GIVEN_BY_SUPER)
    found = read_program("app:graph")
    assert [tool.description for tool in found.tools] == ["Walk on.", "Look for wine."]
    used = {"{}".join(text.pieces): text.used_by[0] for text in found.texts}
    agent = dict.fromkeys(("Look for {}.", "wine", "Name a city.", "Walk on."), "node agent")
    assert used == agent | {"Plan it.": "node plan", "Solve it.": "node solve"}


REBOUND = "prompt = 'Text 0.'\n" + "".join(f"    prompt = prompt + ' Text {n}.'\n" for n in range(1, 41))
NODES = [f"n{n}" for n in range(20)]
REBUILT = "".join(
    f'builder = builder.add_node("{name}", chat)\nbuilder = builder.add_edge("{before}", "{name}")\n'
    for before, name in zip(["__start__", *NODES], NODES, strict=False)
)


def test_a_name_that_is_bound_anew_many_times_keeps_all_its_texts_and_nodes(write: Write) -> None:
    program = GRAPH.replace("return {", f"{REBOUND}    return {{").replace("PROMPT", "prompt").partition("graph =")[0]
    write("app.py", f"{program}builder = StateGraph(MessagesState)\n{REBUILT}graph = builder.compile()\n")
    found = read_program("app:graph")
    assert {"".join(text.pieces).strip() for text in found.texts} == {f"Text {n}." for n in range(41)}
    assert [node.name for node in found.nodes] == NODES
    assert len(found.edges) == len(NODES)


PRINTER = """
from functools import singledispatch


@singledispatch
def show(part):
    return "Any."


""" + "".join(
    f"@show.register\ndef _(part: T{n}):\n    return 'Show {n}.' + ''.join(show(inner) for inner in part.inner)\n\n\n"
    for n in range(24)
)


def test_functions_of_singledispatch_that_call_each_other_are_read_once(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("app.py", PRINTER + GRAPH.replace("PROMPT", "show(state['tree'])"))
    assert count_steps(monkeypatch) < 5_000
    found = read_program("app:graph")
    assert {"".join(text.pieces) for text in found.texts} == {"Any.", *(f"Show {n}." for n in range(24))}


MADE_ABOVE = """
from langchain.agents import create_agent
from langchain_core.tools import BaseTool

TEXTS = {"plan": "Plan the trip."}


class Step:
    def __init__(self, prompt, tone):
        self.prompt = TEXTS[prompt]
        self.tone = tone.upper()

    def __call__(self, state):
        return {"messages": [llm.invoke(self.prompt + self.tone)]}


class Plan(Step):
    def __init__(self):
        super().__init__(prompt="plan", tone="Be strict.")


class Switch(BaseTool):
    name: str = "switch"
    description: str = "Switch the light."

    def _run(self):
        return ""

    def disable(self):
        self.description = "It is off."


class Named(BaseTool):
    name: str = "named"
    description: str = ""

    def __init__(self, description):
        super().__init__(description=description)

    def _run(self):
        return ""


class Look(Named):
    def __init__(self):
        super().__init__(description="Look for wine.")


class Ring(BaseTool):
    name: str = "ring"
    description: str = "Ring a bell."

    def __init__(self):
        super().__init__()
        self.tune()

    def tune(self):
        self.description = "Ring the church bell."

    def _run(self):
        return ""


agent = create_agent(llm, [Switch(), Look(), Ring()])
builder = StateGraph(MessagesState).add_node("plan", Plan()).add_node("agent", agent)
graph = builder.add_edge(START, "plan").add_edge("plan", "agent").compile()
"""


def test_a_base_class_of_the_program_makes_of_an_argument_what_it_likes_and_a_tool_is_described_as_it_is_made(
    write: Write,
) -> None:
    write("app.py", GRAPH.partition("def chat")[0] + MADE_ABOVE)
    found = read_program("app:graph")
    described = [tool.description for tool in found.tools]
    assert described == ["Switch the light.", "Look for wine.", "Ring the church bell."]
    texts = {"".join(text.pieces) for text in found.texts if text.used_by}
    assert texts == {"Plan the trip.", "BE STRICT.", *described}


def test_texts_of_one_line_of_toml_are_found_behind_their_key(write: Write) -> None:
    toml = 'title = "Be kind to all."\n# Be brief with all.\nhints = ["Now be kind to all.", "be kind to all.", '
    write("texts.toml", toml + '"Be brief with all."]\n')
    load = "import tomllib\nfrom pathlib import Path\nTEXTS = tomllib.loads(Path('texts.toml').read_text())\n"
    write("app.py", load + GRAPH.replace("PROMPT", "' '.join(TEXTS['hints'])"))
    columns = {"".join(text.pieces): (text.line, text.column) for text in read_program("app:graph").texts}
    line = toml.splitlines()[-1]
    assert columns == {
        "Now be kind to all.": (3, line.index("Now")),
        "be kind to all.": (3, line.index('"be') + 1),
        "Be brief with all.": (3, len(line) + 1),
    }


PARTIALS = """
from functools import partial, partialmethod


def ask(text, *, tone):
    return llm.invoke(text + tone)


warm = partial(ask, tone="Be warm.")


class Asking:
    def ask(self, text, *, tone):
        return llm.invoke(text + tone)

    cold = partialmethod(ask, tone="Be cold.")


HINT_a = "A hint."


def chat(state):
    warm("Greet.")
    Asking().cold("Part.")
    return {"messages": [llm.invoke(globals()["HINT_" + state["kind"]])]}
"""


def test_what_calls_of_a_partial_pass_and_sums_of_names_are_followed(write: Write) -> None:
    head, _, graph = GRAPH.partition("\n\ngraph = ")
    write("app.py", head.partition("def chat")[0] + PARTIALS + "\n\ngraph = " + graph)
    texts = {"".join(text.pieces) for text in read_program("app:graph").texts if text.used_by}
    assert texts == {"Be warm.", "Be cold.", "Greet.", "Part.", "A hint."}


RUNNING = """
import subprocess
from functools import partial


def ask(text):
    return llm.invoke(text)


def report(warm):
    warm("Begun.")


def chat(state):
    run = partial(ask)
    warm = partial(ask)
    subprocess.run("ls /tmp")
    report(print)
    return {"messages": [run("Run it."), warm("Warm up.")]}
"""


def test_only_calls_of_the_name_that_holds_a_partial_pass_it_something(write: Write) -> None:
    head, _, graph = GRAPH.partition("\n\ngraph = ")
    write("app.py", head.partition("def chat")[0] + RUNNING + "\n\ngraph = " + graph)
    texts = {"".join(text.pieces) for text in read_program("app:graph").texts if text.used_by}
    assert texts == {"Run it.", "Warm up."}


PAYING = """
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.types import interrupt


@tool
def pay(bill: str) -> str:
    "Pay a bill."
    return interrupt(bill)


def chat(state):
    return create_agent(llm, [pay]).invoke(state)
"""


def test_a_node_waits_where_a_tool_of_its_agent_does(write: Write) -> None:
    head, _, graph = GRAPH.partition("\n\ngraph = ")
    write("app.py", head.partition("def chat")[0] + PAYING + "\n\ngraph = " + graph)
    assert [(pause.node, pause.kind) for pause in read_program("app:graph").interrupts] == [("chat", "interrupt")]


def read_chat(write: Write, body: str) -> set[str]:
    """Read the texts of a program whose node `chat` is given, behind the model's line."""
    head, _, graph = GRAPH.partition("\n\ngraph = ")
    write("app.py", head.partition("def chat")[0] + body + "\n\ngraph = " + graph)
    return {"{}".join(text.pieces) for text in read_program("app:graph").texts if text.used_by}


NAMED_METHODS = """
from collections import deque

queue = deque(["First, greet."])
queue.appendleft("Before all, bow.")
first = queue.popleft()
rules = []
add, put = rules.append, rules.extend
add("Be brief.")
put(["Be kind.", "Be sure."])
settings = {"system": "You chat.", "old": "You chatted."}
system = settings.pop("system")


def chat(state):
    last = state["messages"].pop()
    return {"messages": [llm.invoke([("system", system), ("user", first + "\\n".join(rules)), last])]}
"""


def test_names_of_methods_and_what_is_taken_out_of_collections_are_followed(write: Write) -> None:
    texts = {"You chat.", "First, greet.", "Before all, bow.", "Be brief.", "Be kind.", "Be sure."}
    assert read_chat(write, NAMED_METHODS) == texts


POPPED_BY_KEY = """
TEXTS = {"short": "Be short.", "long": "Be long."}


def chat(state):
    texts = dict(TEXTS)
    return {"messages": [llm.invoke(texts.pop(state["length"], "Be as you are."))]}
"""


def test_what_an_unknown_key_takes_out_of_a_dict_is_a_value_or_the_default(write: Write) -> None:
    assert read_chat(write, POPPED_BY_KEY) == {"Be short.", "Be long.", "Be as you are."}


def test_a_stack_that_is_popped_and_pushed_many_times_has_all_its_texts(write: Write) -> None:
    lines = "".join(f"    top = stack.pop()\n    stack.append(top + ' Text {number}.')\n" for number in range(1, 40))
    renamed = "".join(f"    t{n} = stack.pop()\n    stack.append(t{n} + ' Text {n}.')\n" for n in range(40, 80))
    head = f"def chat(state):\n    stack = ['Text 0.']\n{lines}{renamed}"
    texts = read_chat(write, f"{head}    return {{'messages': [llm.invoke(stack.pop())]}}")
    assert {text.strip() for text in texts} == {f"Text {number}." for number in range(80)}


ALIASED_BUILDER = GRAPH.replace(
    'graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").compile()',
    """
def build():
    builder = StateGraph(MessagesState)
    node, edge = builder.add_node, builder.add_edge
    node(chat)
    edge(START, "chat")
    return builder.compile()


graph = build()
""",
)


def test_nodes_and_edges_are_read_where_names_stand_for_methods_of_the_builder(write: Write) -> None:
    write("app.py", "PROMPT = 'Chat.'\n" + ALIASED_BUILDER)
    inventory = read_program("app:graph")
    assert [node.name for node in inventory.nodes] == ["chat"]
    assert [(edge.source, edge.ends) for edge in inventory.edges] == [("__start__", ("chat",))]


PATCHED = """
class Rules:
    def list(self):
        return "Be brief."


kept = Rules.list


def more(self):
    return kept(self) + "Be kind."


Rules.list = more
add = [].append


def chat(state, add=print):
    add("Said to nobody.")
    return {"messages": [llm.invoke(Rules().list())]}
"""


def test_a_method_that_is_replaced_or_a_name_that_is_another_in_a_function_stays_a_name(write: Write) -> None:
    assert {"Be brief."} <= read_chat(write, PATCHED) <= {"Be brief.", "Be kind."}


FLUENT = """
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Prompt:
    head: str = ""
    rules: tuple = ()
    tail: str = ""

    def role(self, text):
        return replace(self, head=text)

    def rule(self, text):
        return replace(self, rules=(*self.rules, text))

    def __add__(self, text):
        return replace(self, tail=self.tail + text)

    def __str__(self):
        return "\\n".join([self.head, *(f"* {rule}" for rule in self.rules), self.tail])


BASE = Prompt().rule("Rule one.").rule("Rule two.").rule("Rule three.")
CHATTY = BASE.role("You chat.").rule("Rule four.").rule("Rule five.") + "The end." + "The very end."
SILENT = BASE.role("You are silent.")


def chat(state):
    return {"messages": [llm.invoke(str(CHATTY))]}
"""


def test_a_prompt_that_many_calls_build_step_by_step_is_whole(write: Write) -> None:
    rules = {f"Rule {number}." for number in ("one", "two", "three", "four", "five")}
    assert read_chat(write, FLUENT) == {"You chat.", *rules, "The end.", "The very end."}


STEPS = """
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Prompt:
    head: str = "Head."
    rules: tuple = ()
    notes: dict = field(default_factory=dict)

    def rule(self, text):
        return replace(self, rules=RULES)

    def plus(self, text):
        return replace(self, head=HEAD)

    def note(self, key, text):
        return replace(self, notes={**self.notes, key: text})

    def show(self):
        return "\\n".join([self.head, *self.rules, *self.notes.values()])


def make(kind):
    prompt = Prompt().rule("Always.")
    if kind == "x":
        prompt = prompt.rule("If x.")
    for text in ("For one.", "For two."):
        prompt = prompt.rule(text)
    return prompt


LONG = CHAIN


def chat(state):
    noted = Prompt("Noted.").note("a", "Note a.").note("b", "Note b.").note("c", "Note c.").note("d", "Note d.")
    return {"messages": [llm.invoke(made.show()) for made in (make(state["kind"]), LONG, noted)]}
"""


@pytest.mark.parametrize(
    ("rules", "head"),
    [
        ("(*self.rules, text)", "self.head + text"),
        ("self.rules + (text,)", 'self.head + " " + text'),
        ('[*self.rules, f"* {text}"]', 'f"{self.head} {text}"'),
        ("[*self.rules, text.strip()]", '" ".join([self.head, text])'),
    ],
)
def test_a_prompt_that_is_replaced_step_by_step_is_whole_in_every_spelling(write: Write, rules: str, head: str) -> None:
    steps = "".join(f'.rule("Rule {number}.").plus("More {number}.")' for number in range(30))
    texts = {f"{word} {number}." for word in ("Rule", "More") for number in range(30)}
    texts |= {"Head.", "Noted.", "Always.", "If x.", "For one.", "For two.", *(f"Note {key}." for key in "abcd")}
    body = STEPS.replace("RULES", rules).replace("HEAD", head).replace("CHAIN", f"Prompt(){steps}")
    assert read_chat(write, body) - {"* {}"} == texts


TOOL_NODE = """
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode, create_react_agent
from pydantic import Field, create_model

Bill = create_model("Bill", __doc__="Not sent.", bill=(str, Field(description="Number of the bill.")))


@tool(args_schema=Bill)
def pay(bill: str) -> str:
    "Pay a bill."
    return "It is paid."


node = ToolNode(tools=[pay], handle_tool_errors="The till is jammed.")


def chat(state):
    return create_react_agent(llm, TOOLS).invoke(state)
"""


OF_ITSELF = "tools = [pay]\ntools = ToolNode(tools, handle_tool_errors='The till is jammed.')\n"


@pytest.mark.parametrize("tools", ["node", "ToolNode([pay], handle_tool_errors='The till is jammed.')", "tools"])
def test_an_agent_has_the_tools_of_the_tool_node_that_it_is_given(write: Write, tools: str) -> None:
    texts = {"Pay a bill.", "It is paid.", "Number of the bill.", "The till is jammed."}
    body = TOOL_NODE.replace("\n\ndef chat", f"\n{OF_ITSELF}\n\ndef chat") if tools == "tools" else TOOL_NODE
    assert read_chat(write, body.replace("TOOLS", tools)) == texts
    assert [agent.tools for agent in read_program("app:graph").agents] == [("pay",)]


def test_an_agent_has_the_tools_of_a_tool_node_and_of_a_list_that_one_function_returns(write: Write) -> None:
    mixed = """@tool
def refund(bill: str) -> str:
    "Give the money back."
    return "It is given back."


def choose(state):
    if state["late"]:
        return node
    return [refund]


def chat"""
    read_chat(write, TOOL_NODE.replace("def chat", mixed).replace("TOOLS", "choose(state)"))
    assert [{*agent.tools} for agent in read_program("app:graph").agents] == [{"pay", "refund"}]


OWN_MODELS = """
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Gateway(BaseChatModel):
    "Asks another model."
    inner: ChatOpenAI
    badge: str = "Be formal."

    def _prepare(self, messages):
        return [SystemMessage(self.badge), *messages]

    def _generate(self, messages, stop=None, run_manager=None, **more):
        reply = self.inner.invoke(self._prepare(messages))
        return ChatResult(generations=[ChatGeneration(message=reply)])


class Short(Gateway):
    "Asks shortly."


gate = Short(inner=llm)


def chat(state):
    return {"messages": [gate.invoke("Open.")]}
"""
OWN_REPLIES = """
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult


def say(text):
    return AIMessage(text)


class Canned(BaseChatModel):
    def _generate(self, messages, stop=None, run_manager=None, **more):
        reply = say("I do not know that.")
        if "weather" in messages[-1].content:
            reply = AIMessage(content="It is sunny today.")
        return ChatResult(generations=[ChatGeneration(message=reply)])


canned = Canned()


def chat(state):
    return {"messages": [canned.invoke("Open."), llm.invoke([AIMessage("I am ready."), *state["messages"]])]}
"""
OWN_SUBCLASS = """
from langchain_core.messages import SystemMessage


class Loud(ChatOpenAI):
    def _generate(self, messages, stop=None, run_manager=None, **more):
        return super()._generate([SystemMessage("Be loud."), *messages], stop, run_manager, **more)


loud = Loud(model="gpt-4o")


def chat(state):
    return {"messages": [loud.invoke("Shout.")]}
"""


def test_what_a_model_of_the_program_adds_is_a_text_that_a_layer_may_not_see(write: Write) -> None:
    assert read_chat(write, OWN_MODELS) == {"Be formal.", "Open."}
    assert not any(text.is_past for text in read_program("app:graph").texts)
    assert read_chat(write, OWN_SUBCLASS) == {"Be loud.", "Shout."}
    assert [text.pieces for text in read_program("app:graph").texts if text.is_past] == [("Be loud.",)]


def test_what_a_model_of_the_program_replies_is_no_prompt(write: Write) -> None:
    assert read_chat(write, OWN_REPLIES) == {"Open.", "I am ready."}


REPLACED_WORDS = """
import re

CARD = "Greet [[NAME]], who is from [[town]]. [[ ]]"
MAIL = "Write to {{ name }}."
SLOT = re.compile(r"\\[\\[(\\w+)\\]\\]")


def fill(text, **values):
    return SLOT.sub(lambda found: values[found.group(1).lower()], text)


def chat(state):
    mail = re.sub(r"\\{\\{ *(\\w+) *\\}\\}", lambda found: state[found[1]], MAIL)
    plain = re.sub(r"#(\\w+)", "", "Tags such as #this are left out.")
    card = fill(CARD, name=state["name"], town="Elm Town")
    return {"messages": [llm.invoke(card), llm.invoke(mail), llm.invoke(plain)]}
"""


def test_words_that_a_function_replaces_by_a_pattern_are_holes(write: Write) -> None:
    plain = "Tags such as #this are left out."
    assert read_chat(write, REPLACED_WORDS) == {"Greet {}, who is from {}. [[ ]]", "Write to {}.", plain, "Elm Town"}
    holes = {text.pieces[0]: text.holes for text in read_program("app:graph").texts}
    assert holes == {"Greet ": ("[[NAME]]", "[[town]]"), "Write to ": ("name",), plain: (), "Elm Town": ()}


SPELL = """
def spell(match):
    word = match.group()
    word = word.strip()
    return word.upper()
"""


def shout(body: str) -> str:
    return f"import re\n{SPELL}\n\ndef chat(state):\n    return {{'messages': [llm.invoke({body})]}}"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (r"re.sub(r'\bI\b', lambda m: state['me'], 'In the CITY I, you.')", "In the CITY {I}, you."),
        (r"re.sub(r'\bcity\b', lambda m: state['city'], 'A capacity, a city.')", "A capacity, a {city}."),
        (r"re.sub(r'\w+', lambda m: state.get(m[0], m[0]), 'Write every WORD.')", "Write every WORD."),
        (r"re.sub(r'[A-Z]{2,}', lambda m: m.group().title(), 'Obey THE rules.')", "Obey THE rules."),
        (r"re.sub(r'[A-Z]{2,}', lambda m: m[0] if state['loud'] else m[0].lower(), 'Obey IT.')", "Obey IT."),
        (r"re.sub(r'[A-Z]{2,}', spell, 'Obey HIM.')", "Obey HIM."),
        (r"re.sub(r'[A-Z]{2,}', lambda m: state[m.group().lower()], 'Obey THE rules.')", "Obey {THE} rules."),
        (r"re.sub(r'<(\w+)>', lambda m: m.group(1).upper(), 'Obey <the> rules.')", "Obey {<the>} rules."),
    ],
)
def test_words_that_a_pattern_matches_are_holes_where_a_function_replaces_them(
    write: Write, call: str, text: str
) -> None:
    read_chat(write, shout(call))
    found = [zip(text.pieces, (*text.holes, ""), strict=True) for text in read_program("app:graph").texts]
    assert [text] == ["".join(piece + (hole and f"{{{hole}}}") for piece, hole in parts) for parts in found]


TEMPLATES_IN_A_DICT = """
from jinja2 import DictLoader, Environment

SHARED = {"rules.j2": "Be brief.", "unused.j2": "Nobody reads this."}
env = Environment(loader=DictLoader({"chat.j2": "{% include 'rules.j2' %} Chat with {{ name }}.", **SHARED}))


def chat(state):
    return {"messages": [llm.invoke(env.get_template("chat.j2").render(name=state["name"]))]}
"""


def test_templates_of_a_dict_are_read_with_those_that_they_include(write: Write) -> None:
    assert read_chat(write, TEMPLATES_IN_A_DICT) == {"{} Chat with {}.", "Be brief."}


MADE_TEMPLATES = """
from jinja2 import DictLoader, Environment

BASE = "Base rules."


def make(name):
    return f"Made of {name}."


texts = {"a": "Hello {{ x }}.", "b": f"{{% include 'c' %}} {BASE} here.", "c": "\\n".join(["One.", "Two."])}
texts |= {"d": make("wood"), "e": BASE + " Plus."}
env = Environment(loader=DictLoader(texts))


def chat(state):
    return {"messages": [llm.invoke(env.get_template(name).render(x=1)) for name in ("a", "b", "d", "e")]}
"""


def test_templates_of_a_dict_that_code_puts_together_are_read(write: Write) -> None:
    made = {"{} {} here.", "Base rules.", "One.\nTwo.", "Made of {}.", "wood", " Plus."}
    assert read_chat(write, MADE_TEMPLATES) == {"Hello {}.", *made}


CELLS = """
def ask(text):
    return llm.invoke("An older cell. " + text)


def chat(state):
    return {"messages": [ask("The first try.")]}


def ask(text):
    return llm.invoke(text)


if state_of_things := len("abc"):

    def greet():
        return "Good day."

else:

    def greet():
        return "Good night."


def chat(state):
    return {"messages": [ask("The second try."), llm.invoke(greet())]}
"""


def test_a_function_that_is_defined_anew_takes_the_place_of_the_one_before(write: Write) -> None:
    assert read_chat(write, CELLS) == {"The second try.", "Good day.", "Good night."}


ROWS = """
import sqlite3

db = sqlite3.connect(":memory:")


def load(name):
    (text,) = db.execute("SELECT text FROM prompts WHERE name = ?", (name,)).fetchone()
    return text


def chat(state):
    return {"messages": [llm.invoke([("system", load("chat")), ("user", "Hello there.")])]}
"""


def test_a_prompt_of_a_database_is_opaque(write: Write) -> None:
    assert read_chat(write, ROWS) == {"Hello there."}
    (opaque,) = read_program("app:graph").opaque
    assert opaque.reason.startswith("a text comes from a database: db.execute('SELECT text FROM")
    assert opaque.way_out == "keep the text in a constant or a file of the program"


NAMED_MODULES = """
import importlib
from importlib import import_module

from steps import ORDER

PARTS = {name: importlib.import_module(f"steps.{name}").TEXT for name in ORDER}


def chat(state):
    import_module("steps.closing").close(llm, " ".join(PARTS.values()))
    return {}
"""


def test_modules_that_are_imported_by_computed_names_are_read(write: Write) -> None:
    write("steps/__init__.py", 'ORDER = ["greet", "ask"]\n')
    write("steps/greet.py", 'TEXT = "Greet."\n')
    write("steps/ask.py", 'TEXT = "Ask."\n')
    write("steps/unused.py", 'TEXT = "Never."\n')
    write("steps/closing.py", 'from importlib import import_module\n\nend = import_module(".parts.end", __package__)\n')
    write(
        "steps/closing.py",
        (Path("steps/closing.py").read_text()) + "\n\ndef close(llm, text):\n    llm.invoke(text + end.END)\n",
    )
    write("steps/parts/__init__.py", "")
    write("steps/parts/end.py", 'import importlib\n\nEND = importlib.import_module(f"{__package__}.last").LAST\n')
    write(
        "steps/parts/last.py",
        'from importlib import import_module\n\nLAST = import_module("..greet", package=__package__).TEXT + "Close."\n',
    )
    assert read_chat(write, NAMED_MODULES) == {"Greet.", "Ask.", "Close."}
    assert "steps/unused.py" not in read_program("app:graph").files


NAMED_FIELDS = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph

llm = ChatOpenAI(model="gpt-4o")


class Critic:
    registry = {}

    def __init_subclass__(cls, **more):
        super().__init_subclass__(**more)
        Critic.registry[cls.__name__.lower()] = cls

    def __call__(self, state):
        return {self.field: self.post(llm.invoke(self.ask(state)).content)}

    def ask(self, state):
        return "Say what is good."


class Plot(Critic):
    field = "plot"

    def post(self, text):
        return f"On the plot: {text}"


class Cast(Critic):
    field = "cast"

    def post(self, text):
        return f"On the cast: {text}"


class Chair(Critic):
    field = "verdict"

    def ask(self, state):
        return "\\n".join(state[key] for key in ("plot",))

    def post(self, text):
        return "The verdict is not read."


builder = StateGraph(dict)
for name, critic in Critic.registry.items():
    builder.add_node(name, critic())
for name in Critic.registry:
    if name != "chair":
        builder.add_edge(START, name)
        builder.add_edge(name, "chair")
graph = builder.compile()
"""


def test_fields_that_are_named_by_attributes_and_loops_are_written_and_read(write: Write) -> None:
    write("app.py", NAMED_FIELDS)
    inventory = read_program("app:graph")
    assert {"{}".join(text.pieces): {*text.used_by} for text in inventory.texts} == {
        "Say what is good.": {"node plot", "node cast"},
        "On the plot: {}": {"node chair"},
    }
    ends = {(edge.source, *edge.ends) for edge in inventory.edges}
    assert ends == {("__start__", "plot"), ("__start__", "cast"), ("plot", "chair"), ("cast", "chair")}


TIMETABLES = """
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode


class Timetable(BaseTool):
    "Nobody reads this."
    name: str = "timetable"
    description: str = "Nor this."

    def __init__(self, line, **more):
        super().__init__(name=f"table_{line}", description=f"Sailings of the {line} line.", **more)

    def _run(self, port: str) -> str:
        return "No boat calls there."


class Desk:
    def __init__(self, lines=None, rules=None):
        self.rules = list(rules or ["Nobody is told this rule."])
        self.tools = [Timetable("north"), Timetable("south")]


desk = Desk(rules=["Be brief.", "Be kind."])


def chat(state):
    return {"messages": [llm.bind_tools(desk.tools).invoke("\\n".join(desk.rules))]}
"""


def test_objects_of_a_class_of_tools_are_tools_of_their_own_where_its_init_names_them(write: Write) -> None:
    found = read_chat(write, TIMETABLES)
    assert found == {"Sailings of the {} line.", "No boat calls there.", "north", "south", "Be brief.", "Be kind."}
    tools = {tool.name: tool.description for tool in read_program("app:graph").tools}
    assert tools == {"table_north": "Sailings of the north line.", "table_south": "Sailings of the south line."}


PATHS_OF_INIT = """
from langchain_core.tools import BaseTool


class Bell(BaseTool):
    name: str = "bell"
    description: str = "Ring."
    tone: str = "low"


class Safe(Bell):
    def __init__(self, safe=False, text=None, **more):
        super().__init__(**more)
        if safe:
            self.name = "safe"
            self.description = "Ring with care."
        if text:
            self.description = text


class Near(Bell):
    def __init__(self, side):
        super().__init__()
        self.name = self.name + "_" + side
        self.description += f" Only {side}."


class Toned(Bell):
    def __init__(self, **more):
        super().__init__(**more)
        self.name = f"{self.tone}_bell"
        self.description = f"Ring {self.tone}."


class Later(Bell):
    def model_post_init(self, context):
        self.name = f"late_{self.tone}"


def chat(state):
    some = [Safe(), Safe(safe=True), Safe(text="Told."), Near("north"), Near("south")]
    return {"messages": [llm.bind_tools([*some, TOOLS]).invoke("Ask.")]}
"""


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        ('Toned(tone="high")', {("high_bell", "Ring high.")}),
        ('Toned(tone="high"), Toned(tone="dull")', {("high_bell", "Ring high."), ("dull_bell", "Ring dull.")}),
        ('Later(tone="high"), Later(tone="dull")', {("late_high", "Ring."), ("late_dull", "Ring.")}),
        ('Safe(safe=state["safe"])', {("bell", "Ring.")}),
    ],
)
def test_a_tool_has_the_name_and_description_that_the_path_of_its_init_gives_it(
    write: Write, tools: str, named: set[tuple[str, str]]
) -> None:
    texts = read_chat(write, PATHS_OF_INIT.replace("TOOLS", tools))
    assert texts >= {"Ring.", "Ring with care.", "Told.", " Only {}."}
    found = {(tool.name, tool.description) for tool in read_program("app:graph").tools}
    near = {(f"bell_{side}", f"Ring. Only {side}.") for side in ("north", "south")}
    assert found == {("bell", "Ring."), ("safe", "Ring with care."), ("bell", "Told."), *near, *named}


def test_a_name_that_is_bound_anew_hundreds_of_times_has_all_its_texts(write: Write) -> None:
    lines = "".join(f"    prompt = f'{{prompt}} Text {number}.'\n" for number in range(1, 400))
    body = f"def chat(state):\n    prompt = 'Text 0.'\n{lines}    return {{'messages': [llm.invoke(prompt)]}}"
    limit = sys.getrecursionlimit()
    assert len(read_chat(write, body)) == 400
    assert sys.getrecursionlimit() == limit


def test_readings_in_several_threads_leave_the_recursion_limit_as_it_was(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, read, limit = ("first:graph", "second:graph"), reader.read_graphs, sys.getrecursionlimit()
    begun, go = ({name: threading.Event() for name in names} for _ in range(2))
    seen = dict[str, int]()

    def wait(name: str) -> Any:
        begun[name].set()
        assert go[name].wait(20)
        seen[name] = sys.getrecursionlimit()
        return read(name)

    monkeypatch.setattr(reader, "read_graphs", wait)
    threads = [threading.Thread(target=read_program, args=(name,)) for name in names]
    for name, thread in zip(names, threads, strict=True):
        write(f"{name.partition(':')[0]}.py", f"PROMPT = 'Chat.'\n{GRAPH}")
        thread.start()
        assert begun[name].wait(20)
    for name, thread in zip(names, threads, strict=True):
        go[name].set()
        thread.join()
    assert seen == dict.fromkeys(names, reader.FRAMES)
    assert sys.getrecursionlimit() == limit


PAIRED = """
def make(prompt):
    def judge(state):
        return {"messages": [llm.invoke([("system", prompt), *state["messages"]])]}

    return judge


builder = StateGraph(MessagesState).add_node("all", make("You judge all.")).add_edge(START, "all")
for name, prompt in zip(FIRST, SECOND):
    builder.add_node(name, make(prompt))
graph = builder.compile()
"""
BY_CODE = "how the text at "


@pytest.mark.parametrize(
    ("first", "second", "nodes", "texts", "opaque"),
    [
        ("['a', 'b']", "open('rules.txt').read().split('---')", "ab", [], ["a text is cut out of rules.txt by code"]),
        ("['a', 'b']", "TEXT.splitlines()", "ab", [], [BY_CODE]),
        ("['a', 'b']", "TEXT.split('\\n')", "ab", [], [BY_CODE]),
        ("['a', 'b']", "other.PROMPTS", "ab", [], ["a text comes from another package: other.PROMPTS"]),
        ("['a', 'b']", "repeat('Judge it.')", "ab", ["Judge it."], []),
        ("['a', 'b', 'c']", "cycle(['One.', 'Two.'])", "abc", ["One.", "Two."], []),
        ("['a', 'b']", "[f'Judge {part}.' for part in other.load()]", "ab", ["Judge {}."], []),
        ("'ab'", "['One.', 'Two.']", "ab", ["One.", "Two."], []),
        ("['a', 'b']", "['One for all.'] * 2", "ab", ["One for all."], []),
        ("['a', 'b']", "map(lambda text: text, ['One.', 'Two.'])", "ab", ["One.", "Two."], []),
        ("NONE", "['One.', 'Two.']", "", [], []),
    ],
)
def test_zip_has_a_round_for_each_element_that_it_gives(
    write: Write, first: str, second: str, nodes: str, texts: list[str], opaque: list[str]
) -> None:
    write("rules.txt", "Be kind.---Be short.")
    head = "import other\nfrom itertools import cycle, repeat\n\nNONE = []\nTEXT = 'Be kind.\\nBe short.'\n"
    write("app.py", head + GRAPH.partition("def chat")[0] + PAIRED.replace("FIRST", first).replace("SECOND", second))
    found = read_program("app:graph")
    assert [node.name for node in found.nodes] == ["all", *nodes]
    assert {"{}".join(text.pieces) for text in found.texts} == {"You judge all.", *texts}
    assert [thing.reason[: len(reason)] for thing, reason in zip(found.opaque, opaque, strict=True)] == opaque


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("TEXT.split('|')[0]", BY_CODE),
        ("TEXT.partition('|')[2]", BY_CODE),
        ("''\nfor PROMPT in TEXT.splitlines():\n    break", BY_CODE),
        ("''\nfor PROMPT in other.PROMPTS:\n    break", "a text comes from another package: other.PROMPTS"),
        ("TEXT.strip().split('|')[0]", BY_CODE),
        ("'\\n'.join(TEXT.split('|'))", BY_CODE),
        ("'{}'.format(TEXT.split('|')[0])", BY_CODE),
        ("TEXT[TEXT.index('|') + 1 :]", BY_CODE),
        ("re.split('[|]', TEXT)[0]", BY_CODE),
        ("re.compile('[|]').split(TEXT)[0]", BY_CODE),
        ("re.search('Be .*?', TEXT).group()", BY_CODE),
        ("zlib.decompress(base64.b64decode(b'eJ')).decode()", "a text comes from a decoder"),
        ("pickle.loads(b'x')", "a text comes from a decoder"),
        ("yaml.safe_load('a: Be kind.')['a']", "a text comes from a decoder"),
        ("urllib.request.urlopen('https://x.example/rules').read().decode()", "a text comes from the network"),
        ("httpx.get('https://x.example/rules').text", "a text comes from the network"),
        ("subprocess.check_output(['fortune'], text=True)", "a text comes from another program"),
        ("importlib.metadata.entry_points(group='rules')['kind'].load()()", "a text comes from another package"),
        (
            "getattr(importlib.import_module(os.environ['RULES']), 'PROMPT')",
            "a text comes from a module that is imported",
        ),
        ("eval('\"Be kind.\"')", "a text comes from code in a text"),
        ("SPACE['rules'](3)", "a text comes from code in a text"),
    ],
)
def test_a_text_that_code_takes_out_of_others_is_opaque(write: Write, made: str, reason: str) -> None:
    head = "import base64, importlib.metadata, os, pickle, re, subprocess, urllib.request, zlib, httpx, other, yaml\n"
    head += "SPACE = {}\nexec('def rules(n): ...', SPACE)\nTEXT = 'Be kind.|Be short.'\n"
    write("app.py", f"{head}PROMPT = {made}\n{GRAPH}")
    found = read_program("app:graph")
    assert found.texts == ()
    assert [thing.reason.startswith(reason) for thing in found.opaque] == [True]


@pytest.mark.parametrize(
    ("part", "is_opaque"),
    [
        ("TEXT.split('|')[1]", True),
        ("base64.b64decode('WW91Lg==').decode()", True),
        ("json.loads('[3]')[0]", True),
        ("httpx.get('https://x.example/rates').json()['eur']", False),
        ("subprocess.check_output(['git', 'diff'], text=True)", False),
        ("version('langgraph')", False),
        ("json.loads(os.environ['SETTINGS'])['language']", False),
        ("'a|b'.split('|')[0]", False),
        ("'English German French'.split()[0]", False),
        ("base64.b64decode(state['note']).decode()", False),
        ("httpx.get(state['note']).text", False),
        ("datetime.now()", False),
        ("other.find()", False),
    ],
)
def test_a_part_of_a_text_is_opaque_where_the_source_holds_it_in_another_form(
    write: Write, part: str, is_opaque: bool
) -> None:
    graph = GRAPH.replace('"system", PROMPT', f'"system", f"You help. {{{part}}}"')
    head = (
        "import base64, json, os, subprocess\nfrom datetime import datetime\nfrom importlib.metadata import version\n"
    )
    write("app.py", head + "import httpx, other\nTEXT = 'Be kind.|Be short.'\n" + graph)
    found = read_program("app:graph")
    assert [text.pieces for text in found.texts] == [("You help. ", "")]
    assert len(found.opaque) == is_opaque


def test_a_message_of_a_function_that_exec_defines_is_opaque(write: Write) -> None:
    graph = GRAPH.replace("PROMPT", "SPACE['rules'](state['note'])")
    write("app.py", f"SPACE = {{}}\nexec('def rules(note): ...', SPACE)\n{graph}")
    reasons = [thing.reason for thing in read_program("app:graph").opaque]
    assert reasons == ["a text comes from code in a text: SPACE['rules'](state['note'])"]


@pytest.mark.parametrize(("name", "opaque"), [("os.environ['STYLES']", 1), ("'styles.plain'", 0), ("'json'", 0)])
def test_a_module_that_is_imported_by_a_computed_name_is_opaque(write: Write, name: str, opaque: int) -> None:
    write("styles/plain.py", "def register(styles):\n    styles['plain'] = 'Be plain.'\n")
    head = f"import importlib\nimport os\n\nSTYLES = {{}}\nimportlib.import_module({name}).register(STYLES)\n"
    write("app.py", head + GRAPH.replace("PROMPT", "f\"You help. {STYLES['plain']}\""))
    reasons = [thing.reason for thing in read_program("app:graph").opaque if not thing.reason.startswith(BY_CODE)]
    assert (
        reasons
        == [f"texts may come from a module that is imported by a computed name: importlib.import_module({name})"]
        * opaque
    )


def test_a_function_with_the_name_of_a_method_of_texts_is_not_called_by_it(write: Write) -> None:
    chat = "def split(name):\n    kind, model = name.split('/', 1)\n    return ChatOpenAI(model=model)\n\n\ndef chat"
    graph = GRAPH.replace("def chat", chat).replace("llm.invoke", "split('a/gpt-4o').invoke")
    write("app.py", f"PROMPT = 'You help.'\n{graph.replace('llm = ', '')}")
    assert [model.names for model in read_program("app:graph").models if model.line > 6] == [("a/gpt-4o",)]


@pytest.mark.parametrize(
    ("made", "texts"),
    [
        ("list(PARTS)[0]", ["Be kind."]),
        ("tuple(PARTS)[-1]", ["Be short."]),
        ("list({'a': 'Be kind.'}.values())[0]", ["Be kind."]),
        ("list(chain(PARTS, ['Be plain.']))[2]", ["Be plain."]),
        ("(PARTS + ['Be plain.'])[2]", ["Be plain."]),
        ("sorted(PARTS)[0]", ["Be kind.", "Be short."]),
        ("list(reversed(PARTS))[0]", ["Be kind.", "Be short."]),
        ("next(reversed(PARTS))", ["Be kind.", "Be short."]),
        ("[*reversed(PARTS)][0]", ["Be kind.", "Be short."]),
        ("list(filter(None, PARTS))[0]", ["Be kind.", "Be short."]),
        ("random.sample(PARTS, 1)[0]", ["Be kind.", "Be short."]),
        ("''\nPARTS.reverse()\nPROMPT = PARTS[0]", ["Be kind.", "Be short."]),
        ("''\nPARTS.sort(key=len)\nPROMPT = PARTS[0]", ["Be kind.", "Be short."]),
        ("''\nrandom.shuffle(PARTS)\nPROMPT = PARTS[0]", ["Be kind.", "Be short."]),
    ],
)
def test_an_element_is_taken_of_what_a_call_makes_of_a_list(write: Write, made: str, texts: list[str]) -> None:
    head = "import random\nfrom itertools import chain\n\nPARTS = ['Be kind.', 'Be short.']\n"
    write("app.py", f"{head}PROMPT = {made}\n{GRAPH}")
    assert ["".join(text.pieces) for text in read_program("app:graph").texts] == texts


@pytest.mark.parametrize(
    "given",
    [
        "response_format=ToolStrategy(Page, handle_errors='Mend the fields.')",
        "middleware=[ToolRetryMiddleware(on_failure=lambda error: f'Mend the fields.')]",
        "middleware=[ToolRetryMiddleware(on_failure=tell)]",
        "middleware=[ContextEditingMiddleware(edits=[ClearToolUsesEdit(placeholder='Mend the fields.')])]",
        "tools=[find_page]",
    ],
)
def test_a_text_that_an_agent_is_given_for_replies_and_schemas_is_read(write: Write, given: str) -> None:
    write(
        "app.py",
        f"""
from langchain.agents import create_agent
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, ToolRetryMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import tool
from pydantic import BaseModel, Field

class Page(BaseModel):
    text: str = Field(description="{"Mend the fields." if "find_page" in given else "Text."}")

def tell(error):
    return "Mend the fields."

@tool(args_schema=Page.model_json_schema())
def find_page(text):
    return text

graph = create_agent("openai:gpt-4o", {given})
""",
    )
    assert "Mend the fields." in ["".join(text.pieces) for text in read_program("app:graph").texts]


@pytest.mark.parametrize(
    "made",
    [
        "@tool\ndef find(text):\n    'Find it.'\n    return text\n\nfind.description = 'Find a page.'",
        "def find(text):\n    return text\n\nfind.__doc__ = 'Find a page.'\nfind = tool(find)",
        "def make():\n    def find(text): ...\n    find.__doc__ = 'Find a page.'\n    return find\nfind = tool(make())",
    ],
)
def test_a_description_that_is_assigned_to_a_tool_takes_the_place_of_its_docstring(write: Write, made: str) -> None:
    head = "from langchain.agents import create_agent\nfrom langchain_core.tools import tool\n\n"
    write("app.py", f"{head}{made}\n\ngraph = create_agent('openai:gpt-4o', [find])\n")
    found = read_program("app:graph")
    assert [text.pieces for text in found.texts] == [("Find a page.",)]
    assert [tool.description for tool in found.tools] == ["Find a page."]


@pytest.mark.parametrize("made", ["[text for lang, text in PAIRS if lang == LANG][0]", "[*other.MORE, *TEXTS][0]"])
def test_no_one_element_is_taken_of_a_list_whose_places_are_not_known(write: Write, made: str) -> None:
    pairs = "PAIRS = [('en', 'You help.'), ('de', 'Du hilfst.')]\nTEXTS = ['You help.', 'Du hilfst.']\n"
    write("app.py", f"import os\nimport other\n\nLANG = os.environ.get('LANG2', 'de')\n{pairs}PROMPT = {made}\n{GRAPH}")
    assert {text.pieces for text in read_program("app:graph").texts} == {("You help.",), ("Du hilfst.",)}


UNUSUAL = """
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

llm = ChatOpenAI(model="gpt-4o")
builder = StateGraph(MessagesState)
"""


@pytest.mark.parametrize(
    "source",
    [
        '"""Be kind."""\ndef chat(state):\n    llm.invoke(__doc__)\nbuilder.add_node(chat)',
        "@wrap_model_call\ndef change(request, handler):\n    request.system_prompt = 'Be kind.'\n"
        "    return handler(request)\nbuilder = create_agent(llm, [], middleware=[change])",
        "@wrap_model_call\ndef change(request, handler):\n    request.system_prompt += 'Be kind.'\n"
        "    return handler(request)\nbuilder = create_agent(llm, [], middleware=[change])",
        "prompt = ChatPromptTemplate([('human', 'Hello {name}')])\n"
        "def chat(state):\n    (prompt[:1] + ('human', 'Be kind.') | llm).invoke({'name': state['name']})\n"
        "builder.add_node(chat)",
        "@tool\ndef look(text):\n    'Look it up.'\nlook.description += 'Be kind.'\n"
        "builder = create_agent(llm, [look])",
        "def chat(state):\n    return {'messages': llm.invoke(state['rule'])}\n"
        "def start(state):\n    return dict(zip(['rule'], ['Be kind.']))\n"
        "builder.add_node(chat)\nbuilder.add_node(start)",
        "def chat(state):\n    return {'messages': llm.invoke(state['rule'])}\n"
        "def start(state):\n    made = {'rule': 'Be kind.'}\n    return {key: made[key] for key in made}\n"
        "builder.add_node(chat)\nbuilder.add_node(start)",
        "class Step:\n    def __init__(self, rule):\n        self.rule = rule\n"
        "    def __call__(self, state):\n        say(self.rule)\n"
        "def say(rule):\n    llm.invoke(rule)\n"
        "class Flow:\n    def __init__(self):\n        self.made = StateGraph(MessagesState)\n"
        "    def add(self, name, node):\n        self.made.add_node(name, node)\n        return self\n"
        "    def review(self):\n        return self.add('review', Step('Be kind.'))\n"
        "    def build(self):\n        self.made.add_node('other', Step('Be short.'))\n        return self.made\n"
        "builder = Flow().review().build()",
        "from dataclasses import dataclass\nPROMPTS = {'chat': {'system': 'Be kind.'}}\n@dataclass\nclass Prompt:\n"
        "    system: str\n    @classmethod\n    def load(cls, name):\n        part = PROMPTS[name]\n"
        "        return cls(**{key: part[key] for key in ('system', 'user') if key in part})\n"
        "prompt = Prompt.load('chat')\nbuilder.add_node('chat', lambda state: llm.invoke(prompt.system))",
        "from dataclasses import dataclass\nPROMPTS = {'chat': {'user': 'Be short.'}}\n@dataclass\nclass Prompt:\n"
        "    user: str\n    system: str = 'Be kind.'\n    @classmethod\n    def load(cls, name):\n"
        "        part = PROMPTS[name]\n"
        "        return cls(**{key: part[key] for key in ('system', 'user') if key in part})\n"
        "prompt = Prompt.load('chat')\nbuilder.add_node('chat', lambda state: llm.invoke(prompt.system))",
        "from typing import Annotated, TypedDict\ndef merge(left, right):\n    return left + 'Be kind.' + right\n"
        "class State(TypedDict):\n    rule: Annotated[str, merge]\nbuilder = StateGraph(State)\n"
        "builder.add_node('chat', lambda state: {'rule': llm.invoke(state['rule']).text})",
    ],
)  # fmt: skip
def test_a_text_in_an_unusual_place_is_listed(write: Write, source: str) -> None:
    write("app.py", (source[:16] if source[0] == '"' else "") + UNUSUAL + source + "\ngraph = builder\n")
    assert ("Be kind.",) in [text.pieces for text in read_program("app:graph").texts if text.used_by]


def test_the_name_in_a_copy_of_a_model_is_listed(write: Write) -> None:
    copy = "small = llm.model_copy(update={'model_name': 'gpt-4o-mini'})\n"
    write("app.py", f"{UNUSUAL}{copy}builder.add_node('chat', lambda state: small.invoke(''))\ngraph = builder\n")
    assert ("gpt-4o-mini",) in [model.names for model in read_program("app:graph").models]


@pytest.mark.parametrize(
    "text", ["a: Be kind.\n", "a: &a {b: Be kind.}\nc: {<<: *a, d: 1}\n", "", "- 2024-01-02\n", "null\n"]
)
def test_a_file_is_composed_once_and_loaded_as_yaml_loads_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, composed, compose = yaml.safe_load(text), list[object](), yaml.SafeLoader.compose_document

    def count(me: yaml.SafeLoader) -> object:
        composed.append(me)
        return compose(me)

    monkeypatch.setattr(yaml.SafeLoader, "compose_document", count)
    prompt_files._compose.cache_clear()
    prompt_files._load.cache_clear()
    assert (prompt_files._load(text, ".yaml"), prompt_files._load(text, ".yml")) == (expected, expected)
    assert len(composed) == bool(text)


HELD_IN_STATE = """
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph


class Sums(TypedDict, total=False):
    notes: dict[str, str]
    answer: str


def begin(state: Sums) -> Sums:
    return {"notes": {"prompt": "You work out sums of the bakery."}}


def answer(state: Sums) -> Sums:
    return {"answer": ChatOpenAI().invoke([("system", READ)]).text}


graph = StateGraph(Sums).add_sequence([begin, answer]).add_edge(START, "begin").compile()
"""


@pytest.mark.parametrize("read", ['state["notes"].get("prompt")', 'state.get("notes", {}).get("prompt")'])
def test_an_item_of_a_field_of_the_state_is_also_read_by_get(write: Write, read: str) -> None:
    write("app.py", HELD_IN_STATE.replace("READ", read))
    found = read_program("app.py:graph")
    assert [(text.pieces, text.used_by) for text in found.texts] == [
        (("You work out sums of the bakery.",), ("node answer",))
    ]
    assert not found.opaque


def test_a_namespace_of_a_store_does_not_change_though_a_prompt_has_it(write: Write) -> None:
    prompt = "    place = ('bakery_of_sums', 'u')\n    store.put(place, 'rules', {'text': 'x'})\n"
    source = HELD_IN_STATE.replace("def answer(state: Sums)", "def answer(state: Sums, store)")
    source = source.replace('    return {"answer"', prompt + '    return {"answer"')
    write("app.py", source.replace("READ", 'f"You keep {place[0]} in order."'))
    found = read_program("app.py:graph")
    line = 1 + source.split("\n").index(prompt.split("\n")[1])
    [kept] = [text for text in found.texts if text.pieces == ("bakery_of_sums",)]
    assert kept.signal == f"names what is stored at app.py:{line}"


KITCHEN = """
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

model = ChatOpenAI()


def bake(state: MessagesState) -> dict:
    return {"messages": [model.invoke([("system", "You bake bread at night."), *state["messages"]])]}


oven = StateGraph(MessagesState).add_node(bake).add_edge(START, "bake").compile()


@tool(name_or_callable="bakery", description="Ask the bakers.")
def ask_the_bakers(order: str) -> str:
    return oven.invoke({"messages": [("user", order)]})["messages"][-1].text


desk = create_agent(model, [ask_the_bakers], system_prompt="You take orders.")
"""
TOLD = """
@tool
def ask_the_desk(order: str) -> str:
    "Ask at the desk."
    return desk.invoke({"messages": [("user", order)]})["messages"][-1].text


hall = create_agent(model, [ask_the_desk], system_prompt="You greet guests.")
"""


@pytest.mark.parametrize(("more", "outermost"), [("", "desk"), (TOLD, "hall")])
def test_a_graph_that_a_tool_asks_is_read_inside_the_node_of_its_agent(write: Write, more: str, outermost: str) -> None:
    write("kitchen.py", KITCHEN + more)
    found = read_program(f"kitchen.py:{outermost}")
    used = {text.pieces[0]: text.used_by for text in found.texts}
    assert used["You bake bread at night."] == ("node oven/bake",)
    assert [(inner.name, inner.node, inner.kind) for inner in found.subgraphs] == [("oven", outermost, "call")]
    assert "bakery" in {tool.name for tool in found.tools}


SETTLED = """
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from pydantic import BaseModel, Field


class Desk(BaseModel):
    prompt: str = Field(default="You are the clerk of a bakery.", title="prompt")


def make_desk(config: RunnableConfig):
    desk = Desk(**GIVEN)
    return create_react_agent(ChatOpenAI(), [], prompt=desk.prompt + " Be polite.")
"""


@pytest.mark.parametrize("given", ['config.get("configurable", {})', 'config["configurable"]', "config"])
def test_a_field_that_a_configuration_may_leave_out_has_its_default(write: Write, given: str) -> None:
    write("desk.py", SETTLED.replace("GIVEN", given))
    found = read_program("desk.py:make_desk")
    assert {text.pieces[0].strip() for text in found.texts} == {"You are the clerk of a bakery.", "Be polite."}


EXTRACTED = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel, Field
from trustcall import create_extractor


class Guest(BaseModel):
    "What is known of a guest."

    name: str = Field(description="how the guest wants to be called")


reader = create_extractor(ChatOpenAI(), tools=[Guest], tool_choice="Guest")


def note(state: MessagesState) -> dict:
    return {"messages": reader.invoke({"messages": state["messages"]})["messages"]}


graph = StateGraph(MessagesState).add_node(note).add_edge(START, "note").compile()
"""


def test_tools_that_a_function_of_another_package_is_given_are_offered(write: Write) -> None:
    write("guests.py", EXTRACTED)
    found = read_program("guests.py:graph")
    assert {text.pieces[0]: "node note" in text.used_by for text in found.texts} == {
        "What is known of a guest.": True,
        "how the guest wants to be called": True,
    }


SET_UP = """
from typing import TypedDict

from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph


class Bakery(TypedDict, total=False):
    order: str
    bread: str


class Chains:
    def __init__(self) -> None:
        self.model = ChatOpenAI()
        self.set_up()

    def set_up(self) -> None:
        self.ask = ChatPromptTemplate.from_template("Ask for the {order}.") | self.model
        self.thank = ChatPromptTemplate.from_template("Say thanks for the {bread}.") | self.model


chains = Chains()


def order(state: Bakery) -> Bakery:
    return {"bread": chains.ask.invoke(state).text}


def thank(state: Bakery) -> Bakery:
    return {"order": chains.thank.invoke(state).text}


graph = StateGraph(Bakery).add_sequence([order, thank]).add_edge(START, "order").compile()
"""


def test_what_a_method_that_an_init_calls_puts_in_a_field_is_used_by_its_readers(write: Write) -> None:
    write("app.py", SET_UP)
    found = read_program("app.py:graph")
    assert {text.pieces[0]: text.used_by for text in found.texts} == {
        "Ask for the ": ("node order",),
        "Say thanks for the ": ("node thank",),
    }


ASKING_ANOTHER = """
from langgraph.graph import START, MessagesState, StateGraph
from recipes.chain import chain


def note(state: MessagesState) -> dict:
    return {"messages": [chain.invoke({"bread": state["messages"][-1].text})]}


graph = StateGraph(MessagesState).add_node(note).add_edge(START, "note").compile()
"""
RECIPES = """
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

chain = ChatPromptTemplate.from_template("Tell how to bake {bread}.") | ChatOpenAI()
"""


@pytest.mark.parametrize("name", ["chain", "CHAIN"])
@pytest.mark.parametrize("ask", ["chain.batch(", "to_thread(chain.invoke, "])
def test_a_chain_that_no_folder_has_is_told_of_however_it_is_asked(write: Write, name: str, ask: str) -> None:
    source = ASKING_ANOTHER.replace("import chain", f"import {name}")
    write("app.py", source.replace("chain.invoke(", ask.replace("chain", name)))
    told = f"recipes.chain.{name} is not in the source: what it sends to a model is not shown"
    assert [made.reason for made in read_program("app.py:graph").opaque] == [told]


def test_a_folder_that_langgraph_json_lists_may_be_a_package(write: Write) -> None:
    write("app.py", ASKING_ANOTHER)
    write("packages/recipes/__init__.py", "")
    write("packages/recipes/chain.py", RECIPES)
    write("langgraph.json", '{"dependencies": ["./packages/recipes"]}')
    assert [text.pieces for text in read_program("app.py:graph").texts] == [("Tell how to bake ", ".")]


@pytest.mark.parametrize("broken", ["[" * 100_000, '{"dependencies": null}', '"text"'])
def test_a_langgraph_json_that_cannot_be_read_lists_nothing(write: Write, broken: str) -> None:
    write("app.py", ASKING_ANOTHER)
    write("langgraph.json", broken)
    assert len(read_program("app.py:graph").opaque) == 1


@pytest.mark.parametrize("listed", [True, False])
def test_a_folder_that_langgraph_json_lists_is_read_and_what_no_folder_has_is_told_of(
    write: Write, listed: bool
) -> None:
    write("app.py", ASKING_ANOTHER)
    write("packages/kitchen/recipes/__init__.py", "")
    write("packages/kitchen/recipes/chain.py", RECIPES)
    write("langgraph.json", '{"dependencies": [".", "langgraph"' + ', "./packages/kitchen"' * listed + "]}")
    found = read_program("app.py:graph")
    assert [text.pieces for text in found.texts] == [("Tell how to bake ", ".")] * listed
    told = "recipes.chain.chain is not in the source: what it sends to a model is not shown"
    assert [(made.line, made.reason) for made in found.opaque] == [(7, told)] * (not listed)


ADDED_SKILLS = """
from deepagents import create_deep_agent


def make_baker(skills: list[str] | None = None) -> dict:
    baker = {"name": "baker", "description": "Bakes what was ordered.", "system_prompt": "You bake bread."}
    if skills:
        baker["skills"] = skills
    return baker


agent = create_deep_agent(model="openai:gpt-5", subagents=[make_baker(["./skills"])])
"""


def test_skills_that_are_put_into_a_subagent_are_told_of_with_their_line(write: Write) -> None:
    write("bakery.py", ADDED_SKILLS)
    found = read_program("bakery.py:agent")
    assert [made.line for made in found.opaque if "skills=skills" in made.reason] == [8]


def test_a_text_of_many_places_that_is_not_followed_is_told_of_in_one_line(write: Write) -> None:
    rows = "\n".join(f'    "Row {number} of the bakery.",' for number in range(8))
    source = HELD_IN_STATE.replace("def begin", f"ROWS = [\n{rows}\n]\n\n\ndef begin")
    write("app.py", source.replace("READ", "sorted(ROWS, key=hash)[0].translate({32: 95})"))
    [told] = [made.reason for made in read_program("app.py:graph").opaque]
    first = 1 + source.split("\n").index('    "Row 0 of the bakery.",')
    shown = ", ".join(f"app.py:{first + number}" for number in range(5))
    assert told.startswith(f"how the text at {shown} and 3 other places reaches a model is not followed")


DESCRIBED_ELSEWHERE = """
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from mcp import ClientSession


def make_tool(theirs):
    @tool(theirs.name, description=DESCRIPTION)
    async def run(**given):
        "Run it."
        return given

    return run


async def make_desk(config):
    page = await ClientSession(*config["streams"]).list_tools()
    return create_react_agent(ChatOpenAI(), [make_tool(theirs) for theirs in page.tools], prompt="You take orders.")
"""


@pytest.mark.parametrize(
    ("description", "lines"), [("theirs.description", [9]), ('theirs.description or "Bakes."', []), ('"Bakes."', [])]
)
def test_a_description_of_a_tool_that_the_source_does_not_show_is_told_of(
    write: Write, description: str, lines: list[int]
) -> None:
    write("desk.py", DESCRIBED_ELSEWHERE.replace("DESCRIPTION", description))
    told = "the source does not show what describes a tool: theirs.description"
    assert [made.line for made in read_program("desk.py:make_desk").opaque if made.reason == told] == lines


CHOSEN_BY_ENUM = """
from enum import Enum
from pathlib import Path
from jinja2 import DictLoader, Environment
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph

llm = ChatOpenAI()
TEXTS = {"bake": "You bake {what} well.", "sell": "You sell {what} well.", "clean": "You clean {what} well."}
ENV = Environment(loader=DictLoader({"bake": "You bake {{ what }} well.", "sell": "You sell {{ what }} well."}))


class Key(str, Enum):
    BAKE = "bake"
    SELL = "sell"


class Prompts:
    def fill(self, key: Key):
        return ChatPromptTemplate.from_messages([("system", TEXTS[key.value])]).format_messages(what="bread")


def render(key: Key):
    return ENV.get_template(key.value).render(what="bread")


def load(key: Key):
    return Path("prompts", f"{key.value}.md").read_text()


def bake(state):
    return {"said": llm.invoke(CALL(Key.BAKE))}


def sell(state):
    return {"said": llm.invoke(CALL(Key.SELL))}


graph = StateGraph(dict).add_node(bake).add_node(sell).add_edge(START, "bake").compile()
"""


@pytest.mark.parametrize("call", ["Prompts().fill", "render", "load"])
def test_a_text_that_a_member_of_an_enum_chooses_is_of_the_node_that_names_it(write: Write, call: str) -> None:
    for name in ("bake", "sell", "clean"):
        write(f"prompts/{name}.md", f"You {name} well.")
    write("bakery.py", CHOSEN_BY_ENUM.replace("CALL", call))
    found = read_program("bakery.py:graph")
    assert sorted((text.pieces[0].split()[1], text.used_by) for text in found.texts if "You" in text.pieces[0]) == [
        ("bake", ("node bake",)),
        ("sell", ("node sell",)),
    ]
    assert not found.opaque


TEAM_IN_A_CHAIN = """
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

llm = ChatOpenAI()


def get_order(state):
    return {"order": state["order"]}


def bake(state):
    return {"said": llm.invoke([("system", "You bake bread."), ("human", state["order"])]).text}


team = StateGraph(dict).add_node(bake).add_edge(START, "bake").add_edge("bake", END).compile()
graph = StateGraph(dict).add_node("kitchen", CHAIN).add_edge(START, "kitchen").compile()
"""


@pytest.mark.parametrize("chain", ["get_order | team | get_order", "get_order | team", "team | get_order"])
def test_a_graph_in_a_chain_is_read(write: Write, chain: str) -> None:
    write("bakery.py", TEAM_IN_A_CHAIN.replace("CHAIN", chain))
    found = read_program("bakery.py:graph")
    assert [(part.name, part.node) for part in found.subgraphs] == [("team", "kitchen")]
    assert [text.used_by for text in found.texts] == [("node team/bake",)]


DEEP_TEAM = """
from deepagents import CompiledSubAgent, SubAgent, create_deep_agent
from langchain.agents import create_agent

COMMON = {"model": "openai:gpt-5-mini"}
SPECS = [
    {"name": "baker", "description": "Bakes what was ordered.", "system_prompt": "You bake bread."},
    {"name": "seller", "description": "Sells what was baked.", "system_prompt": "You sell bread."},
]
graph = create_deep_agent(model="openai:gpt-5", subagents=TEAM)
"""
SOLD = '"system_prompt": "You sell bread."'


@pytest.mark.parametrize(
    "team",
    [
        "[{**spec, **COMMON} for spec in SPECS]",
        "[spec | COMMON for spec in SPECS]",
        "[{**SPECS[0], **COMMON}, {**COMMON, **SPECS[1]}]",
        '[SubAgent(name="baker", description="Bakes what was ordered.", system_prompt="You bake bread."), SPECS[1]]',
        '[SPECS[0], {"name": "seller", "description": "Sells what was baked.", "runnable": SELLER}]',
        '[SPECS[0], CompiledSubAgent(name="seller", description="Sells what was baked.", runnable=SELLER)]',
    ],
)
def test_subagents_are_read_however_their_dicts_are_made(write: Write, team: str) -> None:
    seller = 'create_agent("openai:gpt-5", system_prompt="You sell bread.")'
    write("bakery.py", DEEP_TEAM.replace("TEAM", team).replace("SELLER", seller))
    texts = read_program("bakery.py:graph").texts
    assert sorted((text.pieces[0], text.used_by[0]) for text in texts) == [
        ("Bakes what was ordered.", "node baker"),
        ("Sells what was baked.", "node seller"),
        ("You bake bread.", "node baker"),
        ("You sell bread.", "node seller"),
    ]


@pytest.mark.parametrize("seller", ['{**SPECS[0], "name": "seller", SOLD}', 'SPECS[0] | {"name": "seller", SOLD}'])
def test_of_a_key_that_a_subagent_has_twice_the_last_counts(write: Write, seller: str) -> None:
    write("bakery.py", DEEP_TEAM.replace("TEAM", f"[{seller.replace('SOLD', SOLD)}]"))
    texts = read_program("bakery.py:graph").texts
    assert sorted((text.pieces[0], text.used_by[0]) for text in texts) == [
        ("Bakes what was ordered.", "node seller"),
        ("You sell bread.", "node seller"),
    ]


ON_THE_PATH = """
import sys
from pathlib import Path
from langgraph.graph import START, StateGraph

FOLDER
from oven import bake


def sell(state):
    return {"said": bake(state["order"])}


graph = StateGraph(dict).add_node(sell).add_edge(START, "sell").compile()
"""


@pytest.mark.parametrize(
    "folder",
    [
        'sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "kitchen"))',
        'sys.path.append(os.path.join(os.path.dirname(__file__), "..", "kitchen"))',
        "import kitchen_path",
    ],
)
def test_modules_in_folders_that_the_program_adds_to_the_path_are_read(write: Write, folder: str) -> None:
    write("pyproject.toml", "")
    write("shop/kitchen_path.py", "import sys\n\nsys.path.append('kitchen')\n")
    write(
        "kitchen/oven.py",
        "import flour\n\n\ndef bake(order):\n    return flour.llm.invoke(f'Bake {order} well.').text\n",
    )
    write("kitchen/flour.py", "from langchain_openai import ChatOpenAI\n\nllm = ChatOpenAI()\n")
    write("shop/desk.py", ON_THE_PATH.replace("FOLDER", folder).replace("import sys", "import os\nimport sys"))
    assert [text.pieces for text in read_program("shop/desk.py:graph").texts] == [("Bake ", " well.")]


def test_folders_of_other_projects_on_the_path_are_not_read(write: Write, tmp_path: Path) -> None:
    write("app/pyproject.toml", "")
    write("outside/oven.py", "def bake(order):\n    return 'a secret'\n")
    write("app/desk.py", ON_THE_PATH.replace("FOLDER", f"sys.path.append({str(tmp_path / 'outside')!r})"))
    found = read_program("app/desk.py:graph")
    assert found.files == ("app/desk.py",)
    [told] = found.opaque
    assert (told.line, told.way_out) == (6, "run it from the folder of the whole project")


@pytest.mark.parametrize("folder", ["lib/site-packages", "loop", "a" * 5_000, "a\0b", "\ud800"])
def test_what_is_no_folder_of_a_program_on_the_path_is_passed_over(write: Write, tmp_path: Path, folder: str) -> None:
    write("lib/site-packages/oven.py", "def bake(order):\n    return order\n")
    (tmp_path / "loop").symlink_to("loop")
    write("desk.py", ON_THE_PATH.replace("FOLDER", f"sys.path.append({folder!r})"))
    found = read_program("desk.py:graph")
    assert (found.files, found.opaque) == (("desk.py",), ())


def test_the_work_of_a_program_is_bounded_however_many_expressions_need_more(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_patience(monkeypatch, 160)
    monkeypatch.setattr(source, "SHARE", 1_000)
    lines = list[str]()
    for number in range(40):
        returns = [f"    if kind == {each}:\n        return part{each}(kind)" for each in range(30)]
        lines += [f"def pick{number}(kind):", *returns, f"TEXT{number} = pick{number}(input())"]
    lines += [f"def part{each}(kind):\n    return 'You help as number {each}.'" for each in range(30)]
    prompt = "PROMPT = ' '.join(['You help.', " + ", ".join(f"TEXT{number}" for number in range(40)) + "])"
    write("app.py", "\n".join([*lines, prompt, GRAPH]))
    program = read_opened(monkeypatch)
    assert program.spent < 10_000
    assert program.patience < 10


def test_the_tests_before_a_statement_are_asked_once_however_many_statements_follow(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ask = list[Any](), Program.is_false

    def note(program: Program, test: ast.expr, at: Any) -> bool:
        asked.append(test)
        return ask(program, test, at)

    monkeypatch.setattr(Program, "is_false", note)
    counts = []
    for number in (10, 20):
        asked.clear()
        lines = [f"    if state['left{each}']:\n        return None\n    print({each})" for each in range(number)]
        write("app.py", GRAPH.replace("def chat(state):", "\n".join(["def chat(state):", *lines])))
        read_program("app:graph")
        counts.append(len(asked))
    assert counts[1] < 3 * counts[0]


def test_an_expression_that_is_nested_too_deeply_is_told_of(write: Write) -> None:
    lines = [f"def help{number}(text):\n    return help{number + 1}(text)" for number in range(70)]
    lines += ["def help70(text):\n    return WORDS[text]", "WORDS = {'a': 'You help.'}"]
    write("app.py", "\n".join([*lines, "PROMPT = help0('a')", GRAPH]))
    [opaque] = read_program("app:graph").opaque
    assert opaque.reason.startswith("help0('a')")


def test_more_values_than_are_followed_are_told_of(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST", 4)
    returns = "".join(f"    if x == {n}:\n        return 'You help as number {n}.'\n" for n in range(6))
    write("app.py", f"def pick(x):\n{returns}PROMPT = pick(input())\n{GRAPH}")
    inventory = read_program("app:graph")
    assert len(inventory.texts) == 4
    assert "may be more than can be followed" in inventory.opaque[0].reason


def test_more_calls_than_are_followed_are_told_of(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST", 4)
    asked = "\n".join(f"    ask('You help as number {number}.')" for number in range(6))
    head = GRAPH.partition("def chat")[0]
    rest = "graph = StateGraph(MessagesState).add_node(chat).add_edge(START, 'chat').compile()"
    write("app.py", f"{head}\ndef ask(text):\n    return llm.invoke(text)\ndef chat(state):\n{asked}\n{rest}")
    inventory = read_program("app:graph")
    assert len(inventory.texts) == 4
    assert "text" in inventory.opaque[0].reason.split()


def test_all_files_that_a_line_cuts_are_named(write: Write) -> None:
    lines = ["def load(name):", "    return open(name + '.md').read().split('---')[1]"]
    nodes = TWO_NODES.format("\n".join(lines), "load('plan')", "load('solve')")
    for name in ("plan", "solve"):
        write(f"{name}.md", f"Notes.\n---\nYou {name} it.\n")
    write("app.py", nodes)
    assert [thing.reason for thing in read_program("app:graph").opaque] == [
        "a text is cut out of plan.md, solve.md by code"
    ]


def test_no_secret_of_the_settings_stands_on_the_page(write: Write) -> None:
    fields = [
        "mongo_uri: str = 'mongodb://ann:hunter22@db.example:27017'",
        "db_password: str = 'correct-horse'",
        "api_key: str = Field(default='sk-1234567890')",
        "max_tokens: int = 4096",
        "api_token: str = ''",
    ]
    head = "from pydantic import Field\nfrom pydantic_settings import BaseSettings\n"
    settings = "\n    ".join(["class Settings(BaseSettings):", *fields])
    write("app.py", f"{head}{settings}\nsettings = Settings()\nPROMPT = 'You help.'\n{GRAPH}")
    inventory = read_program("app:graph")
    assert {value.name: value.default for value in inventory.values} == {
        "mongo_uri": "'mongodb://***@db.example:27017'",
        "db_password": "'***'",
        "api_key": "'***'",
        "max_tokens": "4096",
        "api_token": "''",
    }
    assert not [secret for secret in ("hunter22", "correct-horse", "sk-") if secret in inventory.model_dump_json()]
    assert mask_secrets("Chase hunter22.") == "Chase hunter22.", "a default of a file is a secret of no other text"


POSTED = """
import httpx
from langgraph.graph import START, StateGraph


def bake(state):
    body = {"model": "small", "stream": False, PARTS}
    LATER
    return {"said": httpx.post("http://oven/v1", json=body).json()}


graph = StateGraph(dict).add_node(bake).add_edge(START, "bake").compile()
"""


@pytest.mark.parametrize(
    ("parts", "later"),
    [
        ('"system": "You bake bread.", "messages": [{"role": "user", "content": state["order"]}]', "pass"),
        ('"messages": [{"role": "user", "content": state["order"]}]', 'body["system"] = "You bake bread."'),
        ('"prompt": "You bake bread."', "pass"),
        ('"contents": [{"parts": []}], "systemInstruction": {"parts": [{"text": "You bake bread."}]}', "pass"),
    ],
)
def test_what_is_posted_to_the_server_of_a_model_is_listed(write: Write, parts: str, later: str) -> None:
    write("bakery.py", POSTED.replace("PARTS", parts).replace("LATER", later))
    found = read_program("bakery.py:graph").texts
    assert [(text.pieces, text.hindrance) for text in found] == [(("You bake bread.",), "sent past LangChain")]


def test_a_posted_body_without_a_model_is_no_prompt(write: Write) -> None:
    source = POSTED.replace('"model": "small", ', "").replace("PARTS", '"input": "Bread."').replace("LATER", "pass")
    write("bakery.py", source)
    assert not read_program("bakery.py:graph").texts


HANDED_OVER = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph

llm = ChatOpenAI()


def retry(call):
    oven.call("Not asked of a model.")
    return call("You bake bread.")


def pass_on(call, *args, **named):
    return call(*args, **named)


class Baker:
    def ask(self, text):
        return llm.invoke(text)


class Retry:
    @classmethod
    async def run(cls, *, ask):
        return await ask("You bake bread.")


def bake(state):
    def ask(text):
        return llm.invoke(text)

    return {"said": CALL}


graph = StateGraph(dict).add_node(bake).add_edge(START, "bake").compile()
"""


@pytest.mark.parametrize(
    "call",
    [
        "retry(lambda text: llm.invoke(text))",
        "Retry.run(ask=lambda text: llm.ainvoke(text))",
        "retry(ask)",
        "retry(Baker().ask)",
        "[pass_on(ask, 'You bake bread.'), pass_on(print, 'Not asked of a model.')]",
    ],
)
def test_what_a_function_passes_to_one_that_it_is_given_is_listed(write: Write, call: str) -> None:
    write("bakery.py", HANDED_OVER.replace("CALL", call))
    assert [text.pieces for text in read_program("bakery.py:graph").texts] == [("You bake bread.",)]
