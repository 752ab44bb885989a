"""Graphs of a method that people run: built from models, tools and a team, compiled, or served by `langgraph dev`.

Every run makes the context of its own choices. Saved teams, files and searches are imported where a graph uses them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.types import Checkpointer

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import is_graph
from selfwire.core.protocols import Embedder, Tool, Toolbox
from selfwire.core.team import Team
from selfwire.core.usage import Budget, Usage
from selfwire.core.values import FrozenMap, FrozenModel, is_id
from selfwire.graphs.machine import AnswerGrader, Compiled, Ctx, Graph, RunContext, RunStart
from selfwire.graphs.method import Method, add_method, find_method, make_method
from selfwire.models.budget import Ledger, parse_budget
from selfwire.models.embeddings import load_embedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import get_identity, make_chat_model, parse_models
from selfwire.models.sync import run_sync
from selfwire.store.journal import NullRecorder
from selfwire.tools.own import refuse_missing_tools

if TYPE_CHECKING:
    from selfwire.store.library import Library
    from selfwire.tools.search import Document

Config = TypeVar("Config", bound=FrozenModel)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MethodFactory(Generic[Config]):
    """A method's class with the models, tools and config of a graph; it makes the context of every run.

    Nothing is recorded, so nothing is replayed: a repeated question is answered again. Without a use for embeddings no
    embedder is loaded.

    Attributes:
        meta: plays the role meta; None leaves it to the agents' model.
        judge: plays the role judge; None leaves it to the meta-model.
        embedder: a name as for `models.embeddings.load_embedder`, or a ready one. Beside the offline model `auto`
            is hashing.
        models: that agents may ask instead, by the names that `Agent.model` has for them.

    Raises:
        ConfigError: a model cannot be used, or has no price where the budget is in dollars.
    """

    method_type: type[Method[Config]]
    config: Config
    model: str | BaseChatModel = "offline"
    meta: str | BaseChatModel | None = None
    judge: str | BaseChatModel | None = None
    toolbox: Toolbox = field(default_factory=FrozenMap)
    budget: Budget = field(default_factory=Budget)
    embedder: str | Embedder | None = None
    models: Mapping[str, str | BaseChatModel] = field(default_factory=FrozenMap)
    _made: dict[tuple[str, str], tuple[MeteredModel, Embedder]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self._made:
            self._made["", ""] = self._load_models(self.model, self.models)
            self.make_seed()  # reads the method's prompts now and not on an event loop

    @property
    def name(self) -> str:
        """The method's name."""
        return self.method_type.name

    @property
    def method(self) -> Method[Config]:
        """The method with the graph's config."""
        return self.method_type(self.config)

    @property
    def embedder_name(self) -> str:
        """Name of the embedder that the graph was built with."""
        return self._made["", ""][1].name

    def make_seed(self, name: str | None = None) -> Team:
        """Make the initial team, with all tools; of a name, where the method has named ones."""
        tools = tuple(self.toolbox)
        return self.method.make_seed(tools, toolbox=tools, named=name)

    async def open(self, start: RunStart, choices: RunContext, spent: Usage) -> Ctx[Config]:
        """Make the context of a run with a user's choices; its budget pays for the run.

        Raises:
            ConfigError: a chosen model cannot be used.
        """
        ledger = Ledger(_tighter(self.budget, choices), spent=spent, elapsed=spent.seconds)
        chosen = choices.model or "", choices.models or ""
        if chosen not in self._made:
            models = {**self.models, **parse_models(chosen[1])}
            self._made[chosen] = await asyncio.to_thread(self._load_models, chosen[0] or self.model, models)
        model, embeds = self._made[chosen]
        method = self.method_type(self._choose_config(choices))
        return method.make_ctx(
            model.with_ledger(ledger), self.toolbox, embeds, start=start, choices=choices, budget=ledger
        )

    def peek(self, start: RunStart, choices: RunContext) -> Ctx[Config]:
        """Make a context with a user's choices but the graph's own models, for decisions, which ask none."""
        model, embeds = self._made["", ""]
        method = self.method_type(self._choose_config(choices))
        return method.make_ctx(model, self.toolbox, embeds, start=start, choices=choices)

    def prepare(self, team: Team) -> Team:
        """The team as the method draws it.

        Raises:
            ConfigError: it belongs to another method, or the config does not allow it.
        """
        if team.method != self.name:
            raise ConfigError(f"team {team.fingerprint} belongs to {team.method!r}, not to {self.name!r}")
        return self.method.adapt(team)

    def check(self, team: Team) -> Team:
        """The team as the method can run it.

        Raises:
            ConfigError: as `prepare`; or its agents hold tools that are not given, or its own cannot be called here.
        """
        team = self.prepare(team)
        refuse_missing_tools(team, self.toolbox)
        return team

    def refuse_unnamed_models(self, team: Team, choices: RunContext) -> Team:
        """The team, unless an agent asks a model that neither the graph nor the run names; a run was opened before.

        Raises:
            ConfigError: there is such an agent.
        """
        model, _ = self._made[choices.model or "", choices.models or ""]
        model.refuse_unnamed(team.agents)
        return team

    def find_initial_team(self, initial: Team | str | Path | None, name: str, library: "Library | None") -> Team:
        """Find the team that a graph starts from; arguments as `build_graph`.

        Raises:
            ConfigError: a name or the team cannot be used.
            LibraryError: it is not found or corrupt.
        """
        if not is_id(name):
            raise ConfigError(f"name {name!r}: teams are called by up to 64 letters, digits, _ and -")
        seeds = self.method_type.seeds
        if seeds and isinstance(initial, str):
            # without a library every name but a file's is one of the method's own
            if initial in seeds.names or (library is None and not initial.endswith(".json")):
                initial = self.make_seed(initial)
        return self.check(run_sync(self._load_initial_team(initial, name, library)))

    async def _load_initial_team(self, initial: Team | str | Path | None, name: str, library: "Library | None") -> Team:
        if isinstance(initial, Team):
            return initial
        if initial is not None and str(initial).endswith(".json"):
            from selfwire.store.files import read_team

            return await asyncio.to_thread(read_team, Path(initial))
        if initial is None and (library is None or name not in await library.names()):
            return self.make_seed()
        if library is None:
            raise ConfigError(f"seed {str(initial)!r} cannot be looked up: pass its library, a team or a .json file")
        return await library.load(str(initial or name))

    async def load_first_team(self, choices: RunContext, library: "Library | None") -> Team | None:
        """The saved team that a run chose; None if it chose none.

        Raises:
            ConfigError: there is no library, or the team cannot be run here.
            LibraryError: there is no such team.
        """
        if choices.workflow is None:
            return None
        if library is None:
            raise ConfigError(f"team {choices.workflow!r} cannot be looked up: the graph was built without library")
        return self.check(await library.load(choices.workflow))

    def _choose_config(self, choices: RunContext) -> Config:
        shared = (
            type(choices).model_fields.keys() & type(self.config).model_fields.keys() - RunContext.model_fields.keys()
        )
        chosen = {name: value for name in shared if (value := getattr(choices, name)) is not None}
        return self.config.replace(**chosen) if chosen else self.config

    def _load_models(
        self, agent: str | BaseChatModel, models: Mapping[str, str | BaseChatModel]
    ) -> tuple[MeteredModel, Embedder]:
        named = {name: make_chat_model(model) for name, model in models.items()}

        def make(given: str | BaseChatModel) -> BaseChatModel:
            return (named.get(given) if isinstance(given, str) else None) or make_chat_model(given)

        player = make(agent)
        meta = make(self.meta) if self.meta else player
        roles = {"agent": player, "meta": meta, "judge": make(self.judge) if self.judge else meta}
        wanted = self.embedder or ("auto" if "embedder" in self.method_type.build_options else "hashing")
        embeds = load_embedder_beside(wanted, *roles.values(), *named.values())
        ledger = Ledger(self.budget)  # refuses dollars without a price before anything runs
        labels = {"method": self.name}
        return MeteredModel(roles, named=named, journal=NullRecorder(), ledger=ledger, labels=labels), embeds


