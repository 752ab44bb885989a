"""The protocol of a method, as the outer evolution calls it."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from selfwire.core.edits import RefusedRewiring, Rewiring
from selfwire.core.errors import TaskBudgetError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evolvers.trace_text import gather_all

TrajectoryGrader = Callable[[Trajectory, Scope], Awaitable[Trajectory]]
"""Grades a trajectory of a question of the batch by the environment; the method never sees the reference."""


class EvolveResult(FrozenModel):
    """The result of learning from a batch of trajectories.

    Args:
        applied: the rewirings between the old workflow and the new one, in order.
        notes: of the method on this step, for people; JSON.
        gated: whether the gate must compare even if agents and topology did not change, as learned memory decides
            how the team runs.
    """

    workflow: Workflow
    applied: tuple[Rewiring, ...] = ()
    refused: tuple[RefusedRewiring, ...] = ()
    notes: FrozenJson = FrozenMap()
    needs_gate: bool = False

    @classmethod
    def of(
        cls,
        workflow: Workflow,
        rewirings: Sequence[Rewiring] = (),
        *,
        memory: Mapping[str, Any] = FrozenMap(),
        notes: Mapping[str, Any] = FrozenMap(),
        cost: Usage | None = None,
        needs_gate: bool = False,
    ) -> "EvolveResult":
        """Apply what a method proposes, with lineage, refusals and cost on record.

        Args:
            rewirings: proposals in order; those that do not fit are refused with reasons.
            memory: entries of the workflow's memory that were learned.
            cost: of the model calls that led to it, noted as `meta`.
        """
        now, refused = workflow.apply_legal(rewirings)
        applied = () if now is workflow else now.lineage.rewirings
        now = now.with_memory(**memory) if memory else now
        if now.fingerprint != workflow.fingerprint:
            now = now.with_lineage(workflow, applied)
        costs = {"meta": {"calls": cost.calls, "tokens": cost.tokens}} if cost else {}
        return cls(workflow=now, applied=applied, refused=refused, notes={**notes, **costs}, needs_gate=needs_gate)


class Solver(Protocol):
    """Puts questions to a team: a method or a baseline."""

    @property
    def name(self) -> str:
        """The name in the command line."""

    @abstractmethod
    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The workflow that the method starts from; its agents hold these tools."""

    @abstractmethod
    async def solve(self, workflow: Workflow, question: Question, *, scope: Scope) -> Trajectory:
        """Put a question to the team once.

        Raises:
            BudgetError: the run must stop. Other faults end in the trajectory's `error`.
        """


@runtime_checkable
class Method(Solver, Protocol):
    """One method with its models, tools and prompts.

    The defaults fit a method that asks each question once, learns nothing beside the team and takes any team.
    """

    def prepare_workflow(self, workflow: Workflow) -> Workflow:
        """An existing workflow as the method can run and evolve it; by default unchanged.

        Raises:
            ConfigError: the method's config does not allow it.
        """
        return workflow

    def check_learned(self, workflow: Workflow) -> None:
        """Check that what a saved workflow has learned can be used, by default nothing.

        Raises:
            ConfigError, LibraryError, ValueError, TypeError, AttributeError: it cannot.
        """
        return

    @property
    def samples(self) -> int:
        """How many times `explore` runs a question; by default once."""
        return 1

    async def explore(self, workflow: Workflow, question: Question, *, scope: Scope) -> Sequence[Trajectory]:
        """Put a train question to the team, as a group of samples or, by default, once; raises as `solve`."""
        return [await self.solve(workflow, question, scope=scope)]

    @abstractmethod
    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """Learn from graded trajectories of the workflow; those with an error teach nothing.

        Args:
            grade: grades further runs on questions of the batch.
        """

    @property
    def sees_labels(self) -> bool:
        """Whether labels may decide what it keeps; without them there is no gate."""
        return True

    def fits_held_out(self, workflow: Workflow) -> bool:
        """Whether `learn_held_out` fits something for such a team; then its runs are made without a gate too."""
        return False

    async def learn_held_out(self, workflow: Workflow, trajectories: Sequence[Trajectory]) -> Workflow:
        """Fit parameters to held-out tasks, by default none; agents and topology do not change."""
        return workflow

    def carry_over_memory(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """The kept workflow with memory of the rejected candidate that holds for it; by default without."""
        return kept

    def propose_pruning(self, workflow: Workflow) -> Rewiring | None:
        """The rewiring that removes the least helpful agent; None, as by default, if none can be removed."""
        return None


async def explore_samples(
    solve: Callable[[Scope], Awaitable[Trajectory]], blank: Trajectory, samples: int, *, scope: Scope
) -> list[Trajectory]:
    """Runs of one question side by side.

    A run that the calls of its task do not suffice for ends as an error, and the finished ones are kept.

    Args:
        solve: runs the question at a place.
        blank: a trajectory without steps, for runs that end so.

    Raises:
        The first error of another kind, in the order of the runs.
    """

    async def run(place: Scope) -> Trajectory:
        try:
            return await solve(place)
        except TaskBudgetError as error:
            return blank.replace(sample=place.sample).as_failed(str(error))

    return await gather_all(run(scope.at(sample=number)) for number in range(samples))
