"""Texts that reach a model by expressions that no rule follows: each is listed, or its line is named as opaque."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from selfwire.extras.adopt import held_texts
from selfwire.extras.adopt.names import Traced
from selfwire.extras.adopt.page import Inventory
from selfwire.extras.adopt.reader import read_program
from selfwire.extras.adopt.source import Program
from selfwire.extras.adopt.texts import TextFinder

APP = """
import collections, functools, hashlib, itertools, json, operator, re, string, textwrap, types
import requests
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from pydantic import BaseModel, Field, ValidationError, field_validator
from typing_extensions import ClassVar, NamedTuple, TypedDict

llm = ChatOpenAI(model="gpt-4o")


class State(TypedDict):
    question: str
    answer: str


{before}


def node(state: State):
    return {{"answer": llm.invoke({asked}).text}}


graph = {graph}.add_node("node", node).add_edge(START, "node").compile()
"""
TEXT = "Be kind to all."


def read(folder: Path, asked: str, before: str) -> tuple[Inventory, int]:
    """Read a program whose node asks a model an expression; also the line of the text."""
    source = APP.format(
        asked=asked.replace("TEXT", repr(TEXT)),
        before=before.replace("TEXT", repr(TEXT)),
        graph="FIRST" if "FIRST" in before else "StateGraph(State)",
    )
    (folder / "app.py").write_text(source)
    lines = [number for number, line in enumerate(source.splitlines(), 1) if TEXT in line]
    return read_program("app:graph"), lines[0] if lines else 0


@pytest.mark.parametrize(
    ("asked", "before"),
    [
        ("operator.itemgetter('k')(D)", "D = {'k': TEXT}"),
        ("operator.attrgetter('k')(C)", "class C:\n    k = TEXT"),
        ("'{0.A}'.format(C)", "class C:\n    A = TEXT"),
        ("C.model_fields['A'].default", "class C(BaseModel):\n    A: str = TEXT"),
        ("C.tell()", "class C:\n    tell = classmethod(lambda cls: TEXT)"),
        ("T(TEXT).substitute(n=1)", "class T(string.Template):\n    delimiter = '%'"),
        ("PROMPT.fill()", "class T(str):\n    def fill(self):\n        return self.format()\nPROMPT = T(TEXT)"),
        ("b'Be kind to all.'.decode()", ""),
        ("vars(C)[state['question']]", "class C:\n    A = TEXT"),
        ("D.setdefault('k', TEXT)", "D = {}"),
        ("textwrap.shorten(TEXT, 20)", ""),
        ("TEXT.translate({})", ""),
        ("(PARTS * 2)[1]", "PARTS = [TEXT, 'b']"),
        ("list(zip(A, B))[0][1]", "A, B = ['a'], [TEXT]"),
        ("list(enumerate(A))[0][1]", "A = [TEXT]"),
        ("list(map(str.upper, A))[0]", "A = [TEXT]"),
        ("dict.fromkeys('ab', TEXT)['a']", ""),
        ("sum(A, [])[0]", "A = [[TEXT]]"),
        ("' '.join(COLUMN)", "for COLUMN, part in zip([['a'], ['b']], ['c', TEXT]):\n    COLUMN.append(part)"),
        ("table()", "def table():\n    columns = [['a'], ['b']]\n    for row in [('c', 'd'), ('e', TEXT)]:\n"
         "        for column, cell in zip(columns, row):\n            column.append(cell)\n"
         "    return ' '.join(' '.join(column) for column in columns)"),
        ("functools.reduce(lambda a, b: a + b, map(str.strip, A))", "A = [TEXT]"),
        ("[' '.join(pair) for pair in itertools.product(A, A)][0]", "A = [TEXT]"),
        ("L(2).text", "L = collections.namedtuple('L', 'n text', defaults=(TEXT,))"),
        ("N.prompt", "N = types.SimpleNamespace()\nN.prompt = TEXT"),
        ("node.prompt", "def put():\n    setattr(node, 'prompt', TEXT)\n\nput()"),
        ("f'{C():long}'", "class C:\n    def __format__(self, how):\n        return TEXT"),
        ("C() >> 'b'", "class C:\n    def __rshift__(self, other):\n        return TEXT + other"),
        ("HumanMessage('a').model_copy(update={'content': TEXT}).text", ""),
        ("say(state)", "def hand(text):\n    return lambda f: lambda state: f(state, text)\n\n@hand(TEXT)\n"
         "def say(state, text):\n    return text"),
        ("check(state)", "def fail():\n    raise ValueError(TEXT)\n\ndef check(state):\n    try:\n        fail()\n"
         "    except ValueError as error:\n        return f'Mend this: {error}'"),
        ("check(state)", "def fail():\n    raise ValueError(TEXT)\n\ndef check(state):\n    try:\n        fail()\n"
         "    except (KeyError, ValueError) as error:\n        return f'Mend this: {error}'"),
        ("check(state)", "class Deed:\n    def __init__(self):\n        raise ValueError(TEXT)\n\ndef check(state):\n"
         "    try:\n        Deed()\n    except ValueError as error:\n        return f'Mend this: {error}'"),
        ("check(state)", "class Deed(BaseModel):\n    name: str\n\n    @field_validator('name')\n"
         "    def look(cls, name):\n        raise ValueError(TEXT)\n\ndef check(state):\n    try:\n"
         "        Deed.model_validate(state)\n    except ValidationError as error:\n        return f'Mend: {error}'"),
        ("check(state)", "import langchain.messages\n\ndef fail():\n    raise ValueError(TEXT)\n\ndef check(state):\n"
         "    try:\n        fail()\n    except ValueError as error:\n"
         "        return langchain.messages.HumanMessage(f'Mend: {error}')"),
        ("check(state)", "def fail():\n    raise RuntimeError(TEXT)\n\ndef check(state):\n    try:\n        fail()\n"
         "    except Exception as error:\n        return f'Mend this: {error}'"),
        ("check(state)", "@tool\ndef look(text: str) -> str:\n    'Look.'\n    raise KeyError(TEXT)\n\n"
         "TOOLS = {'look': look}\ndef check(state):\n    try:\n        return TOOLS[state['question']].invoke({})\n"
         "    except Exception as error:\n        return f'Mend this: {error}'"),
        ("check(state)", "class Deed(BaseModel):\n    name: str\n\n    @field_validator('name')\n"
         "    def look(cls, name):\n        raise ValueError(TEXT)\n\nmaker = llm.with_structured_output(Deed)\n"
         "def check(state):\n    try:\n        maker.invoke('')\n    except Exception as error:\n"
         "        return f'{error}'"),
        ("check(state)", "class Late(LookupError):\n    pass\n\ndef fail():\n    raise Late(TEXT)\n\n"
         "def check(state):\n    try:\n        fail()\n    except LookupError as error:\n        return f'{error}'"),
        ("check(state)", "def fail(text):\n    assert text, TEXT\n\ndef check(state):\n    try:\n"
         "        fail(state)\n    except AssertionError as error:\n        return f'{error}'"),
        ("check(state)", "import traceback\ndef fail():\n    raise RuntimeError(TEXT)\n\ndef check(state):\n"
         "    try:\n        fail()\n    except Exception:\n        return traceback.format_exc()"),
        ("check(state)", "def fail():\n    raise RuntimeError(TEXT)\n\ndef check(state):\n    last = ''\n"
         "    for _ in range(2):\n        said = llm.invoke(f'Mend this: {last}')\n        try:\n            fail()\n"
         "        except Exception as error:\n            last = error\n    return said"),
        ("MARK.text", "class Kind(type):\n    @property\n    def text(cls):\n        return TEXT\n\n"
         "class MARK(metaclass=Kind):\n    pass"),
        ("Look.model_fields['text'].description", "class Look(BaseModel):\n    text: str = Field(description=TEXT)"),
        ("[part.metadata['about'] for part in fields(Look)][0]", "from dataclasses import dataclass, field, fields\n"
         "@dataclass\nclass Look:\n    text: str = field(default='', metadata={'about': TEXT})"),
        ("vars(RULE)['text']", "class Rule:\n    def __init__(self):\n        self.text = TEXT\nRULE = Rule()"),
        ("say(state)", "def say(state):\n    kind = TEXT\n    return locals()[state['question']]"),
        ("RULE", "RULE = None\ndef load():\n    global RULE\n    RULE = TEXT\nload()"),
        ("state['question']", "from langgraph.prebuilt import ToolNode\n@tool\ndef look(text: str) -> str:\n"
         "    'Look.'\n    raise KeyError(TEXT)\n\n"
         "FIRST = StateGraph(State).add_node('look', ToolNode([look], handle_tool_errors=True))"),
        ("state['question']", "from langgraph.prebuilt import ToolNode\n@tool\ndef look(text: str) -> str:\n"
         "    'Look.'\n    raise KeyError(TEXT)\n\ndef mend(error):\n    return f'Mend this: {error}'\n\n"
         "FIRST = StateGraph(State).add_node('look', ToolNode([look], handle_tool_errors=mend))"),
        ("check(state)", "FAULTS = (KeyError, RuntimeError)\ndef fail():\n    raise RuntimeError(TEXT)\n\n"
         "def check(state):\n    try:\n        fail()\n    except FAULTS as error:\n        return f'{error}'"),
        ("state['question']", "RULES = ['Be brief and clear.']\nRULES = [*RULES, RULES, TEXT]\n"
         "class Look(BaseModel):\n    rules: list = RULES\n\nllm = llm.with_structured_output(Look)"),
        ("check(state)", "class Part(BaseModel):\n    name: str\n\n    @field_validator('name')\n"
         "    def look(cls, name):\n        raise ValueError(TEXT)\n\nclass Deed(BaseModel):\n"
         "    parts: list[Part]\n\ndef check(state):\n    try:\n        Deed(**state)\n"
         "    except ValueError as error:\n        return f'{error}'"),
        ("check(state)", "class Rule:\n    MILD = TEXT\n\nclass Fault(Exception):\n"
         "    def __init__(self, rule):\n        self.rule = rule\n\nclass Kind:\n    def __init__(self, text):\n"
         "        self.text = text\n\ndef check(state):\n    try:\n        raise Fault(Kind(Rule.MILD))\n"
         "    except Fault as error:\n        return f'{error.rule.text}'"),
        ("state['question']", "class Part(BaseModel):\n    text: str = ''\n\nclass Look(BaseModel):\n"
         "    part: Part = Part(text=TEXT)\n\nllm = llm.with_structured_output(Look)"),
        ("state['question']", "@tool\ndef look(text=TEXT):\n    'Look.'\n    return str(len(text))\n\n"
         "llm = llm.bind_tools([look])"),
        ("state['question']", "class Look(BaseModel):\n    text: str = Field(default=TEXT)\n\n"
         "llm = llm.with_structured_output(Look)"),
        ("state['question']", "class Look(BaseModel):\n    text: str = TEXT\n\nllm = llm.with_structured_output(Look)"),
        ("state['question']", "class Look(BaseModel):\n"
         "    model_config = {'json_schema_extra': {'type': 'a', 'b': TEXT}}\n"
         "    text: str\n\nllm = llm.with_structured_output(Look)"),
        ("state['question']", "class Look(BaseModel):\n"
         "    model_config = {'json_schema_extra': lambda it: it.update(a=TEXT)}\n"
         "    text: str\n\nllm = llm.with_structured_output(Look)"),
        ("state['question']", "@tool\ndef look(text: str, how: str = TEXT) -> str:\n    'Look.'\n    return text\n\n"
         "llm = llm.bind_tools([look])"),
        ("state['question']", "class Look(BaseModel):\n    'Look.'\n    text: str = Field(examples=[TEXT])\n\n"
         "llm = llm.with_structured_output(Look)"),
        ("state['question']", "tools = llm.bind_tools([tool('look', description=TEXT)(lambda text: text)])\n"
         "def use(state):\n    return tools.invoke('')\n\nllm = tools"),
    ],
)  # fmt: skip
def test_a_text_that_no_rule_follows_is_named_with_its_line(
    asked: str, before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found, line = read(tmp_path, asked, before)
    named = [text for text in found.texts if text.line == line]
    opaque = [thing for thing in found.opaque if f"app.py:{line}" in thing.reason or thing.line == line]
    assert named or opaque
    assert all(thing.way_out for thing in opaque)


@pytest.mark.parametrize(
    ("asked", "before"),
    [
        ("f'Rows: {base.execute(\"SELECT name FROM a\").fetchall()}'", "import sqlite3\nbase = sqlite3.connect('')"),
        ("f'Rows: {rows(state)}'", "def rows(base):\n    return base.execute('SELECT name FROM people').fetchall()"),
        ("f\"Page: {requests.get('https://a.example', params={'q': 'two words'}).text}\"", ""),
        ("re.search('Final Answer', state['question']).group()", ""),
        ("re.compile('Final Answer').search(state['question']).group()", ""),
        ("state['question'].split('Final Answer:')[-1]", ""),
        ("said.split('Final Answer:')[-1]", "said = llm.invoke('').text"),
        ("llm.invoke('').text.split('Final Answer:')[-1]", ""),
        ("state['question'] if state['question'] != 'nothing at all' else ''", ""),
        ("', '.join(part for part in state['question'] if part != 'nothing at all')", ""),
        ("json.dumps({'the question asked': state['question']})", ""),
        ("f\"So: {hashlib.sha256(state['question']).hexdigest('some words')}\"", ""),
        ("f\"So: {open('some file.txt').read()}\"", ""),
        ("[HumanMessage(state['question'], name='the user', additional_kwargs={'a': 'b c'})]", ""),
        ("f\"Now: {datetime.now().strftime('day of %B')}\"", "from datetime import datetime"),
        ("f\"{len(ROWS)} {ROWS.index('the second')}\"", "ROWS = ['the first', 'the second']"),
        ("f\"{len(BASE)} {BASE.find(state['question'])}\"", "class Base:\n    def __init__(self, path):\n"
         "        self.path = path\n    def __repr__(self):\n        return f'Base at {self.path}'\n"
         "    def __len__(self):\n        return 3\n    def find(self, text):\n        return text\n\n"
         "BASE = Base('a path of files')"),
        ("f\"{state['question'].count('two words')} {state['question'].startswith('dear sir')}\"", ""),
        ("max(state['question'], key=lambda word: KEYS.get(word))", "KEYS = {'a': 'first of all'}"),
        ("check(state['question'])", "def start(count):\n    if count:\n        raise ValueError('too many here')\n\n"
         "start(2)\ndef check(text):\n    start(3)\n    try:\n        return str(int(text))\n"
         "    except ValueError as error:\n        return f'{error}'"),
        ("check(state['question'])", "class Good:\n    def fetch(self):\n        return ''\n\nclass Bad:\n"
         "    def fetch(self):\n        raise ValueError('too many here')\n\ndef check(text):\n"
         "    Bad().fetch()\n    try:\n        return Good().fetch()\n    except ValueError as error:\n"
         "        return f'{error}'"),
        ("check(state['question'])", "@tool\ndef look(text: str) -> str:\n    'Look.'\n"
         "    raise KeyError('too many here')\n\n"
         "def check(text):\n    try:\n        return llm.invoke(text).text\n    except Exception as error:\n"
         "        return f'{error}'"),
        ("f\"{state['question']} {Look.model_json_schema()}\"", "class Look(BaseModel):\n"
         "    text: str = Field(default_factory=lambda: 'some words')"),
        ("state['question']", "class Look(BaseModel):\n    kind: ClassVar[str] = 'some words'\n"
         "    _own: str = 'some words'\n    text: str\n\nllm = llm.with_structured_output(Look)"),
        ("state['question']", "from langgraph.prebuilt import ToolNode\n@tool\ndef look(text: str) -> str:\n"
         "    'Look.'\n    raise KeyError('too many here')\n\ndef mend(error):\n    return 'Try again.'\n\n"
         "FIRST = StateGraph(State).add_node('look', ToolNode([look], handle_tool_errors=mend))"),
        ("check(state['question'])", "class Part(BaseModel):\n    name: str\n\n    @field_validator('name')\n"
         "    def look(cls, name):\n        raise ValueError('too many here')\n\nclass Deed(BaseModel):\n"
         "    name: str\n\ndef check(text):\n    try:\n        return Deed.model_validate_json(text).name\n"
         "    except ValueError as error:\n        return f'{error}'"),
        ("check(state['question'])", "class Fault(Exception):\n    def __init__(self, note, code):\n"
         "        self.note, self.code = note, code\n\ndef check(text):\n    try:\n"
         "        raise Fault('too many here', 'b')\n    except Fault as error:\n        return f'{error.code}'"),
        ("state['question']", "def count(label):\n    return lambda function: lambda *given: function(*given)\n\n"
         "class Desk:\n    name = ''\n\n    @count('too many here')\n    def start(self, state):\n"
         "        return {'answer': llm.invoke([self.name, *state['question']]).text}\n\n"
         "FIRST = StateGraph(State).add_node('start', Desk().start)"),
        ("state['question']", "class Look(BaseModel):\n    text: str\n\n"
         "@tool(args_schema=Look)\ndef look(text: str = 'too many here') -> str:\n    'Look.'\n"
         "    return ''\n\nllm = llm.bind_tools([look])"),
        ("state['question']", "@tool(response_format='content_and_artifact')\ndef look(text: str):\n    'Look.'\n"
         "    return '', 'too many here'\n\nllm = llm.bind_tools([look])"),
        ("f\"{WATCH.seconds} {state['question']}\"", "class Watch:\n    def __init__(self, label):\n"
         "        self.label = label\n\nWATCH = Watch('how long it takes')"),
        ("', '.join(step['name'] for step in state['question'])", "def start(state):\n"
         "    return {'question': [{'name': state['answer'], 'note': 'not for anybody'}]}\n\n"
         "FIRST = StateGraph(State).add_node(start)"),
        ("check(state['question'])", "def check(text):\n    print('all is well')\n    if not text:\n"
         "        raise ValueError('nothing at all')\n    return text"),
    ],
)  # fmt: skip
def test_what_only_names_a_thing_or_is_asked_of_others_is_no_text(
    asked: str, before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = read(tmp_path, asked, before)[0]
    assert found.opaque == ()
    assert not any("too many here" in piece for text in found.texts for piece in text.pieces)


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("' '.join(f'{key}: {text}' for key, text in state['question'].items())", "{'a': TEXT}"),
        ("' '.join(f'{text}.' for text in state['question'].values())", "{'a': TEXT}"),
        ("' '.join(f'{step[\"name\"]}.' for step in state['question'])", "[{'name': TEXT}]"),
        ("' '.join(f'{name}: {text}' for name, text in state['question'])", "[('a', TEXT)]"),
        ("state['question'][-1]", "[TEXT]"),
        ("state.get('question', {}).get('a', '')", "{'a': TEXT}"),
        ("state['question'][state['answer']]", "{'a': TEXT}"),
    ],
)
def test_a_text_in_a_collection_that_a_node_writes_is_named_with_its_line(
    asked: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start = f"def start(state: State):\n    return {{'question': {written}}}\n\n"
    found, line = read(tmp_path, asked, f"{start}FIRST = StateGraph(State).add_node(start)\n")
    named = [text for text in found.texts if text.line == line]
    assert named or [f"how the text at app.py:{line} " in thing.reason for thing in found.opaque] == [True]


@pytest.mark.parametrize(
    "asked",
    [
        "' '.join(f'* {part}' for part in sorted(state['question']))",
        "' '.join(f'{number}. {part}' for number, part in enumerate(state['question'], 1))",
        "' '.join(f'{part} {other}' for other, part in zip(state['answer'], state['question']))",
        "' '.join(f'* {part}' for part in state.get('question', []))",
        "' '.join(f'* {part}' for part in state['question'] or [])",
        "' '.join(f'* {part}' for part in state['question'][-3:])",
        "state['question'][0]",
        "say(state)",
    ],
)
def test_what_a_loop_or_an_index_takes_from_a_list_of_the_state_is_a_text_of_the_node(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start = "def start(state: State):\n    return {'question': [TEXT]}\n\nFIRST = StateGraph(State).add_node(start)\n"
    say = "def say(state):\n    parts = state['question']\n    return ' '.join(f'* {part}' for part in set(parts))\n"
    found, line = read(tmp_path, asked, start + say)
    assert [(text.line, text.used_by) for text in found.texts if text.line == line] == [(line, ("node node",))]
    assert found.opaque == ()


@pytest.mark.parametrize(
    "asked",
    [
        "' '.join(f'{name}: {part}' for name, part in state.get('question', {}).items())",
        "' '.join(sorted(state['question'].values()))",
        "' '.join(f'{number}. {part}' for number, part in enumerate(state['question'].values()))",
        "' '.join(f'{number}. {part}' for number, (name, part) in enumerate(state['question'].items()))",
    ],
)
def test_what_a_loop_takes_from_a_dict_of_the_state_is_a_text_of_the_node(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start = "def start(state):\n    return {'question': {'a': TEXT}}\n\nFIRST = StateGraph(State).add_node(start)\n"
    found, line = read(tmp_path, asked, start)
    assert [(text.line, text.used_by) for text in found.texts if text.line == line] == [(line, ("node node",))]
    assert found.opaque == ()


@pytest.mark.parametrize(
    "before",
    [
        "def hint(text):\n    def wrap(function):\n        @functools.wraps(function)\n        def inner(state):\n"
        "            return function(state, text=text)\n        return inner\n    return wrap\n\n@hint(TEXT)\n",
        "def hint(function, say=lambda: TEXT):\n    async def inner(*args, **rest):\n"
        "        return await function(*args, **rest, text=say())\n    return inner\n\n@hint\n",
    ],
    ids=["with an argument", "with a default"],
)
def test_what_the_wrapper_of_a_decorator_passes_to_a_node_is_a_text(
    before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = "def start(state, text=''):\n    return {'answer': llm.invoke(text).text}\n\nFIRST = StateGraph(State)\n"
    found, line = read(tmp_path, "state['question']", f"{before}{first}FIRST.add_node('start', start)")
    assert [(text.line, text.used_by) for text in found.texts] == [(line, ("node start",))]
    assert found.opaque == ()


def test_what_new_gives_the_one_object_of_a_class_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = """
class Step:
    made = None

    def __new__(cls):
        cls.made = super().__new__(cls)
        cls.made.model, cls.made.text = ChatOpenAI(model="my-model"), TEXT
        client = cls.made.client = connect()
        client.text = "Another one."
        return cls.made
