"""The nodes of TacoMAS's machine: a run's first team, a round and its judgement, the fast loop and the slow one."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from selfwire.core.budget import cost_of
from selfwire.core.errors import ModelError, described
from selfwire.core.usage import Usage
from selfwire.evolvers.tacomas.fast import members, noted, refinements, replicated, succeeded, uniform
from selfwire.evolvers.tacomas.judge import (
    Contribution,
    Judgement,
    contributions,
    drafted_checklist,
    judge,
    mean_contribution,
)
from selfwire.evolvers.tacomas.lessons import lessons_of
from selfwire.evolvers.tacomas.meta import slow_update
from selfwire.evolvers.tacomas.rounds import Round, best_round, figures, rewired, stop_reason
from selfwire.evolvers.trace_text import trace
from selfwire.graphs.run_context import chosen, edited
from selfwire.graphs.run_start import Opening, cost_so_far, place_in, question_in
from selfwire.graphs.tacomas.method import Tacomas
from selfwire.graphs.tacomas.state import (
    TacomasContext,
    TacomasState,
    as_json,
    carried_in,
    checklist_in,
    done_in,
    rounds_in,
    workflow_in,
)
from selfwire.graphs.team import carried_on
from selfwire.runtime.ledger import Ledger

Step = Callable[["Steps", TacomasState], Awaitable[TacomasState]]


def ending_with_what_was_answered(step: Step) -> Step:
    """A step that coaches; where its model fails, the run ends with what was answered until then."""

    async def guarded(steps: "Steps", state: TacomasState) -> TacomasState:
        try:
            return await step(steps, state)
        except ModelError as error:
            return steps.failed(state, error)

    return guarded


@dataclass(frozen=True)
class Steps:
    """The machine's nodes.

    Attributes:
        tacomas: the wired method.
        opening: what the run begins with.
        ledger: pays, and counts asks without a valid reply too; None where somebody else counts.
    """

    tacomas: Tacomas
    opening: Opening[TacomasContext]
    ledger: Ledger | None = None

    async def init_graph(self, state: TacomasState) -> TacomasState:
        """G_0, uniform weights, and the checklist; capability memory of the question before is gone."""
        question, context = self.opening.question(state), chosen(TacomasContext)
        start = edited(await self.opening.workflow(context), context)
        scope = self.opening.place(question, context)
        items, usage = await drafted_checklist(question, self.tacomas.coach, scope=scope)
        return {
            "id": question.id,
            "kind": question.kind,
            "answer": None,
            "error": None,
            "scope": scope.model_dump(mode="json"),
            "workflow": start.model_dump(mode="json"),
            "tools": sorted(self.tacomas.offered(start)),
            "checklist": [item.model_dump(mode="json") for item in items],
            "weights": uniform(agent.id for agent in members(start)),
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
        workflow, rounds, carried = workflow_in(state), rounds_in(state), carried_in(state)
        topology = workflow.topology
        done = await self.tacomas.round(
            workflow,
            question_in(state),
            weights=state["weights"],
            notes=state["notes"],
            carried=carried,
            scope=place_in(state, len(rounds)),
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
            "carried": [message.model_dump(mode="json") for message in carried_on(topology, done, carried)],
            "rounds": as_json([*rounds, kept]),
            **self._spent(state["usage"], done.usage),
        }

    async def judge(self, state: TacomasState) -> TacomasState:
        """s_t and c_v, and which round is the best so far."""
        done, workflow = done_in(state), workflow_in(state)
        *before, last = rounds_in(state)
        scope = place_in(state, last.number)
        found, scores, fault = Judgement(), tuple[Contribution, ...](), None
        roles = [(agent.id, agent.role) for agent in members(workflow)]
        config, coach = self.tacomas.config, self.tacomas.coach
        try:
            if done.answer is not None:
                found = await judge(done, checklist_in(state), coach, threshold=config.threshold, scope=scope)
            scores, usage = await contributions(done, roles, coach, each=config.fast.judge_each, scope=scope)
        except ModelError as error:
            fault, usage = described(error), cost_of(error)
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
        best = state["done"] if best_round(rounds) == last.number else state["best"]
        spent = self._spent(state["usage"], found.usage + usage)
        return {"rounds": as_json(rounds), "best": best, **spent, **self._ended({**state, **spent}, rounds, best)}

    @ending_with_what_was_answered
    async def refine(self, state: TacomasState) -> TacomasState:
        """F^C: replicator weights, and a refinement for every agent; nothing where capabilities are frozen."""
        config, workflow = self.tacomas.config, workflow_in(state)
        *before, last = rounds_in(state)
        if not config.capability:
            return {}
        scored = {one.agent: one.score for one in last.contributions}
        weights = replicated(state["weights"], scored, rate=config.fast.rate, floor=config.fast.floor)
        fresh, usage = await refinements(
            done_in(state),
            workflow,
            last.contributions,
            self.tacomas.coach,
            number=last.number,
            goal="\n".join(last.failed) or "Nothing in particular failed.",
            scope=place_in(state, last.number),
        )
        notes = noted(state["notes"], fresh, state["weights"], keep=config.fast.kept)
        return {
            "weights": weights,
            "notes": {agent: list(told) for agent, told in notes.items()},
            "rounds": as_json([*before, last.replace(weights=weights, usage=last.usage + usage)]),
            **self._spent(state["usage"], usage),
        }

    @ending_with_what_was_answered
    async def birth_death(self, state: TacomasState) -> TacomasState:
        """F^T: the meta-model's structural delta within budgets and caps."""
        workflow, rounds = workflow_in(state), rounds_in(state)
        delta = await slow_update(
            workflow,
            rounds,
            self.tacomas.coach,
            question=question_in(state),
            trace=trace(done_in(state)),
            lessons=lessons_of(workflow),
            tools={name: self.tacomas.toolbox[name] for name in state["tools"]},
            config=self.tacomas.config,
            scope=place_in(state, rounds[-1].number),
        )
        arriving = [m for m in carried_in(state) if m.target in delta.workflow.topology.agents]
        lost = [m for m in carried_in(state) if m not in arriving]
        rounds = [*rounds[:-1], rewired(rounds[-1], delta, lost)]
        living = [agent.id for agent in members(delta.workflow)]
        spent = self._spent(state["usage"], delta.usage)
        return {
            "workflow": delta.workflow.model_dump(mode="json"),
            "weights": succeeded(state["weights"], living),
            "notes": {agent: told for agent, told in state["notes"].items() if agent in living},
            "carried": [message.model_dump(mode="json") for message in arriving],
            "rounds": as_json(rounds),
            **spent,
            **self._ended({**state, **spent}, rounds, state["best"]),
        }

    def failed(self, state: TacomasState, error: ModelError) -> TacomasState:
        """The end of a run whose coaching has failed after a round."""
        *before, last = rounds_in(state)
        rounds = [*before, last.replace(fault=described(error), usage=last.usage + cost_of(error))]
        spent = self._spent(state["usage"], cost_of(error))
        return {"rounds": as_json(rounds), **spent, **self._ended({**state, **spent}, rounds, state["best"])}

    def _spent(self, before: object, more: Usage) -> TacomasState:
        return {"usage": cost_so_far(before, more, self.ledger)}

    def _ended(self, state: TacomasState, rounds: list[Round], best: dict[str, Any] | None) -> TacomasState:
        """The answer so far, and the figures if this was the last step."""
        stop = stop_reason(rounds, limit=self.tacomas.config.rounds)
        error = None if best else f"no round ended with an answer; the last one: {rounds[-1].error}"
        so_far: TacomasState = {"answer": best["answer"] if best else None, "error": error}
        if stop is None:
            return so_far
        calls = Usage.model_validate(state["usage"]).calls
        return {**so_far, "figures": figures(rounds, stop=stop, calls=calls).model_dump(mode="json")}
