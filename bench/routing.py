"""What EvoMAS's trained router costs: a decision, a draw, and an update of many episodes beside one at a time.

Embedding is left out: vectors are drawn. An episode one at a time is the same update with a batch of one each,
gradients added up, one step at the end.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from selfwire.bench.team import Row
from selfwire.evolvers.trained_router.choosers import draw_layers
from selfwire.evolvers.trained_router.config import SamplingConfig, TrainConfig
from selfwire.evolvers.trained_router.decisions import Decision, Episode, LayeredWorkflow
from selfwire.evolvers.trained_router.encoding import Vectors, make_batch
from selfwire.evolvers.trained_router.reinforce import advantages, compute_returns, get_decisions
from selfwire.evolvers.trained_router.sampling import draw

if TYPE_CHECKING:
    from selfwire.evolvers.trained_router.head import RoutingHead
    from selfwire.evolvers.trained_router.reinforce import Learner

DIMENSIONS, STAGES, ROWS = 384, 4, 8
SAMPLING = SamplingConfig()


def measure_routing(
    sizes: Sequence[int] = (7, 100, 1000), episodes: int = 64, agents: int = 7, draws: int = 1000, rounds: int = 5
) -> list[Row]:
    """Measure on one thread of torch; the batched and the plain forms take turns."""
    import torch

    torch.set_num_threads(1)
    rows = []
    for size in sizes:
        state = _state(size)
        draw_state_layers(*state)
        value = median(_seconds(partial(draw_state_layers, *state)) for _ in range(rounds))
        rows.append(Row(what=f"layers for one state, {size} agents", value=value * 1e3, unit="ms"))
    whole, single = compare_ways(partial(_drawn, draws, agents), partial(_drawn_singly, draws, agents), rounds)
    rows.append(Row(what=f"{draws} draws among {agents} agents, as one batch", value=whole * 1e3, unit="ms"))
    rows.append(Row(what="  as a share of one at a time", value=whole / single, unit=""))
    batch, names, texts = draw_episodes(episodes, agents)
    learner = _learner()
    whole, single = compare_ways(
        partial(learner.update, batch, names, texts), partial(update_one_by_one, learner, batch, names, texts), rounds
    )
    rows.append(
        Row(what=f"update of {episodes} episodes of {STAGES} stages, {agents} agents", value=whole * 1e3, unit="ms")
    )
    rows.append(Row(what="  as a share of one at a time", value=whole / single, unit="", bound=1 / 3))
    return rows


def compare_ways(fast: Callable[[], object], slow: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median seconds of two ways, after one warm-up each."""
    fast()
    slow()
    taken = [(_seconds(fast), _seconds(slow)) for _ in range(rounds)]
    return median(one for one, _ in taken), median(other for _, other in taken)


def draw_state_layers(head: "RoutingHead", rows: Vectors, agents: Vectors) -> None:
    """Draw the layers of one state."""
    filled = np.ones(rows.shape[:2], dtype=np.bool_)
    draw_layers(head, rows, filled, agents, sampling=SAMPLING, random=np.random.default_rng(0))


def update_one_by_one(
    learner: "Learner", episodes: Sequence[Episode], agents: dict[str, Vectors], texts: dict[str, Vectors]
) -> None:
    """The update without batching: the gradient of each episode, added up, and one step."""
    import torch

    weights = advantages(compute_returns(episodes, stages=STAGES), baseline="loo")
    learner.optimiser.zero_grad(set_to_none=True)
    for episode, advantage in zip(episodes, weights, strict=True):
        batch = make_batch(get_decisions([episode]), agents, texts, learner.head.config)
        score, entropy = learner.objective(batch, np.array(advantage), 1)
        torch.autograd.backward(-(score + learner.config.entropy * entropy) / len(episodes))
    torch.nn.utils.clip_grad_norm_(learner.head.parameters(), learner.config.clip or float("inf"))
    learner.optimiser.step()


def draw_episodes(count: int, agents: int) -> tuple[list[Episode], dict[str, Vectors], dict[str, Vectors]]:
    """Random episodes, half of them solved, with embeddings of agents and rows."""
    random = np.random.default_rng(0)
    names = tuple(f"agent-{number}" for number in range(agents))
    texts = [f"row {number}" for number in range(count * STAGES * ROWS)]

    def decision(place: int) -> Decision:
        layers = tuple(tuple(random.permutation(names)[:2].tolist()) for _ in range(SAMPLING.layers))
        return Decision(rows=tuple(texts[place : place + ROWS]), agents=names, layered=LayeredWorkflow(layers=layers))

    made = []
    for number in range(count):
        starts = [(number * STAGES + stage) * ROWS for stage in range(STAGES)]
        made.append(Episode(decisions=tuple(map(decision, starts)), reward=float(number % 2)))
    known = dict(zip(names, make_unit_vector(random, agents), strict=True))
    return made, known, dict(zip(texts, make_unit_vector(random, len(texts)), strict=True))


def make_unit_vector(random: np.random.Generator, *shape: int) -> Vectors:
    """Random unit vectors of the embedder's dimensions."""
    made = random.normal(size=(*shape, DIMENSIONS)).astype(np.float32)
    rows: Vectors = made / np.linalg.norm(made, axis=-1, keepdims=True)
    return rows


def _state(agents: int) -> tuple["RoutingHead", Vectors, Vectors]:
    random = np.random.default_rng(0)
    return _learner().head, make_unit_vector(random, 1, ROWS), make_unit_vector(random, agents)


def _drawn(count: int, agents: int) -> None:
    draw(np.zeros((count, agents)), mass=0.5, random=np.random.default_rng(0), width=3)


def _drawn_singly(count: int, agents: int) -> None:
    random = np.random.default_rng(0)
    for _ in range(count):
        draw(np.zeros((1, agents)), mass=0.5, random=random, width=3)


def _learner() -> "Learner":
    from selfwire.evolvers.trained_router.head import RoutingHead
    from selfwire.evolvers.trained_router.reinforce import Learner

    return Learner(RoutingHead(DIMENSIONS), TrainConfig(), SAMPLING, stages=STAGES)


def _seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