"""
    found, line = read(tmp_path, "Step().model.invoke(Step().text).text", one)
    assert [text.line for text in found.texts] == [line]
    assert ("my-model",) in [model.names for model in found.models]


def test_the_init_of_a_builder_makes_nodes_whose_texts_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    school = """
def ask(text):
    return llm.invoke(text).text

class Checker:
    def __init__(self, text):
        self.text = text

    def __call__(self, state):
        return {"answer": ask(self.text)}

class School:
    def __init__(self):
        self.checkers = [Checker(TEXT)]

    def build(self):
        graph = StateGraph(State)
        for checker in self.checkers:
            graph.add_node("start", checker)
        return graph

FIRST = School().build()
"""
    found, line = read(tmp_path, "state['question']", school)
    assert [(text.line, text.used_by) for text in found.texts] == [(line, ("node start",))]


def test_a_text_of_holes_alone_is_not_opaque(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = "textwrap.shorten('{poem} -> {note}'.format(**state), 20)"
    assert read(tmp_path, asked, "")[0].opaque == ()
    assert [thing.line for thing in read(tmp_path, asked.replace("->", "as"), "")[0].opaque]


def test_the_rows_of_a_file_are_what_objects_with_an_init_are_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.json").write_text('[{"name": "a", "text": "Mark every error."}]')
    row = "class Row:\n    def __init__(self, name, text):\n        self.name, self.text = name, text\n\n"
    found, _ = read(
        tmp_path,
        "' '.join(row.text for row in ROWS)",
        f"{row}ROWS = [Row(**part) for part in json.load(open('rows.json'))]",
    )
    assert [(text.file, text.line) for text in found.texts] == [("rows.json", 1)]


def test_what_a_tool_says_in_place_of_an_error_is_listed_and_its_artifacts_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tools = """
from langchain_core.tools import BaseTool, StructuredTool

