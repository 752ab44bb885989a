"""Does the head use state and layers? Routers of several designs on relays, trained by the rewards of their own runs.

All learn from the same number of episodes of the same tasks, with the same optimiser. Held-out tasks are other
combinations of the same wordings.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from selfwire.core.errors import refuse_missing
from selfwire.core.protocols import Embedder
from selfwire.core.values import FrozenModel
from selfwire.evolvers.router.choosers import DrawnLayers, draw_layers_by_chance
from selfwire.evolvers.router.config import PAPER_HEAD, HeadConfig, TrainConfig, paper_training
from selfwire.evolvers.router.decisions import Episode
from selfwire.evolvers.router.heads import Vectors
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.evomas.relay_runs import (
    Choose,
    RelayEmbeddings,
    RelayStage,
    Rows,
    Rules,
    draw_tasks,
    embed_relays,
    find_best_solved,
    make_head_chooser,
    run_relays,
    to_units,
)
from selfwire.extras.lab.worlds.evomas.relay_tasks import (
    HELPERS,
    IDS,
    SAMPLING,
    STAGES,
    Integers,
    RelayTask,
    StandIns,
    View,
    compute_stage_chances,
    draw_pairs,
    generate_relays,
    settle_relays,
)
from selfwire.extras.lab.worlds.gains import Scale, WorldResult
from selfwire.models.embeddings import load_embedder

NEAREST, EXAMPLES, SHARP = 1000, 10_000, 0.03
"""Neighbours, examples and softness of the look-ups."""
FIRST_SEED = 100
"""What is drawn from seed 0 was looked at while sizes and rates were chosen."""
REPEATS = 4
"""Runs per held-out task."""
RANDOM, ORACLE, FIXED, SPARSE_RANDOM = "random", "oracle", "best fixed workflow", "sparse: random"
HEAD = "the head"
LINEAR_SUBTASK, LINEAR = "linear, subtask row", "linear, all rows and layers"
SPARSE, MASTERS = "sparse: ", "masters swap: "


class RouterSystem(NamedTuple):
    """A router that is trained: its design, its training, what it sees, and the tasks that it has."""

    head: HeadConfig = HeadConfig()
    training: TrainConfig = TrainConfig()
    view: View = "all"
    process: bool = False
    stand_ins: StandIns = "others"
    errands: int = 1


SUCCESS = TrainConfig(partial=False)
TWO = RouterSystem(errands=2)
SYSTEMS: Mapping[str, RouterSystem] = {
    HEAD: RouterSystem(),
    "the head w/o layer context": RouterSystem(HeadConfig(reads="state")),
    "the head w/o results of stages": RouterSystem(view="no results"),
    "the head w/o task state": RouterSystem(view="objective"),
    "the head, the paper's REINFORCE": RouterSystem(training=paper_training()),
    "the paper's head": RouterSystem(PAPER_HEAD),
    "the paper's head and REINFORCE": RouterSystem(PAPER_HEAD, paper_training()),
    LINEAR_SUBTASK: RouterSystem(HeadConfig(design="linear", reads="subtask")),
    LINEAR: RouterSystem(HeadConfig(design="linear")),
    f"{SPARSE}{HEAD}": RouterSystem(training=SUCCESS, errands=2),
    f"{SPARSE}w/o baseline": RouterSystem(training=SUCCESS.replace(baseline="none"), errands=2),
    f"{SPARSE}with process reward": RouterSystem(training=SUCCESS, process=True, errands=2),
    f"{MASTERS}{HEAD}": RouterSystem(stand_ins="each other"),
    f"{MASTERS}{HEAD}, paired rows": RouterSystem(HeadConfig(state="paired"), stand_ins="each other"),
    f"{MASTERS}{LINEAR}": RouterSystem(HeadConfig(design="linear"), stand_ins="each other"),
    f"{MASTERS}linear, paired rows and layers": RouterSystem(
        HeadConfig(design="linear", state="paired"), stand_ins="each other"
    ),
}
"""The routers that are trained. Rewards are sparse where both of two errands have to be settled in three stages."""


class RelayStudy(FrozenModel):
    """The world.

    Args:
        tasks: of each split and length.
        rate: Adam's step, of all routers.
        routers: name of the world whose routers are trained; rows of one world are none of another.
    """

    routers: str = "relays"

    tasks: int = 100
    updates: int = 300
    batch: int = 128
    rate: float = 1e-3
    embedder: str = "hashing"


@dataclass(frozen=True)
class RelayWorld:
    """A seed's tasks by their number of errands, who settles them, and all embeddings."""

    study: RelayStudy
    seed: int
    learn: Mapping[int, Sequence[RelayTask]]
    test: Mapping[int, Sequence[RelayTask]]
    pairs: Mapping[StandIns, Integers]
    embeddings: RelayEmbeddings

    def get_rules(self, system: RouterSystem = RouterSystem()) -> Rules:
        """The rules of a system's tasks."""
        settle = partial(settle_relays, self.pairs[system.stand_ins])
        return Rules(settle, STAGES[system.errands], system.training.partial)


