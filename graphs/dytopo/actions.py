"""What the nodes of DyTopo's graph do with models, tools and an embedder. It never receives a task."""

from dataclasses import dataclass, field
from functools import cached_property

from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MEMORY
from selfwire.evolvers.dytopo.team import Team
from selfwire.graphs.prompts import load_prompts


@dataclass(frozen=True)
class DytopoActions:
    """DyTopo wired to models, tools and an embedder.

    Attributes:
        model: plays the roles agent (workers) and meta (manager).
    """

    model: Model
    toolbox: Toolbox
    embedder: Embedder
    config: DytopoConfig = field(default_factory=DytopoConfig)

    @cached_property
    def team(self) -> Team:
        """The models with DyTopo's prompts."""
        return Team(self.model, load_prompts("evolvers", MEMORY), self.toolbox, self.config)
