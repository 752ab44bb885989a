"""HERA's figure as a LangGraph (Fig. 1, Alg. 1 to 6).

    START -> characterize -> retrieve_insights -> sample_topologies -> rollout (the teams, in parallel)
                                                                        |  ^
                             [evolution off] END <----------------------+  |
                                                                        v  |
                  reflect <---------- [mixed outcomes] ---------------- rank -> [every score 0] mutate_topology
                     |                                                   |         (then one more group: rollout)
                     v                                                   |
           consolidate_experience -> [a failure] identify_failed_agent <-+
                     |                              |
                     |                              v
                     |          rope (variants, re-execution) -> consolidate_prompt
                     v                                              |
                   keep <-------------------------------------------+
                     |
                     v
                    END

`keep` only ties the lineage and saves. The nodes from rank on are also a machine of their own, `learn`: the outer
evolution runs and grades the groups of a whole batch, and hands them in.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_core.runnables import Runnable
from langgraph.graph import END, START, StateGraph

from selfwire.core.budget import cost_of
from selfwire.core.errors import ConfigError, ModelError, TaskError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hera.experience_library import library_of
from selfwire.evolvers.hera.groups import ranking, score
from selfwire.evolvers.hera.planning import Plan
from selfwire.evolvers.hera.profile import characterized
from selfwire.evolvers.trace_text import together
from selfwire.graphs.hera.learning import Learning
from selfwire.graphs.hera.method import Brief, Hera, notes
from selfwire.graphs.hera.state import (
    HeraContext,
    HeraInput,
    HeraState,
    Planned,
    applied_in,
    as_json,
    fresh,
    groups_in,
    scope_in,
    trajectories_in,
    workflow_in,
)
from selfwire.graphs.method_protocol import Evolved, Grade
from selfwire.graphs.node_wrappers import DETACHED, both_forms
from selfwire.graphs.run_context import chosen, context_schema, edited
from selfwire.graphs.run_start import Assess, new_question, thread
from selfwire.graphs.team import Team, compile_team, embedded
from selfwire.graphs.version_saver import Saver
from selfwire.runtime.ledger import Ledger

Begin = Callable[[HeraContext, Workflow | None], Awaitable[Workflow]]
"""Finds the workflow that a question starts with, from the run's choices and what the thread had before."""

Wire = Callable[[HeraContext, Usage], Awaitable[tuple[Hera, Ledger]]]
"""Wires the method as a run has chosen it, and opens the ledger that pays from what was spent on the question."""

HeraGraph = StateGraph[HeraState, Any, Any, Any]


