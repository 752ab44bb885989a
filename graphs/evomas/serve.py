"""EvoMAS for `langgraph dev`; `graphs.serving` says what is drawn, what runs, and where the settings are.

Trained weights are part of the saved workflow that is served; its head is built off the event loop, once.
"""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph_sdk.runtime import ServerRuntime

from selfwire.core.protocols import Toolbox
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.pool import METHOD
from selfwire.graphs.evomas.build import EvomasWiring, make_evomas_factory
from selfwire.graphs.evomas.state_graph import build_state_graph
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.serving import Current, Served, Service


async def graph(config: RunnableConfig, runtime: ServerRuntime[Any]) -> Served:
    """The machine around the current pool; see `Service.graph`."""
    return await SERVICE.graph(config, runtime)


def _wired(model: str, tools: Toolbox) -> EvomasWiring:
    return make_evomas_factory(EvomasConfig(), model, tools=tools)


def _compiled(wiring: EvomasWiring, current: Current) -> Served:
    return build_state_graph(wiring.config, RunStart(wiring.check(current.workflow)), wiring).compile(name=METHOD)


SERVICE = Service(METHOD, _wired, _compiled)
