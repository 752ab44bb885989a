"""DyTopo's figure as a LangGraph (Alg. 1).

    START -> begin -> workers (all in parallel) -> induce_topology -> deliver -> manager
                         ^                                               |          |
                         +------- [another round, no manager] -----------+          |
                         +------- [not complete, rounds left] ----------------------+
                                                        [complete, or T_max] -> conclude -> END

State is JSON. Inside `workers` runs a graph with one node per worker; the graph that they talk over is data.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from selfwire.core.errors import ConfigError, TaskError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.delivery import DeliveryResult, deliver
from selfwire.evolvers.dytopo.domain import MANAGER, Domain, DytopoMemory, get_workers
from selfwire.evolvers.dytopo.halting import choose_answer
from selfwire.evolvers.dytopo.induction import RoundGraph
from selfwire.evolvers.dytopo.rounds import Round, induce_round_graph
from selfwire.evolvers.dytopo.tuning import get_current_setting
from selfwire.evolvers.dytopo.turns import WorkerTurn
from selfwire.graphs.dytopo.method import Dytopo
from selfwire.graphs.dytopo.state import DytopoContext, DytopoInput, DytopoState, Report
from selfwire.graphs.dytopo.worker_graph import RoundRun, compile_workers, run_workers
from selfwire.graphs.node_wrappers import make_condition, make_node
from selfwire.graphs.run_context import apply_prompt_edits, context_schema, get_run_context
from selfwire.graphs.run_end import run_to_end
from selfwire.graphs.run_start import get_run_name, get_scope, new_question
from selfwire.graphs.team import make_team_node
from selfwire.runtime.ledger import Ledger

Wire = Callable[[DytopoContext, Usage], Awaitable[tuple[Dytopo, Ledger]]]
"""Wires the method as a run has chosen it, and opens the ledger that pays from what was spent on the question."""

Begin = Callable[[DytopoContext], Awaitable[Workflow]]
"""Finds the team that a question starts with, from the run's choices."""

STEPS_PER_ROUND = 4
"""Nodes of a round; LangGraph limits how many a run may take."""


class Given(DytopoContext):
    """What `solve` hands over per run, so that one compiled machine serves all teams and tasks.

    Args:
        place: of the run.
        start: the team.
    """

    place: Scope
    start: Workflow


