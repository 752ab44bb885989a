"""The router in a workflow's memory: weights, sampling and head; torch is imported when a head is built."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import ValidationError

from selfwire.core.errors import ConfigError, format_first_fault, refuse_missing
from selfwire.core.protocols import Embedder
from selfwire.core.team import Workflow
from selfwire.core.values import to_plain_json
from selfwire.evolvers.router.config import ROUTER, HeadConfig, RouterConfig, SamplingConfig
from selfwire.evolvers.router.weights import (
    Weights,
    WeightsMetadata,
    make_router_entry,
    refuse_other_pool,
    unpack_weights,
)
from selfwire.store.files import get_blob, put_blob

if TYPE_CHECKING:
    from selfwire.evolvers.router.head import RoutingHead


class Heads:
    """At most eight routing heads by their weights; the oldest is dropped first."""

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str], tuple[WeightsMetadata | None, RoutingHead]] = {}

    async def head(
        self,
        workflow: Workflow,
        config: HeadConfig,
        embedder: Embedder,
        *,
        trained: bool = True,
        transfer: bool = False,
    ) -> "RoutingHead":
        """The head of a workflow, built once per weights, in a thread.

        Args:
            config: of an untrained head.
            trained: off ignores the weights.
            transfer: whether weights of another pool may be used.

        Raises:
            ConfigError, LibraryError: the weights cannot be used or have not been loaded.
        """
        entry = workflow.memory.get(ROUTER) if trained else None
        key = (str(entry), f"{embedder.name} {config!r}")
        found = self._heads.get(key)
        if found is None:
            dimensions = (await embedder.embed(["task"])).shape[1]
            found = self._heads[key] = await asyncio.to_thread(_build_head, workflow, dimensions, config, trained)
            for oldest in list(self._heads)[:-8]:
                self._heads.pop(oldest, None)  # another thread may have removed it
        card, head = found
        if card is not None:
            refuse_other_pool(card, workflow.agents, embedder.name, transfer=transfer)
        return head


HEADS = Heads()
"""The heads of this process."""


def get_sampling(workflow: Workflow, config: RouterConfig) -> SamplingConfig:
    """The sampling of the config; where it is the default, that of the router's training.

    Raises:
        ConfigError: the router's entry in the workflow's memory cannot be read.
    """
    entry = workflow.memory.get(ROUTER)
    if not config.learned or config.sampling != SamplingConfig() or not isinstance(entry, Mapping):
        return config.sampling
    try:
        return SamplingConfig.model_validate(to_plain_json(entry.get("sampling", {})))
    except ValidationError as error:
        why = format_first_fault(error)
        raise ConfigError(f"the router of workflow {workflow.fingerprint} has an unreadable sampling: {why}") from None


def load_weights(workflow: Workflow) -> Weights | None:
    """The weights that a workflow's memory refers to; None without any.

    Raises:
        ConfigError, LibraryError: they are corrupt or have not been loaded.
    """
    entry = workflow.memory.get(ROUTER)
    if entry is None:
        return None
    reference = entry.get("weights") if isinstance(entry, Mapping) else None
    if not isinstance(reference, str):
        raise ConfigError(f"workflow {workflow.fingerprint} has a router without weights: {entry!r:.80}; train again")
    return unpack_weights(get_blob(reference), f"{reference[:19]}... of workflow {workflow.fingerprint}")


def refuse_unusable(workflow: Workflow, config: RouterConfig, embedder: str) -> None:
    """Check that a pool's weights, if it has any and runs will use them, can route it; imports no torch.

    Raises:
        ConfigError, LibraryError: torch is not installed, or the weights are corrupt, of another pool or embedder, or
            have not been loaded.
    """
    if not config.learned:
        return
    refuse_missing("torch", "the trained router")
    weights = load_weights(workflow)
    if weights is not None:
        refuse_other_pool(weights.card, workflow.agents, embedder, transfer=config.transfer)


def with_weights(workflow: Workflow, weights: Weights) -> Workflow:
    """The workflow with these weights; this process keeps their bytes until it is saved."""
    return workflow.with_memory(**{ROUTER: make_router_entry(weights.card, put_blob(weights.packed))})


def _build_head(
    workflow: Workflow, dimensions: int, config: HeadConfig, trained: bool
) -> tuple[WeightsMetadata | None, "RoutingHead"]:
    from selfwire.evolvers.router.head import RoutingHead

    weights = load_weights(workflow) if trained else None
    return (weights.card, weights.make_head()) if weights else (None, RoutingHead(dimensions, config))
