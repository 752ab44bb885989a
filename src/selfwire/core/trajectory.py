"""Trajectories: the record of a team's run on a question, with a step per agent call."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from pydantic import Field

from selfwire.core.task import Feedback, Question
from selfwire.core.text import excerpt, mark_earlier
from selfwire.core.usage import ZERO_USAGE, Usage, sum_usages
from selfwire.core.values import AnyText, FrozenJson, FrozenMap, FrozenModel, to_canonical_json

TOLD = 500
"""Most characters of an error that the user is told."""
DECISIONS = "decisions"
"""Name of a trajectory's note with its `DecisionCount`."""
CUT = "cut"
"""Name of a trajectory's note: the cap of calls ended the run or a sample, whose calls are not in the trajectory."""
OFFERED = "offered"
"""Name of a trajectory's note: agents without a step whose prompts were sent beside that of another, by the other.

They describe the tools that a program offered there, or are the settings of its context (`graphs.own_graph`).
"""
RAISED = "raised"
"""Name of a trajectory's note: whether a program of the user's raised the error by itself, and no server failed."""


class Message(FrozenModel):
    """A text from one node to another."""

    source: str
    target: str
    text: str


def mark_equal_messages(messages: Sequence[Message]) -> list[Message]:
    """Messages that are read together, with a remark instead of a long text that stands in an earlier one."""
    texts = mark_earlier((f"(the same as that of {m.source})", m.text, [m.text]) for m in messages)
    return [message.replace(text=text) for message, text in zip(messages, texts, strict=True)]


class ToolUse(FrozenModel):
    """A tool call of a step.

    Args:
        error: whether the result is an error message.
        seconds: run time of a team's own tool; None for other tools, and if its function never ran.
    """

    name: str
    arguments: FrozenJson
    result: AnyText
    error: bool = False
    seconds: float | None = Field(default=None, ge=0)

    @property
    def input_text(self) -> str:
        """The arguments as plain text, one per line; a text of several lines stands below its name."""
        if not isinstance(self.arguments, Mapping):
            return _to_text(self.arguments)
        texts = {name: _to_text(value) for name, value in self.arguments.items()}
        return "\n".join(f"{name}:{chr(10) if chr(10) in text else ' '}{text}" for name, text in texts.items())


def _to_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(json.loads(to_canonical_json(value)), ensure_ascii=False)  # as a reader writes it


class Routing(FrozenModel):
    """A router's decision at one node.

    Args:
        chosen: the successors that receive this node's output.
        scores: finite score per candidate, if the router computes them.
        why: the rule that decided, for readers.
        free: whether a candidate could be left out; None for a router that does not learn.
        regret: of a free decision, the share of the score, as the router believes it, that other candidates have more
            than those chosen; None for a router without beliefs.
    """

    chosen: tuple[str, ...]
    scores: FrozenJson = Field(default_factory=FrozenMap)
    why: str = ""
    free: bool | None = None
    regret: float | None = Field(default=None, ge=0, le=1, exclude_if=lambda regret: regret is None)


class DecisionCount(FrozenModel):
    """Number of decisions of a learning router.

    Args:
        made: all decisions.
        free: decisions in which a candidate could be left out; all others were forced.
        filtered: forced decisions for which a limit had removed candidates.
        regret: sum of the regrets of free decisions; None for a router without beliefs.
    """

    made: int = Field(default=0, ge=0)
    free: int = Field(default=0, ge=0)
    filtered: int = Field(default=0, ge=0)
    regret: float | None = Field(default=None, ge=0, exclude_if=lambda regret: regret is None)

    @property
    def is_vacuous(self) -> bool:
        """Whether every decision would have been equal without a router."""
        return self.free == self.filtered == 0

    @property
    def mean_regret(self) -> float | None:
        """The mean regret of a free decision, from 0 for the best by the router's beliefs to 1; None without any."""
        return None if self.regret is None or not self.free else self.regret / self.free

    def format_regret(self) -> str:
        """Format the mean regret in per cent, as 0% only where every choice was the best; "" without any."""
        if self.mean_regret is None:
            return ""
        return "below 1%" if 0 < self.mean_regret < 0.01 else f"{self.mean_regret:.0%}"

    def __str__(self) -> str:
        return f"{self.free:,} of {self.made:,}"


