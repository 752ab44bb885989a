"""The factory of every method for `langgraph dev`: it draws and runs the current team.

The server calls a method's factory for every drawing, schema and run, so a team that another process saves is drawn
and run next. Settings come from the environment:

    SELFWIRE_HOME    folder of the library; without a library there, the server's own store is it
    SELFWIRE_LIBRARY postgres:// address of the library in place of the folder
    SELFWIRE_MODEL   chat model of runs that name none (offline)
    SELFWIRE_TOOLS   tools that agents may hold, such as "calculator,benchmark:archive,package.module:name"
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph_sdk.runtime import ServerRuntime
from pydantic import BaseModel

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Tool, Toolbox
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.graphs.method_factory import MethodFactory
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.own_tools import find_missing_tools
from selfwire.graphs.ready_tools import FORMS, READY, load_tools
from selfwire.runtime.storage import home_folder
from selfwire.runtime.workflow_library import LIBRARY_FILE, TEAM, WorkflowLibrary, open_library

MethodT = TypeVar("MethodT", bound=Method)
Config = TypeVar("Config", bound=FrozenModel)
Served = CompiledStateGraph[Any, Any, Any, Any]

SERVER_KEYS = ("thread_id", "run_id", "graph_id", "assistant_id", "user_id", "checkpoint_")
"""What clients of older servers send among the choices."""


class Current(NamedTuple):
    """The served workflow, the library and name under which evolved versions are kept, and its reference if saved."""

    workflow: Workflow
    library: WorkflowLibrary
    name: str
    ref: str = ""


@dataclass(frozen=True)
class Service(Generic[MethodT, Config]):
    """A method as `langgraph dev` serves it.

    Attributes:
        make_factory: makes the factory for the model and the tools of the settings; kept until the settings change.
        compile: builds the graph around the served workflow, to be run or, if the last argument is False, drawn.
        make_seed: makes the initial workflow if none is saved.
        seeded_by: settings of an assistant that choose among initial workflows; they override a saved one.
    """

    name: str
    make_factory: Callable[[str, Toolbox], MethodFactory[MethodT, Config]]
    compile: Callable[[MethodFactory[MethodT, Config], Current, bool], Served]
    make_seed: Callable[[MethodFactory[MethodT, Config], RunnableConfig], Workflow]
    seeded_by: frozenset[str] = frozenset()
    _factories: dict[tuple[str, str], MethodFactory[MethodT, Config]] = field(default_factory=dict, repr=False)

    async def graph(self, config: RunnableConfig, runtime: ServerRuntime[Any]) -> Served:
        """The graph around the workflow that the assistant names, or the method's head, or its initial workflow.

        Every run starts from the drawn workflow, whatever its thread ran before. A team is drawn even if the server
        lacks its tools; runs are refused then.

        Args:
            config: `configurable["workflow"]` names a workflow of the library: name, name@version or fingerprint.
            runtime: of the server; its store is the library where SELFWIRE_HOME has none.

        Raises:
            ConfigError: a setting cannot be used, a run's context has an unknown key, or a run lacks tools.
            LibraryError: there is no such workflow.
        """
        run = runtime.execution_runtime
        factory, own = await asyncio.to_thread(self._load_settings)
        libraries = [*([own] if own else []), WorkflowLibrary(runtime.store, "of the server")]
        current = await self._current(config, libraries, factory)
        if run is not None:
            await _refuse_missing_tools(factory, current)
        served = await asyncio.to_thread(self.compile, factory, current, run is not None)
        if run is not None:
            _refuse_unknown_choices(run.context, served)
        return served

    async def _current(
        self, config: RunnableConfig, libraries: Sequence[WorkflowLibrary], factory: MethodFactory[MethodT, Config]
    ) -> Current:
        settings = config.get("configurable", {})
        wanted = str(settings.get("workflow") or self.name).removeprefix(TEAM)
        name = wanted.partition("@")[0]
        if wanted.endswith(".json"):
            raise ConfigError(f"workflow {wanted!r}: a server runs saved workflows only; import the file first")
        if settings.get("workflow") or not any(settings.get(one) for one in self.seeded_by):
            for library in libraries:
                if name in await library.names():
                    return Current(await library.load(wanted), library, name, wanted)
        if wanted == self.name:
            seed = await asyncio.to_thread(self.make_seed, factory, config)
            return Current(seed, libraries[0], self.name)
        return Current(await libraries[0].load(wanted), libraries[0], self.name, wanted)

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


async def _refuse_missing_tools(factory: MethodFactory[MethodT, Config], current: Current) -> None:
    """Check that the server has the tools of the served team.

    Raises:
        ConfigError: it lacks one; the message has the setting that brings it, if the version or the name tells it.
    """
    missing = find_missing_tools(current.workflow, factory.toolbox)
    if not missing:
        return
    wanted = str((await current.library.find(current.ref)).facts.get("tools", "")) if current.ref else ""
    if not wanted and READY.keys() >= set(missing):
        wanted = ",".join(missing)
    given = os.environ.get("SELFWIRE_TOOLS", "")
    line = ",".join(filter(None, [*given.split(","), *wanted.split(",")])) if wanted else ""
    raise ConfigError(
        f"the team's agents hold {', '.join(missing)}, and this server lends "
        f"{', '.join(factory.toolbox) or 'no tools'}; start it with SELFWIRE_TOOLS"
        + (f"={line}" if line else f" that names {FORMS}")
    )


def _refuse_unknown_choices(context: object, served: Served) -> None:
    """Check a run's context before the server drops what the schema does not name.

    Raises:
        ConfigError: it has an unknown key.
    """
    schema = served.context_schema
    known = schema.model_fields if isinstance(schema, type) and issubclass(schema, BaseModel) else {}
    given = context if isinstance(context, Mapping) else {}
    unknown = [name for name in given if name not in known and not name.startswith(("__", "langgraph_", *SERVER_KEYS))]
    if unknown:
        raise ConfigError(
            f"context: there is no {', '.join(unknown)}; choices are {', '.join(known)}"
        )  # pragma: no cover - in the server
