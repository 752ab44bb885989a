"""Config of the trained router: sampling of layers, routing head, and training."""

from typing import Literal

from pydantic import Field

from selfwire.core.usage import RunObjective
from selfwire.core.values import FrozenModel

ROUTER = "router"
"""Entry of a workflow's memory that names the weights of its router."""


class SamplingConfig(FrozenModel):
    """How a stage's layers are drawn (Sec. 3.2).

    Args:
        layers: L, layers of a workflow. Paper and ours: 3.
        softness: lambda, temperature of the softmax over cosines. Paper: unstated. Ours: 0.1.
        mass: rho in (0, 1], the share of probability at which drawing stops. Paper: unstated. Ours: 0.5.
        width: most agents per layer; None is no limit. Paper: none. Ours: 3.
    """

    layers: int = Field(default=3, ge=1, le=16)
    softness: float = Field(default=0.1, gt=0, le=100)
    mass: float = Field(default=0.5, gt=0, le=1)
    width: int | None = Field(default=3, ge=1)


class HeadConfig(FrozenModel):
    """The routing head (Sec. 3.2, App. D.1).

    Args:
        design: attention; additive, which leaves out its softmax over agents; or linear for a softmax policy: the
            bilinear form of each row and an agent, averaged. Paper and ours: attention.
        reads: everything; state leaves out the agents of earlier layers, and subtask also all rows but the first.
        state: rows embeds one row per field of the task state; paired each of them together with the first; tokens
            one per word. Paper: tokens. Ours: rows.
        init: identity starts W_Q, W_K and W_V at I; xavier draws them. Paper: unstated. Ours: identity.
        normalised: whether rows and agents pass a layer normalisation. Paper: no. Ours: yes.
        exit: apart decides before each layer whether the run ends there, by a weight vector of its own (D28); agent
            draws Early-exit as an agent among the others. Paper: agent. Ours: apart.
        seed: of the Xavier draw.
    """

    design: Literal["attention", "additive", "linear"] = "attention"
    reads: Literal["everything", "state", "subtask"] = "everything"
    state: Literal["rows", "paired", "tokens"] = "rows"
    init: Literal["identity", "xavier"] = "identity"
    normalised: bool = True
    exit: Literal["apart", "agent"] = "apart"
    seed: int = Field(default=0, ge=0)


class TrainConfig(FrozenModel):
    """How the head is trained (Sec. 3.3).

    Args:
        baseline: loo subtracts the mean return of the other episodes of the question, of the batch where it has one
            only. Paper: none. Ours: loo.
        entropy: weight of the entropy bonus. Paper: 0. Ours: 0.05.
        rate: Adam's step on a whole batch; with a share of it, the step times the square root of the share, as few
            rewards are mostly chance. Paper: unstated. Ours: 1e-3.
        clip: most length of a gradient; None does not clip. Paper: none. Ours: 1.0.
        skip_equal: whether a batch whose returns are all equal changes nothing. Paper: no. Ours: yes.
        partial: whether U is the answer's score in [0, 1]; off, it is 1 for a solved task and else 0. Paper: no.
            Ours: yes.
        objective: U less the price of the run's calls, tokens or seconds, such as "score - 0.005*calls", -1 or more
            (`core.usage.Objective`). Paper: no price. Ours: none by default.
        process_weight: w of the process reward, if it is on. Paper: unstated. Ours: 0.2.
        batch: episodes per update. Paper: unstated. Ours: 64.
        updates: number of updates. Paper: unstated. Ours: 50.
        checkpoint_every: updates between two saved versions; the weights are kept after every update.
        device: auto is CUDA if there is one, else the CPU.
    """

    baseline: Literal["loo", "none"] = "loo"
    entropy: float = Field(default=0.05, ge=0, le=10)
    rate: float = Field(default=1e-3, gt=0, le=1)
    clip: float | None = Field(default=1.0, gt=0)
    skip_equal: bool = True
    partial: bool = True
    objective: RunObjective = "score"
    process_weight: float = Field(default=0.2, ge=0, le=10)
    batch: int = Field(default=64, ge=1, le=100_000)
    updates: int = Field(default=50, ge=0, le=1_000_000)
    checkpoint_every: int = Field(default=10, ge=1)
    device: Literal["auto", "cpu", "cuda"] = "auto"


class RouterConfig(FrozenModel):
    """The part of a method's config that its router depends on.

    Args:
        learned: whether runs use the workflow's weights.
        sampling: how layers are drawn; at its defaults, the sampling of saved weights counts.
        head: of a router without saved weights.
        stages: T, most decisions of a run.
        samples: episodes per train question.
        process_reward: whether rewards of single stages are part of the return.
        transfer: whether weights may route another pool than the one of their training.
    """

    learned: bool = True
    sampling: SamplingConfig = SamplingConfig()
    head: HeadConfig = HeadConfig()
    stages: int = 6
    samples: int = 1
    process_reward: bool = False
    transfer: bool = False


EXIT_START = 0.1
"""Probability of Early-exit before each layer where it may be drawn, untrained and by chance (D28)."""

PAPER_HEAD = HeadConfig(state="tokens", init="xavier", normalised=False, exit="agent")
"""The head as the paper prints it."""


def paper_training(config: TrainConfig = TrainConfig()) -> TrainConfig:
    """Preset `paper`: REINFORCE as Eq. 16 prints it, without baseline, entropy bonus, clips, skips, part marks."""
    return config.replace(baseline="none", entropy=0.0, clip=None, skip_equal=False, partial=False)
