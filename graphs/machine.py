"""A method as a LangGraph: its typed state, what a step is given, and the graph that is made of its steps.

A method declares its state as a class with one annotation per channel; the class is the graph's schema. A node gets a
view of the channels that decodes a field when it is first read, and returns `state.update(...)`, which is the only
encoder. Checkpoints, streams and traces hold plain JSON. Everything else that a step needs is one `Ctx`.
"""

import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, Self, TypeVar, get_type_hints

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config, set_config_context
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.chat import Prompts
from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.errors import (
    BudgetError,
    ConfigError,
    StoppedError,
    TaskError,
    format_faults,
    format_first_fault,
    name_arguments,
)
from selfwire.core.protocols import AgentRunner, Embedder, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Objective, Usage
from selfwire.core.values import FrozenMap, FrozenModel, fingerprint, is_id
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.graphs.checkpoints import MethodStateGraph
from selfwire.graphs.team import compile_team, make_team_node
from selfwire.models.budget import Ledger, enforce_deadline
from selfwire.models.sync import run_sync
from selfwire.nodes.agent import make_agent_runner
from selfwire.tools.own import add_own_tools

if TYPE_CHECKING:
    from selfwire.store.library import Version

REQUIRED: Any = object()
"""Default of a field that must be written before it is read."""

Update = dict[str, Any]
"""What a node returns: changed channels as JSON."""


