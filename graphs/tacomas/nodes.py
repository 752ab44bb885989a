"""The nodes of TacoMAS's machine: a run's first team, a round and its judgement, the fast loop and the slow one."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ModelError, format_error
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
from selfwire.evolvers.trace_text import format_trace
from selfwire.graphs.run_context import apply_prompt_edits, get_run_context
from selfwire.graphs.run_start import RunStart, add_usage, get_question, get_scope
from selfwire.graphs.tacomas.method import Tacomas
from selfwire.graphs.tacomas.state import (
    TacomasContext,
    TacomasState,
    get_carried,
    get_checklist,
    get_rounds,
    get_trajectory,
    get_workflow,
    to_json,
)
from selfwire.graphs.team import get_pending_messages
from selfwire.runtime.ledger import Ledger

Step = Callable[["TacomasNodes", TacomasState], Awaitable[TacomasState]]


def end_on_failure(step: Step) -> Step:
    """A step that coaches; where its model fails, the run ends with what was answered until then."""

    async def guarded(steps: "TacomasNodes", state: TacomasState) -> TacomasState:
        try:
            return await step(steps, state)
        except ModelError as error:
            return steps.failed(state, error)

    return guarded


@dataclass(frozen=True)
class TacomasNodes:
    """The machine's nodes.

    Attributes:
        tacomas: the wired method.
        opening: what the run begins with.
        ledger: pays, and counts asks without a valid reply too; None where somebody else counts.
    """

    tacomas: Tacomas
    opening: RunStart[TacomasContext]
    ledger: Ledger | None = None

    async def init_graph(self, state: TacomasState) -> TacomasState:
        """G_0, uniform weights, and the checklist; capability memory of the question before is gone."""
        question, context = self.opening.question(state), get_run_context(TacomasContext)
        start = apply_prompt_edits(await self.opening.workflow(context), context)
        scope = self.opening.place(question, context)
        items, usage = await draft_checklist(question, self.tacomas.coach, scope=scope)
        return {
            "id": question.id,
            "kind": question.kind,
            "answer": None,
            "error": None,
            "scope": scope.model_dump(mode="json"),
            "workflow": start.model_dump(mode="json"),
            "tools": sorted(self.tacomas.list_offered_tools(start)),
            "checklist": [item.model_dump(mode="json") for item in items],
            "weights": make_uniform_weights(agent.id for agent in get_members(start)),
            "notes": {},
            "carried": [],
            "rounds": [],
            "done": {},
            "best": None,
            "figures": {},
            "oracle": False,
            **self._spent(Usage(), usage),
        }

    async def round(self, state: TacomasState) -> TacomasState:
        """Run the team once; it may be another than the drawn one by now."""
        workflow, rounds, carried = get_workflow(state), get_rounds(state), get_carried(state)
        topology = workflow.topology
        done = await self.tacomas.round(
            workflow,
            get_question(state),
            weights=state["weights"],
            notes=state["notes"],
            carried=carried,
            scope=get_scope(state, len(rounds)),
        )
        goal = "; ".join(rounds[-1].failed) if rounds and rounds[-1].failed else "Answer the task."
        kept = Round(
            number=len(rounds),
            goal=goal,
            answer=done.answer,
            error=done.error,
            silent={step.agent: step.error for step in done.steps if step.error is not None},
            weights=state["weights"],
            nodes=len(topology.nodes),
            edges=len(topology.edges),
            topology=topology,
            usage=done.usage,
        )
        return {
            "done": done.model_dump(mode="json"),
            "carried": [message.model_dump(mode="json") for message in get_pending_messages(topology, done, carried)],
            "rounds": to_json([*rounds, kept]),
            **self._spent(state["usage"], done.usage),
        }

    async def judge(self, state: TacomasState) -> TacomasState:
        """s_t and c_v, and which round is the best so far."""
        done, workflow = get_trajectory(state), get_workflow(state)
        *before, last = get_rounds(state)
        scope = get_scope(state, last.number)
        found, scores, fault = Judgement(), tuple[Contribution, ...](), None
        roles = [(agent.id, agent.role) for agent in get_members(workflow)]
        config, coach = self.tacomas.config, self.tacomas.coach
        try:
            if done.answer is not None:
                found = await judge(done, get_checklist(state), coach, threshold=config.threshold, scope=scope)
            scores, usage = await assess_contributions(done, roles, coach, each=config.fast.judge_each, scope=scope)
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
        rounds = [*before, last]
        best = state["done"] if find_best_round(rounds) == last.number else state["best"]
        spent = self._spent(state["usage"], found.usage + usage)
        return {"rounds": to_json(rounds), "best": best, **spent, **self._ended({**state, **spent}, rounds, best)}

    @end_on_failure
    async def refine(self, state: TacomasState) -> TacomasState:
        """F^C: replicator weights, and a refinement for every agent; nothing where capabilities are frozen."""
        config, workflow = self.tacomas.config, get_workflow(state)
        *before, last = get_rounds(state)
        if not config.capability:
            return {}
        scored = {one.agent: one.score for one in last.contributions}
        weights = update_weights(state["weights"], scored, rate=config.fast.rate, floor=config.fast.floor)
        fresh, usage = await refine_agents(
            get_trajectory(state),
            workflow,
            last.contributions,
            self.tacomas.coach,
            number=last.number,
            goal="\n".join(last.failed) or "Nothing in particular failed.",
            scope=get_scope(state, last.number),
        )
        notes = append_notes(state["notes"], fresh, state["weights"], keep=config.fast.kept)
        return {
            "weights": weights,
            "notes": {agent: list(told) for agent, told in notes.items()},
            "rounds": to_json([*before, last.replace(weights=weights, usage=last.usage + usage)]),
            **self._spent(state["usage"], usage),
        }

    @end_on_failure
    async def birth_death(self, state: TacomasState) -> TacomasState:
        """F^T: the meta-model's structural delta within budgets and caps."""
        workflow, rounds = get_workflow(state), get_rounds(state)
        delta = await propose_slow_update(
            workflow,
            rounds,
            self.tacomas.coach,
            question=get_question(state),
            trace=format_trace(get_trajectory(state)),
            lessons=get_lessons(workflow),
            tools={name: self.tacomas.toolbox[name] for name in state["tools"]},
            config=self.tacomas.config,
            scope=get_scope(state, rounds[-1].number),
        )
        arriving = [m for m in get_carried(state) if m.target in delta.workflow.topology.agents]
        lost = [m for m in get_carried(state) if m not in arriving]
        rounds = [*rounds[:-1], with_slow_update(rounds[-1], delta, lost)]
        living = [agent.id for agent in get_members(delta.workflow)]
        spent = self._spent(state["usage"], delta.usage)
        return {
            "workflow": delta.workflow.model_dump(mode="json"),
            "weights": inherit_weights(state["weights"], living),
            "notes": {agent: told for agent, told in state["notes"].items() if agent in living},
            "carried": [message.model_dump(mode="json") for message in arriving],
            "rounds": to_json(rounds),
            **spent,
            **self._ended({**state, **spent}, rounds, state["best"]),
        }

    def failed(self, state: TacomasState, error: ModelError) -> TacomasState:
        """The end of a run whose coaching has failed after a round."""
        *before, last = get_rounds(state)
        rounds = [*before, last.replace(fault=format_error(error), usage=last.usage + get_error_cost(error))]
        spent = self._spent(state["usage"], get_error_cost(error))
        return {"rounds": to_json(rounds), **spent, **self._ended({**state, **spent}, rounds, state["best"])}

    def _spent(self, before: object, more: Usage) -> TacomasState:
        return {"usage": add_usage(before, more, self.ledger)}

    def _ended(self, state: TacomasState, rounds: list[Round], best: dict[str, Any] | None) -> TacomasState:
        """The answer so far, and the figures if this was the last step."""
        stop = find_stop_reason(rounds, limit=self.tacomas.config.rounds)
        error = None if best else f"no round ended with an answer; the last one: {rounds[-1].error}"
        so_far: TacomasState = {"answer": best["answer"] if best else None, "error": error}
        if stop is None:
            return so_far
        calls = Usage.model_validate(state["usage"]).calls
        return {**so_far, "figures": compute_figures(rounds, stop=stop, calls=calls).model_dump(mode="json")}
