"""A fixed team as the system that GEPA optimises: its components are the prompts of its agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gepa.core.adapter import EvaluationBatch, ProposalFn

from selfwire.core.budget import get_error_cost
from selfwire.core.chat import ChatMessage
from selfwire.core.errors import ModelError
from selfwire.core.protocols import Model
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines.gepa.calls import LoopCalls
from selfwire.evolvers.blame import render_feedback
from selfwire.evolvers.outcomes import get_score
from selfwire.evolvers.trace_text import format_inbox, format_step, gather_all
from selfwire.graphs.method_protocol import Solver, TrajectoryGrader

Candidate = dict[str, str]
"""Prompts by agent."""
Batch = EvaluationBatch[Trajectory, str]


@dataclass
class TeamAdapter:
    """Runs, grades and shows a team with the prompts of a candidate; equal prompts are run once per question.

    Attributes:
        given: finished runs of the team as it is.
        length: most characters of a prompt; a candidate with a longer or an empty one scores 0 without a run.
        spent: the cost of all runs and proposals, those of `given` left out.
    """

    method: Solver
    model: Model
    workflow: Workflow
    scope: Scope
    grade: TrajectoryGrader
    given: Sequence[Trajectory]
    length: int
    calls: LoopCalls = field(default_factory=LoopCalls)
    spent: Usage = ZERO_USAGE
    proposals: int = 0
    runs: dict[str, dict[str, Trajectory]] = field(default_factory=dict)
    propose_new_texts: ProposalFn | None = None
    """None: the library words its own requests."""

    def __post_init__(self) -> None:
        self.runs[self.workflow.fingerprint] = {done.question.id: done for done in self.given}

    def evaluate(self, batch: list[Question], candidate: Candidate, capture_traces: bool = False) -> Batch:
        """Scores of a candidate's runs; a run that ended as an error scores 0, as the library wants a number."""
        if any(not text.strip() or len(text) > self.length for text in candidate.values()):
            return EvaluationBatch(outputs=["" for _ in batch], scores=[0.0] * len(batch), trajectories=[])
        team = set_prompts(self.workflow, candidate)
        known = self.runs.setdefault(team.fingerprint, {})
        number = list(self.runs).index(team.fingerprint)
        new = list({one.id: one for one in batch if one.id not in known}.values())
        for done in self.calls.run(gather_all(self._run(team, one, number) for one in new)):
            known[done.question.id] = done
            self.spent += done.usage
        found = [known[one.id] for one in batch]
        return EvaluationBatch(
            outputs=[done.answer or "" for done in found],
            scores=[get_score(done) or 0.0 for done in found],
            trajectories=found,
        )

    async def _run(self, team: Workflow, question: Question, number: int) -> Trajectory:
        place = self.scope.at(task=question.id, sample=number)
        return await self.grade(await self.method.solve(team, question, scope=place), place)

    def make_reflective_dataset(
        self, candidate: Candidate, eval_batch: Batch, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """What the library shows of each run: the agent's turns, the answer and the environment's judgement."""
        runs = [done for done in eval_batch.trajectories or [] if get_score(done) is not None]
        return {name: [record for done in runs if (record := show_turns(done, name))] for name in components_to_update}

    def propose(self, prompt: Any) -> str:
        """The reply of the meta-model to one of the library's requests; "" where the call failed."""
        self.proposals += 1
        place = self.scope.at(node="gepa", sample=self.proposals)
        reply, cost = self.calls.run(self._ask(str(prompt), place))
        self.spent += cost
        return reply

    async def _ask(self, prompt: str, place: Scope) -> tuple[str, Usage]:
        try:
            reply = await self.model.generate([ChatMessage.user(prompt)], scope=place, role="meta", temperature=1.0)
        except ModelError as error:
            return "", get_error_cost(error) + Usage(calls=1)
        return reply.content, reply.usage


def get_prompts(workflow: Workflow) -> Candidate:
    """The prompts of a team."""
    return {agent.id: agent.prompt for agent in workflow.agents}


def set_prompts(workflow: Workflow, candidate: Mapping[str, str]) -> Workflow:
    """The team with the prompts of a candidate."""
    agents = [agent.replace(prompt=candidate[agent.id].strip()) for agent in workflow.agents]
    return workflow.replace(agents=tuple(agents))


def show_turns(done: Trajectory, agent: str) -> dict[str, Any] | None:
    """An example of an agent's work; None if it had no turn."""
    steps = [step for step in done.steps if step.agent == agent]
    if not steps:
        return None
    about = done.answer or ""
    turns = [{"Received": format_inbox(step, about=about), "Work": format_step(step, about=about)} for step in steps]
    feedback = f"The team's answer: {about or '(none)'}\n{render_feedback(done)}"
    return {"Inputs": {"Task": done.question.input}, "Generated Outputs": turns, "Feedback": feedback}
