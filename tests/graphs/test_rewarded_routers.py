"""Routers that learn from their users' rewards: a team of ours, and a plain StateGraph."""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError, TaskError
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.graphs import router as module
from selfwire.graphs.router import LearnedRouter, RoutedTeam, describe_state
from selfwire.tools.calculator import CalculatorTool
from tests.core.generators import make_tool
from tests.graphs.teams import topology

ROLES = {"plan": "opens", "fish": "catches fish in the sea", "wood": "fells trees in the forest", "end": "sums up"}
DESKS = {"billing": "invoices and payments", "tech": "errors and crashes"}
QUESTIONS = ["my parcel is late", "the shop is closed", "where is my order", "whom do I call"]
API = Path(__file__).parents[2] / "docs" / "api.md"


class Ticket(TypedDict, total=False):
    question: str
    desk: str


def team(edges: str = "plan>fish plan>wood fish>end wood>end") -> Team:
    agents = tuple(Agent(id=name, role=role, prompt=role) for name, role in ROLES.items())
    return Team(method="mine", agents=agents, topology=topology(edges, "plan", "end"))


def routed(seed: int = 0, **options: Any) -> RoutedTeam:
    return RoutedTeam(team(), seed=seed, **options)


def desk_router(seed: int = 0, **options: Any) -> LearnedRouter:
    return LearnedRouter(DESKS, embedder="hashing", seed=seed, **options)


def desk_graph(router: LearnedRouter, choose: Any = None) -> Any:
    graph = StateGraph(Ticket)
    graph.add_node("triage", lambda state: {})
    graph.add_edge(START, "triage")
    for name in router.successors:
        graph.add_node(name, lambda state, name=name: {"desk": name})
        graph.add_edge(name, END)
    graph.add_conditional_edges("triage", choose or router.choose, router.successors)
    return graph


def thread(name: object) -> Any:
    return {"configurable": {"thread_id": str(name)}}


def ran(run: Trajectory) -> list[str]:
    return [step.agent for step in run.steps]


def train_team(learner: RoutedTeam, score: Callable[[Trajectory], float], updates: int = 6) -> float:
    """The change of the probability of `fish` after the plan, over updates by twelve rewards each."""
    run = learner.ask(QUESTIONS[0])
    before = learner.probabilities(run)["plan"]["fish"]
    for _ in range(updates):
        for question in QUESTIONS * 3:
            learner.reward(score(learner.ask(question)))
        learner.learn()
    return learner.probabilities(run)["plan"]["fish"] - before


def train_desk(router: LearnedRouter, score: Callable[[Any], float], updates: int = 6) -> float:
    """The mean change of the probability of `tech`, over updates by eight rewards each."""
    app = desk_graph(router).compile()

    def share() -> float:
        return float(np.mean([router.probabilities({"question": one})["tech"] for one in QUESTIONS]))

    before = share()
    for update in range(updates):
        for number, question in enumerate(QUESTIONS * 2):
            config = thread(f"{update}-{number}")
            router.reward(score(app.invoke({"question": question}, config)), config)
        router.learn()
    return share() - before


def coin(seed: int) -> Callable[[Any], float]:
    random = np.random.default_rng(seed)
    return lambda run: float(random.integers(2))


@pytest.mark.slow
def test_the_team_moves_to_the_agent_that_is_rewarded_and_not_with_random_rewards() -> None:
    moved = [train_team(routed(seed), lambda run: float("fish" in ran(run))) for seed in range(2)]
    away = [train_team(routed(seed), lambda run: float("wood" in ran(run))) for seed in range(2)]
    random = [train_team(routed(seed), coin(seed)) for seed in range(4)]
    assert min(moved) > 0.4
    assert max(away) < -0.2
    assert abs(np.mean(random)) < min(moved) / 2
    assert min(random) < 0


@pytest.mark.slow
def test_the_graph_moves_to_the_successor_that_is_rewarded_and_not_with_random_rewards() -> None:
    moved = [train_desk(desk_router(seed), lambda done: float(done["desk"] == "tech")) for seed in range(3)]
    away = [train_desk(desk_router(seed), lambda done: float(done["desk"] == "billing")) for seed in range(3)]
    assert min(moved) > 0.4
    assert max(away) < -0.2
    random = [train_desk(desk_router(seed), coin(seed)) for seed in range(6)]
    assert abs(np.mean(random)) < min(moved) / 2
    assert min(random) < 0


