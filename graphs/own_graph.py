"""Graphs of the user's own as systems: their models' calls are metered, and HiVA, HERA or a router evolves them.

The texts that a graph sends to models are found in its source (`extras.adopt`). Each is an agent of the graph's team,
with the text as its prompt: prompts at a node each, descriptions of tools without one. The last agent stands for what
the graph returns. A team with other prompts runs the same graph, under a layer that replaces the texts in what is sent
(`models.text_layer`).
"""

import asyncio
import atexit
import dataclasses
import json
import math
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, closing, suppress
from copy import copy
from functools import cached_property
from inspect import Parameter, iscoroutine, signature, unwrap
from itertools import pairwise
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.cache.memory import InMemoryCache
from langgraph.errors import GraphBubbleUp
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore
from langgraph.types import Checkpointer
from pydantic import TypeAdapter, ValidationError
from typing_extensions import get_type_hints

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, AddEdge, AddNode, Edit, RemoveEdge, ReplaceTopology, Rewiring, RewritePrompt
from selfwire.core.errors import (
    ConfigError,
    OutageError,
    TaskError,
    find_error_place,
    format_error,
    format_faults,
    format_line,
)
from selfwire.core.plugins import GRAPH_NAME, GRAPHS, import_user_object, load_plugin
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.text import excerpt, mask_keys
from selfwire.core.topology import Edge, Node, Topology, find_reachable, make_topology
from selfwire.core.trajectory import OFFERED, RAISED, Message, Step, ToolUse, Trajectory
from selfwire.core.usage import ZERO_USAGE, Usage, sum_usages
from selfwire.core.values import (
    FrozenJson,
    FrozenMap,
    FrozenModel,
    fingerprint,
    parse_object,
    replace_surrogates,
    to_plain_json,
)
from selfwire.evolvers.hiva.descriptions import blame_tools, make_toolbox, offer_tools, propose_descriptions
from selfwire.evolvers.hiva.gradients import (
    Backward,
    Gradient,
    compute_loss,
    propagate_gradients,
)
from selfwire.evolvers.hiva.insertions import (
    INSERT,
    INSERT_BESIDE,
    SET_VALUE,
    TAKE_OUT,
    ProgramChanges,
    propose_program_edit,
)
from selfwire.evolvers.hiva.schemas import ProgramEdit
from selfwire.evolvers.hiva.semantics import propose_rewrites
from selfwire.evolvers.prompted_model import DeclinedProposal, PromptedModel
from selfwire.evolvers.router.config import ROUTER, RouterConfig, TrainConfig
from selfwire.evolvers.topology_ops import find_free_name, make_fresh_id
from selfwire.evolvers.trajectory_text import Described, describe_tools, gather_all, shorten
from selfwire.graphs.hiva import Hiva, get_critic
from selfwire.graphs.insertions import (
    BESIDE,
    ENDS,
    INSERTED,
    LED,
    PASSED,
    READ,
    ROUTED,
    TAKEN_OUT,
    WROTE,
    Insertion,
    Removal,
    RoutedFork,
    Specialist,
    UpdateReader,
    build_variant,
    find_branches,
    find_forks,
    find_places,
    find_removals,
    find_specialists,
    has_open_edges,
    is_text_type,
    list_graph_edits,
    list_insertions,
    list_neighbours,
    list_removals,
    list_routes,
    list_specialists,
    list_text_fields,
    list_ways,
    route_by,
    tell_closed,
)
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import CallEstimate, EvolveResult, Method, explore_samples
from selfwire.graphs.pruning import remove_agent
from selfwire.models.call_meter import CallMeter, MeteredCall
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import get_identity, make_chat_model, write_naming_option
from selfwire.models.sync import get_own_loop, make_room
from selfwire.models.text_layer import LayerText, TextLayer

if TYPE_CHECKING:
    from selfwire.graphs.hera import Hera

QUESTION = "{question}"
"""Stands for the question in a template of the input."""
ASKING = ("question", "query", "input", "task", "request", "prompt", "topic")
ANSWERING = ("answer", "final_answer", "response", "output", "result", "report")
"""Usual names of the field that takes the question, and of the one that holds the answer."""
ASKED = "asked"
"""Entry of a team's memory: the config by which its graph is asked."""
AGENT = "graph"
"""The agent that stands for the graph itself."""
GIVEN = "given"
"""Name of a trajectory's note: what the program put into each text beside the question, by the text's name."""
ASKED_MODELS = "models"
"""Name of a trajectory's note: the models that the calls of each prompt asked, as "provider:name", by its name."""
GIVEN_LENGTH = 4000
PROGRAM = "The program around the others; it has no prompt, and returns the answer that they have written"
"""What critics read in place of its prompt."""