@dataclass(frozen=True)
class Steps:
    """The machine's nodes up to the rollout.

    Attributes:
        hera: the wired method.
        start: the workflow that is drawn.
        begins: finds a question's first workflow; by default the thread's, else `start`.
        assess: the environment, if there is one.
        save: keeps evolved workflows, if anything does.
    """

    hera: Hera
    start: Workflow
    begins: Begin | None = None
    assess: Assess | None = None
    save: Saver | None = None

    async def begin(self, state: HeraState) -> HeraState:
        """Take a new question."""
        question, context = new_question(state), chosen(HeraContext)
        if context.evolve and self.assess is None:
            raise ConfigError("the team cannot learn from this question: nothing says what its answers are worth")
        if context.evolve and context.prompts:
            raise ConfigError("prompts are edited for this run only, and evolve would keep what it makes of them")
        had = Workflow.model_validate(state["workflow"]) if state.get("workflow") else None
        workflow = await self.begins(context, had) if self.begins else had or self.start
        edited(workflow, context)  # what cannot be is refused before anything is paid
        scope = Scope(run=thread(), seed=context.seed, phase="rollout", task=question.id)
        body = workflow.model_dump(mode="json")
        return {
            **fresh(),
            "answer": "",
            "scope": scope.model_dump(mode="json"),
            "ran": body,
            "workflow": body,
            "usage": Usage().model_dump(mode="json"),
        }

    async def characterize(self, state: HeraState) -> HeraState:
        """c, the profile of the question."""
        profile, usage = await characterized(new_question(state), self.hera.orchestrator, scope=scope_in(state))
        return {"brief": Brief(profile=profile, usage=usage).model_dump(mode="json")}

    async def retrieve_insights(self, state: HeraState) -> HeraState:
        """E_rel, what experience with similar questions says."""
        brief = Brief.model_validate(state["brief"])
        found = await self.hera.recalled(workflow_in(state), brief.profile)
        return {"brief": brief.replace(insights=found).model_dump(mode="json")}

    async def sample_topologies(self, state: HeraState) -> HeraState:
        """One topology, or G of them where the team learns; members that nobody could plan for are left out.

        Raises:
            ModelError: nothing could be planned.
        """
        evolve, brief, scope = chosen(HeraContext).evolve, Brief.model_validate(state["brief"]), scope_in(state)
        workflow, question = workflow_in(state), new_question(state)
        orchestrator = self.hera.explorer if evolve else self.hera.orchestrator

        async def member(sample: int) -> tuple[Plan | ModelError, Usage]:
            try:
                return await self.hera.planned(workflow, question, brief, orchestrator, scope=scope.at(sample=sample))
            except ModelError as error:
                return error, cost_of(error)

        found = await together(member(sample) for sample in range(self.hera.config.group if evolve else 1))
        plans = [(plan, usage) for plan, usage in found if isinstance(plan, Plan)]
        if not plans:
            raise next(fault for fault, _ in found if isinstance(fault, ModelError))
        planned = [
            Planned(
                question=question,
                topology=plan.topology,
                sample=sample,
                notes=notes(brief, plan),
                overhead=usage + brief.usage if sample == 0 else usage,
            )
            for sample, (plan, usage) in enumerate(plans)
        ]
        return {"planned": as_json(planned)}

    async def rollout(self, state: HeraState) -> HeraState:
        """Execute what is planned; with evolution off that is one team, as part of this graph."""
        if chosen(HeraContext).evolve:
            return _answered(state, await self.learning.rollout(state))
        [one] = [Planned.model_validate(plan) for plan in state["planned"]]
        workflow = edited(workflow_in(state), chosen(HeraContext))
        place, heat = scope_in(state).at(sample=one.sample), self.hera.config.temperature
        done = await self.hera.execute(workflow, one.question, one.topology, heat, scope=place, within=None)
        done = done.replace(notes=one.notes, overhead=one.overhead)
        if done.answer is None:
            raise TaskError(f"{done.error}; invoke the thread again with None to retry")
        return {"planned": [], "trajectories": [done.model_dump(mode="json")], "answer": done.answer}

    @property
    def learning(self) -> Learning:
        """The nodes that learn, graded by the environment."""
        return Learning(self.hera, self._grade, self.save)

    async def _grade(self, done: Trajectory, scope: Scope) -> Trajectory:
        if self.assess is None or done.answer is None or done.error is not None:
            return done
        return done.with_feedback(await self.assess(done.question, done.answer, scope))


Step = Callable[[Steps, HeraState], Awaitable[HeraState]]
Node = Runnable[HeraState, Any]
Learn = Callable[[Learning, HeraState], Awaitable[HeraState]]


def machine(steps: Steps, wire: Wire) -> HeraGraph:
    """The whole machine, ready to compile; every node that may call a model is wired as its run has chosen."""

    def paid(step: Step) -> Callable[[HeraState], Awaitable[HeraState]]:
        async def run(state: HeraState) -> HeraState:
            hera, ledger = await wire(chosen(HeraContext), Usage.model_validate(state["usage"]))
            update = await step(replace(steps, hera=hera), state)
            return {**update, "usage": ledger.spent.model_dump(mode="json")}

        return run

    def learns(step: Learn) -> Node:
        async def through(now: Steps, state: HeraState) -> HeraState:
            return await step(now.learning, state)

        return both_forms(paid(through))

    async def rollout(state: HeraState, team: Team) -> HeraState:
        return await paid(Steps.rollout)(state)

    schema = context_schema(HeraContext, steps.start, dict.fromkeys(steps.start.pool, "rollout"))
    graph: HeraGraph = StateGraph(HeraState, context_schema=schema, input_schema=HeraInput)
    graph.add_node("begin", both_forms(steps.begin))
    graph.add_node("characterize", both_forms(paid(Steps.characterize)))
    graph.add_node("retrieve_insights", both_forms(paid(Steps.retrieve_insights)))
    graph.add_node("sample_topologies", both_forms(paid(Steps.sample_topologies)))
    graph.add_node("rollout", embedded(compile_team(steps.start.topology), rollout))
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "characterize")
    graph.add_edge("characterize", "retrieve_insights")
    graph.add_edge("retrieve_insights", "sample_topologies")
    graph.add_edge("sample_topologies", "rollout")
    graph.add_conditional_edges("rollout", _rank_or_end)
    _add_learning(graph, steps.hera, learns)
    return graph


