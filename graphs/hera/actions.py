"""What the nodes of HERA's graph do with models, tools and an embedder."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from langchain_core.runnables import RunnableConfig

from selfwire.core.agent import Agent
from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.experience.library import ExperienceLibrary, get_library
from selfwire.evolvers.experience.profile import Profile
from selfwire.evolvers.experience.retrieval import retrieve_insights
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.initial_team import METHOD
from selfwire.evolvers.hera.planning import Plan, sample_topology
from selfwire.evolvers.hera.profile import Brief, characterize_query
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.own_tools import add_own_tools
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.team import run_team
from selfwire.nodes.agent import make_agent_runner


@dataclass(frozen=True)
class HeraActions:
    """HERA wired to models in the roles agent and meta, tools by the name that agents hold, and an embedder."""

    model: Model
    toolbox: Toolbox
    embedder: Embedder
    config: HeraConfig = field(default_factory=HeraConfig)

    @cached_property
    def orchestrator(self) -> PromptedModel:
        """The meta model with HERA's prompts."""
        return PromptedModel(self.model, load_prompts("evolvers", METHOD), self.config.temperature, quotes_once=True)

    @cached_property
    def explorer(self) -> PromptedModel:
        """The orchestrator as it samples the topologies of a group."""
        return replace(self.orchestrator, temperature=self.config.explore_temperature)

    async def make_brief(self, workflow: Workflow, question: Question, *, scope: Scope) -> Brief:
        """Alg. 4, lines 2 to 8: c and E_rel."""
        profile, usage = await characterize_query(question, self.orchestrator, scope=scope)
        return Brief(profile=profile, insights=await self.recall_insights(workflow, profile), usage=usage)

    async def recall_insights(self, workflow: Workflow, profile: Profile) -> ExperienceLibrary:
        """E_rel; nothing in "w/o experience library"."""
        if not self.config.library:
            return ()
        return await retrieve_insights(get_library(workflow), profile, self.embedder, self.config.experience)

    async def plan_question(
        self, workflow: Workflow, question: Question, brief: Brief, orchestrator: PromptedModel, *, scope: Scope
    ) -> tuple[Plan, Usage]:
        """Alg. 4, line 9: Gamma, and the cost of planning."""
        return await sample_topology(
            question, workflow, brief.profile, brief.insights, orchestrator, steps=self.config.steps, scope=scope
        )

    async def execute(
        self,
        workflow: Workflow,
        question: Question,
        topology: Topology,
        temperature: float,
        *,
        scope: Scope,
        agents: Mapping[str, Agent] | None = None,
        graph_config: RunnableConfig | None = DETACHED,
    ) -> Trajectory:
        """Execute(Gamma, q, D): run a topology of the pool's agents once.

        Args:
            temperature: of agents that state none.
            agents: instead of the workflow's, for prompt variants and newcomers.
            graph_config: config of the team's graph; None makes it part of the running graph.
        """
        act = make_agent_runner(self.model, add_own_tools(self.toolbox, workflow), temperature=temperature)
        context = TeamContext.of(workflow, question, scope.at(task=question.id), act, agents=agents)
        return await run_team(topology, context, config=graph_config)

    def get_held_tools(self, workflow: Workflow) -> tuple[str, ...]:
        """Tools that a new agent may hold: those of the pool."""
        there = add_own_tools(self.toolbox, workflow)
        return tuple(sorted({tool for agent in workflow.agents for tool in agent.tools if tool in there}))


def make_notes(brief: Brief, plan: Plan) -> dict[str, Any]:
    """Notes of a trajectory on its planning."""
    return {
        "profile": brief.profile.model_dump(mode="json"),
        "insights": [
            {"id": one.id, "text": one.text, "type": one.profile.type, "utility": round(one.utility, 6)}
            for one in brief.insights
        ],
        "plan": plan.profile,
        "repairs": list(plan.repairs),
        "default": plan.default,
        "topology": plan.topology.model_dump(mode="json"),
    }
