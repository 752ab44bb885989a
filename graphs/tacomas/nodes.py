"""The nodes of TacoMAS's graph: a run's first team, a round and its judgement, the fast loop and the slow one."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ModelError, format_error
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.evolvers.tacomas.fast import (
    append_notes,
    get_members,
    inherit_weights,
    make_uniform_weights,
    refine_agents,
    update_weights,
)
from selfwire.evolvers.tacomas.judge import (
    Contribution,
    Judgement,
    assess_contributions,
    draft_checklist,
    judge,
    mean_contribution,
)
from selfwire.evolvers.tacomas.lessons import get_lessons
from selfwire.evolvers.tacomas.meta import propose_slow_update
from selfwire.evolvers.tacomas.rounds import Round, compute_figures, find_best_round, find_stop_reason, with_slow_update
from selfwire.graphs.own_tools import add_own_tools
from selfwire.graphs.run_context import apply_prompt_edits, get_run_context
from selfwire.graphs.run_start import RunStart, add_usage
from selfwire.graphs.tacomas.actions import TacomasActions
from selfwire.graphs.tacomas.state import TacomasContext, TacomasState
from selfwire.graphs.team import get_pending_messages
from selfwire.graphs.typed_state import Update
from selfwire.runtime.ledger import Ledger

Step = Callable[["TacomasNodes", TacomasState], Awaitable[Update]]


def end_on_failure(step: Step) -> Step:
    """A step that coaches; where its model fails, the run ends with what was answered until then."""

    async def guarded(nodes: "TacomasNodes", state: TacomasState) -> Update:
        try:
            return await step(nodes, state)
        except ModelError as error:
            return nodes.failed(state, error)

    return guarded


@dataclass(frozen=True)
class TacomasNodes:
    """The graph's nodes.

    Attributes:
        ledger: pays, and counts asks without a valid reply too; None where somebody else counts.
    """

    tacomas: TacomasActions
    start: RunStart
    ledger: Ledger | None = None

    async def init_graph(self, state: TacomasState) -> Update:
        """G_0, uniform weights, and the checklist; capability memory of the question before is gone."""
        question, context = self.start.get_question(state), get_run_context(TacomasContext)
        team = apply_prompt_edits(await self.start.choose_workflow(context), context)
        scope = self.start.make_scope(question, context)
        items, usage = await draft_checklist(question, self.tacomas.meta_model, scope=scope)
        return state.update(
            id=question.id,
            kind=question.kind,
            answer=None,
            error=None,
            scope=scope,
            workflow=team,
            tools=sorted(self.tacomas.list_offered_tools(team)),
            checklist=items,
            weights=make_uniform_weights(agent.id for agent in get_members(team)),
            notes={},
            carried=(),
            rounds=(),
            done=None,
            best=None,
            figures=None,
            oracle=False,
            usage=add_usage(Usage(), usage, self.ledger),
        )

    async def round(self, state: TacomasState) -> Update:
        """Run the team once; it may be another than the drawn one by now."""
        rounds, topology = state.rounds, state.workflow.topology
        done = await self.tacomas.round(
            state.workflow,
            state.get_question(),
            weights=state.weights,
            notes=state.notes,
            carried=state.carried,
            scope=state.scope.at(visit=len(rounds)),
        )
        kept = Round(
            number=len(rounds),
            goal="; ".join(rounds[-1].failed) if rounds and rounds[-1].failed else "Answer the task.",
            answer=done.answer,
            error=done.error,
            silent={step.agent: step.error for step in done.steps if step.error is not None},
            weights=state.weights,
            nodes=len(topology.nodes),
            edges=len(topology.edges),
            topology=topology,
            usage=done.usage,
        )
        carried = get_pending_messages(topology, done, state.carried)
        return state.update(
            done=done, carried=carried, rounds=(*rounds, kept), usage=self._add_usage(state, done.usage)
        )

    async def judge(self, state: TacomasState) -> Update:
        """s_t and c_v, and which round is the best so far."""
        done, (*before, last) = state.done, state.rounds
        assert done is not None, "a round comes before its judgement"
        scope = state.scope.at(visit=last.number)
        found, scores, fault, usage = Judgement(), tuple[Contribution, ...](), None, Usage()
        roles = [(agent.id, agent.role) for agent in get_members(state.workflow)]
        config, meta_model = self.tacomas.config, self.tacomas.meta_model
        try:
            if done.answer is not None:
                found = await judge(done, state.checklist, meta_model, threshold=config.threshold, scope=scope)
            if not found.confirmed and len(state.rounds) < config.rounds:  # else nobody would use them (D12)
                scores, usage = await assess_contributions(
                    done, roles, meta_model, each=config.fast.judge_each, scope=scope
                )
        except ModelError as error:
            fault, usage = format_error(error), get_error_cost(error)
        last = last.replace(
            score=found.score,
            confirmed=found.confirmed,
            failed=found.failed,
            contributions=scores,
            mean=mean_contribution(scores),
            fault=fault,
            usage=last.usage + found.usage + usage,
        )
        rounds = (*before, last)
        best = done if find_best_round(rounds) == last.number else state.best
        return self._end(state, found.usage + usage, rounds=rounds, best=best)

    @end_on_failure
    async def refine(self, state: TacomasState) -> Update:
        """F^C: replicator weights, and refinements for those who need one; nothing where capabilities are frozen."""
        config, done, (*before, last) = self.tacomas.config, state.done, state.rounds
        if not config.capability or done is None:
            return {}
        scored = {one.agent: one.score for one in last.contributions}
        weights = update_weights(state.weights, scored, rate=config.fast.rate, floor=config.fast.floor)
        fresh, usage = await refine_agents(
            done,
            state.workflow,
            last.contributions,
            self.tacomas.meta_model,
            number=last.number,
            failed=last.failed,
            notes=state.notes,
            config=config.fast,
            scope=state.scope.at(visit=last.number),
        )
        return state.update(
            weights=weights,
            notes=append_notes(state.notes, fresh, state.weights, keep=config.fast.kept),
            rounds=(*before, last.replace(weights=weights, notes=fresh, usage=last.usage + usage)),
            usage=self._add_usage(state, usage),
        )

    @end_on_failure
    async def birth_death(self, state: TacomasState) -> Update:
        """F^T: the meta-model's structural delta within budgets and caps."""
        done, (*before, last) = state.done, state.rounds
        assert done is not None, "a round comes before the slow loop"
        tools = add_own_tools(self.tacomas.toolbox, state.workflow)
        delta = await propose_slow_update(
            state.workflow,
            state.rounds,
            self.tacomas.meta_model,
            question=state.get_question(),
            done=done,
            notes=state.notes,
            lessons=get_lessons(state.workflow),
            tools={name: tools[name] for name in state.tools},
            config=self.tacomas.config,
            scope=state.scope.at(visit=last.number),
        )
        arriving = [m for m in state.carried if m.target in delta.workflow.topology.agents]
        lost = [m for m in state.carried if m not in arriving]
        living = [agent.id for agent in get_members(delta.workflow)]
        return {
            **state.update(
                workflow=delta.workflow,
                weights=inherit_weights(state.weights, living),
                notes={agent: kept for agent, kept in state.notes.items() if agent in living},
                carried=arriving,
            ),
            **self._end(state, delta.usage, rounds=(*before, with_slow_update(last, delta, lost)), best=state.best),
        }

    def failed(self, state: TacomasState, error: ModelError) -> Update:
        """The end of a run whose coaching has failed after a round."""
        *before, last = state.rounds
        last = last.replace(fault=format_error(error), usage=last.usage + get_error_cost(error))
        return self._end(state, get_error_cost(error), rounds=(*before, last), best=state.best)

    def _add_usage(self, state: TacomasState, more: Usage) -> Usage:
        return add_usage(state.usage, more, self.ledger)

    def _end(self, state: TacomasState, more: Usage, *, rounds: tuple[Round, ...], best: Trajectory | None) -> Update:
        """The rounds, the answer so far, and the figures if this was the last step."""
        usage, stop = self._add_usage(state, more), find_stop_reason(rounds, limit=self.tacomas.config.rounds)
        error = None if best else f"no round ended with an answer; the last one: {rounds[-1].error}"
        update = state.update(rounds=rounds, best=best, usage=usage, answer=best.answer if best else None, error=error)
        if stop is not None:
            update |= state.update(figures=compute_figures(rounds, stop=stop, calls=usage.calls))
        return update