class Look(BaseTool):
    name: str = "look"
    description: str = "Look at it."
    handle_tool_error: str | bool = "Look elsewhere."
    handle_validation_error: bool = True
    response_format: str = "content_and_artifact"

    def _run(self, thing: str):
        return f"There is {thing} here.", "The whole of the shelf."

def take(thing: str) -> str:
    "Take it."
    return "It is taken."

def say(error):
    return f"The words were wrong: {error}"

kit = [Look(), StructuredTool.from_function(take, handle_validation_error=say)]
"""
    found, _ = read(tmp_path, "state['question']", f"{tools}\nllm = llm.bind_tools(kit)")
    said = [text.pieces[0] for text in found.texts if text.role == "tool result"]
    assert said == ["Look elsewhere.", "There is ", "It is taken.", "The words were wrong: "]
    outside = "StructuredTool.from_function(json.dumps, name='dump', description='Dump it.', handle_tool_error='No.')"
    found, _ = read(tmp_path, "state['question']", f"{tools}\nllm = llm.bind_tools([{outside}])")
    assert [text.used_by for text in found.texts if text.pieces == ("No.",)] == [("node node", "tool dump")]


@pytest.mark.parametrize(
    "returned", ["TEXT", "TEXT + state", 'f"{TEXT} {state}"', "' '.join([TEXT, state])", "[TEXT]", "{'a': TEXT}"]
)
def test_what_a_class_method_with_the_name_of_a_maker_returns_is_followed(
    returned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    maker = f"class Texts:\n    @classmethod\n    def load_system(cls, state):\n        return {returned}\n"
    found, line = read(tmp_path, "str(Texts.load_system(state['question']))", maker)
    assert line in [text.line for text in found.texts]


@pytest.mark.parametrize(
    "body",
    [
        "if not data:\n            return None\n        return cls(*data)",
        "if cls.made is None:\n            cls.made = cls.__new__(cls)\n        return cls.made",
        "return loads(cls, data) if data else 'Nothing is there.'",
    ],
)
def test_an_object_that_a_class_method_makes_of_what_no_source_shows_has_its_texts(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    maker = f"    made = None\n\n    @classmethod\n    def load(cls, data):\n        {body}\n"
    texts = f"class Texts:\n{maker}\n    def tell(self, question):\n        return f'{TEXT} {{question}}'\n"
    found, line = read(tmp_path, "Texts.load(state['answer']).tell(state['question'])", texts)
    assert [text.used_by for text in found.texts if text.line == line] == [("node node",)]


@pytest.mark.parametrize(
    "before",
    [
        "PARTS = {'prompt': TEXT, 'tools': []}\nagent = create_react_agent(llm, name='start', **PARTS)",
        "def make(**rest):\n    return create_react_agent(llm, [], **rest)\n\nagent = make(name='start', prompt=TEXT)",
        "agent = create_react_agent(llm, [], name='start', **json.load(open('parts.json')))",
    ],
)
def test_the_prompt_that_an_agent_is_given_by_a_dict_of_keywords_is_a_text(
    before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts.json").write_text(f'{{"prompt": "{TEXT}"}}')
    node = "FIRST = StateGraph(State).add_node(**{'node': 'start', 'action': agent})"
    edge = "FIRST.add_edge(**{'start_key': 'start', 'end_key': 'node'})"
    agent = "from langgraph.prebuilt import create_react_agent"
    found, _ = read(tmp_path, "state['question']", f"{agent}\n\n{before}\n{node}\n{edge}")
    assert [(text.pieces, text.used_by) for text in found.texts] == [((TEXT,), ("node start", "agent start"))]
    assert [(edge.source, edge.ends) for edge in found.edges] == [("start", ("node",)), ("__start__", ("node",))]


@pytest.mark.parametrize(
    "made",
    [
        "Tool.from_function(dump, 'put', TEXT)",
        "StructuredTool.from_function(dump, None, 'put', TEXT)",
        "langchain_core.tools.Tool('put', dump, TEXT)",
    ],
)
def test_the_name_and_the_description_of_a_made_tool_may_be_given_by_their_places(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dump = "def dump(text: str) -> str:\n    return text\n"
    tools = f"import langchain_core.tools\nfrom langchain_core.tools import StructuredTool, Tool\n\n{dump}"
    found, _ = read(tmp_path, "state['question']", f"{tools}\nllm = llm.bind_tools([{made}])")
    assert [(tool.name, tool.description) for tool in found.tools] == [("put", TEXT)]
    assert [text.pieces for text in found.texts] == [(TEXT,)]


def test_a_builder_whose_nodes_no_call_shows_is_opaque(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = APP.format(before="", asked="'Hello.'", graph="StateGraph(State)").partition("graph = ")[0]
    builder = "builder = StateGraph(State)\n"
    added = "def add(to):\n    to.add_node('node', node)\n\nfor step in (add,):\n    step(builder)\n"
    (tmp_path / "app.py").write_text(f"{source}{builder}{added}graph = builder.compile()\n")
    line = source.count("\n") + 1
    reason = "no call shows the nodes of StateGraph(State)"
    assert [(thing.line, thing.reason) for thing in read_program("app:graph").opaque] == [(line, reason)]


@pytest.mark.parametrize("asked", ["state['question'].tell()", "state['question'].text", "say(state)"])
def test_a_text_of_an_object_that_is_kept_in_the_state_is_named_with_its_line(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rule = "class Rule(NamedTuple):\n    text: str\n\n    def tell(self):\n        return self.text.title()\n\n"
    given = (
        "def start(state: State):\n    return {'question': Rule(TEXT)}\n\nFIRST = StateGraph(State).add_node(start)\n"
    )
    say = "def say(state: State):\n    rule = state['question']\n    return rule.tell()"
    found, line = read(tmp_path, asked, rule + given + say)
    assert [f"how the text at app.py:{line} " in thing.reason for thing in found.opaque] == [True]


@pytest.mark.parametrize(
    "source",
    [
        "def start_{n}(state):\n    last = state['question'][-1]\n"
        "    return {{'question': [f'made of {n} ' + llm.invoke(last).text, 'A text {n} in a list.']}}\n",
        "def check_{n}(text):\n    raise ValueError('The text {n} is missing.')\n\n"
        "def start_{n}(state):\n    try:\n        check_{n}(state)\n    except ValueError as error:\n"
        "        return llm.invoke(f'Mend {n}: {{error}}')\n",
    ],
)
def test_the_time_grows_with_the_program_and_not_with_its_square(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened, count = Counter[int](), 0
    open_whole, list_kinds = held_texts.open_whole, Program._list_error_kinds
    monkeypatch.setattr(held_texts, "open_whole", lambda *given: opened.update([count]) or open_whole(*given))
    monkeypatch.setattr(Program, "_list_error_kinds", lambda *given: opened.update([count]) or list_kinds(*given))
    for count in (10, 40):
        nodes = "".join(f"{source.format(n=n)}FIRST.add_node('n{n}', start_{n})\n" for n in range(count))
        read(tmp_path, "state['question']", f"FIRST = StateGraph(State)\n{nodes}")
    assert opened[40] < 6 * opened[10]


def test_a_value_of_which_many_keys_are_taken_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened, known = Counter[Traced](), held_texts.list_raised

    def list_raised(texts: TextFinder, shown: Traced) -> Iterator[Traced]:
        opened[shown] += 1
        return known(texts, shown)

    monkeypatch.setattr(held_texts, "list_raised", list_raised)
    keys = ", ".join(f"DATA['k{number}']" for number in range(30))
    inventory, line = read(tmp_path, f"zip([{keys}])", "import app_data\nDATA = dict(app_data.LOADED, rest=TEXT)")
    assert [text for text in inventory.opaque if f"app.py:{line}" in text.reason]
    assert len(opened) > 30
    assert set(opened.values()) == {1}


def test_a_builder_that_a_class_method_makes_of_its_class_has_its_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    play = """
def start(state):
    return {"answer": llm.invoke(TEXT).text}

