"""Domains: who works, who answers, who checks, and what counts as an answer (App. B.1, Tables 4 and 5)."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.values import FrozenModel, Id, to_canonical_json

MEMORY = "dytopo"
"""Name of the method, and of its entry in a team's memory."""

MANAGER = "Manager"
"""Id of the manager: an agent of the team without a node."""


class Domain(FrozenModel):
    """Kind of tasks that a team solves.

    Args:
        checkers: agents whose verdict must be "pass" before a run is complete.
        form: whether the answer is the last code block of an answerer or the text that it gives as answer.
    """

    name: str
    answerers: tuple[Id, ...] = Field(min_length=1)
    checkers: tuple[Id, ...] = ()
    form: Literal["text", "code"] = "text"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if both := set(self.answerers) & set(self.checkers):
            raise ValueError(f"{', '.join(sorted(both))} would check its own answer; let another agent check it")
        return self

    def check_workers(self, workers: Sequence[Id]) -> None:
        """Raise a ValueError where an answerer or a checker is not among the workers."""
        if missing := {*self.answerers, *self.checkers} - set(workers):
            there = ", ".join(workers)
            raise ValueError(f"domain {self.name!r} needs {', '.join(sorted(missing))}; workers are {there}")


class TunedSetting(FrozenModel):
    """tau and K_in as fitted to held-out tasks; None leaves one to the config."""

    threshold: float | None = Field(default=None, ge=-1, le=1)
    providers: int | None = Field(default=None, ge=1, le=1000)


class DytopoMemory(FrozenModel):
    """A team's memory under the name of the method."""

    domain: Domain
    tuned: TunedSetting = TunedSetting()

    @classmethod
    def of(cls, team: Team) -> Self:
        """The memory of a team.

        Raises:
            ConfigError: there is none.
            ValueError: it does not say who answers, or its domain names agents that the team does not have.
        """
        if MEMORY not in team.memory:
            raise ConfigError(
                f"its memory has no domain, which says who answers and who checks; begin with a team of {MEMORY!r}"
            )
        found = cls.model_validate_json(to_canonical_json(team.memory[MEMORY]))
        found.domain.check_workers(get_workers(team))
        return found


def get_workers(team: Team) -> tuple[Id, ...]:
    """The agents that have a node, sorted by id; this agent order breaks every tie."""
    return tuple(agent.id for agent in team.members)