def test_equal_rewards_and_asks_alone_move_nothing() -> None:
    learner, run = routed(), None
    for question in QUESTIONS:
        run = learner.ask(question)
    assert run is not None
    before = learner.probabilities(run)
    learner.reward(1.0)
    assert learner.learn().skipped
    assert learner.probabilities(run) == before
    assert train_desk(desk_router(), lambda done: 0.5) == 0


def test_equal_seeds_give_equal_routers(tmp_path: Path) -> None:
    for name in ("a", "b"):
        learner, router = routed(3), desk_router(3)
        train_team(learner, lambda run: float("wood" in ran(run)), updates=2)
        train_desk(router, lambda done: float(done["desk"] == "tech"), updates=2)
        learner.save(tmp_path / f"team-{name}")
        router.save(tmp_path / f"desk-{name}")
    for kind in ("team", "desk"):
        assert (tmp_path / f"{kind}-a").read_bytes() == (tmp_path / f"{kind}-b").read_bytes()
    first = [ran(routed(seed).ask("where to?")) for seed in range(12)]
    assert len({tuple(one) for one in first}) > 1


def test_weights_are_saved_and_go_on_as_if_never_stopped(tmp_path: Path) -> None:
    learner, other = routed(), routed(9)
    train_team(learner, lambda run: float("wood" in ran(run)), updates=2)
    learner.save(str(tmp_path / "w"))
    other.load(tmp_path / "w")
    run = learner.ask(QUESTIONS[0])
    assert other.probabilities(run) == learner.probabilities(run) != routed().probabilities(run)
    assert RoutedTeam(learner.workflow).probabilities(run) == learner.probabilities(run)
    other_way = next(r for r in map(routed(4).ask, QUESTIONS * 9) if ran(r) != ran(run))
    for one in (learner, other):  # the optimiser goes on too
        one.reward(1.0, run)
        one.reward(0.0, other_way)
        one.learn()
    assert other.probabilities(run) == learner.probabilities(run)
    router = desk_router()
    router.load(tmp_path / "w")  # of another team: the head reads texts
    assert router.probabilities({"question": "x"}) != desk_router().probabilities({"question": "x"})


async def test_concurrent_asks_are_rewarded_each_for_itself() -> None:
    learner = routed()

    async def ask(question: str) -> None:
        run = await learner.aask(question)
        await asyncio.sleep(0)
        learner.reward(float("wood" in ran(run)))  # the last run of this task

    await asyncio.gather(*(ask(question) for question in QUESTIONS * 3))
    drawn = [(episode.decisions[0].layered.layers[0], episode.reward) for episode in learner._rewarded]
    assert len(drawn) == 12
    assert {reward for _, reward in drawn} == {0.0, 1.0}
    assert all(reward == float("wood" in layer) for layer, reward in drawn)
    with pytest.raises(ConfigError, match="no answer waits"):
        learner.reward(1.0)  # nothing was asked in this task
    assert (await learner.alearn()).episodes == 12
    runs = await asyncio.gather(*(learner.aask(question) for question in QUESTIONS))
    for run in runs:
        learner.reward(float("wood" in ran(run)), run)
    assert (await learner.alearn()).episodes == 4
    assert await learner.aprobabilities(runs[0])


def test_threads_that_ask_at_once_do_not_mix() -> None:
    learner = routed()

    def ask(question: str) -> tuple[bool, float]:
        run = learner.ask(question)
        learner.reward(float("wood" in ran(run)))
        return True, 0.0

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, QUESTIONS * 3))
    rewards = [(ep.decisions[0].layered.layers[0], ep.reward) for ep in learner._rewarded]
    assert len(rewards) == 12
    assert all(reward == float("wood" in layer) for layer, reward in rewards)


@pytest.mark.parametrize("form", ["choose", "achoose"])
async def test_concurrent_runs_of_a_graph_do_not_mix(form: str) -> None:
    router = desk_router()
    app = desk_graph(router, getattr(router, form)).compile(checkpointer=InMemorySaver())
    configs = [thread(number) for number in range(16)]
    states = [{"question": question} for question in QUESTIONS * 4]
    done = await app.abatch(states, configs)
    for one, config in reversed(list(zip(done, configs, strict=True))):
        router.reward(float(one["desk"] == "tech"), config)
    for episode in router._rewarded:
        (decision,) = episode.decisions
        assert episode.reward == float(decision.layered.layers[0] == ("tech",))
    again = await desk_graph(desk_router()).compile().abatch(states, configs)
    assert [one["desk"] for one in again] == [one["desk"] for one in done]  # whatever came first
    assert {one["desk"] for one in done} == set(DESKS)


