"""What the nodes of HiVA's graph do with models, tools and an embedder."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from langchain_core.runnables import RunnableConfig

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ModelError
from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import DECISIONS, Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import to_plain_json
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.forward import characterize_task, make_instructor, match_task
from selfwire.evolvers.hiva.initial_team import METHOD
from selfwire.evolvers.hiva.kabb import TaskMatch, count_decisions, has_choice, make_router
from selfwire.evolvers.hiva.knowledge import TaskConcepts
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trained_router.config import ROUTER
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.own_tools import add_own_tools
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.team import run_team
from selfwire.nodes.agent import make_agent_runner


def has_learned_router(workflow: Workflow, config: HivaConfig) -> bool:
    """Whether a trained router chooses successors in the bandit's place."""
    return config.router == "learned" or (config.router == "auto" and ROUTER in workflow.memory)


@dataclass(frozen=True)
class HivaActions:
    """HiVA wired to models in the roles agent and meta, tools by the name that agents hold, and an embedder."""

    model: Model
    toolbox: Toolbox
    embedder: Embedder
    config: HivaConfig = field(default_factory=HivaConfig)

    @cached_property
    def meta_model(self) -> PromptedModel:
        """The meta model with HiVA's prompts."""
        return PromptedModel(self.model, load_prompts("evolvers", METHOD), self.config.temperature, quotes_once=True)

    async def solve(
        self,
        workflow: Workflow,
        question: Question,
        *,
        scope: Scope,
        concepts: TaskConcepts | None = None,
        graph_config: RunnableConfig | None = DETACHED,
    ) -> Trajectory:
        """Match the task with the agents where the bandit has a choice, and run the team once (Alg. 2).

        Args:
            concepts: of the task, if it has been characterised; otherwise it is characterised where it has to be.
            graph_config: of the team's graph; None makes it part of the running graph, checkpoints included.

        Raises:
            ModelError: the task could not be characterised.
            BudgetError: the run must stop.
        """
        overhead, match = Usage(), TaskMatch()
        if needs_concepts(workflow, self.config):
            if concepts is None:
                concepts, overhead = await self.characterize_task(question, workflow, scope)
            match = await match_task(concepts, workflow, self.embedder)
        tools = add_own_tools(self.toolbox, workflow)
        act = make_agent_runner(self.model, tools, temperature=self.config.temperature)
        router = make_router(workflow, match, self.config)
        learned = has_learned_router(workflow, self.config)
        if learned:
            from selfwire.graphs.trained_router.routing import make_learned_router, to_team_episode  # imports numpy

            routing = await make_learned_router(workflow, question, act, self.embedder)
            act, router = routing.act, routing.router
        instruct = make_instructor(workflow, replace(self.meta_model, quotes_once=False))  # what it hands over is whole
        context = TeamContext.of(workflow, question, scope.at(task=question.id), act, router=router, instruct=instruct)
        done = await run_team(workflow.topology, context, config=graph_config)
        notes = make_notes(concepts)
        if decided := count_decisions(done.steps):
            notes[DECISIONS] = decided.model_dump(mode="json")
        if learned and (episode := to_team_episode(done, workflow)):
            notes["episode"] = episode.model_dump(mode="json")
        return done.replace(overhead=overhead, notes=notes)

    async def characterize_task(
        self, question: Question, workflow: Workflow, scope: Scope
    ) -> tuple[TaskConcepts, Usage]:
        """The concepts of a task, and the cost of naming them."""
        held = {tool for agent in workflow.agents for tool in agent.tools}
        tools = [one.spec for name, one in sorted(add_own_tools(self.toolbox, workflow).items()) if name in held]
        return await characterize_task(question, workflow, self.meta_model, tools=tools, scope=scope)

    async def match_noted(self, trajectory: Trajectory, workflow: Workflow) -> TaskMatch | None:
        """How the task of a run meets the agents; None where it was not characterised."""
        concepts = get_concepts(trajectory)
        return await match_task(concepts, workflow, self.embedder) if concepts else None

    async def note_concepts(
        self, trajectories: Sequence[Trajectory], tasks: Collection[str], workflow: Workflow, scope: Scope
    ) -> tuple[tuple[Trajectory, ...], Usage]:
        """The trajectories, with concepts for those of `tasks` that were not characterised before they ran."""
        noted, spent = list[Trajectory](), Usage()
        for trajectory in trajectories:
            if trajectory.question.id in tasks and get_concepts(trajectory) is None:
                try:
                    concepts, usage = await self.characterize_task(trajectory.question, workflow, scope)
                    trajectory = trajectory.replace(notes={**trajectory.notes, **make_notes(concepts)})
                except ModelError as error:  # one task's failure does not stop what the others teach
                    usage = get_error_cost(error)
                spent += usage
            noted.append(trajectory)
        return tuple(noted), spent


def needs_concepts(workflow: Workflow, config: HivaConfig) -> bool:
    """Whether the bandit has a choice to make, which goes by the task's concepts (D21)."""
    return config.kabb and not has_learned_router(workflow, config) and has_choice(workflow.topology)


def make_notes(concepts: TaskConcepts | None) -> dict[str, Any]:
    """Notes of a trajectory on its task."""
    return {"concepts": concepts.model_dump(mode="json")} if concepts else {}


def get_concepts(trajectory: Trajectory) -> TaskConcepts | None:
    """The concepts noted of a run's task; None where it was not characterised."""
    noted = trajectory.notes.get("concepts")
    return TaskConcepts.model_validate(to_plain_json(noted)) if noted else None
