"""Models, tools and embedder of a graph that people use; every run makes a new method from its choices."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from langchain_core.language_models import BaseChatModel

from selfwire.core.budget import Budget
from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenMap, FrozenModel, is_id
from selfwire.core.workflow import Workflow
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.own_tools import refuse_missing_tools, refuse_unusable_tools
from selfwire.graphs.run_context import RunContext
from selfwire.runtime.embeddings import load_embedder
from selfwire.runtime.exports import read_workflow
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.metered import MeteredModel
from selfwire.runtime.models import get_identity, make_chat_model
from selfwire.runtime.recorder import NullRecorder
from selfwire.runtime.sync import run_sync
from selfwire.runtime.workflow_library import WorkflowLibrary

MethodT = TypeVar("MethodT", bound=Method)
Config = TypeVar("Config", bound=FrozenModel)


@dataclass(frozen=True)
class MethodFactory(Generic[MethodT, Config]):
    """What a graph is built with; calling it makes the method for one run.

    Nothing is recorded, so nothing is replayed: a repeated question is answered again.

    Attributes:
        meta: plays the role meta; None leaves it to the agents' model.
        judge: plays the role judge; None leaves it to the meta-model.
        embedder: a name as for `runtime.embeddings.load_embedder`, or a ready one. Beside the offline model `auto` is
            hashing.

    Raises:
        ConfigError: a model cannot be used, or has no price where the budget is in dollars.
    """

    name: str
    make: Callable[[Model, Toolbox, Embedder, Config], MethodT]
    config: Config
    model: str | BaseChatModel = "offline"
    meta: str | BaseChatModel | None = None
    judge: str | BaseChatModel | None = None
    toolbox: Toolbox = field(default_factory=FrozenMap)
    budget: Budget = field(default_factory=Budget)
    embedder: str | Embedder = "auto"
    _made: dict[str, tuple[MeteredModel, Embedder]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self._made:
            self._made[""] = self._load_models(self.model)
            self.method.make_initial_workflow()  # reads the method's prompts now and not on an event loop

    @property
    def method(self) -> MethodT:
        """The method with the models that the graph was built with, and without limits."""
        model, embeds = self._made[""]
        return self.make(model, self.toolbox, embeds, self.config)

    @property
    def embedder_name(self) -> str:
        """Name of the embedder that the graph was built with."""
        return self._made[""][1].name

    async def __call__(self, context: RunContext, spent: Usage) -> tuple[MethodT, Ledger]:
        """The method with a run's choices, and the ledger that pays for it.

        Raises:
            ConfigError: the chosen model cannot be used.
        """
        ledger = Ledger(_tighter(self.budget, context), spent=spent, elapsed=spent.seconds)
        name = context.model or ""
        if name not in self._made:
            self._made[name] = await asyncio.to_thread(self._load_models, name)
        model, embeds = self._made[name]
        shared = (
            type(context).model_fields.keys() & type(self.config).model_fields.keys() - RunContext.model_fields.keys()
        )
        chosen = {name: value for name in shared if (value := getattr(context, name)) is not None}
        config = self.config.replace(**chosen) if chosen else self.config
        return self.make(model.with_ledger(ledger), self.toolbox, embeds, config), ledger

    def prepare(self, workflow: Workflow) -> Workflow:
        """The workflow as the method draws it.

        Raises:
            ConfigError: it belongs to another method, or the config does not allow it.
        """
        if workflow.method != self.name:
            raise ConfigError(f"workflow {workflow.fingerprint} belongs to {workflow.method!r}, not to {self.name!r}")
        return self.method.prepare_workflow(workflow)

    def check(self, workflow: Workflow) -> Workflow:
        """The workflow as the method can run it.

        Raises:
            ConfigError: as `prepare`; or its agents hold tools that are not given, or its own cannot be called here.
        """
        workflow = self.prepare(workflow)
        refuse_unusable_tools(workflow, self.toolbox)
        refuse_missing_tools(workflow, self.toolbox)
        return workflow

    def start(self, seed: Workflow | str | Path | None, name: str, library: WorkflowLibrary | None) -> Workflow:
        """The workflow that a graph starts from.

        Args:
            seed: the workflow itself, a reference in the library or the path of an exported one; None takes the
                head of `name` in the library, else the method's seed with all tools.

        Raises:
            ConfigError: a name or the seed cannot be used.
            LibraryError: the seed is not found or corrupt.
        """
        if not is_id(name):
            raise ConfigError(f"name {name!r}: workflows are called by up to 64 letters, digits, _ and -")
        return self.check(run_sync(self._start(seed, name, library)))

    async def _start(self, seed: Workflow | str | Path | None, name: str, library: WorkflowLibrary | None) -> Workflow:
        if isinstance(seed, Workflow):
            return seed
        if seed is not None and str(seed).endswith(".json"):
            return await asyncio.to_thread(read_workflow, Path(seed))
        if seed is None and (library is None or name not in await library.names()):
            return self.method.make_initial_workflow(tuple(self.toolbox))
        if library is None:
            raise ConfigError(f"seed {str(seed)!r} cannot be looked up: pass its library, a workflow or a .json file")
        return await library.load(str(seed or name))

    async def load_workflow(self, context: RunContext, library: WorkflowLibrary | None) -> Workflow | None:
        """The saved workflow that a run chose; None if it chose none.

        Raises:
            ConfigError: there is no library, or the workflow cannot be run here.
            LibraryError: there is no such workflow.
        """
        if context.workflow is None:
            return None
        if library is None:
            raise ConfigError(f"workflow {context.workflow!r} cannot be looked up: the graph was built without library")
        return self.check(await library.load(context.workflow))

    def _load_models(self, agent: str | BaseChatModel) -> tuple[MeteredModel, Embedder]:
        player = make_chat_model(agent)
        meta = make_chat_model(self.meta) if self.meta else player
        models = {"agent": player, "meta": meta, "judge": make_chat_model(self.judge) if self.judge else meta}
        embeds = load_embedder_beside(self.embedder, *models.values())
        ledger = Ledger(self.budget)  # refuses dollars without a price before anything runs
        return MeteredModel(models, journal=NullRecorder(), ledger=ledger, labels={"method": self.name}), embeds


def load_embedder_beside(embedder: str | Embedder, *models: BaseChatModel) -> Embedder:
    """A ready embedder, or one by name as for `load_embedder`; beside offline models alone `auto` is hashing.

    Raises:
        ConfigError: there is no such embedder.
    """
    if not isinstance(embedder, str):
        return embedder
    offline = bool(models) and all(get_identity(one).provider == "offline" for one in models)
    return load_embedder("hashing" if offline and embedder == "auto" else embedder)[0]


def _tighter(budget: Budget, context: RunContext) -> Budget:
    def least(*limits: int | None) -> int | None:
        return min((limit for limit in limits if limit is not None), default=None)

    return budget.replace(calls=least(budget.calls, context.calls), tokens=least(budget.tokens, context.tokens))
