from collections import Counter

import pytest

from bench.measuring import make_lines
from bench.rooms import (
    BEST,
    CHANCE,
    EMBEDDER,
    KABB,
    SETTINGS,
    SYSTEMS,
    Measured,
    RoomCounts,
    find_right,
    make_rooms_team,
    measure_system,
    name_setting,
    summarise,
)
from bench.shelfmarks import CLOSES, OPENS
from selfwire.core.edits import AddEdge, Rewiring
from selfwire.core.protocols import RouterInput
from selfwire.core.scope import Scope
from selfwire.evals.benchmarks.shelfmarks import ROOMS, shelfmarks
from selfwire.evolvers.hiva.config import HivaConfig, KabbConfig
from selfwire.evolvers.hiva.memory import HivaMemory, PastTask
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.hiva import Hiva
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import NullRecorder

BENCH = shelfmarks(60, seed=0)
TASKS = BENCH.splits(0, train=0, gate=0, test=12).test


@pytest.mark.parametrize("agents", [4, 8])
def test_every_room_has_two_agents_who_claim_it_or_nobody_claims_any(agents: int) -> None:
    team = make_rooms_team(agents, claims=True)
    assert len(team.topology.successors[OPENS.id]) == agents
    claimed = {room: [agent.id for agent in team.agents if room in agent.prompt] for room in ROOMS}
    assert {room: len(names) for room, names in claimed.items()} == dict.fromkeys(ROOMS, 2)
    assert {room: sorted(find_right(room, team)) for room in ROOMS} == {r: sorted(n) for r, n in claimed.items()}
    silent = make_rooms_team(agents, claims=False)
    assert not any(room in agent.prompt for agent in silent.agents for room in ROOMS)
    assert all(len({*find_right(room, silent)}) == 2 for room in ROOMS)


async def test_the_right_two_are_better_than_two_by_chance_and_the_bandit_learns_through_the_graph() -> None:
    team, at, sizes = make_rooms_team(8, claims=True), Scope(seed=0), (10, 12)
    right, chance, kabb = [await measure_system(name, BENCH, team, at, sizes) for name in (BEST, CHANCE, KABB)]
    assert right.score > 0.8 > 0.4 > chance.score
    assert right.agents == chance.agents == 2
    assert kabb.score > chance.score


def test_counts_are_of_each_room_by_itself() -> None:
    team, counts = make_rooms_team(4, claims=False), RoomCounts()
    rewards = {agent: int(agent in ("mirror", "vowels")) for agent in team.topology.successors[OPENS.id]}
    past = PastTask(main="mark", concepts=(), rewards=rewards)
    counts.learn([TASKS[0]], HivaMemory.of(team).replace(history=(past,)).save_to(team))
    arms = team.topology.successors[OPENS.id]

    def choose(room: str) -> Counter[str]:
        task = next(task for task in TASKS if task.kind == room)
        route = counts.make_router(task)
        chosen = [
            route(OPENS.id, arms, RouterInput(task.question, Scope(task=f"t{at}"), "", CLOSES.id)) for at in range(60)
        ]
        return Counter(arm for routing in chosen for arm in routing.chosen if arm != CLOSES.id)

    assert choose(TASKS[0].kind) == {"mirror": 60, "vowels": 60}
    other = choose(next(room for room in ROOMS if room != TASKS[0].kind))
    assert len(other) == 4


async def test_d6_with_the_aggregator_as_an_arm_the_answer_is_made_of_what_is_there() -> None:
    beside = make_rooms_team(4, claims=False).apply(Rewiring(AddEdge(OPENS.id, CLOSES.id), why="a short way"))
    method = Hiva(HivaConfig(routing=KabbConfig(sink_is_arm=True, k=1)))
    model, found = MeteredModel(OfflineChat(error_rate=0), journal=NullRecorder()), list[tuple[int, str | None]]()
    for task in TASKS:
        ctx = method.make_ctx(model, {}, EMBEDDER, scope=Scope(seed=0, task=task.id, phase="test"))
        done = await method.answer(method.adapt(beside), task.question, ctx)
        found.append((len(done.steps), done.answer))
    assert all(answer and "Answer:" in answer for _, answer in found)
    assert {steps for steps, _ in found} == {2, 3}
    assert all("unknown" in str(answer) for steps, answer in found if steps == 2)


def test_the_table_shows_the_share_of_the_gain_from_chance_to_the_right_two() -> None:
    scores = {BEST: 0.9, CHANCE: 0.1, KABB: 0.7}
    seed = {
        name_setting(agents, claims=claims): {
            system: Measured(score=scores.get(system, 0.5), calls=7, agents=2) for system in SYSTEMS
        }
        for agents, claims in SETTINGS
    }
    lines = {line[""]: line for line in make_lines(summarise([seed, seed]))}
    assert [lines[name]["4 agents, claims, share of the gain"] for name in (BEST, CHANCE, KABB)] == [
        "1.00",
        "0.00",
        "0.75",
    ]
    assert lines[KABB]["calls/task"] == "7.00"


def test_a_share_of_no_gain_is_none() -> None:
    seed = {"4 agents, claims": dict.fromkeys(SYSTEMS, Measured(score=0.5, calls=3.0, agents=2.0))}
    shares = [row for row in summarise([seed, seed]) if row.column.endswith("share of the gain")]
    assert [row.note for row in shares] == ["-"] * len(SYSTEMS)
