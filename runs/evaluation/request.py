"""The request of an evaluation, stored with the run and resumed from."""

from typing import Literal, Self

from pydantic import Field, model_validator

from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, Id
from selfwire.runs.requests import Request


class SystemSpec(FrozenModel):
    """A system in a request.

    Args:
        name: how tables, rows and the journal call it; unique in a run.
        target: name of a method (its seed workflow) or baseline, or a saved workflow.
    """

    name: Id
    target: str
    config: FrozenJson = Field(default_factory=FrozenMap)


class Evolving(FrozenModel):
    """The systems that are evolved before they are measured, and the sizes of their evolutions.

    Args:
        names: of entries whose targets are methods.
        train, gate: tasks of these splits.
        iterations, batch, gate_tasks: as in `EvolutionConfig`.
    """

    names: tuple[Id, ...] = Field(min_length=1)
    train: int = Field(default=60, ge=1)
    gate: int = Field(default=60, ge=1)
    iterations: int = Field(default=10, ge=1)
    batch: int = Field(default=10, ge=1)
    gate_tasks: int = Field(default=20, ge=1)


class EvaluationRequest(Request):
    """An evaluation: its systems, tasks, models and limits.

    Args:
        entries: systems, in the order of the table.
        against: name of the entry that the others are compared with; the first if "".
        split: which tasks; gate is called val on the command line.
        tasks: how many.
        calls_per_task: most model calls of a task, for every system; None for no cap.
        grading_timeout: seconds until a grader of the user's own is given up on an answer.
        evolving: the systems that are evolved first, on tasks of other splits; None for none.
        langsmith: whether tasks are uploaded to LangSmith, and whether with references.
    """

    command: Literal["eval", "compare"] = "eval"
    entries: tuple[SystemSpec, ...] = Field(min_length=1)
    against: str = ""
    split: Literal["train", "gate", "test"] = "test"
    tasks: int = Field(default=100, ge=1)
    seed: int = Field(default=0, ge=0)
    concurrency: int = Field(default=8, ge=1)
    calls_per_task: int | None = Field(default=None, ge=1)
    grading_timeout: float = Field(default=60.0, gt=0)
    evolving: Evolving | None = None
    langsmith: Literal["off", "questions", "references"] = "off"

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [entry.name for entry in self.entries]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{twice[0]!r} stands twice among the systems; give each a name, as in mine=hiva")
        if self.against and self.against not in names:
            raise ValueError(f"nobody is called {self.against!r}; systems are {', '.join(names)}")
        if self.evolving and (unknown := set(self.evolving.names) - set(names)):
            raise ValueError(f"nobody is called {min(unknown)!r} who could be evolved; there are {', '.join(names)}")
        if self.evolving and self.split != "test":
            raise ValueError(
                "who is evolved learns from the train and val splits; measure on the test split, or give --evolve none"
            )
        return self

    @property
    def targets(self) -> tuple[str, ...]:
        """Of the contestants."""
        return tuple(entry.target for entry in self.entries)

    def alone(self, name: str) -> "EvaluationRequest":
        """The same of one contestant."""
        entries = tuple(entry for entry in self.entries if entry.name == name)
        evolving = self.evolving and (self.evolving.replace(names=(name,)) if name in self.evolving.names else None)
        return self.replace(entries=entries, evolving=evolving, against="")


class Slice(FrozenModel):
    """What a shard is of its run.

    Args:
        whole: the request of the run, by which its tasks are drawn.
        tasks: ids of the shard's own.
        with_rule: whether it measures the benchmark's own rule on them too.
    """

    whole: EvaluationRequest
    tasks: tuple[str, ...]
    with_rule: bool
