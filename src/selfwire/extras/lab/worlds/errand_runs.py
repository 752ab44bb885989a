"""Systems on errands: the trained router and its baselines, many tasks at a time, without a language model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from selfwire.core.agent import Agent
from selfwire.core.protocols import Embedder
from selfwire.evals.benchmarks.errands import POOL, RIGHT, STAGES, Errand, compute_settling_chances, has_settled
from selfwire.evolvers.router.choosers import DrawnLayers, draw_layers, draw_layers_by_chance
from selfwire.evolvers.router.config import HeadConfig, SamplingConfig
from selfwire.evolvers.router.decisions import Decision, Episode, LayeredWorkflow, agent_text
from selfwire.evolvers.router.heads import Vectors, pad_rows, row_texts

if TYPE_CHECKING:
    from selfwire.evolvers.router.head import RoutingHead

IDS = tuple(agent.id for agent in POOL)
SAMPLING = SamplingConfig()
EVALUATOR_ERROR = 0.1
"""Error rate of the evaluator that gives process rewards."""

Integers = npt.NDArray[np.int64]
Rows = tuple[str, ...]


class ErrandStage(NamedTuple):
    """Input of a system at a stage, for the open tasks; the situations are hidden, and only the task reads them."""

    number: int
    rows: list[Rows]
    situations: Integers


Choose = Callable[[ErrandStage, np.random.Generator], DrawnLayers]


Settle = Callable[[Integers, Integers, np.random.Generator], npt.NDArray[np.bool_]]
"""Which of (B,) situations are settled by orders (B, L, K)."""


@dataclass(frozen=True)
class Rules:
    """How a family of tasks is played.

    Attributes:
        ids: of its pool.
        stages: T, most stages of a task.
        partial: whether the reward is the share of settled situations; off, it is 1 for a solved task and else 0.
    """

    settle: Settle = has_settled
    ids: tuple[str, ...] = IDS
    sampling: SamplingConfig = SAMPLING
    stages: int = STAGES
    partial: bool = False


ERRANDS = Rules()


@dataclass(frozen=True)
class ErrandEmbeddings:
    """Embeddings by text, of rows and of their words, and of agents in the order of the pool: (N, d)."""

    texts: Mapping[str, Vectors]
    agents: Vectors
    ids: tuple[str, ...] = IDS

    @cached_property
    def by_agent(self) -> dict[str, Vectors]:
        """Embedding by agent id."""
        return dict(zip(self.ids, self.agents, strict=True))


async def embed_errands(
    tasks: Sequence[Errand], embedder: Embedder, heads: Sequence[HeadConfig], pool: Sequence[Agent] = POOL
) -> ErrandEmbeddings:
    """Embed all possible texts of tasks, in one batch."""
    states = {task.rows(done, bad) for task in tasks for done in range(len(task.texts)) for bad in (False, True)}
    texts = list(dict.fromkeys(text for state in sorted(states) for head in heads for text in row_texts(state, head)))
    vectors = dict(zip(texts, await embedder.embed(texts), strict=True))
    agents = await embedder.embed([agent_text(agent) for agent in pool])
    return ErrandEmbeddings(vectors, agents, tuple(agent.id for agent in pool))


def make_head_chooser(head: "RoutingHead", embeddings: ErrandEmbeddings, rules: Rules = ERRANDS) -> Choose:
    """Draw from a head's probabilities."""

    def choose(stage: ErrandStage, random: np.random.Generator) -> DrawnLayers:
        rows, filled = pad_rows([row_texts(row, head.config) for row in stage.rows], embeddings.texts)
        return draw_layers(head, rows, filled, embeddings.agents, sampling=rules.sampling, random=random)

    return choose


def choose_by_chance(stage: ErrandStage, random: np.random.Generator) -> DrawnLayers:
    """Draw by the same rule from a uniform p."""
    return draw_layers_by_chance(len(stage.rows), len(POOL), sampling=SAMPLING, random=random)


def make_fixed_chooser(pick: Callable[[ErrandStage], Integers]) -> Choose:
    """Make a chooser that picks an agent and takes it in every layer."""

    def choose(stage: ErrandStage, random: np.random.Generator) -> DrawnLayers:
        order = np.repeat(pick(stage)[:, None, None], SAMPLING.layers, axis=1)
        return DrawnLayers(order, np.zeros((*order.shape[:2], len(POOL))), np.zeros(len(order)))

    return choose


def run_errand(
    tasks: Sequence[Errand], choose: Choose, random: np.random.Generator, rules: Rules = ERRANDS
) -> tuple[npt.NDArray[np.bool_], list[Episode]]:
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
        stage = ErrandStage(number, rows, np.array([tasks[i].situations[settled[i]] for i in open_]))
        drawn = choose(stage, random)
        right = rules.settle(stage.situations, drawn.order, random)
        judged = right ^ (random.random(len(right)) < EVALUATOR_ERROR)
        for place, i in enumerate(open_):
            decisions[i].append(_make_decision(rows[place], tuple(map(tuple, drawn.order[place].tolist())), rules.ids))
            process[i].append(float(judged[place]))
        settled[open_] += right
        failed[open_] = ~right
    solved = settled == lengths
    rewards = settled / lengths if rules.partial else solved
    made = zip(decisions, rewards, process, strict=True)
    return solved, [Episode(decisions=tuple(d), reward=float(s), process=tuple(p)) for d, s, p in made]


