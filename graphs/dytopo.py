"""DyTopo as a state machine: every round, workers talk over a graph that is induced from their needs and offers.

Lu et al., "DyTopo: Dynamic Topology Routing for Multi-Agent Reasoning via Semantic Matching", arXiv 2602.06039, Alg. 1.

    START -> begin -> workers (all in parallel) -> induce_topology -> deliver -> manager
                         ^                                               |          |
                         +------- [another round, no manager] -----------+          |
                         +------- [not complete, rounds left] ----------------------+
                                       [complete, T_max, or all workers failed] -> conclude -> END

Inside `workers` runs a second graph with one node per worker; the graph that workers talk over is data. A question
enters at `begin`. Graded runs do not enter: `Dytopo.propose` fits tau and K_in by putting their questions to the figure
again, with other settings. Equations, prompts and departures are in `evolvers.dytopo`.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from operator import or_
from typing import Annotated, Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from pydantic import Field, ValidationError
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.chat import Prompts, load_prompts
from selfwire.core.errors import ConfigError, SelfwireError, TaskError, format_first_fault
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenMap, Id, format_count
from selfwire.evolvers.dytopo.agents import DytopoAgents, RoundInput
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.delivery import Memory, describe_needs, update_memories
from selfwire.evolvers.dytopo.domain import MANAGER, MEMORY, Domain, DytopoMemory, get_workers
from selfwire.evolvers.dytopo.halting import choose_answer, explain_no_answer
from selfwire.evolvers.dytopo.induction import RoundGraph
from selfwire.evolvers.dytopo.initial_team import DOMAINS, make_initial_team, propose_domain
from selfwire.evolvers.dytopo.pictures import END_REASONS, draw_run
from selfwire.evolvers.dytopo.report import Report, format_notes
from selfwire.evolvers.dytopo.rounds import DytopoRound, induce_round_graph
from selfwire.evolvers.dytopo.tuning import get_current_setting, tune_team
from selfwire.evolvers.dytopo.turns import WorkerTurn
from selfwire.graphs.build import make_build
from selfwire.graphs.checkpoints import get_interrupts
from selfwire.graphs.machine import (
    END,
    START,
    Ctx,
    CtxFactory,
    Graph,
    MethodGraph,
    RunContext,
    RunStart,
    State,
    Update,
    make_state_error,
    run_graph,
)
from selfwire.graphs.method import FULL, CallEstimate, Calls, EvolveResult, Method, NamedSeeds, Variant, scale_calls
from selfwire.graphs.serve import make_server
from selfwire.models.sync import run_sync


class DytopoContext(RunContext):
    """Choices per run; each field's description says what it does."""

    rounds: int | None = Field(default=None, ge=1, le=100, description="Most rounds; empty for the graph's own.")
    domain: str | None = Field(
        default=None, min_length=1, description="Team for a kind of task: general, code or math; a team goes first."
    )


class DytopoState(State):
    """State of a question, beside the channels of every state; attempts that raised are not in `usage`.

    Attributes:
        error: why there is no answer; None if there is one.
        workflow: the team.
        goal: C_task of the current round.
        memories: H_i of every worker.
        said: turns of all workers in this round, in agent order.
        graph: G of this round.
        rounds: the finished rounds.
        stopped: "complete", "failed" if all workers of a round failed, "rounds" if there were no more; "" until then.
    """

    error: str | None = None
    workflow: Team
    goal: str = ""
    memories: Mapping[Id, Memory] = FrozenMap()
    said: tuple[WorkerTurn, ...] = ()
    graph: RoundGraph = RoundGraph()
    rounds: tuple[DytopoRound, ...] = ()
    stopped: str = ""

    @property
    def round(self) -> int:
        """Number of the current round, from 0, without decoding the finished ones."""
        found = self.channels["rounds"]
        return len(found if isinstance(found, list) else self.rounds)

    @property
    def place(self) -> Scope:
        """Place of the current round."""
        return self.scope.at(visit=self.round)

    @property
    def domain(self) -> Domain:
        """The team's domain: answerers and checkers."""
        return DytopoMemory.of(self.workflow).domain

    @property
    def answer_so_far(self) -> str | None:
        """The newest answer of the finished rounds."""
        return choose_answer(self.domain, [finished.in_order for finished in self.rounds])


async def begin(state: DytopoState, ctx: Ctx[DytopoConfig]) -> Update:
    """Take a new question; the task is the goal of round 0."""
    question, team, scope = await ctx.begin(state)
    scope = scope.at(phase="run") if ctx.served else scope
    return state.restart(question, scope, workflow=ctx.edit(team), goal=question.input)


