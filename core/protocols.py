"""Protocols between the rooms; graphs/ connects their implementations."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Reply, ToolSpec
from selfwire.core.execution import Execution, Limits
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question, Task
from selfwire.core.trajectory import Message, Routing, Step
from selfwire.core.usage import Usage
from selfwire.core.workflow_tool import ToolOutcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Schema = TypeVar("Schema", bound=BaseModel)


class Model(Protocol):
    """Chat models behind one wrapper: journal, budget, timeout, retries, usage, tags."""

    async def generate(
        self,
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "agent",
        tools: Sequence[ToolSpec] = (),
        temperature: float | None = None,
    ) -> Reply:
        """Ask the model that plays `role` (agent, meta or judge) for a reply.

        Raises:
            ModelError: the call failed after its retries.
            BudgetError: the call would exceed a budget.
        """

    async def generate_structured(
        self,
        schema: type[Schema],
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "meta",
        temperature: float | None = None,
    ) -> tuple[Schema, Usage]:
        """Ask for a validated object: native structured output, else repair and one re-ask.

        Returns:
            The object and its cost, with the re-ask.

        Raises:
            ReplyError: no valid object came back; the caller chooses a safe fallback.
            ModelError, BudgetError: as `generate`.
        """


class Embedder(Protocol):
    """Turns texts into vectors."""

    name: str

    async def embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        """Unit rows of shape (len(texts), d); batched, cached by text."""


class Tool(Protocol):
    """A function that an agent may call."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and input for the model."""

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Run on an input object.

        Raises:
            ToolError: the input is refused or the tool failed; the agent reads the message.
        """


@runtime_checkable
class TimedTool(Tool, Protocol):
    """A tool whose calls make up a record: one of the workflow's own."""

    @property
    def identity(self) -> str:
        """Equal exactly for equal source."""

    async def measure(self, arguments: Mapping[str, Any], *, scope: Scope) -> ToolOutcome:
        """Run on an input object; a failure of the function is an outcome.

        Raises:
            ToolError: the input is refused, or the tool could not be run.
        """


Toolbox = Mapping[str, Tool]
"""Tools by the name that agents use."""


class Sandbox(Protocol):
    """Runs untrusted Python programs: no network, only their own files, limits on every resource."""

    @property
    def name(self) -> str:
        """Its name for people."""

    async def run(self, code: str, stdin: str = "", *, limits: Limits = Limits()) -> Execution:
        """Run a program to its end or to its first limit.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the program.
        """

    async def call(self, source: str, arguments: Mapping[str, Any], *, limits: Limits = Limits()) -> Execution:
        """Call the function `tool_function` of a module's source with JSON values as keyword arguments.

        What it returns is the execution's `result`. If it raises, the exit status is 1 and stderr names type, message
        and line of the source.

        Raises:
            SandboxError: as `run`.
        """


class Environment(Protocol):
    """Scores answers; only environments and graders see references."""

    name: str

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score an answer.

        Raises:
            GradingError: the environment itself failed; the task ends as an error.
        """


@dataclass(frozen=True)
class RouterInput:
    """What a router knows when it decides at a node.

    Attributes:
        scope: place of the decision; its `random` is the router's only randomness.
        output: this node's answer; "" where a sibling repeats the decision (see `Router`).
        selected: nodes that ran or were chosen before, in the order of the decisions.
        outputs: answers of nodes in earlier levels, by node.
    """

    question: Question
    scope: Scope
    output: str
    sink: str
    selected: tuple[str, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)


class Router(Protocol):
    """A pure choice among a node's successors.

    Nodes of one level answer in parallel and cannot see each other's answers, but decide one after another in
    topological order: each repeats the decisions of its earlier siblings, with `known.output` empty. So a router that
    reads `known.output` must not also read `known.selected`: the repeated decisions could differ from the real ones.
    """

    def __call__(self, node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
        """Choose some of the successors; equal input gives equal output."""


class AgentRunner(Protocol):
    """Runs one agent once: prompt, inbox, tool loop."""

    async def __call__(self, agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        """Return the step with output, tools and usage; the team fills node, routing and sent.

        Raises:
            ModelError: the agent failed; the team goes on without it.
            BudgetError: the run must stop.
        """


InstructionWriter = Callable[[Question, Step, Agent, Scope], Awaitable[tuple[str, Usage]]]
"""Writes a successor's instruction from a finished step and the successor's agent; returns it with its cost."""
