"""HiVA with random edits: its gain beyond this control comes from its critics."""

from collections.abc import Sequence
from dataclasses import dataclass

from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.gradients import Loss
from selfwire.evolvers.hiva.memory import TrajectoryLesson
from selfwire.evolvers.hiva.repair import repair
from selfwire.evolvers.hiva.updates import fit_memory, make_lesson, update_beliefs
from selfwire.evolvers.random_edits import RandomControl, edit_at_random
from selfwire.graphs.hiva.method import Hiva
from selfwire.graphs.method_protocol import EvolveResult, TrajectoryGrader


@dataclass(frozen=True)
class RandomEdits(RandomControl, Hiva):
    """HiVA whose rewirings are drawn at random; its runs, its router's learning and its gate stay."""

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """The iteration's random rewirings, then the update of beliefs and repair.

        Without a critic, r is 1 for all agents that ran in a solved task, else 0.
        """
        count = self.get_edit_count(scope)
        edited, applied = edit_at_random(workflow, count, self.instructions, scope=scope)
        lessons = [await self._lesson(done, workflow) for done in trajectories]
        repaired = repair(update_beliefs(edited, lessons, config=self.config.routing), self.config)
        applied = (*applied, *repaired.rewirings)
        return EvolveResult(workflow=fit_memory(repaired.workflow).with_lineage(workflow, applied), applied=applied)

    async def _lesson(self, trajectory: Trajectory, workflow: Workflow) -> TrajectoryLesson | None:
        if trajectory.feedback is None:
            return None
        match = await self.match_noted(trajectory, workflow)
        lesson = make_lesson(trajectory, Loss(solved=True), None, match)  # as if solved: everybody who ran is judged
        if lesson is None or trajectory.feedback.solved:
            return lesson
        return lesson.replace(solved=False, rewards=dict.fromkeys(lesson.rewards, 0))
