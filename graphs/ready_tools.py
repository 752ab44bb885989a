"""Tools by name: those that come with selfwire, and the user's own by module."""

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.own_modules import import_own_module
from selfwire.core.protocols import Tool
from selfwire.tools.algebra import AlgebraTool
from selfwire.tools.calculator import CalculatorTool
from selfwire.tools.langchain import make_toolbox
from selfwire.tools.python import PythonTool
from selfwire.tools.sql import SqlTool
from selfwire.tools.units import UnitsTool


def _make_python() -> PythonTool:
    from selfwire.runtime.sandbox import find_sandbox

    return PythonTool(find_sandbox(full=True))


READY: Mapping[str, Callable[[], Tool]] = {
    "calculator": CalculatorTool,
    "convert_units": UnitsTool,
    "algebra": AlgebraTool,
    "python": _make_python,
}
"""Tools that need nothing but their name."""

FORMS = (
    f"{', '.join(READY)}, sql:FILE, benchmark:NAME for the tools of a benchmark, or package.module:name of a tool, "
    "or of a list or dict of tools"
)
"""What a list of tools may name."""

BENCHMARK = "benchmark"
BENCHMARK_TOOLS = "selfwire.evals.benchmarks.toolboxes"


def load_tools(names: str) -> dict[str, Tool]:
    """Tools by name, such as `calculator,sql:data/sales.sqlite,my_package.tools:TOOLS`.

    One SQLite file is the tool `sql`; of several each is named after its file, such as `sql_sales`.

    Raises:
        ConfigError: a name means no tool, two tools share a name, or no sandbox for `python` works here.
    """
    listed = [name.strip() for name in names.split(",")]
    several = sum(name.startswith("sql:") for name in listed) > 1
    return make_toolbox(tool for name in listed for tool in _load(name, several))


def absolute_names(names: str) -> str:
    """The same names with absolute paths of files, for a run that is resumed from another folder."""
    return ",".join(_absolute_name(name.strip()) for name in names.split(","))


def _absolute_name(name: str) -> str:
    kind, _, path = name.partition(":")
    return f"sql:{Path(path).resolve()}" if kind == "sql" else name


def _load(name: str, several: bool) -> list[Any]:
    kind, colon, place = name.partition(":")
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
        found = attrgetter(name)(import_own_module(module))
    except (ImportError, AttributeError, ValueError, TypeError) as error:  # TypeError of a relative name
        raise ConfigError(f"tools {listed!r}: {error}; name {FORMS}") from None
    if isinstance(found, Mapping):
        return [*found.values()]
    if isinstance(found, list | tuple):
        return [*found]
    if hasattr(found, "run") and not isinstance(found, type):
        return [found]
    raise ConfigError(f"tools {listed!r} is {type(found).__name__}; name {FORMS}")
