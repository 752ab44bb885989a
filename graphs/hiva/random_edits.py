"""HiVA with random edits, as a control: whatever evolution gains beyond it, it gains by reasons."""

from collections.abc import Sequence
from dataclasses import dataclass

from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.forward import match_task
from selfwire.evolvers.hiva.gradients import Loss
from selfwire.evolvers.hiva.memory import TrajectoryLesson
from selfwire.evolvers.hiva.repair import repair
from selfwire.evolvers.hiva.updates import make_lesson, update_beliefs
from selfwire.evolvers.random_edits import edit_at_random, get_edit_count
from selfwire.graphs.hiva.method import Hiva
from selfwire.graphs.method_protocol import EvolveResult, TrajectoryGrader


@dataclass(frozen=True)
class RandomEdits(Hiva):
    """HiVA with random edits; its router learns as it does.

    Attributes:
        counts: rewirings per iteration; the last one is repeated.
        instructions: prompts of newcomers and rewrites are drawn from these.
    """

    counts: tuple[int, ...] = ()
    instructions: tuple[str, ...] = ()

    @classmethod
    def of(cls, hiva: Hiva, counts: Sequence[int], instructions: Sequence[str]) -> "RandomEdits":
        """The control for a method."""
        return cls(hiva.model, hiva.toolbox, hiva.embedder, hiva.config, tuple(counts), tuple(instructions))

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """Apply the iteration's random rewirings, then repair; the router learns as in the method.

        Only the critic is missing, which would know better: r is 1 for agents that ran in a solved task, else 0.
        """
        count = get_edit_count(self.counts, scope)
        edited, applied = edit_at_random(workflow, count, self.instructions, scope=scope)
        repaired = repair(edited, self.config)
        applied = (*applied, *repaired.rewirings)
        lessons = [await self._make_lesson(done, workflow) for done in trajectories]
        now = update_beliefs(repaired.workflow, lessons, config=self.config.routing)
        return EvolveResult(workflow=now.with_lineage(workflow, applied), applied=applied)

    async def _make_lesson(self, done: Trajectory, workflow: Workflow) -> TrajectoryLesson | None:
        if done.feedback is None:
            return None
        concepts = self.concepts(done)
        found = await match_task(concepts, workflow, self.embedder) if concepts else None
        lesson = make_lesson(done, Loss(solved=True), None, found)  # as if solved: every agent that ran is judged
        if lesson is None or done.feedback.solved:
            return lesson
        return lesson.replace(solved=False, rewards=dict.fromkeys(lesson.rewards, 0))
