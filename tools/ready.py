"""Tools by name, and LangChain's tools and functions as tools."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

from langchain_core.tools import BaseTool, ToolException
from langchain_core.tools import tool as to_langchain_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp
from pydantic import ValidationError

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import (
    ConfigError,
    SelfwireError,
    StoppedError,
    ToolError,
    format_error,
    format_faults,
    format_place,
)
from selfwire.core.plugins import import_user_object
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.core.text import mask_secrets
from selfwire.core.values import is_id
from selfwire.models.providers import ErrorCatcher
from selfwire.tools.algebra import AlgebraTool
from selfwire.tools.calculator import CalculatorTool
from selfwire.tools.own import cut_result
from selfwire.tools.python import PythonTool
from selfwire.tools.sql import SqlTool
from selfwire.tools.units import UnitsTool


class LangChainTool:
    """An adapter of a LangChain tool with its name, description and input schema; a sync tool runs in a thread."""

    def __init__(self, tool: BaseTool) -> None:
        self.tool = tool
        schema = convert_to_openai_tool(tool)["function"]
        self.spec = ToolSpec(
            name=schema["name"], description=schema.get("description", ""), parameters=schema.get("parameters", {})
        )

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Run the tool and return its result as text.

        Raises:
            ToolError: the input does not fit the schema, or the tool failed.
        """
        return await _run_foreign(self.spec.name, lambda: self.tool.ainvoke(dict(arguments)))


class UserTool:
    """An adapter of a user's object with `spec` and `run`; other attributes are those of the object."""

    def __init__(self, tool: Tool) -> None:
        self.tool, self.spec = tool, tool.spec

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the object, such as `rebuilds`."""
        if name == "tool" or name.startswith("__"):  # copy and pickle look for such in an object without fields
            raise AttributeError(name)
        return getattr(self.tool, name)

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Run the tool; raises ToolError if it refuses its input or fails."""
        return await _run_foreign(self.spec.name, lambda: self.tool.run(arguments, scope=scope))


