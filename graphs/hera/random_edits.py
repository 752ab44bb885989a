"""HERA with random edits of its pool: its gain beyond this control comes from comparing groups."""

from collections.abc import Sequence
from dataclasses import dataclass

from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.random_edits import edit_pool_at_random, get_edit_count
from selfwire.graphs.hera.method import Hera
from selfwire.graphs.method_protocol import EvolveResult, TrajectoryGrader


@dataclass(frozen=True)
class RandomPool(Hera):
    """HERA whose pool is edited at random; questions are planned for as before, and groups teach nothing.

    Attributes:
        counts: rewirings per iteration; the last one is repeated.
        instructions: prompts to draw from for newcomers and rewrites.
    """

    counts: tuple[int, ...] = ()
    instructions: tuple[str, ...] = ()

    @classmethod
    def of(cls, hera: Hera, counts: Sequence[int], instructions: Sequence[str]) -> "RandomPool":
        """The control for a method; further arguments as the attributes."""
        return cls(hera.model, hera.toolbox, hera.embedder, hera.config, tuple(counts), tuple(instructions))

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """The iteration's random rewirings: rewritten prompts, and newcomers while the pool has room."""
        count = get_edit_count(self.counts, scope)
        now, applied = edit_pool_at_random(workflow, count, self.instructions, most=self.config.pool, scope=scope)
        return EvolveResult(workflow=now, applied=applied)
