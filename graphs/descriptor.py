"""A method, declared once: everything that other rooms need to know of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph_sdk.runtime import ServerRuntime

from selfwire.core.budget import Budget
from selfwire.core.errors import ConfigError
from selfwire.core.pictures import Panel, Picture
from selfwire.core.protocols import Embedder, Model, Tool, Toolbox
from selfwire.core.values import FrozenMap, FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evolvers.trained_router.config import RouterConfig, TrainConfig
from selfwire.graphs.call_estimates import EstimateCalls, estimate_single_run
from selfwire.graphs.configs import parse_config
from selfwire.graphs.method_factory import MethodFactory
from selfwire.graphs.method_graph import Graph
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.run_context import RunContext
from selfwire.graphs.run_start import AnswerGrader, RunStart
from selfwire.graphs.serving import Current, Served, Service
from selfwire.graphs.single_run import build_single_run_graph
from selfwire.graphs.variants import FULL, Variant
from selfwire.graphs.version_saver import make_saver, make_studio_saver
from selfwire.runtime.workflow_library import WorkflowLibrary
from selfwire.tools.langchain import make_toolbox
from selfwire.tools.search import Document, SearchTool, read_documents

MethodT = TypeVar("MethodT", bound=Method)
Config = TypeVar("Config", bound=FrozenModel)

OPTIONS = frozenset({"judge", "grader", "corpus", "embedder"})
"""Arguments of `build` that only some methods use."""

BuildGraph = Callable[[Any, RunStart, MethodFactory[Any, Any]], Graph]
"""Builds a method's state graph, ready to compile, from config, start and what makes the method for a run."""


@dataclass(frozen=True)
class NamedSeeds(Generic[MethodT]):
    """Initial workflows that can be chosen by name.

    Attributes:
        setting: field of the context, and setting of an assistant, that chooses one.
        make: makes the workflow of a name; its agents hold these tools.
    """

    names: tuple[str, ...]
    setting: str
    make: Callable[[MethodT, Sequence[str], str | None], Workflow]


class RouterPlan(NamedTuple):
    """How a trained router draws and learns, and the embedder of the vectors that it reads."""

    config: RouterConfig
    train: TrainConfig
    embedder: Embedder


@dataclass(frozen=True)
class RouterTraining(Generic[MethodT]):
    """How the trained router of a method's teams is trained.

    Attributes:
        plan: how the router of a workflow draws and learns; raises ConfigError where no run would ask it.
        by_chance: the method with a router that draws by chance, to compare with; None if there is none.
        options: config fields that the command's options stand for, by option: those of `paper`, of `process_reward`.
        errands: whether the learning test on errands trains this router.
    """

    plan: Callable[[MethodT, Workflow], RouterPlan]
    config: Mapping[str, Any] = FrozenMap()
    random_control: Callable[[MethodT], Method] | None = None
    options: Mapping[str, Mapping[str, Any]] = FrozenMap()
    errands: bool = False


