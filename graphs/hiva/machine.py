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
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import get_runtime
from pydantic import BaseModel, ConfigDict, Field

from selfwire.core.edits import Rewiring
from selfwire.core.errors import TaskError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import fingerprint
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.forward import match
from selfwire.evolvers.hiva.gradients import Backward, Gradient, Loss, backward, loss
from selfwire.evolvers.hiva.reflector import together
from selfwire.evolvers.hiva.repair import repair
from selfwire.evolvers.hiva.semantics import evolve_semantics
from selfwire.evolvers.hiva.structure import evolve_topology, traffic
from selfwire.evolvers.hiva.updates import outcome, update_beliefs
from selfwire.graphs.hiva.method import Hiva
from selfwire.graphs.method import Evolved
from selfwire.graphs.nodes import DETACHED, both_forms
from selfwire.graphs.team import Team, compile_team, embedded

Assess = Callable[[Question, str, Scope], Awaitable[Feedback]]
"""An environment that knows the reference by the question; the reference itself is nowhere in the state."""

Saver = Callable[[Workflow, int], Awaitable[None]]
"""Keeps an evolved workflow; the number grows from save to save within a thread."""


class HivaContext(BaseModel):
    """What can be chosen per run.

    Args:
        evolve: whether the team learns from this question.
        iterations: most rounds of evolution on it (T).
        seed: seed of everything drawn.
    """

    model_config = ConfigDict(extra="forbid")

    evolve: bool = False
    iterations: int = Field(default=1, ge=1, le=100)
    seed: int = Field(default=0, ge=0)


class HivaState(TypedDict, total=False):
    """What flows through the machine, as JSON.

    Keys:
        question: the user's question; the machine's input.
        answer: the machine's output.
        workflow: the current workflow.
        trajectories: of this round.
        losses, passes: per trajectory; a pass is None where nothing is propagated.
        applied, declined: rewirings of this round, and proposals that were not applied.
        iteration: rounds of evolution done on this question.
        solved: whether every answer of this round was; None where nothing says.
        oracle: whether labels were used on this very question.
        scope: place of the run.
    """

    question: str
    answer: str
    workflow: dict[str, Any]
    trajectories: list[dict[str, Any]]
    losses: list[dict[str, Any]]
    passes: list[dict[str, Any] | None]
    applied: list[dict[str, Any]]
    declined: list[dict[str, Any]]
    iteration: int
    solved: bool | None
    oracle: bool
    scope: dict[str, Any]


@dataclass(frozen=True)
class Steps:
    """The machine's nodes.

    Attributes:
        hiva: the wired method.
        start: workflow of a thread that has none yet.
        assess: the environment, if there is one.
        save: keeps evolved workflows, if anything does.
    """

    hiva: Hiva
    start: Workflow
    assess: Assess | None = None
    save: Saver | None = None

    async def begin(self, state: HivaState) -> HivaState:
        """Take a new question; the thread's workflow stays."""
        run = str(get_config().get("configurable", {}).get("thread_id", ""))
        question = _question(state)
        scope = Scope(run=run, seed=_context().seed, phase="forward", task=question.id)
        workflow = state.get("workflow") or self.start.model_dump(mode="json")
        return {"workflow": workflow, "scope": scope.model_dump(), "iteration": 0, "solved": None, "oracle": False}

    async def forward(self, state: HivaState, team: Team) -> HivaState:
        """Run the current team, which may be another than the drawn one by now."""
        scope = _scope(state).at(iteration=state["iteration"])
        done = await self.hiva.solve(_workflow(state), _question(state), scope=scope, within=None)
        if done.answer is None:
            raise TaskError(f"{done.error}; invoke the thread again to retry what failed")
        return {"trajectories": [done.model_dump(mode="json")], "answer": done.answer}

    async def environment(self, state: HivaState) -> HivaState:
        """Have the answer assessed; without an environment the loss is the aggregator's self-criticism."""
        if self.assess is None:
            return {"solved": None}
        [done] = _trajectories(state)
        feedback = await self.assess(done.question, done.answer or "", _scope(state))
        graded = done.with_feedback(feedback)
        return {"trajectories": [graded.model_dump(mode="json")], "solved": feedback.solved, "oracle": True}

    async def loss(self, state: HivaState) -> HivaState:
        """The textual loss of every trajectory, and its gradient at the aggregator."""
        workflow, scope = _workflow(state), _scope(state)
        graded = self.hiva.config.environment
        losses = await together(
            loss(done, workflow, self.hiva.reflector, environment=graded and done.feedback is not None, scope=scope)
            for done in _trajectories(state)
        )
        judged = [one.solved for one in losses if one.solved is not None]
        return {"losses": [one.model_dump(mode="json") for one in losses], "solved": all(judged) if judged else None}

    async def backward(self, state: HivaState) -> HivaState:
        """The textual chain rule, in every trajectory that was not solved."""
        workflow, scope = _workflow(state), _scope(state)

        async def passed(done: Trajectory, judged: Loss) -> dict[str, Any] | None:
            if judged.gradient is None:
                return None
            found = await backward(done, workflow, judged.gradient, self.hiva.reflector, scope=scope)
            return found.model_dump(mode="json")

        pairs = zip(_trajectories(state), _losses(state), strict=True)
        return {"passes": await together(passed(done, judged) for done, judged in pairs)}

    async def evolve_semantics(self, state: HivaState) -> HivaState:
        """f_P: one rewrite per agent over all its gradients."""
        workflow = _workflow(state)
        found = await evolve_semantics(
            workflow, _gradients(state), self.hiva.reflector, self.hiva.config, scope=_scope(state)
        )
        now, refused = workflow.apply_legal(found.rewirings)
        out = {one.rewiring for one in refused}
        return {
            "workflow": now.model_dump(mode="json"),
            "applied": [one.model_dump(mode="json") for one in found.rewirings if one not in out],
            "declined": [
                *(one.model_dump(mode="json") for one in found.declined),
                *({"by": r.rewiring.by, "operation": r.rewiring.operation, "reason": r.reason} for r in refused),
            ],
        }

    async def evolve_topology(self, state: HivaState) -> HivaState:
        """f_G: one decision per node, applied in reverse topological order."""
        trajectories = _trajectories(state)
        found = await evolve_topology(
            _workflow(state),
            _gradients(state),
            self.hiva.reflector,
            self.hiva.config,
            used=traffic(trajectories),
            parallelizability=await self._parallelizability(trajectories, state),
            scope=_scope(state),
        )
        return {
            "workflow": found.workflow.model_dump(mode="json"),
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
        before, now = _workflow_that_ran(state), _workflow(state)
        passes = state.get("passes") or [None] * len(state["losses"])
        outcomes = []
        for done, judged, passed in zip(_trajectories(state), _losses(state), passes, strict=True):
            concepts = self.hiva.concepts(done)
            found = await match(concepts, now, self.hiva.embedder) if concepts else None
            outcomes.append(outcome(done, judged, Backward.model_validate(passed) if passed else None, found))
        iteration = _scope(state).iteration + state["iteration"]
        now = update_beliefs(now, outcomes, iteration=iteration, config=self.hiva.config.routing)
        if now.fingerprint != before:
            applied = [Rewiring.model_validate(one) for one in state.get("applied", [])]
            now = now.replace(lineage={"parent": before, "rewirings": applied})
        if self.save is not None:
            await self.save(now, int(get_config().get("metadata", {}).get("langgraph_step", 0)))
        return {"workflow": now.model_dump(mode="json"), "iteration": state["iteration"] + 1}

    async def _parallelizability(self, trajectories: Sequence[Trajectory], state: HivaState) -> dict[str, float]:
        found = {}
        for done in trajectories:
            concepts = self.hiva.concepts(done)
            if concepts is None and self.hiva.config.topology_evolution:
                concepts, _ = await self.hiva.profiled(done.question, _workflow(state), _scope(state))
            found[done.question.id] = concepts.parallelizability if concepts else 0.0
        return found


def machine(steps: Steps) -> StateGraph[HivaState, HivaContext]:
    """The whole machine, ready to compile."""
    graph = StateGraph(HivaState, context_schema=HivaContext)
    graph.add_node("begin", both_forms(steps.begin))
    graph.add_node("forward", embedded(compile_team(steps.start.topology), steps.forward))
    graph.add_node("environment", both_forms(steps.environment))
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "forward")
    graph.add_conditional_edges("forward", _evolve_or_end)
    graph.add_edge("environment", "loss")
    _add_learning(graph, steps)
    graph.add_conditional_edges("update_beliefs", _again_or_end)
    return graph


