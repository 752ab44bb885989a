"""TacoMAS as a method: what evaluations and the outer evolution call. It never receives a task."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.runnables import RunnableConfig

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ModelError, format_error
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.workflow import Workflow
from selfwire.evolvers.tacomas.initial_team import METHOD, make_initial_workflow
from selfwire.evolvers.tacomas.lessons import MEMORY, get_lessons, with_lessons
from selfwire.evolvers.tacomas.rounds import Figures, compute_figures, count_agreement, find_best_round
from selfwire.graphs.method_protocol import EvolveResult, Method, TrajectoryGrader
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.run_end import run_to_end
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.tacomas.actions import TacomasActions
from selfwire.graphs.tacomas.state import TacomasState
from selfwire.graphs.tacomas.state_graph import build_state_graph


@dataclass(frozen=True)
class Tacomas(TacomasActions, Method):
    """TacoMAS with its models and tools; attributes as `TacomasActions`."""

    @property
    def name(self) -> str:
        """The method's name."""
        return METHOD

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The initial team of five."""
        return make_initial_workflow(load_prompts("evolvers", METHOD), tools=tools, config=self.config)

    def check_learned(self, workflow: Workflow) -> None:
        """Read everything that the workflow has learned; raises as `Method.check_learned`."""
        get_lessons(workflow)

    async def solve(
        self, workflow: Workflow, question: Question, *, scope: Scope, graph_config: RunnableConfig | None = DETACHED
    ) -> Trajectory:
        """Run up to R rounds on one question, starting from the workflow, which itself does not change.

        Args:
            graph_config: config of the method's graph; None makes it part of the running graph.

        Returns:
            The best round's steps and answer; the cost of the other rounds and of the coaching is its overhead, and
            `notes` holds `rounds`, `figures`, those that evaluations average as `measures`, the `topology` that ran
            last, the `checklist`, the `threshold` of its score, the last `workflow`'s fingerprint, and `oracle`.
            A judge or meta-model that fails ends the run with the best answer until then; it is an error where
            there is none.

        Raises:
            BudgetError, OutageError: the run must stop; `partial_result` holds the best round until then.
        """

        async def provide(context: object, spent: Usage) -> tuple[Tacomas, None]:
            return self, None

        start, threshold = RunStart(workflow, scope=scope, question=question), self.config.threshold
        graph = build_state_graph(self.config, start, provide).compile(name=METHOD)
        limit: RunnableConfig = {"recursion_limit": 4 * self.config.rounds + 4}  # four nodes a round, start and end
        try:
            final = await run_to_end(
                graph,
                {"question": question.input},
                {**(graph_config or {}), **limit},
                so_far=lambda found: _build_partial_result(TacomasState(found), workflow, threshold),
            )
        except ModelError as error:
            return Trajectory(
                question=question,
                workflow=workflow.fingerprint,
                error=format_error(error),
                sample=scope.sample,
                overhead=get_error_cost(error),
            )
        return _build_result(TacomasState(final), workflow, threshold)

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """Structural lessons, if the config keeps any; the team that questions start with does not change.

        Its notes say how often the judge agreed with the environment.
        """
        notes = count_agreement(trajectories)
        if not self.config.lessons:
            return EvolveResult(workflow=workflow, notes=notes)
        taught = with_lessons(workflow, trajectories, tools=tuple(self.list_offered_tools(workflow)))
        return EvolveResult(workflow=workflow if taught == workflow else taught.with_lineage(workflow, ()), notes=notes)

    def carry_over_memory(self, kept: Workflow, candidate: Workflow) -> Workflow:
        """The kept team with the candidate's lessons, which hold for either team."""
        return kept.with_memory(**{MEMORY: candidate.memory[MEMORY]}) if MEMORY in candidate.memory else kept


def _build_partial_result(state: TacomasState, workflow: Workflow, threshold: float) -> Trajectory | None:
    best = find_best_round(state.rounds)
    if best is None:
        return None
    figures = compute_figures(state.rounds, stop="stopped", calls=state.usage.calls)
    chosen = state.done if best == state.rounds[-1].number else state.best
    return _build_result(state.after(state.update(best=chosen, error=None, figures=figures)), workflow, threshold)


def _build_result(final: TacomasState, workflow: Workflow, threshold: float) -> Trajectory:
    best = final.best or final.done
    assert best is not None, "a run ends after a round"
    channels = final.channels
    notes = {
        "rounds": channels["rounds"],
        "figures": channels["figures"],
        "measures": Figures.model_validate(channels["figures"]).measures,
        "topology": channels["figures"]["topology"],
        "checklist": channels["checklist"],
        "threshold": threshold,
        "workflow": final.workflow.fingerprint,
        "oracle": final.oracle,
    }
    overhead = final.usage.subtract(sum_usages(step.usage for step in best.steps))
    return best.replace(workflow=workflow.fingerprint, overhead=overhead, notes=notes, error=final.error)
