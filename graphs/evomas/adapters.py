"""Who chooses a stage's layers, made from a config and a workflow's weights; torch is imported for a head alone."""

from selfwire.core.errors import ConfigError
from selfwire.core.ports import Embedder
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.choosers import FixedChooser, RandomChooser
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.plans import Chooser
from selfwire.evolvers.evomas.pool import plan_of

ROUTER = "router"
"""Names the trained weights in a workflow's memory."""


class Adapters:
    """Makes choosers, and keeps the heads that it has built."""

    async def chooser(self, workflow: Workflow, config: EvomasConfig, embedder: Embedder) -> Chooser:
        """The chooser that a config names.

        Raises:
            ConfigError: a plan names agents that the pool lacks.
        """
        if config.adapter == "random":
            return RandomChooser(config.sampling)
        if config.adapter == "fixed":
            return FixedChooser(_plan(workflow, config))
        raise ConfigError("no head yet")


def _plan(workflow: Workflow, config: EvomasConfig) -> tuple[tuple[str, ...], ...]:
    plan = config.plan or plan_of(workflow.topology)
    unknown = sorted({one for layer in plan for one in layer} - set(workflow.pool))
    if unknown:
        raise ConfigError(f"the plan names {', '.join(unknown)}; the pool has {', '.join(workflow.pool)}")
    return plan
