import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from selfwire.core.agent import Agent
from selfwire.core.edits import AddEdge, RemoveEdge, Rewiring, RewritePrompt
from selfwire.core.errors import BudgetError, ConfigError, ModelError, TopologyError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Node, Topology, find_reachable, make_chain
from selfwire.core.trajectory import Message, Step, Trajectory
from selfwire.core.usage import Usage
from selfwire.graphs.team import compile_team, make_fixed_router, run_team, team_input, to_trajectory
from selfwire.models.sync import run_sync
from tests.graphs.teams import Echo, team_run, topology

DIAMOND = "s>a s>b a>z b>z"
SKIPPING = "s>a a>b b>c s>c c>d s>d a>d d>z s>z"


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    names = ["s", *(f"n{i}" for i in range(draw(st.integers(0, 6)))), "z"]
    pairs = [(a, b) for a in names for b in names if a != b]
    edges = set(draw(st.lists(st.sampled_from(pairs), max_size=18))) | {("s", "z")}
    return Topology(
        nodes=tuple(Node(id=name, agent=name) for name in names),
        edges=tuple(Edge(source=a, target=b) for a, b in edges),
        entry="s",
        sink="z",
    )


def visited(team: Team) -> list[str]:
    run = team_run(team.topology, agents=team.agents_by_id)
    return [step.node for step in run_sync(run_team(team.topology, run)).steps]


def seed_of(*names: str) -> Team:
    agents = tuple(Agent(id=name, prompt=f"You {name}.") for name in names)
    return Team(method="test", agents=agents, topology=make_chain(*names))


def test_rewriting_one_edge_reroutes_the_next_run() -> None:
    seed = seed_of("plan", "solve", "answer")
    assert visited(seed) == ["plan", "solve", "answer"]
    shortcut = Rewiring(RemoveEdge("plan", "solve"), AddEdge("plan", "answer"), why="solve adds nothing")
    assert visited(seed.apply(shortcut)) == ["plan", "answer"]


async def test_a_node_reads_its_predecessors_in_topological_order() -> None:
    wanted = topology("s>b s>a b>y y>m a>m b>m m>z")
    done = await run_team(wanted, team_run(wanted))
    assert [m.source for m in {s.node: s for s in done.steps}["m"].inbox] == ["a", "b", "y"]
    assert done.answer == "z(m(a(s()) b(s()) y(b(s()))))"
    assert done.error is None


async def test_steps_say_what_was_read_decided_sent_and_spent() -> None:
    wanted = topology(DIAMOND)
    done = await run_team(wanted, team_run(wanted, workflow="f00d"))
    entry, left, _, sink = done.steps
    assert (entry.node, entry.agent, entry.visit, entry.inbox) == ("s", "s", 0, ())
    assert entry.routing is not None
    assert entry.routing.chosen == ("a", "b")
    assert left.inbox == (entry.sent[0],)
    assert sink.routing is None
    assert sink.sent == ()
    assert done.edges == (("s", "a"), ("s", "b"), ("a", "z"), ("b", "z"))
    assert (done.workflow, done.usage.calls) == ("f00d", 4)


async def test_edges_that_skip_levels_join_once_after_all_that_chose() -> None:
    wanted = topology(SKIPPING)
    act = Echo()
    done = await run_team(wanted, team_run(wanted, act))
    assert act.order == ["s", "a", "b", "c", "d", "z"]
    inboxes = {step.node: [message.source for message in step.inbox] for step in done.steps}
    assert inboxes["c"] == ["s", "b"]
    assert inboxes["d"] == ["s", "a", "c"]
    assert inboxes["z"] == ["s", "d"]


async def test_a_single_agent_is_a_team() -> None:
    alone = topology("", "s", "s")
    done = await run_team(alone, team_run(alone))
    assert done.answer == "s()"
    assert [step.node for step in done.steps] == ["s"]


@pytest.mark.parametrize("form", ["ainvoke", "invoke"])
def test_agents_of_one_level_act_at_the_same_time(form: str) -> None:
    wanted = topology("s>a s>b s>c s>d a>z b>z c>z d>z")
    act = Echo(meeting="abcd")
    run = team_run(wanted, act)
    if form == "ainvoke":
        asyncio.run(compile_team(wanted).ainvoke(team_input(), context=run))
    else:
        compile_team(wanted).invoke(team_input(), context=run)
    assert act.peak == 4


