"""The control of random legal edits: whatever evolution gains beyond it, it gains by reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from selfwire.core.edits import Rewiring
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.forward import match_task
from selfwire.evolvers.hiva.gradients import Loss
from selfwire.evolvers.hiva.memory import TrajectoryLesson
from selfwire.evolvers.hiva.repair import repair
from selfwire.evolvers.hiva.updates import make_lesson, update_beliefs
from selfwire.evolvers.random_edits import edit_at_random, edit_pool_at_random
from selfwire.graphs.hera.method import Hera
from selfwire.graphs.hiva.method import Hiva
from selfwire.graphs.method_protocol import EvolveResult, Method, TrajectoryGrader
from selfwire.runtime.offline.vocabulary import paraphrases

Inner = TypeVar("Inner", bound=Method)


@dataclass(frozen=True)
class _Control(Generic[Inner]):
    """A method whose rewirings are drawn at random; its runs and its gate are the method's own.

    Attributes:
        inner: the method.
        counts: rewirings per iteration; the last one is repeated.
        instructions: what prompts of newcomers and rewrites are drawn from.
    """

    inner: Inner
    counts: tuple[int, ...]
    instructions: tuple[str, ...]

    @property
    def name(self) -> str:
        """As the method's, so that its workflows load."""
        return self.inner.name

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """As the method's."""
        return self.inner.make_initial_workflow(tools)

    def prepare_workflow(self, workflow: Workflow) -> Workflow:
        """As the method's."""
        return self.inner.prepare_workflow(workflow)

    async def solve(self, workflow: Workflow, question: Question, *, scope: Scope) -> Trajectory:
        """As the method's."""
        return await self.inner.solve(workflow, question, scope=scope)

    async def explore(self, workflow: Workflow, question: Question, *, scope: Scope) -> Sequence[Trajectory]:
        """As the method's."""
        return await self.inner.explore(workflow, question, scope=scope)

    async def learn_held_out(self, workflow: Workflow, trajectories: Sequence[Trajectory]) -> Workflow:
        """As the method's."""
        return await self.inner.learn_held_out(workflow, trajectories)

    def carry_over_memory(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """As the method's."""
        return self.inner.carry_over_memory(kept, candidate)

    def propose_pruning(self, workflow: Workflow) -> Rewiring | None:
        """As the method's."""
        return self.inner.propose_pruning(workflow)

    def _count(self, scope: Scope) -> int:
        return self.counts[min(scope.iteration, len(self.counts) - 1)] if self.counts else 0


class RandomEdits(_Control[Hiva]):
    """HiVA with random edits; its router learns as it does."""

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """As many random rewirings as the iteration has, then repair; what the method learns is learned here too.

        Only the critic is missing, which would know better: r is 1 for who ran in a solved task, else 0.
        """
        edited, applied = edit_at_random(workflow, self._count(scope), self.instructions, scope=scope)
        repaired = repair(edited, self.inner.config)
        applied = (*applied, *repaired.rewirings)
        lessons = [await self._lesson(done, workflow) for done in trajectories]
        now = update_beliefs(repaired.workflow, lessons, config=self.inner.config.routing)
        return EvolveResult(workflow=now.with_lineage(workflow, applied), applied=applied)

    async def _lesson(self, done: Trajectory, workflow: Workflow) -> TrajectoryLesson | None:
        if done.feedback is None:
            return None
        concepts = self.inner.concepts(done)
        found = await match_task(concepts, workflow, self.inner.embedder) if concepts else None
        lesson = make_lesson(done, Loss(solved=True), None, found)  # as if solved: everybody who ran is judged
        if lesson is None or done.feedback.solved:
            return lesson
        return lesson.replace(solved=False, rewards=dict.fromkeys(lesson.rewards, 0))


class RandomPool(_Control[Hera]):
    """HERA with random edits of its pool; questions are planned for as ever, and nothing is learned from groups."""

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """As many random rewirings as the iteration has: prompts, and newcomers while the pool has room."""
        most = self.inner.config.pool
        now, applied = edit_pool_at_random(workflow, self._count(scope), self.instructions, most=most, scope=scope)
        return EvolveResult(workflow=now, applied=applied)


def with_random_edits(method: Method, counts: Sequence[int]) -> RandomEdits | RandomPool:
    """The control for a method: every instruction that the stand-in's vocabulary knows may be drawn.

    Raises:
        ConfigError: there is no such control for the method.
    """
    instructions = tuple(text for texts in paraphrases().values() for text in texts)
    if isinstance(method, Hiva):
        return RandomEdits(method, tuple(counts), instructions)
    if isinstance(method, Hera):
        return RandomPool(method, tuple(counts), instructions)
    raise ConfigError(f"random edits are a control for hiva and hera, not for {method.name}")


def count_edits(applied: Sequence[Sequence[Rewiring]]) -> tuple[int, ...]:
    """Rewirings per iteration that a method asked for, repairs left out."""
    return tuple(sum(one.operation not in ("REPAIR", "PRUNE") for one in rewirings) for rewirings in applied)
