"""The trained router in teams of other methods."""

import pytest

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, AddEdge, AddNode, Rewiring
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.router.config import RouterConfig, SamplingConfig, TrainConfig
from selfwire.evolvers.router.decisions import to_router_episode
from selfwire.evolvers.router.reinforce import update_router
from selfwire.graphs.router import SAMPLING, make_learned_router, to_team_episode
from selfwire.graphs.team import TeamContext, run_team
from selfwire.models.embeddings import HashingEmbedder
from tests.graphs.teams import Echo, topology

EMBEDDER = HashingEmbedder()
ROLES = {"s": "opens", "fish": "catches fish in the sea", "wood": "fells trees in the forest", "z": "sums up"}
NARROW = SAMPLING.replace(width=1)
CONFIG = RouterConfig(sampling=NARROW, transfer=True)
WET = Question(id="wet", input="how deep is the sea")


def team(edges: str = "s>fish s>wood s>z fish>z wood>z") -> Team:
    agents = tuple(Agent(id=name, role=role, prompt=role) for name, role in ROLES.items())
    return Team(method="hiva", agents=agents, topology=topology(edges))


async def ran(workflow: Team, question: Question, *, seed: int = 0, sampling: SamplingConfig = NARROW) -> Trajectory:
    routing = await make_learned_router(workflow, question, Echo(), EMBEDDER, sampling=sampling)
    run = TeamContext(
        question=question,
        scope=Scope(task=question.id, seed=seed),
        agents=workflow.agents_by_id,
        act=routing.act,
        router=routing.router,
    )
    done = await run_team(workflow.topology, run)
    decided = to_team_episode(done, workflow)
    return done.replace(notes={"episode": decided.model_dump(mode="json")} if decided else {})


def chosen(done: Trajectory) -> tuple[str, ...]:
    assert done.steps[0].routing is not None
    return done.steps[0].routing.chosen


async def test_the_router_draws_among_successors_and_the_sink_always_carries() -> None:
    seen = {chosen(await ran(team(), WET, seed=seed)) for seed in range(40)}
    assert seen == {("fish", "z"), ("wood", "z")}
    one, two = [await ran(team(), WET, seed=3) for _ in range(2)]
    assert one.steps == two.steps
    routing = one.steps[0].routing
    assert routing is not None
    assert sum(routing.scores.values()) == pytest.approx(1, abs=1e-5)


async def test_a_run_notes_a_decision_per_node_that_had_a_choice() -> None:
    episode = to_team_episode(await ran(team(), WET), team())
    assert episode is not None
    (decision,) = episode.decisions
    assert decision.agents == ("fish", "wood")
    assert decision.rows == ("Question: how deep is the sea", "Deciding: opens", "Answer so far: s()")
    straight = team("s>fish fish>z")
    assert to_team_episode(await ran(straight, WET), straight) is None
    episode = to_team_episode(await ran(team(), WET, sampling=SAMPLING.replace(mass=1.0)), team())
    assert episode is not None
    assert sorted(episode.decisions[0].layered.layers[0]) == ["fish", "wood"]


async def test_an_agent_with_two_nodes_is_chosen_for_both() -> None:
    twice = Rewiring(
        edits=(
            AddNode(node="more", agent="fish"), AddEdge(source="s", target="more"), AddEdge(source="more", target="z")
        ),
        why="twice",
    )  # fmt: skip
    seen = {chosen(await ran(team().apply(twice), WET, seed=seed)) for seed in range(40)}
    assert seen == {("fish", "more", "z"), ("wood", "z")}


async def test_rewards_of_runs_change_who_is_chosen_next() -> None:
    workflow = team()

    async def graded(seed: int) -> Trajectory:
        done = await ran(workflow, WET, seed=seed)
        solved = "wood" in chosen(done)  # against what the texts suggest
        return done.with_feedback(Feedback(score=float(solved), solved=solved, text=""))

    async def share() -> float:
        runs = [await graded(seed) for seed in range(1000, 1020)]
        return sum(one.feedback.score for one in runs if one.feedback) / len(runs)

    before = await share()
    for number in range(12):
        episodes = [one for seed in range(8) if (one := to_router_episode(await graded(8 * number + seed)))]
        workflow, _, _ = await update_router(workflow, episodes, CONFIG, TrainConfig(rate=1e-3), EMBEDDER)
    assert before < 0.5
    assert await share() > 0.8


async def test_an_agent_that_is_born_into_the_team_can_be_chosen_at_once() -> None:
    episode = to_team_episode(await ran(team(), WET), team())
    assert episode is not None
    rewarded = [episode.replace(reward=reward) for reward in (0.0, 1.0)]
    workflow, _, _ = await update_router(team(), rewarded, CONFIG, TrainConfig(), EMBEDDER)
    born = Rewiring(
        edits=(
            AddAgent(agent=Agent(id="deep", role="how deep is the sea", prompt="Dive.")),
            AddNode(node="deep", agent="deep"),
            AddEdge(source="s", target="deep"),
            AddEdge(source="deep", target="z"),
        ),
        why="birth",
    )
    grown = workflow.apply(born)
    assert grown.memory == workflow.memory
    seen = [chosen(await ran(grown, WET, seed=seed))[0] for seed in range(20)]
    assert seen.count("deep") > 10


async def test_a_team_is_lent_the_router_of_another_one() -> None:
    rewarded = [
        one.replace(reward=float("wood" in one.decisions[0].layered.layers[0]))
        for seed in range(40)
        if (one := to_team_episode(await ran(team(), WET, seed=seed), team()))
    ]
    trained, _, _ = await update_router(team(), rewarded, CONFIG, TrainConfig(rate=1e-3), EMBEDDER)
    deeper = team("s>fish s>wood fish>wood fish>z wood>z").replace(method="handmade")
    lent = deeper.with_memory(router=trained.memory["router"])
    assert lent.memory == trained.memory

    async def scores(workflow: Team) -> float:
        routing = (await ran(workflow, WET)).steps[0].routing
        assert routing is not None
        return float(routing.scores["wood"])

    assert await scores(lent) > await scores(deeper)
