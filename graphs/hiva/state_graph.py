"""HiVA's figure as a LangGraph (Alg. 1).

    START -> begin -> forward (the team) -> environment -> [all solved] update_beliefs -> END
                         ^    |                  |
                         |    | evolution off:   | [not solved] loss -> backward -> evolve_semantics
                         |    v END              |      -> evolve_topology -> repair -> update_beliefs
                         +-------- [not solved, rounds left] ------------------------------+

The nodes from loss on are also a machine of their own, `learn`: the outer evolution runs the forward pass on
a whole batch, and hands the graded trajectories in. State holds one workflow and one batch, each overwritten.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from langchain_core.runnables import Runnable
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph

from selfwire.core.edits import Rewiring
from selfwire.core.errors import TaskError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.gradients import (
    Backward,
    Gradient,
    Loss,
    compute_loss,
    count_agreement,
    propagate_gradients,
)
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.evolvers.hiva.repair import repair
from selfwire.evolvers.hiva.semantics import evolve_semantics
from selfwire.evolvers.hiva.structure import count_traffic, evolve_topology
from selfwire.evolvers.hiva.updates import make_lesson, update_beliefs
from selfwire.evolvers.trace_text import gather_all
from selfwire.graphs.hiva.actions import HivaActions
from selfwire.graphs.hiva.state import HivaContext, HivaInput, HivaState, with_prompt_edits
from selfwire.graphs.method_protocol import EvolveResult
from selfwire.graphs.node_wrappers import DETACHED, make_node
from selfwire.graphs.run_context import context_schema, get_run_context
from selfwire.graphs.run_start import AnswerGrader, get_run_name, new_question
from selfwire.graphs.team import Team, compile_team, make_team_node
from selfwire.graphs.version_saver import Saver
from selfwire.runtime.ledger import Ledger

Begin = Callable[[HivaContext, Workflow | None], Awaitable[Workflow]]
"""Finds the workflow that a question starts with, from the run's choices and what the thread had before."""

Wire = Callable[[HivaContext, Usage], Awaitable[tuple[HivaActions, Ledger]]]
"""Wires the method as a run has chosen it, and opens the ledger that pays from what was spent on the question."""


