"""What results are printed beside: a trivial answer, and a single agent with the same tools at equal calls."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from selfwire.core.agent import Agent
from selfwire.core.ports import Act
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import Node, Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.graphs.routers import every
from selfwire.graphs.team import run_team
from selfwire.graphs.turn import TeamRun

SINGLE_PROMPT = (
    "You are a careful assistant. Work out the task with the tools that you hold, step by step, "
    "then give only the answer in the form that the task asks for."
)


def single_workflow(tools: Sequence[str], prompt: str = SINGLE_PROMPT) -> Workflow:
    """One agent that holds the benchmark's tools."""
    agent = Agent(id="single", role="works alone", prompt=prompt, tools=tuple(tools))
    topology = Topology(nodes=(Node(id="single", agent="single"),), entry="single", sink="single")
    return Workflow(method="single", agents=(agent,), topology=topology)


@dataclass(frozen=True)
class SingleAgent:
    """A single agent that spends its calls on samples and gives the most frequent answer.

    Attributes:
        act: runs the agent once.
        calls: model calls per task that it may spend; it samples until the next sample would exceed them.
    """

    act: Act
    calls: float = 1.0

    @property
    def name(self) -> str:
        """How reports call it."""
        return "single"

    def seed(self, tools: Sequence[str] = ()) -> Workflow:
        """One agent with the tools."""
        return single_workflow(tools)

    async def solve(self, workflow: Workflow, question: Question, *, scope: Scope) -> Trajectory:
        """Sample until the calls are spent, then vote; ties go to the answer that came first."""
        samples = [await self._sample(workflow, question, scope, 0)]
        spent = each = max(samples[0].usage.calls, 1)  # a failed sample counts too, so that sampling ends
        while spent + each <= self.calls:
            samples.append(await self._sample(workflow, question, scope, len(samples)))
            spent += max(samples[-1].usage.calls, 1)
        steps = tuple(step for sample in samples for step in sample.steps)
        answers = [sample.answer for sample in samples if sample.answer is not None]
        if not answers:
            return samples[0].replace(steps=steps)
        return samples[0].replace(steps=steps, answer=vote(answers), error=None)

    async def _sample(self, workflow: Workflow, question: Question, scope: Scope, sample: int) -> Trajectory:
        run = TeamRun(
            question=question,
            scope=scope.at(sample=sample),
            agents=workflow.pool,
            act=self.act,
            router=every,
            workflow=workflow.fingerprint,
        )
        return await run_team(workflow.topology, run)


def vote(answers: Sequence[str]) -> str:
    """The answer given most often, compared without case and spacing; ties go to the first.

    Raises:
        ValueError: there are no answers.
    """
    if not answers:
        raise ValueError("there are no answers to vote on")
    plain = [re.sub(r"\s+", " ", answer).strip().casefold() for answer in answers]
    winner, _ = Counter(plain).most_common(1)[0]
    return answers[plain.index(winner)]
