"""DyTopo wired to models, tools and an embedder."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MEMORY, DytopoMemory
from selfwire.evolvers.dytopo.initial_team import make_initial_workflow
from selfwire.evolvers.dytopo.team import Team
from selfwire.graphs.dytopo.state import DytopoState, Report
from selfwire.graphs.method_protocol import EvolveResult, Method, TrajectoryGrader
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.prompts import load_prompts


@dataclass(frozen=True)
class Dytopo(Method):
    """DyTopo wired to models, tools and an embedder.

    Attributes:
        model: plays the roles agent (workers) and meta (manager).
        toolbox: tools by the name that agents hold.
        embedder: of needs and offers.
        config: the method's knobs and switches.
    """

    model: Model
    toolbox: Toolbox
    embedder: Embedder
    config: DytopoConfig = field(default_factory=DytopoConfig)

    @property
    def name(self) -> str:
        """The method's name."""
        return MEMORY

    @cached_property
    def team(self) -> Team:
        """The models with DyTopo's prompts."""
        return Team(self.model, load_prompts("evolvers", "dytopo"), self.toolbox, self.config)

    @cached_property
    def machine(self) -> CompiledStateGraph[DytopoState, Any, Any, Any]:
        """The state machine, compiled once."""
        from selfwire.graphs.dytopo.state_graph import make_solver  # the machine is made of this method's steps

        return make_solver(self)

    def make_initial_workflow(self, tools: Sequence[str] = (), domain: str | None = None) -> Workflow:
        """A domain's team (code, math or general, by default the config's), its workers holding these tools.

        Raises:
            ConfigError: there is no such domain.
        """
        try:
            return make_initial_workflow(load_prompts("evolvers", "dytopo"), domain or self.config.domain, tools=tools)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def prepare_workflow(self, workflow: Workflow) -> Workflow:
        """A team of one's own, or one whose setting was tuned, as it is.

        Raises:
            ConfigError: it does not say who answers and who checks.
        """
        try:
            DytopoMemory.of(workflow)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return workflow

    def with_config(self, config: DytopoConfig) -> "Dytopo":
        """The same models with other knobs."""
        return replace(self, config=config)

    async def solve(self, workflow: Workflow, question: Question, *, scope: Scope) -> Trajectory:
        """Run the team on a question until it is done or out of rounds.

        Raises:
            BudgetError, OutageError: the run must stop; `reached` holds what the rounds until then came to. Other
                faults end in the trajectory's `error`.
        """
        report = await self.run(workflow, question, scope=scope)
        return report.trajectory(question, workflow.fingerprint, scope.sample)

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """Fit tau and K_in: other settings are tried on the same questions; the gate has the last word."""
        from selfwire.graphs.dytopo.tuning import tune_workflow  # the tuner runs this method

        found = await tune_workflow(self, workflow, trajectories, grade, scope=scope)
        notes = {
            "chosen": found.chosen.model_dump(mode="json"),
            "trials": [one.model_dump(mode="json") for one in found.trials],
        }
        return EvolveResult(
            workflow=found.workflow, notes=notes, gated=found.workflow.fingerprint != workflow.fingerprint
        )

    async def run(
        self, workflow: Workflow, question: Question, *, scope: Scope, within: RunnableConfig | None = DETACHED
    ) -> Report:
        """As `solve`, with everything that happened.

        Args:
            workflow: the team.
            question: what is asked.
            scope: place of the run.
            within: config of the machine; None makes it part of the running graph, checkpoints and all.
        """
        from selfwire.graphs.dytopo.state_graph import run

        return await run(self, workflow, question, scope, within)