def test_the_sync_form_gives_the_same_trajectory() -> None:
    wanted = topology(SKIPPING)
    state = compile_team(wanted).invoke(team_input(), context=team_run(wanted))
    assert to_trajectory(wanted, team_run(wanted), state) == asyncio.run(run_team(wanted, team_run(wanted)))


async def test_a_failing_agent_sends_nothing_and_the_team_goes_on() -> None:
    wanted = topology(DIAMOND)
    done = await run_team(wanted, team_run(wanted, Echo(failing=["a"])))
    failed = {step.node: step for step in done.steps}["a"]
    assert failed.error == "ModelError: provider is down"
    assert (failed.output, failed.sent, failed.routing) == ("", (), None)
    assert [message.source for message in failed.inbox] == ["s"]
    assert done.answer == "z(b(s()))"


async def test_what_a_failing_agent_was_billed_is_in_its_step() -> None:
    async def billed(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        failed = ModelError("an empty reply")
        failed.cost = Usage(calls=2, input_tokens=30)
        raise failed

    alone = topology("", "s", "s")
    [step] = (await run_team(alone, team_run(alone, billed))).steps
    assert step.usage == Usage(calls=2, input_tokens=30)


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        (["z"], "ModelError: provider is down; so sink 'z' failed"),
        (["a", "b"], "ModelError: provider is down; so 'a' and 'b' failed, and sink 'z' received nothing"),
        (["s"], "ModelError: provider is down; so 's' failed, and sink 'z' received nothing"),
    ],
)
async def test_without_the_sinks_answer_the_task_ends_as_an_error(failing: list[str], error: str) -> None:
    wanted = topology(DIAMOND)
    done = await run_team(wanted, team_run(wanted, Echo(failing=failing)))
    assert done.answer is None
    assert done.error is not None
    assert done.error.startswith(error)


async def test_a_budget_that_is_spent_stops_the_team() -> None:
    async def broke(*_: object, **__: object) -> Any:
        raise BudgetError("budget exhausted")

    wanted = topology(DIAMOND)
    with pytest.raises(BudgetError, match="budget exhausted"):
        await run_team(wanted, team_run(wanted, broke))


async def test_a_missing_agent_is_named() -> None:
    wanted = topology(DIAMOND)
    with pytest.raises(ConfigError, match="needs agent 's'"):
        await run_team(wanted, team_run(wanted, agents={}))


async def test_a_team_without_its_context_says_how_to_run_it() -> None:
    with pytest.raises(ConfigError, match="context=TeamContext"):
        await compile_team(topology(DIAMOND)).ainvoke(team_input())


def test_forbidden_problems_are_refused_and_listed() -> None:
    with pytest.raises(TopologyError, match="sink unreachable: z"):
        compile_team(topology("s>a"))
    compile_team(topology("s>a a>b b>a b>z s>x"))


def test_teams_are_cached_by_topology_alone() -> None:
    seed = seed_of("plan", "solve", "answer")
    rewritten = seed.apply(Rewiring(RewritePrompt("solve", "Solve it twice."), why="care"))
    rewired = seed.apply(Rewiring(AddEdge("plan", "answer"), why="shortcut"))
    assert compile_team(rewritten.topology) is compile_team(seed.topology)
    assert compile_team(rewired.topology) is not compile_team(seed.topology)


async def test_a_rewritten_prompt_is_used_without_compiling() -> None:
    async def telling(agent: Agent, *_: object, **__: object) -> Any:
        return (await Echo()(agent, *_, **__)).replace(output=agent.prompt)  # type: ignore[arg-type]

    wanted = make_chain("plan", "answer")
    prompts = {name: Agent(id=name, prompt=f"now {name}") for name in ("plan", "answer")}
    assert (await run_team(wanted, team_run(wanted, telling))).answer == "You are answer."
    assert (await run_team(wanted, team_run(wanted, telling, agents=prompts))).answer == "now answer"


def test_the_graph_is_drawn_with_the_topologys_names() -> None:
    drawn = compile_team(topology("s>a a>b s>b b>z s>z")).get_graph()
    assert set(drawn.nodes) == {"__start__", "s", "a", "b", "z", "b@1", "__end__"}
    ways = {(edge.source, edge.target) for edge in drawn.edges if edge.conditional}
    assert ways == {("s", "a"), ("s", "b@1"), ("s", "z"), ("a", "b"), ("b", "z")}


