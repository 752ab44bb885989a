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

`keep` only sets the lineage and saves. The nodes from rank on are also a graph of their own, in `learn`: the outer
evolution runs and grades the groups of a whole batch and hands them in.
"""

from collections.abc import Sequence
from typing import Any

from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.experience.library import get_library
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.mutation import JOIN
from selfwire.evolvers.hera.pictures import note_groups
from selfwire.evolvers.outcomes import get_score
from selfwire.graphs.hera.actions import HeraActions
from selfwire.graphs.hera.learning import LearningNodes, list_due
from selfwire.graphs.hera.nodes import HeraNodes
from selfwire.graphs.hera.state import EMPTY_STEP, HeraContext, HeraState
from selfwire.graphs.method_factory import MethodFactory
from selfwire.graphs.method_graph import END, START, Graph, MethodGraph
from selfwire.graphs.method_protocol import EvolveResult, TrajectoryGrader
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.run_context import get_run_context
from selfwire.graphs.run_start import RunStart


def build_state_graph(config: HeraConfig, start: RunStart, provide: MethodFactory[Any, HeraConfig]) -> Graph:
    """The whole graph, ready to compile; `provide` makes the method of a run, paid by its ledger."""

    async def make_nodes(spent: Usage) -> HeraNodes:
        hera, ledger = await provide(get_run_context(HeraContext), spent)
        return HeraNodes(hera, start, ledger)

    def rank_or_end(state: HeraState) -> str:
        return "rank" if get_run_context(HeraContext).evolve else END

    agent_nodes = dict.fromkeys(start.initial_workflow.agents_by_id, "rollout")
    graph = MethodGraph(HeraState, make_nodes, HeraContext, start.initial_workflow, agent_nodes)
    graph.node("begin", HeraNodes.begin, first=True, nodes=HeraNodes(provide.method, start))
    graph.node("characterize", HeraNodes.characterize, charge=True)
    graph.node("retrieve_insights", HeraNodes.retrieve_insights, charge=True)
    graph.node("sample_topologies", HeraNodes.sample_topologies, charge=True)
    graph.team("rollout", HeraNodes.rollout, start.initial_workflow.topology)
    graph.edges(START, "begin", "characterize", "retrieve_insights", "sample_topologies", "rollout")
    graph.choose("rollout", rank_or_end, "rank", END)
    _add_learning(graph, config)
    return graph.graph


async def learn(
    hera: HeraActions, workflow: Workflow, trajectories: Sequence[Trajectory], scope: Scope, grade: TrajectoryGrader
) -> EvolveResult:
    """One pass from rank to keep over the graded groups of a batch, as a graph of its own.

    Its notes hold the outcomes of the groups and their runs in short, the fate of new insights and of the prompts of
    failing agents, the size of the library, and the cost of learning without the batch's own runs.
    """

    async def make_nodes(spent: Usage) -> LearningNodes:
        return LearningNodes(hera, RunStart(workflow), grader=grade)

    graph = MethodGraph(HeraState, make_nodes)
    graph.node("rollout", LearningNodes.rollout)
    graph.edges(START, "rank")
    graph.edges("rollout", "rank")
    _add_learning(graph, hera.config)
    given = EMPTY_STEP | HeraState.update(scope=scope, ran=workflow, workflow=workflow, trajectories=trajectories)
    compiled = graph.graph.compile(name="hera-learning")
    final = HeraState(await compiled.ainvoke(given, {**DETACHED, "recursion_limit": 20}))
    return EvolveResult(workflow=final.workflow, applied=final.applied, notes=_make_notes(final, len(trajectories)))


def _add_learning(graph: MethodGraph[Any, HeraState], config: HeraConfig) -> None:
    def choose_after_rank(state: HeraState) -> str:
        if list_due(state, config):
            return "mutate_topology"
        mixed = any(group.outcome == "mixed" for group in state.groups)
        return "reflect" if config.library and mixed else choose_prompts(state)

    def choose_prompts(state: HeraState) -> str:
        failed = any(group.failed is not None for group in state.groups)
        return "identify_failed_agent" if config.rope and failed else "keep"

    for step in (
        LearningNodes.rank,
        LearningNodes.mutate_topology,
        LearningNodes.reflect,
        LearningNodes.consolidate_experience,
        LearningNodes.identify_failed_agent,
        LearningNodes.rope,
        LearningNodes.consolidate_prompt,
        LearningNodes.keep,
    ):
        graph.node(step.__name__, step, charge=True)
    graph.choose("rank", choose_after_rank, "mutate_topology", "reflect", "identify_failed_agent", "keep")
    graph.edges("mutate_topology", "rollout")
    graph.edges("reflect", "consolidate_experience")
    graph.choose("consolidate_experience", choose_prompts, "identify_failed_agent", "keep")
    graph.edges("identify_failed_agent", "rope", "consolidate_prompt", "keep", END)


def _make_notes(final: HeraState, given: int) -> dict[str, Any]:
    outcomes = [group.outcome for group in final.groups]
    newcomers = sum(one.candidate.newcomer is not None for one in final.tried)
    joined = sum(one.operation == JOIN for one in final.applied)
    return {
        "tried": [JOIN] * (newcomers - joined),
        "groups": {outcome: outcomes.count(outcome) for outcome in ("mixed", "zero", "other")},
        "compared": note_groups(final.groups, final.trajectories),
        "mutated": [
            {"question": done.question.id, "why": done.notes["mutation"], "score": get_score(done)}
            for done in final.trajectories[given:]
        ],
        "changes": final.channels["changes"],
        "ropes": [
            {
                "agent": rope["blame"]["agent"],
                "cause": rope["blame"]["cause"],
                "axes": [variant["axis"] for variant in rope["variants"]],
                **{name: rope[name] for name in ("scores", "control", "lesson")},
            }
            for rope in final.channels["ropes"]
        ],
        "refused": final.channels["refused"],
        "insights": len(get_library(final.workflow)),
        "learning": {"calls": final.reflection.calls, "tokens": final.reflection.tokens},
    }