@lru_cache(maxsize=20_000)
def _make_decision(rows: Rows, order: tuple[tuple[int, ...], ...], ids: tuple[str, ...]) -> Decision:
    layers = tuple(tuple(ids[agent] for agent in layer if agent >= 0) for layer in order)
    return Decision(rows=rows, agents=ids, layered=LayeredWorkflow(layers=layers))


def list_sets(rules: Rules = ERRANDS) -> list[tuple[int, ...]]:
    """All sets of agents that a layer may hold."""
    count = len(rules.ids)
    width = min(rules.sampling.width or count, count)
    return [chosen for size in range(1, width + 1) for chosen in combinations(range(count), size)]


def find_best_fixed(tasks: Sequence[Errand]) -> float:
    """Expected share solved by the best of all fixed teams, chosen on the same tasks.

    A fixed team has a set of up to `width` agents in each layer; expectations are exact, not sampled.
    """
    sets = list_sets()
    helping = np.stack([compute_settling_chances([agents]) for agents in sets])
    passing = np.array([(np.array(agents) == IDS.index("relay")).mean() for agents in sets])[:, None]
    chances = helping
    for _ in range(SAMPLING.layers - 2):
        chances = (helping[:, None] + passing[:, None] * chances[None]).reshape(-1, helping.shape[1])
    stages = (last + handed * chances for last, handed in zip(helping, passing, strict=True))
    return find_best_solved(stages, tasks)


def find_best_solved(
    chances: Iterable[npt.NDArray[np.float64]], tasks: Sequence[Errand], stages: int = STAGES
) -> float:
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


def find_best_constant(learned: Sequence[Errand], tasks: Sequence[Errand]) -> float:
    """Share solved by the best constant choice per stage, chosen on the tasks for learning.

    One agent per stage in all layers is enough, as the expected share is linear in each stage's mixture of agents.
    """
    plans = np.array(list(product(range(len(POOL)), repeat=STAGES)))
    return float(_solved_by(plans[[_solved_by(plans, learned).argmax()]], tasks)[0])


def _solved_by(plans: Integers, tasks: Sequence[Errand]) -> npt.NDArray[np.float64]:
    total = np.zeros(len(plans))
    for task in tasks:
        needs = RIGHT[list(task.situations)]
        settled = np.zeros(len(plans), dtype=np.int64)
        for stage in range(STAGES):
            settled += (settled < len(needs)) & (plans[:, stage] == needs[np.minimum(settled, len(needs) - 1)])
        total += settled == len(needs)
    return total / len(tasks)


def make_lookup_chooser(
    embeddings: ErrandEmbeddings,
    states: Sequence[Rows],
    agents: Sequence[int],
    values: Sequence[float],
    *,
    nearest: int,
) -> Choose:
    """The agent of the highest mean value among the nearest examples, by the mean embedding of their states' rows."""

    def read(rows: Sequence[Rows]) -> Vectors:
        return to_units([np.mean([embeddings.texts[text] for text in row], axis=0) for row in rows])

    vote = _make_voter(read, states, agents, values, nearest)

    def pick(stage: ErrandStage) -> Integers:
        sums, counts = vote(stage)
        best: Integers = np.where(counts > 0, sums / np.maximum(counts, 1), -1.0).argmax(axis=1)
        return best

    return make_fixed_chooser(pick)


def make_sampled_lookup_chooser(
    embeddings: ErrandEmbeddings,
    states: Sequence[Rows],
    agents: Sequence[int],
    values: Sequence[float],
    *,
    nearest: int,
    softness: float | None = None,
) -> Choose:
    """The strongest look-up: it reads the active subtask only, and draws, so that it can try again.

    Args:
        softness: of the softmax over an agent's mean value among them; None draws by the sums of values.
    """
    vote = _make_voter(
        lambda rows: to_units([embeddings.texts[row[0]] for row in rows]), states, agents, values, nearest
    )

    def choose(stage: ErrandStage, random: np.random.Generator) -> DrawnLayers:
        sums, counts = vote(stage)
        shares = sums if softness is None else np.exp(sums / np.maximum(counts, 1) / softness)
        ends = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
        picked = (random.random(len(ends))[:, None] > ends).sum(axis=1).clip(max=len(POOL) - 1)
        return make_fixed_chooser(lambda _: picked)(stage, random)

    return choose


def _make_voter(
    read: Callable[[Sequence[Rows]], Vectors],
    states: Sequence[Rows],
    agents: Sequence[int],
    values: Sequence[float],
    nearest: int,
) -> Callable[[ErrandStage], tuple[Vectors, Integers]]:
    """Sums of values and numbers of votes by agent, (B, agents), among the nearest examples."""
    table, chosen, worth = read(states), np.array(agents), np.array(values)

    def vote(stage: ErrandStage) -> tuple[Vectors, Integers]:
        near = np.argsort(-(read(stage.rows) @ table.T), axis=1, kind="stable")[:, :nearest]
        mine = chosen[near][..., None] == np.arange(len(POOL))
        return (mine * worth[near][..., None]).sum(axis=1), mine.sum(axis=1)

    return vote


def to_units(vectors: Sequence[Vectors]) -> Vectors:
    """Vectors of length 1, as rows."""
    rows = np.stack(vectors)
    unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
