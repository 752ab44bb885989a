"""Methods as `langgraph dev` serves them: the current team is drawn and run, evolved teams are saved.

The server calls a method's factory for every drawing, schema and run, so a team that another process saves is drawn
and run next. Settings come from the environment:

    SELFWIRE_HOME    folder of the library; without a library there, the server's own store is it
    SELFWIRE_LIBRARY postgres:// address of the library in place of the folder
    SELFWIRE_MODEL   chat model of runs that name none (offline)
    SELFWIRE_MODELS  models that agents may ask instead, such as "cheap=openai:gpt-4o-mini,strong=openai:gpt-4.1"
    SELFWIRE_TOOLS   tools that agents may hold, such as "calculator,benchmark:archive,package.module:name"
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph_sdk.runtime import ServerRuntime
from pydantic import BaseModel

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Tool
from selfwire.core.team import Team
from selfwire.graphs.build import MethodFactory
from selfwire.graphs.machine import Compiled, RunContext, RunStart
from selfwire.graphs.method import Method
from selfwire.models.providers import parse_models
from selfwire.tools.own import find_missing_tools

if TYPE_CHECKING:
    from selfwire.store.library import Library

SERVER_KEYS = ("thread_id", "run_id", "graph_id", "assistant_id", "user_id", "checkpoint_")
"""What clients of older servers send among the choices."""


class Current(NamedTuple):
    """The served team, the library and name under which evolved versions are kept, and its reference if saved."""

    workflow: Team
    library: "Library"
    name: str
    ref: str = ""


@dataclass(frozen=True)
class Service:
    """A method as `langgraph dev` serves it.

    Attributes:
        method_type: the method's class; factories of it are kept until the settings change.
    """

    method_type: type[Method[Any]]
    _factories: dict[tuple[str, ...], MethodFactory[Any]] = field(default_factory=dict, repr=False)

    async def graph(self, config: RunnableConfig, runtime: ServerRuntime[Any]) -> Compiled:
        """The graph around the team that the assistant names, or the method's head, or its initial team.

        Every run starts from the drawn team, whatever its thread ran before. A team is drawn even if the server
        lacks its tools; runs are refused then.

        Args:
            config: `configurable["team"]` names a team of the library: name, name@version or fingerprint.
            runtime: of the server; its store is the library where SELFWIRE_HOME has none.

        Raises:
            ConfigError: a setting cannot be used, a run's context has an unknown key, or a run lacks tools.
            LibraryError: there is no such team.
        """
        from selfwire.store.library import Library

        run = runtime.execution_runtime
        factory, own = await asyncio.to_thread(self._load_settings)
        libraries = [*([own] if own else []), Library(runtime.store, "of the server")]
        current = await self._current(config, libraries, factory)
        if run is not None:
            await _refuse_missing_tools(factory, current)
        served = await asyncio.to_thread(_compile, factory, current, runs=run is not None)
        if run is not None:
            _refuse_unknown_choices(run.context, served)
        return served

    async def _current(
        self, config: RunnableConfig, libraries: "Sequence[Library]", factory: MethodFactory[Any]
    ) -> Current:
        from selfwire.store.library import TEAM

        settings, own_name, seeds = config.get("configurable", {}), self.method_type.name, self.method_type.seeds
        wanted = str(settings.get("workflow") or own_name).removeprefix(TEAM)
        name = wanted.partition("@")[0]
        if wanted.endswith(".json"):
            raise ConfigError(f"team {wanted!r}: a server runs saved teams only; import the file first")
        if settings.get("workflow") or not (seeds and settings.get(seeds.setting)):
            for library in libraries:
                if name in await library.names():
                    return Current(await library.load(wanted), library, name, wanted)
        if wanted == own_name:
            named = settings.get(seeds.setting) if seeds else None
            return Current(await asyncio.to_thread(factory.make_seed, named), libraries[0], own_name)
        return Current(await libraries[0].load(wanted), libraries[0], own_name, wanted)

    def _load_settings(self) -> "tuple[MethodFactory[Any], Library | None]":
        """The current settings of the environment; blocks."""
        from selfwire.store.library import LIBRARY_FILE, home_folder

        path = home_folder() / LIBRARY_FILE
        shared = os.environ.get("SELFWIRE_LIBRARY")
        own = _opened(path, shared or path.stat().st_ino) if shared or path.exists() else None
        names = "SELFWIRE_MODEL", "SELFWIRE_MODELS", "SELFWIRE_TOOLS"
        settings = tuple(os.environ.get(name) or "" for name in names)
        if settings not in self._factories:
            model, models, tools = settings
            toolbox = self.method_type.extend_tools(_load_tools(tools))
            self._factories[settings] = MethodFactory(
                self.method_type,
                self.method_type().config,
                model or "offline",
                toolbox=toolbox,
                models=parse_models(models),
            )
        return self._factories[settings], own


def _compile(factory: MethodFactory[Any], current: Current, *, runs: bool) -> Compiled:
    """Compile the graph around the served team, to be run or to be drawn."""
    from selfwire.graphs.version_saver import make_studio_saver

    saved, library, name, _ = current
    factory = replace(factory, config=factory.method_type.fit_config(factory.config, saved))
    team = factory.check(saved) if runs else factory.prepare(saved)

    async def choose(choices: RunContext, thread_team: Team | None) -> Team:
        return factory.refuse_unnamed_models(team, choices)  # the drawn one runs, whatever the thread had

    save = make_studio_saver(library, name, factory.name, factory.embedder_name)
    start = RunStart(team, choose, factory.method_type.choices, save=save)
    return factory.method.serve(start, factory).compile(name=factory.name)


@lru_cache(maxsize=4)
def _opened(path: Path, kept_as: int | str) -> "Library":
    """An open library; a file that replaced it has another inode, and a server another address: it is opened again."""
    from selfwire.store.library import open_library

    return open_library(path.parent)


def _load_tools(setting: str) -> dict[str, Tool]:
    from selfwire.tools.ready import load_tools

    try:
        return load_tools(setting) if setting else {}
    except ConfigError as error:
        raise ConfigError(f"SELFWIRE_TOOLS={setting!r}: {error}") from None


async def _refuse_missing_tools(factory: MethodFactory[Any], current: Current) -> None:
    """Check that the server has the tools of the served team.

    Raises:
        ConfigError: it lacks one; the message has the setting that brings it, if the version or the name tells it.
    """
    from selfwire.tools.ready import FORMS, READY

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


def _refuse_unknown_choices(context: object, served: Compiled) -> None:
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


def make_server(method_type: type[Method[Any]]) -> Callable[[RunnableConfig, ServerRuntime[Any]], Awaitable[Compiled]]:
    """Make the function `graph` of a method's module, which `langgraph dev` calls for every drawing, schema and run."""
    return Service(method_type).graph