class Play(StateGraph):
    @classmethod
    def rehearsal(cls):
        graph = cls(State)
        for name in ("start", "again"):
            graph.add_node(name, start)
        graph.add_edge("start", "again")
        return graph

FIRST = Play.rehearsal()
"""
    found, line = read(tmp_path, "state['question']", play)
    assert [node.name for node in found.nodes] == ["start", "again", "node"]
    assert [(edge.source, *edge.ends) for edge in found.edges] == [("start", "again"), ("__start__", "node")]
    assert [(text.line, text.used_by) for text in found.texts] == [(line, ("node start", "node again"))]
    assert found.opaque == ()


@pytest.mark.parametrize(
    "made",
    [
        "AGENTS = {}\nfor row in ROWS:\n"
        "    AGENTS[row['name']] = create_agent(llm, name=row['name'], system_prompt=row['text'])",
        "AGENTS = {}\nfor row in ROWS:\n    AGENTS[row['name']] = build(row['name'], row['text'])",
        "def build_all(rows):\n    made = {}\n    for row in rows:\n        model = llm\n"
        "        made[row['name']] = create_agent(model, name=row['name'], system_prompt=row['text'])\n"
        "    return made\n\nAGENTS = build_all(ROWS)",
    ],
    ids=["in a loop", "by a function in a loop", "in a loop of a function"],
)
def test_each_agent_that_a_loop_makes_has_its_own_name_and_prompt(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = """
from langchain.agents import create_agent