async def learn(
    hera: Hera, workflow: Workflow, trajectories: Sequence[Trajectory], scope: Scope, grade: Grade
) -> Evolved:
    """One pass from rank to keep over the graded groups of a batch, as a graph of its own.

    Its notes say what became of the groups, of new insights, and of the prompts of failing agents, how large the
    library is, and what learning has cost beside the batch's own runs.
    """
    learning = Learning(hera, grade)

    def node(step: Learn) -> Node:
        async def run(state: HeraState) -> HeraState:
            return await step(learning, state)

        return both_forms(run)

    graph: HeraGraph = StateGraph(HeraState)
    graph.add_node("rollout", node(Learning.rollout))
    graph.add_edge(START, "rank")
    graph.add_edge("rollout", "rank")
    _add_learning(graph, hera, node)
    body = workflow.model_dump(mode="json")
    given: HeraState = {
        **fresh(),
        "scope": scope.model_dump(mode="json"),
        "ran": body,
        "workflow": body,
        "trajectories": as_json(list(trajectories)),
    }
    final: Any = await graph.compile(name="hera-learning").ainvoke(given, {**DETACHED, "recursion_limit": 20})
    return Evolved(workflow=workflow_in(final), applied=tuple(applied_in(final)), notes=_told(final, len(trajectories)))


def _add_learning(graph: HeraGraph, hera: Hera, node: Callable[[Learn], Node]) -> None:
    def next_after_rank(
        state: HeraState,
    ) -> Literal["mutate_topology", "reflect", "identify_failed_agent", "keep"]:
        if Learning(hera, _nobody).due(state):
            return "mutate_topology"
        mixed = any(group.outcome == "mixed" for group in groups_in(state))
        return "reflect" if hera.config.library and mixed else prompts_next(state)

    def prompts_next(state: HeraState) -> Literal["identify_failed_agent", "keep"]:
        failed = any(group.failed is not None for group in groups_in(state))
        return "identify_failed_agent" if hera.config.rope and failed else "keep"

    for step in (
        Learning.rank,
        Learning.mutate_topology,
        Learning.reflect,
        Learning.consolidate_experience,
        Learning.identify_failed_agent,
        Learning.rope,
        Learning.consolidate_prompt,
        Learning.keep,
    ):
        graph.add_node(step.__name__, node(step))
    graph.add_conditional_edges("rank", next_after_rank)
    graph.add_edge("mutate_topology", "rollout")
    graph.add_edge("reflect", "consolidate_experience")
    graph.add_conditional_edges("consolidate_experience", prompts_next)
    graph.add_edge("identify_failed_agent", "rope")
    graph.add_edge("rope", "consolidate_prompt")
    graph.add_edge("consolidate_prompt", "keep")
    graph.add_edge("keep", END)


async def _nobody(done: Trajectory, scope: Scope) -> Trajectory:
    return done


def _rank_or_end(state: HeraState) -> Literal["rank", "__end__"]:
    return "rank" if chosen(HeraContext).evolve else "__end__"


def _answered(state: HeraState, update: HeraState) -> HeraState:
    """The best-ranked answer so far; labels were used to rank.

    Raises:
        TaskError: no run of the group has an answer.
    """
    done = trajectories_in({**state, **update})
    graded = [place for place, one in enumerate(done) if score(one) is not None]
    if not graded:
        why = next((one.error for one in done if one.error), "nothing was graded")
        raise TaskError(f"no run of the group has an answer, the first for: {why}; invoke the thread again with None")
    best = done[ranking(done, graded)[0]]
    return {**update, "answer": best.answer or "", "oracle": True}


def _told(final: HeraState, given: int) -> dict[str, Any]:
    found, done = groups_in(final), trajectories_in(final)
    meta = Usage.model_validate(final["reflection"])
    return {
        "groups": {
            "mixed": sum(group.outcome == "mixed" for group in found),
            "zero": sum(group.outcome == "zero" for group in found),
            "other": sum(group.outcome == "other" for group in found),
        },
        "mutated": [
            {"question": done[place].question.id, "why": done[place].notes["mutation"], "score": score(done[place])}
            for place in range(given, len(done))
        ],
        "changes": final["changes"],
        "ropes": [
            {
                "agent": one["blame"]["agent"],
                "cause": one["blame"]["cause"],
                "axes": [varied["axis"] for varied in one["variants"]],
                "scores": one["scores"],
                "control": one["control"],
                "lesson": one["lesson"],
            }
            for one in final["ropes"]
        ],
        "refused": final["refused"],
        "insights": len(library_of(workflow_in(final))),
        "learning": {"calls": meta.calls, "tokens": meta.tokens},
    }
