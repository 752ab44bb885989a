"""The nodes of EvoMAS's graph: begin, and those of a stage in the order of Alg. 1."""

from dataclasses import dataclass

from selfwire.core.budget import add_cost_on_error, get_error_cost
from selfwire.core.errors import ConfigError, ModelError, format_error
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.evaluator import compose_answer, evaluate, make_no_outcome_assessment
from selfwire.evolvers.evomas.planner import PlanResult, make_plan, plan_single_subtask
from selfwire.evolvers.evomas.pool import EARLY_EXIT
from selfwire.evolvers.evomas.stages import (
    Stage,
    collect_findings,
    describe_change,
    find_masked_agents,
    find_masked_openers,
    find_stop_reason,
    get_best_outcome,
)
from selfwire.evolvers.evomas.state import TaskState, to_rows
from selfwire.evolvers.evomas.updater import update_state
from selfwire.evolvers.trace_text import render_agents
from selfwire.graphs.evomas.actions import EvomasActions
from selfwire.graphs.evomas.chooser import make_chooser
from selfwire.graphs.evomas.stage import StageRun
from selfwire.graphs.evomas.state import EvomasContext, EvomasState
from selfwire.graphs.run_context import apply_prompt_edits, get_run_context
from selfwire.graphs.run_start import RunStart, add_usage
from selfwire.graphs.typed_state import Update
from selfwire.runtime.ledger import Ledger

NOTHING_PLANNED = "the planner left nothing to do"


