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
from selfwire.core.values import thawed
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.forward import instructor, match, profile
from selfwire.evolvers.hiva.initial_team import METHOD, adopted, seed
from selfwire.evolvers.hiva.kabb import TaskMatch, router_for
from selfwire.evolvers.hiva.knowledge import TaskConcepts
from selfwire.evolvers.hiva.repair import least_helpful
from selfwire.evolvers.hiva.updates import evidence, kept_learning, refit_weights
from selfwire.evolvers.prompted_model import Coach
from selfwire.evolvers.trained_router.weights import ROUTER
from selfwire.graphs.agent_node import TeamRun
from selfwire.graphs.method_protocol import Evolved, Grade, Method
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.team import run_team
from selfwire.graphs.trained_router.routing import learned_routing, team_episode
from selfwire.nodes.agent import agent_act


def asks_head(workflow: Workflow, config: HivaConfig) -> bool:
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
    def coach(self) -> Coach:
        """The meta model with HiVA's prompts."""
        return Coach(self.model, load_prompts("evolvers", "hiva"), self.config.temperature)

    def seed(self, tools: Sequence[str] = ()) -> Workflow:
        """The singleton: source -> aggregator."""
        return seed(load_prompts("evolvers", "hiva"), tools=tools, config=self.config)

    def adopted(self, workflow: Workflow) -> Workflow:
        """A team that there is already, with the config's caps, and without tools in "w/o Tool"."""
        return adopted(workflow, self.config)

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
            concepts, overhead = await self.profiled(question, workflow, scope)
            found = await match(concepts, workflow, self.embedder)
        act = agent_act(self.model, self.toolbox, temperature=self.config.temperature)
        router = router_for(workflow, found, self.config)
        if learned := asks_head(workflow, self.config):
            routing = await learned_routing(workflow, question, act, self.embedder)
            act, router = routing.act, routing.router
        run = TeamRun(
            question=question,
            scope=scope.at(task=question.id),
            agents=workflow.pool,
            act=act,
            router=router,
            instruct=instructor(workflow, self.coach),
            workflow=workflow.fingerprint,
        )
        done = await run_team(workflow.topology, run, config=within)
        notes = {"concepts": concepts.model_dump(mode="json")} if concepts else {}
        if learned and (decided := team_episode(done, workflow)):
            notes["episode"] = decided.model_dump(mode="json")
        return done.replace(overhead=overhead, notes=notes)

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: Grade
    ) -> Evolved:
        """One pass from loss to update_beliefs over graded trajectories."""
        from selfwire.graphs.hiva.state_graph import learn  # the machine is made of this method's steps

        return await learn(self, workflow, trajectories, scope)

    async def learn_held_out(self, workflow: Workflow, trajectories: Sequence[Trajectory]) -> Workflow:
        """Refit the indicator weights to held-out runs; never in "w/o Env", whose verdicts they would be."""
        if not self.config.environment:
            return workflow
        known = [(t, self.concepts(t)) for t in trajectories]
        found = [
            evidence(t, workflow, await match(concepts, workflow, self.embedder)) for t, concepts in known if concepts
        ]
        return refit_weights(workflow, found)

    def keep_learned(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """The kept agents and topology with the candidate's beliefs about those that survive in both."""
        return kept_learning(kept, candidate)

    def pruned(self, workflow: Workflow) -> Rewiring | None:
        """The rewiring that removes the agent with the lowest posterior mean; None if nothing can go."""
        return least_helpful(workflow)

    async def profiled(self, question: Question, workflow: Workflow, scope: Scope) -> tuple[TaskConcepts, Usage]:
        """What a task is about, and what it cost to find out."""
        tools = [self.toolbox[name].spec for name in sorted(self.held(workflow))]
        return await profile(question, workflow, self.coach, tools=tools, scope=scope)

    def held(self, workflow: Workflow) -> set[str]:
        """Names of the tools that the workflow's agents hold."""
        return {tool for agent in workflow.agents for tool in agent.tools if tool in self.toolbox}

    def concepts(self, trajectory: Trajectory) -> TaskConcepts | None:
        """What was noted of a run's task; None where it was not characterised."""
        noted = trajectory.notes.get("concepts")
        return TaskConcepts.model_validate(thawed(noted)) if noted else None
