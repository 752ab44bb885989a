"""LangChain tools as tools for agents, and a toolbox of tools of both kinds."""

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ValidationError

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ConfigError, ToolError, format_faults
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.core.values import is_id


class LangChainTool:
    """Adapts a LangChain tool; name, description and input schema stay the same. A sync tool runs in a thread."""

    def __init__(self, tool: BaseTool) -> None:
        self.tool = tool
        schema = convert_to_openai_tool(tool)["function"]
        self.spec = ToolSpec(
            name=schema["name"], description=schema.get("description", ""), parameters=schema.get("parameters", {})
        )

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """The tool's result as text.

        Raises:
            ToolError: the input does not fit the schema, or the tool raised a ToolException, ValueError or OSError;
                anything else is a bug of the tool and passes through.
        """
        try:
            result = await self.tool.ainvoke(dict(arguments))
        except ValidationError as error:
            raise ToolError(f"{self.spec.name} refused its input: {format_faults(error)}") from error
        except (ToolException, ValueError, OSError) as error:
            raise ToolError(f"{self.spec.name} failed: {error}") from error
        return result if isinstance(result, str) else str(result)


def make_toolbox(tools: Iterable[BaseTool | Tool]) -> dict[str, Tool]:
    """Tools of both kinds by name.

    Raises:
        ConfigError: an object is no tool, or a name is not allowed or occurs twice.
    """
    found: dict[str, Tool] = {}
    for one in tools:
        tool = _tool(one)
        name = tool.spec.name
        if not is_id(name):
            raise ConfigError(f"tool {name!r}: a tool's name is made of letters, digits, _ and -; rename it")
        if name in found:
            raise ConfigError(f"two tools are called {name!r}; rename one")
        found[name] = tool
    return found


def _tool(one: BaseTool | Tool) -> Tool:
    if isinstance(one, BaseTool):
        return LangChainTool(one)
    if hasattr(one, "spec") and callable(getattr(one, "run", None)):
        return one
    raise ConfigError(f"{one!r} is no tool; pass LangChain tools (see its @tool) or objects with `spec` and `run`")
