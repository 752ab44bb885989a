"""Does KABB choose well? The bandit of HiVA's graph beside simple bandits and an oracle, in a team that branches.

Everybody chooses at most two of five successors at a node, sees the same rewards of agents, and learns from
ten tasks at a time. Luck is shared: an agent that two systems choose for a task does equally well for both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf, log, sqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt

from selfwire.core.protocols import Embedder, Router, RouterInput
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.trajectory import DecisionCount, Routing, sum_decisions
from selfwire.core.values import FrozenModel
from selfwire.evals.statistics import IntervalEstimate, compute_student_interval
from selfwire.evals.table import Column, build_table, format_difference
from selfwire.evolvers.hiva.config import HivaConfig, KabbConfig
from selfwire.evolvers.hiva.forward import match_task
from selfwire.evolvers.hiva.gradients import Loss
from selfwire.evolvers.hiva.kabb import TaskMatch, count_decisions, learn_lessons, make_lesson, make_router
from selfwire.evolvers.hiva.knowledge import TaskConcepts
from selfwire.evolvers.hiva.memory import TrajectoryLesson
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.gains import SYSTEM, Scale, WorldResult, format_decisions
from selfwire.extras.lab.worlds.hiva.branching import (
    SINK,
    BranchingParameters,
    BranchingWorld,
    Floats,
    K,
    Run,
    get_concepts,
    make_world,
    run_task,
)
from selfwire.models.embeddings import HashingEmbedder

CHECKPOINTS = (10, 50, 100, 150)
"""Tasks after which the regret so far is printed."""
FIRST = (10, 30)
"""Numbers of first tasks of new kinds whose score is printed."""
LAST = 50
UNIFORM, FIXED, ORACLE = "uniform", "best fixed choice", "oracle"
MAIN = "KABB"


def format_tables(results: Sequence[WorldResult]) -> str:
    """Regret on known kinds of tasks, and what the first tasks of new kinds score."""
    names = sorted(results[0].figures, key=lambda name: -_share(results, name, f"sum {CHECKPOINTS[-1]}").value)
    end = CHECKPOINTS[-1]
    tables = (build_table(_list_columns(results), names), build_table(_list_new_columns(results), names))
    return "\n\n".join(
        [
            f"{len(results)} seeds. Known kinds of tasks: {_describe_gain(results, f'sum {end}', end)}",
            tables[0].markdown,
            f"New kinds of tasks, from the first one on: {_describe_gain(results, f'new {FIRST[0]}', 1)}",
            tables[1].markdown,
        ]
    )


def compute_share(result: WorldResult, name: str, figure: str) -> float:
    """The part of the possible gain, from chance to the oracle, that a system gets."""
    least, got, most = (result.figures[system][figure] for system in (UNIFORM, name, ORACLE))
    return (got - least) / (most - least)


def _share(results: Sequence[WorldResult], name: str, figure: str) -> IntervalEstimate:
    return compute_student_interval([compute_share(result, name, figure) for result in results])


def _describe_gain(results: Sequence[WorldResult], figure: str, tasks: int) -> str:
    """Scores per task of chance and of the oracle, and their difference."""
    scale = Scale(figure, UNIFORM, ORACLE, MAIN, tasks)
    chance, most = (scale.estimate(results, name).value for name in (UNIFORM, ORACLE))
    gain = scale.compare(results, ORACLE, UNIFORM)
    return f"chance scores {chance:.2f} per task, the oracle {most:.2f}; possible gain {gain}."


def _list_columns(results: Sequence[WorldResult]) -> tuple[Column[str], ...]:
    end = CHECKPOINTS[-1]

    def regret(name: str, count: int) -> IntervalEstimate:
        return Scale(f"sum {count}", UNIFORM, ORACLE, MAIN).compare(results, ORACLE, name)

    def regret_after(count: int) -> Column[str]:
        return Column(f"regret after {count}", lambda name: f"{regret(name, count).value:.1f}")

    def final(name: str) -> str:
        found = regret(name, end)
        return f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]"

    def compare(name: str) -> str:
        shared = [compute_share(run, MAIN, f"sum {end}") - compute_share(run, name, f"sum {end}") for run in results]
        return format_difference(compute_student_interval(shared) if name != MAIN else None)

    return (
        SYSTEM,
        *map(regret_after, CHECKPOINTS[:-1]),
        Column(f"after {end} [95 %]", final),
        Column("share of the gain [95 %]", lambda name: str(_share(results, name, f"sum {end}"))),
        Column(f"share in the last {LAST} [95 %]", lambda name: str(_share(results, name, "last"))),
        Column(f"{MAIN} − this, paired", compare),
        Column("free decisions", lambda name: format_decisions(results, name)),
    )


def _list_new_columns(results: Sequence[WorldResult]) -> tuple[Column[str], ...]:
    def share_of(count: int) -> Column[str]:
        return Column(f"share, first {count} [95 %]", lambda name: str(_share(results, name, f"new {count}")))

    def compare(name: str) -> str:
        found = Scale(f"new {FIRST[0]}", UNIFORM, ORACLE, MAIN).compare(results, MAIN, name)
        return format_difference(found if name != MAIN else None)

    return (
        SYSTEM,
        *map(share_of, FIRST),
        Column(f"{MAIN} − this, score of the first {FIRST[0]}, paired", compare),
    )


NO_DISTANCE = {"distance_weight": 0.0, "mismatch_limit": 1.0}
KABB: Mapping[str, KabbConfig] = {
    MAIN: KabbConfig(k=K),
    "KABB w/o knowledge distance": KabbConfig(k=K, **NO_DISTANCE),
    "KABB w/o synergy": KabbConfig(k=K, synergy_weight=0.0),
    "KABB, eta = 2": KabbConfig(k=K, synergy_weight=2.0, fits_weights=False),
    "KABB, eta = 5": KabbConfig(k=K, synergy_weight=5.0, fits_weights=False),
    "KABB, lambda = 1": KabbConfig(k=K, distance_weight=1.0, fits_weights=False),
    "KABB, lambda = 10": KabbConfig(k=K, fits_weights=False),
    "KABB, always two": KabbConfig(k=K, within=0.0),
    "KABB w/o decay": KabbConfig(k=K, decay=1.0),
    "KABB w/o both": KabbConfig(k=K, synergy_weight=0.0, **NO_DISTANCE),
    "KABB w/o both and decay": KabbConfig(k=K, synergy_weight=0.0, decay=1.0, **NO_DISTANCE),
}
"""The bandit as it is by default, with parts switched off or fixed, and with other weights of synergy."""


class Chooser(Protocol):
    """A system in the world."""

    @property
    def workflow(self) -> Team | None:
        """The team with what it has learned; None for a system without a memory."""

    async def prepare(self, kind: int) -> Router:
        """The router for a task of a kind, by what has been learned."""

    def match(self, kind: int) -> TaskMatch | None:
        """How tasks of a kind meet the agents; None for a system that does not look."""

    def learn(self, lessons: Sequence[TrajectoryLesson], kinds: Sequence[int]) -> None:
        """Learn from a batch."""


@dataclass
class KabbChooser:
    """HiVA's bandit: its router, its match of tasks with agents and its memory, as its graph calls them."""

    workflow: Team
    config: KabbConfig
    embedder: Embedder
    name_concepts: Callable[[int], TaskConcepts] = get_concepts
    matches: dict[int, TaskMatch] = field(default_factory=dict)

    async def prepare(self, kind: int) -> Router:
        """KABB over what the team has learned."""
        if kind not in self.matches:
            self.matches[kind] = await match_task(self.name_concepts(kind), self.workflow, self.embedder)
        return make_router(self.workflow, self.matches[kind], HivaConfig(routing=self.config))

    def match(self, kind: int) -> TaskMatch | None:
        """How tasks of a kind meet the agents, as the router has it."""
        return self.matches[kind]

    def learn(self, lessons: Sequence[TrajectoryLesson], kinds: Sequence[int]) -> None:
        """Update beliefs, edges, synergy, concepts and history."""
        self.workflow = learn_lessons(self.workflow, lessons, config=self.config)
        self.matches.clear()