def load_embedder_beside(embedder: str | Embedder, *models: BaseChatModel) -> Embedder:
    """A ready embedder, or one by name as for `load_embedder`; beside offline models alone `auto` is hashing.

    Raises:
        ConfigError: there is no such embedder.
    """
    if not isinstance(embedder, str):
        return embedder
    offline = bool(models) and all(get_identity(model).provider == "offline" for model in models)
    found, notice = load_embedder("hashing" if offline and embedder == "auto" else embedder)
    if notice:
        _log.warning(notice)
    return found


def _tighter(budget: Budget, choices: RunContext) -> Budget:
    def least(*limits: int | None) -> int | None:
        return min((limit for limit in limits if limit is not None), default=None)

    return budget.replace(calls=least(budget.calls, choices.calls), tokens=least(budget.tokens, choices.tokens))


class GraphOptions(TypedDict, Generic[Config], total=False):
    """Options of `build`, all of which may be left out.

    Attributes:
        meta: plays critics and evolvers; by default the agents' model.
        judge: judges answers, where the method asks a judge; by default `meta`.
        models: that agents may ask instead, by the names that `Agent.model` has for them.
        corpus: documents for a local search, or a JSONL file of them with title and text.
        initial: the team to start from: a team, the name of an initial one, a reference in the library or
            the path of an exported one. By default the head of `name` in the library, else the method's own.
        name: of saved teams in the library; by default the method's.
        library: where runs may choose a saved team, and where teams that a run evolves are kept.
        config: of the method, or fields of it; by default as in the paper, see its class.
        grader: `await grader(question, answer, scope)` grades an answer, for methods that learn from a question.
        embedder: compares by meaning: auto (MiniLM if its weights are on this machine), minilm, hashing, or a
            ready one. Beside the offline model `auto` is hashing.
    """

    meta: str | BaseChatModel | None
    judge: str | BaseChatModel | None
    models: Mapping[str, str | BaseChatModel]
    corpus: "str | Path | Sequence[Document]"
    initial: Team | str | Path | None
    name: str | None
    library: "Library | None"
    config: Config | Mapping[str, Any] | None
    grader: AnswerGrader | None
    budget: Budget | Mapping[str, float] | None
    embedder: str | Embedder | None