async def workers(state: DytopoState, ctx: Ctx[DytopoConfig]) -> Update:
    """Every worker speaks once (phase 1)."""
    names = get_workers(state.workflow)
    run = RoundRun(make_agents(state, ctx), make_round_input(state, ctx))
    done = await compile_workers(names).ainvoke({"_said": {}}, context=run, **get_interrupts())
    return {"said": [done["_said"][name] for name in names]}


async def induce_topology(state: DytopoState, ctx: Ctx[DytopoConfig]) -> Update:
    """Induce the graph of the round (phases 2 and 3)."""
    setting, at = get_current_setting(state.workflow, ctx.options), ctx.scope.at(node="topology")
    return state.update(graph=await induce_round_graph(state.said, ctx.options, setting, ctx.embed, scope=at))


async def deliver(state: DytopoState, ctx: Ctx[DytopoConfig]) -> Update:
    """The barrier: private messages along the graph, memories for the next round (phase 4)."""
    done = update_memories(
        state.memories,
        state.said,
        state.graph,
        limit=ctx.options.memory,
        words=ctx.options.words,
        rng=ctx.scope.at(node="topology").random("reading"),
    )
    finished = DytopoRound(
        number=state.round,
        goal=state.goal,
        said=state.said,
        graph=state.graph,
        messages=done.messages,
        dropped=done.dropped,
    )
    rounds = (*state.rounds, finished)
    stopped = "" if len(rounds) < ctx.options.rounds else "rounds"
    if all(turn.error is not None for turn in finished.said if turn.asked):
        stopped = "failed"  # another round would hardly go better (D6)
    return state.update(memories=done.memories, rounds=rounds, stopped=stopped)


async def manager(state: DytopoState, ctx: Ctx[DytopoConfig]) -> Update:
    """Halt, or set the next goal (phase 5)."""
    if not state.rounds:
        raise make_state_error("rounds", "there is none before the manager")
    *before, last = state.rounds
    given = make_round_input(state, ctx.where(node=MANAGER, visit=last.number))
    managed = await make_agents(state, ctx).manage(given, [finished.in_order for finished in state.rounds])
    if managed.complete and not ctx.options.halting:
        managed = managed.replace(complete=False, why="this run does not halt")
    rounds = (*before, last.replace(managed=managed))
    return state.update(goal=managed.goal, rounds=rounds, stopped="complete" if managed.complete else "")


async def conclude(state: DytopoState, ctx: Ctx[DytopoConfig]) -> Update:
    """Take the answer from the last global state.

    Raises:
        TaskError: there is none, in a graph that a user runs; elsewhere the trajectory says so.
    """
    answer = state.answer_so_far
    error = None if answer else explain_no_answer(state.domain, [finished.said for finished in state.rounds])
    if error and ctx.served:
        raise TaskError(f"{error}; ask again, allow more rounds or choose another model")
    return state.update(answer=answer, error=error)


def manager_or_next(state: DytopoState, ctx: Ctx[DytopoConfig]) -> str:
    """The manager, unless it is off or no round can follow (D11)."""
    return "manager" if ctx.options.manager and not state.stopped else workers_or_conclude(state, ctx)


def workers_or_conclude(state: DytopoState, ctx: Ctx[DytopoConfig]) -> str:
    """Another round, unless the run is complete or out of rounds."""
    return "conclude" if state.stopped else "workers"


figure = MethodGraph(DytopoState, first="begin", team="workers")
figure.add_edge(START, "begin")
figure.add_sequence([begin, workers, induce_topology, deliver])
figure.add_node(manager)
figure.add_node(conclude)
figure.add_conditional_edges("deliver", manager_or_next, ["manager", "workers", "conclude"])
figure.add_conditional_edges("manager", workers_or_conclude, ["workers", "conclude"])
figure.add_edge("conclude", END)
USUAL_ROUNDS = 4
"""Rounds of a question that may take ten: the manager ends most runs earlier."""


def make_agents(state: DytopoState, ctx: Ctx[DytopoConfig]) -> DytopoAgents:
    """The models with DyTopo's prompts and the team's tools."""
    return DytopoAgents(ctx.model, ctx.prompts, ctx.get_tools(state.workflow), ctx.options)


def make_round_input(state: DytopoState, ctx: Ctx[DytopoConfig]) -> RoundInput:
    """Input of the current round, with the needs of the last finished one where anything is delivered at all (D12)."""
    mode, needs = ctx.options.topology, dict[Id, str]()
    last = state.rounds[-1] if state.rounds else None
    if last and mode != "none":
        needs = describe_needs(last.said, last.graph, matched=mode == "semantic")
    return RoundInput(
        state.workflow,
        state.get_question(),
        state.goal,
        ctx.scope,
        memories=state.memories,
        needs=needs,
        answer=state.answer_so_far or "",
        speakers=last.managed.speakers if last and last.managed else (),
    )


