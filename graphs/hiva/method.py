"""HiVA as a method: what evaluations and the outer evolution call."""

from collections.abc import Sequence
from dataclasses import dataclass

from selfwire.core.edits import Rewiring
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.initial_team import METHOD, adopt_workflow, make_initial_workflow
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.evolvers.hiva.repair import propose_least_helpful_removal
from selfwire.evolvers.hiva.updates import carry_over_learning, make_weight_sample, refit_weights
from selfwire.graphs.hiva.actions import HivaActions, needs_concepts
from selfwire.graphs.hiva.state_graph import learn
from selfwire.graphs.method_protocol import EvolveResult, Method, TrajectoryGrader
from selfwire.graphs.prompts import load_prompts


@dataclass(frozen=True)
class Hiva(HivaActions, Method):
    """HiVA with its models, tools and embedder; attributes as `HivaActions`."""

    @property
    def name(self) -> str:
        """The method's name."""
        return METHOD

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The singleton: source -> aggregator."""
        return make_initial_workflow(load_prompts("evolvers", METHOD), tools=tools, config=self.config)

    def prepare_workflow(self, workflow: Workflow) -> Workflow:
        """An existing team with the config's caps, and without tools in "w/o Tool"."""
        return adopt_workflow(workflow, self.config)

    def check_learned(self, workflow: Workflow) -> None:
        """Read everything that the workflow has learned; raises as `Method.check_learned`."""
        HivaMemory.of(workflow)

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """One pass from loss to repair over graded trajectories."""
        return await learn(self, workflow, trajectories, scope)

    @property
    def sees_labels(self) -> bool:
        """Not in "w/o Env"."""
        return self.config.environment

    def fits_held_out(self, workflow: Workflow) -> bool:
        """Where the bandit has a choice, which omega weighs."""
        return self.config.environment and needs_concepts(workflow, self.config)

    async def learn_held_out(self, workflow: Workflow, trajectories: Sequence[Trajectory]) -> Workflow:
        """Refit the indicator weights to held-out runs; never in "w/o Env", which has no verdicts to fit to."""
        if not self.config.environment:
            return workflow
        matches = [(done, await self.match_noted(done, workflow)) for done in trajectories]
        return refit_weights(workflow, [make_weight_sample(done, workflow, match) for done, match in matches if match])

    def carry_over_memory(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """The kept agents and topology with the candidate's beliefs about those that survive in both."""
        return carry_over_learning(kept, candidate)

    def propose_pruning(self, workflow: Workflow) -> Rewiring | None:
        """The rewiring that removes the agent with the lowest posterior mean; None if nothing can go."""
        return propose_least_helpful_removal(workflow)
