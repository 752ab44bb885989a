"""Knobs of the baselines; the defaults are those of the papers that introduced them."""

from pydantic import Field

from selfwire.core.values import FrozenModel


class SamplingConfig(FrozenModel):
    """Knobs of one agent that answers once or several times.

    Args:
        samples: answers to vote on; None for as many as the cap of calls allows, or one without a cap.
        temperature: of every call in [0, 2].
    """

    samples: int | None = Field(default=None, ge=1, le=1000)
    temperature: float = Field(default=1.0, ge=0, le=2)


class RefineConfig(FrozenModel):
    """Knobs of self-refine (Madaan et al., 2023).

    Args:
        iterations: of criticism and improvement. Paper: at most 4. Ours: 3.
        temperature: of every call in [0, 2].
    """

    iterations: int = Field(default=3, ge=1, le=20)
    temperature: float = Field(default=1.0, ge=0, le=2)


class TeamConfig(FrozenModel):
    """Knobs of debates and fixed teams.

    Args:
        agents: that work side by side. Du et al.: 3.
        rounds: of work; the independent team has one. Du et al.: 2. Ours: 3 for debates, 2 for teams.
        temperature: of every call in [0, 2].
    """

    agents: int = Field(default=3, ge=2, le=20)
    rounds: int = Field(default=2, ge=1, le=20)
    temperature: float = Field(default=1.0, ge=0, le=2)


class RandomConfig(FrozenModel):
    """Knobs of the randomly rewired team.

    Args:
        edits: random legal rewirings of the pair that HiVA starts from.
        seed: of their draws.
        temperature: of every call in [0, 2].
    """

    edits: int = Field(default=6, ge=0, le=100)
    seed: int = Field(default=0, ge=0)
    temperature: float = Field(default=1.0, ge=0, le=2)