@settings(max_examples=60, deadline=None)
@given(wanted=topologies())
def test_exactly_the_topologys_edges_are_drawn(wanted: Topology) -> None:
    drawn = {(edge.source, edge.target) for edge in compile_team(wanted).get_graph().edges}
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in drawn:
        after[source].append(target)

    def shown(target: str) -> str:
        return shown(after[target][0]) if "@" in target else target

    ends = {("__start__", "s"), *((node, "__end__") for node in after if "__end__" in after[node])}
    ways = {(source, shown(target)) for source, target in drawn if "@" not in source}
    reached = find_reachable(wanted.successors, [wanted.entry])
    assert ways - ends == {(edge.source, edge.target) for edge in wanted.edges if edge.source in reached}
    assert "__end__" in after["z"]


def test_the_state_survives_a_saver_and_a_thread_can_run_another_round() -> None:
    wanted = topology(SKIPPING)
    saved = compile_team(wanted).copy()
    saved.checkpointer = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    run = team_run(wanted)
    first = saved.invoke(team_input(), config, context=run)
    assert saved.get_state(config).values == first
    narrow = team_run(wanted, router=make_fixed_router({"s": ["z"]}))
    second = to_trajectory(wanted, narrow, saved.invoke(team_input(), config, context=narrow))
    assert [step.node for step in second.steps] == ["s", "z"]


@settings(max_examples=60, deadline=None)
@given(wanted=topologies(), seed=st.integers(0, 999), thin=st.booleans())
def test_each_chosen_node_runs_once_and_after_its_predecessors(wanted: Topology, seed: int, thin: bool) -> None:
    dice = random.Random(seed)
    plan = {n: [t for t in ts if dice.random() < 0.7 or not thin] for n, ts in wanted.successors.items()}
    act = Echo(delays={name: dice.choice([0, 0.001]) for name in wanted.agents})
    done = asyncio.run(run_team(wanted, team_run(wanted, act, make_fixed_router(plan))))
    assert max(Counter(act.order).values()) == 1
    assert sorted(act.order) == sorted(expected(wanted, plan))
    assert [step.node for step in done.steps] == by_level(wanted, done)
    for step in done.steps:
        for message in step.inbox:
            assert act.order.index(message.source) < act.order.index(step.node)


def expected(wanted: Topology, plan: dict[str, list[str]]) -> set[str]:
    late = wanted.closing_edges
    forward = {n: [t for t in ts if Edge(source=n, target=t) not in late] for n, ts in plan.items()}
    return find_reachable(forward, [wanted.entry])


def by_level(wanted: Topology, done: Trajectory) -> list[str]:
    ran = {step.node for step in done.steps}
    return [node for level in wanted.levels() for node in sorted(level) if node in ran]


@settings(max_examples=100, deadline=None)
@given(wanted=topologies())
def test_a_cycle_never_cuts_off_what_the_entry_reaches(wanted: Topology) -> None:
    inner = {n: [t for t in ts if n != wanted.sink] for n, ts in wanted.successors.items()}
    plan = {n: list(ts) for n, ts in wanted.successors.items()}
    assert expected(wanted, plan) == find_reachable(inner, [wanted.entry])


def test_a_cycle_is_entered_where_messages_come_in() -> None:
    wanted = topology("s>writer writer>critic critic>writer critic>z")
    assert wanted.order() == ("s", "writer", "critic", "z")