async def make_world(
    study: RelayStudy, seed: int, embedder: Embedder, systems: Iterable[RouterSystem] = tuple(SYSTEMS.values())
) -> RelayWorld:
    """The world of a seed, embedded for the heads of these systems."""
    learn, test = (
        {errands: generate_relays(study.tasks, length=errands, seed=seed, held_out=held) for errands in STAGES}
        for held in (False, True)
    )
    tasks = [task for split in (learn, test) for some in split.values() for task in some]
    seen = [task.replace(view=view) for task in tasks for view in ("all", "objective")]
    heads = list({system.head.state: system.head for system in systems if system.head.reads != "subtask"}.values())
    pairs: dict[StandIns, Integers] = {who: draw_pairs(seed, who) for who in ("others", "each other")}
    return RelayWorld(study, seed, learn, test, pairs, await embed_relays(seen, embedder, heads))


def run_seed(study: RelayStudy, seed: int) -> WorldResult:
    """All systems on one seed's tasks."""
    world = load_world(study, seed, SYSTEMS.values())
    figures = run_systems(world, SYSTEMS) | run_lookups(world)
    figures[SPARSE_RANDOM] = measure(world, choose_by_chance, TWO)
    chances = compute_stage_chances(world.pairs["others"])
    figures[FIXED] = {"solved": find_best_solved(chances, world.test[1], STAGES[1])}
    return WorldResult(seed=seed, figures=figures)


def run_routers(study: RelayStudy, systems: Mapping[str, RouterSystem], seed: int) -> WorldResult:
    """Routers that are trained on one seed's tasks, beside chance and the oracle."""
    return WorldResult(seed=seed, figures=run_systems(load_world(study, seed, systems.values()), systems))


def load_world(study: RelayStudy, seed: int, systems: Iterable[RouterSystem]) -> RelayWorld:
    """The world of a fresh seed, which no choice of a design has seen."""
    refuse_missing("torch", "the worlds of evomas")
    import torch

    torch.set_num_threads(1)
    return asyncio.run(make_world(study, FIRST_SEED + seed, load_embedder(study.embedder)[0], systems))


def run_systems(world: RelayWorld, systems: Mapping[str, RouterSystem]) -> dict[str, dict[str, float]]:
    """Figures of all systems, of chance and of the oracle."""
    figures = {name: run_system(world, system) for name, system in systems.items()}
    return {**figures, RANDOM: measure(world, choose_by_chance), ORACLE: measure(world, make_oracle(world))}


def run_system(world: RelayWorld, system: RouterSystem, teacher: Choose | None = None) -> dict[str, float]:
    """Train a router by the rewards of its own runs, or of a teacher's, and measure it on held-out tasks."""
    from selfwire.evolvers.router.head import RoutingHead
    from selfwire.evolvers.router.reinforce import Learner

    study, rules, tasks = world.study, world.get_rules(system), show(world.learn, system)
    head = RoutingHead(world.embeddings.agents.shape[1], system.head.replace(seed=world.seed))
    training = system.training.replace(rate=study.rate)
    learner = Learner(head, training, SAMPLING, stages=rules.stages, process=system.process)
    choose = make_head_chooser(head, world.embeddings)
    for number in range(study.updates):
        drawn = draw_tasks(tasks, study.batch, world.seed, number)
        random = np.random.default_rng(0 if teacher else [world.seed, 4, number])
        _, episodes = run_relays(drawn, teacher or choose, random, rules)
        learner.update(episodes, world.embeddings.by_agent, world.embeddings.texts)
    return measure(world, choose, system)


def show(tasks: Mapping[int, Sequence[RelayTask]], system: RouterSystem) -> list[RelayTask]:
    """A system's tasks as it sees them."""
    return [task.replace(view=system.view) for task in tasks[system.errands]]


def choose_by_chance(stage: RelayStage, random: np.random.Generator) -> DrawnLayers:
    """Draw by the same rule from a uniform p."""
    return draw_layers_by_chance(len(stage.rows), len(HELPERS), sampling=SAMPLING, random=random)


def measure(world: RelayWorld, choose: Choose, system: RouterSystem = RouterSystem()) -> dict[str, float]:
    """Share of held-out tasks solved, and decisions: one per layer."""
    counted = {"made": 0.0, "free": 0.0}

    def count(stage: RelayStage, random: np.random.Generator) -> DrawnLayers:
        drawn = choose(stage, random)
        counted["made"] += drawn.order.shape[0] * drawn.order.shape[1]
        counted["free"] += float(((drawn.probabilities > 0).sum(axis=2) > 1).sum())
        return drawn

    random = np.random.default_rng([world.seed, 1])
    solved, _ = run_relays(show(world.test, system) * REPEATS, count, random, world.get_rules(system))
    return {"solved": float(solved.mean()), **counted}


