"""What the outer evolution asks of a method."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from selfwire.core.edits import RefusedRewiring, Rewiring
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel
from selfwire.core.workflow import Workflow

TrajectoryGrader = Callable[[Trajectory, Scope], Awaitable[Trajectory]]
"""Has the environment grade a trajectory of a question of the batch; the method never sees the reference."""


class EvolveResult(FrozenModel):
    """What a method made of a batch of trajectories.

    Args:
        workflow: the rewritten workflow, its learned memory included.
        applied: the rewirings between the old workflow and the new one, in order.
        refused: rewirings that did not fit, with reasons.
        notes: what the method wants to show of this step; JSON.
        gated: whether the gate must compare although agents and topology may be as they were: what was learned
            decides how the team runs.
    """

    workflow: Workflow
    applied: tuple[Rewiring, ...] = ()
    refused: tuple[RefusedRewiring, ...] = ()
    notes: FrozenJson = FrozenMap()
    gated: bool = False

    @classmethod
    def of(
        cls,
        workflow: Workflow,
        rewirings: Sequence[Rewiring] = (),
        *,
        memory: Mapping[str, Any] = FrozenMap(),
        notes: Mapping[str, Any] = FrozenMap(),
        cost: Usage | None = None,
        gated: bool = False,
    ) -> "EvolveResult":
        """Apply what a method proposes, with lineage, refusals and cost on record.

        Args:
            workflow: that ran.
            rewirings: proposals in order; those that do not fit are refused with reasons.
            memory: entries of the workflow's memory that were learned.
            notes: what the method wants to show of this step.
            cost: of the model calls that led to it, noted as `meta`.
            gated: as the field.
        """
        now, refused = workflow.apply_legal(rewirings)
        applied = () if now is workflow else now.lineage.rewirings
        now = now.with_memory(**memory) if memory else now
        if now.fingerprint != workflow.fingerprint:
            now = now.with_lineage(workflow, applied)
        costs = {"meta": {"calls": cost.calls, "tokens": cost.tokens}} if cost else {}
        return cls(workflow=now, applied=applied, refused=refused, notes={**notes, **costs}, gated=gated)


class Solver(Protocol):
    """Whatever puts questions to a team: a method, or a baseline beside it."""

    @property
    def name(self) -> str:
        """What the command line calls it."""
        ...

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The workflow that the method starts from, its agents holding these tools."""
        ...

    async def solve(self, workflow: Workflow, question: Question, *, scope: Scope) -> Trajectory:
        """Put a question to the team once.

        Raises:
            BudgetError: the run must stop. Other faults end in the trajectory's `error`.
        """
        ...


@runtime_checkable
class Method(Solver, Protocol):
    """One published method, wired to models, tools and prompts.

    What it inherits is right for a method that asks each question once, learns nothing of its own and takes any team.
    """

    def prepare_workflow(self, workflow: Workflow) -> Workflow:
        """A workflow that there is already, as it can be run and evolved here; by default as it is.

        Raises:
            ConfigError: the method's config does not allow it.
        """
        return workflow

    def check_learned(self, workflow: Workflow) -> None:
        """Check that what a saved workflow has learned can be used, by default nothing.

        Raises:
            ConfigError, LibraryError: it cannot.
        """
        return

    async def explore(self, workflow: Workflow, question: Question, *, scope: Scope) -> Sequence[Trajectory]:
        """Put a train question to the team, as a group of samples or, by default, once; raises as `solve`."""
        return [await self.solve(workflow, question, scope=scope)]

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """Learn from graded trajectories of the workflow; those with an error teach nothing.

        Args:
            workflow: that ran.
            trajectories: what `explore` gave for each question of the batch, graded.
            scope: place of the step.
            grade: grades further runs on questions of the batch.
        """
        ...

    async def learn_held_out(self, workflow: Workflow, trajectories: Sequence[Trajectory]) -> Workflow:
        """Fit what is fitted to held-out tasks, by default nothing; agents and topology stay."""
        return workflow

    def carry_over_memory(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """The kept agents and topology with what the rejected candidate has learned about them; by default nothing."""
        return kept

    def propose_pruning(self, workflow: Workflow) -> Rewiring | None:
        """The rewiring that removes what helps least; None if nothing can go, or if there is no such thing."""
        return None
