"""Who chooses a stage's layers, made from a config and a workflow's weights; torch is imported for a head alone."""

from typing import TYPE_CHECKING

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.pool import to_layers
from selfwire.evolvers.trained_router.choosers import FixedChooser, LearnedChooser, RandomChooser
from selfwire.evolvers.trained_router.decisions import Chooser
from selfwire.graphs.trained_router.heads import Heads, get_sampling

if TYPE_CHECKING:
    pass


class ChooserFactory:
    """Makes choosers, and keeps the heads that it has built."""

    def __init__(self) -> None:
        self.heads = Heads()

    async def chooser(self, workflow: Workflow, config: EvomasConfig, embedder: Embedder) -> Chooser:
        """The chooser that a config names.

        Args:
            workflow: the pool, with weights in its memory if it was trained.
            config: the knobs.
            embedder: of states and agents.

        Raises:
            ConfigError: a plan names agents that the pool lacks, or the weights cannot be used.
            LibraryError: the weights' bytes have not been loaded.
        """
        if config.adapter == "random":
            return RandomChooser(config.sampling)
        if config.adapter == "fixed":
            return FixedChooser(_plan(workflow, config))
        trained = config.adapter == "learned"
        head = await self.heads.head(workflow, config.head, embedder, trained=trained, transfer=config.transfer)
        return LearnedChooser(head, get_sampling(workflow, config.routing), embedder)


def _plan(workflow: Workflow, config: EvomasConfig) -> tuple[tuple[str, ...], ...]:
    plan = config.plan or to_layers(workflow.topology)
    unknown = sorted({one for layer in plan for one in layer} - set(workflow.agents_by_id))
    if unknown:
        raise ConfigError(f"the plan names {', '.join(unknown)}; the pool has {', '.join(workflow.agents_by_id)}")
    return plan
