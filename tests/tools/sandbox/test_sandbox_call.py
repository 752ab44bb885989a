"""Calls of a function of a source: the same on every backend."""

from collections.abc import Callable
from typing import Any

import pytest

from selfwire.core.protocols import Execution, Limits, Sandbox
from selfwire.tools.sandbox.bubblewrap import find_working_bubblewrap
from tests.sandboxed import every_sandbox, needs_sandbox

QUICK = Limits(seconds=20, output=200_000)
Find = Callable[[], Sandbox]


async def called(find: Find, source: str, limits: Limits = QUICK, **arguments: Any) -> Execution:
    return await find().call(source, arguments, limits=limits)


@every_sandbox
async def test_a_result_is_text(find: Find) -> None:
    source = """
values = [
    "a\\nb", "", None, {"a": [1, 2.5, True], "ä": (1,)}, {3}, 1 + 2j, {(1, 2): 3}, {3: 4}, 10**30, [{1}], b"x",
]
def tool_function(n):
    return values[n]
"""
    wanted = ["a\nb", "", "null", '{"a": [1, 2.5, true], "ä": [1]}', "{3}", "(1+2j)", "{(1, 2): 3}", '{"3": 4}']
    wanted += ["1" + "0" * 30, "[{1}]", "b'x'"]
    for number, text in enumerate(wanted):
        assert await called(find, source, n=number) == Execution(exit_status=0, result=text)


@every_sandbox
async def test_a_call_gets_its_arguments(find: Find) -> None:
    source = "def tool_function(a, b=(), **others):\n    print('seen')\n    return [a, b, others]"
    done = await called(find, source, a="\ud800 é", b={"c": [1, None]}, d=1.5)
    assert done == Execution(stdout="seen\n", exit_status=0, result='["? é", {"c": [1, null]}, {"d": 1.5}]')


@needs_sandbox
async def test_a_source_is_a_module_and_has_no_input() -> None:
    source = """
import sys
def tool_function():
    return [__name__, sys.stdin.read()]
if __name__ == "__main__":
    print("this is a module")
"""
    assert await called(find_working_bubblewrap, source) == Execution(exit_status=0, result='["tool", ""]')


@every_sandbox
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def tool_function():\n    x = 1\n    return x / 0", ["line 3, in tool_function", "ZeroDivisionError"]),
        ("\ndef tool_function(:", ["/main.py", "line 2", "SyntaxError"]),
        ("def tool(): pass", ["NameError: the source defines no function tool_function"]),
        ("tool_function = 3", ["TypeError: 'int' object is not callable"]),
        ("def tool_function(a): pass", ["TypeError", "missing 1 required positional argument: 'a'"]),
        ("import no_such\ndef tool_function(): pass", ["line 1", "ModuleNotFoundError: No module named 'no_such'"]),
        (
            "def f():\n    raise ValueError('odd')\nf()\ndef tool_function(): pass",
            ["line 2", "line 3", "ValueError: odd"],
        ),
    ],
)
async def test_a_call_that_raises_has_no_result_and_names_the_line(find: Find, source: str, said: list[str]) -> None:
    done = await called(find, source)
    assert (done.exit_status, done.result) == (1, None)
    assert [one for one in said if one not in done.stderr] == [], done.stderr
    assert [one for one in ("call_tool", "format_result", "<python-input", "<string>") if one in done.stderr] == []


@needs_sandbox
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class Odd:\n    def __repr__(self): return 1 / 0\ndef tool_function(): return Odd()", "ZeroDivisionError"),
        ("def tool_function(): exit()", "ended before tool_function returned"),
        ("import os\ndef tool_function(): os._exit(0)", "ended before tool_function returned"),
        ("print('=forged', flush=True)\nraise SystemExit(0)", "ended before tool_function returned"),
    ],
)
async def test_who_ends_before_it_returns_has_no_result(source: str, said: str) -> None:
    done = await called(find_working_bubblewrap, source)
    assert (done.exit_status, done.result) == (1, None)
    assert said in done.stderr


@every_sandbox
async def test_a_result_is_limited_like_output(find: Find) -> None:
    source = "def tool_function(n): return 'x' * n"
    assert (await called(find, source, n=200_000)).result == "x" * 200_000
    done = await called(find, source, n=200_001)
    assert (done.truncated, done.exit_status, done.result) == (True, None, None)


@every_sandbox
async def test_a_call_past_its_time_has_no_result(find: Find) -> None:
    source = "def tool_function():\n    while True: pass"
    stopped = Execution(exit_status=None, timed_out=True)
    assert await called(find, source, Limits(seconds=0.5)) == stopped
    assert await called(find, source, Limits(seconds=60, processor=1)) == stopped
