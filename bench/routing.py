"""The cost of the trained router: an update of many episodes against one at a time.

Embedding is left out: vectors are random. "One at a time" is the same update in batches of one episode, with gradients
added up and one step at the end.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bench.measuring import Row, measure_by_turns
from selfwire.evolvers.router.batch import Vectors, make_batch
from selfwire.evolvers.router.config import SamplingConfig, TrainConfig
from selfwire.evolvers.router.decisions import Decision, Episode, LayeredWorkflow
from selfwire.evolvers.router.reinforce import advantages, compute_returns, get_decisions

if TYPE_CHECKING:
    from selfwire.evolvers.router.reinforce import Learner

DIMENSIONS, STAGES, ROWS = 384, 4, 8
SAMPLING = SamplingConfig()


def measure_routing(episodes: int = 64, agents: int = 7, rounds: int = 5) -> list[Row]:
    """Measure on one thread of torch; the batched and the plain forms take turns."""
    import torch

    torch.set_num_threads(1)
    batch, names, texts = draw_episodes(episodes, agents)
    learner = _make_learner()
    whole, single = measure_by_turns(
        partial(learner.update, batch, names, texts),
        partial(update_one_by_one, learner, batch, names, texts),
        rounds=rounds,
    )
    what = f"update of {episodes} episodes of {STAGES} stages, {agents} agents"
    return [
        Row(what=what, value=whole.wall * 1e3, unit="ms"),
        Row(what="  as a share of one at a time", value=whole.wall / single.wall, unit="", bound=1 / 3),
    ]


def update_one_by_one(
    learner: "Learner", episodes: Sequence[Episode], agents: dict[str, Vectors], texts: dict[str, Vectors]
) -> None:
    """The update without batching: the gradient of each episode, added up, and one step."""
    import torch

    weights = advantages(compute_returns(episodes, stages=STAGES), baseline="loo")
    learner.optimiser.zero_grad(set_to_none=True)
    for episode, advantage in zip(episodes, weights, strict=True):
        batch = make_batch(get_decisions([episode]), agents, texts, learner.head.config)
        score, entropy = learner.objective(batch, np.array(advantage), np.zeros(len(advantage)), 1)
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

    episodes = []
    for number in range(count):
        starts = [(number * STAGES + stage) * ROWS for stage in range(STAGES)]
        episodes.append(Episode(decisions=tuple(map(decision, starts)), reward=float(number % 2)))
    embedded = dict(zip(names, make_unit_vector(random, agents), strict=True))
    return episodes, embedded, dict(zip(texts, make_unit_vector(random, len(texts)), strict=True))


def make_unit_vector(random: np.random.Generator, *shape: int) -> Vectors:
    """Random unit vectors of the embedder's dimensions."""
    drawn = random.normal(size=(*shape, DIMENSIONS)).astype(np.float32)
    rows: Vectors = drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)
    return rows


def _make_learner() -> "Learner":
    from selfwire.evolvers.router.head import RoutingHead
    from selfwire.evolvers.router.reinforce import Learner

    return Learner(RoutingHead(DIMENSIONS), TrainConfig(), SAMPLING, stages=STAGES)
