"""Tasks, the questions that teams see of them, and feedback on answers."""

from functools import cached_property
from operator import not_

from pydantic import Field

from selfwire.core.values import AnyText, FrozenJson, FrozenMap, FrozenModel


class Question(FrozenModel):
    """A task without its reference, as teams, routers and evolvers see it.

    Args:
        id: name of the task, unique in its benchmark.
        kind: the benchmark's category of the question, such as bridge; "" if there is none.
    """

    id: str
    input: str
    kind: str = ""


class Task(FrozenModel):
    """A question with its reference; only environments and graders receive it.

    Args:
        reference: the gold answer, or whatever the grader needs; JSON.
        entities: subjects of the question; tasks that share an entity are never in different splits.
        group: name that tasks share which lean the same way, such as questions on one document: they are never in
            different splits, and a proof counts them as one. Not written where there is none.
    """

    id: str
    input: str
    kind: str = ""
    reference: FrozenJson = None
    entities: tuple[str, ...] = ()
    group: str = Field(default="", exclude_if=not_)

    @cached_property
    def question(self) -> Question:
        """The task without its reference."""
        return Question(id=self.id, input=self.input, kind=self.kind)


class Feedback(FrozenModel):
    """An environment's judgement of an answer; never contains the reference.

    Args:
        score: in [0, 1].
        solved: whether the task counts as solved.
        text: explanation for the agents to learn from.
        details: further figures for reports, such as f1 or steps.
    """

    score: float = Field(ge=0, le=1, allow_inf_nan=False)
    solved: bool
    text: AnyText
    details: FrozenJson = Field(default_factory=FrozenMap)


class Splits(FrozenModel):
    """Tasks for training, validation (`gate`) and testing; no question or entity is in two splits."""

    train: tuple[Task, ...]
    gate: tuple[Task, ...] = ()
    test: tuple[Task, ...] = ()
