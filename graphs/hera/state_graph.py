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

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ConfigError, ModelError, TaskError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.experience.library import get_library
from selfwire.evolvers.hera.groups import rank_trajectories
from selfwire.evolvers.hera.planning import Plan
from selfwire.evolvers.hera.profile import characterize_query
from selfwire.evolvers.outcomes import get_score
from selfwire.evolvers.trace_text import gather_all
from selfwire.graphs.hera.actions import Brief, HeraActions, make_notes
from selfwire.graphs.hera.learning import Learning
from selfwire.graphs.hera.state import (
    HeraContext,
    HeraInput,
    HeraState,
    PlannedQuestion,
    get_applied,
    get_groups,
    get_scope,
    get_trajectories,
    get_workflow,
    make_fresh_state,
    to_json,
)
from selfwire.graphs.method_protocol import EvolveResult, TrajectoryGrader
from selfwire.graphs.node_wrappers import DETACHED, make_node
from selfwire.graphs.run_context import apply_prompt_edits, context_schema, get_run_context
from selfwire.graphs.run_start import AnswerGrader, get_run_name, new_question
from selfwire.graphs.team import Team, compile_team, make_team_node
from selfwire.graphs.version_saver import Saver
from selfwire.runtime.ledger import Ledger

Begin = Callable[[HeraContext, Workflow | None], Awaitable[Workflow]]
"""Finds the workflow that a question starts with, from the run's choices and what the thread had before."""

Wire = Callable[[HeraContext, Usage], Awaitable[tuple[HeraActions, Ledger]]]
"""Wires the method as a run has chosen it, and opens the ledger that pays from what was spent on the question."""

HeraGraph = StateGraph[HeraState, Any, Any, Any]


@dataclass(frozen=True)
class HeraNodes:
    """The machine's nodes up to the rollout.

    Attributes:
        hera: the wired method.
        start: the workflow that is drawn.
        begins: finds a question's first workflow; by default the thread's, else `start`.
        assess: the environment, if there is one.
        save: keeps evolved workflows, if anything does.
    """

    hera: HeraActions
    start: Workflow
    begins: Begin | None = None
    assess: AnswerGrader | None = None
    save: Saver | None = None

    async def begin(self, state: HeraState) -> HeraState:
        """Take a new question."""
        question, context = new_question(state), get_run_context(HeraContext)
        if context.evolve and self.assess is None:
            raise ConfigError("the team cannot learn from this question: nothing says what its answers are worth")
        if context.evolve and context.prompts:
            raise ConfigError("prompts are edited for this run only, and evolve would keep what it makes of them")
        had = Workflow.model_validate(state["workflow"]) if state.get("workflow") else None
        workflow = await self.begins(context, had) if self.begins else had or self.start
        apply_prompt_edits(workflow, context)  # what cannot be is refused before anything is paid
        scope = Scope(run=get_run_name(), seed=context.seed, phase="rollout", task=question.id)
        body = workflow.model_dump(mode="json")
        return {
            **make_fresh_state(),
            "answer": "",
            "scope": scope.model_dump(mode="json"),
            "ran": body,
            "workflow": body,
            "usage": Usage().model_dump(mode="json"),
        }

    async def characterize(self, state: HeraState) -> HeraState:
        """c, the profile of the question."""
        profile, usage = await characterize_query(new_question(state), self.hera.orchestrator, scope=get_scope(state))
        return {"brief": Brief(profile=profile, usage=usage).model_dump(mode="json")}

    async def retrieve_insights(self, state: HeraState) -> HeraState:
        """E_rel, what experience with similar questions says."""
        brief = Brief.model_validate(state["brief"])
        found = await self.hera.recall_insights(get_workflow(state), brief.profile)
        return {"brief": brief.replace(insights=found).model_dump(mode="json")}

    async def sample_topologies(self, state: HeraState) -> HeraState:
        """One topology, or G of them where the team learns; members that nobody could plan for are left out.

        Raises:
            ModelError: nothing could be planned.
        """
        evolve, brief, scope = (
            get_run_context(HeraContext).evolve,
            Brief.model_validate(state["brief"]),
            get_scope(state),
        )
        workflow, question = get_workflow(state), new_question(state)
        orchestrator = self.hera.explorer if evolve else self.hera.orchestrator

        async def member(sample: int) -> tuple[Plan | ModelError, Usage]:
            try:
                return await self.hera.plan_question(
                    workflow, question, brief, orchestrator, scope=scope.at(sample=sample)
                )
            except ModelError as error:
                return error, get_error_cost(error)

        found = await gather_all(member(sample) for sample in range(self.hera.config.group if evolve else 1))
        plans = [(plan, usage) for plan, usage in found if isinstance(plan, Plan)]
        if not plans:
            raise next(fault for fault, _ in found if isinstance(fault, ModelError))
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
        return {"planned": to_json(planned)}

    async def rollout(self, state: HeraState) -> HeraState:
        """Execute what is planned; with evolution off that is one team, as part of this graph."""
        if get_run_context(HeraContext).evolve:
            return _answered(state, await self.learning.rollout(state))
        [one] = [PlannedQuestion.model_validate(plan) for plan in state["planned"]]
        workflow = apply_prompt_edits(get_workflow(state), get_run_context(HeraContext))
        place, heat = get_scope(state).at(sample=one.sample), self.hera.config.temperature
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