class _Field:
    """A channel of the state; a non-data descriptor, so that a decoded value hides it in the instance."""

    def __init__(self, name: str, annotation: Any, default: Any) -> None:
        self.name, self.annotation, self.default = name, annotation, default

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Made when it is first needed, so that importing a method is quick."""
        return TypeAdapter(self.annotation)

    def __get__(self, state: "State | None", owner: type) -> Any:
        if state is None:
            return self
        value = self.decode(state.channels)
        vars(state)[self.name] = value
        return value

    def decode(self, channels: Mapping[str, Any]) -> Any:
        """The typed value; the default where nothing is written.

        Raises:
            KeyError: nothing is written, and there is no default.
            ConfigError: it is of another type, as where somebody has edited a checkpoint.
        """
        found = channels.get(self.name, REQUIRED)
        if found is REQUIRED or (self.default is None and found == {}):  # 0.1.0 wrote {} for None
            if self.default is REQUIRED:
                raise KeyError(f"{self.name} is not in the state yet")
            return self.default
        try:
            return self.adapter.validate_python(found)
        except ValidationError as error:
            raise make_state_error(self.name, format_first_fault(error)) from None

    def encode(self, value: Any) -> Any:
        """The value as JSON; validated first, as pydantic warns of a list where a tuple is declared."""
        return self.adapter.dump_python(self.adapter.validate_python(value), mode="json")


def make_state_error(name: str, fault: str) -> ConfigError:
    """Make the error of a field of an edited checkpoint."""
    return ConfigError(
        f"{name} of the state cannot be used: {fault}; edit it once more, or go on from an earlier checkpoint"
    )


class Input(TypedDict, total=False):
    """Input of a run: a question, or messages whose last human one is the question."""

    question: str
    messages: Annotated[list[AnyMessage], add_messages]


ASKED = ("question", "messages", "asked")
"""Channels that the input writes."""


class State:
    """Channels of every method's graph.

    Attributes:
        question: the user's question; the graph's input.
        answer: the graph's output; None until there is one.
        messages: of a chat client's thread; empty where only questions were asked.
        asked: id of the last human message that a run was asked.
        id, kind: the question's id, and the benchmark's name for its sort; "" for a question that is only a text.
    """

    question: str = ""
    answer: str | None = None
    messages: Annotated[list[AnyMessage], add_messages] = []  # noqa: RUF012
    asked: str = ""
    id: str = ""
    kind: str = ""
    scope: Scope
    usage: Usage = Usage()

    def __init__(self, channels: Mapping[str, Any]) -> None:
        self.channels = channels

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, annotation in get_type_hints(cls, include_extras=True).items():
            default = getattr(cls, name, REQUIRED)
            setattr(cls, name, _Field(name, annotation, default.default if isinstance(default, _Field) else default))

    def __contains__(self, name: str) -> bool:
        return bool(self.channels.get(name))

    @property
    def place(self) -> Scope:
        """Place in the run of the steps to come; a method with rounds of learning has one for each."""
        return self.scope

    def get_question(self) -> Question:
        """The question; one that is only a text has its fingerprint as id."""
        return Question(id=self.id or fingerprint(self.question), input=self.question, kind=self.kind)

    @classmethod
    def restart(cls, question: Question, scope: Scope, **given: Any) -> Update:
        """The update with which a new question begins: what an earlier one of the thread has left is forgotten.

        Args:
            given: fields that do not return to their defaults.
        """
        fields = [field for field in vars(cls).values() if isinstance(field, _Field) and field.name not in ASKED]
        fresh = {field.name: field.default for field in fields if field.default is not REQUIRED}
        return cls.update(**{**fresh, "id": question.id, "kind": question.kind, "scope": scope, **given})

    @classmethod
    def update(cls, **changes: Any) -> Update:
        """Changed fields as the channels keep them.

        Raises:
            AttributeError: there is no such field.
            ValueError: a value is not of the field's type.
        """
        return {name: getattr(cls, name).encode(value) for name, value in changes.items()}

    def after(self, update: Mapping[str, Any]) -> Self:
        """The state with an update laid over it."""
        return type(self)({**self.channels, **update})


Channels = TypeVar("Channels")

DETACHED: RunnableConfig = {"configurable": {"__pregel_checkpointer": None, "__pregel_durability": "exit"}}
"""Config of an inner graph that runs many times in one node: LangGraph would tell the runs apart by the order
in which they start, which a resumed run does not repeat; the journal recovers such runs instead."""


class DecisionNode(Runnable[Channels, str]):
    """A conditional edge in both forms; a RunnableLambda opens a traced run, a plain function a thread every time."""

    name = "choice"

    def __init__(self, decide: Callable[[Channels], str]) -> None:
        self.decide = decide

    def invoke(self, input: Channels, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """Decide."""
        with set_config_context(ensure_config(config)) as context:  # so that the run's choices can be read
            return context.run(self.decide, input)

    async def ainvoke(self, input: Channels, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """Decide."""
        return self.invoke(input, config)


def make_node(step: Callable[[Channels], Coroutine[Any, Any, Any]]) -> RunnableLambda[Channels, Any]:
    """A node that serves `invoke` and `ainvoke`."""

    def run_blocking(state: Channels) -> Any:
        return run_sync(step(state))

    return RunnableLambda(run_blocking, afunc=step)


def take_question(channels: Mapping[str, Any]) -> dict[str, Any]:
    """The question of a human message that no run was asked before; {} where there is none.

    Raises:
        ConfigError: the message has more than text.
    """
    message = _find_last(channels)
    if message is None or message.id == channels.get("asked"):
        return {}
    return {"question": _read_text(message), "asked": message.id}


def append_answer(channels: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """The messages that an update's answer adds; an earlier answer to the same message is replaced."""
    message, answer = _find_last(channels), update.get("answer")
    if message is None or not answer or _read_text(message) != channels.get("question"):
        return {}
    return {"messages": [AIMessage(answer, id=f"{message.id}-answer")]}


def _find_last(channels: Mapping[str, Any]) -> HumanMessage | None:
    messages = channels.get("messages") or ()
    return next((asked for asked in reversed(messages) if isinstance(asked, HumanMessage)), None)


def _read_text(message: HumanMessage) -> str:
    content = message.content
    blocks = [content] if isinstance(content, str) else content
    kinds = {"text" if isinstance(block, str) else str(block.get("type")) for block in blocks}
    if other := sorted(kinds - {"text"}):
        raise ConfigError(f"a message is text only, and the last one has {', '.join(other)}; send another one")
    return "\n".join(block if isinstance(block, str) else str(block.get("text", "")) for block in blocks)


