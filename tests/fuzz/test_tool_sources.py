"""Any text as the source of a tool is refused with its line, or is a tool of a team that compiles."""

import asyncio
import time
from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.core.errors import ToolSourceError
from selfwire.core.own_tool import OwnTool, check_tool_source
from selfwire.core.protocols import Limits
from selfwire.tools.sandbox.sandbox import find_sandbox
from tests.chaos import SANDBOXED_SOURCES, TOOL_SOURCES
from tests.core.test_tool_source import PAPER
from tests.fuzz.odd import TEXTS
from tests.fuzz.test_odd_replies import PROFILE
from tests.sandboxed import needs_sandbox

CONVERT = """import re
from math import sqrt

RATES = {'km': 1000.0, 'm': 1}


def tool_function(value: float, unit: str = 'm', places: int = 2) -> float:
    def root(x):
        return sqrt(x) if x > 0 else 0

    if unit not in RATES:
        return f'Error: unknown unit {unit!r}'
    return round(root(value) * RATES[unit], places)
"""
ADD = """def tool_function(items: list[int], sign: bool = True, **kwargs):
    total = 0
    for index, item in enumerate(items):
        match item:
            case int() if item % 2 == 0:
                total += item
            case _:
                continue
    while total > 100:
        total //= 2
    return {'total': total if sign else -total}
"""
SOURCES = (PAPER, CONVERT, ADD)
PIECES = (
    *TEXTS, "import os\n", "eval", "__class__", "\n", "    ", "\t", "(", ")", "[", "]", ":", ",", "'",
    '"', "#", "\\", "lambda: ", "def f():\n", "return ", "yield ", "await ", "async ", "not ", "-", "*", "**",
    "@", "f'{", "}'", "global x\n", "nonlocal x\n", "break\n", "0x", "1e999", "ｅval", "a.b", "if ", "else ", "try:\n",
    "except ", "with ", "case _:\n", ";",
)  # fmt: skip


def mutate(source: str, rng: Random) -> str:
    """A real source with some lines or pieces left out, doubled, moved or put in."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(source) + 1)
        end = min(start + rng.choice((0, 1, 1, 4, 30)), len(source))
        piece = rng.choice((rng.choice(PIECES), source[end : end + 20], "", source[start:end] * 2))
        source = source[:start] + piece + source[end:]
    return source


def check(source: str, verdicts: Counter[str], legal: set[str]) -> None:
    began = time.process_time()
    try:
        schema = check_tool_source(source)
    except ToolSourceError as error:
        assert 1 <= error.line <= source.count("\n") + 2, source  # noqa: PT017
        assert str(error) == f"line {error.line}: {error.reason}"  # noqa: PT017
        verdicts["refused"] += 1
    else:
        assert schema["type"] == "object"
        assert OwnTool(name="f", description="d", source=source).parameters == schema
        verdicts["legal"] += 1
        legal.add(source)
    assert time.process_time() - began < 1, source[:200]


@needs_sandbox
def test_any_source_is_legal_or_refused_with_its_line() -> None:
    verdicts, legal = Counter[str](), set[str]()

    @settings(PROFILE, max_examples=TOOL_SOURCES // 50)
    @given(seed=st.integers(0, 2**48), text=st.text(max_size=200))
    def check_fifty(seed: int, text: str) -> None:
        rng = Random(seed)
        check(text, verdicts, legal)
        check(f"def tool_function(a: str):\n    return {text}\n", verdicts, legal)
        for _ in range(48):
            check(mutate(rng.choice(SOURCES), rng), verdicts, legal)

    check_fifty()
    assert verdicts.total() >= TOOL_SOURCES
    assert min(verdicts.values()) > TOOL_SOURCES / 20, verdicts
    asyncio.run(run_some(sorted(legal)))


async def run_some(sources: list[str]) -> None:
    """Sources that are legal run inside: to a result, an exception or a limit, and never out of the sandbox."""
    sandbox, values = (
        find_sandbox(),
        {"string": "x", "integer": 2, "number": 1.5, "boolean": True, "array": [], "object": {}},
    )
    for source in Random(0).sample(sources, min(SANDBOXED_SOURCES, len(sources))):
        schema = check_tool_source(source)
        arguments = {name: values[one["type"]] for name, one in schema["properties"].items()}
        done = await sandbox.call(source, arguments, limits=Limits(seconds=2))
        assert (done.result is None) == (done.exit_status != 0), (source, done)