@dataclass(frozen=True)
class HivaNodes:
    """The machine's nodes.

    Attributes:
        hiva: the wired method.
        start: the workflow that is drawn.
        begins: finds a question's first workflow; by default the thread's, else `start`.
        assess: the environment, if there is one.
        save: keeps evolved workflows, if anything does.
    """

    hiva: HivaActions
    start: Workflow
    begins: Begin | None = None
    assess: AnswerGrader | None = None
    save: Saver | None = None

    async def begin(self, state: HivaState) -> HivaState:
        """Take a new question."""
        question, context = new_question(state), _context()
        had = _workflow(state) if state.get("workflow") else None
        workflow = await self.begins(context, had) if self.begins else had or self.start
        with_prompt_edits(workflow, context)  # what cannot be is refused before anything is paid
        scope = Scope(
            run=get_run_name(),
            seed=context.seed,
            iteration=HivaMemory.of(workflow).iteration + 1,
            phase="forward",
            task=question.id,
        )
        fresh: HivaState = {"iteration": 0, "solved": None, "oracle": False, "usage": Usage().model_dump(mode="json")}
        return {**fresh, "workflow": workflow.model_dump(mode="json"), "scope": scope.model_dump(mode="json")}

    async def forward(self, state: HivaState) -> HivaState:
        """Run the current team, which may be another than the drawn one by now."""
        workflow = with_prompt_edits(_workflow(state), _context())
        done = await self.hiva.solve(workflow, new_question(state), scope=_scope(state), within=None)
        if done.answer is None:
            raise TaskError(f"{done.error}; invoke the thread again with None to retry")
        return {"trajectories": [done.model_dump(mode="json")], "answer": done.answer}

    async def environment(self, state: HivaState) -> HivaState:
        """Have the answer assessed; in "w/o Env" nobody asks, and the loss is the aggregator's self-criticism."""
        if self.assess is None or not self.hiva.config.environment:
            return {"solved": None}
        [done] = _trajectories(state)
        feedback = await self.assess(done.question, done.answer or "", _scope(state))
        graded = done.with_feedback(feedback)
        return {"trajectories": [graded.model_dump(mode="json")], "solved": feedback.solved, "oracle": True}

    async def loss(self, state: HivaState) -> HivaState:
        """The textual loss of every trajectory, and its gradient at the aggregator."""
        workflow, scope = _workflow(state), _scope(state)
        graded = self.hiva.config.environment
        losses = await gather_all(
            compute_loss(done, workflow, self.hiva.coach, environment=graded and done.feedback is not None, scope=scope)
            for done in _trajectories(state)
        )
        judged = [one.solved for one in losses if one.solved is not None]
        return {
            "ran": state["workflow"],
            "passes": [],
            "applied": [],
            "declined": [],
            "reflection": sum_usages(one.usage for one in losses).model_dump(mode="json"),
            "losses": [one.model_dump(mode="json") for one in losses],
            "solved": all(judged) if judged else None,
        }

    async def backward(self, state: HivaState) -> HivaState:
        """The textual chain rule, in every trajectory that was not solved."""
        workflow, scope = _workflow(state), _scope(state)

        async def passed(done: Trajectory, judged: Loss) -> Backward | None:
            if judged.gradient is None:
                return None
            return await propagate_gradients(done, workflow, judged.gradient, self.hiva.coach, scope=scope)

        pairs = zip(_trajectories(state), _losses(state), strict=True)
        passes = await gather_all(passed(done, judged) for done, judged in pairs)
        return {
            "passes": [one.model_dump(mode="json") if one else None for one in passes],
            "reflection": _reflected(state, *(one.usage for one in passes if one)),
        }

    async def evolve_semantics(self, state: HivaState) -> HivaState:
        """f_P: one rewrite per agent over all its gradients."""
        workflow = _workflow(state)
        found = await evolve_semantics(
            workflow, _gradients(state), self.hiva.coach, self.hiva.config, scope=_scope(state)
        )
        now, refused = workflow.apply_legal(found.rewirings)
        out = {one.rewiring for one in refused}
        return {
            "workflow": now.model_dump(mode="json"),
            "reflection": _reflected(state, found.usage),
            "applied": [one.model_dump(mode="json") for one in found.rewirings if one not in out],
            "declined": [
                *(one.model_dump(mode="json") for one in found.declined),
                *({"by": r.rewiring.by, "operation": r.rewiring.operation, "reason": r.reason} for r in refused),
            ],
        }

    async def evolve_topology(self, state: HivaState) -> HivaState:
        """f_G: one decision per node, applied in reverse topological order."""
        trajectories = _trajectories(state)
        parallelizability, usage = await self.hiva.get_parallelizability(trajectories, _workflow(state), _scope(state))
        found = await evolve_topology(
            _workflow(state),
            _gradients(state),
            self.hiva.coach,
            self.hiva.config,
            used=count_traffic(trajectories),
            parallelizability=parallelizability,
            scope=_scope(state),
        )
        return {
            "workflow": found.workflow.model_dump(mode="json"),
            "reflection": _reflected(state, usage, found.usage),
            "applied": [*state["applied"], *(one.model_dump(mode="json") for one in found.applied)],
            "declined": [*state["declined"], *(one.model_dump(mode="json") for one in found.declined)],
        }

    async def repair(self, state: HivaState) -> HivaState:
        """RepairTopology; what it changes is recorded like any rewiring."""
        found = repair(_workflow(state), self.hiva.config)
        return {
            "workflow": found.workflow.model_dump(mode="json"),
            "applied": [*state["applied"], *(one.model_dump(mode="json") for one in found.rewirings)],
        }

    async def update_beliefs(self, state: HivaState) -> HivaState:
        """One update of all that is learned, and the lineage from the workflow that ran."""
        ran, now = Workflow.model_validate(state["ran"]), _workflow(state)
        passes = state["passes"] or [None] * len(state["losses"])
        outcomes = []
        for done, judged, passed in zip(_trajectories(state), _losses(state), passes, strict=True):
            found = await self.hiva.match_noted(done, ran)
            outcomes.append(make_lesson(done, judged, Backward.model_validate(passed) if passed else None, found))
        now = update_beliefs(now, outcomes, config=self.hiva.config.routing)
        if now.fingerprint != ran.fingerprint:
            applied = [Rewiring.model_validate(one) for one in state["applied"]]
            now = now.replace(lineage={"parent": ran.fingerprint, "rewirings": applied})
            if self.save is not None:
                await self.save(now, _scope(state), int(get_config()["metadata"]["langgraph_step"]))
        return {"workflow": now.model_dump(mode="json"), "iteration": state["iteration"] + 1}


Step = Callable[[HivaNodes, HivaState], Awaitable[HivaState]]
Node = Runnable[HivaState, Any]