def make_oracle(world: RelayWorld, stand_ins: StandIns = "others") -> Choose:
    """Make the chooser that knows the situation, the day and the pairs."""

    def choose(stage: RelayStage, random: np.random.Generator) -> DrawnLayers:
        order = world.pairs[stand_ins][stage.situations][..., None]
        return DrawnLayers(order, np.zeros((*order.shape[:2], len(HELPERS))), np.zeros(len(order)))

    return choose


def run_lookups(world: RelayWorld) -> dict[str, dict[str, float]]:
    """Look-ups on rewards of as many runs by chance as the routers have runs of their own."""
    tasks = draw_tasks(world.learn[1], world.study.updates * world.study.batch, world.seed)
    _, episodes = run_relays(tasks, choose_by_chance, np.random.default_rng([world.seed, 3]), world.get_rules())
    texts = world.embeddings.texts

    def read_subtask(rows: Sequence[Rows]) -> Vectors:
        return to_units([texts[state[0]] for state in rows])

    def read_all(rows: Sequence[Rows]) -> Vectors:
        return to_units([np.mean([texts[text] for text in state], axis=0) for state in rows])

    readers = {"look-up, subtask row and layers": read_subtask, "look-up, all rows and layers": read_all}
    return {name: measure(world, LayerLookup(read, episodes)) for name, read in readers.items()}


class LayerLookup:
    """Draws a layer's agents by mean rewards of those that stood there in similar states, behind the one before."""

    def __init__(self, read: Callable[[Sequence[Rows]], Vectors], episodes: Sequence[Episode]) -> None:
        examples = [(decision, episode.reward or 0.0) for episode in episodes for decision in episode.decisions]
        kept = [examples[i] for i in np.random.default_rng(0).permutation(len(examples))[:EXAMPLES]]
        self.read, self.table = read, read([decision.rows for decision, _ in kept])
        self.rewards = np.array([reward for _, reward in kept])
        self.chosen = np.array(
            [[[name in layer for name in IDS] for layer in decision.layered.layers] for decision, _ in kept]
        )  # (examples, layers, agents)

    def __call__(self, stage: RelayStage, random: np.random.Generator) -> DrawnLayers:
        """Draw one agent per layer."""
        states = self.read(list(dict.fromkeys(stage.rows)))
        place = {rows: number for number, rows in enumerate(dict.fromkeys(stage.rows))}
        likeness = states @ self.table.T
        few = min(NEAREST, likeness.shape[1])
        near = np.argpartition(-likeness, few - 1, axis=1)[:, :few][[place[rows] for rows in stage.rows]]
        order, shares = [], []
        known = np.ones(near.shape, dtype=np.bool_)
        for layer in range(SAMPLING.layers):
            mine = self.chosen[near, layer] & known[..., None]
            counts = np.maximum(mine.sum(axis=1), 1)
            raised = np.exp((mine * self.rewards[near][..., None]).sum(axis=1) / counts / SHARP)
            shares.append(raised / raised.sum(axis=1, keepdims=True))
            ends = np.cumsum(shares[-1], axis=1)[:, :-1]
            picked = (random.random(len(near))[:, None] > ends).sum(axis=1)
            order.append(picked)
            known = self.chosen[near, layer, picked[:, None]]
        return DrawnLayers(np.stack(order, axis=1)[..., None], np.stack(shares, axis=1), np.zeros(len(near)))


STUDY = RelayStudy()
SCALE = Scale("solved", RANDOM, ORACLE, HEAD)
OF_SPARSE = Scale("solved", SPARSE_RANDOM, ORACLE, f"{SPARSE}{HEAD}")
WORLD = World(
    STUDY,
    run_seed,
    scale=SCALE,
    claims=(
        SCALE.claim("attention and layers, against a linear policy on the subtask", LINEAR_SUBTASK),
        SCALE.claim("attention, against a linear policy on the same inputs", LINEAR),
        SCALE.claim("task state", "the head w/o task state"),
        SCALE.claim("results of earlier stages", "the head w/o results of stages"),
        SCALE.claim("earlier layers", "the head w/o layer context"),
        SCALE.claim("design of the head, against the paper's", "the paper's head"),
        SCALE.claim("our REINFORCE, against the paper's", "the head, the paper's REINFORCE"),
        OF_SPARSE.claim("baseline, sparse rewards", f"{SPARSE}w/o baseline"),
        OF_SPARSE.claim("process reward, sparse rewards", f"{SPARSE}{HEAD}", f"{SPARSE}with process reward"),
        SCALE.claim(
            "rows paired with the subtask, masters swap", f"{MASTERS}{HEAD}", main=f"{MASTERS}{HEAD}, paired rows"
        ),
    ),
)