PROMPT = "prompt_"
"""Prefix of the fields that hold an agent's prompt; the agent's id follows."""


class RunContext(BaseModel):
    """Choices per run of every method; each field has a description.

    Raises:
        ConfigError: a choice is unknown or out of bounds.
    """

    model_config = ConfigDict(extra="forbid")

    seed: int = Field(default=0, ge=0, description="Seed of everything drawn.")
    model: str | None = Field(
        default=None, min_length=1, description="Chat model, such as openai:gpt-4o-mini; empty for the graph's own."
    )
    models: str | None = Field(
        default=None,
        min_length=1,
        description="Models that agents may ask instead, by name, such as cheap=openai:gpt-4o-mini.",
    )
    calls: int | None = Field(default=None, ge=1, description="Most model calls, within the graph's own budget.")
    tokens: int | None = Field(default=None, ge=1, description="Most tokens, within the graph's own budget.")
    workflow: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Saved team to run: a name, name@version or fingerprint.",
    )

    def __init__(self, **chosen: Any) -> None:
        try:
            super().__init__(**chosen)
        except ValidationError as error:
            raise ConfigError(
                f"context: {format_faults(error)}; choices are {', '.join(type(self).model_fields)}"
            ) from None

    @property
    def prompts(self) -> dict[str, str]:
        """Prompts that were edited for this run, by agent; a blank prompt is not an edit."""
        fields = type(self).model_fields
        given = {name: getattr(self, name) for name in fields if name.startswith(PROMPT)}
        return {
            name.removeprefix(PROMPT): text
            for name, text in given.items()
            if text.strip() and text != fields[name].default
        }


ContextT = TypeVar("ContextT", bound=RunContext)


def get_run_context(schema: type[ContextT]) -> ContextT:
    """The choices of the current run; the defaults where it has none of this class."""
    runtime = get_runtime(schema)  # None where the state of a thread is edited outside a run
    context = runtime.context if runtime else None
    return context if isinstance(context, schema) else schema()


def context_schema(schema: type[ContextT], team: Team, agent_nodes: Mapping[str, str] = FrozenMap()) -> type[ContextT]:
    """The class of choices for a graph that starts from a team, with an editable prompt per agent.

    Args:
        agent_nodes: where agents without a node work, by agent: a node of the method's own graph.
    """
    editable = []
    for agent in team.agents:
        nodes = [node.id for node in team.topology.nodes if node.agent == agent.id]
        nodes += [agent_nodes[agent.id]] if agent.id in agent_nodes else []
        editable.append((agent.id, agent.prompt, tuple(nodes)))
    made: type[ContextT] = _with_prompts(schema, tuple(editable))
    return made


@lru_cache(maxsize=256)
def _with_prompts(schema: type[RunContext], editable: tuple[tuple[str, str, tuple[str, ...]], ...]) -> Any:
    """Cached, as pydantic is slow at it and a method makes its graph anew for every question."""
    prompts: dict[str, Any] = {}
    for agent, prompt, nodes in editable:
        where: dict[str, Any] = {"langgraph_nodes": list(nodes), "langgraph_type": "prompt"}
        field = Field(default=prompt, description=f"Prompt of {agent}, for this run only.", json_schema_extra=where)
        prompts[PROMPT + agent] = (str, field)
    return create_model(schema.__name__, __base__=schema, **prompts)


def apply_prompt_edits(team: Team, context: RunContext) -> Team:
    """The team with the prompts that were edited for this run.

    Raises:
        ConfigError: an edited agent is not in the team any more.
    """
    prompts = context.prompts
    if not prompts:
        return team
    if gone := prompts.keys() - team.agents_by_id.keys():
        raise ConfigError(f"the team has no {', '.join(sorted(gone))}; agents are {', '.join(team.agents_by_id)}")
    edits = [RewritePrompt(agent, text) for agent, text in prompts.items()]
    return team.apply(Rewiring(*edits, why="edited for this run"))