@dataclass(frozen=True, kw_only=True)
class MethodDescriptor(Generic[MethodT, Config]):
    """One method.

    Attributes:
        name: in the command line, journals and saved workflows.
        make: makes the method from model, tools, embedder and config; usually its class.
        context: class of what can be chosen per run of its graph; a choice with the name of a config field replaces
            that field, unless it is None.
        build_graph: builds its state graph; by default a team that runs once.
        build_options: which of `OPTIONS` its `build` uses.
        variants: its ablations and controls by name; `full` is the method itself.
        evolves: whether variants are evolved before they are measured; False for a method whose team changes only
            within a question.
        fits_held_out: whether it may fit parameters to runs on gate tasks without a gate too.
        one_batch: whether it learns from all train tasks in one iteration; `compare` evolves it so.
        rounds: config field with the most rounds or stages of a question; "" where there is none.
        random_edits: makes the control with random edits, from their kinds in each iteration and texts to draw from.
        router: how its router is trained, if it learns one.
        learns_insights: whether its workflows keep a library of insights.
        format_notes: paragraphs for people on a trajectory's notes, one string each.
        draw_run: the same as a picture, for the page of a run.
        draw_learning: what an iteration taught, from the workflow before and after it and the notes of `evolve`.
        seeds: initial workflows that can be chosen by name.
        extend_tools: adds tools that come with the given ones.
        fit_config: the config with room for a saved team, for a server, which has no setting that would give it.
        departures: numbers of the deviations from it, such as D1-D20.
    """

    name: str
    summary: str
    make: Callable[[Model, Toolbox, Embedder, Config], MethodT]
    config: type[Config]
    context: type[RunContext] = RunContext
    build_graph: BuildGraph = build_single_run_graph
    build_options: frozenset[str] = frozenset({"embedder"})
    estimate_calls: EstimateCalls = estimate_single_run
    variants: Mapping[str, Variant] = field(default_factory=lambda: {FULL: Variant(title=FULL)})
    evolves: bool = True
    fits_held_out: bool = False
    one_batch: bool = False
    rounds: str = ""
    random_edits: Callable[[MethodT, Sequence[Sequence[str]], Sequence[str]], Method] | None = None
    router: RouterTraining[MethodT] | None = None
    learns_insights: bool = False
    format_notes: Callable[[Mapping[str, Any]], Sequence[str]] = lambda notes: ()
    draw_run: Callable[[Mapping[str, Any]], Picture] = lambda notes: Picture()
    draw_learning: Callable[[Workflow, Workflow, Mapping[str, Any]], Sequence[Panel]] = lambda before, after, notes: ()
    seeds: NamedSeeds[MethodT] | None = None
    extend_tools: Callable[[Toolbox], Toolbox] = lambda tools: tools
    fit_config: Callable[[Config, Workflow], Config] = lambda config, workflow: config
    paper: str = ""
    departures: str = ""

    def __post_init__(self) -> None:
        if FULL not in self.variants or not self.build_options <= OPTIONS:
            raise ConfigError(
                f"method {self.name}: variants need {FULL!r}, and build_options are of {', '.join(sorted(OPTIONS))}"
            )
        if not (issubclass(self.config, FrozenModel) and issubclass(self.context, RunContext)):
            raise ConfigError(f"method {self.name}: config is a subclass of FrozenModel, context one of RunContext")
        if needed := [name for name, one in self.config.model_fields.items() if one.is_required()]:
            raise ConfigError(f"method {self.name}: its config needs defaults for {', '.join(needed)}")
        if self.rounds and self.rounds not in self.config.model_fields:
            raise ConfigError(f"method {self.name}: rounds names no field of its config: {self.rounds}")
        for name, variant in self.variants.items():
            parse_config(f"{self.name}'s variant {name}", self.config, variant.config)

    def build(
        self,
        model: str | BaseChatModel = "offline",
        *,
        meta: str | BaseChatModel | None = None,
        judge: str | BaseChatModel | None = None,
        tools: Sequence[BaseTool | Tool] = (),
        corpus: str | Path | Sequence[Document] = (),
        initial: Workflow | str | Path | None = None,
        name: str | None = None,
        library: WorkflowLibrary | None = None,
        config: Config | None = None,
        grader: AnswerGrader | None = None,
        budget: Budget = Budget(),
        embedder: str | Embedder | None = None,
    ) -> Graph:
        """The method as a graph: `build(...).compile(checkpointer=...).invoke({"question": "..."})["answer"]`.

        Args:
            model: plays the agents; a name as for `make_chat_model`, or a ready model.
            judge: judges answers, where the method asks a judge; by default `meta`.
            tools: held by the agents of the initial workflow; those of other teams may hold them.
            corpus: documents for a local search, or a JSONL file of them with title and text.
            initial: the workflow to start from: a workflow, the name of an initial one, a reference in the library or
                the path of an exported one. By default the head of `name` in the library, else the method's own.
            name: of saved workflows in the library; by default the method's.
            library: where runs may choose a saved workflow, and where workflows that a run evolves are kept.
            config: of the method; by default as in the paper, see its class.
            grader: `await grader(question, answer, scope)` grades an answer, for methods that learn from a question.
            embedder: compares by meaning: auto (MiniLM if its weights are on this machine), minilm, hashing, or a
                ready one. Beside the offline model `auto` is hashing.

        Raises:
            ConfigError: a model, a tool, the workflow or an option cannot be used.
            LibraryError: the workflow is not found or corrupt.
        """
        given = {"judge": judge, "grader": grader, "corpus": corpus or None, "embedder": embedder}
        if idle := [
            option for option, value in given.items() if value is not None and option not in self.build_options
        ]:
            raise ConfigError(f"{self.name} does not use {', '.join(idle)}; leave it out")
        documents = read_documents(Path(corpus)) if isinstance(corpus, str | Path) else tuple(corpus)
        local = [SearchTool(documents)] if documents else []
        config = self.config() if config is None else config
        factory = self.make_factory(config, model, meta, judge, make_toolbox([*tools, *local]), budget, embedder)
        start = factory.start(self._resolve_seed(factory, initial, library), name or self.name, library)

        async def choose(context: RunContext, thread_workflow: Workflow | None) -> Workflow:
            if saved := await factory.load_workflow(context, library):
                return saved
            if self.seeds and (wanted := getattr(context, self.seeds.setting)):
                return factory.check(self.seeds.make(factory.method, tuple(factory.toolbox), wanted))
            return factory.check(thread_workflow) if thread_workflow else start

        save = make_saver(library, name or self.name, self.name, factory.embedder_name) if library else None
        return self.build_graph(config, RunStart(start, choose, self.context, grader=grader, save=save), factory)

    async def graph(self, config: RunnableConfig, runtime: ServerRuntime[Any]) -> Served:
        """The graph around the current workflow, for `langgraph dev`; see `Service.graph`."""
        return await self.service.graph(config, runtime)

    @cached_property
    def service(self) -> Service[MethodT, Config]:
        """The method as `langgraph dev` serves it."""
        return Service(
            self.name,
            lambda model, tools: self.make_factory(self.config(), model, tools=tools),
            self._compile_served,
            self._make_served_seed,
            frozenset({self.seeds.setting} if self.seeds else ()),
        )

    def make_factory(
        self,
        config: Config,
        model: str | BaseChatModel,
        meta: str | BaseChatModel | None = None,
        judge: str | BaseChatModel | None = None,
        tools: Toolbox = FrozenMap(),
        budget: Budget = Budget(),
        embedder: str | Embedder | None = None,
    ) -> MethodFactory[MethodT, Config]:
        """Makes the method for each run; without a use for embeddings it loads no embedder."""
        embeds = embedder or ("auto" if "embedder" in self.build_options else "hashing")
        toolbox = self.extend_tools(tools)
        return MethodFactory(self.name, self.make, config, model, meta, judge, toolbox, budget, embeds)

    def _compile_served(self, factory: MethodFactory[MethodT, Config], current: Current, runs: bool) -> Served:
        saved, library, name, _ = current
        factory = replace(factory, config=self.fit_config(factory.config, saved))
        workflow = factory.check(saved) if runs else factory.prepare(saved)

        async def choose(context: RunContext, thread_workflow: Workflow | None) -> Workflow:
            return workflow  # the drawn one runs, whatever the thread had

        save = make_studio_saver(library, name, self.name, factory.embedder_name)
        start = RunStart(workflow, choose, self.context, save=save)
        return self.build_graph(factory.config, start, factory).compile(name=self.name)

    def _make_served_seed(self, factory: MethodFactory[MethodT, Config], config: RunnableConfig) -> Workflow:
        tools = tuple(factory.toolbox)
        if self.seeds is None:
            return factory.method.make_initial_workflow(tools)
        return self.seeds.make(factory.method, tools, config.get("configurable", {}).get(self.seeds.setting))

    def _resolve_seed(
        self,
        factory: MethodFactory[MethodT, Config],
        initial: Workflow | str | Path | None,
        library: WorkflowLibrary | None,
    ) -> Workflow | str | Path | None:
        """The workflow of a name among `seeds`; without a library every name but a file's is one of those."""
        if self.seeds is None or not isinstance(initial, str):
            return initial
        if initial in self.seeds.names or (library is None and not initial.endswith(".json")):
            return self.seeds.make(factory.method, tuple(factory.toolbox), initial)
        return initial
