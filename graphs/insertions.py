"""Edits of the edges of a graph of the user's own: where they may be made, and the graph that has them.

An inserted agent stands behind a node, on all edges from it that the builder holds, or on one conditional edge whose
end the builder holds: the router stays, and what it returns leads to the agent. It reads a field of the state that the
node writes, and its reply takes the place of what stands there; of `messages` that is the last one. Its chat model is
the one that the program asks at this node.

A specialist works beside a node, on what this reads; its words go to an agent that is inserted behind both, and makes
one text of theirs.

A node of the program may be left out where only edges of the builder lead to it and one from it, it only asks a model,
and what it writes takes the place of what stands there already.

Where edges of the builder lead from a node to several, which work at the same time, a router may choose one of them. An
edge that waits for all of them then waits for that one. The user's objects stay as they are.
"""

from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from enum import Enum
from inspect import isfunction
from types import UnionType
from typing import Annotated, Any, NamedTuple, NotRequired, Required, Union, get_args, get_origin
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableBinding, RunnableLambda
from langchain_core.runnables.utils import get_function_nonlocals
from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command
from typing_extensions import TypedDict, get_type_hints

from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.topology import find_reachable
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenMap, FrozenModel, Id
from selfwire.models.sync import run_sync
from selfwire.models.text_layer import get_layer, get_node

INSERTED = "inserted"
"""Entry of a team's memory: insertions, in an order in which they can be made."""
TAKEN_OUT = "taken_out"
"""Entry of a team's memory: nodes of the program that are left out by a team that has none of their agents."""
BESIDE = "beside"
"""Entry of a team's memory: agents beside nodes of the program."""
ROUTED = "routed"
"""Entry of a team's memory: routes of nodes of the program with several successors."""
WROTE = "wrote"
"""Entry of a trajectory's notes: fields that each node has written a text to, or an answer to `messages`."""
LED = "led"
"""Entry of a trajectory's notes: by node, fields that it wrote a text to each time its router returned the same."""
READ = "read"
"""Entry of a trajectory's notes: fields whose text stood in a request of each node."""
PASSED = "passed"
"""Entry of a trajectory's notes: by node, whether it only asked models and wrote over what stood there."""
MESSAGES = "messages"
FIRST = "seq:step:1"
"""Tag of the run of what a node itself is."""
MADE = frozenset({"builder", "nodes", "channels", "trigger_to_nodes", "schema_to_mapper"})
"""Attributes of a compiled graph that its builder makes; all others are how it was compiled and configured."""
AGENTS = ("langchain.agents", "langgraph.prebuilt.chat_agent_executor", "langgraph_supervisor")
"""Modules whose graphs are agents: their builders are no part of the program."""
WAY_OUT = (
    "make it a node of a StateGraph of yours, builder.add_node('agent', agent), with edges from START to it and from "
    "it to END, which can be split"
)
ENDS = {START: "START", END: "END"}
RULE = "Reply with the whole text that takes the place of {}, and with nothing else."
BOTH = "What you write is joined with what another agent writes at the same time. Reply with it, and with nothing else."
IN_TAGS, LAST = RULE.format("what stands between <text> and </text>"), RULE.format("the last message above")


class Insertion(FrozenModel):
    """Place of an inserted agent.

    Args:
        after: the node behind which it stands, which may be an inserted agent.
        before: the nodes that follow.
        field: of the state, which it reads and writes.
        question: field of the state that holds the question, which it reads too; "" if there is none.
        is_conditional: whether a router leads from the one to the other.
    """

    agent: Id
    after: str
    before: tuple[str, ...]
    field: str
    question: str = ""
    is_conditional: bool = False

    @property
    def name(self) -> str:
        """The name of the place, for critics and people."""
        end = f" to {ENDS.get(self.before[0], self.before[0])}" if self.is_conditional else ""
        return f"{ENDS.get(self.after, self.after)}.{self.field}{end}"

    def describe(self) -> str:
        """Describe the place, for critics and people."""
        what = "the last message" if self.field == MESSAGES else "the question" if self.after == START else "what"
        that = " that" if self.field == MESSAGES else ""
        wrote = " in" if self.after == START else f"{that} {self.after} has written into"
        before = " and ".join(ENDS.get(node, node) for node in self.before)
        return f"{what}{wrote} {self.field}, before {before}{' if code leads there' * self.is_conditional}"


class Specialist(FrozenModel):
    """An agent beside a node, at work on what this reads at the same time.

    Args:
        beside: the node, behind which `merge` is inserted.
        after: the only node before it, in the graph of the program.
        reads: fields of the state that both read.
        merge: the agent that makes one text of what both have written.
    """

    agent: Id
    beside: str
    after: str
    field: str
    reads: tuple[str, ...]
    question: str = ""
    merge: Id = "new"

    @property
    def name(self) -> str:
        """The name of the place, for critics."""
        return f"beside {self.beside}.{self.field}"

    @property
    def channel(self) -> str:
        """The field for what it writes, which the state of the program does not have."""
        return f"{self.agent.replace('-', '_')}_text"

    def describe(self) -> str:
        """Describe the place, for critics."""
        reads = " and ".join(self.reads)
        return f"a second agent reads {reads} as {self.beside} does, and what it writes is joined with {self.field}"


