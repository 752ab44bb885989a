import asyncio
from typing import Any

import pytest
from langchain_core.tools import ToolException, tool
from langgraph.errors import GraphInterrupt

from selfwire.core.errors import BudgetError, ConfigError, ToolError
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.tools.ready import LangChainTool, make_toolbox


@tool
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@tool
async def fails(kind: str) -> str:
    """Fail in some way."""
    raise {"tool": ToolException, "value": ValueError, "os": OSError, "bug": KeyError}[kind]("as asked")


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
    ],
)
async def test_failures_are_for_the_agent_to_read_and_bugs_have_a_place(kind: str, told: str) -> None:
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