@dataclass(frozen=True)
class EvomasNodes:
    """The graph's nodes.

    Attributes:
        start: what the run starts with: the pool with its router, and the question.
        ledger: pays, and also counts calls without a valid reply; None where somebody else counts.
    """

    evomas: EvomasActions
    start: RunStart
    ledger: Ledger | None = None

    async def begin(self, state: EvomasState) -> Update:
        """Set s_0, an objective and nothing else; the thread's earlier question is forgotten."""
        question, context = self.start.get_question(state), get_run_context(EvomasContext)
        source = await self.start.choose_workflow(context)
        return state.update(
            id=question.id,
            kind=question.kind,
            answer=None,
            error=None,
            scope=self.start.make_scope(question, context),
            pool=apply_prompt_edits(source, context).replace(memory={}),
            router=source.fingerprint,
            task=TaskState(objective=question.input),
            stage=None,
            stages=(),
            steps=(),
            status="",
            usage=Usage(),
        )

    async def plan(self, state: EvomasState) -> Update:
        """The Planner brings the plan up to date; without a task state the task is its only subtask."""
        number = len(state.stages)
        try:
            planned = await self._plan(state)
        except ModelError as error:
            failed = Stage(number=number, state=state.task, fault=format_error(error), usage=get_error_cost(error))
            usage = self._add(state, failed.usage)
            return state.update(stages=(*state.stages, failed), status="failure", usage=usage)
        current = planned.state.current
        stage = Stage(
            number=number,
            goal=current.goal if current else "",
            fell_back=("planner",) if planned.fell_back else (),
            usage=planned.usage,
        )
        usage, status = self._add(state, planned.usage), "" if current else "done"
        return state.update(task=planned.state, stage=stage, status=status, usage=usage)

    async def _plan(self, state: EvomasState) -> PlanResult:
        if not self.evomas.config.task_state:
            return PlanResult(plan_single_subtask(state.task), Usage())
        idle = find_masked_agents(state.task, state.pool.agents) | {EARLY_EXIT}
        return await make_plan(
            state.task,
            (state.stages[-1].outcome or "") if state.stages else "",
            self.evomas.meta_model,
            agents=render_agents([agent for agent in state.pool.agents if agent.id not in idle]),
            tools=self.evomas.describe_tools(state.pool),
            scope=_place(state, len(state.stages)),
        )

    async def adapt(self, state: EvomasState) -> Update:
        """The Workflow Adapter draws this stage's layers from the task state."""
        stage, pool = state.present, state.pool
        rows = to_rows(state.task, whole=self.evomas.config.task_state)
        chooser = await make_chooser(await self._get_source(state), self.evomas.config, self.evomas.embedder)
        layered = await chooser(
            rows,
            pool.agents,
            masked=find_masked_agents(state.task, pool.agents),
            masked_first=find_masked_openers(state.task, pool.agents),
            scope=_place(state, stage.number).at(node="adapt"),
        )
        return state.update(stage=stage.replace(rows=rows, agents=tuple(pool.agents_by_id), layered=layered))

    async def _get_source(self, state: EvomasState) -> Workflow:
        """The workflow whose router the run began with: the state names it, as weights are large."""
        source = self.start.initial_workflow
        if source.fingerprint != state.router:
            source = await self.start.choose_workflow(get_run_context(EvomasContext))
        if source.fingerprint != state.router:
            raise ConfigError(
                f"the run began with the router of workflow {state.router}, and {source.fingerprint} is there now; "
                "choose that workflow by its fingerprint, or ask anew"
            )
        return source

    async def layers(self, state: EvomasState) -> Update:
        """Run the layers as a team."""
        stage = state.present
        place, whole = _place(state, stage.number), self.evomas.config.task_state
        run = StageRun(state.pool, state.get_question(), state.task, whole, self.evomas.make_runners(state.pool), place)
        done = await run.play(stage.layers_to_run)
        outcome = (done.answer or "").strip() or None
        why = done.error or "the last layer said nothing"
        return state.update(
            stage=stage.replace(outcome=outcome, error=None if outcome else why, usage=stage.usage + done.usage),
            steps=(*state.steps, *done.steps),
            usage=self._add(state, done.usage),
        )

    async def evaluate(self, state: EvomasState) -> Update:
        """The Evaluator judges the outcome of the active subtask; where there is none, no model is asked."""
        stage, usage, checks = state.present, Usage(), ""
        if stage.outcome is None:
            assessment = make_no_outcome_assessment(stage.error or "only Early-exit was chosen")
            return state.update(stage=stage.replace(assessment=assessment))
        scope = _place(state, stage.number)
        if self.evomas.config.verify:
            checks, usage = await self.evomas.verify_answer(state.pool, state.get_question(), stage.outcome, scope)
        try:
            with add_cost_on_error(usage):
                judged = await evaluate(state.task, stage.outcome, self.evomas.meta_model, checks=checks, scope=scope)
        except ModelError as error:
            usage = get_error_cost(error)
            stage = stage.replace(fault=format_error(error))
        else:
            usage += judged.usage
            fell_back = (*stage.fell_back, "evaluator") if judged.fell_back else stage.fell_back
            stage = stage.replace(assessment=judged.assessment, fell_back=fell_back)
        return state.update(stage=stage.replace(usage=stage.usage + usage), usage=self._add(state, usage))

    async def update_state(self, state: EvomasState) -> Update:
        """The Updater computes s_{t+1}; the stage is over, and perhaps the run."""
        stage, task, config = state.present, state.task, self.evomas.config
        layers = stage.layers_to_run
        if layers and stage.assessment is not None:
            task = update_state(task, layers, stage.outcome, stage.assessment, refinements=config.refinements)
            stage = stage.replace(changes=describe_change(state.task, task))
        stages = (*state.stages, stage.replace(state=task))
        return state.update(task=task, stages=stages, status=find_stop_reason(stages, limit=config.stages) or "")

    async def conclude(self, state: EvomasState) -> Update:
        """The closing call writes the answer; without any outcome the run is an error."""
        stages, fallback = state.stages, get_best_outcome(state.stages)
        if fallback is None:
            why = stages[-1].fault or stages[-1].error or "only Early-exit was chosen" if stages else NOTHING_PLANNED
            return state.update(answer=None, error=f"no stage came to an outcome; the last one: {why}")
        if state.status == "failure":  # the closing call would fail as well
            return state.update(answer=fallback, error=None)
        scope = _place(state, len(stages))
        try:
            answer, usage = await compose_answer(
                state.question, collect_findings(stages), fallback, self.evomas.meta_model, scope=scope
            )
        except ModelError as error:
            stages = (*stages[:-1], stages[-1].replace(fault=format_error(error)))
            usage = self._add(state, get_error_cost(error))
            return state.update(answer=fallback, error=None, stages=stages, status="failure", usage=usage)
        return state.update(answer=answer, error=None, usage=self._add(state, usage))

    def _add(self, state: EvomasState, more: Usage) -> Usage:
        return add_usage(state.usage, more, self.ledger)


def _place(state: EvomasState, stage: int) -> Scope:
    return state.scope.at(visit=stage)
