"""Patches of prompts: in every form of a literal, applied by git, and read again as the new text."""

import subprocess
from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError
from selfwire.extras.adopt.layer import list_places
from selfwire.extras.adopt.patch import make_patch, read_literals

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
    made = make_patch(target, changed, dict.fromkeys(changed, "because"))
    Path("new.patch").write_text(made, encoding="utf-8", newline="")
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
    [(text, _)] = list_places("asking.py:graph")
    assert text.shown == new.strip()
    assert Path("asking.py").read_text(encoding="utf-8").endswith("graph = builder.compile()\n")


SIDE_BY_SIDE = """PROMPT = (
    "You answer questions "  # of all
    'of visitors. '
    "Be kind."
)"""
SUM = """PROMPT = (
    "You answer questions " +
    "of visitors. " +
    "Be kind."
)"""


@pytest.mark.parametrize(
    ("constants", "old", "new", "written"),
    [
        (SIDE_BY_SIDE, "visitors", "guests", SIDE_BY_SIDE.replace("visitors", "guests")),
        (SIDE_BY_SIDE, "You", "Now you", SIDE_BY_SIDE.replace('"You', '"Now you')),
        (SUM, "visitors", "guests", SUM.replace("visitors", "guests")),
        (SUM, "kind.", 'kind.\nSay "no".', SUM.replace('kind."', 'kind.\\n" +\n    "Say \\"no\\"."')),
        (SIDE_BY_SIDE, "kind.", "kind.\nGo.", SIDE_BY_SIDE.replace('kind."', 'kind.\\n"\n    "Go."')),
    ],
)
def test_literals_side_by_side_stay_but_for_those_that_change(constants: str, old: str, new: str, written: str) -> None:
    write(constants)
    [(text, _)] = list_places("asking.py:graph")
    apply({"ask": text.shown.replace(old, new)})
    assert written in Path("asking.py").read_text(encoding="utf-8")


def test_ends_of_lines_stay() -> None:
    write('PROMPT = "You answer questions of visitors."')
    source = Path("asking.py").read_bytes().replace(b"\n", b"\r\n")
    Path("asking.py").write_bytes(source)
    apply({"ask": "You answer in one word."})
    assert Path("asking.py").read_bytes() == source.replace(b"answer questions of visitors", b"answer in one word")


def test_a_file_without_an_end_of_line_gets_that_of_the_system() -> None:
    Path("prompt.txt").write_bytes(b"You answer questions of visitors.")
    write('PROMPT = open("prompt.txt").read()')
    [(text, _)] = list_places("asking.py:graph")
    apply({text.name: "First look around.\nThen answer."})
    assert Path("prompt.txt").read_bytes() == b"First look around.\nThen answer."


def test_holes_of_a_template_keep_their_form() -> None:
    call = 'return {"messages": [model.invoke(PROMPT.format(question=state["messages"][-1].text, n=2))]}'
    write('PROMPT = """You answer with at most {n:.1f} {{words}}.\n\n{question!r}"""', call)
    [(text, _)] = list_places("asking.py:graph")
    assert text.shown == "You answer with at most {n} {words}.\n\n{question}"
    apply({"ask": "Use {n} words {now}.\n\n{question}"})
    assert "Use {n:.1f} words {{now}}.\n\n{question!r}" in Path("asking.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("prompt", "call", "shown", "new", "written"),
    [
        (
            "Answer in %d words, 100 %% of them about {topic}.",
            "(PROMPT % 50).format(topic=state['messages'])",
            "Answer in {0} words, 100 % of them about {topic}.",
            "Use {0} words {now}, all 100 % on {topic}.",
            "Use %d words {{now}}, all 100 %% on {topic}.",
        ),
        (
            "Answer in {} words of {{the}} kind that are about %s.",
            "PROMPT.format(50) % state['messages']",
            "Answer in {0} words of {the} kind that are about {1}.",
            "Use {0} words {now}, all 100 % on {1}.",
            "Use {} words {{now}}, all 100 %% on %s.",
        ),
        (
            "Answer in {n} words.",
            "string.Formatter().vformat(PROMPT, (), {'n': state['messages']})",
            "Answer in {n} words.",
            "Use {n} words {now}, please.",
            "Use {n} words {{now}}, please.",
        ),
    ],
)
def test_holes_that_are_filled_in_two_ways_or_by_a_formatter_keep_their_form(
    prompt: str, call: str, shown: str, new: str, written: str
) -> None:
    write(f"import string\n\nPROMPT = {prompt!r}", f'return {{"messages": [model.invoke({call})]}}')
    [(text, _)] = list_places("asking.py:graph")
    assert text.shown == shown
    apply({"ask": new})
    assert f'PROMPT = "{written}"' in Path("asking.py").read_text(encoding="utf-8")
    assert [text.shown for text, _ in list_places("asking.py:graph")] == [new]


