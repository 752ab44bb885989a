"""REINFORCE on episodes: returns, advantages, and one batched update of the head (Eq. 15, 16; Sec. 4.4).

return     R_t = U + (w / T) * sum_{t' >= t} process_{t'}; w is 0 without process reward                  (D9)
advantage  A_t = R_t - mean of R_t of the question's other episodes                                       (D7)
           for Early-exit: of those of them that could have drawn it as well                             (D28)
update     maximise (1 / E) sum over episodes and stages of A_t log P(G_t | s_t) + entropy bonus
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from selfwire.core.agent import Agent
from selfwire.core.protocols import Embedder
from selfwire.core.team import Team
from selfwire.core.values import FrozenModel, Id, fingerprint
from selfwire.evolvers.router.batch import Batch, Vectors, embed_pool, embed_texts, make_batch, row_texts
from selfwire.evolvers.router.config import RouterConfig, SamplingConfig, TrainConfig
from selfwire.evolvers.router.decisions import Decision, Episode, agent_text, candidates, pool_fingerprint
from selfwire.evolvers.router.weights import (
    MOMENTS,
    NAMES,
    Weights,
    WeightsMetadata,
    get_sampling,
    load_weights,
    refuse_other_pool,
    with_weights,
)

if TYPE_CHECKING:
    from torch import Tensor

    from selfwire.evolvers.router.head import RoutingHead

EQUAL = 1e-12
"""Advantages and differences below it count as 0."""

Floats = npt.NDArray[np.float64]


class Update(FrozenModel):
    """Record of one update.

    Args:
        number: of the update, from 1; a skipped one counts.
        reward: mean U of the episodes with a reward; None without any.
        returned: mean return from the first stage, process reward included.
        entropy: mean entropy in nats of the layers' p.
        gradient_norm: length of the gradient before clipping; 0 for a skipped update.
        episodes: number of episodes with a reward.
        errors: number of episodes that ended with an infrastructure error (D8).
        skipped: whether the weights stayed as they were.
    """

    number: int
    reward: float | None
    returned: float | None
    entropy: float
    gradient_norm: float
    episodes: int
    errors: int
    skipped: bool


def compute_returns(episodes: Sequence[Episode], *, stages: int, weight: float = 0.0) -> list[list[float]]:
    """The return from each stage of each episode (D9).

    Args:
        stages: T, most stages of a task.
        weight: w of the process reward; 0 leaves the terminal reward only.

    Raises:
        ValueError: an episode has no reward, or process rewards that do not match its stages.
    """
    found = []
    for episode in episodes:
        if episode.reward is None:
            raise ValueError("an episode without a reward teaches nothing; leave it out")
        if weight and len(episode.process) != len(episode.decisions):
            raise ValueError(f"{len(episode.decisions)} stages have {len(episode.process)} process rewards")
        process = np.array(episode.process if weight else [0.0] * len(episode.decisions))
        later = np.cumsum(process[::-1])[::-1]
        found.append((episode.reward + weight / stages * later).tolist())
    return found


def advantages(found: Sequence[Sequence[float]], *, baseline: str, questions: Sequence[str] = ()) -> list[list[float]]:
    """Returns minus the mean of the other episodes' (D7): at the same stage, or at the first if no other got there.

    Args:
        baseline: loo or none; with loo a single episode has advantage 0.
        questions: of each episode, if known. An episode is compared with the others of its question, so that a hard
            question teaches nothing by being hard; if it is the only one, with all others.
    """
    if baseline == "none":
        return [list(returns) for returns in found]
    asked = list(questions) or [""] * len(found)

    def average_others(episode: int, stage: int) -> float:
        rest = [number for number in range(len(found)) if number != episode]
        rest = [number for number in rest if asked[number] == asked[episode]] or rest
        reached = [found[number][stage] for number in rest if len(found[number]) > stage]
        others = reached or [found[number][0] for number in rest]
        return sum(others) / len(others) if others else found[episode][stage]

    return [
        [value - average_others(episode, stage) for stage, value in enumerate(returns)]
        for episode, returns in enumerate(found)
    ]


def exit_advantages(
    episodes: Sequence[Episode], found: Sequence[Sequence[float]], *, baseline: str
) -> list[list[float]]:
    """Advantages of Early-exit's decisions, stage by stage; 0 where it could not be drawn (D28).

    An episode's returns from the stages where it could be drawn are compared with those of other episodes alone.
    """
    able = [[decision.layered.exit is not None for decision in episode.decisions] for episode in episodes]
    there = [number for number, stages in enumerate(able) if any(stages)]
    kept = [[value for value, may in zip(found[n], able[n], strict=True) if may] for n in there]
    made = advantages(kept, baseline=baseline, questions=[episodes[n].question for n in there])
    weights = {number: iter(values) for number, values in zip(there, made, strict=True)}
    return [[next(weights[number]) if may else 0.0 for may in stages] for number, stages in enumerate(able)]


class Learner:
    """A head with its optimiser.

    Args:
        head: is trained in place.
        stages: T, most stages of a task.
        process: whether process rewards are part of the return.
    """

    def __init__(
        self,
        head: "RoutingHead",
        config: TrainConfig = TrainConfig(),
        sampling: SamplingConfig = SamplingConfig(),
        *,
        stages: int = 6,
        process: bool = False,
    ) -> None:
        import torch

        self.head, self.config, self.sampling = head, config, sampling
        self.stages, self.weight = stages, config.process_weight if process else 0.0
        self.optimiser = torch.optim.Adam(head.parameters(), lr=config.rate)
        self.updates = 0

    def resume(self, weights: Weights) -> None:
        """Restore the number of updates and the optimiser; the head must come from `weights.make_head`."""
        import torch

        self.updates = weights.card.updates
        if weights.card.steps is None:
            return
        state = {
            index: {
                "step": torch.tensor(float(weights.card.steps)),
                **{moment: torch.from_numpy(weights.tensors[f"adam.{moment}.{name}"].copy()) for moment in MOMENTS},
            }
            for index, name in enumerate(NAMES)
        }
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})

    async def learn(self, episodes: Sequence[Episode], pool: Sequence[Agent], embedder: Embedder) -> Update:
        """Embed the episodes' texts, and update; see `update`."""
        agents = dict(zip([a.id for a in candidates(pool, frozenset())], await embed_pool(pool, embedder), strict=True))
        seen = [text for d in get_decisions(episodes) for text in row_texts(d.rows, self.head.config)]
        return self.update(episodes, agents, await embed_texts(seen, embedder))

    def update(
        self, episodes: Sequence[Episode], agents: Mapping[Id, Vectors], vectors: Mapping[str, Vectors]
    ) -> Update:
        """Take a step of REINFORCE on a batch; episodes without a reward are left out (D8).

        Args:
            agents: embedding by agent id.
            vectors: embedding by text of the rows.

        Raises:
            ValueError: an episode names an unknown agent, or process rewards are missing.
        """
        rewarded = [episode for episode in episodes if episode.reward is not None]
        self.updates += 1
        found = compute_returns(rewarded, stages=self.stages, weight=self.weight)
        mean_entropy, norm, skipped = 0.0, 0.0, True
        if rewarded:
            asked = [episode.question for episode in rewarded]
            weights = advantages(found, baseline=self.config.baseline, questions=asked)
            exits = exit_advantages(rewarded, found, baseline=self.config.baseline)
            batch = make_batch(get_decisions(rewarded), agents, vectors, self.head.config)
            flat, apart = ([weight for episode in some for weight in episode] for some in (weights, exits))
            every = [value for returns in found for value in returns]
            equal = max(map(abs, (*flat, *apart))) < EQUAL or max(every) - min(every) < EQUAL
            skipped = self.config.skip_equal and equal
            score, entropy = self.objective(batch, np.array(flat), np.array(apart), len(rewarded))
            share = min(1.0, len(rewarded) / self.config.batch)
            norm = 0.0 if skipped else self._step(-score - self.config.entropy * entropy, share)
            mean_entropy = float(entropy.detach())
        return Update(
            number=self.updates,
            reward=float(np.mean([e.reward for e in rewarded])) if rewarded else None,
            returned=float(np.mean([returns[0] for returns in found])) if found else None,
            entropy=mean_entropy,
            gradient_norm=norm,
            episodes=len(rewarded),
            errors=len(episodes) - len(rewarded),
            skipped=skipped,
        )

    def objective(self, batch: Batch, weights: Floats, exits: Floats, episodes: int) -> tuple["Tensor", "Tensor"]:
        """The policy-gradient objective and the mean entropy of the layers of a batch, both with gradients.

        Args:
            weights, exits: (B,) advantages of the drawn agents, and of Early-exit's decisions (D28).
        """
        import torch
        from torch.nn.functional import logsigmoid

        from selfwire.evolvers.router.head import entropy, sequence_log_probability

        device = self.head.query.device
        given = [torch.as_tensor(array).to(device) for array in batch]
        rows, filled, agents, present, free, contexts, order, exited = given
        read = self.head.read(rows, filled, agents, present)
        logits = (self.head.scores(read, contexts) / self.sampling.softness).masked_fill(~free, -math.inf)
        log_p = sequence_log_probability(logits, order).sum(dim=1)
        drawn = (order >= 0).any(dim=2)  # layers of padding are not part of the mean
        mean_entropy = torch.where(drawn, entropy(logits), 0.0).sum() / drawn.sum().clamp(min=1)
        signs = torch.where(exited == 1, 1.0, -1.0)
        exits_at = self.head.exit_logits(read, contexts, self.sampling.softness)
        exit_log_p = torch.where(exited >= 0, logsigmoid(signs * exits_at), 0.0).sum(dim=1)
        advantage, exit_advantage = (torch.as_tensor(a, dtype=log_p.dtype, device=device) for a in (weights, exits))
        return ((advantage * log_p).sum() + (exit_advantage * exit_log_p).sum()) / episodes, mean_entropy

    def _step(self, loss: "Tensor", share: float) -> float:
        import torch

        self.optimiser.param_groups[0]["lr"] = self.config.rate * math.sqrt(share)
        self.optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        limit = math.inf if self.config.clip is None else self.config.clip
        agents = [weight for name, weight in self.head.named_parameters() if name != "exit"]
        norm = math.hypot(*(float(torch.nn.utils.clip_grad_norm_(w, limit)) for w in (agents, [self.head.exit])))
        if not math.isfinite(norm):
            raise ValueError(f"update {self.updates}: the gradient is {norm}; the embeddings or weights are not finite")
        self.optimiser.step()
        return norm