@dataclass
class _ActiveWorkers:
    """Workers whose turn is running: LangGraph cancels them when one worker stops the run."""

    busy: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold an error back until the other turns end, so that these are paid for once and kept."""
        self.busy += 1
        self.idle.clear()
        await asyncio.sleep(0)  # all workers are counted before the first one ends
        try:
            yield
        except SelfwireError:
            self._leave()
            await self.idle.wait()
            await asyncio.sleep(0)  # LangGraph writes down their turns
            raise
        self._leave()

    def _leave(self) -> None:
        self.busy -= 1
        if not self.busy:
            self.idle.set()


@dataclass(frozen=True)
class RoundRun:
    """Context of the workers' graph: the agents, and the input of the round."""

    agents: DytopoAgents
    given: RoundInput
    active: _ActiveWorkers = field(default_factory=_ActiveWorkers, repr=False)


class RoundState(TypedDict):
    """Turns as JSON by worker; the underscore keeps the name apart from workers' ids."""

    _said: Annotated[dict[str, Any], or_]


@lru_cache(maxsize=64)
def compile_workers(names: tuple[Id, ...]) -> CompiledStateGraph[RoundState, RoundRun, RoundState, RoundState]:
    """Compile the graph of a round's workers: each is a node, and all start at once."""
    graph = StateGraph[RoundState, RoundRun, RoundState, RoundState](RoundState)
    for name in names:
        graph.add_node(name, _WorkerNode(name))
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return graph.compile(name="workers")


