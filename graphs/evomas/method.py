"""EvoMAS wired to models and tools: what evaluations and the state machine call. It never receives a task."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langchain_core.runnables import RunnableConfig

from selfwire.core.agent import Agent
from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ModelError
from selfwire.core.protocols import AgentRunner, Embedder, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.pool import METHOD, find_browsing_tools, make_initial_workflow
from selfwire.evolvers.evomas.stages import Stage, get_runnable_part, get_settled_answer, to_episode
from selfwire.evolvers.evomas.state import TaskState
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trained_router.decisions import Chooser
from selfwire.evolvers.trained_router.weights import ROUTER
from selfwire.graphs.evomas.chooser_factory import ChooserFactory
from selfwire.graphs.evomas.stage import StageRun, make_layered_topology
from selfwire.graphs.method_protocol import EvolveResult, Method, TrajectoryGrader
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.run_end import run_to_end
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.trained_router.learning import to_router_episode, update_router
from selfwire.nodes.agent import make_agent_runner
from selfwire.nodes.ensemble import make_ensemble_runner


@dataclass(frozen=True)
class Evomas(Method):
    """EvoMAS wired to models, tools and an embedder.

    Attributes:
        model: plays the roles agent, meta (planner) and judge (evaluator).
        toolbox: tools by the name that agents hold.
        embedder: of task states and agents, for the head.
        config: the method's knobs and ablations.
        adapters: keeps heads that are built.
    """

    model: Model
    toolbox: Toolbox
    embedder: Embedder
    config: EvomasConfig = field(default_factory=EvomasConfig)
    adapters: ChooserFactory = field(default_factory=ChooserFactory)

    @property
    def name(self) -> str:
        """The method's name."""
        return METHOD

    @cached_property
    def coach(self) -> PromptedModel:
        """Planner and evaluator with EvoMAS's prompts."""
        return PromptedModel(self.model, load_prompts("evolvers", METHOD), self.config.temperature)

    @cached_property
    def acts(self) -> dict[str, AgentRunner]:
        """How agents act, by kind."""
        heat = self.config.temperature
        return {
            "worker": make_agent_runner(self.model, self.toolbox, temperature=heat),
            "ensemble": make_ensemble_runner(self.model, load_prompts("nodes"), temperature=heat),
        }

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The pool; its browser holds what opens pages even where that is not lent to others."""
        prompts = load_prompts("evolvers", METHOD)
        return make_initial_workflow(
            prompts, tools=tools, pages=find_browsing_tools(self.toolbox) if tools else (), config=self.config
        )

    async def chooser(self, workflow: Workflow) -> Chooser:
        """Who chooses layers, as the config says; a head is built once per weights, off the event loop."""
        return await self.adapters.chooser(workflow, self.config, self.embedder)

    async def solve(
        self, workflow: Workflow, question: Question, *, scope: Scope, within: RunnableConfig | None = DETACHED
    ) -> Trajectory:
        """Run up to T stages on one question.

        Args:
            workflow: the pool, with the router's weights in its memory.
            question: what is asked.
            scope: place of the run.
            within: config of the machine's graph; None makes it part of the running graph.

        Returns:
            The steps of all stages (`visit` is the stage) and the final answer; planning, judging and the last
            synthesis are its overhead. `notes` hold `to_episode` (decisions and the evaluator's rewards, its utility
            open), `stages`, `status` and the `topology` that ran last. A planner or an evaluator that fails ends the
            run with what its stages came to; it is an error where that is nothing.

        Raises:
            BudgetError, OutageError: the run must stop; `reached` holds what its stages came to until then.
        """
        from selfwire.graphs.evomas.state_graph import (  # the machine is made of this method's steps
            build_state_graph,
            steps_needed,
        )

        async def wire(context: object, spent: Usage) -> tuple[Evomas, None]:
            return self, None

        graph = build_state_graph(self.config, RunStart(workflow, scope=scope, question=question), wire).compile(
            name=METHOD
        )
        limit: RunnableConfig = {"recursion_limit": steps_needed(self.config.stages)}
        final = await run_to_end(
            graph,
            {"question": question.input},
            {**(within or {}), **limit},
            so_far=lambda state: _build_partial_result(state, workflow, question, scope),
        )
        return make_result(final, workflow, question, scope)

    async def run_stage(
        self, workflow: Workflow, question: Question, state: TaskState, layers: Sequence[Sequence[str]], scope: Scope
    ) -> Trajectory:
        """Run layers of agents on the active subtask; see `StageRun`."""
        run = StageRun(workflow, question, state, self.config.task_state, self.acts, scope)
        return await run.play(layers)

    async def verify_answer(
        self, workflow: Workflow, question: Question, outcome: str, scope: Scope
    ) -> tuple[str, Usage]:
        """What looking up an outcome's claims brings, with all tools that the pool holds; "" where that fails."""
        held = tuple(dict.fromkeys(tool for agent in workflow.agents for tool in agent.tools))
        agent = Agent(id="verifier", prompt=load_prompts("evolvers", METHOD).text("verify").strip(), tools=held)
        inbox = (Message(source="workflow", target=agent.id, text=outcome),)
        try:
            step = await self.acts["worker"](agent, question, inbox, scope=scope.at(node=agent.id))
        except ModelError as error:
            return "", get_error_cost(error)
        return step.output, step.usage

    async def explore(self, workflow: Workflow, question: Question, *, scope: Scope) -> Sequence[Trajectory]:
        """`samples` runs, which differ by what is drawn."""
        places = [scope.at(sample=number) for number in range(self.config.samples)]
        return await asyncio.gather(*(self.solve(workflow, question, scope=place) for place in places))

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """One batch of REINFORCE; agents and topology stay, the router's weights are what is learned.

        Nothing is learned where nobody asks the head, and from trajectories that an error has ended.
        """
        episodes = [found for one in trajectories if (found := to_router_episode(one)) is not None]
        if self.config.adapter != "learned" or not episodes:
            return EvolveResult(workflow=workflow)
        learned, _, update = await update_router(
            workflow, episodes, self.config.routing, self.config.train, self.embedder
        )
        return EvolveResult(
            workflow=learned.with_lineage(workflow, ()), notes={"update": update.model_dump(mode="json")}
        )

    def carry_over_memory(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """The kept pool with the candidate's router, which reads agents by their texts."""
        return kept.with_memory(**{ROUTER: candidate.memory[ROUTER]}) if ROUTER in candidate.memory else kept


def _build_partial_result(
    state: Mapping[str, Any], workflow: Workflow, question: Question, scope: Scope
) -> Trajectory | None:
    """The last artifact that was passed in a run that was stopped, else its last attempt."""
    present = [one for one in [state["stage"]] if one and one["number"] == len(state["stages"])]
    told = [*state["stages"], *present]
    stages = [Stage.model_validate(one) for one in told]
    attempts = [one.outcome for one in stages if one.outcome]
    if not attempts:
        return None
    answer = get_settled_answer(stages) or attempts[-1]
    return make_result({**state, "stages": told, "answer": answer, "status": "stopped"}, workflow, question, scope)


def make_result(final: Mapping[str, Any], workflow: Workflow, question: Question, scope: Scope) -> Trajectory:
    """The trajectory of a run out of the machine's final state."""
    done = Trajectory(
        question=question,
        workflow=workflow.fingerprint,
        steps=tuple(final["steps"]),
        answer=final["answer"],
        error=final["error"],
        sample=scope.sample,
    )
    stages = [Stage.model_validate(one) for one in final["stages"]]
    decided = to_episode(stages)
    notes = {
        "episode": decided.model_dump(mode="json") if decided else None,
        "stages": final["stages"],
        "status": final["status"],
    }
    if drawn := [one.layered for one in stages if one.layered is not None and get_runnable_part(one.layered).layers]:
        notes["topology"] = make_layered_topology(get_runnable_part(drawn[-1]).layers).model_dump(mode="json")
    spent = Usage.model_validate(final["usage"])
    return done.replace(overhead=spent.subtract(sum_usages(step.usage for step in done.steps)), notes=notes)
