"""EvoMAS as LangGraph (Xu et al., arXiv 2605.08769, Alg. 1): every stage of a question has a workflow of its own.

    START -> begin -> plan -> adapt -> layers (the drawn team) -> evaluate -> update_state
                       ^  |     |                                  ^            |   |
                       |  |     +-> [only Early-exit was drawn] ---+            |   |
                       |  +-> [nothing is left to do] conclude                  |   |
                       +-------- [subtasks and stages are left] ----------------+   |
                                 [done, early exit, or T stages] conclude -> END <--+

A question enters at `begin`. `adapt` is the learned router, and the edge behind it follows what was drawn. The state
knows a question and never a task. The router learns from graded runs by one update per batch (`Evomas.propose`,
`evolvers.router`), which needs no graph. A planner or an evaluator that fails ends the run with the best answer so far.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import Field

from selfwire.core.chat import Prompts, load_prompts
from selfwire.core.errors import ConfigError, ModelError, add_cost_on_error, format_error, get_error_cost
from selfwire.core.protocols import AgentRunner
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import DECISIONS, Step, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenMap
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.evaluator import (
    assess_outcome,
    compose_answer,
    make_no_outcome_assessment,
    verify_outcome,
)
from selfwire.evolvers.evomas.layers import (
    ENDS,
    make_chooser,
    make_layered_topology,
    make_stage_runner,
    make_whole_topology,
    narrow_question,
    place_agents,
)
from selfwire.evolvers.evomas.pictures import END_REASONS, draw_run, format_notes
from selfwire.evolvers.evomas.planner import PlanResult, make_plan, plan_single_subtask
from selfwire.evolvers.evomas.pool import EARLY_EXIT, METHOD, find_browsing_tools, make_initial_team
from selfwire.evolvers.evomas.stages import (
    Stage,
    collect_findings,
    describe_change,
    find_masked_agents,
    find_masked_openers,
    find_stop_reason,
    get_best_outcome,
    get_written_answer,
    to_episode,
)
from selfwire.evolvers.evomas.state import TaskState, compute_next_state, to_rows
from selfwire.evolvers.router.config import PAPER_HEAD, ROUTER
from selfwire.evolvers.router.decisions import Masks, count_decisions, to_router_episode
from selfwire.evolvers.router.reinforce import update_router
from selfwire.evolvers.router.weights import get_sampling, refuse_unusable
from selfwire.evolvers.trajectory_text import describe_held_tools, render_agents
from selfwire.graphs.build import make_build
from selfwire.graphs.machine import (
    END,
    START,
    Ctx,
    Graph,
    MethodGraph,
    RunContext,
    RunStart,
    State,
    Update,
    make_state_error,
    run_graph,
)
from selfwire.graphs.method import (
    FULL,
    LOOP,
    CallEstimate,
    EvolveResult,
    Method,
    RouterPlan,
    RouterTraining,
    Variant,
)
from selfwire.graphs.serve import make_server
from selfwire.graphs.team import TeamContext, run_team
from selfwire.nodes.ensemble import make_ensemble_runner
from selfwire.tools.search import with_pages

NOTHING_PLANNED = "the planner left nothing to do"


class EvomasContext(RunContext):
    """Choices per run; each field has a description."""

    stages: int | None = Field(default=None, ge=1, le=100, description="Most stages; empty for the graph's own.")


class EvomasState(State):
    """State of a question, beside the channels of every state.

    Attributes:
        error: why there is no answer; None if there is one.
        pool: the agents, without what was learned of them.
        router: fingerprint of the workflow whose weights choose; weights are too large for a state.
        task: the task state s_t.
        stage: the present stage so far; None before the first plan.
        status: why the run ended; "" until then.
    """

    error: str | None = None
    pool: Team
    router: str
    task: TaskState
    stage: Stage | None = None
    stages: tuple[Stage, ...] = ()
    steps: tuple[Step, ...] = ()
    status: str = ""

    @property
    def present(self) -> Stage:
        """The present stage, in steps that come after the plan."""
        if self.stage is None:
            raise make_state_error("stage", "it is None in a step that works on it")
        return self.stage

    @property
    def place(self) -> Scope:
        """Place in the run of the present stage; of the next one where that is over."""
        return self.scope.at(visit=len(self.stages))


async def begin(state: EvomasState, ctx: Ctx[EvomasConfig]) -> Update:
    """Set s_0, an objective and nothing else; the thread's earlier question is forgotten."""
    question, team, scope = await ctx.begin(state)
    pool, task = ctx.edit(team).replace(memory={}), TaskState(objective=question.input)
    return state.restart(question, scope, pool=pool, router=team.fingerprint, task=task)


