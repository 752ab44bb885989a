"""DyTopo as a method: what evaluations and the outer evolution call. It never receives a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.domain import MEMORY, DytopoMemory
from selfwire.evolvers.dytopo.halting import choose_answer
from selfwire.evolvers.dytopo.initial_team import make_initial_workflow
from selfwire.evolvers.dytopo.report import Report
from selfwire.graphs.dytopo.nodes import DytopoActions
from selfwire.graphs.dytopo.state import DytopoState, SolveContext
from selfwire.graphs.dytopo.state_graph import compile_solver
from selfwire.graphs.dytopo.tuning import tune_workflow
from selfwire.graphs.method_protocol import EvolveResult, Method, TrajectoryGrader
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.run_end import run_to_end


@dataclass(frozen=True)
class Dytopo(DytopoActions, Method):
    """DyTopo with its models, tools and embedder; attributes as `DytopoActions`."""

    @property
    def name(self) -> str:
        """The method's name."""
        return MEMORY

    @cached_property
    def solver(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The state graph, compiled once for all teams and questions."""
        return compile_solver(self)

    def make_initial_workflow(self, tools: Sequence[str] = (), domain: str | None = None) -> Workflow:
        """A domain's team (code, math or general, by default the config's), its workers holding these tools.

        Raises:
            ConfigError: there is no such domain.
        """
        try:
            return make_initial_workflow(load_prompts("evolvers", MEMORY), domain or self.config.domain, tools=tools)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def prepare_workflow(self, workflow: Workflow) -> Workflow:
        """A user's team, or one whose setting was tuned, as it is.

        Raises:
            ConfigError: it does not say who answers and who checks.
        """
        try:
            DytopoMemory.of(workflow)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return workflow

    async def solve(self, workflow: Workflow, question: Question, *, scope: Scope) -> Trajectory:
        """Run the team on a question until it is done or out of rounds.

        Raises:
            BudgetError, OutageError: the run must stop; the error holds the answer of the rounds until then. Other
                faults end in the trajectory's `error`.
        """
        report = await self.run(workflow, question, scope=scope)
        return report.trajectory(question, workflow.fingerprint, scope.sample)

    async def run(self, workflow: Workflow, question: Question, *, scope: Scope) -> Report:
        """As `solve`, with everything that happened."""
        # four nodes per round, and those that begin and conclude
        limit: RunnableConfig = {"recursion_limit": 4 * self.config.rounds + 4}
        channels = await run_to_end(
            self.solver,
            {"question": question.input},
            {**DETACHED, **limit},
            so_far=lambda channels: _build_partial_result(DytopoState(channels), question, workflow, scope),
            context=SolveContext(seed=scope.seed, place=scope.at(task=question.id), start=workflow),
        )
        return Report.of(channels)

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """Fit tau and K_in: other settings are tried on the same questions, and the gate decides."""
        found = await tune_workflow(self, self.config, workflow, trajectories, grade, scope=scope)
        notes = found.model_dump(mode="json", include={"chosen", "trials"})
        needs_gate = found.workflow.fingerprint != workflow.fingerprint
        return EvolveResult(workflow=found.workflow, notes=notes, needs_gate=needs_gate)


def _build_partial_result(
    state: DytopoState, question: Question, workflow: Workflow, scope: Scope
) -> Trajectory | None:
    answer = choose_answer(state.domain, [one.in_order for one in state.rounds])
    if not answer:
        return None
    stopped = state.after(state.update(answer=answer, error=None, stopped="stopped"))
    return Report.of(stopped.channels).trajectory(question, workflow.fingerprint, scope.sample)