def sum_decisions(counts: Iterable[DecisionCount | None]) -> DecisionCount | None:
    """Add up counts; None if there are none."""
    known = [count for count in counts if count is not None]
    regrets = [count.regret for count in known if count.regret is not None]
    sums = {name: sum(getattr(count, name) for count in known) for name in ("made", "free", "filtered")}
    return DecisionCount(**sums, regret=sum(regrets) if regrets else None) if known else None


class Step(FrozenModel):
    """An agent's turn at a node.

    Args:
        node, agent: ids of node and agent.
        visit: round of the team, from 0.
        inbox: messages that the agent read, in order.
        output: the agent's answer; "" if it failed.
        error: reason of a failure after all retries; None if there was none.
        routing: the choice of successors; None if there was no choice.
        usage: cost of the model calls, including tool loop and instructions to successors.
        skills: active skills, if the model lists them (the offline model does).
    """

    node: str
    agent: str
    visit: int = 0
    inbox: tuple[Message, ...] = ()
    output: str = ""
    error: str | None = None
    tools: tuple[ToolUse, ...] = ()
    routing: Routing | None = None
    sent: tuple[Message, ...] = ()
    usage: Usage = ZERO_USAGE
    skills: tuple[str, ...] = ()


class Trajectory(FrozenModel):
    """A team's run on a question.

    Args:
        workflow: fingerprint of the team.
        steps: turns in order of level, then id.
        answer: the sink's output; None if the run ended as an error.
        error: reason why there is no answer, or why the answer could not be graded.
        feedback: the environment's judgement; None without an environment, or after an error that counts as no score.
        sample: number of the run among runs of the same team on the same question.
        overhead: cost of the method's model calls outside the team, such as characterising the task.
        notes: the method's own data, such as the task's profile; JSON.
    """

    question: Question
    workflow: str
    steps: tuple[Step, ...] = ()
    answer: str | None = None
    error: str | None = None
    feedback: Feedback | None = None
    sample: int = 0
    overhead: Usage = ZERO_USAGE
    notes: FrozenJson = Field(default_factory=FrozenMap)

    @cached_property
    def usage(self) -> Usage:
        """Cost of the steps and the overhead together."""
        return sum_usages(step.usage for step in self.steps) + self.overhead

    @cached_property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """(source, target) pairs of the sent messages, in order."""
        return tuple((message.source, message.target) for step in self.steps for message in step.sent)

    @cached_property
    def decisions(self) -> DecisionCount | None:
        """Number of the router's decisions; None without a learning router."""
        noted = self.notes.get(DECISIONS)
        return DecisionCount.model_validate(noted) if noted else None

    def with_feedback(self, feedback: Feedback) -> "Trajectory":
        """Return the trajectory with feedback."""
        return self.replace(feedback=feedback)

    def as_failed(self, error: str) -> "Trajectory":
        """Return the trajectory marked as an infrastructure error, neither solved nor unsolved."""
        return self.replace(error=error, feedback=None)


def describe_broken_tools(trajectories: Iterable[Trajectory]) -> list[str]:
    """Describe the tools that failed in every call of the trajectories, with an error of each."""
    results: dict[str, list[str]] = {}
    for trajectory in trajectories:
        for use in (use for step in trajectory.steps for use in step.tools):
            results.setdefault(use.name, []).append(use.result if use.error else "")
    lines = []
    for name, found in results.items():
        failures = [result for result in found if result.startswith(f"error: {name} failed: ")]
        if failures and all(found):
            calls = f"all of its {len(found)} calls" if len(found) > 1 else "its only call"
            failure = excerpt(" ".join(failures[0].split()), TOLD)
            lines.append(f"tool {name!r} failed in {calls}, such as {failure}")
    return lines