async def plan(state: EvomasState, ctx: Ctx[EvomasConfig]) -> Update:
    """Bring the plan up to date; without a task state the task is its only subtask."""
    number, task, pool = len(state.stages), state.task, state.pool
    idle = find_masked_agents(task, pool.agents) | {EARLY_EXIT}
    planned = PlanResult(plan_single_subtask(task), Usage())
    try:
        if ctx.options.task_state:
            planned = await make_plan(
                task,
                (state.stages[-1].outcome or "") if state.stages else "",
                ctx.critic,
                agents=render_agents([agent for agent in pool.agents if agent.id not in idle]),
                tools=describe_held_tools(pool.agents, pool, ctx.get_tools(pool)),
                scope=ctx.scope,
            )
    except ModelError as error:
        failed = Stage(number=number, state=task, fault=format_error(error), usage=get_error_cost(error))
        usage = state.usage + failed.usage
        return state.update(stages=(*state.stages, failed), status="failure", usage=usage)
    current = planned.state.current
    stage = Stage(
        number=number,
        goal=current.goal if current else "",
        fell_back=("planner",) if planned.fell_back else (),
        usage=planned.usage,
    )
    usage, status = state.usage + planned.usage, "" if current else "done"
    return state.update(task=planned.state, stage=stage, status=status, usage=usage)


async def adapt(state: EvomasState, ctx: Ctx[EvomasConfig]) -> Update:
    """Draw this stage's layers from the task state (the Team Adapter)."""
    stage, agents = state.present, state.pool.agents
    rows = to_rows(state.task, whole=ctx.options.task_state)
    choose = await make_chooser(await load_router(state, ctx), ctx.options, ctx.embed)
    masked = find_masked_agents(state.task, agents, early_exit=ctx.options.early_exit)
    masks = Masks(masked, find_masked_openers(state.task, agents))
    layered = await choose(rows, agents, masks, scope=ctx.scope.at(node="adapt"))
    return state.update(stage=stage.replace(rows=rows, agents=tuple(agent.id for agent in agents), layered=layered))


async def layers(state: EvomasState, ctx: Ctx[EvomasConfig]) -> Update:
    """Run the drawn layers as a team on the active subtask."""
    stage, pool, whole = state.present, state.pool, ctx.options.task_state
    question = state.get_question()
    run = TeamContext.of(
        pool,
        narrow_question(question, state.task) if whole else question,
        ctx.scope,
        make_stage_runner(make_runners(pool, ctx), state.task, whole=whole),
        agents={**pool.agents_by_id, **ENDS},
    )
    done = await run_team(make_layered_topology(stage.layers_to_run), run, config=ctx.team_config)
    outcome = (done.answer or "").strip() or None
    why = done.error or "the last layer said nothing"
    return state.update(
        stage=stage.replace(outcome=outcome, error=None if outcome else why, usage=stage.usage + done.usage),
        steps=(*state.steps, *(step for step in done.steps if step.agent not in ENDS)),
        usage=state.usage + done.usage,
    )


async def evaluate(state: EvomasState, ctx: Ctx[EvomasConfig]) -> Update:
    """Judge the outcome of the active subtask; without an outcome no model is asked."""
    stage, pool, usage, checks = state.present, state.pool, Usage(), ""
    if stage.outcome is None:
        assessment = make_no_outcome_assessment(stage.error or "only Early-exit was chosen")
        return state.update(stage=stage.replace(assessment=assessment))
    closing = len(state.task.pending) == 1 or stage.exits or stage.number + 1 == ctx.options.stages
    if ctx.options.verify:
        checks, usage = await verify_outcome(
            pool.agents, state.get_question(), stage.outcome, ctx.make_runner(pool), ctx.prompts, scope=ctx.scope
        )
    try:
        with add_cost_on_error(usage):
            steps = [step for step in state.steps if step.visit == ctx.scope.visit]
            judged = await assess_outcome(
                state.task, stage.outcome, ctx.critic, steps=steps, checks=checks, closing=closing, scope=ctx.scope
            )
    except ModelError as error:
        usage = get_error_cost(error)
        stage = stage.replace(fault=format_error(error))
    else:
        usage += judged.usage
        fell_back = (*stage.fell_back, "evaluator") if judged.fell_back else stage.fell_back
        stage = stage.replace(assessment=judged.assessment, answer=judged.answer, fell_back=fell_back)
    return state.update(stage=stage.replace(usage=stage.usage + usage), usage=state.usage + usage)


