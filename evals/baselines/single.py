"""One agent that answers several times, with a vote over its answers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from selfwire.core.agent import Agent
from selfwire.core.errors import TaskBudgetError
from selfwire.core.protocols import AgentRunner
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import Node, Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evals.answers import to_ballot
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.routers import route_to_all
from selfwire.graphs.team import run_team

CUT = "cut"
"""Name of the trajectory's note that the cap of calls ended a sample, so that its calls are not in the trajectory."""


def load_prompt(name: str) -> str:
    """A baseline's prompt."""
    return load_prompts("evals", "baselines").text(name).strip()


def make_single_workflow(tools: Sequence[str]) -> Workflow:
    """One agent that holds the benchmark's tools."""
    return make_team_of_one("single", load_prompt("single"), tools)


def make_direct_workflow(tools: Sequence[str]) -> Workflow:
    """One agent that answers in one call, without tools."""
    return make_team_of_one("direct", load_prompt("direct"), ())


def make_reasoning_workflow(tools: Sequence[str]) -> Workflow:
    """One agent that reasons and answers in one call, without tools (Wei et al., 2022)."""
    return make_team_of_one("cot", load_prompt("reasoned"), ())


def make_consistent_workflow(tools: Sequence[str]) -> Workflow:
    """The agent of `make_reasoning_workflow` under another name, for several samples (Wang et al., 2023)."""
    return make_team_of_one("self-consistency", load_prompt("reasoned"), ())


def make_team_of_one(method: str, text: str, tools: Sequence[str]) -> Workflow:
    """A team of one."""
    agent = Agent(id="single", role="works alone", prompt=text, tools=tuple(tools))
    topology = Topology(nodes=(Node(id="single", agent="single"),), entry="single", sink="single")
    return Workflow(method=method, agents=(agent,), topology=topology)


@dataclass(frozen=True)
class SingleAgent:
    """A single agent that spends its calls on samples and gives the most frequent answer.

    Attributes:
        act: runs the agent once.
        calls: most model calls per task; it samples until the next sample would exceed them.
        samples: most samples; None for as many as the calls allow.
        name: its name in reports.
        make_workflow: the workflow of the agent, from its tools.
    """

    act: AgentRunner
    calls: float = 1.0
    samples: int | None = None
    name: str = "single"
    make_workflow: Callable[[Sequence[str]], Workflow] = make_single_workflow

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """One agent, with the tools if it uses any."""
        return self.make_workflow(tools)

    async def solve(self, workflow: Workflow, question: Question, *, scope: Scope) -> Trajectory:
        """Sample until the calls are spent, then vote; ties go to the earliest answer.

        Raises:
            TaskBudgetError: the calls were not enough for the first answer.
        """
        found = [await self._sample(workflow, question, scope, 0)]
        spent = each = max(found[0].usage.calls, 1)  # a failed sample counts too, so that sampling ends
        cut = False
        while not cut and len(found) < (self.samples or len(found) + 1) and spent + each <= self.calls:
            try:
                found.append(await self._sample(workflow, question, scope, len(found)))
            except TaskBudgetError:  # a sample that needed more than the first; the earlier ones count
                cut = True
            else:
                spent += max(found[-1].usage.calls, 1)
        return _merge_samples(found, cut=cut)

    async def _sample(self, workflow: Workflow, question: Question, scope: Scope, sample: int) -> Trajectory:
        run = TeamContext(
            question=question,
            scope=scope.at(sample=sample),
            agents=workflow.agents_by_id,
            act=self.act,
            router=route_to_all,
            workflow=workflow.fingerprint,
        )
        return await run_team(workflow.topology, run, config=DETACHED)


def _merge_samples(samples: Sequence[Trajectory], *, cut: bool) -> Trajectory:
    first = samples[0].replace(notes={CUT: True}) if cut else samples[0]
    if len(samples) == 1:
        return first
    steps = tuple(step for sample in samples for step in sample.steps)
    answers = [sample.answer for sample in samples if sample.answer is not None]
    if not answers:
        return first.replace(steps=steps)
    return first.replace(steps=steps, answer=choose_by_vote(answers), error=None)


def choose_by_vote(answers: Sequence[str]) -> str:
    """The most frequent answer, compared by `answers.to_ballot`; ties go to the first.

    Raises:
        ValueError: there are no answers.
    """
    if not answers:
        raise ValueError("there are no answers to vote on")
    ballots = [to_ballot(answer) for answer in answers]
    winner, _ = Counter(ballots).most_common(1)[0]
    return answers[ballots.index(winner)]