class Row(TypedDict):
    name: str
    text: str

def build(name, text):
    return create_agent(llm, name=name, system_prompt=text)

ROWS = [{"name": "cook", "text": "Cook a good soup."}, Row(name="waiter", text=TEXT)]
"""
    found, _ = read(tmp_path, "AGENTS[state['question']].invoke(state)", f"{rows}\n{made}\n")
    assert [agent.name for agent in found.agents] == ["cook", "waiter"]
    assert [(*text.pieces, text.used_by) for text in found.texts] == [
        ("Cook a good soup.", ("node node", "agent cook")),
        (TEXT, ("node node", "agent waiter")),
    ]


def test_a_default_that_some_rows_leave_out_is_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = (
        "import dataclasses\n\n@dataclasses.dataclass\nclass Row:\n    name: str\n    rule: str = TEXT\n\n"
        "ROWS = [Row(**row) for row in [{'name': 'a'}, {'name': 'b', 'rule': 'Be brief and clear.'}]]"
    )
    found, line = read(tmp_path, "' '.join(row.rule for row in ROWS)", row)
    assert [(text.line - line, *text.pieces) for text in found.texts] == [(0, TEXT), (2, "Be brief and clear.")]
    found, _ = read(tmp_path, "' '.join(row.rule for row in ROWS)", row.replace("'a'}", "'a', 'rule': 'Be kind.'}"))
    assert [*zip(*(text.pieces for text in found.texts), strict=True)] == [("Be kind.", "Be brief and clear.")]


def test_an_item_that_a_dict_replaces_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cards = "BASE = {'rule': 'Be brief and clear.', 'other': 'Be polite.'}\nCARD = {**BASE, 'rule': TEXT}"
    found, line = read(tmp_path, "CARD['rule'] + CARD['other']", cards)
    assert [(text.line - line, *text.pieces) for text in found.texts] == [(-1, "Be polite."), (0, TEXT)]


@pytest.mark.parametrize(
    "chain",
    [
        "RunnablePassthrough.assign(hint=RunnableLambda(tell)) | PROMPT | llm",
        "RunnablePassthrough.assign(hint=BOOK.tell) | PROMPT | llm",
        "RunnablePassthrough.assign(hint=operator.itemgetter('a') | RunnableLambda(tell)) | PROMPT | llm",
        "{'hint': operator.itemgetter('a') | RunnableLambda(tell)} | (PROMPT + 'Be brief and clear.') | llm",
    ],
)
def test_what_functions_fill_into_a_prompt_of_a_chain_is_a_text(
    chain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = """
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

