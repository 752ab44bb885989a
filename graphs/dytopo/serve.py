"""DyTopo for `langgraph dev`: a factory that draws and runs a domain's team.

Settings come from the environment and the assistant:

    SELFWIRE_MODEL                  chat model of the workers and the manager (offline)
    configurable["domain"]          general, code or math
"""

import asyncio
import os
from functools import lru_cache

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from selfwire.evolvers.dytopo.domain import MEMORY
from selfwire.graphs.dytopo.build import build
from selfwire.graphs.dytopo.state import DytopoContext, DytopoInput, DytopoState

Served = CompiledStateGraph[DytopoState, DytopoContext, DytopoInput, DytopoState]


async def graph(config: RunnableConfig) -> Served:
    """The machine around the team of the domain that the assistant names, else around the general one.

    Args:
        config: `configurable["domain"]` names the domain.

    Raises:
        ConfigError: the model or the domain cannot be used.
    """
    domain = str(config.get("configurable", {}).get("domain") or "general")
    return await asyncio.to_thread(_served, os.environ.get("SELFWIRE_MODEL") or "offline", domain)


@lru_cache(maxsize=8)
def _served(model: str, domain: str) -> Served:
    return build(model, seed=domain).compile(name=MEMORY)