async def learn(hiva: Hiva, workflow: Workflow, trajectories: Sequence[Trajectory], scope: Scope) -> Evolved:
    """One pass from loss to update_beliefs over graded trajectories, as a graph of its own."""
    graph: StateGraph[HivaState, HivaContext] = StateGraph(HivaState, context_schema=HivaContext)
    graph.add_edge(START, "loss")
    _add_learning(graph, Steps(hiva, workflow))
    graph.add_edge("update_beliefs", END)
    given: HivaState = {
        "workflow": workflow.model_dump(mode="json"),
        "trajectories": [done.model_dump(mode="json") for done in trajectories],
        "scope": scope.model_dump(mode="json"),
        "iteration": 0,
        "applied": [],
        "declined": [],
    }
    final = await graph.compile(name="hiva-learning").ainvoke(given, {**DETACHED, "recursion_limit": 12})
    return Evolved(
        workflow=Workflow.model_validate(final["workflow"]),
        applied=tuple(Rewiring.model_validate(one) for one in final["applied"]),
        notes={"declined": final["declined"], "unsolved": sum(not one["solved"] for one in final["losses"])},
    )


def _add_learning(graph: StateGraph[HivaState, HivaContext], steps: Steps) -> None:
    graph.add_node("loss", both_forms(steps.loss))
    graph.add_node("backward", both_forms(steps.backward))
    graph.add_node("evolve_semantics", both_forms(steps.evolve_semantics))
    graph.add_node("evolve_topology", both_forms(steps.evolve_topology))
    graph.add_node("repair", both_forms(steps.repair))
    graph.add_node("update_beliefs", both_forms(steps.update_beliefs))
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
    return get_runtime(HivaContext).context or HivaContext()


def _question(state: HivaState) -> Question:
    text = state["question"]
    return Question(id=fingerprint(text), input=text)


def _scope(state: HivaState) -> Scope:
    return Scope.model_validate(state["scope"])


def _workflow(state: HivaState) -> Workflow:
    return Workflow.model_validate(state["workflow"])


def _workflow_that_ran(state: HivaState) -> str:
    return str(state["trajectories"][0]["workflow"])


def _trajectories(state: HivaState) -> list[Trajectory]:
    return [Trajectory.model_validate(one) for one in state["trajectories"]]


def _losses(state: HivaState) -> list[Loss]:
    return [Loss.model_validate(one) for one in state["losses"]]


def _gradients(state: HivaState) -> list[Gradient]:
    passes = [Backward.model_validate(one) for one in state["passes"] if one]
    return [gradient for passed in passes for gradient in passed.gradients]