@pytest.mark.parametrize(
    "call",
    [
        "f'Rules: {RULE}'.format(side=state['x'])",
        "'Rules: {}'.format(RULE).format(side=state['x'])",
        "('Rules: %s' % RULE).format(side=state['x'])",
    ],
)
def test_what_fills_a_text_is_filled_with_it_later(call: str) -> None:
    write('RULE = "Argue for {side} at once."', f'return {{"messages": [model.invoke({call})]}}')
    texts = {text.shown: text for text, _ in list_places("asking.py:graph")}
    rule = texts["Argue for {side} at once."]
    assert rule.holes == ("{side}",)
    apply({rule.name: "Argue for {side} {now}."})
    assert 'RULE = "Argue for {side} {{now}}."' in Path("asking.py").read_text(encoding="utf-8")


def test_expressions_of_an_f_string_stay() -> None:
    write("", "return {'messages': [model.invoke(f\"Answer this visitor: {state['messages'][-1].text!s}\")]}")
    [(text, _)] = list_places("asking.py:graph")
    apply({"ask": text.shown.replace("Answer this visitor:", "Answer {briefly}:")})
    [(again, _)] = list_places("asking.py:graph")
    assert again.shown == text.shown.replace("Answer this visitor:", "Answer {briefly}:")
    assert "!s}" in Path("asking.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("call", ["PROMPT.replace('<NAME>', 'Ann')", "PROMPT.format(n=2).replace('<NAME>', 'Ann')"])
def test_a_word_that_the_program_replaces_is_a_hole(call: str) -> None:
    write('PROMPT = "Answer <NAME> with {n:>2} words."', f'return {{"messages": [model.invoke({call})]}}')
    [(text, _)] = list_places("asking.py:graph")
    assert "{<NAME>}" in text.shown
    apply({"ask": text.shown.replace("Answer", "Greet")})
    assert 'PROMPT = "Greet <NAME> with {n:>2} words."' in Path("asking.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("outer", ['f"', "f'"])
def test_a_text_in_a_hole_is_written_with_quotes_that_python_3_11_reads(outer: str) -> None:
    inner = "'" if outer == 'f"' else '"'
    hole = f"{inner}Greet the visitor.{inner} if GREETED else {inner * 2}"
    write("GREETED = 1", f"return {{'messages': [model.invoke({outer}Answer. {{{hole}}} Ask.{outer[1]})]}}")
    texts = {text.shown[:6]: text.name for text, _ in list_places("asking.py:graph")}
    apply({texts["Greet "]: "Greet them."})
    assert f"{{{inner}Greet them.{inner} if GREETED" in Path("asking.py").read_text(encoding="utf-8")


def test_a_text_in_a_hole_of_another_is_written_with_it() -> None:
    write(
        "GREETED = 1",
        """return {"messages": [model.invoke(f"Answer. {'Greet the visitor.' if GREETED else ''} Ask.")]}""",
    )
    texts = {text.shown[:6]: text.name for text, _ in list_places("asking.py:graph")}
    whole = "Answer at once. {'Greet the visitor.' if GREETED else ''} Ask."
    apply({texts["Answer"]: whole, texts["Greet "]: "Greet them."})
    call = """model.invoke(f"Answer at once. {('Greet them.' if GREETED else '')} Ask.")"""
    assert call in Path("asking.py").read_text(encoding="utf-8")


def test_an_f_string_that_begins_without_f_stays_one() -> None:
    write("", "return {'messages': [model.invoke('Answer: ' f\"{state['messages'][0].text} and be kind.\")]}")
    [(text, _)] = list_places("asking.py:graph")
    apply({"ask": text.shown.replace("kind", "brief")})
    [(again, _)] = list_places("asking.py:graph")
    assert (again.shown, again.holes) == (text.shown.replace("kind", "brief"), text.holes)


def test_two_prompts_of_a_file_change_at_once_and_each_has_its_reason() -> None:
    call = (
        'said = model.invoke([("system", FIRST)])\n    return {"messages": [model.invoke([("system", SECOND), said])]}'
    )
    write('FIRST = "You plan the answer in steps."\nSECOND = "You write the answer for visitors."', call)
    names = [text.name for text, _ in list_places("asking.py:graph")]
    assert len(names) == 2
    new = dict(zip(names, ["Plan it well.\nBe brief.", "Write it well."], strict=True))
    made = make_patch("asking.py:graph", new, {names[0]: "a\nb"})
    assert made.splitlines()[0] == f"asking.py:5 {names[0]}: a b"
    again = make_patch("asking.py:graph", new, dict.fromkeys(names, "a\nb")).splitlines()
    assert again[:2] == [f"asking.py:5 {names[0]}: a b", f"asking.py:6 {names[1]}: as above"]
    apply(new)
    assert {text.shown for text, _ in list_places("asking.py:graph")} == set(new.values())


def test_a_text_in_two_places_changes_in_both() -> None:
    call = (
        'said = model.invoke(f"Answer this visitor: {state[0]} Be kind.")\n    other = 1\n'
        '    return {"messages": [model.invoke(f"Answer this visitor: {other!r} Be kind.")]}'
    )
    write("", call)
    assert len({text.name for text, _ in list_places("asking.py:graph")}) == 1
    apply({"ask": "Help {state[0]} well, please."})
    source = Path("asking.py").read_text(encoding="utf-8")
    assert 'f"Help {state[0]} well, please."' in source
    assert 'f"Help {other!r} well, please."' in source


def test_a_prompt_file_is_written_as_a_file() -> None:
    Path("prompt.md").write_text("You answer questions of visitors.\n", encoding="utf-8")
    write('from pathlib import Path\n\nPROMPT = Path("prompt.md").read_text()')
    [(text, place)] = list_places("asking.py:graph")
    assert place.file == "prompt.md"
    apply({text.name: "You answer in one word."})
    assert Path("prompt.md").read_text(encoding="utf-8") == "You answer in one word.\n"


@pytest.mark.parametrize(
    ("file", "read", "source"),
    [
        ("prompt.md", "{}", "You argue {{side}} the motion.\n"),
        ("prompts.yaml", 'yaml.safe_load({})["ask"]', "ask: You argue {{side}} the motion.\nother: Stay.\n"),
        ("prompts.json", 'json.loads({})["ask"]', '{{"ask": "You argue {{side}} the motion.", "other": "Stay."}}'),
        ("prompts.toml", 'tomllib.loads({})["ask"]', 'other = "Stay."\nask = "You argue {{side}} the motion."\n'),
        (
            "long.toml",
            'tomllib.loads({})["ask"]',
            'ask = """\nYou argue {{side}} the motion.\n"""\nother = \'Stay.\'\n',
        ),
    ],
)
def test_a_word_that_the_program_replaces_stays_in_a_file(file: str, read: str, source: str) -> None:
    Path(file).write_text(source.replace("{{", "{").replace("}}", "}"), encoding="utf-8")
    loaded = read.format(f'Path("{file}").read_text()')
    call = "return {'messages': [model.invoke(PROMPT.replace('{side}', state['messages'][0].text))]}"
    write(f"import json\nimport tomllib\nfrom pathlib import Path\n\nimport yaml\n\nPROMPT = {loaded}", call)
    [(text, _)] = list_places("asking.py:graph")
    apply({text.name: text.shown.replace("You argue", 'Argue "well",\n\\speak')})
    [(again, _)] = list_places("asking.py:graph")
    assert again.shown == 'Argue "well",\n\\speak {{side}} the motion.'
    assert "Stay." in Path(file).read_text(encoding="utf-8") or file == "prompt.md"


ESCAPED = """
[[steps]]
ask = "Plan your speech:\\n{side}"

[[steps]]
ask = "Plan the answer:\\n{side}"

[more]
text = "Plan your speech:\\n{side}"
"""


def test_texts_with_escapes_in_a_toml_file_are_told_apart_by_their_keys() -> None:
    Path("prompts.toml").write_text(ESCAPED, encoding="utf-8")
    call = "return {'messages': [model.invoke(ALL['steps'][0]['ask'].format(side=1) + ALL['steps'][1]['ask'])]}"
    write('import tomllib\nfrom pathlib import Path\n\nALL = tomllib.loads(Path("prompts.toml").read_text())', call)
    texts = {place.line: (text, place) for text, place in list_places("asking.py:graph")}
    assert [(line, place.name, text.shown) for line, (text, place) in texts.items()] == [
        (3, "steps.0.ask", "Plan your speech:\n{side}"),
        (6, "steps.1.ask", "Plan the answer:\n{side}"),
    ]
    apply({text.name: text.shown.replace("Plan", 'Say "yes" to') for text, _ in texts.values()})
    assert [text.shown for text, _ in list_places("asking.py:graph")] == [
        'Say "yes" to your speech:\n{side}',
        'Say "yes" to the answer:\n{side}',
    ]
    assert Path("prompts.toml").read_text(encoding="utf-8").endswith(ESCAPED.partition("[more]")[2])


ROWS = """name,prompt
plan,Plan the answer for {side}.

solve,"Solve it, step by ""step"",
for {side}."
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_cells_of_a_csv_file_are_told_apart_and_written(newline: str) -> None:
    Path("prompts.csv").write_bytes(ROWS.replace("\n", newline).encode())
    call = "return {'messages': [model.invoke(ALL['plan'].format(side=1) + ALL['solve'].format(side=state['x']))]}"
    read = '{row["name"]: row["prompt"] for row in csv.DictReader(stream)}'
    write(f'import csv\n\nwith open("prompts.csv", newline="") as stream:\n    ALL = {read}', call)
    places = [(place.line, place.name, text.shown) for text, place in list_places("asking.py:graph")]
    solving = 'Solve it, step by "step",\nfor {side}.'
    assert places == [(2, "0.prompt", "Plan the answer for {side}."), (4, "1.prompt", solving)]
    names = [text.name for text, _ in list_places("asking.py:graph")]
    apply(dict(zip(names, ["Plan it at once for {side}.", 'Solve it, "fast",\nfor {side}.'], strict=True)))
    plan, solve = "plan,Plan it at once for {side}.", 'solve,"Solve it, ""fast"",\nfor {side}."'
    written = f"name,prompt\n{plan}\n\n{solve}\n".replace("\n", newline)
    assert Path("prompts.csv").read_bytes().decode() == written


def test_a_byte_order_mark_hides_no_column_of_a_csv_file() -> None:
    Path("prompts.csv").write_text("prompt,name\nPlan the answer.,plan\n", encoding="utf-8-sig")
    call = 'return {"messages": [model.invoke(ROWS[0]["prompt"])]}'
    write('import csv\n\nROWS = list(csv.DictReader(open("prompts.csv", encoding="utf-8-sig")))', call)
    [(text, place)] = list_places("asking.py:graph")
    assert (place.line, place.name, text.shown) == (2, "0.prompt", "Plan the answer.")
    apply({text.name: "Plan it."})
    assert Path("prompts.csv").read_bytes() == b"\xef\xbb\xbfprompt,name\nPlan it.,plan\n"


MARKED = {
    "p.txt": ('open("p.txt").read()', "You answer questions of visitors."),
    "p.md": ('open("p.md").read().split("---", 2)[2]', "---\nby: me\n---\nYou answer questions of visitors."),
    "p.yaml": ('yaml.safe_load(open("p.yaml"))["ask"]', "ask: You answer questions of visitors.\n"),
    "p.json": ('json.load(open("p.json"))["ask"]', '{"ask": "You answer questions of visitors."}'),
    "p.toml": ('tomllib.loads(open("p.toml").read())["ask"]', 'ask = "You answer questions of visitors."\n'),
    "asking.py": ('"You answer questions of visitors."', ""),
}


@pytest.mark.parametrize("file", MARKED)
def test_a_byte_order_mark_is_no_part_of_a_text_and_stays(file: str) -> None:
    loaded, text = MARKED[file]
    constant = f"PROMPT = {loaded}; import json, tomllib, yaml"
    write(constant if text else "")
    Path(file).write_text(text or f"{constant}\n{Path(file).read_text(encoding='utf-8')}", encoding="utf-8-sig")
    [(found, _)] = list_places("asking.py:graph")
    assert found.pieces == ("You answer questions of visitors.",)
    apply({found.name: "You answer in one word."})
    assert [found.shown for found, _ in list_places("asking.py:graph")] == ["You answer in one word."]
    written = Path(file).read_bytes()
    assert written.startswith(b"\xef\xbb\xbf")
    assert written.count(b"\xef\xbb\xbf") == 1


@pytest.mark.parametrize("style", ["&first |\n  You answer questions.", "&first 'You answer questions.'"])
def test_the_anchor_of_a_text_in_yaml_stays(style: str) -> None:
    Path("p.yaml").write_text(f"first: {style}\nask: *first\n", encoding="utf-8")
    write("import yaml\n\nPROMPT = yaml.safe_load(open('p.yaml'))['ask']")
    [(text, _)] = list_places("asking.py:graph")
    apply({text.name: "You answer in one word."})
    assert Path("p.yaml").read_text(encoding="utf-8").startswith("first: &first ")
    assert [text.shown for text, _ in list_places("asking.py:graph")] == ["You answer in one word."]


def test_a_cell_that_needs_quotes_gets_them() -> None:
    Path("shots.csv").write_text("text;label\nMy parcel is lost somewhere.;delivery\n")
    call = 'return {"messages": [model.invoke([("user", row["text"]) for row in ROWS])]}'
    write('import csv\n\nROWS = list(csv.DictReader(open("shots.csv"), delimiter=";"))', call)
    [(text, place)] = list_places("asking.py:graph")
    assert (place.line, text.shown) == (2, "My parcel is lost somewhere.")
    apply({text.name: "My parcel; it is lost."})
    assert Path("shots.csv").read_text() == 'text;label\n"My parcel; it is lost.";delivery\n'


def test_a_form_that_cannot_be_written_is_named_with_the_text_to_put_there() -> None:
    write('PROMPT = "You answer {}.".upper().format("questions")')
    [(text, _)] = list_places("asking.py:graph")
    refusal = r"asking.py:5 has this text in a form that a patch cannot write; write it there yourself:\nNEW \{0\}\."
    with pytest.raises(ConfigError, match=refusal):
        make_patch("asking.py:graph", {text.name: "NEW {0}."}, {})


@pytest.mark.parametrize(
    ("constants", "old", "written"),
    [
        (
            'textwrap.dedent("""\n    Answer kindly.\n      Be brief.\n    """)',
            "Answer kindly.\n  Be brief.",
            "\n    Answer.",
        ),
        ('inspect.cleandoc("""Answer kindly.\n\n    Be brief.""")', "Answer kindly.\n\nBe brief.", "\n    Answer."),
        ('"Answer kindly. "\\\n    + "Be brief."', "Answer kindly. Be brief.", "\nAnswer."),
        ('" ".join(["Answer kindly.", "Be brief."])', "Answer kindly. Be brief.", "\nAnswer."),
        (
            'textwrap.dedent("""\\\n    Answer kindly.\n      Be brief.""")',
            "Answer kindly.\n  Be brief.",
            "\n    Answer.",
        ),
        ('"  Answer kindly. "', "Answer kindly.", '  Look at it.\nAnswer. """'),
    ],
)
def test_a_text_is_written_as_the_program_reads_it(constants: str, old: str, written: str) -> None:
    write(f"import inspect, textwrap\n\nPROMPT = {constants}")
    [(text, _)] = list_places("asking.py:graph")
    assert text.shown == old
    apply({"ask": "Look at it.\nAnswer. "})
    [(again, _)] = list_places("asking.py:graph")
    assert again.shown == "Look at it.\nAnswer."
    assert written in Path("asking.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("form", "call", "written"),
    [
        ("Rate at 100%% these %d of %(n)s.", "PROMPT % 3", "All at 5%%, {} too %d of %(n)s."),
        ("Rate at 100$$ these $0 of $n.", "string.Template(PROMPT).substitute(x=3)", "All at 5%, {} too $0 of $n."),
        (
            "Rate at 100% these {{ 0 }} of {{n}}.",
            "jinja2.Template(PROMPT).render(x=3)",
            "All at 5%, {} too {{ 0 }} of {{n}}.",
        ),
    ],
)
def test_a_template_of_another_kind_keeps_its_holes(form: str, call: str, written: str) -> None:
    call = call.replace("% 3", '% {"0": 3}')
    write(f"import string, jinja2\n\nPROMPT = {form!r}", f'return {{"messages": [model.invoke({call})]}}')
    [(text, _)] = list_places("asking.py:graph")
    assert text.shown in ("Rate at 100% these {0} of {n}.", "Rate at 100$ these {0} of {n}.")
    apply({"ask": "All at 5%, {} too {0} of {n}."})
    assert written in Path("asking.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "content", "written"),
    [
        (
            "p.yaml",
            "a:\n  ask: |\n    Answer kindly.\n    Be brief.\nb: 1\n",
            'a:\n  ask: |\n    One: {x}\n\n    "Two".\nb: 1\n',
        ),
        ("p.yaml", "a:\n  ask: >\n    Answer\n    kindly.\nb: 1\n", 'a:\n  ask: |\n    One: {x}\n\n    "Two".\nb: 1\n'),
        ("p.yaml", "a: {ask: Answer kindly.}\n", 'a: {ask: "One: {x}\\n\\n\\"Two\\"."}\n'),
        ("p.json", '{"a": {"ask": "Answer kindly."}}', '{"a": {"ask": "One: {x}\\n\\n\\"Two\\"."}}'),
    ],
)
def test_a_text_in_a_yaml_or_json_file_is_written_there(name: str, content: str, written: str) -> None:
    Path(name).write_text(content, encoding="utf-8")
    write(f'import yaml\n\nPROMPT = yaml.safe_load(open("{name}"))["a"]["ask"]')
    [(text, _)] = list_places("asking.py:graph")
    apply({text.name: 'One: {x}\n\n"Two".'})
    assert Path(name).read_text(encoding="utf-8") == written