def build_state_graph(steps: HivaNodes, wire: Wire) -> StateGraph[HivaState, Any, Any, Any]:
    """The whole machine, ready to compile; every node that may call a model is wired as its run has chosen."""

    def paid(step: Step) -> Callable[[HivaState], Awaitable[HivaState]]:
        async def run(state: HivaState) -> HivaState:
            hiva, ledger = await wire(_context(), Usage.model_validate(state["usage"]))
            update = await step(replace(steps, hiva=hiva), state)
            return {**update, "usage": ledger.spent.model_dump(mode="json")}

        return run

    async def forward(state: HivaState, team: Team) -> HivaState:
        return await paid(HivaNodes.forward)(state)

    graph: StateGraph[HivaState, Any, Any, Any] = StateGraph(
        HivaState, context_schema=context_schema(HivaContext, steps.start), input_schema=HivaInput
    )
    graph.add_node("begin", make_node(steps.begin))
    graph.add_node("forward", make_team_node(compile_team(steps.start.topology), forward))
    graph.add_node("environment", make_node(steps.environment))
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "forward")
    graph.add_conditional_edges("forward", _evolve_or_end)
    graph.add_edge("environment", "loss")
    _add_learning(graph, lambda step: make_node(paid(step)))
    graph.add_conditional_edges("update_beliefs", _again_or_end)
    return graph


async def learn(
    hiva: HivaActions, workflow: Workflow, trajectories: Sequence[Trajectory], scope: Scope
) -> EvolveResult:
    """One pass from loss to update_beliefs over graded trajectories, as a graph of its own.

    Its notes say what was declined, how many tasks stayed unsolved, how often the mismatch limit left out a
    candidate (D7), and what the reflection has cost.
    """
    graph: StateGraph[HivaState, Any, Any, Any] = StateGraph(HivaState)
    graph.add_edge(START, "loss")
    steps = HivaNodes(hiva, workflow)
    _add_learning(graph, lambda step: make_node(partial(step, steps)))
    graph.add_edge("update_beliefs", END)
    given: HivaState = {
        "workflow": workflow.model_dump(mode="json"),
        "trajectories": [done.model_dump(mode="json") for done in trajectories],
        "scope": scope.model_dump(mode="json"),
        "iteration": 0,
    }
    final: Any = await graph.compile(name="hiva-learning").ainvoke(given, {**DETACHED, "recursion_limit": 12})
    losses, now = _losses(final), _workflow(final)
    meta = Usage.model_validate(final["reflection"])
    notes = {
        "declined": final["declined"],
        "unsolved": sum(not one.solved for one in losses),
        "left_out": HivaMemory.of(now).left_out - HivaMemory.of(workflow).left_out,
        "meta": {"calls": meta.calls, "tokens": meta.tokens},
    }
    if not hiva.config.environment:
        notes |= count_agreement(trajectories, losses)
    applied = tuple(Rewiring.model_validate(one) for one in final["applied"])
    return EvolveResult(workflow=now, applied=applied, notes=notes)


def _add_learning(graph: StateGraph[HivaState, Any, Any, Any], node: Callable[[Step], Node]) -> None:
    graph.add_node("loss", node(HivaNodes.loss))
    graph.add_node("backward", node(HivaNodes.backward))
    graph.add_node("evolve_semantics", node(HivaNodes.evolve_semantics))
    graph.add_node("evolve_topology", node(HivaNodes.evolve_topology))
    graph.add_node("repair", node(HivaNodes.repair))
    graph.add_node("update_beliefs", node(HivaNodes.update_beliefs))
    graph.add_conditional_edges("loss", _backward_or_update)
    graph.add_edge("backward", "evolve_semantics")
    graph.add_edge("evolve_semantics", "evolve_topology")
    graph.add_edge("evolve_topology", "repair")
    graph.add_edge("repair", "update_beliefs")


def _evolve_or_end(state: HivaState) -> Literal["environment", "__end__"]:
    return "environment" if _context().evolve else "__end__"


def _backward_or_update(state: HivaState) -> Literal["backward", "update_beliefs"]:
    return "backward" if any(one["gradient"] for one in state["losses"]) else "update_beliefs"


def _again_or_end(state: HivaState) -> Literal["forward", "__end__"]:
    return "forward" if state["solved"] is False and state["iteration"] < _context().iterations else "__end__"


def _context() -> HivaContext:
    return get_run_context(HivaContext)


def _scope(state: HivaState) -> Scope:
    scope = Scope.model_validate(state["scope"])
    return scope.at(iteration=scope.iteration + state["iteration"])


def _workflow(state: HivaState) -> Workflow:
    return Workflow.model_validate(state["workflow"])


def _trajectories(state: HivaState) -> list[Trajectory]:
    return [Trajectory.model_validate(one) for one in state["trajectories"]]


def _losses(state: HivaState) -> list[Loss]:
    return [Loss.model_validate(one) for one in state["losses"]]


def _reflected(state: HivaState, *usages: Usage) -> dict[str, Any]:
    return sum_usages([Usage.model_validate(state["reflection"]), *usages]).model_dump(mode="json")


def _gradients(state: HivaState) -> list[Gradient]:
    passes = [Backward.model_validate(one) for one in state["passes"] if one]
    return [gradient for passed in passes for gradient in passed.gradients]