def get_decisions(episodes: Sequence[Episode]) -> list[Decision]:
    """All stages of all episodes, in order."""
    return [decision for episode in episodes for decision in episode.decisions]


def get_weights(learner: Learner, pool: Sequence[Agent], embedder: str) -> Weights:
    """The weights of a learner, with its optimiser's state, the pool of its training and the embedder's name."""
    head, state = learner.head, learner.optimiser.state
    tensors = {name: getattr(head, name).detach().cpu().numpy().copy() for name in NAMES}
    steps = None
    for name in NAMES:
        kept = state.get(getattr(head, name))
        if kept:
            steps = max(int(kept["step"]), steps or 0)
            tensors |= {f"adam.{moment}.{name}": kept[moment].cpu().numpy().copy() for moment in MOMENTS}
    if steps is not None:  # a linear head has moments for two of its three weights
        unused = {f"adam.{moment}.{name}": np.zeros_like(tensors[name]) for moment in MOMENTS for name in NAMES}
        tensors = {**unused, **tensors}
    card = WeightsMetadata(
        head=head.config,
        sampling=learner.sampling,
        embedder=embedder,
        dimensions=head.dimensions,
        agents={agent.id: fingerprint(agent_text(agent)) for agent in pool},
        pool=pool_fingerprint(pool),
        updates=learner.updates,
        steps=steps,
    )
    return Weights(card=card, tensors=tensors)