class _WorkerNode(Runnable[RoundState, dict[str, Any]]):
    """A worker's node in both forms; a RunnableLambda would open a traced run inside the node's own."""

    def __init__(self, name: Id) -> None:
        self.worker = name

    def invoke(self, input: RoundState, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        return run_sync(self.ainvoke(input, config))

    async def ainvoke(self, input: RoundState, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        run = get_runtime(RoundRun).context
        async with run.active.turn():
            turn = await run.agents.take_turn(self.worker, run.given)
        return {"_said": {self.worker: turn.model_dump(mode="json")}}


FIXED_HORIZON = {"halting": False, "rounds": 5}
"""How long the paper's baselines run, whatever they have found (App. D.1, Table 8)."""
FEW_WORDS = {"words": 40, "manager": False, "rounds": 8}
"""Workers that can read little and talk equally long, whatever the topology."""
SETTINGS = 4
"""Settings that are tried beside the present one."""


class Dytopo(Method[DytopoConfig]):
    """DyTopo: workers in rounds, whose graph follows from needs and offers; what is learned is tau and K_in."""

    name = MEMORY
    summary = "rebuilds the communication graph every round by matching what agents need with what others offer"
    config_type = DytopoConfig
    choices = DytopoContext
    figure = figure
    variants = FrozenMap(
        {
            FULL: Variant(title="semantic, tau = 0.3"),
            "random-topology": Variant(title="random topology", config={"topology": "random"}),
            "random-fixed": Variant(
                title="random topology, 5 rounds", config={"topology": "random", **FIXED_HORIZON}, against="rounds-5"
            ),
            "broadcast": Variant(title="broadcast", config={"topology": "broadcast"}),
            "broadcast-fixed": Variant(
                title="broadcast, 5 rounds", config={"topology": "broadcast", **FIXED_HORIZON}, against="rounds-5"
            ),
            "single-turn": Variant(title="single turn", config={"rounds": 1, "topology": "none", "manager": False}),
            **{
                f"tau-0{tenth}": Variant(title=f"tau = 0.{tenth}", config={"threshold": tenth / 10})
                for tenth in (1, 2, 4, 5, 6, 7, 8, 9)
            },
            **{
                f"rounds-{count}": Variant(
                    title=f"{format_count(count, 'round')}, no halting", config={"halting": False, "rounds": count}
                )
                for count in (1, 3, 5, 7, 9)
            },
            "few-words": Variant(title="matching, 40 words", config=FEW_WORDS),
            "few-words-tau-01": Variant(
                title="matching, tau = 0.1, 40 words", config={**FEW_WORDS, "threshold": 0.1}, against="few-words"
            ),
            **{
                f"few-words-{mode}": Variant(
                    title=f"{title}, 40 words", config={**FEW_WORDS, "topology": mode}, against="few-words"
                )
                for mode, title in (
                    ("random", "random topology"),
                    ("ring", "ring"),
                    ("broadcast", "broadcast"),
                    ("none", "no messages"),
                )
            },
            "all-words-broadcast": Variant(
                title="broadcast, all is read",
                config={**FEW_WORDS, "words": None, "topology": "broadcast"},
                against="few-words",
            ),
        }
    )
    evolves = False
    rounds = "rounds"
    end_reasons = FrozenMap(END_REASONS)
    format_notes = staticmethod(format_notes)
    draw_run = staticmethod(draw_run)
    seeds = NamedSeeds(
        tuple(DOMAINS), "domain", lambda dytopo, tools, domain: dytopo.seed(tools, domain=domain), propose_domain
    )
    paper = (
        "Lu et al., *DyTopo: Dynamic Topology Routing for Multi-Agent Reasoning via Semantic Matching*, "
        "arXiv 2602.06039"
    )
    departures = "D1-D19"

    @staticmethod
    def estimate_calls(config: DytopoConfig, team: Team, batch: int, added_agents: float) -> CallEstimate:
        """Rounds of the team and its manager; the same for every setting that is tried on half of the batch."""
        rounds = min(config.rounds, USUAL_ROUNDS) if config.halting else config.rounds

        def count_calls(rounds: int) -> Calls:
            managed = min(rounds, config.rounds - 1) * config.manager  # nobody speaks of the last round
            return {"agent": rounds * len(team.topology.nodes), "meta": managed}

        question = count_calls(rounds)
        settings = SETTINGS if config.search == "near" else 5 * SETTINGS
        learning = scale_calls(question, batch * settings / 2)  # the same rounds are on record
        most = count_calls(config.rounds)
        return CallEstimate(question, learning=learning, gate_share=0.5, tokens=1300, most=most)

    @property
    def prompts(self) -> Prompts:
        """Prompts of the workers' roles, of their turns and of the manager."""
        return load_prompts("evolvers", MEMORY)

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = (), domain: str | None = None) -> Team:
        """A domain's team (code, math or general, by default the config's), its workers holding these tools.

        Raises:
            ConfigError: there is no such domain.
        """
        try:
            return make_initial_team(self.prompts, domain or self.config.domain, tools=tools)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def adapt(self, team: Team) -> Team:
        """A user's team, or one whose setting was tuned, unchanged.

        Raises:
            ConfigError: it does not say who answers and who checks.
        """
        try:
            DytopoMemory.of(team)
        except (ConfigError, ValueError) as error:
            why = format_first_fault(error, "memory") if isinstance(error, ValidationError) else str(error)
            raise ConfigError(f"team {team.fingerprint} cannot be used: {why}") from None
        return team

    def check_learned(self, team: Team, embedder: str) -> None:
        """Check that the team says who answers and who checks; raises as `Method.check_learned`."""
        DytopoMemory.of(team)

    async def answer(self, team: Team, question: Question, ctx: Ctx[DytopoConfig]) -> Trajectory:
        """Run the team on a question until it is done or out of rounds.

        Raises:
            BudgetError, OutageError: the run must stop; the error holds the answer of the rounds until then. Other
                faults end in the trajectory's `error`.
        """
        report = await self.run(team, question, ctx)
        return report.trajectory(question, team.fingerprint, ctx.scope.sample)

    async def run(self, team: Team, question: Question, ctx: Ctx[DytopoConfig]) -> Report:
        """Run the team as `answer` does, and report everything that happened."""

        def build_partial_result(state: DytopoState) -> Trajectory | None:
            answer = state.answer_so_far
            if not answer:
                return None
            stopped = state.after(state.update(answer=answer, error=None, stopped="stopped"))
            return Report.of(stopped.channels).trajectory(question, team.fingerprint, ctx.scope.sample)

        final = await run_graph(
            self.compiled, DytopoState, ctx.with_question(team, question), so_far=build_partial_result
        )
        return Report.of(final.channels)

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[DytopoConfig]) -> EvolveResult:
        """Fit tau and K_in: other settings are tried on the same questions, and the gate decides."""
        grade = ctx.grade_run
        assert grade is not None, "a method that makes runs as it learns is given their grader"

        async def run_graded(candidate: Team, question: Question) -> Trajectory:
            there = ctx.where(task=question.id)
            return await grade(await self.answer(candidate, question, there), there.scope)

        found = await tune_team(team, runs, ctx.options, run_graded)
        notes = found.model_dump(mode="json", include={"chosen", "trials"})
        return EvolveResult(
            workflow=found.workflow, notes=notes, needs_gate=found.workflow.fingerprint != team.fingerprint
        )

    def serve(self, start: RunStart, factory: CtxFactory) -> Graph:
        """Build the graph that users run; the workers' graph is drawn inside `workers`."""
        drawn = compile_workers(get_workers(start.initial_team))
        return self.figure.serve(start, factory, drawn, agent_nodes={MANAGER: "manager"})


build, graph = make_build(Dytopo), make_server(Dytopo)

__all__ = ["Dytopo", "DytopoContext", "Report", "build", "graph"]
