"""HERA with random edits of its pool: its gain beyond this control comes from comparing groups."""

from collections.abc import Sequence
from dataclasses import dataclass

from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.random_edits import RandomControl, edit_pool_at_random
from selfwire.graphs.hera.method import Hera
from selfwire.graphs.method_protocol import EvolveResult, TrajectoryGrader


@dataclass(frozen=True)
class RandomPool(RandomControl, Hera):
    """HERA whose pool is edited at random; questions are planned for as before, and groups teach nothing."""

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """The iteration's random rewirings: rewritten prompts, and newcomers while the pool has room."""
        count = self.get_edit_count(scope)
        now, applied = edit_pool_at_random(workflow, count, self.instructions, most=self.config.pool, scope=scope)
        return EvolveResult(workflow=now, applied=applied)