PROMPT = PromptTemplate.from_template("Say it so: {hint}")

def tell(given):
    return given or TEXT

class Book:
    def tell(self, given):
        return tell(given)

BOOK = Book()
"""
    found, line = read(tmp_path, "CHAIN.invoke(state).text", f"{parts}\nCHAIN = {chain}\n")
    assert (line, ("node node",)) in [(text.line, text.used_by) for text in found.texts]


@pytest.mark.parametrize(
    "made",
    [
        "def add(name, *, text, before):\n    FIRST.add_node(name, lambda state: ask(text))\n"
        "    FIRST.add_edge(before, name)\n\n"
        "FIRST = StateGraph(State)\nadd('cook', text=ROWS['cook'], before=START)\n"
        "add('waiter', text=ROWS['waiter'], before='cook')",
        "def make():\n    made, last = StateGraph(State), START\n    def add(name, text, before):\n"
        "        made.add_node(name, lambda state, text=text: ask(text))\n        made.add_edge(before, name)\n"
        "    for name, text in ROWS.items():\n        add(name, text, last)\n        last = name\n"
        "    return made\n\nFIRST = make()",
        "FIRST, last = StateGraph(State), START\nfor name, text in ROWS.items():\n"
        "    FIRST.add_node(name, lambda state, text=text: ask(text))\n    FIRST.add_edge(last, name)\n    last = name",
        "def make(text):\n    def node(state):\n        return ask(text)\n    return node\n\n"
        "FIRST, last = StateGraph(State), START\nfor name, text in ROWS.items():\n"
        "    FIRST.add_node(name, make(text))\n    FIRST.add_edge(last, name)\n    last = name",
    ],
    ids=["of the module", "of the function around", "in a loop", "made by a function in a loop"],
)
def test_what_a_function_adds_to_a_builder_around_it_is_that_of_each_call(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "ROWS = {'cook': 'Cook a good soup.', 'waiter': TEXT}\n"
    start = f"def ask(text):\n    return {{'answer': llm.invoke(text).text}}\n\n{rows}"
    found, _ = read(tmp_path, "state['question']", f"{start}\n{made}\n")
    edges = [(edge.source, *edge.ends) for edge in found.edges if "node" not in edge.ends]
    assert edges == [("__start__", "cook"), ("cook", "waiter")]
    assert [(*text.pieces, text.used_by) for text in found.texts] == [
        ("Cook a good soup.", ("node cook",)),
        (TEXT, ("node waiter",)),
    ]


@pytest.mark.parametrize(
    "run",
    [
        "asyncio.to_thread(ask, TEXT)",
        "POOL.submit(ask, text=TEXT).result()",
        "asyncio.get_running_loop().run_in_executor(None, ask, TEXT)",
        "list(POOL.map(ask, [TEXT]))",
        "list(map(ask, ['a', TEXT]))",
        "list(map(lambda text: ask(text), [TEXT]))",
        "asyncio.get_running_loop().run_in_executor(None, lambda text: ask(text), TEXT)",
    ],
)
def test_what_is_passed_with_a_function_to_what_runs_it_is_a_text(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pool = "import asyncio, concurrent.futures\n\nPOOL = concurrent.futures.ThreadPoolExecutor()\n"
    ask = "def ask(text):\n    return llm.invoke([('system', text)]).text\n"
    keep = "def keep(state, replies):\n    return state['question']\n"
    found, _ = read(tmp_path, f"keep(state, {run})", f"{pool}\n{ask}\n{keep}")
    assert [(text.role, text.used_by) for text in found.texts if text.pieces == (TEXT,)] == [("system", ("node node",))]


@pytest.mark.parametrize("name", ["submit", "map", "to_thread"])
def test_a_function_of_the_program_may_be_named_like_one_that_runs_others(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    body = "return llm.invoke([('system', text)]).text\n"
    box = f"class Box:\n    def {name}(self, text):\n        {body}\nBOX = Box()\n\ndef {name}(text):\n    {body}"
    found, _ = read(tmp_path, f"{name}(TEXT) + BOX.{name}('Be brief and clear.')", box)
    assert {text.pieces for text in found.texts} == {(TEXT,), ("Be brief and clear.",)}


@pytest.mark.parametrize("run", ["asyncio.to_thread(tell, 'a')", "LOOP.run_in_executor(None, tell, 'a')"])
def test_what_a_function_returns_that_runs_in_a_thread_is_a_text(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tell = "import asyncio\n\nLOOP = asyncio.new_event_loop()\n\ndef tell(given):\n    return f'{given}: TEXT'\n"
    found, line = read(tmp_path, f"await {run}", tell.replace("TEXT", TEXT))
    assert (line, ("node node",)) in [(text.line, text.used_by) for text in found.texts]


@pytest.mark.parametrize(
    ("passed", "texts"),
    [
        ("text", []),
        ("text + ' ' + label", [(TEXT,)]),
        ("f'Be brief and clear: {text}'", [("Be brief and clear: ", "")]),
    ],
)
def test_what_stands_beside_a_function_is_a_text_if_a_function_of_the_program_passes_it(
    passed: str, texts: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start = f"""
