"""Patches of prompts: in every form of a literal, applied by git, and read again as the new text."""

import subprocess
from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError
from selfwire.extras.adopt.layer import list_prompts
from selfwire.extras.adopt.patch import make_patch, read_literal

PROGRAM = """from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

model = ChatOpenAI(model="mine")
{constants}


def ask(state: MessagesState):
    {call}


builder = StateGraph(MessagesState)
builder.add_node(ask)
builder.add_edge(START, "ask")
builder.add_edge("ask", END)
graph = builder.compile()
"""
SENT = 'return {"messages": [model.invoke([("system", PROMPT), *state["messages"]])]}'
NEW = 'Say "yes" or {no}.\nUse a \\ and """three""" quotes — always.'


def write(constants: str, call: str = SENT, name: str = "asking.py") -> None:
    Path(name).write_text(PROGRAM.format(constants=constants, call=call), encoding="utf-8")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def apply(changed: dict[str, str], target: str = "asking.py:graph") -> None:
    Path("new.patch").write_text(make_patch(target, changed, dict.fromkeys(changed, "because")), encoding="utf-8")
    subprocess.run(["git", "apply", "new.patch"], check=True, capture_output=True)


@pytest.mark.parametrize(
    "constants",
    [
        'PROMPT = "You answer questions of visitors."',
        "PROMPT = 'You answer questions of visitors.'  # a comment",
        'PROMPT = """You answer questions of visitors."""',
        'PROMPT = (\n    "You answer questions "\n    "of visitors."\n)',
        'ÄÖ, PROMPT = "ü", "You answer questions of visitors."',
    ],
)
@pytest.mark.parametrize(
    "new", ["You answer in one word.", NEW, 'Ends with a quote: "', "First look around.\n\nThen answer.\n"]
)
def test_a_constant_is_written_in_any_form(constants: str, new: str) -> None:
    write(constants)
    apply({"ask": new})
    [(text, _)] = list_prompts("asking.py:graph")
    assert text.shown == new
    assert Path("asking.py").read_text(encoding="utf-8").endswith("graph = builder.compile()\n")


def test_holes_of_a_template_keep_their_form() -> None:
    call = 'return {"messages": [model.invoke(PROMPT.format(question=state["messages"][-1].text, n=2))]}'
    write('PROMPT = """You answer with at most {n:.1f} {{words}}.\n\n{question!r}"""', call)
    [(text, _)] = list_prompts("asking.py:graph")
    assert text.shown == "You answer with at most {n} {words}.\n\n{question}"
    apply({"ask": "Use {n} words {now}.\n\n{question}"})
    assert "Use {n:.1f} words {{now}}.\n\n{question!r}" in Path("asking.py").read_text(encoding="utf-8")


def test_expressions_of_an_f_string_stay() -> None:
    write("", "return {'messages': [model.invoke(f\"Answer this visitor: {state['messages'][-1].text!s}\")]}")
    [(text, _)] = list_prompts("asking.py:graph")
    apply({"ask": text.shown.replace("Answer this visitor:", "Answer {briefly}:")})
    [(again, _)] = list_prompts("asking.py:graph")
    assert again.shown == text.shown.replace("Answer this visitor:", "Answer {briefly}:")
    assert "!s}" in Path("asking.py").read_text(encoding="utf-8")


def test_two_prompts_of_a_file_change_at_once_and_each_has_its_reason() -> None:
    call = (
        'said = model.invoke([("system", FIRST)])\n    return {"messages": [model.invoke([("system", SECOND), said])]}'
    )
    write('FIRST = "You plan the answer in steps."\nSECOND = "You write the answer for visitors."', call)
    names = [text.name for text, _ in list_prompts("asking.py:graph")]
    assert len(names) == 2
    new = dict(zip(names, ["Plan it well.\nBe brief.", "Write it well."], strict=True))
    made = make_patch("asking.py:graph", new, {names[0]: "a\nb"})
    assert made.splitlines()[0] == f"asking.py:5 {names[0]}: a b"
    apply(new)
    assert {text.shown for text, _ in list_prompts("asking.py:graph")} == set(new.values())


def test_a_prompt_file_is_written_as_a_file() -> None:
    Path("prompt.md").write_text("You answer questions of visitors.\n", encoding="utf-8")
    write('from pathlib import Path\n\nPROMPT = Path("prompt.md").read_text()')
    [(text, place)] = list_prompts("asking.py:graph")
    assert place.file == "prompt.md"
    apply({text.name: "You answer in one word."})
    assert Path("prompt.md").read_text(encoding="utf-8") == "You answer in one word.\n"


def test_a_form_that_cannot_be_written_is_named_with_the_text_to_put_there() -> None:
    write('import textwrap\n\nPROMPT = textwrap.dedent("""\n    You answer questions.\n    Be brief.\n    """)')
    prompts = list(list_prompts("asking.py:graph"))
    if not prompts:
        pytest.skip("not found")
    with pytest.raises(
        ConfigError, match=r"asking.py:\d+ has this text in a form that a patch cannot write; .*\nNew\."
    ):
        make_patch("asking.py:graph", {prompts[0][0].name: "New."}, {})


def test_a_literal_is_read_as_its_text() -> None:
    assert read_literal("f'a {x!r:>4} {{b}}'", "f-string") == ("a {x} {b}", {"{x}": "{x!r:>4}"})
    assert read_literal("a + 'b'", "constant") is None
    assert read_literal("'{'", "template") is None
