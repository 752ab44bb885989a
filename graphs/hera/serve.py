"""HERA for `langgraph dev`; `graphs.serving` says what is drawn, what runs, and where the settings are."""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph_sdk.runtime import ServerRuntime

from selfwire.core.protocols import Toolbox
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.initial_team import METHOD
from selfwire.graphs.hera.build import HeraWiring
from selfwire.graphs.hera.method import Hera
from selfwire.graphs.hera.state import HeraContext
from selfwire.graphs.hera.state_graph import HeraNodes, build_state_graph
from selfwire.graphs.serving import Current, Served, Service


async def graph(config: RunnableConfig, runtime: ServerRuntime[Any]) -> Served:
    """The machine around the current pool and library; see `Service.graph`."""
    return await SERVICE.graph(config, runtime)


def _wired(model: str, tools: Toolbox) -> HeraWiring:
    return HeraWiring(METHOD, Hera, HeraConfig(), model, toolbox=tools)


def _compiled(wiring: HeraWiring, current: Current) -> Served:
    workflow = wiring.check(current.workflow)

    async def begins(context: HeraContext, had: Workflow | None) -> Workflow:
        return workflow

    return build_state_graph(HeraNodes(wiring.method, workflow, begins=begins), wiring).compile(name=METHOD)


SERVICE = Service(METHOD, _wired, _compiled)
