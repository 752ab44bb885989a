"""Scores of HiVA's bandit where each room needs two agents and any other choice spoils the mark, a model in the loop.

A source hands shelf marks on to four agents, one per rule, or to eight, of whom two share the rooms of a rule. Agents
claim their rooms in their prompts, or claim none. The team learns from batches of train tasks, as in an evolution
without changes of prompts and topology; then it answers test tasks. Expected before the full run: with claims the
bandit gets 80 % of the gain from two agents by chance to the right two; without claims less than a count per room.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import product
from unittest.mock import patch

from bench.measuring import Row, make_cells, map_in_processes
from bench.shelfmarks import CLOSES, OPENS, SPECIALISTS, name_rooms
from selfwire.core.agent import Agent
from selfwire.core.protocols import Router, RouterInput
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.topology import make_layers
from selfwire.core.trajectory import Routing, Trajectory
from selfwire.core.values import FrozenModel
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.benchmarks.shelfmarks import ROOMS, RULES, shelfmarks
from selfwire.evals.statistics import compute_mean, compute_student_interval
from selfwire.evolvers.hiva.config import HivaConfig, KabbConfig
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.hiva import Hiva
from selfwire.models.embeddings import CachedEmbedder, HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import NullRecorder

TITLE = "rooms: does KABB find the agents that a room needs?"
SEEDS, TRAIN, BATCH, TEST = 10, 60, 10, 20
KABB, CHANCE, GREEDY, BEST = "KABB", "two by chance", "greedy per room", "the right two"
NO_SLIPS = "KABB, no slips of critics"
"""The bandit where no task's concepts are named wrongly, and no agent is blamed by mistake."""
SETTINGS = tuple(product((4, 8), (True, False)))
"""Numbers of agents, and whether they claim their rooms."""
CONFIGS: Mapping[str, KabbConfig] = {
    KABB: KabbConfig(),
    "KABB, lambda = 10": KabbConfig(distance_weight=10.0, fits_weights=False),
    "KABB, always two": KabbConfig(k=2, within=0.0),
    "KABB, half of the best draw": KabbConfig(k=5, within=0.5, compares="draws"),
}
"""The bandit as it is, with fixed weights of the distance, and by other rules of how many run."""
SYSTEMS = (BEST, NO_SLIPS, *CONFIGS, GREEDY, CHANCE)
EMBEDDER = CachedEmbedder(HashingEmbedder())


class Measured(FrozenModel):
    """Means of a system over test tasks: its score, its calls, and the number of agents that it chose."""

    score: float
    calls: float
    agents: float


