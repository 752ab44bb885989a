"""What may be the source of a tool: one function of plain types; a refusal names the line."""

import pickle
import sys
import warnings
from typing import Any

import pytest

from selfwire.core.errors import SelfwireError, ToolSourceError
from selfwire.core.own_tool import DEPTH, NODES, SOURCE_LENGTH, check_tool_source, is_constant

PAPER = '''import hashlib

def tool_function(input_data: str, **kwargs):
    """
    Calculates the SHA256 hash of a given string.
    """
    if not isinstance(input_data, str):
        return "Error: Input must be a string."
    try:
        encoded_string = input_data.encode('utf-8')
        return hashlib.sha256(encoded_string).hexdigest()
    except Exception as e:
        return f"Error during hashing ({type(e).__name__}): {str(e)}"
'''


def returns(expression: str, *before: str) -> str:
    return "\n".join([*before, "def tool_function(a: str):", f"    return {expression}", ""])


def test_an_error_of_a_source_goes_from_one_process_to_another() -> None:
    sent = pickle.loads(pickle.dumps(ToolSourceError(3, "no import of os")))
    assert (str(sent), sent.line, sent.reason) == ("line 3: no import of os", 3, "no import of os")


def test_the_papers_example_is_legal() -> None:
    assert check_tool_source(PAPER) == {
        "type": "object",
        "properties": {"input_data": {"type": "string"}},
        "required": ("input_data",),
        "additionalProperties": True,
    }