@pytest.mark.parametrize("call", ["""re.sub(r"\\s+", " ", {})""", """" ".join({}.split())"""])
def test_a_text_is_written_in_one_line_where_the_program_makes_it_one(call: str) -> None:
    write("import re\n\nPROMPT = " + call.format('"""\n    Answer kindly.\n    Be brief.\n    """'))
    [(text, _)] = list_places("asking.py:graph")
    assert text.shown == "Answer kindly. Be brief."
    apply({"ask": "Look at it.\nAnswer."})
    [(again, _)] = list_places("asking.py:graph")
    assert again.shown == "Look at it. Answer."


def test_a_literal_is_read_as_its_text() -> None:
    [found] = read_literals("f'a {x!r:>4} {{b}}'", "f-string")
    assert found[:2] == ("a {x} {b}", {"{x}": "{x!r:>4}"})
    assert not list(read_literals("a + 'b'", "constant"))


TOOLS = """from langchain.agents import create_agent
from langchain_core.tools import StructuredTool, tool


@tool(parse_docstring=True)
def find(place: str) -> str:
    {docstring}
    return place


def look(place: str) -> str:
    return place


LOOK = "Looks at it."
graph = create_agent("openai:mine", [find, StructuredTool.from_function(look, description=LOOK)])
"""


