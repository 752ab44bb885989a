"""TacoMAS wired to models and tools: what evaluations and the state machine call. It never receives a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langchain_core.runnables import RunnableConfig

from selfwire.core.agent import MEMORY_NOTES, Agent
from selfwire.core.budget import cost_of
from selfwire.core.errors import ModelError, described
from selfwire.core.protocols import Act, Model, Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step, Trajectory
from selfwire.core.usage import Usage, total
from selfwire.core.workflow import Workflow
from selfwire.evolvers.prompted_model import Coach
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.initial_team import METHOD, seed
from selfwire.evolvers.tacomas.lessons import MEMORY, with_lessons
from selfwire.evolvers.tacomas.messages import weighed
from selfwire.evolvers.tacomas.rounds import Round, agreement, best_round, figures
from selfwire.graphs.agent_node import TeamRun
from selfwire.graphs.method_protocol import Evolved, Grade, Method
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.routers import every
from selfwire.graphs.run_end import run_to_end
from selfwire.graphs.run_start import Opening
from selfwire.graphs.team import run_team
from selfwire.nodes.agent import agent_act


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
    def coach(self) -> Coach:
        """The meta-model and the judge with TacoMAS's prompts."""
        return Coach(self.model, load_prompts("evolvers", METHOD), self.config.temperature)

    def seed(self, tools: Sequence[str] = ()) -> Workflow:
        """The initial team of five."""
        return seed(load_prompts("evolvers", METHOD), tools=tools, config=self.config)

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
            machine,
            steps_needed,
        )

        async def wire(context: object, spent: Usage) -> tuple[Tacomas, None]:
            return self, None

        graph = machine(self.config, Opening(workflow, scope=scope, asked=question), wire).compile(name=METHOD)
        given = {"question": question.input}
        limit: RunnableConfig = {"recursion_limit": steps_needed(self.config.rounds)}
        try:
            final = await run_to_end(
                graph, given, {**(within or {}), **limit}, so_far=lambda state: _so_far(state, workflow)
            )
        except ModelError as error:
            return Trajectory(
                question=question,
                workflow=workflow.fingerprint,
                error=described(error),
                sample=scope.sample,
                overhead=cost_of(error),
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
        run = TeamRun(
            question=question,
            scope=scope,
            agents={agent.id: coached(agent, notes.get(agent.id, ())) for agent in workflow.agents},
            act=self._weighing(workflow, weights),
            router=every,
            workflow=workflow.fingerprint,
        )
        return await run_team(workflow.topology, run, carried=carried)

    def offered(self, workflow: Workflow) -> dict[str, Tool]:
        """Tools that newborns may hold: those that the initial team holds."""
        held = {tool for agent in workflow.agents for tool in agent.tools}
        return {name: tool for name, tool in sorted(self.toolbox.items()) if name in held}

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: Grade
    ) -> Evolved:
        """Structural lessons, if the config keeps any; the team that questions start with stays as it is.

        Its notes say how often the judge agreed with the environment.
        """
        notes = agreement(trajectories)
        if not self.config.lessons:
            return Evolved(workflow=workflow, notes=notes)
        taught = with_lessons(workflow, trajectories, tools=tuple(self.offered(workflow)))
        return Evolved(workflow=workflow if taught == workflow else taught.descended_from(workflow, ()), notes=notes)

    def keep_learned(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """The kept team with the candidate's lessons, which hold whatever team is chosen."""
        return kept.learned(**{MEMORY: candidate.memory[MEMORY]}) if MEMORY in candidate.memory else kept

    def _weighing(self, workflow: Workflow, weights: Mapping[str, float]) -> Act:
        act = agent_act(self.model, self.toolbox, temperature=self.config.temperature)
        by_node = {node: weights.get(agent, 0.0) for node, agent in workflow.topology.agents.items()}

        async def weighing(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
            read = weighed(inbox, by_node, self.config.fast.inbox_length)
            return await act(agent, question, read, scope=scope)

        return weighing


def coached(agent: Agent, notes: Sequence[str]) -> Agent:
    """The agent with its refinements after the notes that it has; the oldest go where there are too many."""
    return agent.replace(memory=(*agent.memory, *notes)[-MEMORY_NOTES:]) if notes else agent


def _so_far(state: Mapping[str, Any], workflow: Workflow) -> Trajectory | None:
    """The best judged round of a run that was stopped, else the last answered one."""
    rounds = [Round.model_validate(one) for one in state["rounds"]]
    best = best_round(rounds)
    if best is None:
        return None
    told = figures(rounds, stop="stopped", calls=Usage.model_validate(state["usage"]).calls)
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
    overhead = spent.without(total(step.usage for step in best.steps))
    return best.replace(workflow=workflow.fingerprint, overhead=overhead, notes=notes, error=final["error"])