def log(run, label):
    def inner(text):
        print(label)
        return run({passed})
    return inner

def ask(text):
    return llm.invoke([('system', text)]).text

ASK = log(ask, TEXT)
"""
    found, _ = read(tmp_path, "state['question'] + ASK(state['question'])", start)
    assert [text.pieces for text in found.texts if text.pieces in ((TEXT,), ("Be brief and clear: ", ""))] == texts
    assert not found.opaque


def test_what_stands_beside_a_function_is_opaque_if_a_function_of_the_program_hands_both_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start = """
def run(call, *rest):
    return call(*rest)

def hand_on(call, text):
    return run(call, text)

def ask(text):
    return llm.invoke([('system', text)]).text
"""
    found, line = read(tmp_path, "hand_on(ask, TEXT)", start)
    assert [thing.reason.partition(" reaches")[0] for thing in found.opaque] == [f"how the text at app.py:{line}"]


@pytest.mark.parametrize(
    "rows", ["enumerate(ROWS.items())", "enumerate(zip(ROWS, ROWS.values()))", "zip('ab', ROWS.items())"]
)
def test_a_loop_over_pairs_of_pairs_has_a_round_for_each(
    rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start = f"""
ROWS = {{"cook": "Cook a good soup.", "waiter": TEXT}}
FIRST = StateGraph(State)
for mark, (name, text) in {rows}:
    FIRST.add_node(name, lambda state, text=text: {{"answer": llm.invoke(text).text}})
"""
    found, _ = read(tmp_path, "state['question']", start)
    assert [node.name for node in found.nodes] == ["cook", "waiter", "node"]
    assert [(*text.pieces, text.used_by) for text in found.texts] == [
        ("Cook a good soup.", ("node cook",)),
        (TEXT, ("node waiter",)),
    ]


@pytest.mark.parametrize(
    "run",
    [
        "call_again(ask, fargs=[TEXT])",
        "call_again(run=ask, text=TEXT)",
        "(RunnableLambda(tell) | RunnableLambda(ask)).invoke(state)",
    ],
)
def test_what_stands_beside_a_function_that_others_call_is_opaque(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    imports = "from tenacious import call_again\nfrom langchain_core.runnables import RunnableLambda\n"
    ask = "def ask(text):\n    return llm.invoke([('system', text)]).text\n"
    tell = f"def tell(state):\n    return {'TEXT' if 'tell' in run else 'state'}\n"
    start = f"def start(state):\n    return {{'answer': {run}}}\n\n"
    builder = "FIRST = StateGraph(State).add_node('start here now', start)\n"
    found, line = read(tmp_path, "state['question']", f"{imports}\n{ask}\n{tell}\n{start}{builder}")
    assert [f"app.py:{line} " in thing.reason for thing in found.opaque] == [True]


def test_a_default_is_a_text_of_the_object_alone_that_is_made_without_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    step = """
class Step:
    def __init__(self, name, text="", then=None):
        self.name, self.text, self.then = name, text, then

    def __call__(self, state):
        return {"answer": llm.invoke(self.text or "Do as you like.").text}

FIRST = StateGraph(State)
for step in [Step("start", TEXT, then="end"), Step("end")]:
    FIRST.add_node(step.name, step)
    FIRST.add_edge(step.name, step.then or "node")
"""
    found, _ = read(tmp_path, "state['question']", step)
    assert [(*text.pieces, text.used_by) for text in found.texts] == [
        ("Do as you like.", ("node end",)),
        (TEXT, ("node start",)),
    ]
    assert [(edge.source, *edge.ends) for edge in found.edges[:2]] == [("start", "end"), ("end", "node")]
    found, _ = read(tmp_path, "state['question']", f"{step}\nsetattr(step, 'text', '')\n")
    assert ("node start", "node end") in [text.used_by for text in found.texts]


KIT = """
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel, Field
from ovens import warm


@tool
def bake(kind: str) -> str:
    "Bake a loaf of bread."
    return "The loaf is baked."


@tool
def ship(kind: str) -> str:
    "Ship a loaf to another town."
    return "The loaf is on its way."


class Cake(BaseModel):
    "Order a cake with cream."

    kind: str = Field(description="The kind of the cake.")


{before}


async def ask(state: MessagesState):
    return {{"messages": [ChatOpenAI(model="m").bind_tools({tools}).invoke(state["messages"])]}}


async def run(state: MessagesState):
    by_name = {{tool.name: tool for tool in {tools}}}
    for call in state["messages"][-1].tool_calls:
        tool = by_name[call["name"]]
        try:
            seen = await tool.ainvoke(call["args"])
        except NotImplementedError:
            seen = tool.invoke(call["args"])
    return {{"messages": [("human", seen)]}}


graph = StateGraph(MessagesState).add_node(ask).add_node(run).add_edge(START, "ask").compile()
"""


def read_kit(folder: Path, tools: str, before: str = "") -> Inventory:
    (folder / "kit.py").write_text(KIT.format(tools=tools, before=before))
    (folder / "ovens.py").write_text('\n\ndef warm(kind: str) -> str:\n    """Warm a slice."""\n    return kind\n')
    return read_program("kit:graph")


@pytest.mark.parametrize(
    "before",
    [
        "def list_tools(more=False):\n    found = {'bake': bake}\n    if more:\n        found.update({'ship': ship})\n"
        "    return list(found.values())",
        "def list_tools(more=False):\n    found = [bake]\n    if more:\n        found.append(ship)\n    return found",
        "def list_tools(more=False):\n    if not more:\n        return [bake]\n    else:\n        return [bake, ship]",
        "async def list_tools(more=False):\n    if not more:\n        return [bake]\n    return [bake, ship]",
    ],
)
@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("list_tools()", {"bake"}),
        ("list_tools(False)", {"bake"}),
        ("list_tools(True)", {"bake", "ship"}),
        ("(lambda f: f(True))(list_tools)", {"bake", "ship"}),
        ("list_tools(**OPTIONS)", {"bake", "ship"}),
    ],
)
def test_a_tool_that_no_call_switches_on_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, asked: str, names: set[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    inventory = read_kit(tmp_path, asked, before)
    assert {tool.name for tool in inventory.tools} == names
    assert any("on its way" in text.pieces[0] for text in inventory.texts) is ("ship" in names)


STEP = "def step(deep=False):\n    if deep:\n        LLM.invoke('Deep.')\n    LLM.invoke('Flat.')\n"
DESK = """
class Desk(BaseTool):
    name: str = "desk"
    description: str = "Ask the desk."

    def _run(self, deep: bool = False) -> str:
        if deep:
            return "Deep."
        return "Flat."

    async def _arun(self, deep: bool = False) -> str:
        return self._run()
