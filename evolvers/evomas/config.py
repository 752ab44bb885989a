"""EvoMAS's knobs: how a workflow is drawn, how a run goes, what the routing head is, how it is trained."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from selfwire.core.values import Id, Value


class SamplingConfig(Value):
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


class HeadConfig(Value):
    """What the routing head is (Sec. 3.2, App. D.1).

    Args:
        state: rows embeds one row per field of the task state; tokens one per word. Paper: tokens. Ours: rows.
        init: identity starts W_Q, W_K and W_V at I; xavier draws them. Paper: unstated. Ours: identity.
        normalised: whether rows and agents pass a layer normalisation. Paper: no. Ours: yes.
        seed: of the Xavier draw.
    """

    state: Literal["rows", "tokens"] = "rows"
    init: Literal["identity", "xavier"] = "identity"
    normalised: bool = True
    seed: int = Field(default=0, ge=0)


class TrainConfig(Value):
    """How the head is trained (Sec. 3.3).

    Args:
        baseline: loo subtracts the mean return of the other episodes of the batch. Paper: none. Ours: loo.
        entropy: weight of the entropy bonus. Paper: 0. Ours: 0.05.
        rate: Adam's step. Paper: unstated. Ours: 3e-4.
        clip: most length of a gradient; None does not clip. Paper: none. Ours: 1.0.
        skip_equal: whether a batch whose returns are all equal changes nothing. Paper: no. Ours: yes.
        process_weight: w of the process reward, where it is switched on. Paper: unstated. Ours: 0.2.
        batch: episodes per update. Paper: unstated. Ours: 64.
        updates: how many updates are made. Paper: unstated. Ours: 50.
        checkpoint_every: updates between two saved versions; the weights themselves are kept after every update.
        device: auto is CUDA where there is one, else the CPU.
    """

    baseline: Literal["loo", "none"] = "loo"
    entropy: float = Field(default=0.05, ge=0, le=10)
    rate: float = Field(default=3e-4, gt=0, le=1)
    clip: float | None = Field(default=1.0, gt=0)
    skip_equal: bool = True
    process_weight: float = Field(default=0.2, ge=0, le=10)
    batch: int = Field(default=64, ge=1, le=100_000)
    updates: int = Field(default=50, ge=0, le=1_000_000)
    checkpoint_every: int = Field(default=10, ge=1)
    device: Literal["auto", "cpu", "cuda"] = "auto"


class EvomasConfig(Value):
    """Knobs of a run, and the ablations (Sec. 4).

    Args:
        adapter: learned is the head with the workflow's weights; frozen is the head as it starts, never trained;
            random draws by the same rule from a uniform p; fixed runs `plan` at every stage.
        plan: the layers of `fixed`, by agent id.
        task_state: off is "no task state": plan, evaluation and history are not carried from stage to stage.
        pool: agents of the seed: 4 or 7 (Table 4).
        stages: T, most stages of a task. Paper and ours: 6.
        refinements: how often a subtask is tried again before it has failed. Paper: unstated. Ours: 2.
        samples: episodes per train question. Paper: unstated. Ours: 4.
        verify: whether the evaluator has the outcome's claims looked up with the agents' tools before it judges.
            Paper: on. Ours: off, for the bill.
        process_reward: whether the evaluator's rewards are part of the return (Sec. 4.4). Paper and ours: off.
        temperature: of every call in [0, 2]. Paper: unstated. Ours: 0.3.
        transfer: whether weights may route another pool than they were trained for; one that has only grown is none.
        sampling: how layers are drawn; left at its defaults, as saved weights were trained.
        head: what the head is, where it is not given by saved weights.
        train: how `evolve` trains it.

    Raises:
        ValueError: there is a plan that nobody would run.
    """

    adapter: Literal["learned", "random", "frozen", "fixed"] = "learned"
    plan: tuple[Annotated[tuple[Id, ...], Field(min_length=1)], ...] = ()
    task_state: bool = True
    pool: Literal[4, 7] = 7
    stages: int = Field(default=6, ge=1, le=100)
    refinements: int = Field(default=2, ge=0, le=20)
    samples: int = Field(default=4, ge=1, le=1000)
    verify: bool = False
    process_reward: bool = False
    temperature: float = Field(default=0.3, ge=0, le=2)
    transfer: bool = False
    sampling: SamplingConfig = SamplingConfig()
    head: HeadConfig = HeadConfig()
    train: TrainConfig = TrainConfig()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.plan and self.adapter != "fixed":
            raise ValueError(f"a plan is run by the adapter fixed, and the adapter is {self.adapter}; set both or none")
        return self


PAPER_HEAD = HeadConfig(state="tokens", init="xavier", normalised=False)
"""The head as the paper prints it."""


def paper_training(config: TrainConfig = TrainConfig()) -> TrainConfig:
    """Preset `paper`: REINFORCE as Eq. 16 prints it, without what steadies it."""
    return config.replace(baseline="none", entropy=0.0, clip=None, skip_equal=False)