Step = Callable[[HeraNodes, HeraState], Awaitable[HeraState]]
Node = Runnable[HeraState, Any]
Learn = Callable[[Learning, HeraState], Awaitable[HeraState]]


def build_state_graph(steps: HeraNodes, wire: Wire) -> HeraGraph:
    """The whole machine, ready to compile; every node that may call a model is wired as its run has chosen."""

    def paid(step: Step) -> Callable[[HeraState], Awaitable[HeraState]]:
        async def run(state: HeraState) -> HeraState:
            hera, ledger = await wire(get_run_context(HeraContext), Usage.model_validate(state["usage"]))
            update = await step(replace(steps, hera=hera), state)
            return {**update, "usage": ledger.spent.model_dump(mode="json")}

        return run

    def learns(step: Learn) -> Node:
        async def through(now: HeraNodes, state: HeraState) -> HeraState:
            return await step(now.learning, state)

        return make_node(paid(through))

    async def rollout(state: HeraState, team: Team) -> HeraState:
        return await paid(HeraNodes.rollout)(state)

    schema = context_schema(HeraContext, steps.start, dict.fromkeys(steps.start.agents_by_id, "rollout"))
    graph: HeraGraph = StateGraph(HeraState, context_schema=schema, input_schema=HeraInput)
    graph.add_node("begin", make_node(steps.begin))
    graph.add_node("characterize", make_node(paid(HeraNodes.characterize)))
    graph.add_node("retrieve_insights", make_node(paid(HeraNodes.retrieve_insights)))
    graph.add_node("sample_topologies", make_node(paid(HeraNodes.sample_topologies)))
    graph.add_node("rollout", make_team_node(compile_team(steps.start.topology), rollout))
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "characterize")
    graph.add_edge("characterize", "retrieve_insights")
    graph.add_edge("retrieve_insights", "sample_topologies")
    graph.add_edge("sample_topologies", "rollout")
    graph.add_conditional_edges("rollout", _rank_or_end)
    _add_learning(graph, steps.hera, learns)
    return graph


async def learn(
    hera: HeraActions, workflow: Workflow, trajectories: Sequence[Trajectory], scope: Scope, grade: TrajectoryGrader
) -> EvolveResult:
    """One pass from rank to keep over the graded groups of a batch, as a graph of its own.

    Its notes say what became of the groups, of new insights, and of the prompts of failing agents, how large the
    library is, and what learning has cost beside the batch's own runs.
    """
    learning = Learning(hera, grade)

    def node(step: Learn) -> Node:
        async def run(state: HeraState) -> HeraState:
            return await step(learning, state)

        return make_node(run)

    graph: HeraGraph = StateGraph(HeraState)
    graph.add_node("rollout", node(Learning.rollout))
    graph.add_edge(START, "rank")
    graph.add_edge("rollout", "rank")
    _add_learning(graph, hera, node)
    body = workflow.model_dump(mode="json")
    given: HeraState = {
        **make_fresh_state(),
        "scope": scope.model_dump(mode="json"),
        "ran": body,
        "workflow": body,
        "trajectories": to_json(list(trajectories)),
    }
    final: Any = await graph.compile(name="hera-learning").ainvoke(given, {**DETACHED, "recursion_limit": 20})
    return EvolveResult(
        workflow=get_workflow(final), applied=tuple(get_applied(final)), notes=_told(final, len(trajectories))
    )


def _add_learning(graph: HeraGraph, hera: HeraActions, node: Callable[[Learn], Node]) -> None:
    def next_after_rank(
        state: HeraState,
    ) -> Literal["mutate_topology", "reflect", "identify_failed_agent", "keep"]:
        if Learning(hera, _skip_grading).due(state):
            return "mutate_topology"
        mixed = any(group.outcome == "mixed" for group in get_groups(state))
        return "reflect" if hera.config.library and mixed else prompts_next(state)

    def prompts_next(state: HeraState) -> Literal["identify_failed_agent", "keep"]:
        failed = any(group.failed is not None for group in get_groups(state))
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


async def _skip_grading(done: Trajectory, scope: Scope) -> Trajectory:
    return done


def _rank_or_end(state: HeraState) -> Literal["rank", "__end__"]:
    return "rank" if get_run_context(HeraContext).evolve else "__end__"


def _answered(state: HeraState, update: HeraState) -> HeraState:
    """The best-ranked answer so far; labels were used to rank.

    Raises:
        TaskError: no run of the group has an answer.
    """
    done = get_trajectories({**state, **update})
    graded = [place for place, one in enumerate(done) if get_score(one) is not None]
    if not graded:
        why = next((one.error for one in done if one.error), "nothing was graded")
        raise TaskError(f"no run of the group has an answer, the first for: {why}; invoke the thread again with None")
    best = done[rank_trajectories(done, graded)[0]]
    return {**update, "answer": best.answer or "", "oracle": True}


def _told(final: HeraState, given: int) -> dict[str, Any]:
    found, done = get_groups(final), get_trajectories(final)
    meta = Usage.model_validate(final["reflection"])
    return {
        "groups": {
            "mixed": sum(group.outcome == "mixed" for group in found),
            "zero": sum(group.outcome == "zero" for group in found),
            "other": sum(group.outcome == "other" for group in found),
        },
        "mutated": [
            {"question": done[place].question.id, "why": done[place].notes["mutation"], "score": get_score(done[place])}
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
        "insights": len(get_library(get_workflow(final))),
        "learning": {"calls": meta.calls, "tokens": meta.tokens},
    }
