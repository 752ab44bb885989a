"""Config fields of the baselines; the defaults are those of the papers that introduced them."""

from pydantic import Field

from selfwire.core.values import FrozenModel


class BaselineConfig(FrozenModel):
    """The config field of all baselines: the temperature of every call."""

    temperature: float = Field(default=1.0, ge=0, le=2)


class SamplingConfig(BaselineConfig):
    """One agent that votes on `samples` answers; None for as many as the cap of calls allows, or one without a cap."""

    samples: int | None = Field(default=None, ge=1, le=1000)


class RefineConfig(BaselineConfig):
    """Turns of criticism and improvement in self-refine (Madaan et al., 2023). Paper: at most 4. Ours: 3."""

    iterations: int = Field(default=3, ge=1, le=20)


class TeamConfig(BaselineConfig):
    """Debates and fixed teams.

    Args:
        agents: that work side by side. Du et al.: 3.
        rounds: of work; the independent team has one. Du et al.: 2. Ours: 3 for debates, 2 for teams.
    """

    agents: int = Field(default=3, ge=2, le=20)
    rounds: int = Field(default=2, ge=1, le=20)


class RandomConfig(BaselineConfig):
    """Number and seed of random legal rewirings of the pair that HiVA starts from."""

    edits: int = Field(default=6, ge=0, le=100)
    seed: int = Field(default=0, ge=0)
