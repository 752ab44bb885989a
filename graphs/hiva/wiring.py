"""Models, tools and embedder of a graph that people use: the method is wired anew for every run's choices."""

import asyncio
from dataclasses import dataclass, field, replace

from langchain_core.language_models import BaseChatModel

from selfwire.core.errors import ConfigError
from selfwire.core.ports import Embedder, Toolbox
from selfwire.core.usage import Budget, Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.seed import METHOD
from selfwire.graphs.hiva.method import Hiva
from selfwire.graphs.hiva.state import HivaContext
from selfwire.runtime.budget import Ledger
from selfwire.runtime.embeddings import embedder as named_embedder
from selfwire.runtime.metered import MeteredModel
from selfwire.runtime.models import chat_model, identity
from selfwire.runtime.unrecorded import Unrecorded


@dataclass(frozen=True)
class Wiring:
    """What a graph is built with; awaiting it wires the method for one run.

    Nothing is recorded and so nothing is replayed: a question that is put twice is answered twice.

    Attributes:
        model: plays the role agent, unless a run chooses another.
        meta: plays the role meta; None leaves it to the agents' model.
        toolbox: tools by the name that agents hold.
        config: the method's knobs.
        budget: what one question may cost at most.
        embedder: of concepts and agents; a name as for `runtime.embeddings.embedder`, or a ready one. Beside the
            offline model `auto` is hashing.

    Raises:
        ConfigError: a model cannot be used, or has no price where the budget is in dollars.
    """

    model: str | BaseChatModel
    meta: str | BaseChatModel | None
    toolbox: Toolbox
    config: HivaConfig = field(default_factory=HivaConfig)
    budget: Budget = field(default_factory=Budget)
    embedder: str | Embedder = "auto"
    _made: dict[str, tuple[MeteredModel, Embedder]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self._made:
            self._made[""] = self._players(self.model)

    def holding(self, tools: Toolbox) -> "Wiring":
        """The same models with more tools."""
        return replace(self, toolbox={**self.toolbox, **tools})

    @property
    def hiva(self) -> Hiva:
        """The method with the models that the graph was built with, and no limit on what it spends."""
        model, embeds = self._made[""]
        return Hiva(model, self.toolbox, embeds, self.config)

    async def __call__(self, context: HivaContext, spent: Usage) -> tuple[Hiva, Ledger]:
        """The method as a run has chosen it, and the ledger that pays for it.

        Raises:
            ConfigError: the chosen model cannot be used.
        """
        ledger = Ledger(_tighter(self.budget, context), spent=spent, elapsed=spent.seconds)
        name = context.model or ""
        if name not in self._made:
            self._made[name] = await asyncio.to_thread(self._players, name)
        model, embeds = self._made[name]
        return Hiva(model.paid_by(ledger), self.toolbox, embeds, self.config), ledger

    def check(self, workflow: Workflow) -> Workflow:
        """The workflow as it can run here: with the config's caps, and without tools in "w/o Tool".

        Raises:
            ConfigError: it belongs to another method, is larger than the caps, or its agents hold tools that are
                not here.
        """
        if workflow.method != METHOD:
            raise ConfigError(f"workflow {workflow.fingerprint} belongs to {workflow.method!r}, not to {METHOD!r}")
        workflow = self.hiva.adopted(workflow)
        held = {tool for agent in workflow.agents for tool in agent.tools}
        if missing := sorted(held - set(self.toolbox)):
            there = ", ".join(sorted(self.toolbox)) or "none"
            raise ConfigError(
                f"the team's agents hold {', '.join(missing)}, and the tools that are given are {there}; "
                "pass the missing ones in tools"
            )
        return workflow

    def _players(self, agent: str | BaseChatModel) -> tuple[MeteredModel, Embedder]:
        model = chat_model(agent)
        models = {"agent": model, "meta": chat_model(self.meta) if self.meta else model}
        offline = all(identity(one).provider == "offline" for one in models.values())
        embeds = self._embedder("hashing" if offline and self.embedder == "auto" else self.embedder)
        ledger = Ledger(self.budget)  # refuses dollars without a price before anything runs
        return MeteredModel(models, journal=Unrecorded(), ledger=ledger, labels={"method": METHOD}), embeds

    def _embedder(self, chosen: str | Embedder) -> Embedder:
        return named_embedder(chosen)[0] if isinstance(chosen, str) else chosen


def _tighter(budget: Budget, context: HivaContext) -> Budget:
    def least(*limits: int | None) -> int | None:
        return min((limit for limit in limits if limit is not None), default=None)

    return budget.replace(calls=least(budget.calls, context.calls), tokens=least(budget.tokens, context.tokens))