@pytest.mark.parametrize(
    ("docstring", "written"),
    [
        ('"""Finds it."""', '"""Finds \\\\ "it".\n\n    By name."""'),
        ("'Finds it.'", '"""Finds \\\\ "it".\n\n    By name."""'),
        (
            '"""Finds it.\n\n    Args:\n        place: Its name:\n            a word.\n\n    '
            'Returns:\n        It.\n    """',
            '"""Finds \\\\ "it".\n\n    By name.\n\n    Args:\n        place: Its name:\n            a word.\n\n    '
            'Returns:\n        It.\n    """',
        ),
        ('"""\n    Finds it.\n    """', '"""\n    Finds \\\\ "it".\n\n    By name.\n    """'),
    ],
)
def test_a_description_is_written_and_sections_of_a_docstring_stay(docstring: str, written: str) -> None:
    Path("tooled.py").write_text(TOOLS.format(docstring=docstring), encoding="utf-8")
    texts = {text.name: text.shown for text, _ in list_places("tooled.py:graph")}
    assert texts == {"find": "Finds it.", "look": "Looks at it."}
    apply({"find": 'Finds \\ "it".\n\nBy name.', "look": "Looks at a place."}, "tooled.py:graph")
    source = Path("tooled.py").read_text(encoding="utf-8")
    assert source == TOOLS.format(docstring=written).replace("Looks at it.", "Looks at a place.")