async def update_state(state: EvomasState, ctx: Ctx[EvomasConfig]) -> Update:
    """Compute s_{t+1}; the stage is over, and perhaps the run."""
    stage, task, options, ran = state.present, state.task, ctx.options, state.present.layers_to_run
    if ran and stage.assessment is not None:
        task = compute_next_state(task, ran, stage.outcome, stage.assessment, refinements=options.refinements)
        stage = stage.replace(changes=describe_change(state.task, task))
    stages = (*state.stages, stage.replace(state=task))
    return state.update(task=task, stages=stages, status=find_stop_reason(stages, limit=options.stages) or "")


async def conclude(state: EvomasState, ctx: Ctx[EvomasConfig]) -> Update:
    """Take the answer of an evaluator who has read all work, else that of the closing call; no outcome is an error."""
    stages, fallback = state.stages, get_best_outcome(state.stages)
    if answer := get_written_answer(stages):
        return state.update(answer=answer, error=None)
    if fallback is None:
        why = stages[-1].fault or stages[-1].error or "only Early-exit was chosen" if stages else NOTHING_PLANNED
        return state.update(answer=None, error=f"no stage came to an outcome; the last one: {why}")
    if state.status == "failure":  # the closing call would fail as well
        return state.update(answer=fallback, error=None)
    try:
        answer, usage = await compose_answer(
            state.question, collect_findings(stages), fallback, ctx.critic, scope=ctx.scope
        )
    except ModelError as error:
        stages = (*stages[:-1], stages[-1].replace(fault=format_error(error)))
        usage = state.usage + get_error_cost(error)
        return state.update(answer=fallback, error=None, stages=stages, status="failure", usage=usage)
    return state.update(answer=answer, error=None, usage=state.usage + usage)


def adapt_or_conclude(state: EvomasState, ctx: Ctx[EvomasConfig]) -> str:
    """A workflow for the active subtask; the end where the planner left none."""
    return "conclude" if state.status else "adapt"


def run_or_evaluate(state: EvomasState, ctx: Ctx[EvomasConfig]) -> str:
    """The team of the drawn layers, unless Early-exit alone was drawn."""
    return "layers" if state.present.layers_to_run else "evaluate"


def plan_or_conclude(state: EvomasState, ctx: Ctx[EvomasConfig]) -> str:
    """Another stage, unless the run is over."""
    return "conclude" if state.status else "plan"


figure = MethodGraph(EvomasState, first="begin", team="layers")
figure.add_edge(START, "begin")
figure.add_sequence([begin, plan])
figure.add_conditional_edges("plan", adapt_or_conclude, ["adapt", "conclude"])
figure.add_node(adapt)
figure.add_conditional_edges("adapt", run_or_evaluate, ["layers", "evaluate"])
figure.add_sequence([layers, evaluate, update_state])
figure.add_conditional_edges("update_state", plan_or_conclude, ["plan", "conclude"])
figure.add_node(conclude)
figure.add_edge("conclude", END)


async def load_router(state: EvomasState, ctx: Ctx[EvomasConfig]) -> Team:
    """The workflow whose router the run began with; the state holds its fingerprint alone.

    Raises:
        ConfigError: another workflow has taken its place since.
    """
    assert ctx.start is not None, "a run of a question has a start"
    source = ctx.start.initial_team
    if source.fingerprint != state.router:
        source = await ctx.start.choose_team(ctx.choices or RunContext())
    if source.fingerprint != state.router:
        raise ConfigError(
            f"the run began with the router of workflow {state.router}, and {source.fingerprint} is there now; "
            "choose that workflow by its fingerprint, or ask anew"
        )
    return source


