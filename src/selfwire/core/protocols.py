"""Protocols of models, tools, sandboxes, graders and routers; graphs/ connects their implementations."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import BaseModel, Field

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Reply, ToolSpec
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question, Task
from selfwire.core.trajectory import Message, Routing, Step
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MEBIBYTE = 2**20
ROLES = ("agent", "meta", "judge")
"""Roles of the models of a run: of agents, of critics and evolvers, of judges."""
Schema = TypeVar("Schema", bound=BaseModel)


class Model(Protocol):
    """The chat models of a run, by role; calls are recorded, paid from a budget, retried and traced."""

    async def generate(
        self,
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "agent",
        model: str = "",
        tools: Sequence[ToolSpec] = (),
        temperature: float | None = None,
    ) -> Reply:
        """Ask the model that plays `role` (agent, meta or judge) for a reply.

        Args:
            model: name of another model of the run, as `Agent.model` has it; "" for that of the role.

        Raises:
            ConfigError: the run names no such model.
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
        model: str = "",
        temperature: float | None = None,
    ) -> tuple[Schema, Usage]:
        """Ask for a validated object; an invalid reply is repaired, or asked for once more.

        Args:
            model: as for `generate`.

        Returns:
            The object, and the cost of all requests for it.

        Raises:
            ReplyError: no reply was valid; the caller chooses a safe fallback.
            ModelError, BudgetError, ConfigError: as `generate`.
        """


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    name: str

    async def embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        """Embed texts as unit rows of shape (len(texts), d); texts are batched and cached."""


class Tool(Protocol):
    """A function that an agent may call."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and input for the model."""

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Run the tool on an input object.

        Raises:
            ToolError: the input is refused or the tool failed; the agent reads the message.
        """


Toolbox = Mapping[str, Tool]
"""Tools by the name that agents use."""


class Limits(FrozenModel):
    """Limits of one run of a program.

    Args:
        seconds: time to run, the start of the interpreter included: processor time of all processes together, plus time
            in which all of them sleep. Time spent waiting for a busy processor does not count.
        processor: seconds of processor time of each process.
        memory: bytes of address space of each process, and of memory of all its processes together.
        output: bytes of each of the two output streams, and of a result; a program that writes more is stopped.
        files: most bytes in its private folder at any time.
        entries: most files and folders in its private folder at any time.
        processes: most processes and threads at any time.
    """

    seconds: float = Field(default=30.0, gt=0, le=600)
    processor: int = Field(default=10, ge=1, le=600)
    memory: int = Field(default=512 * MEBIBYTE, ge=64 * MEBIBYTE)
    output: int = Field(default=MEBIBYTE, ge=1)
    files: int = Field(default=32 * MEBIBYTE, ge=1)
    entries: int = Field(default=10_000, ge=1)
    processes: int = Field(default=16, ge=1)


class Execution(FrozenModel):
    """The output, exit status and result of a program.

    Args:
        stdout, stderr: its output up to the limit; bytes that are not UTF-8 are replaced.
        exit_status: 0 for success, 128 + n if signal n ended it; None if it was stopped.
        timed_out: whether it was stopped by a limit on time.
        truncated: whether it was stopped by the limit on output.
        result: return value of a called function as text: a str unchanged, else JSON, else its repr; None if it raised
            or was stopped.
    """

    stdout: str = ""
    stderr: str = ""
    exit_status: int | None
    timed_out: bool = False
    truncated: bool = False
    result: str | None = None


class Sandbox(Protocol):
    """A place to run untrusted Python programs, without network or foreign files and with limits on every resource."""

    @property
    def name(self) -> str:
        """Name for users."""

    async def run(self, code: str, stdin: str = "", *, limits: Limits = Limits()) -> Execution:
        """Run a program to its end or to its first limit.

        Raises:
            SandboxError: the sandbox failed, which says nothing about the program.
        """

    async def call(self, source: str, arguments: Mapping[str, Any], *, limits: Limits = Limits()) -> Execution:
        """Call the function `tool_function` of a module's source with JSON values as keyword arguments.

        The return value is the execution's `result`. If the function raises, the exit status is 1 and stderr names
        type, message and line of the source.

        Raises:
            SandboxError: the sandbox failed.
        """


class Environment(Protocol):
    """A benchmark's judge of answers; only environments and graders see references."""

    name: str

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score an answer.

        Raises:
            GradingError: the environment itself failed; the task ends as an error.
        """


@dataclass(frozen=True)
class RouterInput:
    """The information on which a router decides at a node.

    Attributes:
        scope: place of the decision; `scope.random` is the router's only randomness.
        output: this node's answer; "" when a sibling repeats the decision (see `Router`).
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
    """A pure function that chooses among a node's successors.

    Nodes of a level answer in parallel, but decide in topological order: each node repeats the decisions of its earlier
    siblings, with `known.output` empty. A router that reads `known.output` must therefore not read `known.selected`:
    a repeated decision could differ from the real one.
    """

    def __call__(self, node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
        """Choose some of the successors; equal inputs give equal outputs."""


class AgentRunner(Protocol):
    """A function that runs an agent once: prompt, inbox and tool loop."""

    async def __call__(self, agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        """Return the step with output, tools and usage; the team adds node, routing and sent messages.

        Raises:
            ModelError: the agent failed; the team goes on without it.
            BudgetError: the run must stop.
        """


InstructionWriter = Callable[[Question, Step, Agent, Scope], Awaitable[tuple[str, Usage]]]
"""A function that writes a successor's instruction from a finished step and the successor's agent, with the cost."""