Index = Callable[[int, int, int, np.random.Generator], float]
"""Index of an arm, by its successes, its runs, all runs, and chance."""


@dataclass
class IndexChooser:
    """A bandit that takes the arms of the greatest index, from counts of agents' rewards.

    Args:
        by_kind: whether it counts each kind of task for itself.
    """

    index: Index
    by_kind: bool = False
    wins: dict[tuple[int, str], int] = field(default_factory=dict)
    runs: dict[tuple[int, str], int] = field(default_factory=dict)
    workflow: None = None

    async def prepare(self, kind: int) -> Router:
        """The router by the counts so far."""
        of = kind if self.by_kind else 0
        total = sum(count for (there, _), count in self.runs.items() if there == of)

        def route(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
            arms, random = [node for node in successors if node != SINK], known.scope.random("index")
            worth = {
                arm: (self.index(self.wins.get((of, arm), 0), self.runs.get((of, arm), 0), total, random), tie)
                for arm, tie in zip(arms, random.random(len(arms)), strict=True)
            }
            best = sorted(arms, key=lambda arm: worth[arm], reverse=True)[:K]
            return Routing(chosen=tuple(s for s in successors if s in best or s == SINK), free=len(arms) > K)

        return route

    def match(self, kind: int) -> TaskMatch | None:
        """Ignore the kind of the task."""
        return None

    def learn(self, lessons: Sequence[TrajectoryLesson], kinds: Sequence[int]) -> None:
        """Count."""
        for lesson, kind in zip(lessons, kinds, strict=True):
            for agent, reward in lesson.rewards.items():
                key = (kind if self.by_kind else 0, agent)
                self.wins[key] = self.wins.get(key, 0) + reward
                self.runs[key] = self.runs.get(key, 0) + 1


def draw_uniform(wins: int, runs: int, total: int, random: np.random.Generator) -> float:
    """Nothing is learned."""
    return 0.0


def compute_mean(wins: int, runs: int, total: int, random: np.random.Generator) -> float:
    """The empirical mean; a half for an arm that was never tried."""
    return wins / runs if runs else 0.5


def compute_bound(wins: int, runs: int, total: int, random: np.random.Generator) -> float:
    """The upper bound of UCB1; arms that were never tried come first."""
    return wins / runs + sqrt(2 * log(total) / runs) if runs else inf


def draw_belief(wins: int, runs: int, total: int, random: np.random.Generator) -> float:
    """Thompson sampling from a uniform prior, without decay."""
    return float(random.beta(1 + wins, 1 + runs - wins))


INDEXES: Mapping[str, Callable[[], IndexChooser]] = {
    UNIFORM: partial(IndexChooser, draw_uniform),
    "greedy": partial(IndexChooser, compute_mean),
    "UCB1": partial(IndexChooser, compute_bound),
    "Thompson": partial(IndexChooser, draw_belief),
    "greedy per kind": partial(IndexChooser, compute_mean, by_kind=True),
    "UCB1 per kind": partial(IndexChooser, compute_bound, by_kind=True),
    "Thompson per kind": partial(IndexChooser, draw_belief, by_kind=True),
}
"""Simple bandits: over agents as KABB's beliefs are, and for each kind of task by itself."""


MISLED = ", claims by chance"


class KabbStudy(FrozenModel):
    """The worlds of a seed: with the agents' own claims, and with claims by chance."""

    world: BranchingParameters = BranchingParameters()

    @property
    def worlds(self) -> dict[str, BranchingParameters]:
        """Parameters by the ending of a system's name."""
        return {"": self.world, MISLED: self.world.replace(claims=False)}


async def run_seed(study: KabbStudy, seed: int) -> WorldResult:
    """All systems in a seed's world; those that read claims also where these are by chance."""
    figures: dict[str, dict[str, float]] = {}
    for ending, given in study.worlds.items():
        world, embedder = make_world(given, seed), HashingEmbedder()
        systems: dict[str, Chooser] = {
            f"{name}{ending}": KabbChooser(world.workflow, config, embedder)
            for name, config in KABB.items()
            if not ending or name == MAIN
        }
        if not ending:
            systems |= {name: make() for name, make in INDEXES.items()}
            figures |= {name: _summarise(values, given) for name, values in compute_bounds(world, given).items()}
        for name, system in systems.items():
            run = partial(run_task, world, ceiling=given.ceiling)
            scores, decided = await play(system, run, world.kinds, given.batch, seed)
            figures[name] = {**_summarise(scores, given), "made": decided.made, "free": decided.free}
    return WorldResult(seed=seed, figures=figures)


def compute_bounds(world: BranchingWorld, given: BranchingParameters) -> dict[str, Floats]:
    """Exact scores per task: by chance, of the best choice for all kinds alike, and of the best for each kind."""
    values = world.values.reshape(len(world.values), -1)[world.kinds]  # (tasks, choices)
    phases = np.split(values, [given.known])
    alike = np.concatenate([phase[:, phase.mean(axis=0).argmax()] for phase in phases if len(phase)])
    return {UNIFORM: values.mean(axis=1), FIXED: alike, ORACLE: values.max(axis=1)}


TaskRun = Callable[[Router, int, Scope], Run]
"""Runs the task of a number by a router."""


async def play(
    system: Chooser, run: TaskRun, kinds: npt.NDArray[np.int64], batch: int, seed: int
) -> tuple[Floats, DecisionCount]:
    """A system on all tasks: its decisions' probability of solving each, and how many decisions were free."""
    scores, decided = [], []
    for iteration, start in enumerate(range(0, len(kinds), batch)):
        known = [int(kind) for kind in kinds[start : start + batch]]
        lessons = []
        for number, kind in enumerate(known, start):
            done = run(await system.prepare(kind), number, Scope(seed=seed, iteration=iteration, phase="rollout"))
            scores.append(done.value)
            decided.append(count_decisions(done.trajectory.steps))
            solved = done.trajectory.feedback is not None and done.trajectory.feedback.solved
            match = system.match(kind)
            lessons.append(make_lesson(done.trajectory, Loss(solved=solved), done.passed, match, system.workflow))
        system.learn([lesson for lesson in lessons if lesson is not None], known)
    return np.array(scores), sum_decisions(decided) or DecisionCount()


def _summarise(scores: Floats, given: BranchingParameters) -> dict[str, float]:
    """Sums up to the checkpoints, and means of the last known and of the first new tasks."""
    known, new = np.split(scores, [given.known])
    sums = {f"sum {count}": float(known[:count].sum()) for count in CHECKPOINTS}
    return {**sums, "last": float(known[-LAST:].mean()), **{f"new {n}": float(new[:n].mean()) for n in FIRST}}


STUDY = KabbStudy()
OF_NEW_KINDS = Scale(f"new {FIRST[0]}", UNIFORM, ORACLE, MAIN)
SCALE = Scale(f"sum {CHECKPOINTS[-1]}", UNIFORM, ORACLE, MAIN, CHECKPOINTS[-1])
WORLD = World(
    STUDY,
    run_seed,
    scale=SCALE,
    claims=(
        SCALE.claim("KABB", UNIFORM),
        SCALE.claim("knowledge distance", "KABB w/o knowledge distance"),
        OF_NEW_KINDS.claim("knowledge distance, first tasks of new kinds", "KABB w/o knowledge distance"),
        SCALE.claim("synergy", "KABB w/o synergy"),
        SCALE.claim("decay of beliefs", "KABB w/o decay"),
        SCALE.claim("a bandit that reads claims", "greedy per kind"),
    ),
    tables=format_tables,
)