def test_parameters_are_the_annotations_and_defaults() -> None:
    signature = "a: str, b: int, c: float = 1.5, d: bool = False, *, e: list[int] | None = None, f: dict[str, float]"
    found = check_tool_source(
        f"RATES = {{'a': 1}}\ndef tool_function({signature}, g: dict = {{}}) -> str:\n    return a\n"
    )
    assert found == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "c": {"type": "number"},
            "d": {"type": "boolean"},
            "e": {"type": "array", "items": {"type": "integer"}},
            "f": {"type": "object", "additionalProperties": {"type": "number"}},
            "g": {"type": "object"},
        },
        "required": ("a", "b", "f"),
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "source",
    [
        returns(
            "json.dumps(Counter(a))", '"""Counts."""', "import json", "from collections import Counter", "N: int = -1"
        ),
        returns("inner(a)").replace("    return", "    def inner(x):\n        return x * 2\n    return"),
        returns("re.compile('x').sub('', a)", "import re"),
        returns("a + '__bold__ text' + '{x}'.format(x=1)"),
        returns("a if a else '\\d'"),
        "def tool_function(input_data, **k):\n    match input_data:\n        case str() as x:\n            return x\n",
    ],
)
def test_functions_that_models_write_are_legal(source: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_tool_source(source)["type"] == "object"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "line 1: there is no function tool_function"),
        (
            returns("a").replace("tool_function", "other"),
            "line 1: only tool_function may stand here; define others inside",
        ),
        (returns("a") * 2, "line 3: tool_function is defined twice"),
        (returns("re.enum.bltns.open", "import re"), "line 3: re.enum is another module; import it itself"),
        (returns("a", "from statistics import random"), "line 1: statistics.random is another module"),
        (returns("x.codecs", "import json as x"), "line 3: json.codecs is another module"),
        (returns("a", "import json.nothing"), "line 1: it imports what is not there"),
        (
            returns("a", "def helper():", "    pass"),
            "line 1: only tool_function may stand here; define others inside it",
        ),
        (
            returns("a") + "print(tool_function('x'))",
            "line 3: beside tool_function only imports and constants of liter",
        ),
        (
            returns("a", "X = list('ab')"),
            "line 1: beside tool_function only imports and constants of literals may stand",
        ),
        ("async " + returns("a"), "line 1: only tool_function may stand here"),
        ("@cache\n" + returns("a"), "line 1: tool_function may have no decorator"),
        ("def tool_function(a: str):\n    print(a)\n", "line 1: tool_function returns nothing; return the result"),
        ("def tool_function(a: str):\n    break\n    return a\n", "line 2: it is no Python: 'break' outside loop"),
        ("def tool_function(a: str):\n    return (a\n", "line 2: it is no Python: '(' was never closed"),
        (returns("a", "import os"), "line 1: import of 'os' is not allowed; allowed are base64, "),
        (returns("a", "import ｏｓ"), "line 1: import of 'os' is not allowed"),
        (returns("a", "import math", "from . import x"), "line 2: import of '.' is not allowed"),
        (returns("a", "from math import *"), "line 1: the attribute '*' is not allowed"),
        (returns("a", "from operator import attrgetter as get"), "line 1: the attribute 'attrgetter' is not allowed"),
        (returns("a", "from __future__ import annotations"), "line 1: import of '__future__' is not allowed"),
        (returns("statistics.sys", "import statistics"), "line 3: the attribute 'sys' is not allowed"),
        (returns("().__class__.__base__"), "line 2: the attribute '__base__' is not allowed"),
        (returns("a.ｆ_back"), "line 2: the attribute 'f_back' is not allowed"),
        (returns("getattr(a, 'x')"), "line 2: the name 'getattr' is not allowed"),
        (returns("ｅｖａｌ(a)"), "line 2: the name 'eval' is not allowed"),
        (returns("__builtins__"), "line 2: the name '__builtins__' is not allowed"),
        (returns("f(__class__=a)"), "line 2: the name '__class__' is not allowed"),
        (returns("a", "import math as __x"), "line 1: the name '__x' is not allowed"),
        (returns("'{0.__class__}'.format(a)"), "line 2: a text names an attribute with two underscores"),
        (returns("a['__class__']"), "line 2: a text names an attribute with two underscores"),
        (
            "def tool_function(a: str):\n    match a:\n        case str(__class__=c):\n            return c\n",
            "line 3: the attr",
        ),
        (
            "def tool_function(a: str):\n    try:\n        1 / 0\n    except Exception as __e:\n        return a\n",
            "line 4: ",
        ),
        ("def tool_function():\n    return 1\n", "line 1: tool_function takes 0 parameters; it needs between 1 and 12"),
        (
            "def tool_function(a):\n    return a\n",
            "line 1: the parameter 'a' needs a type: one of str, int, float, bool",
        ),
        (
            "def tool_function(a: bytes):\n    return a\n",
            "line 1: the type bytes is not supported; use str, int, float",
        ),
        (
            "def tool_function(a: str, /):\n    return a\n",
            "line 1: tool_function is called by keyword; take no positional",
        ),
        ("def tool_function(*args: str):\n    return args\n", "line 1: tool_function is called by keyword"),
        ("def tool_function(a: str = str()):\n    return a\n", "line 1: the default of 'a' must be a literal"),
        ("def tool_function(é: str):\n    return é\n", "line 1: the parameter 'é' needs a name of plain letters"),
        (returns("a") + "\x00", "line 3: it holds the control character '\\x00'; write it as an escape"),
        (returns("'\u202e'"), "line 2: it holds the control character '\\u202e'; write it as an escape"),
        (returns("'\ud800'"), "line 2: it holds half a character (a surrogate); write whole characters"),
        (
            returns("a") + " " * SOURCE_LENGTH,
            f"line 1: the source has 16,040 characters; at most {SOURCE_LENGTH:,} are",
        ),
        (returns("a", f"X = {[1] * NODES}"), f"line 1: it is longer than {NODES:,} parts; write a simpler function"),
        (
            returns("[" * DEPTH + "]" * DEPTH),
            f"line 2: it is nested deeper than {DEPTH} levels; write a simpler function",
        ),
        ("-" * 15_000 + "1", "line 1: it is nested too deeply to be parsed"),
        ("(" * 15_000, "line 1: it is no Python: too many nested parentheses"),
        ("x" + ".a" * 7_000, "line 1: it is "),
        ("9" * 5_000, "line 1: it is no Python: Exceeds the limit"),
        (returns("a", f"X = 0x{'f' * 9_000}"), "line 1: it holds a whole number of more than 10,000 bits; compute it"),
        (f"def tool_function(a: 0x{'f' * 9_000}):\n    return a\n", "line 1: it holds a whole number of more than"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_refusal_names_the_line_and_the_reason(source: Any, message: str) -> None:
    with pytest.raises(ToolSourceError) as refusal:
        check_tool_source(source)
    assert str(refusal.value).startswith(message)
    assert (refusal.value.line, refusal.value.reason) == (
        int(message[5 : message.index(":")]),
        str(refusal.value).partition(": ")[2],
    )
    assert isinstance(refusal.value, SelfwireError)


def test_the_verdict_depends_on_the_source_and_not_on_the_depth_of_the_caller() -> None:
    def deep(levels: int) -> Any:
        return deep(levels - 1) if levels else check_tool_source(PAPER)

    assert deep(sys.getrecursionlimit() - 250)["required"] == ("input_data",)


@pytest.mark.parametrize(
    ("body", "constant"),
    [
        ("return '1927'", True),
        ("answer = str(1900 + 27)\n    return answer", True),
        ("year = {'x': 1927}\n    for key in year:\n        return year[key]", True),
        ("seen = str(a)\n    return str(1927)", True),
        ("return a", False),
        ("found = []\n    found.append(a)\n    return found", False),
        ("if a > 1:\n        return 1\n    return 2", False),
        ("def inner():\n        return a * 2\n    return inner()", False),
        ("match a:\n        case 1:\n            return 'one'\n    return 'other'", False),
        ("b = a\n    while b:\n        b = b // 2\n    return 7 if b else 8", False),
    ],
)
def test_a_function_whose_result_no_parameter_decides_is_constant(body: str, constant: bool) -> None:
    assert is_constant(f"def tool_function(a: int) -> int:\n    {body}\n") is constant
