"""HERA as a method: what evaluations and the outer evolution call."""

from collections.abc import Sequence
from dataclasses import dataclass

from selfwire.core.budget import add_cost_on_error, get_error_cost
from selfwire.core.errors import ModelError, format_error
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers import blame
from selfwire.evolvers.experience import library as experience
from selfwire.evolvers.hera import mutation
from selfwire.evolvers.hera.initial_team import METHOD, make_initial_workflow
from selfwire.evolvers.hera.profile import Brief
from selfwire.graphs.hera.actions import HeraActions, make_notes
from selfwire.graphs.hera.state_graph import learn
from selfwire.graphs.method_protocol import EvolveResult, Method, TrajectoryGrader, explore_samples
from selfwire.graphs.prompts import load_prompts

LEARNED = (experience.MEMORY, blame.MEMORY, mutation.MEMORY)
"""Names in a workflow's memory; what they hold is true whatever prompts are kept."""


@dataclass(frozen=True)
class Hera(HeraActions, Method):
    """HERA with its models, tools and embedder; attributes as `HeraActions`."""

    @property
    def name(self) -> str:
        """The method's name."""
        return METHOD

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The pool around the default chain, without insights."""
        return make_initial_workflow(load_prompts("evolvers", METHOD), tools=tools)

    def check_learned(self, workflow: Workflow) -> None:
        """Read everything that the workflow has learned; raises as `Method.check_learned`."""
        experience.get_library(workflow), blame.get_buffers(workflow), mutation.get_mutated(workflow)

    async def solve(self, workflow: Workflow, question: Question, *, scope: Scope) -> Trajectory:
        """Characterise, retrieve, plan once at the temperature of evaluations, execute.

        Raises:
            ModelError: the question could not be characterised or planned for.
            BudgetError: the run must stop.
        """
        brief = await self.make_brief(workflow, question, scope=scope)
        with add_cost_on_error(brief.usage):
            plan, usage = await self.plan_question(workflow, question, brief, self.orchestrator, scope=scope)
        done = await self.execute(workflow, question, plan.topology, self.config.temperature, scope=scope)
        return done.replace(overhead=brief.usage + usage, notes=make_notes(brief, plan))

    @property
    def samples(self) -> int:
        """G, the size of a group."""
        return self.config.group

    async def explore(self, workflow: Workflow, question: Question, *, scope: Scope) -> Sequence[Trajectory]:
        """A group: one profile and one retrieval, then G plans and teams side by side.

        Each member's notes hold `profile`, `insights` (those in its prompt), `topology`, `plan` (the orchestrator's
        words), `repairs` and `default`. Where a model fails to plan, only that member ends as an error.
        """
        brief = await self.make_brief(workflow, question, scope=scope)

        async def run(place: Scope) -> Trajectory:
            return await self.rollout(workflow, question, brief, scope=place)

        blank = Trajectory(question=question, workflow=workflow.fingerprint)
        return await explore_samples(run, blank, self.samples, scope=scope)

    async def rollout(self, workflow: Workflow, question: Question, brief: Brief, *, scope: Scope) -> Trajectory:
        """One member of a group; the first carries the cost of the brief."""
        shared = brief.usage if scope.sample == 0 else Usage()
        try:
            plan, usage = await self.plan_question(workflow, question, brief, self.explorer, scope=scope)
        except ModelError as error:
            paid = shared + get_error_cost(error)
            blank = Trajectory(question=question, workflow=workflow.fingerprint, sample=scope.sample, overhead=paid)
            return blank.as_failed(format_error(error))
        heat = self.config.explore_temperature
        done = await self.execute(workflow, question, plan.topology, heat, scope=scope)
        return done.replace(overhead=shared + usage, notes=make_notes(brief, plan))

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """One pass from rank to consolidate_prompt over the graded groups of a batch."""
        return await learn(self, workflow, trajectories, scope, grade)

    def carry_over_memory(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """The kept prompts and pool with the candidate's experience, failures and mutated questions."""
        learned = {name: value for name, value in candidate.memory.items() if name in LEARNED}
        return kept.with_memory(**learned) if learned else kept
