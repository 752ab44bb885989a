"""HERA's config: prompt evolution, the run, and a switch per ablation."""

from typing import Literal

from pydantic import Field, field_validator

from selfwire.core.values import FrozenModel
from selfwire.evolvers.hera.library import LibraryConfig

Axis = Literal["efficiency", "thoroughness", "risk_sensitivity", "error_correction", "heuristic_injection"]
"""Direction in which a prompt is varied: Alg. 5 names the first three, Sec. 3.4.1 the last two."""


class PromptConfig(FrozenModel):
    """Config of role-aware prompt evolution (Sec. 3.4, Alg. 5).

    Args:
        axes: one prompt variant each. Paper and ours: efficiency, thoroughness, risk_sensitivity.
        buffer: recent failed trajectories that are kept per agent. Paper: unstated. Ours: 3.
        agents: most agents whose prompts evolve per batch, the most blamed first. Ours: 3, for the bill.
        rules: most operational rules of a prompt; the oldest are dropped first. Paper: K, unstated. Ours: 8.
        length: most characters of a prompt. Paper: unstated. Ours: 4000.
    """

    axes: tuple[Axis, ...] = ("efficiency", "thoroughness", "risk_sensitivity")
    buffer: int = Field(default=3, ge=1, le=20)
    agents: int = Field(default=3, ge=1, le=100)
    rules: int = Field(default=8, ge=1, le=100)
    length: int = Field(default=4000, ge=200, le=100_000)

    @field_validator("axes")
    @classmethod
    def _each_once(cls, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        if not axes or len(set(axes)) != len(axes):
            raise ValueError(f"axes are at least one, each once, not {', '.join(axes) or 'none'}")
        return axes


class HeraConfig(FrozenModel):
    """Config of a run, and the ablations (Sec. 5.2).

    Args:
        library: off is "w/o experience library": no insights are retrieved or learned.
        rope: off is "w/o prompt evolution": prompts stay as they are.
        mutation: off is "w/o mutation": a group that fails throughout gets no second one.
        group: G, topologies per train question. Paper: unstated. Ours: 4, as in a public reproduction.
        success_at: score from which a trajectory counts as a success. Paper: unstated. Ours: 0.6.
        explore_temperature: of orchestrator and agents in groups. Paper and ours: 0.9.
        temperature: of everything else. Paper and ours: 0 in distribution; 0.3 is the paper's out of it.
        steps: most steps of a plan. Paper: none. Ours: 12.
        pool: most agents, newcomers of mutations included. Paper: none. Ours: 16.
        experience: config of the library.
        prompts: config of prompt evolution.
    """

    library: bool = True
    rope: bool = True
    mutation: bool = True
    group: int = Field(default=4, ge=1, le=64)
    success_at: float = Field(default=0.6, gt=0, le=1)
    explore_temperature: float = Field(default=0.9, ge=0, le=2)
    temperature: float = Field(default=0.0, ge=0, le=2)
    steps: int = Field(default=12, ge=1, le=100)
    pool: int = Field(default=16, ge=1, le=1000)
    experience: LibraryConfig = LibraryConfig()
    prompts: PromptConfig = PromptConfig()