_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "models": (lambda value: isinstance(value, Mapping), 'a dict such as {"cheap": "openai:gpt-4o-mini"}'),
    "corpus": (
        lambda value: (
            isinstance(value, str | Path)
            or (isinstance(value, Sequence) and all(hasattr(document, "title") for document in value))
        ),
        "a JSONL file, or a list of documents",
    ),
    "initial": (lambda value: isinstance(value, str | Path | Team), "a team, a name or a .json file"),
    "name": (lambda value: isinstance(value, str), "a text"),
    "library": (lambda value: hasattr(value, "load"), "a library, which `open_library` makes"),
    "grader": (callable, "a function of question, answer and scope"),
    "embedder": (
        lambda value: isinstance(value, str) or hasattr(value, "embed"),
        "auto, minilm, hashing or a ready one",
    ),
}
"""Options whose values would fail only where they are used: whether a value fits, and what it must be."""


def build_graph(
    method_type: type[Method[Config]],
    model: str | BaseChatModel = "offline",
    *,
    tools: Sequence[BaseTool | Tool | Callable[..., Any]] = (),
    **options: Unpack[GraphOptions[Config]],
) -> Graph:
    """The method as a graph: `build(...).compile(checkpointer=...).invoke({"question": "..."})["answer"]`.

    Args:
        method_type: the method's class; `build` of a method's module has it already.
        model: plays the agents; a name as for `make_chat_model`, or a ready model.
        tools: held by the agents of the initial team; those of other teams may hold them.
        options: as `GraphOptions`.

    Raises:
        ConfigError: a model, a tool, the team or an option cannot be used.
        LibraryError: the team is not found or corrupt.
    """
    if unknown := options.keys() - GraphOptions.__annotations__.keys():
        raise TypeError(f"there is no option {min(unknown)!r}; options are {', '.join(GraphOptions.__annotations__)}")
    grader, corpus, embedder = options.get("grader"), options.get("corpus", ()), options.get("embedder")
    given = {"judge": options.get("judge"), "grader": grader, "corpus": corpus or None, "embedder": embedder}
    used = method_type.build_options
    if idle := [option for option, value in given.items() if value is not None and option not in used]:
        raise ConfigError(f"{method_type.name} does not use {', '.join(idle)}; leave it out")
    for option, (fits, described) in _KINDS.items():
        if (value := options.get(option)) is not None and not fits(value):
            raise ConfigError(f"{option} must be {described} or None, not {value!r:.80}")
    method, toolbox = method_type(options.get("config")), method_type.extend_tools(_make_toolbox(tools, corpus))
    factory = MethodFactory(
        method_type,
        method.config,
        model,
        options.get("meta"),
        options.get("judge"),
        toolbox,
        parse_budget(options.get("budget")),
        embedder,
        options.get("models") or {},
    )
    library, name = options.get("library"), options.get("name") or method.name
    begin = factory.find_initial_team(options.get("initial"), name, library)

    async def choose(choices: RunContext, thread_team: Team | None) -> Team:
        if not (chosen := await factory.load_first_team(choices, library)):
            if method.seeds and (wanted := getattr(choices, method.seeds.setting)):
                chosen = factory.check(factory.make_seed(wanted))
            else:
                chosen = factory.check(thread_team) if thread_team else begin
        return factory.refuse_unnamed_models(chosen, choices)

    save = None
    if library:
        from selfwire.graphs.version_saver import make_saver

        save = make_saver(library, name, method.name, factory.embedder_name)
    start = RunStart(begin, choose, method.choices, grader=grader, save=save)
    return method.serve(start, factory)


