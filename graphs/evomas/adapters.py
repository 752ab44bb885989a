"""Who chooses a stage's layers, made from a config and a workflow's weights; torch is imported for a head alone."""

import asyncio
from typing import TYPE_CHECKING

from selfwire.core.errors import ConfigError
from selfwire.core.ports import Embedder
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.choosers import FixedChooser, LearnedChooser, RandomChooser
from selfwire.evolvers.evomas.config import EvomasConfig, HeadConfig
from selfwire.evolvers.evomas.plans import Chooser
from selfwire.evolvers.evomas.pool import plan_of

if TYPE_CHECKING:
    from selfwire.evolvers.evomas.head import RoutingHead

ROUTER = "router"
"""Names the trained weights in a workflow's memory."""
HEADS = 8
"""How many heads are kept; the oldest goes first."""


class Adapters:
    """Makes choosers, and keeps the heads that it has built."""

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str], RoutingHead] = {}

    async def chooser(self, workflow: Workflow, config: EvomasConfig, embedder: Embedder) -> Chooser:
        """The chooser that a config names; a head is built once, in a thread.

        Args:
            workflow: the pool, with weights in its memory if it was trained.
            config: the knobs.
            embedder: of states and agents.

        Raises:
            ConfigError: a plan names agents that the pool lacks, or the weights cannot be used.
        """
        if config.adapter == "random":
            return RandomChooser(config.sampling)
        if config.adapter == "fixed":
            return FixedChooser(_plan(workflow, config))
        key = (workflow.fingerprint, f"{config.adapter} {embedder.name} {config.head!r}")
        if key not in self._heads:
            dimensions = (await embedder.embed(["task"])).shape[1]
            made = await asyncio.to_thread(_untrained, dimensions, config.head)
            self._heads[key] = made
            for oldest in list(self._heads)[:-HEADS]:
                del self._heads[oldest]
        return LearnedChooser(self._heads[key], config.sampling, embedder)


def _untrained(dimensions: int, config: HeadConfig) -> "RoutingHead":
    from selfwire.evolvers.evomas.head import RoutingHead

    return RoutingHead(dimensions, config)


def _plan(workflow: Workflow, config: EvomasConfig) -> tuple[tuple[str, ...], ...]:
    plan = config.plan or plan_of(workflow.topology)
    unknown = sorted({one for layer in plan for one in layer} - set(workflow.pool))
    if unknown:
        raise ConfigError(f"the plan names {', '.join(unknown)}; the pool has {', '.join(workflow.pool)}")
    return plan
