"""A fixed team as the system that GEPA optimises: its components are the prompts of its agents."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gepa.core.adapter import EvaluationBatch, ProposalFn

from selfwire.core.chat import ChatMessage
from selfwire.core.errors import ModelError, SelfwireError, get_error_cost
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.evolvers.trajectory_text import format_inbox, format_step, gather_all, get_score, render_feedback
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method

PromptsByAgent = dict[str, str]
Batch = EvaluationBatch[Trajectory, str]


Result = TypeVar("Result")


class StoppedCallError(SelfwireError):
    """Nothing more is called after an error or a stop."""


@dataclass
class LoopCalls:
    """Runs coroutines on an event loop from another thread.

    The library catches errors and tries again, so after the first error here no call is made any more.

    Attributes:
        fault: the first error; None if there is none.
    """

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    fault: BaseException | None = None
    ended: bool = False
    _running: Future[Any] | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of a coroutine.

        Raises:
            StoppedCallError: no calls are made any more.
        """
        if self.ended:
            work.close()
            raise StoppedCallError("no calls are made any more")
        self._running = running = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return running.result()
        except BaseException as error:
            self.fault, self.ended = error, True
            raise

    def end(self) -> None:
        """Make no more calls, and cancel those under way."""
        self.ended = True
        if self._running is not None:
            self._running.cancel()


@dataclass
class TeamAdapter:
    """Runs, grades and shows a team with the prompts of a candidate; equal prompts are run once per question.

    Attributes:
        given: finished runs of the team.
        length: most characters of a prompt; a candidate with a longer or an empty one scores 0 without a run.
        spent: the cost of all runs and proposals, those of `given` left out.
    """

    method: Method[Any]
    ctx: Ctx[Any]
    team: Team
    given: Sequence[Trajectory]
    length: int
    calls: LoopCalls = field(default_factory=LoopCalls)
    spent: Usage = ZERO_USAGE
    proposals: int = 0
    runs: dict[str, dict[str, Trajectory]] = field(default_factory=dict)
    propose_new_texts: ProposalFn | None = None
    """None: the library words its own requests."""

    def __post_init__(self) -> None:
        self.runs[self.team.fingerprint] = {done.question.id: done for done in self.given}

    def evaluate(self, batch: list[Question], candidate: PromptsByAgent, capture_traces: bool = False) -> Batch:
        """Scores of a candidate's runs; a run that ended as an error scores 0, as the library wants a number."""
        if any(not text.strip() or len(text) > self.length for text in candidate.values()):
            return EvaluationBatch(outputs=["" for _ in batch], scores=[0.0] * len(batch), trajectories=[])
        agents = [agent.replace(prompt=candidate[agent.id].strip()) for agent in self.team.agents]
        team = self.team.replace(agents=tuple(agents))
        known = self.runs.setdefault(team.fingerprint, {})
        number = list(self.runs).index(team.fingerprint)
        new = list({question.id: question for question in batch if question.id not in known}.values())
        for done in self.calls.run(gather_all(self._run(team, question, number) for question in new)):
            known[done.question.id] = done
            self.spent += done.usage
        found = [known[question.id] for question in batch]
        return EvaluationBatch(
            outputs=[done.answer or "" for done in found],
            scores=[get_score(done) or 0.0 for done in found],
            trajectories=found,
        )

    async def _run(self, team: Team, question: Question, number: int) -> Trajectory:
        here = self.ctx.where(task=question.id, sample=number)
        assert here.grade_run is not None, "the outer evolution grades"
        return await here.grade_run(await self.method.answer(team, question, here), here.scope)

    def make_reflective_dataset(
        self, candidate: PromptsByAgent, eval_batch: Batch, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Make the library's record of each run: the agent's turns, the answer and the environment's judgement."""
        runs = [done for done in eval_batch.trajectories or [] if get_score(done) is not None]
        return {name: [record for done in runs if (record := show_turns(done, name))] for name in components_to_update}

    def propose(self, prompt: Any) -> str:
        """The reply of the meta-model to one of the library's requests; "" where the call failed."""
        self.proposals += 1
        place = self.ctx.scope.at(node="gepa", sample=self.proposals)
        reply, cost = self.calls.run(self._ask(str(prompt), place))
        self.spent += cost
        return reply

    async def _ask(self, prompt: str, place: Scope) -> tuple[str, Usage]:
        guide = [ChatMessage.system(self.ctx.guide)] if self.ctx.guide else []
        messages = [*guide, ChatMessage.user(prompt)]
        try:
            reply = await self.ctx.model.generate(messages, scope=place, role="meta", temperature=1.0)
        except ModelError as error:
            return "", get_error_cost(error) + Usage(calls=1)
        return reply.content, reply.usage


def show_turns(done: Trajectory, agent: str) -> dict[str, Any] | None:
    """An example of an agent's work; None if it had no turn, or only such as hand on what they get without a call."""
    steps = [step for step in done.steps if step.agent == agent and step.usage.calls]
    if not steps:
        return None
    about = done.answer or ""
    turns = [{"Received": format_inbox(step, about=about), "Work": format_step(step, about=about)} for step in steps]
    feedback = f"The team's answer: {about or '(none)'}\n{render_feedback(done)}"
    return {"Inputs": {"Task": done.question.input}, "Generated Outputs": turns, "Feedback": feedback}
