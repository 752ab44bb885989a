"""TacoMAS wired to models and tools: what evaluations and the state machine call. It never receives a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langchain_core.runnables import RunnableConfig

from selfwire.core.agent import MEMORY_NOTES, Agent
from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ModelError, format_error
from selfwire.core.protocols import AgentRunner, Model, Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.workflow import Workflow
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.initial_team import METHOD, make_initial_workflow
from selfwire.evolvers.tacomas.lessons import MEMORY, with_lessons
from selfwire.evolvers.tacomas.messages import weigh_messages
from selfwire.evolvers.tacomas.rounds import Round, compute_figures, count_agreement, find_best_round
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.method_protocol import EvolveResult, Method, TrajectoryGrader
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.routers import route_to_all
from selfwire.graphs.run_end import run_to_end
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.team import run_team
from selfwire.nodes.agent import make_agent_runner


@dataclass(frozen=True)
class Tacomas(Method):
    """TacoMAS wired to models and tools.

    Attributes:
        model: plays the roles agent, meta and judge.
        toolbox: tools by the name that agents hold.
        config: the method's knobs and ablations.
    """

    model: Model
    toolbox: Toolbox
    config: TacomasConfig = field(default_factory=TacomasConfig)

    @property
    def name(self) -> str:
        """The method's name."""
        return METHOD

    @cached_property
    def coach(self) -> PromptedModel:
        """The meta-model and the judge with TacoMAS's prompts."""
        return PromptedModel(self.model, load_prompts("evolvers", METHOD), self.config.temperature)

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The initial team of five."""
        return make_initial_workflow(load_prompts("evolvers", METHOD), tools=tools, config=self.config)

    async def solve(
        self, workflow: Workflow, question: Question, *, scope: Scope, within: RunnableConfig | None = DETACHED
    ) -> Trajectory:
        """Run up to R rounds on one question, starting from the workflow, which itself stays as it is.

        Args:
            workflow: the initial team.
            question: what is asked.
            scope: place of the run.
            within: config of the machine's graph; None makes it part of the running graph.

        Returns:
            The best round's steps and answer; what the other rounds and the coaching cost is its overhead, and
            `notes` holds `rounds`, `figures`, the `topology` that ran last, the `checklist`, the last `workflow`'s
            fingerprint, and `oracle`.
            A judge or meta-model that fails ends the run with the best answer until then; it is an error where
            there is none.

        Raises:
            BudgetError, OutageError: the run must stop; `reached` holds the best round until then.
        """
        from selfwire.graphs.tacomas.state_graph import (  # the machine is made of this method's steps
            build_state_graph,
            steps_needed,
        )

        async def wire(context: object, spent: Usage) -> tuple[Tacomas, None]:
            return self, None

        graph = build_state_graph(self.config, RunStart(workflow, scope=scope, asked=question), wire).compile(
            name=METHOD
        )
        given = {"question": question.input}
        limit: RunnableConfig = {"recursion_limit": steps_needed(self.config.rounds)}
        try:
            final = await run_to_end(
                graph, given, {**(within or {}), **limit}, so_far=lambda state: _build_partial_result(state, workflow)
            )
        except ModelError as error:
            return Trajectory(
                question=question,
                workflow=workflow.fingerprint,
                error=format_error(error),
                sample=scope.sample,
                overhead=get_error_cost(error),
            )
        return _result(final, workflow)

    async def round(
        self,
        workflow: Workflow,
        question: Question,
        *,
        weights: Mapping[str, float],
        notes: Mapping[str, Sequence[str]],
        carried: Sequence[Message] = (),
        scope: Scope,
    ) -> Trajectory:
        """Run the team once, with each agent's refinements in its memory and its inbox weighed (D1).

        Args:
            workflow: the team of this round.
            question: what is asked.
            weights: w_v by agent.
            notes: refinements by agent, oldest first.
            carried: messages of earlier rounds.
            scope: place of the round; `visit` is its number.
        """
        run = TeamContext(
            question=question,
            scope=scope,
            agents={agent.id: with_refinements(agent, notes.get(agent.id, ())) for agent in workflow.agents},
            act=self._weighing(workflow, weights),
            router=route_to_all,
            workflow=workflow.fingerprint,
        )
        return await run_team(workflow.topology, run, carried=carried)

    def list_offered_tools(self, workflow: Workflow) -> dict[str, Tool]:
        """Tools that newborns may hold: those that the initial team holds."""
        held = {tool for agent in workflow.agents for tool in agent.tools}
        return {name: tool for name, tool in sorted(self.toolbox.items()) if name in held}

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """Structural lessons, if the config keeps any; the team that questions start with stays as it is.

        Its notes say how often the judge agreed with the environment.
        """
        notes = count_agreement(trajectories)
        if not self.config.lessons:
            return EvolveResult(workflow=workflow, notes=notes)
        taught = with_lessons(workflow, trajectories, tools=tuple(self.list_offered_tools(workflow)))
        return EvolveResult(workflow=workflow if taught == workflow else taught.with_lineage(workflow, ()), notes=notes)

    def carry_over_memory(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """The kept team with the candidate's lessons, which hold whatever team is chosen."""
        return kept.with_memory(**{MEMORY: candidate.memory[MEMORY]}) if MEMORY in candidate.memory else kept

    def _weighing(self, workflow: Workflow, weights: Mapping[str, float]) -> AgentRunner:
        act = make_agent_runner(self.model, self.toolbox, temperature=self.config.temperature)
        by_node = {node: weights.get(agent, 0.0) for node, agent in workflow.topology.agents.items()}

        async def weighing(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
            read = weigh_messages(inbox, by_node, self.config.fast.inbox_length)
            return await act(agent, question, read, scope=scope)

        return weighing


def with_refinements(agent: Agent, notes: Sequence[str]) -> Agent:
    """The agent with its refinements after the notes that it has; the oldest go where there are too many."""
    return agent.replace(memory=(*agent.memory, *notes)[-MEMORY_NOTES:]) if notes else agent


def _build_partial_result(state: Mapping[str, Any], workflow: Workflow) -> Trajectory | None:
    """The best judged round of a run that was stopped, else the last answered one."""
    rounds = [Round.model_validate(one) for one in state["rounds"]]
    best = find_best_round(rounds)
    if best is None:
        return None
    told = compute_figures(rounds, stop="stopped", calls=Usage.model_validate(state["usage"]).calls)
    chosen = state["done"] if best == rounds[-1].number else state["best"]
    return _result({**state, "best": chosen, "error": None, "figures": told.model_dump(mode="json")}, workflow)


def _result(final: Mapping[str, Any], workflow: Workflow) -> Trajectory:
    chosen = final["best"] or final["done"]
    best = Trajectory.model_validate(chosen)
    spent, figures = Usage.model_validate(final["usage"]), final["figures"]
    notes = {
        "rounds": final["rounds"],
        "figures": figures,
        "topology": figures["topology"],
        "checklist": final["checklist"],
        "workflow": Workflow.model_validate(final["workflow"]).fingerprint,
        "oracle": final["oracle"],
    }
    overhead = spent.subtract(sum_usages(step.usage for step in best.steps))
    return best.replace(workflow=workflow.fingerprint, overhead=overhead, notes=notes, error=final["error"])
