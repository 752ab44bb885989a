"""Makes the chooser of a stage's layers that a config names; torch is imported for a routing head alone."""

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.pool import to_layers
from selfwire.evolvers.trained_router.choosers import FixedChooser, LearnedChooser, RandomChooser
from selfwire.evolvers.trained_router.decisions import Chooser
from selfwire.graphs.trained_router.heads import HEADS, get_sampling


async def make_chooser(workflow: Workflow, config: EvomasConfig, embedder: Embedder) -> Chooser:
    """The chooser that a config names; a head is built once per weights, off the event loop.

    Raises:
        ConfigError: a plan names agents that the pool lacks, or the weights cannot be used.
        LibraryError: the weights' bytes have not been loaded.
    """
    if config.adapter == "random":
        return RandomChooser(config.sampling)
    if config.adapter == "fixed":
        plan = config.plan or to_layers(workflow.topology)
        if unknown := sorted({agent for layer in plan for agent in layer} - set(workflow.agents_by_id)):
            raise ConfigError(f"the plan names {', '.join(unknown)}; the pool has {', '.join(workflow.agents_by_id)}")
        return FixedChooser(plan)
    trained = config.adapter == "learned"
    head = await HEADS.head(workflow, config.head, embedder, trained=trained, transfer=config.transfer)
    return LearnedChooser(head, get_sampling(workflow, config.routing), embedder)
