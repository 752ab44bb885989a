"""Typed state of a method's graph, its nodes in both forms, and what a user may choose per run.

A method declares its state as a class with one annotation per channel; the class is the graph's schema. A node gets a
view of the channels that decodes a field when it is first read, and returns `state.update(...)`, which is the only
encoder. Checkpoints, streams and traces hold plain JSON.
"""

from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property, lru_cache
from typing import Annotated, Any, Self, TypeVar, get_type_hints

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config, set_config_context
from langgraph.graph import add_messages
from langgraph.runtime import get_runtime
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.errors import ConfigError, format_faults
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenMap, fingerprint
from selfwire.models.sync import run_sync

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
        """
        found = channels.get(self.name, REQUIRED)
        if found is REQUIRED or (self.default is None and found == {}):  # 0.1.0 wrote {} for None
            if self.default is REQUIRED:
                raise KeyError(f"{self.name} is not in the state yet")
            return self.default
        return self.adapter.validate_python(found)

    def encode(self, value: Any) -> Any:
        """The value as JSON; validated first, as pydantic warns of a list where a tuple is declared."""
        return self.adapter.dump_python(self.adapter.validate_python(value), mode="json")


class Input(TypedDict, total=False):
    """Input of a run: a question, or messages whose last human one is the question."""

    question: str
    messages: Annotated[list[AnyMessage], add_messages]


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
    calls: int | None = Field(default=None, ge=1, description="Most model calls, within the graph's own budget.")
    tokens: int | None = Field(default=None, ge=1, description="Most tokens, within the graph's own budget.")
    workflow: str | None = Field(
        default=None, min_length=1, description="Saved team to run: a name, name@version or fingerprint."
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