def test_a_prompt_of_an_agent_called_graph_is_not_taken_for_the_graph() -> None:
    source = TOOLS.format(docstring='"""Finds it."""')
    Path("tooled.py").write_text(f'{source[:-2]}, system_prompt="You find places.")\n', encoding="utf-8")
    assert [text.name for text, _ in list_places("tooled.py:graph")] == ["graph-2", "find", "look"]


def test_a_description_goes_by_its_own_tool_where_a_tool_asks_an_agent_with_tools() -> None:
    asking = """
finder = create_agent("openai:mine", [find], system_prompt="You find places.")


@tool
def ask(question: str) -> str:
    '''Ask the finder.'''
    return finder.invoke({"messages": question})


graph = create_agent("openai:mine", [ask], system_prompt="You lead.")
"""
    Path("tooled.py").write_text(TOOLS.format(docstring='"""Finds it."""') + asking, encoding="utf-8")
    found = {text.name: text.tool for text, _ in list_places("tooled.py:graph")}
    assert {name: tool for name, tool in found.items() if tool} == {"find": "find", "look": "look", "ask": "ask"}


def test_a_form_feed_before_a_text_ends_no_line() -> None:
    write('\x0c\nFIRST = "a\x0cb\u2028c"\nPROMPT = "You answer questions of visitors."')
    apply({"ask": "You greet."})
    assert 'PROMPT = "You greet."' in Path("asking.py").read_text(encoding="utf-8")


def test_a_text_outside_the_folder_is_refused_where_git_would_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    write('PROMPT = "You answer questions of visitors."')
    whole = Path("asking.py").resolve()
    Path("beside").mkdir()
    monkeypatch.chdir("beside")
    with pytest.raises(ConfigError, match=f"^{whole} lies outside this folder, where git apply changes nothing"):
        make_patch(f"{whole}:graph", {"ask": "You greet."}, {})
