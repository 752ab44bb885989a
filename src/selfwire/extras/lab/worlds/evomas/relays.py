"""Does the head use state and layers? Routers of several designs on relays, trained by the rewards of their own runs.

All learn from the same number of episodes of the same tasks, with the same optimiser. Held-out tasks are other
combinations of the same wordings.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from selfwire.core.errors import refuse_missing
from selfwire.core.protocols import Embedder
from selfwire.core.values import FrozenModel
from selfwire.evolvers.router.batch import Vectors, pad_rows, row_texts
from selfwire.evolvers.router.choosers import DrawnLayers, draw_layers, draw_layers_by_chance
from selfwire.evolvers.router.config import PAPER_HEAD, HeadConfig, TrainConfig, paper_training
from selfwire.evolvers.router.decisions import Decision, Episode, LayeredWorkflow, agent_text
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.evomas.relay_tasks import (
    HELPERS,
    IDS,
    SAMPLING,
    STAGES,
    Integers,
    RelayTask,
    StandIns,
    Switches,
    View,
    compute_stage_chances,
    draw_pairs,
    generate_relays,
    settle_relays,
)
from selfwire.extras.lab.worlds.gains import Scale, WorldResult
from selfwire.models.embeddings import load_embedder

if TYPE_CHECKING:
    from selfwire.evolvers.router.head import RoutingHead


EVALUATOR_ERROR = 0.1
"""Error rate of the evaluator that gives process rewards."""

Rows = tuple[str, ...]


class RelayStage(NamedTuple):
    """Input of a system at a stage, for the open tasks; the situations are hidden, and only the task reads them."""

    number: int
    rows: list[Rows]
    situations: Integers


Choose = Callable[[RelayStage, np.random.Generator], DrawnLayers]


Settle = Callable[[Integers, Integers, np.random.Generator], Switches]
"""Which of (B,) situations are settled by orders (B, L, K)."""


@dataclass(frozen=True)
class Rules:
    """How tasks are played.

    Attributes:
        stages: T, most stages of a task.
        partial: whether the reward is the share of settled situations; off, it is 1 for a solved task and else 0.
    """

    settle: Settle
    stages: int
    partial: bool = False


@dataclass(frozen=True)
class RelayEmbeddings:
    """Embeddings by text, of rows and of their words, and of agents in the order of the pool: (N, d)."""

    texts: Mapping[str, Vectors]
    agents: Vectors

    @cached_property
    def by_agent(self) -> dict[str, Vectors]:
        """Embedding by agent id."""
        return dict(zip(IDS, self.agents, strict=True))


async def embed_relays(tasks: Sequence[RelayTask], embedder: Embedder, heads: Sequence[HeadConfig]) -> RelayEmbeddings:
    """Embed all possible texts of tasks, in one batch."""
    states = {task.rows(done, bad) for task in tasks for done in range(len(task.texts)) for bad in (False, True)}
    texts = list(dict.fromkeys(text for state in sorted(states) for head in heads for text in row_texts(state, head)))
    vectors = dict(zip(texts, await embedder.embed(texts), strict=True))
    agents = await embedder.embed([agent_text(agent) for agent in HELPERS])
    return RelayEmbeddings(vectors, agents)


def make_head_chooser(head: "RoutingHead", embeddings: RelayEmbeddings) -> Choose:
    """Draw from a head's probabilities."""

    def choose(stage: RelayStage, random: np.random.Generator) -> DrawnLayers:
        states = pad_rows([row_texts(row, head.config) for row in stage.rows], embeddings.texts)
        return draw_layers(head, states, embeddings.agents, sampling=SAMPLING, random=random)

    return choose


def run_relays(
    tasks: Sequence[RelayTask], choose: Choose, random: np.random.Generator, rules: Rules
) -> tuple[Switches, list[Episode]]:
    """Run all tasks at once: which were solved, and the episodes with rewards."""
    settled = np.zeros(len(tasks), dtype=np.int64)
    failed = np.zeros(len(tasks), dtype=np.bool_)
    decisions: list[list[Decision]] = [[] for _ in tasks]
    process: list[list[float]] = [[] for _ in tasks]
    lengths = np.array([len(task.texts) for task in tasks])
    for number in range(rules.stages):
        open_ = np.flatnonzero(settled < lengths).tolist()
        if not open_:
            break
        rows = [tasks[i].rows(int(settled[i]), bool(failed[i])) for i in open_]
        stage = RelayStage(number, rows, np.array([tasks[i].situations[settled[i]] for i in open_]))
        drawn = choose(stage, random)
        right = rules.settle(stage.situations, drawn.order, random)
        judged = right ^ (random.random(len(right)) < EVALUATOR_ERROR)
        for place, i in enumerate(open_):
            decisions[i].append(_make_decision(rows[place], tuple(map(tuple, drawn.order[place].tolist()))))
            process[i].append(float(judged[place]))
        settled[open_] += right
        failed[open_] = ~right
    solved = settled == lengths
    rewards = settled / lengths if rules.partial else solved
    made = zip(decisions, rewards, process, strict=True)
    return solved, [Episode(decisions=tuple(d), reward=float(s), process=tuple(p)) for d, s, p in made]


@lru_cache(maxsize=20_000)
def _make_decision(rows: Rows, order: tuple[tuple[int, ...], ...]) -> Decision:
    layers = tuple(tuple(IDS[agent] for agent in layer if agent >= 0) for layer in order)
    return Decision(rows=rows, agents=IDS, layered=LayeredWorkflow(layers=layers))


def find_best_solved(chances: Iterable[npt.NDArray[np.float64]], tasks: Sequence[RelayTask], stages: int) -> float:
    """Expected share solved by the best team, of several (W, situations) chances per stage."""
    kinds, counts = np.unique([sorted(task.situations) for task in tasks], axis=0, return_counts=True)
    solved = [_within(settling, kinds, stages) * counts for settling in chances]
    return max(float(by_choice.sum(axis=1).max() / counts.sum()) for by_choice in solved)


def _within(stage: npt.NDArray[np.float64], kinds: Integers, stages: int) -> npt.NDArray[np.float64]:
    """(W, kinds) probability that teams of (W, situations) chances per stage settle (kinds, length) situations."""
    left = np.zeros((kinds.shape[1] + 1, len(stage), len(kinds)))
    left[0] = 1.0
    for _ in range(stages):
        after = left.copy()
        for place in range(kinds.shape[1]):
            moved = left[place] * stage[:, kinds[:, place]]
            after[place] -= moved
            after[place + 1] += moved
        left = after
    solved: npt.NDArray[np.float64] = left[-1]
    return solved


def to_units(vectors: Sequence[Vectors]) -> Vectors:
    """Vectors of length 1, as rows."""
    rows = np.stack(vectors)
    unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def draw_tasks(tasks: Sequence[RelayTask], count: int, seed: int, number: int = 0) -> list[RelayTask]:
    """Tasks for learning, drawn anew for each update."""
    places = np.random.default_rng([seed, 5, number]).integers(len(tasks), size=count)
    return [tasks[int(place)] for place in places]


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
