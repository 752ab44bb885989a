"""EvoMAS's figure as a LangGraph (Fig. 2, Alg. 1).

    START -> begin -> plan -> adapt -> layers (the team: layer 1 -> ... -> layer L) -> evaluate -> update_state
                       ^  |     |                                                        ^            |   |
                       |  |     +-> [only Early-exit was drawn] -------------------------+            |   |
                       |  +-> [nothing is left to do] conclude                                        |   |
                       +-------------------- [subtasks and stages are left] --------------------------+   |
                                             [done, early exit, or T stages] conclude -> END  <-----------+

`adapt` is the learned router: the edge behind it follows what it has drawn. The state knows a question, never a task.
A planner or an evaluator that fails ends the run with what its stages have come to until then.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph

from selfwire.core.budget import add_cost_on_error, get_error_cost
from selfwire.core.errors import ConfigError, ModelError, format_error
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.evaluator import compose_last_answer, evaluate, make_no_outcome_assessment
from selfwire.evolvers.evomas.planner import make_plan, plan_single_subtask
from selfwire.evolvers.evomas.pool import EARLY_EXIT
from selfwire.evolvers.evomas.stages import (
    Stage,
    describe_change,
    find_masked_agents,
    find_stop_reason,
    get_runnable_part,
    get_settled_answer,
)
from selfwire.evolvers.evomas.state import TaskState, to_rows
from selfwire.evolvers.evomas.updater import update_state
from selfwire.graphs.evomas.method import Evomas
from selfwire.graphs.evomas.stage import make_whole_topology, place_agents
from selfwire.graphs.evomas.state import (
    EvomasContext,
    EvomasInput,
    EvomasState,
    get_pool,
    get_stage,
    get_stages,
    get_task,
)
from selfwire.graphs.node_wrappers import make_node
from selfwire.graphs.run_context import apply_prompt_edits, context_schema, get_run_context
from selfwire.graphs.run_start import RunStart, add_usage, get_question, get_scope, new_question
from selfwire.graphs.team import Team, compile_team, make_team_node
from selfwire.graphs.trained_router.heads import get_sampling
from selfwire.runtime.ledger import Ledger

Wire = Callable[[EvomasContext, Usage], Awaitable[tuple[Evomas, Ledger | None]]]
"""Wires the method as a run has chosen it; with the ledger that pays from what was spent on the question, if any."""

EvomasGraph = StateGraph[EvomasState, Any, Any, Any]
NOTHING_PLANNED = "the planner left nothing to do"


@dataclass(frozen=True)
class EvomasNodes:
    """The machine's nodes.

    Attributes:
        evomas: the wired method.
        opening: what the run begins with: the pool with its router, and the question.
        ledger: pays, and counts asks without a valid reply too; None where somebody else counts.
    """

    evomas: Evomas
    opening: RunStart
    ledger: Ledger | None = None

    async def begin(self, state: EvomasState) -> EvomasState:
        """s_0: an objective and nothing else; what a thread had of another question is gone."""
        question, context = self.opening.question or new_question(state), get_run_context(EvomasContext)
        source, scope = await self.opening.workflow(context), self.opening.place(question, context)
        return {
            "id": question.id,
            "kind": question.kind,
            "answer": None,
            "error": None,
            "scope": scope.model_dump(mode="json"),
            "pool": apply_prompt_edits(source, context).replace(memory={}).model_dump(mode="json"),
            "router": source.fingerprint,
            "task": TaskState(objective=question.input).model_dump(mode="json"),
            "stage": {},
            "stages": [],
            "steps": [],
            "status": "",
            "usage": Usage().model_dump(mode="json"),
        }

    async def plan(self, state: EvomasState) -> EvomasState:
        """The Planner brings the plan up to date; without a task state the task is its only subtask."""
        before, stages = get_task(state), get_stages(state)
        number = len(stages)
        if not self.evomas.config.task_state:
            return self._planned(state, number, plan_single_subtask(before), Usage(), ())
        pool = get_pool(state)
        try:
            found = await make_plan(
                before,
                (stages[-1].outcome or "") if stages else "",
                self.evomas.coach,
                agents="\n".join(f"{agent.id}: {agent.role}" for agent in pool.agents),
                tools=self._tools(pool),
                scope=get_scope(state, number),
            )
        except ModelError as error:
            ended = Stage(number=number, state=before, fault=format_error(error), usage=get_error_cost(error))
            told = [*state["stages"], _json(ended)]
            return {"stages": told, "status": "failure", **self._spent(state, ended.usage)}
        return self._planned(state, number, found.state, found.usage, ("planner",) if found.fell_back else ())

    def _planned(
        self, state: EvomasState, number: int, task: TaskState, usage: Usage, fell_back: tuple[str, ...]
    ) -> EvomasState:
        goal = task.current.goal if task.current else ""
        stage = Stage(number=number, goal=goal, fell_back=fell_back, usage=usage)
        status = "" if task.current else "done"
        return {"task": _json(task), "stage": _json(stage), "status": status, **self._spent(state, usage)}

    async def adapt(self, state: EvomasState) -> EvomasState:
        """The Workflow Adapter draws this stage's layers from the task state."""
        task, stage, pool = get_task(state), get_stage(state), get_pool(state)
        seen, scope = to_rows(task, whole=self.evomas.config.task_state), get_scope(state, stage.number)
        chooser = await self.evomas.chooser(await self._source(state))
        layered = await chooser(
            seen, pool.agents, masked=find_masked_agents(task, pool.agents_by_id), scope=scope.at(node="adapt")
        )
        return {"stage": _json(stage.replace(rows=seen, agents=tuple(pool.agents_by_id), layered=layered))}

    async def _source(self, state: EvomasState) -> Workflow:
        """The workflow whose router the run has begun with: the state names it, as weights are large."""
        source = self.opening.start
        if source.fingerprint != state["router"]:
            source = await self.opening.workflow(get_run_context(EvomasContext))
        if source.fingerprint != state["router"]:
            raise ConfigError(
                f"the run began with the router of workflow {state['router']}, and {source.fingerprint} is there now; "
                "choose that workflow by its fingerprint, or ask anew"
            )
        return source

    async def layers(self, state: EvomasState) -> EvomasState:
        """Run the layers as a team."""
        stage = get_stage(state)
        done = await self.evomas.run_stage(
            get_pool(state), get_question(state), get_task(state), _running(stage), get_scope(state, stage.number)
        )
        outcome = (done.answer or "").strip() or None
        why = done.error or "the last layer said nothing"
        stage = stage.replace(outcome=outcome, error=None if outcome else why, usage=stage.usage + done.usage)
        steps = [*state["steps"], *(step.model_dump(mode="json") for step in done.steps)]
        return {"stage": _json(stage), "steps": steps, **self._spent(state, done.usage)}

    async def evaluate(self, state: EvomasState) -> EvomasState:
        """The Evaluator judges what came of the active subtask; where nothing was run or said, nobody is asked."""
        stage, task = get_stage(state), get_task(state)
        if stage.outcome is None:
            found = make_no_outcome_assessment(stage.error or "only Early-exit was chosen")
            return {"stage": _json(stage.replace(assessment=found))}
        scope, checks, usage = get_scope(state, stage.number), "", Usage()
        if self.evomas.config.verify:
            checks, usage = await self.evomas.verify_answer(get_pool(state), get_question(state), stage.outcome, scope)
        try:
            with add_cost_on_error(usage):
                judged = await evaluate(task, stage.outcome, self.evomas.coach, checks=checks, scope=scope)
        except ModelError as error:
            paid = get_error_cost(error)
            stage = stage.replace(fault=format_error(error), usage=stage.usage + paid)
            return {"stage": _json(stage), **self._spent(state, paid)}
        usage += judged.usage
        fell_back = (*stage.fell_back, *(("evaluator",) if judged.fell_back else ()))
        stage = stage.replace(assessment=judged.assessment, fell_back=fell_back, usage=stage.usage + usage)
        return {"stage": _json(stage), **self._spent(state, usage)}

    async def update_state(self, state: EvomasState) -> EvomasState:
        """The Updater: s_{t+1}, and whether the run goes on."""
        stage, task = get_stage(state), get_task(state)
        if _running(stage) and stage.assessment is not None:
            limit = self.evomas.config.refinements
            after = update_state(task, _running(stage), stage.outcome, stage.assessment, refinements=limit)
            stage, task = stage.replace(changes=describe_change(task, after)), after
        stage = stage.replace(state=task)
        stages = [*get_stages(state), stage]
        status = find_stop_reason(stages, limit=self.evomas.config.stages) or ""
        return {"task": _json(task), "stages": [*state["stages"], _json(stage)], "status": status}

    async def conclude(self, state: EvomasState) -> EvomasState:
        """The last artifact that was passed; else one synthesis of what was tried; else an error."""
        stages = get_stages(state)
        answer = get_settled_answer(stages)
        if answer is not None:
            return {"answer": answer, "error": None}
        attempts = [one.outcome for one in stages if one.outcome]
        if not attempts:
            why = stages[-1].fault or stages[-1].error or "only Early-exit was chosen" if stages else NOTHING_PLANNED
            return {"answer": None, "error": f"no stage came to an outcome; the last one: {why}"}
        if state["status"] == "failure":  # nor would the synthesis be answered
            return {"answer": attempts[-1], "error": None}
        task = get_task(state) if self.evomas.config.task_state else TaskState(objective=state["question"])
        try:
            answer, usage = await compose_last_answer(
                task, attempts, self.evomas.coach, scope=get_scope(state, len(stages))
            )
        except ModelError as error:
            told = [*state["stages"][:-1], _json(stages[-1].replace(fault=format_error(error)))]
            spent = self._spent(state, get_error_cost(error))
            return {"answer": attempts[-1], "error": None, "stages": told, "status": "failure", **spent}
        return {"answer": answer, "error": None, **self._spent(state, usage)}

    def _tools(self, pool: Workflow) -> str:
        held = dict.fromkeys(tool for agent in pool.agents for tool in agent.tools)
        specs = [self.evomas.toolbox[name].spec for name in held if name in self.evomas.toolbox]
        return "\n".join(f"{spec.name}: {spec.description}" for spec in specs) or "(none)"

    def _spent(self, state: EvomasState, more: Usage) -> EvomasState:
        usage = add_usage(Usage.model_validate(state["usage"]), more, self.ledger)
        return {"usage": usage.model_dump(mode="json")}


