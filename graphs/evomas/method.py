"""EvoMAS as a method: what evaluations and the outer evolution call. It never receives a task."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.runnables import RunnableConfig

from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import DECISIONS, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.pool import METHOD, find_browsing_tools, make_initial_workflow
from selfwire.evolvers.evomas.stages import get_best_outcome, to_episode
from selfwire.evolvers.trained_router.config import ROUTER
from selfwire.evolvers.trained_router.decisions import count_decisions
from selfwire.graphs.evomas.actions import EvomasActions
from selfwire.graphs.evomas.stage import make_layered_topology
from selfwire.graphs.evomas.state import EvomasState
from selfwire.graphs.evomas.state_graph import build_state_graph
from selfwire.graphs.method_protocol import EvolveResult, Method, TrajectoryGrader, explore_samples
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.run_end import run_to_end
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.trained_router.heads import refuse_unusable
from selfwire.graphs.trained_router.learning import to_router_episode, update_router


@dataclass(frozen=True)
class Evomas(EvomasActions, Method):
    """EvoMAS with its models, tools and embedder; attributes as `EvomasActions`."""

    @property
    def name(self) -> str:
        """The method's name."""
        return METHOD

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The pool; its browser also holds tools that open pages where these are not given to others."""
        pages = find_browsing_tools(self.toolbox) if tools else ()
        return make_initial_workflow(load_prompts("evolvers", METHOD), tools=tools, pages=pages, config=self.config)

    def check_learned(self, workflow: Workflow) -> None:
        """Check that the router's weights, if there are any and they will be used, fit pool and embedder.

        Raises:
            ConfigError, LibraryError: they are corrupt, of another pool or embedder, or have not been loaded.
        """
        refuse_unusable(workflow, self.config.routing, self.embedder.name)

    async def solve(self, workflow: Workflow, question: Question, *, scope: Scope) -> Trajectory:
        """Run up to T stages on one question.

        Returns:
            The steps of all stages (`visit` is the stage) and the final answer; planning, judging and the closing
            call are its overhead. `notes` hold `episode` (decisions and the evaluator's rewards, its utility
            open), `stages`, `status`, `decisions` and the `topology` that ran last. A planner or an evaluator that
            fails ends the run with the best answer until then; it is an error where there is none.

        Raises:
            BudgetError, OutageError: the run must stop; the error holds the best answer until then.
        """

        async def provide(context: object, spent: Usage) -> tuple[Evomas, None]:
            return self, None

        start = RunStart(workflow, scope=scope, question=question)
        graph = build_state_graph(self.config, start, provide).compile(name=METHOD)
        # five nodes per stage, and those that begin and conclude
        limit: RunnableConfig = {"recursion_limit": 5 * self.config.stages + 5}
        final = await run_to_end(
            graph,
            {"question": question.input},
            {**DETACHED, **limit},
            so_far=lambda channels: _build_partial_result(EvomasState(channels), workflow, question, scope),
        )
        return _build_result(EvomasState(final), workflow, question, scope)

    @property
    def samples(self) -> int:
        """Episodes of a train question."""
        return self.config.samples

    async def explore(self, workflow: Workflow, question: Question, *, scope: Scope) -> Sequence[Trajectory]:
        """Run `samples` times; the runs differ by what is drawn."""

        async def run(place: Scope) -> Trajectory:
            return await self.solve(workflow, question, scope=place)

        blank = Trajectory(question=question, workflow=workflow.fingerprint)
        return await explore_samples(run, blank, self.samples, scope=scope)

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """Train the router on one batch by REINFORCE; agents and topology stay.

        Nothing is learned where the runs do not use the trained head, nor from trajectories that ended with an error.
        """
        partial = self.config.train.partial
        episodes = [episode for one in trajectories if (episode := to_router_episode(one, partial=partial)) is not None]
        if self.config.adapter != "learned" or not episodes:
            return EvolveResult(workflow=workflow)
        learned, _, update = await update_router(
            workflow, episodes, self.config.routing, self.config.train, self.embedder
        )
        notes = {"update": update.model_dump(mode="json")}
        return EvolveResult(workflow=learned.with_lineage(workflow, ()), notes=notes)

    def carry_over_memory(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """The kept pool with the candidate's router, which reads agents by their texts."""
        return kept.with_memory(**{ROUTER: candidate.memory[ROUTER]}) if ROUTER in candidate.memory else kept


def _build_partial_result(
    state: EvomasState, workflow: Workflow, question: Question, scope: Scope
) -> Trajectory | None:
    stages = state.stages
    if state.stage is not None and state.stage.number == len(stages):
        stages = (*stages, state.stage)
    answer = get_best_outcome(stages)
    if answer is None:
        return None
    stopped = state.after(state.update(stages=stages, answer=answer, status="stopped"))
    return _build_result(stopped, workflow, question, scope)


def _build_result(final: EvomasState, workflow: Workflow, question: Question, scope: Scope) -> Trajectory:
    episode = to_episode(final.stages)
    notes = {
        "episode": episode.model_dump(mode="json") if episode else None,
        "stages": final.channels["stages"],
        "status": final.status,
    }
    if decided := count_decisions(one.layered for one in final.stages if one.layered is not None):
        notes[DECISIONS] = decided.model_dump(mode="json")
    if ran := [stage.layers_to_run for stage in final.stages if stage.layers_to_run]:
        notes["topology"] = make_layered_topology(ran[-1]).model_dump(mode="json")
    return Trajectory(
        question=question,
        workflow=workflow.fingerprint,
        steps=final.steps,
        answer=final.answer,
        error=final.error,
        sample=scope.sample,
        overhead=final.usage.subtract(sum_usages(step.usage for step in final.steps)),
        notes=notes,
    )
