import asyncio
import copy
import pickle
from typing import Any

import pytest
from langchain_core.tools import ToolException, tool
from langgraph.errors import GraphInterrupt

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import BudgetError, ConfigError, ToolError
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.tools.ready import LangChainTool, UserTool, make_toolbox


@tool
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@tool
async def fails(kind: str) -> str:
    """Fail in some way."""
    if kind == "late":
        raise TimeoutError  # as asyncio.timeout does
    if kind == "long":
        raise ValueError("x" * 300_000)
    if kind == "secret":
        raise OSError("https://api.example/?q=1&v=sk-a-secret-of-mine")
    if kind == "group":
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail_plainly(KeyError("one")))
    raise {"tool": ToolException, "value": ValueError, "os": OSError, "bug": KeyError}[kind]("as asked")


async def fail_plainly(error: Exception) -> None:
    raise error


async def test_name_purpose_schema_and_result_are_the_tools_own() -> None:
    adapted: Tool = LangChainTool(add)
    assert (adapted.spec.name, adapted.spec.description) == ("add", "Add two numbers.")
    assert set(adapted.spec.parameters["properties"]) == {"first", "second"}
    assert await adapted.run({"first": 2, "second": 3}, scope=Scope()) == "5"


async def test_an_input_that_does_not_fit_names_the_field() -> None:
    with pytest.raises(ToolError, match="refused its input: second"):
        await LangChainTool(add).run({"first": 2}, scope=Scope())


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("tool", "fails failed: as asked$"),
        ("value", "fails failed: as asked$"),
        ("os", "fails failed: as asked$"),
        ("bug", r"fails failed: KeyError: 'as asked' \(test_langchain.py:\d+\)$"),
        ("late", r"fails failed: TimeoutError \(test_langchain.py:\d+\)$"),
        ("long", r"fails failed: x{3900,4000}\n\[cut off\]$"),
        ("secret", r"fails failed: https://api.example/\?q=1&v=\*\*\*$"),
        ("group", r"fails failed: KeyError: 'one' \(test_langchain.py:\d+\)$"),
    ],
)
async def test_failures_are_for_the_agent_to_read_and_bugs_have_a_place(
    kind: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-a-secret-of-mine")
    with pytest.raises(ToolError, match=told):
        await LangChainTool(fails).run({"kind": kind}, scope=Scope())


@pytest.mark.parametrize("error", [GraphInterrupt(), BudgetError("budget exhausted")])
async def test_what_stops_a_graph_or_a_run_passes_through(error: Exception) -> None:
    @tool
    async def stops() -> str:
        """Stop."""
        raise error

    with pytest.raises(type(error)):
        await LangChainTool(stops).run({}, scope=Scope())


class Plain:
    """A tool whose `run` is no coroutine function."""

    spec = ToolSpec(name="plain", description="Price of an item.", parameters={"type": "object", "properties": {}})
    rebuilds = True

    def run(self, arguments: dict[str, int], *, scope: Scope) -> Any:
        """Give the price."""
        return arguments["item"]


PLAIN: Any = Plain()  # which type checkers refuse


async def test_an_object_whose_run_is_no_coroutine_function_is_a_tool() -> None:
    plain = make_toolbox([PLAIN])["plain"]
    assert await plain.run({"item": 2}, scope=Scope()) == "2"
    with pytest.raises(ToolError, match=r"plain failed: KeyError: 'item' \(test_langchain.py:\d+\)$"):
        await plain.run({}, scope=Scope())


async def test_a_line_of_selfwire_is_told_as_no_place_of_the_user() -> None:
    class Unscoped(Plain):
        def run(self, arguments: dict[str, int]) -> Any:  # type: ignore[override]
            """Give the price."""

    unscoped: Any = Unscoped()
    with pytest.raises(ToolError, match=r"got an unexpected keyword argument 'scope'$"):
        await UserTool(unscoped).run({}, scope=Scope())


def test_an_adapter_of_an_object_is_copied_with_it() -> None:
    adapted = UserTool(PLAIN)
    copies = [copy.copy(adapted), copy.deepcopy(adapted), pickle.loads(pickle.dumps(adapted))]
    assert [found.rebuilds for found in copies] == [True] * 3


@pytest.mark.parametrize("other", [ToolError("refused"), KeyError("other")])
async def test_what_stops_a_run_passes_through_in_a_group(other: Exception) -> None:
    @tool
    async def asks_two() -> str:
        """Ask two models at a time."""
        raise ExceptionGroup("unhandled errors in a TaskGroup", [other, BudgetError("budget exhausted")])

    with pytest.raises(BudgetError, match="budget exhausted"):
        await LangChainTool(asks_two).run({}, scope=Scope())


async def test_a_cancellation_of_the_run_is_no_failure_of_a_tool() -> None:
    @tool
    async def waits() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return ""

    call = asyncio.ensure_future(LangChainTool(waits).run({}, scope=Scope()))
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


def test_a_list_of_tools_may_name_some() -> None:
    assert list(make_toolbox([add, "calculator,convert_units"])) == ["add", "calculator", "convert_units"]


@tool("find it!")
def badly_named() -> str:
    """Has a name that models may not call."""
    return ""


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ([badly_named], "tool 'find it!': a tool's name is made of letters, digits, _ and -; rename it"),
        ([add, LangChainTool(add)], "two tools are called 'add'; rename one"),
        ([len], "<built-in function len> is no tool; pass functions with types and a docstring, LangChain tools"),
    ],
    ids=["name", "twice", "no tool"],
)
def test_what_makes_no_toolbox_is_refused(tools: list[Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make_toolbox(tools)