def make_rooms_team(agents: int, *, claims: bool) -> Team:
    """A source, an agent per rule or two that share its rooms, and an aggregator."""
    some = [agent for rule in RULES for agent in share_rooms(rule, agents // len(RULES), claims=claims)]
    layers = make_layers((OPENS.id,), [agent.id for agent in some], (CLOSES.id,))
    closes = CLOSES.replace(kind="aggregator")
    team = Team(method="hiva", agents=(OPENS, *some, closes), topology=layers)
    return HivaMemory().restrict_to(team).save_to(team)


def share_rooms(rule: str, agents: int, *, claims: bool) -> tuple[Agent, ...]:
    """List the agents of a rule: one for its three rooms, or one that claims two of them and one for the third."""
    agent = SPECIALISTS[rule]
    if agents == 1:
        return (name_rooms(rule) if claims else agent,)
    first, second, third = (room for room, rules in ROOMS.items() if rule in rules)
    said = (f"You serve the {first} and the {second}. ", f"You serve the {third}. ") if claims else ("", "")
    return tuple(
        agent.replace(id=f"{agent.id}-{number}", prompt=f"{claim}{agent.prompt}") for number, claim in enumerate(said)
    )


def find_right(room: str, team: Team) -> tuple[str, ...]:
    """The agents of a room's two rules; of two that share a rule the one whose room it is, or the first."""
    found = []
    for rule in ROOMS[room]:
        of = [agent for agent in team.agents if agent.id.startswith(SPECIALISTS[rule].id)]
        found.append(next((agent.id for agent in of if room in agent.prompt), of[0].id))
    return tuple(found)


class RoomCounts:
    """A bandit that counts, for each room by itself, how often each agent was of use, and takes the two best."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], list[int]] = {}

    def make_router(self, task: Task) -> Router:
        """The router by the counts so far; ties fall by chance."""

        def route(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
            arms, random = [arm for arm in successors if arm != CLOSES.id], known.scope.random("index")
            means = {arm: self._find_mean(task.kind, arm) for arm in arms}
            ties = dict(zip(arms, random.random(len(arms)), strict=True))
            best = sorted(arms, key=lambda arm: (means[arm], ties[arm]), reverse=True)[:2]
            return Routing(chosen=tuple(arm for arm in successors if arm in best or arm == CLOSES.id))

        return route

    def _find_mean(self, room: str, arm: str) -> float:
        found = self.counts.get((room, arm), [])
        return sum(found) / len(found) if found else 0.5

    def learn(self, tasks: Sequence[Task], team: Team) -> None:
        """Count the rewards that HiVA gave the agents in its last batch."""
        for task, past in zip(tasks, HivaMemory.of(team).history[-len(tasks) :], strict=True):
            for agent, reward in past.rewards.items():
                self.counts.setdefault((task.kind, agent), []).append(reward)


def route_to(*chosen: str) -> Router:
    """A router that hands on to these and the aggregator."""
    return lambda node, successors, known: Routing(
        chosen=tuple(arm for arm in successors if arm in chosen or arm == CLOSES.id)
    )


def route_by_chance(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
    """Hand on to two agents by chance."""
    arms = [arm for arm in successors if arm != CLOSES.id]
    drawn = [arms[at] for at in known.scope.random("two").permutation(len(arms))[:2]]
    return route_to(*drawn)(node, successors, known)


def choose_router(system: str, team: Team, counts: RoomCounts) -> Callable[[Task], Router] | None:
    """The router of a system by task; None for the bandit of the graph."""
    if system == GREEDY:
        return counts.make_router
    if system == BEST:
        return lambda task: route_to(*find_right(task.kind, team))
    return (lambda task: route_by_chance) if system == CHANCE else None


async def measure_system(
    system: str, bench: Benchmark, team: Team, at: Scope, sizes: tuple[int, int] = (TRAIN, TEST)
) -> Measured:
    """Let a system learn from train tasks, and measure it on test tasks."""
    train, test = sizes
    split = bench.splits(at.seed, train=train, gate=0, test=test)
    routing = CONFIGS.get(system, CONFIGS[KABB])
    method = Hiva(HivaConfig(topology_evolution=False, semantic_evolution=False, successors=8, routing=routing))
    team, counts = method.adapt(team), RoomCounts()
    find_router = choose_router(system, team, counts)
    slips = {"critic_error_rate": 0.0} if system == NO_SLIPS else {}
    model = MeteredModel(OfflineChat(seed=at.seed, **slips), journal=NullRecorder())

    async def answer(task: Task, place: Scope) -> Trajectory:
        ctx = method.make_ctx(model, bench.toolbox, EMBEDDER, scope=place.at(task=task.id))
        router = find_router and find_router(task)
        with patch("selfwire.graphs.hiva.make_router", lambda *given: router) if router else nullcontext():
            done = await method.answer(team, task.question, ctx)
        return done.with_feedback(await bench.environment.grade(task, done.answer or "", scope=ctx.scope))

    for start in range(0, 0 if system in (CHANCE, BEST) else train, BATCH):
        place = at.at(phase="rollout", iteration=start // BATCH)
        batch = split.train[start : start + BATCH]
        runs = [await answer(task, place) for task in batch]
        team = (await method.propose(team, runs, method.make_ctx(model, {}, EMBEDDER, scope=place))).workflow
        counts.learn(batch, team)
    done = [await answer(task, at.at(phase="test")) for task in split.test]
    chosen = [len(run.steps) - 2 for run in done]
    scores = [run.feedback.score if run.feedback else 0.0 for run in done]
    return Measured(
        score=compute_mean(scores), calls=compute_mean([run.usage.calls for run in done]), agents=compute_mean(chosen)
    )


def measure_seed(seed: int, sizes: tuple[int, int] = (TRAIN, TEST)) -> dict[str, dict[str, Measured]]:
    """Every system of a seed by name, in every setting by name."""

    async def measure_all() -> dict[str, dict[str, Measured]]:
        bench, at = shelfmarks(2 * sum(sizes), seed=seed), Scope(seed=seed)
        return {
            name_setting(agents, claims=claims): {
                system: await measure_system(system, bench, make_rooms_team(agents, claims=claims), at, sizes)
                for system in SYSTEMS
            }
            for agents, claims in SETTINGS
        }

    return asyncio.run(measure_all())


def name_setting(agents: int, *, claims: bool) -> str:
    """The name of a setting."""
    return f"{agents} agents, {'claims' if claims else 'no claims'}"


def measure(seeds: int = SEEDS, sizes: tuple[int, int] = (TRAIN, TEST)) -> list[Row]:
    """Measure all systems on the tasks of some seeds, seeds in processes of their own."""
    return summarise(list(map_in_processes(partial(measure_seed, sizes=sizes), range(seeds))))


def summarise(found: Sequence[Mapping[str, Mapping[str, Measured]]]) -> list[Row]:
    """Make the rows: by setting the score and its share of the gain from chance to the right two; calls over all."""
    rows = list[Row]()
    for system in SYSTEMS:
        cells = dict[str, str | float]()
        for setting in found[0]:
            scores, least, most = ([seed[setting][name].score for seed in found] for name in (system, CHANCE, BEST))
            whole = compute_mean(most) - compute_mean(least)
            gained = (compute_mean(scores) - compute_mean(least)) / whole if whole else "-"
            cells[f"{setting} [95 %]"] = str(compute_student_interval(scores).clip(0, 1))
            cells[f"{setting}, share of the gain"] = gained
        every = [seed[setting][system] for seed in found for setting in seed]
        cells["agents/task"] = compute_mean([measured.agents for measured in every])
        cells["calls/task"] = compute_mean([measured.calls for measured in every])
        rows += make_cells(system, cells)
    return rows