AnswerGrader = Callable[[Question, str, Scope], Awaitable[Feedback]]
"""An environment that knows the reference by the question; the reference itself is nowhere in the state."""

TrajectoryGrader = Callable[[Trajectory, Scope], Awaitable[Trajectory]]
"""Grades a trajectory of a question of the batch by the environment; the method never sees the reference."""

Saver = Callable[[Team, Scope, int], Awaitable["Version"]]
"""Keeps an evolved team as a version; the number grows from save to save within a thread."""

ChooseTeam = Callable[[Any, Team | None], Awaitable[Team]]
"""Finds the team of a question from the run's context and the thread's team, if the thread has one."""


@dataclass(frozen=True)
class RunStart:
    """Team, question and place of a run's start, with its grader and its saver.

    Attributes:
        initial_team: the team that is drawn, and that questions start with.
        choose: finds the team of a run; by default the thread's, else the initial one.
        context: class of what can be chosen per run.
        scope: of the run; None takes the thread's id as run.
        question: with its id and kind; None makes one of the input's text.
    """

    initial_team: Team
    choose: ChooseTeam | None = None
    context: type[RunContext] = RunContext
    scope: Scope | None = None
    question: Question | None = None
    grader: AnswerGrader | None = None
    save: Saver | None = None

    async def choose_team(self, context: RunContext, thread_team: Team | None = None) -> Team:
        """The team that the question starts with; `thread_team` is the thread's, for methods that keep it."""
        return await self.choose(context, thread_team) if self.choose else thread_team or self.initial_team


def new_question(channels: Mapping[str, Any]) -> Question:
    """The question of an input; its text's fingerprint is its id.

    Raises:
        ConfigError: there is none, or it is blank.
    """
    text = channels.get("question")
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(
            'the input is {"question": "..."} or {"messages": [{"role": "user", "content": "..."}]} with a text that '
            f"is not blank; {'it has neither, and other keys are not read' if text is None else f'it has {text!r}'}"
        )
    return Question(id=fingerprint(text), input=text)


def get_run_name() -> str:
    """The running graph's thread as the name of a run; without one, a random name."""
    return str(get_config().get("configurable", {}).get("thread_id") or secrets.token_hex(8))


def name_limits(error: BudgetError, choices: RunContext, ledger: Ledger) -> None:
    """Put the choice of a run, or the argument of its graph, in place of the option that an error names."""
    for limit in ("calls", "tokens"):
        if (chosen := getattr(choices, limit)) is not None and chosen == getattr(ledger.budget, limit):
            error.args = (str(error).replace(f"--budget-{limit}", f"{limit} of the context"),)
    name_arguments(error, ["budget"])


def add_usage(before: Usage, more: Usage, ledger: Ledger | None) -> Usage:
    """Cost of a question so far: the state lacks failed asks, the ledger, if there is one, calls before a resume."""
    known = before + more
    return max(ledger.spent if ledger else known, known, key=lambda usage: usage.calls)