async def update_router(
    team: Team,
    episodes: Sequence[Episode],
    config: RouterConfig,
    train: TrainConfig,
    embedder: Embedder,
    *,
    steps: int = 1,
) -> tuple[Team, Weights, Update]:
    """Learn from a batch of episodes.

    Args:
        steps: updates on this batch, at least one; after the first its episodes are no longer drawn by the weights.

    Returns:
        The workflow with the new weights, the weights with the optimiser's state, and the record of the update.

    Raises:
        ConfigError: the weights cannot be used.
        ValueError: an episode names an unknown agent, or a gradient is not finite.
    """
    dimensions = (await embedder.embed(["task"])).shape[1]
    learner = await asyncio.to_thread(_make_learner, team, config, train, embedder.name, dimensions)
    for _ in range(steps):
        update = await learner.learn(episodes, team.agents, embedder)
    weights = get_weights(learner, team.agents, embedder.name)
    return with_weights(team, weights), weights, update


def _make_learner(team: Team, config: RouterConfig, train: TrainConfig, embedder: str, dimensions: int) -> Learner:
    from selfwire.evolvers.router.head import RoutingHead, get_device

    weights = load_weights(team)
    if weights is not None:
        refuse_other_pool(weights.card, team.agents, embedder, transfer=config.transfer)
    head = weights.make_head() if weights else RoutingHead(dimensions, config.head)
    learner = Learner(
        head.to(get_device(train.device)),
        train,
        get_sampling(team, config),
        stages=config.stages,
        process=config.process_reward,
    )
    if weights is not None:
        learner.resume(weights)
    return learner
