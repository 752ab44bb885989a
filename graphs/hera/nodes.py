"""The nodes of HERA's graph up to the rollout; those that learn are in `learning.py`."""

from dataclasses import dataclass

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ConfigError, ModelError, TaskError
from selfwire.core.usage import Usage
from selfwire.evolvers.hera.groups import rank_trajectories
from selfwire.evolvers.hera.planning import Plan
from selfwire.evolvers.hera.profile import Brief, characterize_query
from selfwire.evolvers.outcomes import get_score
from selfwire.evolvers.trace_text import gather_all
from selfwire.graphs.hera.actions import make_notes
from selfwire.graphs.hera.learning import LearningNodes
from selfwire.graphs.hera.state import EMPTY_STEP, HeraContext, HeraState, PlannedQuestion
from selfwire.graphs.run_context import apply_prompt_edits, get_run_context
from selfwire.graphs.run_start import add_usage
from selfwire.graphs.typed_state import Update


@dataclass(frozen=True)
class HeraNodes(LearningNodes):
    """All nodes of the graph; attributes as `LearningNodes`."""

    async def begin(self, state: HeraState) -> Update:
        """Take a new question."""
        question, context = self.start.get_question(state), get_run_context(HeraContext)
        if context.evolve and self.start.grader is None:
            raise ConfigError("the team cannot learn from this question: nothing says what its answers are worth")
        if context.evolve and context.prompts:
            raise ConfigError("prompts are edited for this run only, and evolve would keep what it makes of them")
        workflow = await self.start.choose_workflow(context, state.workflow if "workflow" in state else None)
        apply_prompt_edits(workflow, context)  # refused before anything is paid
        scope = self.start.make_scope(question, context).at(phase="rollout")
        return EMPTY_STEP | state.update(answer="", scope=scope, ran=workflow, workflow=workflow, usage=Usage())

    async def characterize(self, state: HeraState) -> Update:
        """c, the profile of the question."""
        profile, usage = await characterize_query(state.get_question(), self.hera.orchestrator, scope=state.scope)
        return state.update(brief=Brief(profile=profile, usage=usage))

    async def retrieve_insights(self, state: HeraState) -> Update:
        """E_rel, insights from similar questions."""
        insights = await self.hera.recall_insights(state.workflow, state.brief.profile)
        return state.update(brief=state.brief.replace(insights=insights))

    async def sample_topologies(self, state: HeraState) -> Update:
        """Plan one topology, or G where the team learns; skip members whose plan fails, raise ModelError if all do."""
        evolve, question, brief = get_run_context(HeraContext).evolve, state.get_question(), state.brief
        orchestrator = self.hera.explorer if evolve else self.hera.orchestrator

        async def plan(sample: int) -> tuple[Plan | ModelError, Usage]:
            scope = state.scope.at(sample=sample)
            try:
                return await self.hera.plan_question(state.workflow, question, brief, orchestrator, scope=scope)
            except ModelError as error:
                return error, get_error_cost(error)

        found = await gather_all(plan(sample) for sample in range(self.hera.config.group if evolve else 1))
        plans = [(plan, usage) for plan, usage in found if isinstance(plan, Plan)]
        if not plans:
            raise next(error for error, _ in found if isinstance(error, ModelError))
        planned = [
            PlannedQuestion(
                question=question,
                topology=plan.topology,
                sample=sample,
                notes=make_notes(brief, plan),
                overhead=usage + brief.usage if sample == 0 else usage,
            )
            for sample, (plan, usage) in enumerate(plans)
        ]
        return state.update(planned=planned)

    async def rollout(self, state: HeraState) -> Update:
        """Execute what is planned; with evolution off that is one team, as part of this graph."""
        if get_run_context(HeraContext).evolve:
            update = _answer(state, await super().rollout(state))
            return update | state.update(usage=add_usage(state.usage, Usage(), self.ledger))
        [one] = state.planned
        workflow = apply_prompt_edits(state.workflow, get_run_context(HeraContext))
        scope, heat = state.scope.at(sample=one.sample), self.hera.config.temperature
        done = await self.hera.execute(workflow, one.question, one.topology, heat, scope=scope, graph_config=None)
        if done.answer is None:
            raise TaskError(f"{done.error}; invoke the thread again with None to retry")
        usage = add_usage(state.usage, done.usage, self.ledger)
        done = done.replace(notes=one.notes, overhead=one.overhead)
        return state.update(planned=(), trajectories=[done], answer=done.answer, usage=usage)


def _answer(state: HeraState, update: Update) -> Update:
    done = state.after(update).trajectories
    graded = [index for index, one in enumerate(done) if get_score(one) is not None]
    if not graded:
        why = next((one.error for one in done if one.error), "nothing was graded")
        raise TaskError(f"no run of the group has an answer, the first for: {why}; invoke the thread again with None")
    best = done[rank_trajectories(done, graded)[0]]
    return update | state.update(answer=best.answer or "", oracle=True)