@dataclass(frozen=True)
class DytopoNodes:
    """The machine's nodes.

    Attributes:
        dytopo: the wired method.
        start: the team; None where every run is given its own.
        begins: finds the team that a run has chosen; by default `start`.
    """

    dytopo: Dytopo
    start: Workflow | None = None
    begins: Begin | None = None

    async def begin(self, state: DytopoState) -> DytopoState:
        """Take a new question; the task is the goal of round 0."""
        question = new_question(state)
        start, scope = await self._given(question)
        return {
            "answer": None,
            "error": None,
            "usage": Usage().model_dump(mode="json"),
            "scope": scope.model_dump(mode="json"),
            "workflow": start.model_dump(mode="json"),
            "goal": question.input,
            "memories": {},
            "rounds": [],
            "stopped": "",
        }

    async def workers(self, state: DytopoState) -> DytopoState:
        """Every worker speaks once (phase 1)."""
        workflow = _workflow(state)
        memories = DeliveryResult.model_validate({"memories": state["memories"]}).memories
        run = RoundRun(
            team=self.dytopo.team,
            workflow=workflow,
            question=new_question(state),
            goal=state["goal"],
            memories=memories,
            domain=DytopoMemory.of(workflow).domain,
            scope=_scope(state),
        )
        return {"said": await run_workers(run)}

    async def induce_topology(self, state: DytopoState) -> DytopoState:
        """The graph of the round (phases 2 and 3)."""
        setting = get_current_setting(_workflow(state), self.dytopo.config)
        graph = await induce_round_graph(
            _said(state), self.dytopo.config, setting, self.dytopo.embedder, scope=_scope(state).at(node="topology")
        )
        return {"graph": graph.model_dump(mode="json")}

    async def deliver(self, state: DytopoState) -> DytopoState:
        """The barrier: private messages along the graph, memories for the next round (phase 4)."""
        graph, workflow, said = RoundGraph.model_validate(state["graph"]), _workflow(state), _said(state)
        done = deliver(
            DeliveryResult.model_validate({"memories": state["memories"]}).memories,
            said,
            graph,
            roles={name: workflow.agents_by_id[name].role for name in get_workers(workflow)},
            limit=self.dytopo.config.memory,
        )
        record = Round(
            number=len(state["rounds"]),
            goal=state["goal"],
            said=said,
            graph=graph,
            messages=done.messages,
            dropped=done.dropped,
        )
        return {
            "memories": done.model_dump(mode="json")["memories"],
            "rounds": [*state["rounds"], record.model_dump(mode="json")],
            "stopped": "" if len(state["rounds"]) + 1 < self.rounds else "rounds",
        }

    async def manager(self, state: DytopoState) -> DytopoState:
        """Halt, or set the next goal (phase 5)."""
        *before, last = [Round.model_validate(one) for one in state["rounds"]]
        workflow = _workflow(state)
        managed = await self.dytopo.team.manage(
            workflow.agents_by_id[MANAGER],
            new_question(state),
            state["goal"],
            [one.in_order for one in (*before, last)],
            DytopoMemory.of(workflow).domain,
            scope=_scope(state).at(node=MANAGER, visit=last.number),
        )
        if managed.complete and not self.dytopo.config.halting:
            managed = managed.replace(complete=False, why="this run does not halt")
        return {
            "goal": managed.goal,
            "rounds": [*state["rounds"][:-1], last.replace(managed=managed).model_dump(mode="json")],
            "stopped": "complete" if managed.complete else state["stopped"],
        }

    async def conclude(self, state: DytopoState) -> DytopoState:
        """Take the answer from the last global state.

        Raises:
            TaskError: nobody gave one, in a graph that people use; `solve` says so in its trajectory.
        """
        rounds = [Round.model_validate(one) for one in state["rounds"]]
        domain = DytopoMemory.of(_workflow(state)).domain
        found = choose_answer(domain, [one.in_order for one in rounds])
        error = None if found else _why_no_answer(domain, rounds)
        if error and not isinstance(_context(), Given):
            raise TaskError(f"{error}; ask again, allow more rounds or choose another model")
        return {"answer": found, "error": error}

    async def _given(self, question: Question) -> tuple[Workflow, Scope]:
        context = _context()
        if isinstance(context, Given):
            return context.start, context.place
        team = await self.begins(context) if self.begins else self.start
        if team is None:
            raise ConfigError("there is no team; build the graph with one")
        run = get_run_name()
        return apply_prompt_edits(team, context), Scope(run=run, seed=context.seed, phase="run", task=question.id)

    @property
    def rounds(self) -> int:
        """T_max of this run."""
        return _context().rounds or self.dytopo.config.rounds

    def after_delivery(self, state: DytopoState) -> Literal["manager", "workers", "conclude"]:
        """Whether the manager is asked: not without one, nor after the last round of a run that cannot halt (D11)."""
        config = self.dytopo.config
        if config.manager and (config.halting or not state["stopped"]):
            return "manager"
        return after_manager(state)


def after_manager(state: DytopoState) -> Literal["workers", "conclude"]:
    """Another round, unless the run is complete or out of rounds."""
    return "conclude" if state["stopped"] else "workers"


Step = Callable[[DytopoNodes, DytopoState], Awaitable[DytopoState]]


def build_state_graph(
    dytopo: Dytopo, start: Workflow, wire: Wire, begins: Begin | None = None
) -> StateGraph[DytopoState, Any, Any, Any]:
    """The whole machine around a team, ready to compile; nodes that call models are wired as their run has chosen."""
    steps = DytopoNodes(dytopo, start, begins)

    def paid(step: Step) -> Callable[[DytopoState], Awaitable[DytopoState]]:
        async def run(state: DytopoState) -> DytopoState:
            dytopo, ledger = await wire(_context(), Usage.model_validate(state["usage"]))
            update = await step(replace(steps, dytopo=dytopo), state)
            return {**update, "usage": ledger.spent.model_dump(mode="json")}

        return run

    working = paid(DytopoNodes.workers)

    async def in_parallel(state: DytopoState, _: Any) -> DytopoState:
        return await working(state)

    drawn: Any = compile_workers(get_workers(start))
    schema = context_schema(DytopoContext, start, {MANAGER: "manager"})
    return _assembled(steps, make_team_node(drawn, in_parallel), make_node(paid(DytopoNodes.manager)), schema)