OptionsT = TypeVar("OptionsT", bound=FrozenModel)
StateT = TypeVar("StateT", bound=State)
Step = Callable[[Any, Any], Awaitable[Update]]
Decision = Callable[[Any, Any], str]
Graph = StateGraph[Any, Any, Any, Any]
Compiled = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True)
class Ctx(Generic[OptionsT]):
    """Everything a step needs beside its state; LangGraph's `context` of a method's graph.

    Attributes:
        model: chat models of agents, critics and judges.
        tools: by the name that agents hold.
        embed: compares texts by meaning.
        options: the method's config.
        prompts: the method's.
        start: team, question and scope that the run begins with, who grades an answer and who saves a team; None
            for a run that is entered with graded runs.
        scope: place in the run, set anew for every step; keys randomness, the journal and trace tags.
        choices: of a user for this run; None where a library or the outer loop runs the graph.
        budget: pays for the run; None where the caller counts.
        grade_run: grades further runs on questions of a batch, for methods that make some as they learn.
        frozen: parts of the team that must not change (`evolvers.frozen`), for methods that ask for no change of them.
        guide: what critics and rewriters are told beside their prompts.
        objective: the price of calls, for methods that learn from rewards; none by default.
        find_copy: finds the passage of a text that copies a train task, which no memory may keep; "" if there is none.
        ask_graph: puts a question to a team whose agents are texts of a graph of the user's own; None where agents work
            one by one.
    """

    model: Model
    tools: Toolbox
    embed: Embedder
    options: OptionsT
    prompts: Prompts
    start: RunStart | None = None
    scope: Scope = field(default_factory=Scope)
    choices: RunContext | None = None
    budget: Ledger | None = None
    grade_run: TrajectoryGrader | None = None
    frozen: tuple[str, ...] = ()
    guide: str = ""
    objective: Objective = field(default_factory=Objective)
    find_copy: Callable[[str], str] = lambda text: ""
    ask_graph: "GraphRunner | None" = None

    @cached_property
    def critic(self) -> PromptedModel:
        """The meta model and the judge with the method's prompts, at the temperature of its config."""
        temperature: float = getattr(self.options, "temperature", 1.0)
        return PromptedModel(self.model, self.prompts, temperature, guide=self.guide)

    def is_frozen(self, agent: str) -> bool:
        """Whether the prompt of an agent must not change."""
        return "prompts" in self.frozen or f"agent:{agent}" in self.frozen

    @property
    def served(self) -> bool:
        """Whether a user runs the graph, whose team is then part of it: drawn, streamed and checkpointed."""
        return self.choices is not None

    @property
    def team_config(self) -> RunnableConfig | None:
        """Config of a team that runs in a step; None makes it part of the running graph."""
        return None if self.served else DETACHED

    def where(self, scope: Scope | None = None, **place: str | int) -> "Ctx[OptionsT]":
        """Return the same context at another place, such as `ctx.where(scope)` or `ctx.where(phase="backward")`."""
        return replace(self, scope=(self.scope if scope is None else scope).at(**place))

    def with_question(self, team: Team, question: Question) -> "Ctx[OptionsT]":
        """Return the context of a run that puts this question to this team."""
        scope = self.scope.at(task=question.id)
        return replace(self, scope=scope, start=RunStart(team, scope=scope, question=question))

    async def begin(self, state: State, thread_team: Team | None = None) -> tuple[Question, Team, Scope]:
        """Question, team and place that a run begins with.

        Args:
            thread_team: the team that earlier questions of the thread left, for methods that go on with it.

        Raises:
            ConfigError: there is no question, or a choice cannot be used.
        """
        assert self.start is not None, "runs that begin with a question have a start"
        choices = self.choices or RunContext()
        question = self.start.question or new_question(state.channels)
        team = await self.start.choose_team(choices, thread_team)
        scope = self.start.scope or Scope(run=get_run_name(), seed=choices.seed)
        return question, team, scope.at(task=question.id)

    def edit(self, team: Team) -> Team:
        """The team with the prompts that a user edited for this run.

        Raises:
            ConfigError: the run evolves, which would keep the edits, or an edited agent is not in the team any more.
        """
        if self.choices and self.choices.prompts and getattr(self.choices, "evolve", False):
            raise ConfigError(
                f"prompts of {', '.join(self.choices.prompts)} are edited for this run only, and evolve would keep "
                "what it makes of them: take the edits back or turn evolve off"
            )
        return apply_prompt_edits(team, self.choices) if self.choices else team

    def require_answer(self, done: Trajectory) -> None:
        """Check that the run of a team has an answer, in a graph that a user runs; elsewhere the trajectory says so.

        Raises:
            TaskError: it has none.
        """
        if self.served and done.answer is None:
            raise TaskError(f"{done.error}; invoke the thread again with None to retry")

    def make_runner(self, team: Team) -> AgentRunner:
        """Make the runner of a team's agents, with their tools and the team's own."""
        temperature = getattr(self.options, "temperature", None)
        return make_agent_runner(self.model, self.get_tools(team), temperature=temperature)

    def get_tools(self, team: Team) -> Toolbox:
        """The tools of the run, and those that the team has written."""
        return add_own_tools(self.tools, team) if team.tools else self.tools


