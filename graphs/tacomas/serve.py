"""TacoMAS for `langgraph dev`; `graphs.serving` says what is drawn, what runs, and where the settings are."""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph_sdk.runtime import ServerRuntime

from selfwire.core.protocols import Toolbox
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.initial_team import METHOD
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.serving import Current, Served, Service
from selfwire.graphs.tacomas.build import TacomasWiring, make_tacomas_factory
from selfwire.graphs.tacomas.state_graph import build_state_graph


async def graph(config: RunnableConfig, runtime: ServerRuntime[Any]) -> Served:
    """The machine around the current team; see `Service.graph`."""
    return await SERVICE.graph(config, runtime)


def _wired(model: str, tools: Toolbox) -> TacomasWiring:
    return make_tacomas_factory(TacomasConfig(), model, tools=tools)


def _compiled(wiring: TacomasWiring, current: Current) -> Served:
    return build_state_graph(wiring.config, RunStart(wiring.check(current.workflow)), wiring).compile(name=METHOD)


SERVICE = Service(METHOD, _wired, _compiled)
