"""HiVA wired to models, tools and an embedder: the method as the outer evolution and the state machine call it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from langchain_core.runnables import RunnableConfig

from selfwire.core.edits import Rewiring
from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import to_plain_json
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.forward import characterize_task, make_instructor, match_task
from selfwire.evolvers.hiva.initial_team import METHOD, adopt_workflow, make_initial_workflow
from selfwire.evolvers.hiva.kabb import TaskMatch, make_router
from selfwire.evolvers.hiva.knowledge import TaskConcepts
from selfwire.evolvers.hiva.repair import propose_least_helpful_removal
from selfwire.evolvers.hiva.updates import carry_over_learning, make_weight_sample, refit_weights
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trained_router.weights import ROUTER
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.method_protocol import EvolveResult, Method, TrajectoryGrader
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.team import run_team
from selfwire.graphs.trained_router.routing import make_learned_router, to_team_episode
from selfwire.nodes.agent import make_agent_runner


def has_learned_router(workflow: Workflow, config: HivaConfig) -> bool:
    """Whether a team's router is the trained one of EvoMAS."""
    return config.router == "learned" or (config.router == "auto" and ROUTER in workflow.memory)


@dataclass(frozen=True)
class Hiva(Method):
    """HiVA wired to models, tools and an embedder.

    Attributes:
        model: plays the roles agent and meta.
        toolbox: tools by the name that agents hold.
        embedder: of concepts and agents.
        config: the method's knobs and ablations.
    """

    model: Model
    toolbox: Toolbox
    embedder: Embedder
    config: HivaConfig = field(default_factory=HivaConfig)

    @property
    def name(self) -> str:
        """The method's name."""
        return METHOD

    @cached_property
    def coach(self) -> PromptedModel:
        """The meta model with HiVA's prompts."""
        return PromptedModel(self.model, load_prompts("evolvers", "hiva"), self.config.temperature)

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The singleton: source -> aggregator."""
        return make_initial_workflow(load_prompts("evolvers", "hiva"), tools=tools, config=self.config)

    def prepare_workflow(self, workflow: Workflow) -> Workflow:
        """A team that there is already, with the config's caps, and without tools in "w/o Tool"."""
        return adopt_workflow(workflow, self.config)

    async def solve(
        self, workflow: Workflow, question: Question, *, scope: Scope, within: RunnableConfig | None = DETACHED
    ) -> Trajectory:
        """Characterise the task, match it with the agents, and run the team once.

        Args:
            workflow: what runs.
            question: what is asked.
            scope: place of the run.
            within: config of the team's graph; None makes it part of the running graph, checkpoints and all.

        Raises:
            ModelError: the task could not be characterised.
            BudgetError: the run must stop.
        """
        concepts, overhead, found = None, Usage(), TaskMatch()
        if self.config.kabb:
            concepts, overhead = await self.characterize_task(question, workflow, scope)
            found = await match_task(concepts, workflow, self.embedder)
        act = make_agent_runner(self.model, self.toolbox, temperature=self.config.temperature)
        router = make_router(workflow, found, self.config)
        if learned := has_learned_router(workflow, self.config):
            routing = await make_learned_router(workflow, question, act, self.embedder)
            act, router = routing.act, routing.router
        run = TeamContext(
            question=question,
            scope=scope.at(task=question.id),
            agents=workflow.agents_by_id,
            act=act,
            router=router,
            instruct=make_instructor(workflow, self.coach),
            workflow=workflow.fingerprint,
        )
        done = await run_team(workflow.topology, run, config=within)
        notes = {"concepts": concepts.model_dump(mode="json")} if concepts else {}
        if learned and (decided := to_team_episode(done, workflow)):
            notes["episode"] = decided.model_dump(mode="json")
        return done.replace(overhead=overhead, notes=notes)

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """One pass from loss to update_beliefs over graded trajectories."""
        from selfwire.graphs.hiva.state_graph import learn  # the machine is made of this method's steps

        return await learn(self, workflow, trajectories, scope)

    async def learn_held_out(self, workflow: Workflow, trajectories: Sequence[Trajectory]) -> Workflow:
        """Refit the indicator weights to held-out runs; never in "w/o Env", whose verdicts they would be."""
        if not self.config.environment:
            return workflow
        known = [(t, self.concepts(t)) for t in trajectories]
        found = [
            make_weight_sample(t, workflow, await match_task(concepts, workflow, self.embedder))
            for t, concepts in known
            if concepts
        ]
        return refit_weights(workflow, found)

    def carry_over_memory(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """The kept agents and topology with the candidate's beliefs about those that survive in both."""
        return carry_over_learning(kept, candidate)

    def propose_pruning(self, workflow: Workflow) -> Rewiring | None:
        """The rewiring that removes the agent with the lowest posterior mean; None if nothing can go."""
        return propose_least_helpful_removal(workflow)

    async def characterize_task(
        self, question: Question, workflow: Workflow, scope: Scope
    ) -> tuple[TaskConcepts, Usage]:
        """What a task is about, and what it cost to find out."""
        tools = [self.toolbox[name].spec for name in sorted(self.get_held_tools(workflow))]
        return await characterize_task(question, workflow, self.coach, tools=tools, scope=scope)

    def get_held_tools(self, workflow: Workflow) -> set[str]:
        """Names of the tools that the workflow's agents hold."""
        return {tool for agent in workflow.agents for tool in agent.tools if tool in self.toolbox}

    def concepts(self, trajectory: Trajectory) -> TaskConcepts | None:
        """What was noted of a run's task; None where it was not characterised."""
        noted = trajectory.notes.get("concepts")
        return TaskConcepts.model_validate(to_plain_json(noted)) if noted else None
