from typing import Any

import pytest
from langchain_core.tools import ToolException, tool

from selfwire.core.errors import ConfigError, ToolError
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
    ("kind", "error"), [("tool", ToolError), ("value", ToolError), ("os", ToolError), ("bug", KeyError)]
)
async def test_failures_are_for_the_agent_to_read_and_bugs_pass_through(kind: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="as asked"):
        await LangChainTool(fails).run({"kind": kind}, scope=Scope())


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