def list_specialists(team: Team) -> list[Specialist]:
    """List the specialists of a team, if an agent joins their text."""
    known = map(Specialist.model_validate, team.memory.get(BESIDE, ()))
    return [found for found in known if {found.agent, found.merge} <= team.agents_by_id.keys()]


class Removal(FrozenModel):
    """A node that is left out, so that those before it, one of which leads to it, hand on to the only one behind it.

    Args:
        after, before: these, in the graph of the program; () and "" for an inserted agent.
        agents: texts that it alone sends; it is left out by a team that has none of them.
    """

    node: str
    after: tuple[str, ...]
    before: str
    agents: tuple[Id, ...]

    @property
    def name(self) -> str:
        """The name of the edit, for critics."""
        return f"without {self.node}"

    def describe(self) -> str:
        """Describe the edit, for critics."""
        if not self.after:
            return f"the inserted agent {self.node} is taken out again"
        after, before = describe_sources(self.after), ENDS.get(self.before, self.before)
        return f"{self.node} is taken out, and what {after} hands on goes to {before} as it is"


def describe_sources(nodes: Iterable[str]) -> str:
    """Describe nodes of which one leads to another, for critics and people."""
    return " or ".join(ENDS.get(node, node) for node in nodes)


def list_removals(team: Team, *, noted: bool = False) -> list[Removal]:
    """List the nodes of the program that a team leaves out; or those that are noted as ones that it may leave out."""
    known = map(Removal.model_validate, team.memory.get(TAKEN_OUT, ()))
    return [found for found in known if bool(team.agents_by_id.keys() & {*found.agents}) is noted]


class RoutedFork(FrozenModel):
    """A choice among the successors of a node, of which one runs in place of all.

    Args:
        agent: the node that asks the router.
        after: the node before it, in the graph of the program.
        ends: the successors.
        fields: texts of the state that each successor, or a node behind it alone, writes; where it does not run they
            are "", unless they stand there already.
    """

    agent: Id
    after: str
    ends: tuple[str, ...]
    fields: Mapping[str, tuple[str, ...]] = FrozenMap()

    def describe(self) -> str:
        """Describe the choice, for people."""
        return f"Behind {ENDS.get(self.after, self.after)} a trained router chooses one of {', '.join(self.ends)}."


def list_routes(team: Team) -> list[RoutedFork]:
    """List the routes of a team."""
    known = map(RoutedFork.model_validate, team.memory.get(ROUTED, ()))
    return [found for found in known if found.agent in team.agents_by_id]


Choose = Callable[[RoutedFork, Any], Coroutine[Any, Any, str]]
"""Chooses the successor that runs in a state."""
_CHOOSE: ContextVar[Choose] = ContextVar("choose")


@contextmanager
def route_by(choose: Choose) -> Iterator[None]:
    """Have a function choose the successors in the routes of graphs that run in this context."""
    token = _CHOOSE.set(choose)
    try:
        yield
    finally:
        _CHOOSE.reset(token)


def list_insertions(team: Team) -> list[Insertion]:
    """List the insertions of a team, each before those behind it; agents that have been taken out are left out."""
    found = list[Insertion]()
    for after, ends, chain in list_chains(map(Insertion.model_validate, team.memory.get(INSERTED, ()))):
        is_conditional = any(place.is_conditional for place in chain)
        for place in chain:
            if place.agent in team.agents_by_id:
                found.append(place.replace(after=after, before=ends, is_conditional=is_conditional))
                after, is_conditional = place.agent, False
    return found