"""


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        (f"@registry.register('step')\n{STEP}", "[step(), registry.run('first', True)]"),
        (STEP, "[step(), getattr(sys.modules[__name__], 'step')(True)]"),
        (DESK, "llm.bind_tools([Desk()]).invoke(state)"),
        (STEP.replace("    if", "    try:\n        pass\n    except OSError as deep:\n        pass\n    if"), "step()"),
        (STEP.replace("    if", "    match STATE:\n        case [deep, *_]:\n            pass\n    if"), "step()"),
        (STEP.replace("    if", "    match STATE:\n        case {**deep}:\n            pass\n    if"), "step()"),
    ],
    ids=["decorated", "named", "inherited", "error", "pattern", "rest"],
)
def test_what_others_may_switch_on_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, asked: str
) -> None:
    monkeypatch.chdir(tmp_path)
    head = "import sys\nfrom elsewhere import STATE, registry\nfrom langchain_core.tools import BaseTool\n"
    inventory, _ = read(tmp_path, f"str({asked})", f"{head}LLM = ChatOpenAI(model='m')\n{before}")
    assert {"Deep.", "Flat."} <= {text.pieces[0] for text in inventory.texts}


@pytest.mark.parametrize("before", ["", "tool(Cake)"], ids=["made", "decorated"])
def test_a_tool_that_is_made_of_a_class_offers_its_docstring_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """LangChain makes the schema of such a tool from the signature of the class."""
    monkeypatch.chdir(tmp_path)
    order = "@tool\nclass Order(BaseModel):\n    'Order a cake.'\n    kind: str = Field(description='The kind.')"
    inventory = read_kit(tmp_path, "[Order]" if not before else f"[{before}]", order)
    docs = [text.pieces[0] for text in inventory.texts if text.role == "schema"]
    assert docs == ["Order a cake with cream." if before else "Order a cake."]
    assert [tool.name for tool in inventory.tools] == ["Cake" if before else "Order"]


@pytest.mark.parametrize("made", ["tool(warm)", "StructuredTool.from_function(warm)"])
def test_the_docstring_of_a_tool_stands_in_the_file_of_its_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    monkeypatch.chdir(tmp_path)
    inventory = read_kit(tmp_path, f"[{made}]")
    assert [(text.file, text.line) for text in inventory.texts if text.role == "schema"] == [("ovens.py", 4)]


@pytest.mark.parametrize(
    "body",
    [
        "kept = []\n    for tool in found:\n        if tool:\n            kept += [tool]\n    return kept",
        "return [tool for tool in found if tool.name not in names]",
    ],
)
def test_tools_of_a_server_that_a_loop_picks_are_opaque(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """Without a way for each of its names, reading such a program did not end."""
    monkeypatch.chdir(tmp_path)
    before = (
        "async def load(names: set[str]) -> list[BaseTool]:\n"
        f"    found = await MultiServerMCPClient({{}}).get_tools()\n    {body}\n\n\n"
        "async def list_tools():\n    tools = [tool(Cake), tool(warm)]\n"
        "    tools.extend(await load({tool.name for tool in tools}))\n    return tools"
    )
    inventory = read_kit(tmp_path, "await list_tools()", before)
    assert ["tools come from another package" in opaque.reason for opaque in inventory.opaque] == [True]
    assert {tool.name for tool in inventory.tools} == {"Cake", "warm"}


def test_the_texts_of_a_file_are_read_where_a_configuration_may_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.yaml").write_text("tone: Write short sentences.\nrules: Bread is sold until noon.\n")
    before = """
import pathlib, yaml
def load(config):
    if "tone" in config["configurable"]:
        return config["configurable"]
    with open(pathlib.Path(__file__).parent / "rules.yaml") as stream:
        return yaml.safe_load(stream)
"""
    inventory, _ = read(tmp_path, "'{} {}'.format(load(state)['tone'], load(state)['rules'])", before)
    assert {"Write short sentences.", "Bread is sold until noon."} <= {text.pieces[0] for text in inventory.texts}
    assert not inventory.opaque


DEEP = """
from deepagents import create_deep_agent


def load():
    found = []
    for name, prompt in [("baker", "You bake bread."), ("driver", "You drive the van.")]:
        worker = {"name": name, "description": "One of the bakery.", "system_prompt": prompt}
        worker["model"] = "openai:gpt-4o"
        found.append(worker)
    return found


graph = create_deep_agent(model="openai:gpt-4o", subagents=load(), system_prompt="You run a bakery.", MORE)
"""


@pytest.mark.parametrize(
    ("more", "files"),
    [
        ("skills=['./skills/'], memory=['./RULES.md']", " and texts of the files in memory="),
        ("memory=None", ""),
    ],
)
def test_what_a_deep_agent_sends_by_itself_is_opaque_and_what_a_dict_is_given_later_is_of_its_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, files: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep.py").write_text(DEEP.replace("MORE", more))
    inventory = read_program("deep:graph")
    agents = sorted((agent.name, agent.models) for agent in inventory.agents if agent.maker == "subagent")
    assert agents == [("baker", ("openai:gpt-4o",)), ("driver", ("openai:gpt-4o",))]
    [reason] = [opaque.reason for opaque in inventory.opaque]
    own, _, given = reason.partition("['./RULES.md']")
    assert own == f"deepagents sends prompts and tools of its own{files}"
    assert given == (", skills=['./skills/']" if files else "")


def test_a_field_without_a_default_is_a_setting_of_the_context_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = (
        "class BoxConfig(TypedDict):\n    is_open: bool\n\n\nclass Choice(TypedDict):\n    is_polite: bool\n\n\n"
        "FIRST = StateGraph(State, context_schema=Choice)"
    )
    inventory, _ = read(tmp_path, "TEXT", before)
    assert [value.name for value in inventory.values] == ["is_polite"]