GraphRunner = Callable[[Team, Question, Ctx[Any]], Awaitable[Trajectory]]


class CtxFactory(Protocol):
    """A maker of the contexts of runs of a graph that users run; `build.MethodFactory` is one."""

    async def open(self, start: RunStart, choices: RunContext, spent: Usage) -> Ctx[Any]:
        """Make the context of a run with a user's choices; its budget pays for the run."""

    def peek(self, start: RunStart, choices: RunContext) -> Ctx[Any]:
        """Make a context for decisions, which ask no model."""


class MethodGraph(Generic[StateT]):
    """The figure of a method, in LangGraph's words; steps and decisions take `(state, ctx)`.

    Args:
        state: the class of the state: typed views of LangGraph's channels.
        first: the step that takes a new question.
        team: the step in which the team runs; a served graph draws the team inside it.
    """

    def __init__(self, state: type[StateT], *, first: str, team: str) -> None:
        self.state, self.first, self.team = state, first, team
        self.steps: dict[str, Step] = {}
        self._edges: list[tuple[str, str]] = []
        self._choices: list[tuple[str, Decision, Sequence[str]]] = []

    def add_node(self, step: Step) -> None:
        """Add a step under its function's name."""
        self.steps[getattr(step, "__name__", "")] = step

    def add_edge(self, source: str, target: str) -> None:
        """Have a step follow another."""
        self._edges.append((source, target))

    def add_sequence(self, steps: Sequence[Step]) -> None:
        """Add steps that follow each other."""
        for step in steps:
            self.add_node(step)
        for source, target in pairwise(steps):
            self.add_edge(getattr(source, "__name__", ""), getattr(target, "__name__", ""))

    def add_conditional_edges(self, source: str, decide: Decision, targets: Sequence[str]) -> None:
        """Have a decision choose which of the targets follows a step."""
        self._choices.append((source, decide, targets))

    def with_steps(self, **steps: Step) -> "MethodGraph[StateT]":
        """Make a figure in which other steps take the place of those of these names, as a variant of a method does.

        Raises:
            ValueError: it has no such step.
        """
        if unknown := steps.keys() - self.steps.keys():
            raise ValueError(f"the figure has no step {min(unknown)!r}; its steps are {', '.join(self.steps)}")
        changed = copy(self)
        changed.steps, changed._edges, changed._choices = {**self.steps, **steps}, [*self._edges], [*self._choices]
        return changed

    def compile(self, name: str) -> Compiled:
        """Compile the figure for runs with a ready `Ctx`."""

        def get_ctx(channels: Any) -> Any:
            return get_runtime(Ctx).context

        graph: Graph = StateGraph(self.state, context_schema=Ctx)
        for step, run in self.steps.items():
            graph.add_node(step, make_node(self._bind(run, first=step == self.first)))
        return self._connect(graph, get_ctx).compile(name=name)

    def serve(
        self,
        start: RunStart,
        factory: CtxFactory,
        drawn: Topology | Compiled | None = None,
        *,
        agents: Team | None = None,
        agent_nodes: Mapping[str, str] = FrozenMap(),
    ) -> Graph:
        """Build the figure for users: input is a question or messages, context what may be chosen per run.

        Args:
            factory: makes the method of a run, with the ledger that pays for it.
            drawn: topology or compiled graph that is drawn inside the team's step; by default the initial team's.
            agents: the team whose prompts can be edited per run; by default the initial one.
            agent_nodes: where agents without a node of the team work, by agent: a step of the figure.
        """
        drawn = start.initial_team.topology if drawn is None else drawn
        team = compile_team(drawn) if isinstance(drawn, Topology) else drawn
        schema = context_schema(start.context, agents or start.initial_team, agent_nodes)
        graph = MethodStateGraph(self.state, context_schema=schema, input_schema=Input)
        graph.inner.update(node for node in team.nodes if is_id(node))  # no relay
        graph.inner.update(agent for agent, node in agent_nodes.items() if node == self.team)

        def get_ctx(channels: Any) -> Ctx[Any]:
            return factory.peek(start, get_run_context(start.context))

        for name, step in self.steps.items():
            run = self._bind_served(step, start, factory, first=name == self.first)
            if name == self.team:
                graph.add_node(name, make_team_node(team, lambda channels, _, run=run: run(channels)))  # type: ignore[misc]
            else:
                graph.add_node(name, make_node(run))
        return self._connect(graph, get_ctx)

    def _bind(self, step: Step, *, first: bool) -> Callable[[Any], Any]:
        async def run(channels: Any) -> Update:
            state, ctx = self.state(channels), get_runtime(Ctx).context
            return await step(state, ctx if first else replace(ctx, scope=state.place))

        return run

    def _bind_served(self, step: Step, start: RunStart, factory: CtxFactory, *, first: bool) -> Callable[[Any], Any]:
        async def run(channels: Any) -> Update:
            asked = take_question(channels) if first else {}
            state = self.state({**channels, **asked})
            spent, choices = Usage() if first else state.usage, get_run_context(start.context)
            ctx = await factory.open(start, choices, spent)
            assert ctx.budget is not None, "a user's run has a budget"
            try:
                async with enforce_deadline(ctx.budget):
                    update = await step(state, ctx if first else replace(ctx, scope=state.place))
            except BudgetError as error:
                name_limits(error, choices, ctx.budget)
                raise
            known = self.state(update).usage if "usage" in update else spent
            paid = add_usage(known, Usage(), ctx.budget)
            if first or paid != state.usage:
                update = {**update, **state.update(usage=paid)}
            return {**asked, **update, **append_answer(state.channels, update)}

        return run

    def _connect(self, graph: Graph, get_ctx: Callable[[Any], Any]) -> Graph:
        def bind(decide: Decision) -> DecisionNode[Any]:
            return DecisionNode(lambda channels: decide(self.state(channels), get_ctx(channels)))

        for source, target in self._edges:
            graph.add_edge(source, target)
        for source, decide, targets in self._choices:
            graph.add_conditional_edges(source, bind(decide), list(targets))
        return graph


