"""Trajectories as text for critics, and the means of their scores."""

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from selfwire.core.agent import Agent
from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ModelError, get_error_cost
from selfwire.core.team import Team
from selfwire.core.text import excerpt
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Step, ToolUse, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import Id

TASK_LENGTH = 12_000
"""Characters of a task that every prompt shows whole, as a cut task shares no prefix with other requests."""
TRACE_LENGTH = 12_000
STEP_LENGTH = 2_000
LEAST = 400  # characters of a step or a result, however many there are
ARGUMENTS_LENGTH = 400
WROTE = "it wrote:"
"""Line between the results of tools and an output, which look alike where the output quotes them."""
NAME_LENGTH = 64
"""Characters of a tool's name, which a model may make up; those of real tools are no longer."""

_T = TypeVar("_T")


def shorten(text: str, length: int) -> str:
    """The text, its middle left out where it is longer than `length` characters."""
    if len(text) <= length:
        return text
    half = (length - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def format_step(step: Step, length: int = STEP_LENGTH, *, about: str = "") -> str:
    """Work of an agent: its tool uses and its output, each cut to the parts that concern the output or `about`."""
    subject = f"{about}\n{step.output}"
    uses = [format_tool_use(use, max(length // 2 // len(step.tools), LEAST), subject) for use in step.tools]
    return "\n".join([*uses, *([WROTE] if uses else []), excerpt(step.output, length, about)])


def format_tool_use(use: ToolUse, length: int, about: str) -> str:
    """A tool use with its input; its result is cut to the parts that concern `about`."""
    given, name = shorten(use.input_text, ARGUMENTS_LENGTH), shorten(use.name, NAME_LENGTH)
    given = f"\n{given}\n" if "\n" in given else given
    return f"tool {name}({given}) -> {'error: ' if use.error else ''}{excerpt(use.result, length, about)}"


def format_inbox(step: Step, length: int = STEP_LENGTH, *, about: str = "") -> str:
    """Messages to an agent beside the task, one `From node:` block each, shortened evenly to fit."""
    share = max(length // max(len(step.inbox), 1), LEAST)
    blocks = [f"From {message.source}:\n{excerpt(message.text, share, about)}" for message in step.inbox]
    return "\n\n".join(blocks) or "(nothing but the task)"


def format_trace(trajectory: Trajectory, *, answer: str = "", length: int = TRACE_LENGTH) -> str:
    """The team's work, one `[node]` block per step, shortened evenly to about `length` characters.

    Args:
        answer: stands for an output that is the final answer, in prompts that have that already.
    """
    share = max(LEAST, min(STEP_LENGTH, length // max(len(trajectory.steps), 1)))
    final = trajectory.answer or ""
    shown = [
        step.replace(output=answer) if answer and step.output == final and step is trajectory.steps[-1] else step
        for step in trajectory.steps
    ]
    return "\n".join(f"[{step.node}] {format_step(step, share, about=final)}" for step in shown)


def render_agents(agents: Sequence[Agent]) -> str:
    """Agents with their roles and tools, one per line."""
    held = {agent.id: f" (tools: {', '.join(agent.tools)})" if agent.tools else "" for agent in agents}
    return "\n".join(f"{agent.id}: {agent.role}{held[agent.id]}" for agent in agents)


class Described(Protocol):
    """A tool as critics see it; every `Tool` is one."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and input."""


def describe_tools(names: Sequence[Id], team: Team, toolbox: Mapping[str, Described]) -> str:
    """Tools with their descriptions, one per line; those of the team's own are marked."""
    own, lines = team.tools_by_name, list[str]()
    for name in names:
        if name in own:
            line = f"{name} (the team's own): {own[name].description}"
        else:
            line = f"{name}: {toolbox[name].spec.description}" if name in toolbox else name
        lines.append(" ".join(line.split()))
    return "\n".join(lines)


def describe_held_tools(agents: Iterable[Agent], team: Team, toolbox: Mapping[str, Described]) -> str:
    """The tools that agents of a team hold, with their descriptions, one per line; "" where they hold none."""
    return describe_tools(sorted({tool for agent in agents for tool in agent.tools}), team, toolbox)


def render_topology(topology: Topology) -> str:
    """A topology as models read it: one node per line, and the nodes whose outputs it reads."""
    rows = []
    for node in topology.order():
        agent, sources = topology.agents[node], topology.predecessors[node]
        name = node if node == agent else f"{node} (agent {agent})"
        rows.append(f"{name} reads {', '.join(sources)}" if sources else name)
    return "\n".join(rows)


def to_plain_name(name: str) -> str:
    """A name for comparison, letters and digits in lower case, as models spell names in many ways."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find_name(said: str, names: Iterable[str]) -> str | None:
    """Find the name that a model means: it in any spelling, or the only one in a text; None if that is not plain.

    Of names in a text the one that holds the others counts, as `retriever-2` holds `retriever`.
    """
    plain = {to_plain_name(name): name for name in names}
    if to_plain_name(said) in plain:
        return plain[to_plain_name(said)]
    if re.fullmatch(r"[\w-]*", said.strip()):  # a name, but of nobody here
        return None
    words = {name: f" {' '.join(re.findall('[a-z0-9]+', name.lower()))} " for name in plain.values()}
    text = f" {' '.join(re.findall('[a-z0-9]+', said.lower()))} "
    inside = [name for name, own in words.items() if own.strip() and own in text]
    longest = max(inside, key=lambda name: len(words[name]), default=None)
    return longest if longest and all(words[name] in words[longest] for name in inside) else None


async def gather_all(asks: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run asks in parallel and wait for all of them, so that none is left behind when one fails.

    Raises:
        The first error, in the order of the asks; a ModelError carries the cost of all of them.
    """
    results = await asyncio.gather(*asks, return_exceptions=True)
    for result in results:
        if isinstance(result, ModelError):
            result.cost = sum_usages(_get_cost(answer) for answer in results)
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def _get_cost(result: object) -> Usage:
    if isinstance(result, ModelError):
        return get_error_cost(result)
    if isinstance(result, Trajectory):
        return result.usage
    last = result[-1] if isinstance(result, tuple) and result else None
    return last if isinstance(last, Usage) else Usage()


def render_feedback(trajectory: Trajectory) -> str:
    """The environment's feedback on an answer, below its score, as models read it; "" without feedback."""
    feedback = trajectory.feedback
    return f"score {feedback.score:.2f} of 1\n{feedback.text}".strip() if feedback else ""


def get_score(trajectory: Trajectory) -> float | None:
    """The environment's score; None after an infrastructure error, which teaches nothing."""
    return trajectory.feedback.score if trajectory.feedback is not None and trajectory.error is None else None


def count_agent_tokens(trajectory: Trajectory) -> int:
    """Tokens sent and received by all agents; those of planning and coaching are left out."""
    return sum_usages(step.usage for step in trajectory.steps).tokens


def get_fault(trajectory: Trajectory) -> str | None:
    """The infrastructure error because of which a trajectory teaches nothing; None if there is none."""
    if trajectory.error is not None:
        return trajectory.error
    if trajectory.answer is None:
        return "the run has no answer"
    return next((f"{step.node}: {step.error}" for step in trajectory.steps if step.error is not None), None)
