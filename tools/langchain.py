"""Any LangChain tool as a tool that agents may hold."""

from collections.abc import Mapping
from typing import Any

from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ValidationError

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ToolError
from selfwire.core.scope import Scope


class LangChainTool:
    """Adapts a LangChain tool; its own name, description and input schema are kept.

    Args:
        tool: the tool; it is called with `ainvoke`, so a tool with only a sync form runs in a thread.
    """

    def __init__(self, tool: BaseTool) -> None:
        self.tool = tool
        told = convert_to_openai_tool(tool)["function"]
        self.spec = ToolSpec(
            name=told["name"], description=told.get("description", ""), parameters=told.get("parameters", {})
        )

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """The tool's result as text.

        Raises:
            ToolError: the input does not fit the tool's schema, or the tool raised a ToolException, ValueError
                or OSError. Anything else is a bug of the tool and passes through.
        """
        try:
            result = await self.tool.ainvoke(dict(arguments))
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise ToolError(f"{self.spec.name} refused its input: {faults}") from error
        except (ToolException, ValueError, OSError) as error:
            raise ToolError(f"{self.spec.name} failed: {error}") from error
        return result if isinstance(result, str) else str(result)