MOST_STEPS = 1000
"""Limit of a figure's steps, above those of every figure of the package, whose rounds or stages are at most 100."""


async def run_graph(
    graph: Compiled,
    state: type[StateT],
    ctx: Ctx[Any],
    so_far: Callable[[StateT], Trajectory | None] = lambda state: None,
    **given: Any,
) -> StateT:
    """Run a method's compiled graph to its end.

    Args:
        so_far: makes the result of an unfinished state, for the error of a run that must stop; None without an answer.
        given: fields of the state to begin with, beside the context's question.

    Raises:
        BudgetError, OutageError: the run must stop; `partial_result` has the result of its last finished step.
    """
    channels: dict[str, Any] = {}
    if ctx.start is not None and ctx.start.question is not None:
        given["question"] = ctx.start.question.input
    try:
        bounded: RunnableConfig = {**DETACHED, "recursion_limit": MOST_STEPS}  # else the limit of a graph around it
        async for channels in graph.astream(  # noqa: B007  # the last one is the result
            state.update(**given), bounded, context=ctx, stream_mode="values"
        ):
            pass
    except StoppedError as error:
        if error.partial_result is None and "usage" in channels:
            error.partial_result = so_far(state(channels))
        raise
    return state(channels)


__all__ = ["END", "START", "Compiled", "Ctx", "Graph", "MethodGraph", "run_graph"]