class Heard(AsyncCallbackHandler):
    """Names of the runs that a callback hears of."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        self.names.append(kwargs["name"])


class Places(Echo):
    """Notes the config that an agent finds."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[RunnableConfig] = []

    async def __call__(self, agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        self.found.append(ensure_config())
        return await super().__call__(agent, question, inbox, scope=scope)


@pytest.mark.parametrize("failing", [(), ("a",), ("z",)])
async def test_the_same_compiled_graph_runs_whether_or_not_anything_listens(
    failing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[object] = []
    stream = CompiledStateGraph.astream

    def note(self: Any, *args: Any, **options: Any) -> Any:
        ran.append(self)
        return stream(self, *args, **options)

    monkeypatch.setattr(CompiledStateGraph, "astream", note)
    wanted, heard = topology(SKIPPING), Heard()
    mail = (Message(source="z", target="b", text="from the round before"),)
    alone = await run_team(wanted, team_run(wanted, Echo(failing=failing)), carried=mail)
    told = await run_team(wanted, team_run(wanted, Echo(failing=failing)), carried=mail, config={"callbacks": [heard]})
    assert ran == [compile_team(wanted)] * 2
    assert alone == told
    assert sorted(name for name in heard.names if "@" not in name) == sorted(["team", *(s.node for s in told.steps)])


async def test_a_quiet_run_opens_no_traced_run(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    start = AsyncCallbackManager.on_chain_start

    async def note(self: Any, *args: Any, **options: Any) -> Any:
        opened.append(options.get("name"))
        return await start(self, *args, **options)

    monkeypatch.setattr(AsyncCallbackManager, "on_chain_start", note)
    wanted = topology(SKIPPING)
    await run_team(wanted, team_run(wanted))
    assert opened == ["team"]  # LangGraph's own start of a graph, which calls no handler
    await run_team(wanted, team_run(wanted), config={"callbacks": [Heard()]})
    assert len(opened) > 6


async def test_an_agent_finds_the_same_tags_and_metadata_whether_or_not_anything_listens() -> None:
    quiet, loud = Places(), Places()
    alone = topology("", "s", "s")
    given: RunnableConfig = {"tags": ["outside"], "metadata": {"around": 1}}
    await run_team(alone, team_run(alone, quiet), config=given)
    await run_team(alone, team_run(alone, loud), config={**given, "callbacks": [Heard()]})
    assert sorted(set(quiet.found[0]["tags"])) == ["agent:s", "iteration:0", "outside"]
    assert {"outside", "agent:s"} <= set(loud.found[0]["tags"])
    changing = ("checkpoint_ns", "langgraph_checkpoint_ns")
    metadata = [{k: v for k, v in act.found[0]["metadata"].items() if k not in changing} for act in (quiet, loud)]
    assert metadata[0] == metadata[1]
    assert metadata[0]["selfwire_agent"] == "s"


async def test_what_an_agent_says_of_its_place_and_its_mail_is_the_teams_to_say() -> None:
    mail = (Message(source="s", target="s", text="from the round before"),)

    async def act(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        return Step(node="of", agent="another", visit=7, inbox=mail, sent=mail, output="said")

    alone = topology("", "s", "s")
    assert (await run_team(alone, team_run(alone, act))).steps == (Step(node="s", agent="s", output="said"),)


class Answer(TypedDict):
    answer: str


async def test_inside_a_graph_its_steps_are_streamed() -> None:
    alone = topology("", "s", "s")

    async def node(state: Answer) -> Answer:
        return {"answer": (await run_team(alone, team_run(alone))).answer or ""}

    graph = StateGraph(Answer)
    graph.add_node("inner", node)
    graph.add_edge(START, "inner")
    outer = graph.compile()
    chunks = [chunk async for chunk in outer.astream({"answer": ""}, subgraphs=True, stream_mode="updates")]
    assert [list(update) for place, update in chunks if place] == [["s"]]


@pytest.mark.parametrize("listening", [False, True])
async def test_a_turn_that_fails_for_good_ends_the_others_of_its_level(listening: bool) -> None:
    team, ended = topology(DIAMOND), []

    async def act(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        if agent.id == "a":
            await asyncio.sleep(0)
            raise ConfigError("no such tool")
        if agent.id == "b":
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(agent.id)
        return Step(node=scope.node, agent=agent.id, output="said")

    with pytest.raises(ConfigError, match="no such tool"):
        await run_team(team, team_run(team, act), config={"callbacks": [Heard()]} if listening else None)
    assert ended == ["b"]


@pytest.mark.parametrize("listening", [False, True])
async def test_a_deadline_inside_a_chain_ends_the_turn_and_raises_its_own_error(listening: bool) -> None:
    team, act = make_chain("plan", "solve", "answer"), Echo({"solve": 60})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run_team(team, team_run(team, act), config={"callbacks": [Heard()]} if listening else None)
    assert act.order == ["plan", "solve"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert (await run_team(team, team_run(team))).error is None


async def test_a_limit_of_nodes_at_once_holds() -> None:
    team, act = topology("s>a s>b s>c a>z b>z c>z"), Echo({"a": 0.01, "b": 0.01, "c": 0.01})
    await run_team(team, team_run(team, act), config={"max_concurrency": 1})
    assert act.peak == 1
