import ast
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.extras.langgraph_file.source import (
    NameSpace,
    copy_definitions,
    parse_module,
    write_comment,
    write_imports,
    write_literal,
)

pieces = st.sampled_from(
    ['"""', '"', "\\", "\n", " ", "'", "{", "}", "\x00", "\u202e", "\t", "\r", "word ", "#", "\ud800"]
)
texts = st.lists(pieces | st.text(max_size=30), max_size=40).map("".join)


@given(texts)
def test_a_literal_is_one_constant_that_is_read_back(text: str) -> None:
    written = write_literal(text)
    [statement] = ast.parse(f"X = {written}").body
    assert isinstance(statement, ast.Assign)
    assert isinstance(statement.value, ast.Constant)
    assert statement.value.value == text
    assert all(char.isprintable() or char == "\n" for char in written)


@given(texts)
def test_a_comment_cannot_leave_its_docstring(text: str) -> None:
    [statement] = ast.parse(f'"""{write_comment(text)}"""').body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Constant)
    assert "\n" not in write_comment(text)


@given(st.lists(st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True), max_size=12))
def test_names_are_identifiers_and_given_once(ids: list[str]) -> None:
    space = NameSpace(["taken"])
    names = [space.add(id, upper=len(id) % 2 == 0) for id in [*ids, "taken", "print", "class"]]
    assert len({*names}) == len(names)
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in names)
    assert not {*names} & {"taken", "print", "class"}


def test_long_texts_are_folded_between_words() -> None:
    written = write_literal("A first line.\n" + "many words " * 20 + "\nthe last")
    assert written.startswith('"""\\\nA first line.\nmany words')
    assert max(map(len, written.split("\n"))) <= 90


def test_definitions_are_copied_with_what_they_need() -> None:
    text, places = copy_definitions({"selfwire.core.text": ["excerpt"]}, {})
    assert {"GAP", "_rank", "excerpt"} <= parse_module(text).definitions.keys()
    assert "mask_secrets" not in text
    scope: dict[str, object] = {}
    exec(write_imports({*places}, places) + "\n" + text, scope)
    assert scope["excerpt"]("a b c", 10) == "a b c"  # type: ignore[operator]


@pytest.mark.parametrize("text", ["", "one line", 'ends with a quote"', "two\nlines \n"])
def test_short_texts_read_well(text: str) -> None:
    assert ast.literal_eval(write_literal(text)) == text