def _make_toolbox(
    tools: Sequence[BaseTool | Tool | Callable[..., Any]], corpus: "str | Path | Sequence[Document]"
) -> Toolbox:
    if not tools and not corpus:
        return {}
    from selfwire.tools.ready import make_toolbox, refuse_single_tool

    tools = [*refuse_single_tool(tools)]
    if not corpus:
        return make_toolbox(tools)
    from selfwire.tools.search import SearchTool, read_documents

    documents = read_documents(Path(corpus)) if isinstance(corpus, str | Path) else tuple(corpus)
    return make_toolbox([*tools, SearchTool(documents)])


def compile_graph(
    team: Team,
    model: str | BaseChatModel = "offline",
    *,
    method: "str | Method[Any] | None" = None,
    tools: Sequence[BaseTool | Tool | Callable[..., Any]] | str = (),
    checkpointer: Checkpointer = None,
    **options: Any,
) -> Compiled:
    """A team as a compiled graph of its method, or of the user's own with what has evolved.

    Args:
        method: that runs it, by name or as an instance with its config; what the team has learned by another is left
            out then.
        tools: functions, LangChain tools and others, or names as for `load_tools`.
        options: of `build_graph`.

    Raises:
        ConfigError: there is no such method, or an option cannot be used.
    """
    if not isinstance(method, str | None):
        add_method(method)
        options = {"config": method.config, **options}
        method = method.name
    if is_graph(team.method):
        models = options.pop("models", None) or {}
        if unused := [
            *options,
            *(["tools"] if tools else ()),
            *(["method"] if method not in (None, team.method) else ()),
        ]:
            raise ConfigError(f"{team.method} is a graph of your own, with which {', '.join(unused)} cannot be used")
        own: Any = make_method(team.method)
        made: Compiled = own.compile_team(team, model, checkpointer, models)
        return made
    if method not in (None, team.method):
        team = team.replace(method=method, memory={})
    if isinstance(tools, str):
        from selfwire.tools.ready import load_tools

        tools = tuple(load_tools(tools).values()) if tools else ()
    graph = build_graph(find_method(team.method), model, initial=team, tools=tools, **options)
    return graph.compile(checkpointer=checkpointer, name=team.method)


def make_build(method_type: type[Method[Config]]) -> "partial[Graph]":
    """Make the function `build` of a method's module: `build_graph` with its class."""
    build = partial(build_graph, method_type)
    build.__doc__ = f"{build_graph.__doc__}\n{GraphOptions.__doc__}"
    return build