def make_solver(dytopo: Dytopo) -> CompiledStateGraph[DytopoState, Any, Any, Any]:
    """The machine for runs that are `Given` team and place, paid for by whoever pays for the method's model."""
    steps = DytopoNodes(dytopo)
    working, managing = (make_node(partial(step, steps)) for step in (DytopoNodes.workers, DytopoNodes.manager))
    return _assembled(steps, working, managing).compile(name="dytopo")


async def run(
    dytopo: Dytopo, workflow: Workflow, question: Question, scope: Scope, within: RunnableConfig | None
) -> Report:
    """One question from START to END."""
    given = Given(seed=scope.seed, place=scope.at(task=question.id), start=workflow)
    limit: RunnableConfig = {"recursion_limit": get_recursion_limit(dytopo.config.rounds)}
    state: Any = await run_to_end(
        dytopo.machine,
        {"question": question.input},
        {**(within or {}), **limit},
        so_far=lambda state: _build_partial_result(state, question, workflow, scope),
        context=given,
    )
    return Report.of(state)


def _build_partial_result(
    state: Mapping[str, Any], question: Question, workflow: Workflow, scope: Scope
) -> Trajectory | None:
    """What the rounds of a run that was stopped have come to."""
    rounds = [Round.model_validate(one) for one in state["rounds"]]
    found = choose_answer(DytopoMemory.of(workflow).domain, [one.in_order for one in rounds])
    if not found:
        return None
    report = Report.of({**state, "answer": found, "error": None, "stopped": "stopped"})  # type: ignore[typeddict-item]
    return report.trajectory(question, workflow.fingerprint, scope.sample)


def get_recursion_limit(rounds: int) -> int:
    """How many steps LangGraph must allow for so many rounds."""
    return rounds * STEPS_PER_ROUND + 4


def _assembled(
    steps: DytopoNodes,
    working: Runnable[DytopoState, Any],
    managing: Runnable[DytopoState, Any],
    schema: type[DytopoContext] = DytopoContext,
) -> StateGraph[DytopoState, Any, Any, Any]:
    graph: StateGraph[DytopoState, Any, Any, Any] = StateGraph(
        DytopoState, context_schema=schema, input_schema=DytopoInput
    )
    graph.add_node("begin", make_node(steps.begin))
    graph.add_node("workers", working)
    graph.add_node("induce_topology", make_node(steps.induce_topology))
    graph.add_node("deliver", make_node(steps.deliver))
    graph.add_node("manager", managing)
    graph.add_node("conclude", make_node(steps.conclude))
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "workers")
    graph.add_edge("workers", "induce_topology")
    graph.add_edge("induce_topology", "deliver")
    graph.add_conditional_edges("deliver", make_condition(steps.after_delivery), ["manager", "workers", "conclude"])
    graph.add_conditional_edges("manager", make_condition(after_manager), ["workers", "conclude"])
    graph.add_edge("conclude", END)
    return graph


def _context() -> DytopoContext:
    return get_run_context(DytopoContext)


def _scope(state: DytopoState) -> Scope:
    return get_scope(state, len(state["rounds"]))


def _workflow(state: DytopoState) -> Workflow:
    return Workflow.model_validate(state["workflow"])


def _said(state: DytopoState) -> tuple[WorkerTurn, ...]:
    return tuple(WorkerTurn.model_validate(one) for one in state["said"])


def _why_no_answer(domain: Domain, rounds: list[Round]) -> str:
    failed = {worker: why for one in rounds for worker, why in one.failed.items() if worker in domain.answerers}
    told = "; ".join(f"{worker!r} failed: {why}" for worker, why in failed.items())
    return f"no answer after {len(rounds)} round(s): {told or 'nobody whose part it is gave one'}"