def test_a_run_is_known_by_its_run_id_and_its_choices_are_rewarded_together() -> None:
    router = desk_router(describe=lambda state: state["question"])
    app = desk_graph(router).compile(checkpointer=InMemorySaver())
    turns: list[Any] = [{**thread("t"), "run_id": f"00000000-0000-0000-0000-00000000000{n}"} for n in (1, 2)]
    for turn in turns:
        app.invoke({"question": "where is it"}, turn)
    with pytest.raises(ConfigError, match="2 runs wait for a reward"):
        router.reward(1.0)
    router.reward(1.0, turns[0])
    router.reward(0.0)  # one is left
    for _ in range(2):
        app.invoke({"question": "where is it"}, thread("t"))
    router.reward(1.0, "t")
    assert [len(episode.decisions) for episode in router._rewarded] == [1, 1, 2]
    drawn = {app.invoke({"question": QUESTIONS[1]}, thread("t"))["desk"] for _ in range(30)}
    assert drawn == set(DESKS)  # a thread's later turns draw anew


def test_a_run_in_a_subgraph_is_known_by_its_thread() -> None:
    router = desk_router()
    outer = StateGraph(Ticket)
    outer.add_node("desk", desk_graph(router).compile())
    outer.add_edge(START, "desk")
    outer.compile().invoke({"question": "where is it"}, thread("inner"))
    router.reward(1.0, thread("inner"))


def test_nameless_runs_are_routed_and_old_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    router = desk_router()
    app = desk_graph(router).compile()
    assert {app.invoke({"question": "where is it"})["desk"] for _ in range(30)} == set(DESKS)
    with pytest.raises(ConfigError, match=r'invoke the graph first.*"thread_id"'):
        router.reward(1.0)
    monkeypatch.setattr(module, "KEPT_RUNS", 2)
    for number in range(4):
        app.invoke({"question": "where is it"}, thread(number))
    router.reward(1.0, "3")
    with pytest.raises(ConfigError, match="no choice of run '0' waits"):
        router.reward(1.0, "0")
    with pytest.raises(ConfigError, match="no choice of run '3' waits"):
        router.reward(1.0, thread(3))


def test_a_router_reads_what_describe_returns_and_may_end_the_graph() -> None:
    router = LearnedRouter(["work on it", END], lambda state: state["question"].upper(), embedder="hashing")
    shares = router.probabilities({"question": "work on it"})
    assert list(shares) == ["work on it", END]
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["work on it"] > shares[END]
    assert router.choose({"question": "x"}, thread(1)) in shares
    assert describe_state({"messages": [HumanMessage("hello"), HumanMessage("ping")], "n": 2, "o": object()}) == [
        "messages: ping",
        "n: 2",
    ]
    with pytest.raises(ConfigError, match=r"no text in the state \{'o': None\}; pass it describe="):
        desk_router().choose({"o": None})


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf"), "good", None])
def test_a_reward_is_a_number_from_0_to_1(score: Any) -> None:
    learner, router = routed(), desk_router()
    learner.ask("where to?")
    router.choose({"question": "where to?"}, thread(1))
    for one in (learner, router):
        with pytest.raises(ValueError, match=rf"a reward is a number in \[0, 1\].*not {re.escape(repr(score))}"):
            one.reward(score)
        one.reward(np.float32(1))  # type: ignore[arg-type]


