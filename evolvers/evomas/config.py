"""Config of EvoMAS: how a run goes, and its ablations."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.router.config import HeadConfig, RouterConfig, SamplingConfig, TrainConfig


class EvomasConfig(FrozenModel):
    """Config of a run, ablations included (Sec. 4).

    Args:
        adapter: learned is the head with the workflow's weights; frozen is the head as it starts, never trained;
            random draws by the same rule from a uniform p; fixed runs `plan` at every stage.
        plan: layers of the adapter fixed, by agent id; the initial topology's if empty.
        task_state: off is "no task state": plan, evaluation and history are not carried from stage to stage.
        pool: number of agents in the initial pool: 4 or 7 (Table 4).
        early_exit: whether Early-exit may be drawn at all. Paper and ours: yes.
        stages: T, most stages of a task. Paper: unstated. Ours: 6.
        refinements: most further tries of a subtask before it fails. Paper: unstated. Ours: 2.
        samples: episodes per train question. Paper: unstated. Ours: 4.
        verify: whether an outcome's claims are looked up with the agents' tools before the judgement. Paper: on.
            Ours: off, to save cost.
        process_reward: whether the evaluator's rewards are part of the return (Sec. 4.4). Paper and ours: off.
        temperature: of every call in [0, 2]. Paper: unstated. Ours: 0.3.
        transfer: whether weights may route another pool than the one of their training; a pool that has only grown
            is the same.
        sampling: how layers are drawn; at its defaults, the sampling of saved weights counts.
        head: of a router without saved weights.
        train: how `evolve` trains the head.

    Raises:
        ValueError: there is a plan for another adapter than fixed.
    """

    adapter: Literal["learned", "random", "frozen", "fixed"] = "learned"
    plan: tuple[Annotated[tuple[Id, ...], Field(min_length=1)], ...] = ()
    task_state: bool = True
    pool: Literal[4, 7] = 7
    early_exit: bool = True
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

    @property
    def routing(self) -> RouterConfig:
        """The part of the config that training the router depends on."""
        alike = {name: getattr(self, name) for name in RouterConfig.model_fields if name != "learned"}
        return RouterConfig(learned=self.adapter == "learned", **alike)
