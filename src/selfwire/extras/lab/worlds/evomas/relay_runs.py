"""Runs of routers on relays: many tasks at a time, without a language model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from selfwire.core.protocols import Embedder
from selfwire.evolvers.router.choosers import DrawnLayers, draw_layers
from selfwire.evolvers.router.config import HeadConfig
from selfwire.evolvers.router.decisions import Decision, Episode, LayeredWorkflow, agent_text
from selfwire.evolvers.router.heads import Vectors, pad_rows, row_texts
from selfwire.extras.lab.worlds.evomas.relay_tasks import HELPERS, IDS, SAMPLING, Integers, RelayTask, Switches

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
