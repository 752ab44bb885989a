"""HiVA for `langgraph dev`: a factory that draws and runs the current team.

The server calls `graph` for every drawing, schema and run, so what another process has saved meanwhile is what
is drawn and run next. Settings come from the environment:

    SELFWIRE_HOME    folder of the library; without a library there, the server's own store is it
    SELFWIRE_MODEL   chat model of runs that name none (offline)
    SELFWIRE_TOOLS   "package.module:name" of a list, or of a dict by name, of tools that agents may hold
"""

import asyncio
import importlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph_sdk.runtime import ServerRuntime

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ConfigError, ToolError
from selfwire.core.ports import Tool
from selfwire.core.scope import Scope
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.seed import METHOD
from selfwire.graphs.hiva.build import saver
from selfwire.graphs.hiva.machine import Steps, machine
from selfwire.graphs.hiva.state import HivaContext, HivaState
from selfwire.graphs.hiva.wiring import Wiring
from selfwire.runtime.library import LIBRARY_FILE, Library, open_library
from selfwire.runtime.storage import home_folder
from selfwire.tools.langchain import toolbox

Served = CompiledStateGraph[HivaState, Any, Any, Any]

_log = logging.getLogger(__name__)


async def graph(config: RunnableConfig, runtime: ServerRuntime[Any]) -> Served:
    """The machine around the workflow that the assistant names, or the head of `hiva`, or the singleton.

    Every run starts from the workflow that is drawn, whatever its thread ran before; what a run evolves is
    saved, and so it is drawn next.

    Args:
        config: `configurable["workflow"]` names a workflow of the library: name, name@version or fingerprint.
        runtime: of the server; its store is the library where SELFWIRE_HOME has none.

    Raises:
        ConfigError: a setting cannot be used.
        LibraryError: there is no such workflow.
    """
    wanted = str(config.get("configurable", {}).get("workflow") or METHOD)
    wiring, own = await asyncio.to_thread(_settled)
    libraries = [*([own] if own else []), Library(runtime.store, "of the server")]
    current = await _current(wanted, libraries, wiring)
    return await asyncio.to_thread(_assembled, wiring, current)


class _Current(NamedTuple):
    """What is served, and the library and name under which what becomes of it is kept."""

    workflow: Workflow
    library: Library
    name: str = METHOD


def _assembled(wiring: Wiring, current: _Current) -> Served:
    saved, library, name = current
    wiring = _with_stand_ins(_roomy(wiring, saved), saved)
    workflow = wiring.check(saved)

    async def begins(context: HivaContext, had: Workflow | None) -> Workflow:
        return workflow

    save = saver(library, name, wiring)
    return machine(Steps(wiring.hiva, workflow, begins=begins, save=save), wiring).compile(name=METHOD)


def _roomy(wiring: Wiring, workflow: Workflow) -> Wiring:
    """The wiring with caps that the workflow has room in: a server has no setting that would raise them."""
    config = wiring.config
    room = {
        "nodes": max(config.nodes, len(workflow.topology.nodes)),
        "successors": max(config.successors, *map(len, workflow.topology.successors.values())),
    }
    return replace(wiring, config=config.replace(**room))


async def _current(wanted: str, libraries: Sequence[Library], wiring: Wiring) -> _Current:
    """The workflow that is wanted, in the first library that knows its name; without one it is kept as `hiva`."""
    name = wanted.partition("@")[0]
    if wanted.endswith(".json"):
        raise ConfigError(f"workflow {wanted!r}: a server runs saved workflows only; import the file first")
    for library in libraries:
        if name in await library.names():
            return _Current(await library.load(wanted), library, name)
    if wanted == METHOD:
        return _Current(wiring.hiva.seed(tuple(wiring.toolbox)), libraries[0])
    return _Current(await libraries[0].load(wanted), libraries[0])


def _settled() -> tuple[Wiring, Library | None]:
    """The settings of the environment as they are now; blocks."""
    path = home_folder() / LIBRARY_FILE
    own = _opened(path, path.stat().st_ino) if path.exists() else None
    return _wired(os.environ.get("SELFWIRE_MODEL") or "offline", os.environ.get("SELFWIRE_TOOLS") or ""), own


@lru_cache(maxsize=4)
def _opened(path: Path, inode: int) -> Library:
    """An open library; a file that was put in its place has another inode and is opened anew."""
    return open_library(path.parent)


@lru_cache(maxsize=4)
def _wired(model: str, tools: str) -> Wiring:
    return Wiring(model, None, toolbox(_tools(tools) if tools else ()))


def _tools(setting: str) -> Sequence[Any]:
    module, _, name = setting.partition(":")
    try:
        found = attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"SELFWIRE_TOOLS={setting!r}: {error}; write package.module:name of a list") from None
    if not isinstance(found, Mapping | list | tuple):
        raise ConfigError(f"SELFWIRE_TOOLS={setting!r} is {type(found).__name__}; name a list or dict of tools")
    return [*found.values()] if isinstance(found, Mapping) else found


@dataclass(frozen=True)
class _StandIn:
    """Holds the place of a tool that the server lacks; agents read that it is not there and go on without."""

    name: str

    @property
    def spec(self) -> ToolSpec:
        """An input object of any kind."""
        parameters = {"type": "object", "properties": {}}
        return ToolSpec(name=self.name, description="Not available here.", parameters=parameters)

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Refuse.

        Raises:
            ToolError: always.
        """
        raise ToolError(f"{self.name} is not available here; set SELFWIRE_TOOLS to a list that has it")


def _with_stand_ins(wiring: Wiring, workflow: Workflow) -> Wiring:
    held = {tool for agent in workflow.agents for tool in agent.tools}
    missing = tuple(sorted(held - set(wiring.toolbox)))
    if not missing:
        return wiring
    _warn(missing)
    stand_ins: dict[str, Tool] = {name: _StandIn(name) for name in missing}
    return wiring.holding(stand_ins)


@cache  # once per process, not at every drawing
def _warn(missing: tuple[str, ...]) -> None:
    _log.warning("the team holds %s, which SELFWIRE_TOOLS does not name; it runs without", ", ".join(missing))