def test_what_cannot_be_done_is_said_with_the_way_out(tmp_path: Path) -> None:
    learner, router = routed(), desk_router()
    for one in (learner, router):
        with pytest.raises(ConfigError, match="nothing to learn from; reward a few runs first"):
            one.learn()
        with pytest.raises(ConfigError, match="no weights to save before the first learn"):
            one.save(tmp_path / "none")
        with pytest.raises(ConfigError, match="cannot be read"):
            one.load(tmp_path / "none")
        with one._updating, pytest.raises(ConfigError, match="another update is under way"):
            one.learn()
    with pytest.raises(ConfigError, match="ask first"):
        learner.reward(1.0)
    run = learner.ask("where to?")
    with pytest.raises(ConfigError, match="ask first"):
        routed().reward(1.0)  # another team's answer
    learner.reward(1.0)
    with pytest.raises(ConfigError, match="ask first"):
        learner.reward(1.0)  # twice
    stranger = run.replace(steps=tuple(step.replace(node=f"my-{step.node}") for step in run.steps))
    with pytest.raises(ValueError, match="of another team: this one has no my-end"):
        learner.reward(1.0, stranger)
    with pytest.raises(ConfigError, match="no agent of this team has two successors"):
        RoutedTeam(team("plan>fish fish>wood wood>end"))
    sawyers = tuple(agent.replace(tools=("saw",)) for agent in team().agents)
    with pytest.raises(ConfigError, match="the team holds saw, and the tools that are given are none"):
        RoutedTeam(team().replace(agents=sawyers))
    with pytest.raises(ConfigError, match="a tool 'calculator' of its own, and the run lends another of that name"):
        RoutedTeam(team().replace(tools=(make_tool("calculator"),)), tools=[CalculatorTool()])
    for few in (["tech"], ["tech", "tech"], "tech", []):
        with pytest.raises(ConfigError, match="two or more different successors"):
            LearnedRouter(few)
    learner.reward(0.0, run)
    learner.reward(1.0, run)
    learner.learn()
    learner.save(tmp_path / "w")
    with pytest.raises(ConfigError, match="read vectors of hashing-384, not of all-MiniLM"):
        LearnedRouter(DESKS, embedder="minilm").load(tmp_path / "w")


def test_a_successor_that_is_no_node_is_named_when_the_graph_is_compiled() -> None:
    graph = StateGraph(Ticket)
    graph.add_node("triage", lambda state: {})
    graph.add_edge(START, "triage")
    graph.add_conditional_edges("triage", desk_router().choose, desk_router().successors)
    with pytest.raises(ValueError, match="unknown target 'billing'"):
        graph.compile()


def test_a_run_with_a_failed_agent_teaches_nothing() -> None:
    learner = routed()
    run = learner.ask(Question(id="q", input="where to?"))
    failed = run.replace(steps=tuple(step.replace(error="down") if step.node != "end" else step for step in run.steps))
    learner.reward(1.0, failed)
    update = learner.learn()
    assert (update.episodes, update.errors) == (0, 1)


def test_agents_ask_models_by_the_names_that_are_given() -> None:
    named = team().replace(agents=[agent.replace(model="cheap") for agent in team().agents])
    with pytest.raises(ConfigError, match="asks model 'cheap', and this run names no such model"):
        RoutedTeam(named)
    assert RoutedTeam(named, models={"cheap": "offline:user"}).ask(QUESTIONS[0]).answer


def test_a_question_that_no_agent_answers_is_an_error() -> None:
    class Mute(FakeListChatModel):
        def _call(self, *_: Any, **__: Any) -> str:
            raise RuntimeError("nobody is in")

    with pytest.raises(TaskError, match=r"nobody is in.*; ask again"):
        RoutedTeam(team(), Mute(responses=["-"])).ask("where to?")


def test_the_ten_lines_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = API.read_text().partition("## Route by your own rewards")[2].partition("\n## ")[0]
    ours, plain = (
        code.replace("openai:gpt-4o-mini", "offline") for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    )
    for code in (ours, plain):
        assert re.match(r"from selfwire.graphs.router import \w+\n", code)
        lines = [line for line in code.splitlines() if line and "import" not in line]
        assert len(lines) <= 10
    known: dict[str, Any] = {"team": team(), "questions": QUESTIONS, "score": lambda run: float("wood" in ran(run))}
    exec(ours, known)
    assert (
        known["routed"].probabilities(known["run"])["plan"]["wood"]
        > routed().probabilities(known["run"])["plan"]["wood"]
    )
    known |= {"graph": desk_graph(desk_router()), "score": lambda done: float(done["desk"] == "tech")}
    known["graph"].branches.clear()
    exec(plain, known)
    fresh = LearnedRouter(DESKS).probabilities({"question": QUESTIONS[0]})
    assert known["router"].probabilities({"question": QUESTIONS[0]})["tech"] > fresh["tech"]
    assert {path.name for path in tmp_path.iterdir()} == {"team.safetensors", "desk.safetensors"}
