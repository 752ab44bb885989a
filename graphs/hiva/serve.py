"""HiVA for `langgraph dev`; `graphs.serving` says what is drawn, what runs, and where the settings are."""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph_sdk.runtime import ServerRuntime

from selfwire.core.protocols import Toolbox
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.initial_team import METHOD
from selfwire.graphs.hiva.build import HivaWiring
from selfwire.graphs.hiva.method import Hiva
from selfwire.graphs.hiva.state import HivaContext
from selfwire.graphs.hiva.state_graph import HivaNodes, build_state_graph
from selfwire.graphs.serving import Current, Served, Service
from selfwire.graphs.version_saver import make_saver


async def graph(config: RunnableConfig, runtime: ServerRuntime[Any]) -> Served:
    """The machine around the current team; see `Service.graph`."""
    return await SERVICE.graph(config, runtime)


def _wired(model: str, tools: Toolbox) -> HivaWiring:
    return HivaWiring(METHOD, Hiva, HivaConfig(), model, toolbox=tools)


def _compiled(wiring: HivaWiring, current: Current) -> Served:
    saved, library, name = current
    wiring = _roomy(wiring, saved)
    workflow = wiring.check(saved)

    async def begins(context: HivaContext, had: Workflow | None) -> Workflow:
        return workflow

    save = make_saver(library, name, METHOD, wiring.method.embedder.name)
    return build_state_graph(HivaNodes(wiring.method, workflow, begins=begins, save=save), wiring).compile(name=METHOD)


def _roomy(wiring: HivaWiring, workflow: Workflow) -> HivaWiring:
    """The wiring with caps that the workflow has room in: a server has no setting that would raise them."""
    config = wiring.config
    room = {
        "nodes": max(config.nodes, len(workflow.topology.nodes)),
        "successors": max(config.successors, *map(len, workflow.topology.successors.values())),
    }
    return wiring.with_config(config.replace(**room))


SERVICE = Service(METHOD, _wired, _compiled)