async def _run_foreign(name: str, call: Callable[[], Any]) -> str:
    """Return the result of a user's tool as text.

    Args:
        call: calls the tool; what it returns is awaited if it can be.

    Raises:
        ToolError: the tool raised an error, of whatever class; one that tools do not usually raise is told with its
            place in the user's code.
    """
    with ErrorCatcher() as caught:  # a tool is foreign code
        result = call()
        if inspect.isawaitable(result):
            result = await result
        return result if isinstance(result, str) else str(result)
    error = caught.error
    assert error is not None, "a call without an error has returned"
    causes = [*_list_causes(error)]
    if passing := [cause for cause in causes if isinstance(cause, SelfwireError | GraphBubbleUp)]:
        raise max(passing, key=lambda cause: isinstance(cause, StoppedError | GraphBubbleUp))
    if isinstance(error, ValidationError):
        raise ToolError(f"{name} refused its input: {cut_result(mask_secrets(format_faults(error)))}") from error
    told = cut_result("; ".join(map(format_error, causes)))
    if isinstance(error, ToolException | ValueError | OSError) and str(error):
        told = told.removeprefix(f"{type(error).__name__}: ")
    else:
        told += format_place(error)
    raise ToolError(f"{name} failed: {told}") from error


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """List the errors of a group, as task groups raise it, or the only error."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from _list_causes(inner)


def make_toolbox(tools: Iterable[BaseTool | Tool | Callable[..., Any] | str]) -> dict[str, Tool]:
    """Make a toolbox of LangChain's tools, objects with `spec` and `run`, functions with types and a docstring, names.

    Raises:
        ConfigError: an object is no tool, or a name is not allowed or occurs twice.
    """
    found: dict[str, Tool] = {}
    listed = (load_tools(given).values() if isinstance(given, str) else [given] for given in refuse_single_tool(tools))
    for tool in map(_to_tool, chain.from_iterable(listed)):
        name = tool.spec.name
        if not is_id(name):
            raise ConfigError(f"tool {name!r}: a tool's name is made of letters, digits, _ and -; rename it")
        if name in found:
            raise ConfigError(f"two tools are called {name!r}; rename one")
        found[name] = tool
    return found


AnyTool = TypeVar("AnyTool")


def refuse_single_tool(tools: Iterable[AnyTool]) -> Iterable[AnyTool]:
    """Return the tools, unless they are a single one without a list around it, or no list.

    Raises:
        ConfigError: they are.
    """
    if isinstance(tools, BaseTool) or callable(tools) or hasattr(tools, "spec"):
        name = getattr(tools, "name", None) or getattr(tools, "__name__", None) or "tool"
        raise ConfigError(f"tools are given in a list, also a single one: tools=[{name}]")
    if not isinstance(tools, Iterable):
        raise ConfigError(f"tools are given in a list, not as {tools!r}")
    return tools


def _to_tool(given: BaseTool | Tool | Callable[..., Any]) -> Tool:
    if isinstance(given, BaseTool):
        return LangChainTool(given)
    if isinstance(given, FunctionType):
        try:
            return LangChainTool(to_langchain_tool(given))
        except ValueError as error:
            raise ConfigError(f"function {given.__name__!r} is no tool: {error}") from None
    if hasattr(given, "spec") and callable(getattr(given, "run", None)):
        own = type(given).__module__.startswith("selfwire.")
        return cast(Tool, given) if own else UserTool(cast(Tool, given))
    raise ConfigError(
        f"{given!r} is no tool; pass functions with types and a docstring, LangChain tools, or objects with `spec` "
        "and `run`"
    )


def _make_python() -> PythonTool:
    from selfwire.tools.sandbox.sandbox import find_sandbox

    return PythonTool(find_sandbox(full=True))


READY: Mapping[str, Callable[[], Tool]] = {
    "calculator": CalculatorTool,
    "convert_units": UnitsTool,
    "algebra": AlgebraTool,
    "python": _make_python,
}
"""Tools that need nothing but their name."""

FORMS = (
    f"{', '.join(READY)}, sql:FILE, mcp:FILE for the tools of MCP servers, benchmark:NAME for those of a benchmark, or "
    "package.module:name of a tool, or of a list or dict of tools"
)
"""What a list of tools may name."""

MCP = "mcp:"
BENCHMARK = "benchmark"
IN_PYTHON = "python:"
"""Prefix of the name of a tool that was given in Python as an object, in a request."""
BENCHMARK_TOOLS = "selfwire.evals.benchmarks.toolboxes"


def load_tools(names: str) -> dict[str, Tool]:
    """Tools by name, such as `calculator,sql:data/sales.sqlite,my_package.tools:TOOLS`.

    One SQLite file is the tool `sql`; of several each is named after its file, such as `sql_sales`. The servers of
    `mcp:FILE` are started.

    Raises:
        ConfigError: a name means no tool, two tools share a name, no sandbox for `python` works here, or an MCP server
            does not start.
    """
    listed = [name.strip() for name in names.split(",")]
    several = sum(name.startswith("sql:") for name in listed) > 1
    servers = find_server_files(names)
    found = make_toolbox(tool for name in listed if not name.startswith(MCP) for tool in _load(name, several))
    if servers:
        from selfwire.tools.mcp import load_server_tools

        found |= make_toolbox(load_server_tools(servers, taken=found.keys()))
        _KEPT.append(found)
    return found


_KEPT: list[dict[str, Tool]] = []
"""Tools of MCP servers that were loaded since a run ended: a run loads its tools more than once before it begins."""


_RUNS: list[None] = []
"""One for each run that is open in this process."""


@contextmanager
def end_servers() -> Iterator[None]:
    """End MCP servers with this block of a run, unless another run is open; a later call starts its server again."""
    _RUNS.append(None)
    try:
        yield
    finally:
        _RUNS.pop()
        if _KEPT and not _RUNS:
            from selfwire.tools.mcp import rest_servers

            _KEPT.clear()
            rest_servers()


def find_server_files(names: str) -> list[str]:
    """Find the files of MCP servers in the names."""
    listed = (name.strip() for name in names.split(","))
    return [name.removeprefix(MCP) for name in listed if name.startswith(MCP)]


def find_foreign_tools(names: str) -> list[str]:
    """Find the tools in the names that are code or a file outside selfwire: module:name and sql:FILE."""
    listed = [name.strip() for name in names.split(",")]
    ours = rf"{BENCHMARK}:\w+|{IN_PYTHON}.*"
    return [name for name in listed if ":" in name and not re.fullmatch(ours, name)]


def absolute_names(names: str) -> str:
    """Make paths of files in the names absolute, for a run that is resumed from another folder."""
    return ",".join(_absolute_name(name.strip()) for name in names.split(","))


def _absolute_name(name: str) -> str:
    kind, _, path = name.partition(":")
    return f"{kind}:{Path(path).expanduser().resolve()}" if kind in ("sql", "mcp") else name


def _load(name: str, several: bool) -> list[Any]:
    kind, colon, place = name.partition(":")
    if name.startswith(IN_PYTHON):
        raise ConfigError(
            f"tool {place!r} was given in Python and is not stored; go on there, with the same tools and run_name"
        )
    if name in READY:
        return [READY[name]()]
    if kind == "sql" and place:
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", Path(place).stem)[:60]
        return [SqlTool(place, f"sql_{plain}" if several else "sql")]
    if not colon or name == "sql:":
        raise ConfigError(f"there is no tool {name!r}; name {FORMS}")
    return _import(name, BENCHMARK_TOOLS if kind == BENCHMARK else kind, place)


def _import(listed: str, module: str, name: str) -> list[Any]:
    try:
        found = import_user_object(module, name, f"tools {listed!r}")
    except (ImportError, AttributeError, ValueError, TypeError, OSError) as error:  # TypeError of a relative name
        raise ConfigError(f"tools {listed!r}: {error}; name {FORMS}") from None
    if isinstance(found, Mapping):
        return [*found.values()]
    if isinstance(found, list | tuple):
        return [*found]
    if isinstance(found, FunctionType) or (hasattr(found, "run") and not isinstance(found, type)):
        return [found]
    raise ConfigError(f"tools {listed!r} is {type(found).__name__}; name {FORMS}")