BOUNDS = ("type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
"""Parts of the JSON schema of a number that critics are told."""
SYNCHRONOUS = "Asynchronous implementation of"
"""Begin of the error of LangChain's agents whose middleware only works synchronously."""
STORE = re.compile(r"(?:\b|_)store\b")
"""A store in a line of code, such as `runtime.store` or `get_store()`."""
NEEDS_STORE = re.compile(r"Missing required config key 'store'|Cannot inject store into tools")
"""Begin of LangGraph's errors for want of a store."""
UNSEEN = "(the reply to this text is not seen)"
"""Output of a text that a client which is not LangChain's has sent."""


class OwnGraphConfig(FrozenModel):
    """Where the question goes, where the answer is, and by which method the graph evolves.

    Args:
        input: the graph's input, JSON with {question} in a text; "" to find it by the graph's schema.
        answer: field of the output, or fields of fields as `a.b`; "" to find it by the schema.
        method: hiva rewrites prompts and descriptions of tools, inserts agents and takes nodes out, hera rewrites
            prompts, router learns which of a node's successors runs.
        hera: fields of HERA's config, but for those about planning teams.
        train: how the router learns from the runs of an iteration, with `updates` steps.
    """

    input: FrozenJson | str = ""
    answer: str = ""
    method: Literal["hiva", "hera", "router"] = "hiva"
    hera: FrozenJson = FrozenMap()
    train: TrainConfig = TrainConfig()

    @property
    def asking(self) -> "OwnGraphConfig":
        """The config without what decides only how the graph evolves."""
        return OwnGraphConfig(input=self.input, answer=self.answer)


class Mapped(NamedTuple):
    """How a question becomes an input, and an output an answer.

    Attributes:
        template: the input as JSON, in which {question} is replaced.
        messages: whether the question goes into `messages`, and the answer is the last AI message.
        answer: path of the answer; () for the output itself.
    """

    template: Any
    messages: bool = False
    answer: tuple[str, ...] = ()


def give_graph(graph: Any) -> str:
    """Make a graph known in this process; returns the name that stands for it, by the graph's own."""
    for name, known in GRAPHS.items():
        if known is graph:
            return name
    own = re.sub(r"\W+", "-", graph.get_name() if isinstance(graph, Runnable) else type(graph).__name__).strip("-")
    name = find_free_name(own, GRAPHS)
    GRAPHS[name] = graph
    return name


_ENTERED: dict[str, tuple[Any, Any]] = {}
"""Contexts that make a graph and stay open until the process ends, and their graphs, by the graph's name."""


def load_graph(name: str) -> Runnable[Any, Any]:
    """Import a graph by its name, and compile it where it is not.

    Raises:
        ConfigError: it cannot be imported, with file, line and a way out; or is no graph, or a function without one.
    """
    found, verb = GRAPHS.get(name), "imported"
    try:
        if name not in GRAPHS:
            matched = GRAPH_NAME.fullmatch(name)
            assert matched is not None, name
            found = import_user_object(matched["module"], matched["name"], f"graph {name!r}")
        verb = "made"
        if callable(found) and not isinstance(found, Runnable | StateGraph):
            found = _ENTERED[name][1] if name in _ENTERED else _call_maker(name, found)
        if isinstance(found, StateGraph):
            found = found.compile()
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise ConfigError(_describe_fault(name, verb, error)) from error
    if isinstance(found, Method):
        raise ConfigError(
            f"{name!r} is a method, not a graph; a command finds a method by the entry point of an installed package, "
            "and selfwire.compare and the like take it as it is (docs/method.md)"
        )
    if not isinstance(found, Runnable):
        raise ConfigError(
            f"{name!r} is a {type(found).__name__}, not a graph; name a compiled LangGraph, a StateGraph, a Runnable, "
            "or a function without arguments that makes one"
        )
    return found


def _describe_fault(name: str, verb: str, error: BaseException) -> str:
    """Describe in a sentence why a graph cannot be imported or made, with the line and a way out."""
    causes = [error]
    while (inner := _get_cause(causes[-1])) is not None:
        causes.append(inner)
    cause = causes[-1]
    place = next(filter(None, (find_error_place(found, Path.cwd()) for found in reversed(causes))), "")
    frames = extract_tb(cause.__traceback__)
    if not place:
        way_out = "name it as module:attribute or file.py:attribute"
    elif isinstance(cause, ModuleNotFoundError):
        way_out = f"install {cause.name} beside selfwire"
    elif isinstance(cause, KeyError) and frames and frames[-1].filename in (os.__file__, "<frozen os>"):
        way_out = f"set {cause.args[0]} in the environment"
    else:
        way_out = getattr(cause, "way_out", "mend it, or name another graph of the program")
    return f"graph {name!r} cannot be {verb}: {f'{place}: ' if place else ''}{format_error(cause)}; {way_out}"


def _get_cause(error: BaseException) -> BaseException | None:
    """Get the error that led to another: its cause, what a limit has refused before it, or the first of a group."""
    refused = error.__context__ if hasattr(error.__context__, "way_out") else None
    return error.__cause__ or refused or next(iter(getattr(error, "exceptions", ())), None)


def _call_maker(name: str, maker: Callable[..., Any]) -> Any:
    """Call a function that makes a graph as LangGraph's server does: with a config if it needs one, and awaited.

    A context that makes one is entered, and left when the process ends.

    Raises:
        ConfigError: it needs other arguments.
    """
    needed = [
        given.name
        for given in signature(maker).parameters.values()
        if given.default is Parameter.empty and given.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    ]
    if len(needed) > 1 or any(given != "config" for given in needed):
        code = getattr(unwrap(maker), "__code__", None)
        place = f"{format_line(code.co_filename, code.co_firstlineno, Path.cwd())}: " if code else ""
        raise ConfigError(
            f"graph {name!r} cannot be made: {place}it needs {' and '.join(needed)}; name a function that needs no "
            "arguments, or LangGraph's config alone"
        )
    made = maker({"configurable": {}}) if needed else maker()
    stack = ExitStack()
    if hasattr(made, "__aenter__"):
        loop = stack.enter_context(get_own_loop())  # which what the context opens belongs to
        _ENTERED[name] = made, asyncio.run_coroutine_threadsafe(made.__aenter__(), loop).result()
        stack.callback(lambda: asyncio.run_coroutine_threadsafe(made.__aexit__(None, None, None), loop).result())
    elif hasattr(made, "__enter__"):
        _ENTERED[name] = made, stack.enter_context(made)
    if name in _ENTERED:
        atexit.register(stack.close)
        return _ENTERED[name][1]
    if not iscoroutine(made):
        return made

    async def make() -> Any:
        try:
            return await made
        finally:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()  # as `asyncio.run` does

    with get_own_loop() as loop:  # this thread may run one
        return asyncio.run_coroutine_threadsafe(make(), loop).result()


def map_graph(name: str, graph: Runnable[Any, Any], config: OwnGraphConfig) -> Mapped:
    """Find where the question goes and where the answer is, by the graph's schemas where the config does not say it.

    Raises:
        ConfigError: there are several possibilities, which it names, or the template is not usable.
    """
    answer = tuple(config.answer.split(".")) if config.answer else None
    if config.input:
        template = to_plain_json(config.input)
        if QUESTION not in json.dumps(template):
            raise ConfigError(f"the input of {name!r} has no {QUESTION}, so that nothing would be asked: {template}")
        parts = template.items() if isinstance(template, dict) else ()
        asked = next((field for field, part in parts if QUESTION in json.dumps(part)), "")
        try:
            found = _map_answer(name, graph, answer)
        except ConfigError:  # several fields, of which the question's own is the least likely
            found = _map_answer(name, graph, answer, asked)
        return Mapped(template, answer is None and _has_messages(graph), found)
    if isinstance(graph, BaseLanguageModel):
        return Mapped(QUESTION)
    fields = _list_fields(graph, "input")
    if fields is None:
        return Mapped(QUESTION, answer=answer or ())
    if "messages" in fields:
        return Mapped({"messages": QUESTION}, answer is None, answer or ())
    texts = [field for field, is_text in fields.items() if is_text]
    try:
        asked = _choose(name, "input", texts, ASKING, '--set input=\'{"FIELD": "{question}"}\'')
    except ConfigError as error:
        try:
            _map_answer(name, graph, answer, *texts[:1])
        except ConfigError as other:  # so that both are said at once
            raise ConfigError(f"{error}; and {other}") from None
        raise
    return Mapped({asked: QUESTION}, answer=_map_answer(name, graph, answer, asked))


def _map_answer(
    name: str, graph: Runnable[Any, Any], answer: tuple[str, ...] | None, asked: str = ""
) -> tuple[str, ...]:
    if answer is not None or _has_messages(graph):
        return answer or ()
    fields = _list_fields(graph, "output")
    if fields is None:
        return ()
    texts = [field for field, is_text in fields.items() if is_text and field != asked]
    return (_choose(name, "output", texts, ANSWERING, "--set answer=FIELD"),)


def _has_messages(graph: Runnable[Any, Any]) -> bool:
    return "messages" in (_list_fields(graph, "output") or {})


def _list_fields(graph: Runnable[Any, Any], side: str) -> dict[str, bool] | None:
    """Fields of the input or output by name, and whether each is a text; None if it is no object with fields."""
    if isinstance(graph, CompiledStateGraph):
        schema = graph.builder.input_schema if side == "input" else graph.builder.output_schema
        with suppress(NameError, TypeError):  # names that only a type checker knows
            return {name: is_text_type(kind) for name, kind in get_type_hints(schema).items()} or None
    try:
        found = graph.get_input_jsonschema() if side == "input" else graph.get_output_jsonschema()
    except Exception:  # noqa: BLE001 - types of the user's own, which have no JSON schema
        return None
    fields = found.get("properties")
    if not fields or (side == "output" and "content" in fields):  # a message
        return None
    return {name: _is_text_schema(field) for name, field in fields.items()}


def _is_text_schema(schema: Mapping[str, Any]) -> bool:
    if "enum" in schema or "const" in schema:
        return False
    return schema.get("type") == "string" or any(_is_text_schema(part) for part in schema.get("anyOf", ()))


def _choose(name: str, side: str, texts: Sequence[str], usual: Sequence[str], way_out: str) -> str:
    named = [text for text in texts if text in usual]
    if len(texts) == 1 or len(named) == 1:
        return (named or texts)[0]
    listed = f"several text fields could be it: {', '.join(named or texts)}" if texts else "it has no text field"
    what = "question goes into its input" if side == "input" else "answer is in its output"
    raise ConfigError(f"graph {name!r} does not show where the {what}: {listed}; say it with {way_out}")


def make_hera(config: OwnGraphConfig) -> "Hera | None":
    """Make HERA if a graph evolves by it.

    Raises:
        ConfigError: a field of HERA's config is unknown or out of bounds, or one of HERA's or of `train` of no use.
    """
    if config.hera and config.method != "hera":
        raise ConfigError("the fields of hera need --method hera")
    if config.train != TrainConfig() and config.method != "router":
        raise ConfigError("the fields of train need --method router")
    for name in ("process_weight", "checkpoint_every"):
        if getattr(config.train, name) != getattr(TrainConfig(), name):
            raise ConfigError(f"train.{name} does nothing for a graph of one's own; leave it out")
    if not config.train.updates:
        raise ConfigError("without an update the router learns nothing; set train.updates to 1 or more")
    if config.method != "hera":
        return None
    from selfwire.graphs import own_hera  # HiVA does not need it

    return own_hera.make_hera(to_plain_json(config.hera))


def read_texts(target: str) -> tuple[dict[str, LayerText], str]:
    """Read the texts that a graph sends to models from its source, by name, as `extras.adopt.layer.list_texts` does.

    The second value says why there are none.
    """
    if target in GRAPHS:
        return {}, f"{target!r} was given as an object; name it as module:attribute or file.py:attribute"
    try:
        texts: Iterable[LayerText] = load_plugin("selfwire.programs", "texts")(target)
    except ConfigError as error:
        return {}, str(error)
    found = {text.name: text for text in texts}
    return found, "" if found else f"no prompt was found in its source; `selfwire adopt {target}` shows what was"


def find_changed(team: Team, texts: Mapping[str, LayerText]) -> dict[str, str]:
    """Find the texts of a team that differ from those of its graph, by name."""
    inserted = _list_added(team)
    now = {agent.id: agent.prompt for agent in team.agents if agent.id in texts and agent.id not in inserted}
    return {name: prompt for name, prompt in now.items() if prompt != texts[name].shown}


def name_models(team: Team, models: Mapping[str, str | BaseChatModel]) -> dict[str, str]:
    """Name the models of prompts as "provider:model", by the prompts.

    Raises:
        ConfigError: a prompt asks a name that is not among the models; the message says how to give it.
    """
    found = dict[str, str]()
    names = {name: chosen if isinstance(chosen, str) else get_identity(chosen).name for name, chosen in models.items()}
    names |= {name: name for name in names.values()}
    for agent in team.agents:
        if agent.model and agent.model not in names:
            raise ConfigError(
                f"agent {agent.id!r} asks model {agent.model!r}, which nobody has named here; name it with "
                f'{write_naming_option(agent.model)} (in Python models={{"{agent.model}": ...}})'
            )
        if agent.model:
            found[agent.id] = names[agent.model]
    return found


class OwnGraph(Method[OwnGraphConfig]):
    """A graph of the user's own, which answers every question in a thread of its own.

    Raises:
        ConfigError: it cannot be imported or asked.
    """

    config_type = OwnGraphConfig
    learns_insights = True
    replays = False

    def __init__(self, target: str, config: Mapping[str, Any]) -> None:
        super().__init__(**config)
        self.hera = make_hera(self.config)
        self.name = target  # type: ignore[misc]
        self.target, self.graph = target, load_graph(target)
        texts, self.unread = read_texts(target)
        self.context = ContextSchema(getattr(self.graph, "context_schema", None))
        allowed = {name: text for name, text in texts.items() if self.context.allows(text)}
        own = {text.setting: name for name, text in reversed(allowed.items())}  # the first of each
        self.texts = {name: text for name, text in allowed.items() if not text.setting or own[text.setting] == name}
        self._mapped = dict[OwnGraphConfig, Mapped]()
        self._variants = dict[str, Runnable[Any, Any]]()
        self.is_sync = self.is_served = False

    @staticmethod
    def estimate_calls(config: Any, team: Team, batch: int, added_agents: float) -> CallEstimate:
        """A call of each prompt for a question; to learn, a gradient of each in every run, and a rewriting of each."""
        prompts, texts = max(1, len(team.topology.nodes) - 1), max(1, len(team.agents) - 1)
        if hera := make_hera(config):
            found = hera.estimate_calls(hera.config, team, batch, 0)
            return found._replace(question={"agent": float(prompts)}, tokens=1000)
        if config.method == "router":
            samples = _count_samples(load_graph(team.method))
            return CallEstimate(question={"agent": float(prompts)}, samples=samples, tokens=1000)
        learning = {"meta": float(batch * prompts + texts), "judge": float(batch)}
        return CallEstimate(question={"agent": float(prompts)}, learning=learning, tokens=1000)

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """The graph's prompts as agents, and the graph itself as the last; an edge leads to what may be sent next.

        Nodes that send no prompt are passed, and prompts of one node lead to the same ones. Descriptions of tools and
        settings are agents without a node.

        Raises:
            ConfigError: the graph does not show where the question goes, or where the answer is.
        """
        self._map(self.config.asking)
        prompts = {name: text for name, text in self.texts.items() if text.is_prompt}
        edges = {
            (name, end or AGENT) for name, text in prompts.items() for end in text.leads_to if end in (*prompts, "")
        }
        ways = {name: [end for source, end in edges if source == name] for name in (*prompts, AGENT)}
        edges |= {(name, AGENT) for name in prompts if AGENT not in find_reachable(ways, [name])}
        first = [name for name, text in prompts.items() if text.is_first] or [*prompts, AGENT][:1]
        entry = next((name for name in first if {*first} <= find_reachable(ways, [name])), first[0])
        agents = [Agent(id=name, role=_describe_text(text), prompt=text.shown) for name, text in self.texts.items()]
        return Team(
            method=self.target,
            agents=(*agents, Agent(id=AGENT, role="Returns the answer.", prompt=self.target)),
            topology=make_topology(((name, name) for name in (*prompts, AGENT)), edges, entry, AGENT),
            memory={ASKED: self.config.asking.model_dump(mode="json", include={"input", "answer"})},
        )

    def check_texts(self, frozen: Collection[str] = ()) -> None:
        """Check that there is something to evolve.

        Raises:
            ConfigError: no text of the graph is known, or all of them are frozen, and so are edges; or the router has
                nothing to choose.
        """
        if self.config.method == "router":
            forks, hindrances = find_forks(self.graph)
            if "edges" in frozen or not forks:
                if forks:
                    raise ConfigError("a router changes edges, and edges are frozen; freeze fewer")
                reasons = "; ".join(f"{ENDS.get(node, node)}: {why}" for node, why in hindrances.items())
                raise ConfigError(
                    f"graph {self.target!r} has nothing for a router to choose: no node's edges lead to several "
                    f"successors that may run alone{f' ({reasons})' if reasons else ''}; lead from a node to each of "
                    "them with add_edge, as a conditional edge chooses by itself"
                )
            return
        if not self.texts:
            raise ConfigError(f"graph {self.target!r} cannot be evolved: {self.unread}")
        if self.hera is not None:
            prompts = [name for name, text in self.texts.items() if text.is_prompt]
            if "prompts" in frozen or {f"agent:{name}" for name in prompts} <= {*frozen}:
                raise ConfigError(
                    f"HERA evolves the prompts of graph {self.target!r} alone, and "
                    f"{'all are frozen; freeze fewer' if prompts else 'it has none; leave --method hera out'}"
                )
            return
        free = [name for name, text in self.texts.items() if not (text.tool and "tools" in frozen)]
        are_frozen = "prompts" in frozen or {f"agent:{name}" for name in free} <= {*frozen}
        has_prompt = any(text.is_prompt for text in self.texts.values())  # critics of prompts ask for agents
        if are_frozen and ("edges" in frozen or not (has_prompt and has_open_edges(self.graph))):
            raise ConfigError(
                f"of graph {self.target!r} only prompts, descriptions of tools, settings and edges of its builder are "
                "evolved, and all are frozen; freeze fewer"
            )

    def list_rewritable(self, team: Team, frozen: Collection[str]) -> list[str]:
        """List the agents as `Method` does, without the one that stands for the graph and has no prompt."""
        fixed = {AGENT, *(name for name, text in self.texts.items() if text.tool and "tools" in frozen)}
        return [name for name in super().list_rewritable(team, frozen) if name not in fixed]

    def _choose_config(self, team: Team) -> OwnGraphConfig:
        """The config that was given, else the one that the team was evolved with."""
        asked = OwnGraphConfig.model_validate(team.memory.get(ASKED, {}))
        given = self.config.asking
        return given if given != OwnGraphConfig() else asked

    def _map(self, config: OwnGraphConfig) -> Mapped:
        if config not in self._mapped:
            self._mapped[config] = map_graph(self.target, self.graph, config)
        return self._mapped[config]

    def adapt(self, team: Team) -> Team:
        """A saved team of this graph, whose texts and split edges must still be those that it was made of.

        Raises:
            ConfigError: the source has other texts or edges by now, a prompt lacks what the program fills, the context
                does not allow the settings, or an agent has a model that is no prompt of the source.
        """
        if other := [agent.id for agent in team.agents if agent.model and not self._may_ask(agent.id)]:
            raise ConfigError(
                f"{other[0]!r} has a model, which only prompts may have that {self.target!r} sends by LangChain; take "
                f'it away with SetModel({other[0]!r}, "")'
            )
        inserted = _list_added(team)
        if gone := sorted({agent.id for agent in team.agents} - {*self.texts, *inserted, AGENT}):
            raise ConfigError(f"the source of {self.target!r} has no text {gone[0]!r} any more; evolve the graph anew")
        self._make_variant(team)
        for name, prompt in find_changed(team, self.texts).items():
            if fault := self._find_fault(name, prompt):
                raise ConfigError(f"prompt of {name!r}: {fault}")
        make_context(self.graph, self._read_values(team))
        return team

    def describe_asking(self, team: Team) -> str:
        """Describe where the question goes and where the answer is.

        Raises:
            ConfigError: the graph's schemas leave that open.
        """
        mapped = self._map(self._choose_config(team))
        answer = f"the field {'.'.join(mapped.answer)}" if mapped.answer else "what the graph returns"
        answer = "the last AI message" if mapped.messages else answer
        return f"{self.target} is asked with the input {json.dumps(mapped.template)}, and its answer is {answer}"

    def check_learned(self, team: Team, embedder: str) -> None:
        """Check that the router's weights, if there are any and runs will use them, can be used; raises as `Method`."""
        if self.config.method == "router" or list_routes(team):
            from selfwire.evolvers.router.weights import refuse_unusable  # imports numpy

            refuse_unusable(team, RouterConfig(transfer=True), embedder)

    async def answer(self, team: Team, question: Question, ctx: Ctx[OwnGraphConfig]) -> Trajectory:
        """Ask the graph; a step for each call of its models.

        Raises:
            BudgetError: a call did not fit into the budget, and was not sent.
        """
        if not (routes := list_routes(team)):
            return await self._ask(team, question, ctx)
        return await self._ask_routed(team, routes, question, ctx)

    async def _ask_routed(
        self,
        team: Team,
        routes: Sequence[RoutedFork],
        question: Question,
        ctx: Ctx[OwnGraphConfig],
        forced: Mapping[str, str] = FrozenMap(),
    ) -> Trajectory:
        """Ask the graph, whose router chooses successors where none is forced."""
        from selfwire.graphs.own_router import make_chooser, make_pool, note_decisions  # imports numpy

        pool, at = make_pool(team, routes, self._list_source_texts(team)), ctx.scope.at(task=question.id)
        choose, made = await make_chooser(pool, question, ctx.embed, at, forced)
        with route_by(choose):
            done = await self._ask(team, question, ctx, made.clear)
        return done.replace(notes={**done.notes, **note_decisions(made)})

    async def _ask(
        self, team: Team, question: Question, ctx: Ctx[OwnGraphConfig], forget: Callable[[], None] = lambda: None
    ) -> Trajectory:
        """Ask the graph; `forget` takes back what an attempt has noted before the next one."""
        assert isinstance(ctx.model, MeteredModel), "systems are metered"
        chat = ctx.model.chat
        at, done = ctx.scope.at(task=question.id), self._make_blank(team, question, ctx)
        named = {agent.id: agent.model for agent in team.agents if agent.model}
        models = {name: chat(model=model).identity.name for name, model in named.items()}
        layer = self._make_layer(team, lambda: chat().inner, models)
        prices, timeout = chat().prices, chat().policy.timeout
        meter = CallMeter(ctx.model.ledger, ctx.model.journal, prices, at, layer.list_given, named, timeout)
        await meter.recall()
        updates, inserted, is_own = UpdateReader(), _list_added(team), False

        def begin() -> UpdateReader:
            nonlocal updates
            forget()
            meter.begin()
            updates = UpdateReader()
            return updates

        try:
            with layer.active():
                mapped, graph = self._map(self._choose_config(team)), self._make_variant(team)
                values = self._read_values(team)
                async with meter.limit_silence():
                    output = await self._invoke(graph, mapped, question.input, meter, begin, values)
                done = done.replace(answer=mask_keys(_read(mapped, output)))
        except Exception as raised:
            if (error := meter.explain(raised)) is not raised and isinstance(error, OutageError):
                raise error from raised
            done, is_own = done.as_failed(format_error(error)), meter.is_own(error)
        finally:
            await meter.close()
        if meter.refusal is not None:
            raise meter.refusal
        if done.error and await meter.retry():
            return await self._ask(team, question, ctx, forget)
        offered, given = dict[str, dict[str, None]](), dict[str, list[str]]()
        if settings := [name for name, text in self.texts.items() if text.setting]:
            offered[AGENT] = dict.fromkeys(settings)  # the context has the values of all
        for call in meter.calls:
            tools = dict.fromkeys(name for name in call.texts if name in self.tools)
            for name in self._list_prompts(call, inserted):
                offered.setdefault(name, {}).update(tools)
            given |= _list_given(call, question)
        notes = {
            OFFERED: {name: list(tools) for name, tools in offered.items() if tools},
            WROTE: {node: fields for node, fields in updates.list_texts().items() if fields},
            LED: updates.led,
            PASSED: updates.passed,
            READ: updates.read,
            GIVEN: mask_keys(given),
            RAISED: is_own,
            ASKED_MODELS: self._list_models(meter.calls, inserted),
        }
        steps = [step for call in meter.calls for step in self._make_steps(call, meter.results, inserted)]
        seen = {step.agent for step in steps}
        steps += [Step(node=name, agent=name, output=UNSEEN) for name in layer.read if name not in seen]
        return done.replace(steps=tuple(steps), notes={key: note for key, note in notes.items() if note})

    @staticmethod
    def _make_blank(team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
        return Trajectory(question=question, workflow=team.fingerprint, sample=ctx.scope.sample)

    @property
    def samples(self) -> int:
        """Once; HERA compares groups, and the router learns from each successor alone."""
        if self.config.method == "router":
            return _count_samples(self.graph)
        return self.hera.samples if self.hera else 1

    async def explore(self, team: Team, question: Question, ctx: Ctx[OwnGraphConfig]) -> Sequence[Trajectory]:
        """Ask the graph once, or as often as a group of HERA's or of the router's has runs; raises as `answer`."""
        explore = self._explore_routes if self.config.method == "router" else super().explore
        return await explore(team, question, ctx)

    async def _explore_routes(self, team: Team, question: Question, ctx: Ctx[OwnGraphConfig]) -> Sequence[Trajectory]:
        """Ask the whole graph, and then with each successor of its nodes alone, in an order that is drawn."""
        from selfwire.graphs.own_router import add_routes  # imports numpy

        plain = team.with_memory(**{ROUTED: ()})
        whole = asyncio.ensure_future(self._ask(plain, question, ctx))

        async def solve(place: Scope) -> Trajectory:
            first = (await whole).replace(workflow=team.fingerprint)
            if not place.sample:
                return first
            routes, forced = self._find_routes(team, [first]), dict[str, str]()
            for route in routes:
                order = place.at(sample=0, task=question.id).random(f"route/{route.agent}").permutation(len(route.ends))
                forced[route.agent] = route.ends[order[place.sample % len(order)]]
            routed, _ = add_routes(team, routes)
            done = await self._ask_routed(routed, routes, question, ctx.where(place), forced)
            return done.replace(workflow=team.fingerprint)

        return await explore_samples(solve, self._make_blank(team, question, ctx), self.samples, scope=ctx.scope)

    def _find_routes(self, team: Team, runs: Sequence[Trajectory]) -> list[RoutedFork]:
        """Find the routes that the graph may have, under the names of those of a team, with what successors wrote."""
        assert isinstance(self.graph, CompiledStateGraph), "it has forks"
        known, texts = {route.ends: route for route in list_routes(team)}, list_text_fields(self.graph)
        found, taken = list[RoutedFork](), self._list_taken(team)
        for node, ends in find_forks(self.graph)[0].items():
            stem = make_fresh_id(team, f"{ENDS.get(node, node)} router")
            route = known.get(ends) or RoutedFork(agent=find_free_name(stem, taken), after=node, ends=ends)
            taken.add(route.agent)
            idle = dict[str, tuple[str, ...]]()
            for end, branch in find_branches(self.graph.builder, node, ends).items():
                written = {*route.fields.get(end, ())}
                for run in runs:
                    for after, fields in run.notes.get(WROTE, {}).items():
                        written.update(fields if after in branch else ())
                idle[end] = tuple(field for field in texts if field in written)
            found.append(route.replace(fields=idle))
        return found

    @cached_property
    def tools(self) -> dict[str, str]:
        """Names of the tools that texts describe, by the texts' names."""
        return {name: text.tool for name, text in self.texts.items() if text.tool}

    def _list_prompts(self, call: MeteredCall, inserted: Collection[str]) -> Sequence[str]:
        """List the prompts that a call carried; the graph's own agent where there is none."""
        if call.node in inserted:
            return [call.node]
        return [name for name in call.texts if name not in self.tools] or [AGENT]

    def _list_models(self, calls: Iterable[MeteredCall], inserted: Collection[str]) -> dict[str, list[str]]:
        """List the models that calls asked, by the first prompt of each."""
        found = dict[str, list[str]]()
        for call in calls:
            known = found.setdefault(self._list_prompts(call, inserted)[0], [])
            known += [] if call.model in known else [call.model]
        return found

    def _may_ask(self, agent: str) -> bool:
        """Whether an agent is a prompt of the source whose requests may ask another model than the program's."""
        return agent in self.texts and self.texts[agent].is_prompt and not self.texts[agent].is_marked

    def list_askable(
        self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[OwnGraphConfig]
    ) -> Mapping[str, Collection[str]]:
        """List the models that each prompt may ask, by the run's names: those of the provider that it has asked."""
        assert isinstance(ctx.model, MeteredModel), "systems are metered"
        models = {name: chat.identity.provider for name, chat in ctx.model.named.items()}
        asked = dict[str, set[str]]()
        for run in runs:
            for name, found in run.notes.get(ASKED_MODELS, {}).items():
                asked.setdefault(name, set()).update(model.partition(":")[0] for model in found)
        return {
            agent.id: [name for name, provider in models.items() if {provider} == asked.get(agent.id)]
            for agent in team.agents
            if self._may_ask(agent.id)
        }

    def _make_steps(
        self, call: MeteredCall, results: Mapping[str, ToolMessage], inserted: Collection[str]
    ) -> Iterator[Step]:
        """Make a step of each prompt that a call carried; the first has the cost and the tool calls."""
        uses = list[ToolUse]()
        for made in call.tool_calls:
            result = results.get(str(made["id"]))
            uses.append(
                ToolUse(
                    name=replace_surrogates(made["name"]),
                    arguments=_read_arguments(made["args"]),
                    result=result.text if result else "",
                    error=result is not None and result.status == "error",
                )
            )
        for number, name in enumerate(self._list_prompts(call, inserted)):
            usage, tools = (ZERO_USAGE, ()) if number else (call.usage, tuple(uses))
            yield Step(node=call.node, agent=name, output=call.reply, usage=usage, tools=tools)

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[OwnGraphConfig]) -> EvolveResult:
        """Rewrite texts by the method of the config; a rewriting that drops what the program fills is declined.

        The router learns.
        """
        if self.config.method == "router":
            from selfwire.graphs.own_router import learn_routes  # imports numpy

            if any(f"agent:{route.agent}" in ctx.frozen for route in list_routes(team)):  # all have one router
                return EvolveResult(workflow=team)
            routes = self._find_routes(team, runs)
            return await learn_routes(team, runs, routes, self._list_source_texts(team), self.config.train, ctx.embed)
        if self.hera is None:
            return await self._propose_by_gradients(team, runs, ctx)
        from selfwire.graphs.own_hera import learn_by_hera  # HiVA does not need it

        refused = dict[str, DeclinedProposal]()

        async def ask(varied: Team, question: Question, here: Ctx[Any]) -> Trajectory:
            try:
                return await self.answer(self.adapt(varied), question, here)
            except ConfigError as error:
                refused[str(error)] = DeclinedProposal(by="rope", operation="ROPE", reason=str(error))
                return self._make_blank(varied, question, here).as_failed(str(error))

        frozen = (*ctx.frozen, f"agent:{AGENT}")  # its prompt is the name of the graph
        holding = offer_tools(team, self._collect_offered(runs))
        found, memory, notes = await learn_by_hera(self.hera, holding, runs, self.texts, ask, ctx, frozen=frozen)
        accepted, declined = self._divide(found)
        notes["declined"] = [note.model_dump(mode="json") for note in (*refused.values(), *declined)]
        return EvolveResult.of(team, accepted, memory=memory, notes=notes)

    async def _propose_by_gradients(
        self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[OwnGraphConfig]
    ) -> EvolveResult:
        """Rewrite texts by HiVA's textual gradients, and change edges; an iteration makes one such change at most."""
        hiva = Hiva(topology_evolution=False, tool_evolution=False)
        critic = get_critic(hiva.make_ctx(ctx.model, ctx.tools, ctx.embed, scope=ctx.scope, guide=ctx.guide))
        toolbox, offered = make_toolbox(team, self.tools), self._collect_offered(runs)
        holding = offer_tools(team, offered)
        shown = _show_graph(holding, toolbox)
        gradients, at_tools, wanting, spent = list[Gradient](), list[Gradient](), list[Gradient](), list[Usage]()
        for found in await gather_all(
            compute_gradients(_line_up(run, team.topology), shown, critic, ctx.scope, toolbox) for run in runs
        ):
            wanting += found.gradients
            gradients += [g for g in found.gradients if g.agent != AGENT and not ctx.is_frozen(g.agent)]
            at_tools += blame_tools(found.gradients, offered, self.tools, AGENT)
            spent.append(found.usage)
        fills = {name: text.placeholders for name, text in self.texts.items()}
        prompts = await propose_rewrites(
            holding, gradients, critic, hiva.config, toolbox=toolbox, scope=ctx.scope, placeholders=fills
        )
        free = [] if "tools" in ctx.frozen else [g for g in at_tools if not ctx.is_frozen(g.agent)]
        described = await propose_descriptions(team, free, self.tools, critic, placeholders=fills, scope=ctx.scope)
        places = {} if "edges" in ctx.frozen else self._find_places(team, runs)
        removals, hindrances = ({}, {}) if "edges" in ctx.frozen else self._find_removals(team, runs, ctx)
        beside, others = find_specialists(self.graph, self._make_unrouted(team), runs, places.values())
        settings = self._list_settings(team, ctx)
        changes = ProgramChanges(
            places={name: place.describe() for name, place in places.items()},
            specialists={name: found.describe() for name, found in beside.items()},
            removals={name: removal.describe() for name, removal in removals.items()},
            settings={name: self.context.describe(text, now) for name, (text, now) in settings.items()},
            hindrances=hindrances | others,
            find_fault=lambda found: self._find_value_fault(team, settings[found.place][0], found),
            closed="" if "edges" in ctx.frozen else tell_closed(self.graph),
        )
        accepted, unusable = self._divide((*prompts.rewirings, *described.rewirings))
        rewritten = EvolveResult.of(team, accepted).workflow
        chosen, cost = await propose_program_edit(rewritten, wanting, changes, critic, hiva.config, scope=ctx.scope)
        declined, memory = [*prompts.declined, *described.declined, *unusable], dict[str, Any]()
        if isinstance(chosen, DeclinedProposal):
            declined.insert(0, chosen)
        elif chosen and chosen.place in settings:
            accepted.append(_set_value(settings[chosen.place][0], chosen))
        elif chosen:
            gone = removals[chosen.place].agents if chosen.place in removals else ()
            rewiring, memory = self._edit_program(team, chosen, places, beside, removals)
            accepted = [*(known for known in accepted if known.by not in gone), rewiring]
        return EvolveResult.of(
            team,
            accepted,
            memory=memory,
            notes={"declined": [note.model_dump(mode="json") for note in declined]},
            cost=sum_usages([*spent, prompts.usage, described.usage, cost]),
        )

    def _edit_program(
        self,
        team: Team,
        chosen: ProgramEdit,
        places: Mapping[str, Insertion],
        beside: Mapping[str, Specialist],
        removals: Mapping[str, Removal],
    ) -> tuple[Rewiring, dict[str, Any]]:
        """Make the rewiring that takes a node out or puts an agent in, and what the memory holds then."""
        edits = dict[str, Sequence[FrozenModel]]()
        if removal := removals.get(chosen.place):
            rewiring, nodes = _take_out(team, removal, chosen.reason), [removal] if removal.after else []
            edits[TAKEN_OUT] = [*list_removals(team), *nodes]
        elif found := beside.get(chosen.place):
            place = places[chosen.place.removeprefix("beside ")]
            rewiring, made, specialist = self._insert_beside(team, chosen, place, found)
            edits |= {INSERTED: [*list_insertions(team), made], BESIDE: [*list_specialists(team), specialist]}
        else:
            rewiring, made = self._insert(team, chosen, places[chosen.place])
            edits[INSERTED] = [*list_insertions(team), made]
        return rewiring, {name: [edit.model_dump(mode="json") for edit in known] for name, known in edits.items()}

    def _divide(self, rewirings: Iterable[Rewiring]) -> tuple[list[Rewiring], list[DeclinedProposal]]:
        """Divide rewritings into those that the program can send, and what is declined."""
        objections = {rewiring: self._find_objection(rewiring) for rewiring in rewirings}
        return [rewiring for rewiring, why in objections.items() if not why], [
            DeclinedProposal(by=r.by, operation=r.operation, reason=why) for r, why in objections.items() if why
        ]

    def keep_memory(self, kept: Team, rejected: Team) -> Team:
        """The kept team with what HERA has learned, or with the edits of edges of the rejected one that it has.

        A router's weights are kept as long as the kept team has no route: with one, they decide its answers.
        """
        if self.hera is not None:
            return self.hera.keep_memory(kept, rejected)
        listers: Mapping[str, Callable[[Team], Sequence[FrozenModel]]] = {
            INSERTED: list_insertions,
            BESIDE: list_specialists,
            TAKEN_OUT: list_removals,
            ROUTED: list_routes,
        }
        if ROUTER in rejected.memory and kept.memory.get(ROUTER) != rejected.memory[ROUTER] and not list_routes(kept):
            kept = kept.with_memory(**{ROUTER: rejected.memory[ROUTER]})
        for name, list_edits in listers.items():
            there = list_edits(kept.with_memory(**{name: rejected.memory.get(name, ())}))
            if there != list_edits(kept):
                kept = kept.with_memory(**{name: [found.model_dump(mode="json") for found in there]})
        return kept

    def reads_memory(self, team: Team) -> bool:
        """Edits of edges and a router are in it; what HERA learns is shown to no step of the graph."""
        return self.hera is None

    def _find_removals(
        self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[OwnGraphConfig]
    ) -> tuple[dict[str, Removal], dict[str, str]]:
        """Find which nodes may be taken out of the graph of a team, and why not the others; by the edit's name.

        An inserted agent may, as the program does without it.
        """
        found, hindrances = find_removals(self.graph, runs, self._list_own_texts(team), team)
        merges = {place.merge: place.agent for place in list_specialists(team)}
        found += [
            Removal(node=name, after=(), before="", agents=tuple(dict.fromkeys((name, place.agent))))
            for place in list_insertions(team)
            for name in [merges.get(place.agent, place.agent)]
        ]
        frozen = [removal for removal in found if any(map(ctx.is_frozen, removal.agents))]
        hindrances |= {removal.node: "it is frozen" for removal in frozen}
        free = {removal.name: removal for removal in found if removal not in frozen}
        return free, {f"without {node}": why for node, why in hindrances.items()}

    def _list_source_texts(self, team: Team) -> dict[str, list[str]]:
        """List the texts of a team that one node alone sends, by node, as they stand in the source."""
        own = self._list_own_texts(team)
        return {node: [self.texts[name].shown for name in names] for node, names in own.items()}

    def _list_settings(self, team: Team, ctx: Ctx[OwnGraphConfig]) -> dict[str, tuple[LayerText, str]]:
        """List the settings that may change, each with the value that a team has, by the edit's name."""
        known = [text for name, text in self.texts.items() if text.setting and name in team.agents_by_id]
        free = [text for text in known if not ctx.is_frozen(text.name)]
        return {f"set {text.setting}": (text, team.agents_by_id[text.name].prompt) for text in free}

    def _list_own_texts(self, team: Team) -> dict[str, list[str]]:
        """List the texts of a team that one node alone sends, by node."""
        own = dict[str, list[str]]()
        for name, text in self.texts.items():
            if len(text.users) == 1 and text.users[0].startswith("node ") and name in team.agents_by_id:
                own.setdefault(text.users[0].removeprefix("node "), []).append(name)
        return own

    def note_parts(self, team: Team, runs: Sequence[Trajectory] | None) -> Team:
        """The team with notes of the nodes that may be taken out; without runs of those that its builder can spare."""
        found, _ = find_removals(self.graph, runs, self._list_own_texts(team), team)
        noted = [removal.model_dump(mode="json") for removal in (*list_removals(team), *found)]
        return team.with_memory(**{TAKEN_OUT: noted}) if found else team

    def _find_places(self, team: Team, runs: Sequence[Trajectory]) -> dict[str, Insertion]:
        """Find where an agent may be inserted into the graph of a team."""
        template = self._map(self._choose_config(team)).template
        fields = template.items() if isinstance(template, dict) else ()
        asked = next((name for name, text in fields if isinstance(text, str) and QUESTION in text), "")
        return find_places(self._make_unrouted(team), runs, asked)

    def _insert(self, team: Team, chosen: ProgramEdit, place: Insertion) -> tuple[Rewiring, Insertion]:
        """Make the rewiring that inserts an agent, and its place.

        In the team's topology it follows the prompts that lead there, and leads to those that are sent next.
        """
        stem = make_fresh_id(team, chosen.name.strip() or chosen.description)
        name = find_free_name(stem, self._list_taken(team))
        agent = Agent(
            id=name, role=f"Inserted: reads and rewrites {place.describe()}.", prompt=chosen.description.strip()
        )
        why = shorten(chosen.reason.strip() or "the gradients ask for it", 300)
        sent, ways = self._list_sent(team), self._list_ways(team)
        others = {**ways, place.after: [end for end in ways[place.after] if end not in place.before]}
        before, after = _find_sent(sent, _invert(ways), [place.after]), _find_sent(sent, ways, place.before) or [AGENT]
        left = {node: _find_sent(sent, others, others[node]) for node in sent if node in others}
        gone = [
            RemoveEdge(edge.source, edge.target)
            for edge in team.topology.edges
            if edge.source in before and edge.target in after
            if not any(edge.source in sent[node] and edge.target in known for node, known in left.items())
        ]
        joined = [*(AddEdge(source, name) for source in before), *(AddEdge(name, target) for target in after)]
        edits: list[Edit] = [*gone, AddAgent(agent), AddNode(name, name), *joined]
        if place.after == START and not (before or place.is_conditional):  # it is sent first
            grown = team.apply(Rewiring(*edits, why=why)).topology
            edits.append(ReplaceTopology(grown.replace(entry=name)))
        rewiring = Rewiring(*edits, why=why, operation=INSERT, by=name)
        if not place.is_conditional:
            standing = self._make_unrouted(team.with_memory(**{TAKEN_OUT: (), BESIDE: ()}))
            assert isinstance(standing, CompiledStateGraph), "it has places"
            _, ends = list_neighbours(standing.builder, place.after)  # with the nodes that are taken out
            place = place.replace(before=tuple(ends))
        return rewiring, place.replace(agent=name)

    def _list_sent(self, team: Team) -> dict[str, list[str]]:
        """List the prompts of a team that each node of its graph sends, those of a graph inside it too."""
        there, prompts = team.topology.agents, [text for text in self.texts.values() if text.is_prompt]
        sent = {name: [name] for name in list_graph_edits(team).prompts}
        for node in self._list_ways(team):
            names = [t.name for t in prompts if any(f"{user}/".startswith(f"node {node}/") for user in t.users)]
            if own := [name for name in names if name in there]:
                sent[node] = own
        return {**sent, END: [AGENT]}

    def _list_ways(self, team: Team) -> dict[str, list[str]]:
        variant = self._make_unrouted(team)
        assert isinstance(variant, CompiledStateGraph), "it has places"
        return list_ways(variant.builder)

    def _insert_beside(
        self, team: Team, chosen: ProgramEdit, place: Insertion, beside: Specialist
    ) -> tuple[Rewiring, Insertion, Specialist]:
        """Make the rewiring that has an agent work beside a node, and the places of it and of the one that joins both.

        In the team's topology it follows what the node follows.
        """
        named = chosen.model_copy(update={"name": f"{chosen.name.strip() or 'second agent'} merge"})
        joining = named.model_copy(update={"description": chosen.merge})
        rewiring, merge = self._insert(team, joining, place)
        taken = self._list_taken(team) | {merge.agent}
        name = find_free_name(make_fresh_id(team.apply(rewiring), chosen.name.strip() or chosen.description), taken)
        agent = Agent(id=name, role=f"Inserted: {beside.describe()}.", prompt=chosen.description.strip())
        ways = _invert(self._list_ways(team))
        before = _find_sent(self._list_sent(team), ways, ways[beside.beside])
        joined = [*(AddEdge(source, name) for source in before), AddEdge(name, merge.agent)]
        edits = (*rewiring.edits, AddAgent(agent), AddNode(name, name), *joined)
        rewiring = rewiring.replace(edits=edits, operation=INSERT_BESIDE, by=name)
        return rewiring, merge, beside.replace(agent=name, merge=merge.agent)

    def _list_taken(self, team: Team) -> set[str]:
        """List the names of nodes and fields of the graph of a team."""
        variant = self._make_variant(team)
        assert isinstance(variant, CompiledStateGraph), "it has places"
        return {*variant.builder.nodes, *variant.builder.channels}

    def _collect_offered(self, runs: Iterable[Trajectory]) -> dict[str, list[str]]:
        """Collect the names of the tools that were offered in some runs, by the agent that could call them."""
        offered = dict[str, dict[str, None]]()
        for run in runs:
            for agent, texts in run.notes.get(OFFERED, {}).items():
                offered.setdefault(agent, {}).update(
                    dict.fromkeys(self.tools[text] for text in texts if text in self.tools)
                )
        return {agent: list(tools) for agent, tools in offered.items()}

    def _find_objection(self, rewiring: Rewiring) -> str:
        [edit] = rewiring.edits
        assert isinstance(edit, RewritePrompt), "f_P rewrites prompts"
        if edit.agent not in self.texts:  # an inserted agent, whose prompt nothing fills
            return ""
        return self._find_fault(edit.agent, edit.prompt)

    def _find_value_fault(self, team: Team, text: LayerText, chosen: ProgramEdit) -> str:
        """Find why a setting of a team cannot have a value, beside the values of the others; "" if it can."""
        try:
            self.adapt(team.apply(_set_value(text, chosen)))
        except ConfigError as error:
            return str(error)
        return ""

    def _find_fault(self, name: str, prompt: str) -> str:
        """Find why the program cannot send a text, or have a value; "" if it can."""
        try:
            if self.texts[name].setting:
                self.context.parse(self.texts[name], prompt)
            else:
                self.texts[name].parse(prompt)
        except ValueError as error:
            return str(error)
        return ""

    def _read_values(self, team: Team) -> dict[str, Any]:
        """Read the settings of a team that are not the program's, by the field of the context."""
        changed = find_changed(team, self.texts)
        return {
            text.setting: self.context.parse(text, changed[name])
            for name, text in self.texts.items()
            if name in changed and text.setting
        }

    def _make_layer(self, team: Team, get_model: Callable[[], BaseChatModel], models: Mapping[str, str]) -> TextLayer:
        def get_real_model() -> BaseChatModel:
            model = get_model()
            if get_identity(model).name == "offline":
                raise ConfigError(
                    f"{self.target!r} asks no model before an inserted agent, which asks that of the run: name it with "
                    "--model, or in graph(model)"
                )
            return model

        texts = {name: text for name, text in self.texts.items() if not text.setting}
        changed = {name: prompt for name, prompt in find_changed(team, self.texts).items() if name in texts}
        return TextLayer(texts.values(), changed, get_real_model if list_insertions(team) else None, models)

    def compile_team(
        self,
        team: Team,
        model: str | BaseChatModel,
        checkpointer: Checkpointer = None,
        models: Mapping[str, str | BaseChatModel] = FrozenMap(),
    ) -> Any:
        """Compile the graph of a team, which sends the team's texts however it is asked; its calls are not metered.

        Args:
            model: of an inserted agent before which the program asks none.
            checkpointer: in place of the program's own.
            models: that prompts ask, by their names.

        Raises:
            ConfigError: a router is part of the team, a prompt asks a model that is not among them, or the graph is no
                LangGraph; or as `adapt`.
        """
        graph, values = self._make_variant(self.adapt(team)), self._read_values(team)
        if list_routes(team):
            raise ConfigError("the router of a team chooses by the question; ask it with selfwire.run(team, question)")
        if not isinstance(graph, Pregel):
            raise ConfigError(
                f"{self.target!r} is a {type(graph).__name__} and no LangGraph; ask the team with selfwire.run, or "
                "make it a node of a StateGraph of yours"
            )
        asked = name_models(team, models)
        is_edited = bool(asked or find_changed(team, self.texts) or any(list_graph_edits(team)))
        made: Any = copy(empty_cache(graph) if is_edited else graph)
        made.checkpointer = graph.checkpointer if checkpointer is None else checkpointer
        made.__class__ = _make_layered(
            type(graph), lambda: self._make_layer(team, lambda: make_chat_model(model), asked), values
        )
        return made

    def _make_variant(self, team: Team) -> Runnable[Any, Any]:
        """The graph with a team's edges; the graph itself where they are the program's."""
        key = repr(list_graph_edits(team))
        if key not in self._variants:
            self._variants[key] = build_variant(self.target, self.graph, team)
        return self._variants[key]

    def _make_unrouted(self, team: Team) -> Runnable[Any, Any]:
        """The graph with a team's edges, but for its routes, which are made last."""
        return self._make_variant(team.with_memory(**{ROUTED: ()}))

    async def _invoke(
        self,
        graph: Runnable[Any, Any],
        mapped: Mapped,
        question: str,
        meter: CallMeter,
        begin: Callable[[], UpdateReader],
        values: Mapping[str, Any],
    ) -> Any:
        """Ask the graph, anew where it only works synchronously, or lacks a context or a store; `begin` each time."""
        config: RunnableConfig = {"configurable": {"thread_id": fingerprint(meter.scope.key)}}
        given = fill_template(mapped.template, question)
        if isinstance(given, dict) and isinstance(given.get("messages"), str):
            given = {**given, "messages": [HumanMessage(given["messages"])]}
        is_sync, is_served = self.is_sync, self.is_served
        make_room()
        while True:
            config["callbacks"] = [begin(), meter]  # where a meter refuses a call, handlers behind it are never awaited
            run = add_store(graph) if is_served else graph
            context = make_context(graph, values) if is_served or values else {}
            config["configurable"] |= {name: getattr(value, "value", value) for name, value in values.items()}
            try:
                if is_sync:
                    output = await asyncio.to_thread(empty_cache(run).invoke, given, config, **context)
                else:
                    output = await empty_cache(run).ainvoke(given, config, **context)
            except GraphBubbleUp as error:
                raise TaskError(
                    f"the graph waits for a person ({format_error(error)}), which nobody is here"
                ) from error
            except NotImplementedError as error:  # nodes, models, middleware or checkpointers that are synchronous
                if is_sync or (meter.calls and SYNCHRONOUS not in str(error)):
                    raise
                is_sync = True
            except (AttributeError, TypeError, ValueError) as error:
                if is_served or meter.refusal or not lacks_server(graph, error):
                    raise
                is_served = True
            else:
                self.is_sync, self.is_served = self.is_sync or is_sync, self.is_served or is_served
                return output
            config["configurable"]["thread_id"] += "-anew"


def _fill_context(
    graph: Any, config: RunnableConfig | None, given: dict[str, Any], values: Mapping[str, Any]
) -> RunnableConfig | None:
    """Give a graph a team's settings where its caller has not given others; returns the config that has them too."""
    if not values:
        return config
    if given.get("context") is None:
        given |= make_context(graph, values)
    elif isinstance(given["context"], Mapping):
        given["context"] = {**values, **given["context"]}
    plain = {name: getattr(value, "value", value) for name, value in values.items()}
    configured = (graph.config or {}).get("configurable", {})  # by `with_config`
    return {**(config or {}), "configurable": plain | configured | (config or {}).get("configurable", {})}


def _make_layered(kind: Any, make_layer: Callable[[], TextLayer], values: Mapping[str, Any]) -> Any:
    """Make a class of compiled graphs that runs each step under a layer, and has other defaults of its context.

    All ways of asking a graph go through `stream` and `astream`. Between two steps the layer is left, as a program that
    streams may ask models of its own then.
    """

    class Layered(kind):  # type: ignore[misc]
        def stream(self, input: Any, config: RunnableConfig | None = None, **given: Any) -> Iterator[Any]:
            layer, config = make_layer(), _fill_context(self, config, given, values)
            with closing(super().stream(input, config, **given)) as parts:
                while True:
                    with layer.active():
                        part = next(parts, parts)
                    if part is parts:
                        return
                    yield part

        async def astream(self, input: Any, config: RunnableConfig | None = None, **given: Any) -> AsyncIterator[Any]:
            layer, config = make_layer(), _fill_context(self, config, given, values)
            async with aclosing(super().astream(input, config, **given)) as parts:
                while True:
                    with layer.active():
                        part = await anext(parts, parts)
                    if part is parts:
                        return
                    yield part

    return type(kind.__name__, (Layered,), {})


def lacks_server(graph: Runnable[Any, Any], error: Exception) -> bool:
    """Whether a graph may have failed for want of a context or a store, which LangGraph's server gives every graph."""
    frames = [frame for frame in extract_tb(error.__traceback__) if frame.filename != dataclasses.__file__]
    line = frames[-1].line or ""
    asks_none = isinstance(error, AttributeError | TypeError) and re.search("NoneType|dataclass instance", str(error))
    shows_store = STORE.search(line) and (asks_none or isinstance(error, ValueError))
    if (shows_store or NEEDS_STORE.search(str(error))) and add_store(graph) is not graph:
        return True
    schema = getattr(graph, "context_schema", None)
    fields = {*getattr(schema, "__dataclass_fields__", ()), *getattr(schema, "model_fields", ())}
    is_field = isinstance(error, AttributeError) and error.obj is None and error.name in fields
    return bool(asks_none and (is_field or "context" in line) and make_context(graph))


def add_store(graph: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Copy a graph that was compiled without a store, with an empty one in memory."""
    if not isinstance(graph, Pregel) or graph.store is not None:
        return graph
    fresh = copy(graph)
    fresh.store = InMemoryStore()
    return fresh


def make_context(graph: Runnable[Any, Any], values: Mapping[str, Any] = FrozenMap()) -> dict[str, Any]:
    """Make the context of a graph from some values and the defaults of its schema; {} where these are not enough.

    Raises:
        ConfigError: the schema does not allow the values together.
    """
    schema = getattr(graph, "context_schema", None)
    if not isinstance(schema, type):
        return {}
    try:
        return {"context": schema(**values)}
    except Exception as error:
        if not values:  # a field without a default
            return {}
        given = ", ".join(f"{name}={value}" for name, value in values.items())
        fault = format_faults(error) if isinstance(error, ValidationError) else format_error(error)
        raise ConfigError(f"{schema.__name__} does not allow {given} together: {fault}") from error


class ContextSchema:
    """The schema of a graph's context, which says what values its settings may have."""

    def __init__(self, schema: Any) -> None:
        self._schema, self._kinds = schema, dict[str, TypeAdapter[Any]]()
        with suppress(Exception):  # a schema without defaults, or names that only a type checker knows
            schema()
            fields = getattr(schema, "model_fields", {})
            for name, kind in get_type_hints(schema, include_extras=True).items():
                if dataclasses.is_dataclass(schema) or name in fields:
                    self._kinds[name] = TypeAdapter(Annotated[kind, fields[name]] if name in fields else kind)

    def allows(self, text: LayerText) -> bool:
        """Whether a text is no setting, or the schema knows this setting and has its value as the default."""
        if not text.setting:
            return True
        try:
            value = self.parse(text, text.shown)
        except ValueError:
            return False
        default = getattr(self._schema(), text.setting)
        return value is not None and default in (value, getattr(value, "value", value))  # of an Enum perhaps its value

    def parse(self, text: LayerText, shown: str) -> Any:
        """Parse a value of a setting.

        Raises:
            ValueError: the schema does not allow it; the message says what it allows.
        """
        fault = f"{shown!r} is no value of {text.setting}, which is {self.describe(text, text.shown)}"
        if text.setting not in self._kinds or (text.choices and shown not in text.choices):
            raise ValueError(fault)
        try:
            value = self._kinds[text.setting].validate_python(text.read_value(shown), strict=not text.choices)
            self._schema(**{text.setting: value})
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError("it is not finite")
        except ValidationError as error:
            raise ValueError(f"{fault}: {format_faults(error)}") from None
        except Exception as error:  # noqa: BLE001 - validators of the user's own
            raise ValueError(f"{fault}: {format_error(error)}") from None
        return value

    def describe(self, text: LayerText, now: str) -> str:
        """Describe a setting for critics: its values, and which it has now."""
        if text.choices:
            return f"one of {', '.join(text.choices)}, now {now}"
        known = self._kinds[text.setting].json_schema()
        bounds = [f"{name} {known[name]}" for name in BOUNDS if name in known]
        return ", ".join([*bounds, f"now {now}"])


def _describe_text(text: LayerText) -> str:
    if text.setting:
        return f"Sets {text.setting} of the context, {text.place}"
    return f"Describes the tool {text.tool}, {text.place}" if text.tool else text.place


def _set_value(text: LayerText, chosen: ProgramEdit) -> Rewiring:
    """Make the rewiring that gives a setting another value, which the prompt of its agent is."""
    value, name = chosen.value.strip(), text.name
    if not text.choices:
        value = str(text.read_value(value))  # a number without a comment
    why = shorten(chosen.reason.strip() or "the gradients ask for it", 300)
    return Rewiring(RewritePrompt(name, value), why=why, operation=SET_VALUE, by=name)


def empty_cache(graph: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Copy a graph with an empty cache, so that no run gets what another candidate's nodes returned."""
    if not isinstance(graph, Pregel) or graph.cache is None:
        return graph
    fresh = copy(graph)
    fresh.cache = InMemoryCache()
    return fresh


def _read(mapped: Mapped, output: Any) -> str:
    """Read the answer.

    Raises:
        TaskError: there is none.
    """
    if isinstance(output, Mapping) and "__interrupt__" in output:
        raise TaskError("the graph waits for a person (interrupt), and nobody is here to answer")
    if mapped.messages:
        said = [message for message in output["messages"] if isinstance(message, AIMessage) and message.text]
        if not said:
            raise TaskError("the graph has ended without an AI message")
        return str(said[-1].text)
    for part in mapped.answer:
        if not isinstance(output, Mapping):
            output = {name: getattr(output, name) for name in (part,) if hasattr(output, name)}
        if part not in output:
            there = ", ".join(map(str, output)) or "nothing"
            raise TaskError(f"the output has no field {part!r}, only {there}; name another with --set answer=")
        output = output[part]
    if isinstance(output, list) and output and isinstance(output[-1], BaseMessage):
        output = output[-1]
    if isinstance(output, BaseMessage):
        return str(output.text)
    return output if isinstance(output, str) else json.dumps(output, default=str)


async def compute_gradients(
    run: Trajectory, team: Team, critic: PromptedModel, scope: Scope, toolbox: Mapping[str, Described]
) -> Backward:
    """Compute the textual gradients of a graded run; none where it is solved or teaches nothing.

    What is said of the program's own part goes to the texts whose replies it returns, as it has no prompt.
    """
    first = {step.output: step.node for step in reversed(run.steps)}
    told = [
        step.replace(output=f"(the same as [{first[step.output]}])")
        if step.output.strip() and step.output != UNSEEN and first[step.output] != step.node
        else step
        for step in run.steps[:-1]
    ]
    shown = run.replace(steps=(*told, *run.steps[-1:]))
    loss = await compute_loss(shown, team, critic, environment=True, toolbox=toolbox, scope=scope)
    at_sink = loss.gradient
    if at_sink is None:
        return Backward(usage=loss.usage)
    own, overall = at_sink.system_prompt.strip(), at_sink.overall
    at_sink = at_sink.replace(system_prompt="", overall=overall if own in overall else f"{overall}\n{own}".strip())
    nodes = tuple(Node(id=step.node, agent=step.agent) for step in run.steps)
    sent = tuple(Edge(source=step.node, target=message.target) for step in run.steps for message in step.sent)
    taken = Topology(nodes=nodes, edges=sent, entry=run.steps[0].node, sink=team.topology.sink)
    found = await propagate_gradients(run, team, at_sink, critic, toolbox=toolbox, scope=scope, taken=taken)
    return found.replace(usage=loss.usage + found.usage)


def _list_added(team: Team) -> set[str]:
    """List the agents of a team that the program does not have."""
    edits = list_graph_edits(team)
    return {*edits.prompts, *(route.agent for route in edits.routes)}


def _count_samples(graph: Any) -> int:
    """Count the runs of a question by which the router learns: of the whole graph, and of each successor alone."""
    return 1 + max(map(len, find_forks(graph)[0].values()), default=0)


def _take_out(team: Team, removal: Removal, reason: str) -> Rewiring:
    """Make the rewiring that takes the texts of a node out."""
    why = shorten(reason.strip() or "the gradients ask for it", 300)
    return remove_agent(team, *removal.agents).replace(why=why, operation=TAKE_OUT, by=removal.node)


def _read_arguments(given: Any) -> FrozenJson:
    """Read the arguments of a model's tool call, or their text where they are no JSON, such as NaN."""
    try:
        return parse_object(json.dumps(given))
    except (TypeError, ValueError):
        return {"arguments": repr(given)}


def _show_graph(team: Team, toolbox: Mapping[str, Described]) -> Team:
    """The team as critics read it: its graph says what it does, and the tools that it offers without a prompt."""
    graph = team.agents_by_id[AGENT]
    offers = f", and offers tools:\n{describe_tools(graph.tools, team, toolbox)}" if graph.tools else "."
    shown = graph.replace(prompt=f"{PROGRAM}{offers}")
    return team.replace(agents=[shown if agent.id == AGENT else agent for agent in team.agents])


def _list_given(call: MeteredCall, question: Question) -> dict[str, list[str]]:
    """List what the program put into a call beside its texts and the question, by the texts' names."""
    asked, given = question.input.strip(), dict[str, list[str]]()
    for name, put in call.texts.items():
        blocks = ("\n\n".join(block for block in part.split("\n\n") if block.strip() != asked) for part in put)
        # a short question may stand in the middle of words
        parts = [rest for part in blocks if (rest := (part.replace(asked, "") if " " in asked else part).strip())]
        given[name] = [excerpt(part, GIVEN_LENGTH // len(parts), call.reply) for part in parts]
    return given


def _find_sent(sent: Mapping[str, Sequence[str]], ways: Mapping[str, Sequence[str]], nodes: Iterable[str]) -> list[str]:
    """Find the prompts that nodes send, or the first ones on the ways from those that send none."""
    found = find_reachable({node: () if node in sent else ends for node, ends in ways.items()}, nodes)
    return list(dict.fromkeys(name for node in ways if node in found for name in sent.get(node, ())))


def _invert(ways: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """List the nodes that lead to each."""
    return {node: [source for source, ends in ways.items() if node in ends] for node in ways}


def _line_up(run: Trajectory, topology: Topology) -> Trajectory:
    """A run as one of its texts: each hands its last reply on to those that were sent behind it, or to the graph.

    These are its next ones in the team's topology, where texts that were not sent are passed; else the one that came
    next. What else the program put into a text stands beside that, as do the texts that one request sends with it.
    """
    given: Mapping[str, Sequence[str]] = run.notes.get(GIVEN, {})
    last = {step.agent: step for step in run.steps if step.agent != AGENT}
    names = [*dict.fromkeys(step.agent for step in reversed(run.steps) if step.agent != AGENT)][::-1]
    handed, inboxes = dict[str, list[str]](), dict[str, list[Message]]()
    requests, request = dict[str, int](), 0
    for before, step in pairwise((*run.steps[:1], *run.steps)):
        is_alike = step is not before and (before.node, before.output) == (step.node, step.output)
        request += not (is_alike and step.usage == ZERO_USAGE)  # the first prompt of a request has its cost
        requests[step.agent] = request
    for place, name in enumerate(names):
        later = names[place + 1 :]
        passed = {**topology.successors, **dict.fromkeys(later, ())}
        found = find_reachable(passed, topology.successors.get(name, ()))
        handed[name] = [after for after in later if after in found] or ([AGENT] if AGENT in found else later[:1])
        handed[name] = handed[name] or [AGENT]
    steps, known = list[Step](), set[str]()
    for name in (*names, AGENT):
        output = last[name].output if name in last else run.answer or ""
        tools = tuple(use for step in run.steps if step.agent == name for use in step.tools)
        sent = tuple(Message(source=name, target=after, text=output) for after in handed.get(name, ()))
        inbox = inboxes.get(name, [])
        if put := "\n\n".join(part for part in given.get(name, ()) if part not in known):
            inbox = [*inbox, Message(source="the program", target=name, text=put)]
        if others := [other for other in names if other != name and requests[other] == requests.get(name)]:
            said = f"It sends this prompt and {', '.join(others)} as one request, which has one reply."
            inbox = [*inbox, Message(source="the program", target=name, text=said)]
        steps.append(Step(node=name, agent=name, output=output, inbox=tuple(inbox), sent=sent, tools=tools))
        known.add(output.strip())
        for message in sent:
            inboxes.setdefault(message.target, []).append(message)
    return run.replace(steps=tuple(steps))


def fill_template(template: Any, question: str) -> Any:
    """The template with the question in place of its mark, in all texts."""
    if isinstance(template, str):
        return template.replace(QUESTION, question)
    if isinstance(template, list):
        return [fill_template(part, question) for part in template]
    return (
        {name: fill_template(part, question) for name, part in template.items()}
        if isinstance(template, dict)
        else template
    )