class GraphEdits(NamedTuple):
    """The edits of a team to the edges of a program; agents with their prompts.

    Attributes:
        inserted: in an order in which they can be made.
        removals: nodes that are left out.
        routes: choices among successors, which stand in no source.
    """

    inserted: tuple[tuple[Insertion, str], ...] = ()
    specialists: tuple[tuple[Specialist, str], ...] = ()
    removals: tuple[Removal, ...] = ()
    routes: tuple[RoutedFork, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the agents that come in, and of the nodes that go."""
        return *self.prompts, *(removal.node for removal in self.removals)

    @property
    def prompts(self) -> dict[str, str]:
        """Prompts of the agents that come in, by name."""
        inserted = {found.agent: prompt for found, prompt in self.inserted}
        return inserted | {found.agent: prompt for found, prompt in self.specialists}


def list_graph_edits(team: Team) -> GraphEdits:
    """List the edits of a team to the edges of its program."""
    prompts = {agent.id: agent.prompt for agent in team.agents}
    inserted = [(found, prompts[found.agent]) for found in list_insertions(team)]
    specialists = [(found, prompts[found.agent]) for found in list_specialists(team)]
    return GraphEdits(tuple(inserted), tuple(specialists), tuple(list_removals(team)), tuple(list_routes(team)))


def build_variant(name: str, graph: Any, team: Team) -> Any:
    """Make the graph with the edges of a team, compiled as the given one; the same object where they are as they were.

    Args:
        name: of the graph, for errors.

    Raises:
        ConfigError: a node, an edge or a field does not exist any more.
    """
    edits = list_graph_edits(team)
    if not any(edits):
        return graph
    if not isinstance(graph, CompiledStateGraph):
        raise ConfigError(f"{name!r} is no StateGraph any more, so its edges cannot change; evolve the graph anew")
    builder, roots = _copy_builder(graph.builder), dict[str, str]()
    joined = {beside.merge: beside for beside, _ in edits.specialists}
    for found, prompt in edits.inserted:
        roots[found.agent] = roots.get(found.after, found.after)
        beside = joined.get(found.agent)
        schema = _extend_state(builder, found, beside) if beside else builder.state_schema
        node = _make_node(found, prompt, roots[found.agent], beside.channel if beside else "")
        _insert_agent(name, builder, found, node, schema)
    for removal in edits.removals:
        if list_neighbours(graph.builder, removal.node) != ([*removal.after], [removal.before]):
            raise ConfigError(
                f"{removal.node!r} is taken out between {describe_sources(removal.after)} and "
                f"{ENDS.get(removal.before, removal.before)}, where {name!r} does not have it any more; put it back, "
                "evolve the graph anew, or name the graph itself if its source is without it by now"
            )
        sources, [target] = list_neighbours(builder, removal.node)
        builder.edges = {edge for edge in builder.edges if removal.node not in edge}
        builder.edges |= {(source, target) for source in sources}
        del builder.nodes[removal.node]
    for beside, prompt in edits.specialists:
        [source], _ = list_neighbours(builder, beside.beside)
        node = _make_specialist(beside, prompt, builder)
        _add_node(name, builder, beside.agent, node, builder.state_schema)
        builder.add_edge(source, beside.agent).add_edge(beside.agent, beside.merge)
    for route in edits.routes:
        _add_route(name, builder, route)
    made = builder.compile()
    made.__dict__.update({key: value for key, value in graph.__dict__.items() if key not in MADE})
    return made


def _insert_agent(
    name: str, builder: StateGraph[Any, Any, Any, Any], found: Insertion, node: Any, schema: type[Any]
) -> None:
    if faults := _list_missing(builder, found):
        raise ConfigError(
            f"agent {found.agent!r} needs {faults[0]}, which {name!r} does not have any more; put it back, "
            "evolve the graph anew, or name the graph itself if its source has this agent by now"
        )
    _add_node(name, builder, found.agent, node, schema)
    if found.is_conditional:
        [(router, branch)] = builder.branches[found.after].items()
        ends = {key: found.agent if end in found.before else end for key, end in (branch.ends or {}).items()}
        builder.branches[found.after] = {router: branch._replace(ends=ends)}
    else:
        builder.edges -= {(found.after, end) for end in found.before}
        builder.add_edge(found.after, found.agent)
    for end in found.before:
        builder.add_edge(found.agent, end)


def _add_route(name: str, builder: StateGraph[Any, Any, Any, Any], route: RoutedFork) -> None:
    """Lead from the node before some successors to one that chooses, and from that to the chosen one."""
    sources = {source for source, end in builder.edges if end in route.ends}
    edges = {(source, end) for source in sources for end in route.ends}
    joins = set[tuple[tuple[str, ...], str]]()
    why = "edges do not lead to them from one node any more"
    if len(sources) == 1 and edges <= builder.edges:
        joins, why = _find_joins(builder, find_branches(builder, min(sources), route.ends))
    if why:
        raise ConfigError(
            f"agent {route.agent!r} chooses one of {', '.join(route.ends)}, which {name!r} does not allow any more: "
            f"{why}; put the edges back, or evolve the graph anew"
        )
    builder.edges = builder.edges - edges | {(source, end) for several, end in joins for source in several}
    builder.waiting_edges -= joins
    _add_node(name, builder, route.agent, _make_choice(route), builder.state_schema, route.ends)
    builder.add_edge(sources.pop(), route.agent)


def _make_choice(route: RoutedFork) -> RunnableLambda[Any, Any]:
    """The node that has the router of the context choose a successor."""

    def go_to(state: Any, chosen: str) -> Command[Any]:
        idle = {field for fields in route.fields.values() for field in fields} - {*route.fields.get(chosen, ())}
        absent = sorted(idle.difference(state)) if isinstance(state, Mapping) else ()
        return Command(goto=chosen, update=dict.fromkeys(absent, ""))

    def choose(state: Any) -> Command[Any]:
        return go_to(state, run_sync(_CHOOSE.get()(route, state)))

    async def choose_async(state: Any) -> Command[Any]:
        return go_to(state, await _CHOOSE.get()(route, state))

    return RunnableLambda(choose, choose_async, name=route.agent)


def _add_node(
    name: str,
    builder: StateGraph[Any, Any, Any, Any],
    agent: str,
    node: Any,
    schema: type[Any],
    ends: tuple[str, ...] | None = None,
) -> None:
    try:
        builder.add_node(agent, node, input_schema=schema, destinations=ends)
    except ValueError as error:  # a node or a field of the program has this name by now
        raise ConfigError(f"agent {agent!r} cannot be a node of {name!r}: {error}; rename that one") from error


def _extend_state(builder: StateGraph[Any, Any, Any, Any], found: Insertion, beside: Specialist) -> type[Any]:
    """Make the state of an agent that joins two texts: the fields that it reads, and that of the specialist."""
    hints = get_type_hints(builder.state_schema, include_extras=True)
    own = {field: hints[field] for field in (found.field, found.question) if field in hints}
    made: type[Any] = TypedDict("Joined", {**own, beside.channel: str})  # type: ignore[misc]
    return made


def list_neighbours(builder: StateGraph[Any, Any, Any, Any], node: str) -> tuple[list[str], list[str]]:
    """List the nodes from which edges lead to a node, and those to which they lead from it."""
    edges = sorted(builder.edges)
    return [source for source, end in edges if end == node], [end for source, end in edges if source == node]


def _list_missing(builder: StateGraph[Any, Any, Any, Any], found: Insertion) -> list[str]:
    """List what an insertion needs and a builder does not have."""
    there = list_conditional_edges(builder) if found.is_conditional else builder.edges
    edges = [end for end in found.before if (found.after, end) not in there]
    fields = [field for field in (found.field, found.question) if field and field not in builder.channels]
    return [
        *(f"the edge {ENDS.get(found.after, found.after)} -> {ENDS.get(end, end)}" for end in edges),
        *(f"the field {field!r} of the state" for field in fields),
    ]


def _copy_builder(builder: StateGraph[Any, Any, Any, Any]) -> StateGraph[Any, Any, Any, Any]:
    """A builder that can be changed without changing the given one."""
    made = copy(builder)
    made.__class__ = StateGraph  # methods of a subclass would add again what they have added
    made.compiled = False
    # compiling adds a node of its own for errors, and would add it again
    made.nodes = {key: node for key, node in builder.nodes.items() if key != "__default_error_handler__"}
    made.edges, made.waiting_edges = {*builder.edges}, {*builder.waiting_edges}
    made.branches = defaultdict(dict, {key: {**branches} for key, branches in builder.branches.items()})
    made.channels, made.managed, made.schemas = {**builder.channels}, {**builder.managed}, {**builder.schemas}
    return made


def _make_node(found: Insertion, prompt: str, root: str, joined: str = "") -> RunnableLambda[Any, Any]:
    """The node of an inserted agent; it asks the model that the node `root` has asked in this run.

    Args:
        joined: field of a specialist's text, which it reads too; "" for none.
    """

    def ask(state: Any) -> Any:
        model, text = _find_model(root), _read(state, found.field)
        return _make_update(found, text, model.invoke(_make_request(found, state, prompt, joined)))

    async def ask_async(state: Any) -> Any:
        model, text = _find_model(root), _read(state, found.field)
        return _make_update(found, text, await model.ainvoke(_make_request(found, state, prompt, joined)))

    return RunnableLambda(ask, ask_async, name=found.agent)


def _make_specialist(
    beside: Specialist, prompt: str, builder: StateGraph[Any, Any, Any, Any]
) -> RunnableLambda[Any, Any]:
    """The node of a specialist, which asks the model that stands in the code of the node beside it."""
    own = find_own_model(builder.nodes[beside.beside].runnable)

    def make_request(state: Any) -> str | list[Any]:
        if beside.field == MESSAGES:
            return [*_read(state, MESSAGES), HumanMessage(f"{prompt}\n\n{BOTH}")]
        tags = {"task" if field == beside.question else field: field for field in beside.reads}
        texts = [f"<{tag}>\n{_read(state, field)}\n</{tag}>\n\n" for tag, field in tags.items()]
        return f"{''.join(texts)}{prompt}\n\n{BOTH}"

    def ask(state: Any) -> Any:
        return {beside.channel: (own or _find_model(beside.beside)).invoke(make_request(state)).text}

    async def ask_async(state: Any) -> Any:
        return {beside.channel: (await (own or _find_model(beside.beside)).ainvoke(make_request(state))).text}

    return RunnableLambda(ask, ask_async, name=beside.agent)


def find_own_model(node: Any) -> BaseChatModel | None:
    """Find the only chat model that the code of a node names; None if that is not known."""
    codes = [code for name in ("func", "afunc") if isfunction(code := getattr(node, name, None))]
    found = list[BaseChatModel]()
    named = [value for code in codes for value in get_function_nonlocals(code)]
    for value in (getattr(method, "__self__", method) for method in named):  # model.invoke is a method of model
        for part in getattr(value, "steps", [value]):
            while isinstance(part, RunnableBinding):
                part = part.bound
            if isinstance(part, BaseChatModel) and part not in found:
                found.append(part)
    return found[0] if len(found) == 1 else None


def _find_model(root: str) -> Any:
    layer = get_layer()
    assert layer is not None, "a graph with inserted agents runs under a layer"
    return layer.find_model(root)


def _read(state: Any, field: str) -> Any:
    return state[field] if isinstance(state, Mapping) else getattr(state, field)


def _make_request(found: Insertion, state: Any, prompt: str, joined: str) -> str | list[Any]:
    """The request of an inserted agent: the task and the text, and below them what it is to do."""
    text = _read(state, found.field)
    if joined:
        prompt = f"<more>\n{_read(state, joined)}\n</more>\n\n{prompt}"
    if found.field == MESSAGES:
        return [*text, HumanMessage(f"{prompt}\n\n{LAST}")]
    task = f"<task>\n{_read(state, found.question)}\n</task>\n\n" if found.question else ""
    return f"{task}<text>\n{text}\n</text>\n\n{prompt}\n\n{IN_TAGS}"


def _make_update(found: Insertion, text: Any, reply: BaseMessage) -> dict[str, Any]:
    if found.field != MESSAGES:
        return {found.field: reply.text}
    return {MESSAGES: [reply.model_copy(update={"id": text[-1].id})]}


class UpdateReader(BaseCallbackHandler):
    """Notes which fields the nodes of a graph write texts to.

    Attributes:
        fields: by node, whether each field that it wrote was a text every time; of `messages`, an answer at the end.
        led: by node and what its router returned, the fields to which it wrote a text or an answer every time.
        passed: by node, whether it only asked models, and each field that it wrote had such a text already.
        read: by node, fields whose text stood in a request of it.
    """

    run_inline = True

    def __init__(self) -> None:
        self.fields: dict[str, dict[str, bool]] = {}
        self.led: dict[str, dict[str, list[str]]] = {}
        self.passed: dict[str, bool] = {}
        self.read: dict[str, list[str]] = {}
        self._nodes: dict[UUID, tuple[str, Any]] = {}
        self._returned: dict[UUID, Any] = {}

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, metadata: dict[str, Any] | None = None, **given: Any
    ) -> None:
        """Note the run of a node of the outermost graph."""
        place, node = str((metadata or {}).get("langgraph_checkpoint_ns", "")), get_node(metadata)
        if "|" in place:  # a graph inside the node
            self.passed[node] = False
        elif given.get("name") == node and any(tag.startswith("graph:step:") for tag in given.get("tags") or ()):
            self._nodes[run_id] = node, inputs

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, metadata: dict[str, Any] | None = None, **given: Any
    ) -> None:
        """Note which fields of the state a request shows."""
        node = get_node(metadata)
        sent = "\n".join(str(message.text) for each in messages for message in each)
        for state in [state for name, state in self._nodes.values() if name == node]:
            known = self.read.setdefault(node, [])
            for field, value in dict(state if isinstance(state, Mapping) else getattr(state, "__dict__", {})).items():
                parts = value if field == MESSAGES and isinstance(value, list) else [value]
                texts = [str(getattr(part, "text", part)).strip() for part in parts]
                if field not in known and any(text and text in sent for text in texts):
                    known.append(field)

    def on_tool_start(
        self, serialized: Any, input_str: str, *, metadata: dict[str, Any] | None = None, **given: Any
    ) -> None:
        """Note that a node does more than ask a model."""
        self.passed[get_node(metadata)] = False

    def on_chain_end(
        self,
        outputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **given: Any,
    ) -> None:
        """Note what a node has written, and what its router has returned."""
        if parent_run_id in self._nodes and FIRST not in (tags or ()):
            self._returned[parent_run_id] = outputs  # routers are the last that a node runs
        node, state = self._nodes.pop(run_id, ("", None))
        returned = self._returned.pop(run_id, ())
        update = outputs.update if isinstance(outputs, Command) else outputs
        update = update if isinstance(update, Mapping) else {}  # a visit that writes nothing counts
        if node:
            known = self.fields.setdefault(node, {})
            for field, value in update.items():
                known[str(field)] = known.get(str(field), True) and _is_answer(field, value)
        if node and returned is not outputs:  # else it is the last step of what the node is, and there is no router
            is_several = isinstance(returned, list | tuple)  # which run at once
            texts = [] if is_several else [str(field) for field, value in update.items() if _is_answer(field, value)]
            for key in map(_name_returned, returned if is_several else [returned]):
                led = self.led.setdefault(node, {})
                led[key] = [field for field in texts if field in led.get(key, texts)]
        if node:
            stood = isinstance(outputs, Mapping) and all(_stands(state, *pair) for pair in outputs.items())
            self.passed[node] = self.passed.get(node, True) and stood

    def list_texts(self) -> dict[str, list[str]]:
        """Fields that were texts every time, by node."""
        return {node: [name for name, is_text in fields.items() if is_text] for node, fields in self.fields.items()}


def _stands(state: Any, field: Any, new: Any) -> bool:
    """Whether a text that a node writes takes the place of one that the state has."""
    old = state.get(field) if isinstance(state, Mapping) else getattr(state, str(field), None)
    return bool(old) and _is_answer(field, old) and _is_answer(field, new)


def _name_returned(value: Any) -> str:
    """Name what a router returns, or a key of its mapping; a member of an Enum is its value."""
    return str(value.value if isinstance(value, Enum) else value)


def _is_answer(field: Any, value: Any) -> bool:
    if field != MESSAGES:
        return isinstance(value, str)
    last = value[-1] if isinstance(value, list) and value else value
    return isinstance(last, AIMessage) and not last.tool_calls


def find_places(graph: Any, runs: Iterable[Trajectory], question: str) -> dict[str, Insertion]:
    """Find where an agent may be inserted, by name: behind nodes that only edges of the builder lead from, or a router.

    A place needs a field that it may read and write: `messages`, or a text that each run of the node has written, on a
    conditional edge each that led there. A node beside others that run at once is no place, as those behind it would
    run twice.

    Args:
        graph: with the agents that are inserted already.
        runs: of it, whose notes say what nodes wrote.
        question: field of the state that holds the question; "" if none does.

    Returns:
        Insertions without an agent yet, whose name stands for one.
    """
    if not isinstance(graph, CompiledStateGraph):
        return {}
    wrote, led = dict[str, dict[str, None]](), dict[tuple[str, str], list[Sequence[str]]]()
    for run in runs:
        for node, fields in run.notes.get(WROTE, {}).items():
            wrote.setdefault(node, {}).update(dict.fromkeys(fields))
        for node, by_key in run.notes.get(LED, {}).items():
            for key, fields in by_key.items():
                led.setdefault((node, key), []).append(fields)
    builder, texts = graph.builder, list_text_fields(graph)
    wrote[START] = dict.fromkeys([question] if question else [])
    asked = question if question in texts else ""
    ways = [(node, ends, [*wrote.get(node, ())], False) for node, ends in list_fixed_edges(builder).items()]
    for (node, end), keys in list_conditional_edges(builder).items():
        times = [fields for key in keys for fields in led.get((node, key), ())]
        written = [field for field in times[0] if all(field in fields for fields in times)] if times else []
        ways.append((node, (end,), written, True))
    return {
        found.name: found
        for node, ends, written, is_conditional in ways
        for field in written
        if field in texts or (field == MESSAGES and _has_history(builder))
        for found in [
            Insertion(
                agent="new",
                after=node,
                before=ends,
                field=field,
                question="" if MESSAGES == field or field == asked else asked,
                is_conditional=is_conditional,
            )
        ]
    }


def find_specialists(
    graph: Any, variant: Any, runs: Iterable[Trajectory], places: Iterable[Insertion]
) -> tuple[dict[str, Specialist], dict[str, str]]:
    """Find the nodes beside which an agent may work, by name, and why none may work beside the others.

    Args:
        graph: of the program.
        variant: with the edits that there are already.
        runs: whose notes say what nodes read.
        places: where an agent may be inserted behind a node, which makes one text of what both write.
    """
    found, hindrances = dict[str, Specialist](), dict[str, str]()
    reads = dict[str, dict[str, None]]()
    for run in runs:
        for node, fields in run.notes.get(READ, {}).items():
            reads.setdefault(node, {}).update(dict.fromkeys(fields))
    for place in places:
        node = place.after
        if node == START or node not in graph.builder.nodes or place.is_conditional:
            continue
        texts = [MESSAGES] if place.field == MESSAGES else list_text_fields(variant)
        read = tuple(field for field in texts if field in reads.get(node, ()))
        before, _ = list_neighbours(graph.builder, node)
        made = Specialist(
            agent="new", beside=node, after=before[0] if before else "", field=place.field, reads=read,
            question=place.question,
        )  # fmt: skip
        if len(list_neighbours(variant.builder, node)[0]) != 1 or not _is_led_to_by_edges(variant.builder, node):
            hindrances[made.name] = "not one edge of the builder alone leads to it"
        elif not read:
            hindrances[made.name] = f"no field of the state is known that {node} shows to its model"
        elif find_own_model(graph.builder.nodes[node].runnable) is None:
            hindrances[made.name] = f"the code of {node} does not name one chat model, which the second agent could ask"
        else:
            found[made.name] = made
    return found, hindrances


def _list_first(team: Team) -> set[str]:
    """List the agents that are sent first: those that are inserted at the entry, and the first prompt behind them."""
    inserted, nodes = {place.agent for place in list_insertions(team)}, [team.topology.entry]
    for node in nodes:
        nodes += team.topology.successors[node] if team.topology.agents[node] in inserted else ()
    return {team.topology.agents[node] for node in nodes}


def find_removals(
    graph: Any, runs: Iterable[Trajectory] | None, texts: Mapping[str, Sequence[str]], team: Team
) -> tuple[list[Removal], dict[str, str]]:
    """Find the nodes of a program that may be left out, and why the others may not, by node.

    Args:
        graph: of the program, without the edits of a team.
        runs: whose notes say what nodes did; None if that does not count.
        texts: names of those that one node alone sends, by node.
        team: whose entry stays, and in whose graph no inserted agent stands beside the node.
    """
    if not isinstance(graph, CompiledStateGraph):
        return [], {}
    passed = dict[str, bool]()
    for run in runs or ():
        for node, has_passed in run.notes.get(PASSED, {}).items():
            passed[node] = passed.get(node, True) and has_passed
    found, hindrances = list[Removal](), dict[str, str]()
    fixed, gone = list_fixed_edges(graph.builder), {removal.node for removal in list_removals(team)}
    beside = {node for place in list_insertions(team) for node in (place.after, *place.before)}
    beside |= {found.beside for found in list_specialists(team)}
    split = {found.after for found in list_specialists(team)}  # one edge leads to an agent beside a node
    first = _list_first(team)
    for node in graph.builder.nodes.keys() - gone:
        sources, targets = list_neighbours(graph.builder, node)
        own = texts.get(node, ())
        if why := _find_hindrance(graph, node, fixed):
            hindrances[node] = why
        elif not own:
            hindrances[node] = "no prompt is known that it alone sends"
        elif first & {*own}:
            hindrances[node] = "its prompt is the first of the program, with which every run begins"
        elif node in beside or (len(sources) > 1 and node in split):
            hindrances[node] = "an inserted agent stands beside it"
        elif runs is not None and not passed.get(node):
            hindrances[node] = "it does more than ask a model and write over a text that stood there already"
        else:
            found.append(Removal(node=node, after=tuple(sources), before=targets[0], agents=tuple(own)))
    return sorted(found, key=lambda removal: removal.node), hindrances


def find_forks(graph: Any) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Find the nodes one of whose successors may run in place of all, with these; and why not the others with several.

    These are nodes that only edges of the builder lead from; each of their successors is led to from nowhere else.
    """
    if not isinstance(graph, CompiledStateGraph):
        return {}, {}
    builder, forks, hindrances = graph.builder, dict[str, tuple[str, ...]](), dict[str, str]()
    ways, fixed = list_ways(builder), list_fixed_edges(builder)
    for node in sorted({source for source, _ in builder.edges}):
        _, ends = list_neighbours(builder, node)
        elsewhere = [end for end in ends if sum(end in targets for targets in ways.values()) > 1]
        if len(ends) < 2:
            continue
        if unknown := [name for name in find_reachable(ways, ends) if None in _list_branch_ends(builder, name)]:
            why = f"code behind {unknown[0]} does not say where it leads; annotate it with a Literal"
        elif END in ends:
            why = "one of its edges leads to END"
        elif elsewhere:
            why = f"{elsewhere[0]} is led to from elsewhere too"
        elif node not in fixed:
            why = "code decides too where it leads, or another node waits for it and others"
        else:
            _, why = _find_joins(builder, find_branches(builder, node, tuple(ends)))
        if why:
            hindrances[node] = why
        else:
            forks[node] = tuple(ends)
    return forks, hindrances


def find_branches(
    builder: StateGraph[Any, Any, Any, Any], node: str, ends: tuple[str, ...]
) -> dict[str, frozenset[str]]:
    """Find the nodes that run after one successor of a node alone, by successor, which is one of them."""
    ways = {**list_ways(builder), node: []}
    reached = {end: {*find_reachable(ways, [end])} - {node, END} for end in ends}
    return {
        end: frozenset(own.difference(*(reached[other] for other in ends if other != end)))
        for end, own in reached.items()
    }


def _find_joins(
    builder: StateGraph[Any, Any, Any, Any], branches: Mapping[str, frozenset[str]]
) -> tuple[set[tuple[tuple[str, ...], str]], str]:
    """Find the edges that wait for a node of each of several branches, and why one could not wait for one of them."""
    joins = set[tuple[tuple[str, ...], str]]()
    for several, end in builder.waiting_edges:
        waits = [len(branch.intersection(several)) for branch in branches.values()]
        if sum(waits) and max(waits) < len(several):
            if sum(waits) != len(several) or max(waits) > 1:
                return set(), f"{end} waits for {' and '.join(several)}, and not for one node behind each of several"
            joins.add((several, end))
    return joins, ""


def list_ways(builder: StateGraph[Any, Any, Any, Any]) -> dict[str, list[str]]:
    """List the nodes to which edges of any kind lead from each; all of them from code that does not say it."""
    ways: dict[str, list[str]] = {node: [] for node in (START, *builder.nodes, END)}
    for source, end in [
        *builder.edges,
        *((source, end) for several, end in builder.waiting_edges for source in several),
    ]:
        ways[source].append(end)
    for node in (START, *builder.nodes):
        ends = _list_branch_ends(builder, node)
        ways[node] += builder.nodes if None in ends else [end for end in ends if end is not None]
    return ways


def _list_branch_ends(builder: StateGraph[Any, Any, Any, Any], node: str) -> list[str | None]:
    """List the nodes to which code leads from a node, as far as it says it; None if it does not."""
    mappings = [branch.ends for branch in builder.branches.get(node, {}).values()]
    named = builder.nodes[node].ends if node in builder.nodes else ()
    shown = [end for ends in mappings if ends is not None for end in ends.values()]
    return [*(named or ()), *shown, *(None for ends in mappings if ends is None)]


def _is_led_to_by_edges(builder: StateGraph[Any, Any, Any, Any], node: str) -> bool:
    """Whether nothing leads to a node but edges that are each the only one of their node; no code that decides."""
    (sources, _), fixed = list_neighbours(builder, node), list_fixed_edges(builder)
    ends = [branch.ends for branches in builder.branches.values() for branch in branches.values()]
    jumps = {end for spec in builder.nodes.values() for end in spec.ends or ()}
    jumps |= {end for mapping in ends for end in (mapping or {node: node}).values()}
    jumps |= {target for _, target in builder.waiting_edges}
    return bool(sources) and node not in jumps and all(fixed.get(source) == (node,) for source in sources)


def _find_hindrance(
    graph: CompiledStateGraph[Any, Any, Any, Any], node: str, fixed: Mapping[str, tuple[str, ...]]
) -> str:
    """Find why the builder cannot do without a node; "" if it can."""
    builder, paused = graph.builder, (graph.interrupt_before_nodes, graph.interrupt_after_nodes)
    sources, targets = list_neighbours(builder, node)
    if not _is_led_to_by_edges(builder, node) or len(targets) != 1 or node not in fixed:
        return "not edges of the builder alone lead to it, each the only one of its node, and one from it"
    if START in sources and END in targets:
        return "no other node would be left"
    if any(nodes == "*" or node in nodes for nodes in paused):
        return "the program waits for a person at it"
    runnable, spec = builder.nodes[node].runnable, builder.nodes[node]
    codes = [getattr(getattr(runnable, name, None), "__code__", None) for name in ("func", "afunc")]
    if any("interrupt" in code.co_names for code in codes if code is not None):
        return "the program waits for a person at it"
    if isinstance(runnable, Pregel) or spec.defer or {"store", "writer"} & {*getattr(runnable, "func_accepts", ())}:
        return "it is a graph of its own, waits for others, or writes elsewhere than into the state"
    return ""


def list_fixed_edges(builder: StateGraph[Any, Any, Any, Any]) -> dict[str, tuple[str, ...]]:
    """List the nodes that only edges of the builder lead from, with the ends of these; without those side by side.

    An agent of LangChain's has none, as its builder is not the program's.
    """
    if _is_of_agent(builder):
        return {}
    ends = _list_ends(builder)
    sources = [target for targets in ends.values() for target in targets if target != END]
    has_fork = any(len(targets) > 1 for targets in ends.values())
    joined = {source for several, _ in builder.waiting_edges for source in several}

    def is_free(node: str, targets: Sequence[str]) -> bool:
        decides = builder.branches.get(node) or (node in builder.nodes and builder.nodes[node].ends)
        return not decides and node not in joined and not (has_fork and any(sources.count(t) > 1 for t in targets))

    return {node: tuple(targets) for node, targets in ends.items() if is_free(node, targets)}


def list_conditional_edges(builder: StateGraph[Any, Any, Any, Any]) -> dict[tuple[str, str], tuple[str, ...]]:
    """List the edges by which one router alone leads from a node, each with what the router returns for it.

    The builder holds their ends, and no other edge leads there from the node; without nodes side by side, and without
    those of an agent of LangChain's.
    """
    if _is_of_agent(builder):
        return {}
    fixed, ways = _list_ends(builder), list_ways(builder)
    has_fork = any(len(targets) > 1 for targets in fixed.values())
    others = {*fixed, *(source for several, _ in builder.waiting_edges for source in several), START}
    found = dict[tuple[str, str], tuple[str, ...]]()
    for node, branches in builder.branches.items():
        mappings = [branch.ends for branch in branches.values()]
        if node in others or len(mappings) != 1 or node not in builder.nodes or builder.nodes[node].ends:
            continue
        for end in dict.fromkeys((mappings[0] or {}).values()):
            if end == END or not has_fork or sum(end in targets for targets in ways.values()) == 1:
                found[node, end] = tuple(
                    _name_returned(key) for key, target in (mappings[0] or {}).items() if target == end
                )
    return found


def _list_ends(builder: StateGraph[Any, Any, Any, Any]) -> dict[str, list[str]]:
    """List the ends of the edges of a builder, by the nodes from which they lead."""
    ends = dict[str, list[str]]()
    for source, target in sorted(builder.edges):
        ends.setdefault(source, []).append(target)
    return ends


def has_open_edges(graph: Any) -> bool:
    """Whether an agent may be inserted somewhere in a graph."""
    return isinstance(graph, CompiledStateGraph) and bool(
        list_fixed_edges(graph.builder) or list_conditional_edges(graph.builder)
    )


def _is_of_agent(builder: StateGraph[Any, Any, Any, Any]) -> bool:
    """Whether a builder is that of an agent of LangChain's."""
    actions = [getattr(node.runnable, "func", None) for node in builder.nodes.values()]
    return any(str(getattr(action, "__module__", "")).startswith(AGENTS) for action in actions)


def tell_closed(graph: Any) -> str:
    """Tell why no agent may be inserted anywhere in a graph, and what would allow it; "" if one may."""
    if not isinstance(graph, CompiledStateGraph):
        return f"no agent can be inserted: the graph is no StateGraph, whose edges can be split; {WAY_OUT}"
    if _is_of_agent(graph.builder):
        return f"no agent can be inserted: nodes and edges of such an agent are those of its package; {WAY_OUT}"
    if not has_open_edges(graph):
        return (
            "no agent can be inserted: behind each node code decides where the graph goes on, or nodes run side by "
            "side; an edge of the builder from one node to one other, such as one to END, could be split, and those of "
            "a router whose ends a Literal or a path_map says"
        )
    return ""


def list_text_fields(graph: CompiledStateGraph[Any, Any, Any, Any]) -> list[str]:
    """List the fields of the state that are a text and keep the last one written."""
    builder = graph.builder
    with suppress(NameError, TypeError):  # names that only a type checker knows
        hints = get_type_hints(builder.state_schema)
        return [
            name
            for name, kind in hints.items()
            if is_text_type(kind) and isinstance(builder.channels.get(name), LastValue)
        ]
    return []


def _has_history(builder: StateGraph[Any, Any, Any, Any]) -> bool:
    """Whether the state keeps messages."""
    return isinstance(builder.channels.get(MESSAGES), BinaryOperatorAggregate)


def is_text_type(kind: Any) -> bool:
    """Whether a type of a field is a text."""
    if get_origin(kind) in (Required, NotRequired, Annotated):
        return is_text_type(get_args(kind)[0])
    return kind is str or (get_origin(kind) in (Union, UnionType) and str in get_args(kind))


def list_chains(insertions: Iterable[Insertion]) -> Iterator[tuple[str, tuple[str, ...], list[Insertion]]]:
    """List the inserted agents behind each node of the program, in order, with the ends of the program's edges."""
    chains = list[tuple[str, tuple[str, ...], list[Insertion]]]()
    for found in insertions:
        for after, ends, chain in chains:
            names = [known.agent for known in chain]
            if found.after in names:
                chain.insert(names.index(found.after) + 1, found)
                break
            if found.after == after and (not found.is_conditional or {*found.before} & {*ends, *names}):
                chain.insert(0, found)
                break
        else:
            chains.append((found.after, found.before, [found]))
    yield from chains