def make_runners(pool: Team, ctx: Ctx[EvomasConfig]) -> dict[str, AgentRunner]:
    """Make the runners of a pool's agents by kind."""
    ensemble = make_ensemble_runner(ctx.model, load_prompts("nodes"), temperature=ctx.options.temperature)
    return {"worker": ctx.make_runner(pool), "ensemble": ensemble}


STAGES = 4
"""Stages of a question that may have six."""
DRAWN = 4
"""Agents that a stage runs."""


def plan_router(evomas: "Evomas", team: Team) -> RouterPlan:
    """How the router of a pool draws and learns.

    Raises:
        ConfigError: no run would ask it.
    """
    config: EvomasConfig = evomas.config
    if config.adapter != "learned":
        raise ConfigError(f"adapter {config.adapter} asks no router; leave it at learned to train one")
    return RouterPlan(config.routing, config.train)


REASONING: Mapping[str, Any] = {"adapter": "fixed", "plan": [["multi_generate"], ["ensemble"]]}
"""The paper compares task states under two fixed workflows (Sec. 4.3): the seed's topology, and this one."""


class Evomas(Method[EvomasConfig]):
    """A router trained in torch draws a layered workflow for every stage of a question."""

    name = METHOD
    summary = "a router trained in torch draws a layered workflow for every stage of a task"
    config_type = EvomasConfig
    choices = EvomasContext
    build_options = frozenset({"judge", "corpus", "embedder"})
    figure = figure
    variants = FrozenMap(
        {
            FULL: Variant(title="full"),
            "no-state": Variant(title="w/o task state", config={"task_state": False}),
            "random-adapter": Variant(title="random adapter", config={"adapter": "random"}, evolves=False, choice=True),
            "frozen-adapter": Variant(title="frozen adapter", config={"adapter": "frozen"}, evolves=False, choice=True),
            "process-reward": Variant(title="with process reward", config={"process_reward": True}),
            "pool-4": Variant(title="pool of 4", config={"pool": 4}),
            "no-exit": Variant(title="Early-exit masked", config={"early_exit": False}),
            "exit-as-agent": Variant(title="Early-exit among the agents", config={"head": {"exit": "agent"}}),
            "fixed": Variant(title="fixed: I/O, search, ensemble", config={"adapter": "fixed"}, evolves=False),
            "fixed-no-state": Variant(
                title="I/O, search, ensemble w/o task state",
                config={"adapter": "fixed", "task_state": False},
                evolves=False,
                against="fixed",
            ),
            "reasoning": Variant(title="fixed: multi-generate, ensemble", config=REASONING, evolves=False),
            "reasoning-no-state": Variant(
                title="multi-generate, ensemble w/o task state",
                config={**REASONING, "task_state": False},
                evolves=False,
                against="reasoning",
            ),
        }
    )
    rounds = "stages"
    end_reasons = FrozenMap(END_REASONS)
    format_notes = staticmethod(format_notes)
    draw_run = staticmethod(draw_run)
    router = RouterTraining(
        plan_router,
        random_control=lambda evomas: Evomas(evomas.config.replace(adapter="random")),
        options={
            "paper": {"head": PAPER_HEAD.model_dump(mode="json")},
            "process_reward": {"process_reward": True},
        },
    )
    extend_tools = staticmethod(with_pages)
    paper = "Xu et al., *EvoMAS: Learning Execution-Time Workflows for Multi-Agent Systems*, arXiv 2605.08769"
    departures = "D1-D28"

    @staticmethod
    def estimate_calls(config: EvomasConfig, team: Team, batch: int, added_agents: float) -> CallEstimate:
        """Stages of a few agents, planned and judged, and the closing call; agents and topology do not change."""
        usual, most = (
            {"agent": stages * DRAWN * LOOP, "judge": float(stages), "meta": float(stages * config.task_state + 1)}
            for stages in (min(config.stages, STAGES), config.stages)
        )
        return CallEstimate(usual, samples=config.samples, gate_share=0, tokens=700, most=most)

    @property
    def prompts(self) -> Prompts:
        """Prompts of the pool, planner, evaluator and closing call."""
        return load_prompts("evolvers", METHOD)

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """The pool; its browser also holds tools that open pages where these are not given to others."""
        pages = find_browsing_tools(toolbox) if tools else ()
        return make_initial_team(self.prompts, tools=tools, pages=pages, config=self.config)

    def check_learned(self, team: Team, embedder: str) -> None:
        """Check that the router's weights, if there are any and they will be used, fit pool and embedder.

        Raises:
            ConfigError, LibraryError: they are corrupt, of another pool or embedder, or have not been loaded.
        """
        refuse_unusable(team, self.config.routing, embedder)

    async def answer(self, team: Team, question: Question, ctx: Ctx[EvomasConfig]) -> Trajectory:
        """Run up to T stages on a question.

        Returns:
            The steps of all stages (`visit` is the stage) and the final answer; planning, judging and a closing
            call are its overhead. `notes` hold `episode` (decisions and the evaluator's rewards, its utility
            open), `stages`, `status`, `decisions` and the `topology` that ran last. A planner or an evaluator that
            fails ends the run with the best answer so far; without any, the trajectory has an error.

        Raises:
            BudgetError, OutageError: the run must stop; the error holds the best answer so far.
        """
        final = await run_graph(
            self.compiled,
            EvomasState,
            ctx.with_question(team, question),
            so_far=lambda state: build_partial_result(state, question),
        )
        return build_result(final, question)

    @property
    def samples(self) -> int:
        """Episodes of a train question, which differ by what is drawn."""
        return self.config.samples

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[EvomasConfig]) -> EvolveResult:
        """Train the router on one batch by REINFORCE; agents and topology stay.

        Nothing is learned where the runs do not use the trained head, nor from trajectories that ended with an error.
        """
        options = ctx.options
        found = [to_router_episode(run, options.train) for run in runs]
        episodes = [episode for episode in found if episode is not None]
        if options.adapter != "learned" or not episodes:
            return EvolveResult(workflow=team)
        learned, _, update = await update_router(team, episodes, options.routing, options.train, ctx.embed)
        notes = {"update": update.model_dump(mode="json")}
        return EvolveResult(workflow=learned.with_lineage(team, ()), notes=notes)

    def keep_memory(self, kept: Team, rejected: Team) -> Team:
        """The kept pool with the router of the rejected one, which reads agents by their texts."""
        return kept.with_memory(**{ROUTER: rejected.memory[ROUTER]}) if ROUTER in rejected.memory else kept

    def serve(self, start: RunStart, factory: Any) -> Graph:
        """Build the graph that users run: every agent of the pool is drawn in every layer."""
        pool = start.initial_team
        depth = get_sampling(pool, self.config.routing).layers
        drawn, placed = make_whole_topology(pool, depth), place_agents(pool, depth)
        return self.figure.serve(start, factory, drawn, agents=placed, agent_nodes={EARLY_EXIT: "adapt"})


