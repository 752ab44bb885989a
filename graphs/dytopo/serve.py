"""DyTopo for `langgraph dev`; `graphs.serving` says what is drawn, what runs, and where the settings are.

An assistant may choose a domain, `configurable["domain"]` (general, code or math), instead of a saved workflow.
"""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph_sdk.runtime import ServerRuntime

from selfwire.core.protocols import Toolbox
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MEMORY
from selfwire.graphs.dytopo.build import DytopoWiring
from selfwire.graphs.dytopo.method import Dytopo
from selfwire.graphs.dytopo.state_graph import build_state_graph
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.serving import Current, Served, Service


async def graph(config: RunnableConfig, runtime: ServerRuntime[Any]) -> Served:
    """The machine around the current team; see `Service.graph`."""
    return await SERVICE.graph(config, runtime)


def _wired(model: str, tools: Toolbox) -> DytopoWiring:
    return DytopoWiring(MEMORY, Dytopo, DytopoConfig(), model, toolbox=tools)


def _seed(wiring: DytopoWiring, config: RunnableConfig) -> Workflow:
    return wiring.method.make_initial_workflow(tuple(wiring.toolbox), config.get("configurable", {}).get("domain"))


def _compiled(wiring: DytopoWiring, current: Current) -> Served:
    return build_state_graph(wiring.config, RunStart(wiring.check(current.workflow)), wiring).compile(name=MEMORY)


SERVICE = Service(MEMORY, _wired, _compiled, _seed, frozenset({"domain"}))
