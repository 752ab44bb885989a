"""The factory of every method for `langgraph dev`: it draws and runs the current team.

The server calls a method's factory for every drawing, schema and run, so a team that another process saves is drawn
and run next. Settings come from the environment:

    SELFWIRE_HOME    folder of the library; without a library there, the server's own store is it
    SELFWIRE_LIBRARY postgres:// address of the library in place of the folder
    SELFWIRE_MODEL   chat model of runs that name none (offline)
    SELFWIRE_TOOLS   tools that agents may hold, such as "calculator,sql:sales.sqlite,package.module:name"
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph_sdk.runtime import ServerRuntime

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ConfigError, ToolError
from selfwire.core.protocols import Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.graphs.method_factory import MethodFactory
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.own_tools import find_missing_tools
from selfwire.graphs.ready_tools import load_tools
from selfwire.runtime.storage import home_folder
from selfwire.runtime.workflow_library import LIBRARY_FILE, WorkflowLibrary, open_library

MethodT = TypeVar("MethodT", bound=Method)
Config = TypeVar("Config", bound=FrozenModel)
Served = CompiledStateGraph[Any, Any, Any, Any]

_log = logging.getLogger(__name__)


class Current(NamedTuple):
    """The served workflow, and the library and name under which evolved versions of it are kept."""

    workflow: Workflow
    library: WorkflowLibrary
    name: str


@dataclass(frozen=True)
class Service(Generic[MethodT, Config]):
    """A method as `langgraph dev` serves it.

    Attributes:
        make_factory: makes the factory for the model and the tools of the settings; kept until the settings change.
        compile: builds the graph around the served workflow. The factory holds every tool that its agents hold.
        make_seed: makes the initial workflow if none is saved.
        seeded_by: settings of an assistant that choose among initial workflows; they override a saved one.
    """

    name: str
    make_factory: Callable[[str, Toolbox], MethodFactory[MethodT, Config]]
    compile: Callable[[MethodFactory[MethodT, Config], Current], Served]
    make_seed: Callable[[MethodFactory[MethodT, Config], RunnableConfig], Workflow]
    seeded_by: frozenset[str] = frozenset()
    _factories: dict[tuple[str, str], MethodFactory[MethodT, Config]] = field(default_factory=dict, repr=False)

    async def graph(self, config: RunnableConfig, runtime: ServerRuntime[Any]) -> Served:
        """The graph around the workflow that the assistant names, or the method's head, or its initial workflow.

        Every run starts from the drawn workflow, whatever its thread ran before; a workflow that a run evolves is
        saved, so it is drawn next.

        Args:
            config: `configurable["workflow"]` names a workflow of the library: name, name@version or fingerprint.
            runtime: of the server; its store is the library where SELFWIRE_HOME has none.

        Raises:
            ConfigError: a setting cannot be used.
            LibraryError: there is no such workflow.
        """
        factory, own = await asyncio.to_thread(self._load_settings)
        libraries = [*([own] if own else []), WorkflowLibrary(runtime.store, "of the server")]
        current = await self._current(config, libraries, factory)
        return await asyncio.to_thread(lambda: self.compile(_with_stand_ins(factory, current.workflow), current))

    async def _current(
        self, config: RunnableConfig, libraries: Sequence[WorkflowLibrary], factory: MethodFactory[MethodT, Config]
    ) -> Current:
        settings = config.get("configurable", {})
        wanted = str(settings.get("workflow") or self.name)
        name = wanted.partition("@")[0]
        if wanted.endswith(".json"):
            raise ConfigError(f"workflow {wanted!r}: a server runs saved workflows only; import the file first")
        if settings.get("workflow") or not any(settings.get(one) for one in self.seeded_by):
            for library in libraries:
                if name in await library.names():
                    return Current(await library.load(wanted), library, name)
        if wanted == self.name:
            seed = await asyncio.to_thread(self.make_seed, factory, config)
            return Current(seed, libraries[0], self.name)
        return Current(await libraries[0].load(wanted), libraries[0], self.name)

    def _load_settings(self) -> tuple[MethodFactory[MethodT, Config], WorkflowLibrary | None]:
        """The current settings of the environment; blocks."""
        path = home_folder() / LIBRARY_FILE
        shared = os.environ.get("SELFWIRE_LIBRARY")
        own = _opened(path, shared or path.stat().st_ino) if shared or path.exists() else None
        settings = os.environ.get("SELFWIRE_MODEL") or "offline", os.environ.get("SELFWIRE_TOOLS") or ""
        if settings not in self._factories:
            model, tools = settings
            self._factories[settings] = self.make_factory(model, _load_tools(tools))
        return self._factories[settings], own


@lru_cache(maxsize=4)
def _opened(path: Path, kept_as: int | str) -> WorkflowLibrary:
    """An open library; a file that replaced it has another inode, and a server another address: it is opened again."""
    return open_library(path.parent)


def _load_tools(setting: str) -> dict[str, Tool]:
    try:
        return load_tools(setting) if setting else {}
    except ConfigError as error:
        raise ConfigError(f"SELFWIRE_TOOLS={setting!r}: {error}") from None


@dataclass(frozen=True)
class _MissingTool:
    name: str

    @property
    def spec(self) -> ToolSpec:
        parameters = {"type": "object", "properties": {}}
        return ToolSpec(name=self.name, description="Not available here.", parameters=parameters)

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        raise ToolError(f"{self.name} is not available here; set SELFWIRE_TOOLS to a list that has it")


def _with_stand_ins(factory: MethodFactory[MethodT, Config], workflow: Workflow) -> MethodFactory[MethodT, Config]:
    missing = tuple(find_missing_tools(workflow, factory.toolbox))
    if not missing:
        return factory
    _warn(missing)
    stand_ins: dict[str, Tool] = {name: _MissingTool(name) for name in missing}
    return replace(factory, toolbox={**factory.toolbox, **stand_ins})


@cache  # once per process, not at every drawing
def _warn(missing: tuple[str, ...]) -> None:
    _log.warning("the team holds %s, which SELFWIRE_TOOLS does not name; it runs without", ", ".join(missing))