def build_state_graph(config: EvomasConfig, opening: RunStart, wire: Wire) -> EvomasGraph:
    """The whole machine, ready to compile.

    Args:
        config: the method's knobs.
        opening: what a run begins with: the pool with its router, and the question.
        wire: the method as it is paid for.
    """

    def paid(step: Callable[[EvomasNodes, EvomasState], Awaitable[EvomasState]], *, anew: bool = False) -> Any:
        async def run(state: EvomasState) -> EvomasState:
            context = get_run_context(EvomasContext)
            before = Usage() if anew else Usage.model_validate(state["usage"])  # a new question has its own budget
            evomas, ledger = await wire(context, before)
            if context.stages:
                evomas = replace(evomas, config=evomas.config.replace(stages=context.stages))
            return await step(EvomasNodes(evomas, opening, ledger), state)

        return run

    async def team_stage(state: EvomasState, team: Team) -> EvomasState:
        played: EvomasState = await paid(EvomasNodes.layers)(state)
        return played

    start = opening.start
    layers = get_sampling(start, config.routing).layers
    schema = context_schema(EvomasContext, place_agents(start, layers), {EARLY_EXIT: "adapt"})
    graph: EvomasGraph = StateGraph(EvomasState, context_schema=schema, input_schema=EvomasInput)
    graph.add_node("begin", make_node(paid(EvomasNodes.begin, anew=True)))
    graph.add_node("plan", make_node(paid(EvomasNodes.plan)))
    graph.add_node("adapt", make_node(paid(EvomasNodes.adapt)))
    drawn = compile_team(make_whole_topology(start, layers))
    graph.add_node("layers", make_team_node(drawn, team_stage))
    graph.add_node("evaluate", make_node(paid(EvomasNodes.evaluate)))
    graph.add_node("update_state", make_node(paid(EvomasNodes.update_state)))
    graph.add_node("conclude", make_node(paid(EvomasNodes.conclude)))
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "plan")
    graph.add_conditional_edges("plan", adapt_or_conclude)
    graph.add_conditional_edges("adapt", route_stage)
    graph.add_edge("layers", "evaluate")
    graph.add_edge("evaluate", "update_state")
    graph.add_conditional_edges("update_state", plan_or_conclude)
    graph.add_edge("conclude", END)
    return graph


def steps_needed(stages: int) -> int:
    """LangGraph's recursion limit for that many stages: five nodes each, and what begins and ends."""
    return 5 * stages + 5


def adapt_or_conclude(state: EvomasState) -> Literal["adapt", "conclude"]:
    """A workflow for the active subtask; the end, where the planner has left none."""
    return "conclude" if state["status"] else "adapt"


def route_stage(state: EvomasState) -> Literal["layers", "evaluate"]:
    """Where the drawn layers lead: to the team, unless Early-exit alone was drawn."""
    return "layers" if _running(get_stage(state)) else "evaluate"


def plan_or_conclude(state: EvomasState) -> Literal["plan", "conclude"]:
    """Another stage, unless the run is over."""
    return "conclude" if state["status"] else "plan"


def _running(stage: Stage) -> tuple[tuple[str, ...], ...]:
    return get_runnable_part(stage.layered).layers if stage.layered else ()


def _json(value: Stage | TaskState) -> dict[str, Any]:
    return value.model_dump(mode="json")