def build_partial_result(state: EvomasState, question: Question) -> Trajectory | None:
    """The result of a run that had to stop, with the answer that is written or its best outcome; None without one."""
    stages = state.stages
    if state.stage is not None and state.stage.number == len(stages):
        stages = (*stages, state.stage)
    answer = get_written_answer([stage for stage in stages if stage.outcome]) or get_best_outcome(stages)
    if answer is None:
        return None
    return build_result(state.after(state.update(stages=stages, answer=answer, status="stopped")), question)


def build_result(final: EvomasState, question: Question) -> Trajectory:
    """The trajectory of a final state."""
    episode = to_episode(final.stages)
    notes: dict[str, Any] = {
        "episode": episode.model_dump(mode="json") if episode else None,
        "stages": final.channels["stages"],
        "status": final.status,
    }
    if decided := count_decisions(stage.layered for stage in final.stages if stage.layered is not None):
        notes[DECISIONS] = decided.model_dump(mode="json")
    if ran := [stage.layers_to_run for stage in final.stages if stage.layers_to_run]:
        notes["topology"] = make_layered_topology(ran[-1]).model_dump(mode="json")
    return Trajectory(
        question=question,
        workflow=final.router,
        steps=final.steps,
        answer=final.answer,
        error=final.error,
        sample=final.scope.sample,
        overhead=final.usage.subtract(sum_usages(step.usage for step in final.steps)),
        notes=notes,
    )


build, graph = make_build(Evomas), make_server(Evomas)
