"""Domains: who works, who answers, who checks, and what counts as an answer (App. B.1, Tables 4 and 5)."""

from typing import Literal, Self

from pydantic import Field, model_validator

from selfwire.core.values import FrozenModel, Id, to_canonical_json
from selfwire.core.workflow import Workflow

MEMORY = "dytopo"
"""Name of what a workflow of this method remembers."""

MANAGER = "Manager"
"""Id of the manager: an agent of the workflow without a node."""


class Domain(FrozenModel):
    """What kind of tasks a team is for.

    Args:
        name: such as code or math.
        answerers: agents whose answer is the team's.
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


class TunedSetting(FrozenModel):
    """What was learned on held-out tasks; None leaves it to the config."""

    threshold: float | None = Field(default=None, ge=-1, le=1)
    providers: int | None = Field(default=None, ge=1, le=1000)


class DytopoMemory(FrozenModel):
    """A workflow's memory under the name of the method.

    Args:
        domain: what the team is for.
        tuned: tau and K_in as fitted to held-out tasks.
    """

    domain: Domain
    tuned: TunedSetting = TunedSetting()

    @classmethod
    def of(cls, workflow: Workflow) -> Self:
        """What the workflow remembers.

        Raises:
            ValueError: it is no workflow of DyTopo, or its domain names agents that it does not have.
        """
        if workflow.method != MEMORY or MEMORY not in workflow.memory:
            raise ValueError(f"workflow {workflow.fingerprint} belongs to {workflow.method!r}, not to {MEMORY!r}")
        found = cls.model_validate_json(to_canonical_json(workflow.memory[MEMORY]))
        missing = {*found.domain.answerers, *found.domain.checkers} - set(get_workers(workflow))
        if missing:
            there = ", ".join(get_workers(workflow))
            raise ValueError(f"domain {found.domain.name!r} needs {', '.join(sorted(missing))}; workers are {there}")
        return found


def get_workers(workflow: Workflow) -> tuple[Id, ...]:
    """The agents that have a node, sorted by id: the agent order of every tie."""
    return tuple(sorted(set(workflow.topology.agents.values())))
