"""The task state: what has been planned, done and judged so far, as router and agents see it (Sec. 3.1, App. B.3)."""

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field, model_validator

from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.trace_text import shorten

Status = Literal["pending", "completed", "failed"]
Verdict = Literal["success", "fail", "refine"]

SUBTASKS = 12
"""Most subtasks of a plan, those that are over included."""
GOAL_LENGTH = 500
ARTIFACT_LENGTH = 6_000
ARTIFACTS_LENGTH = 12_000
"""Characters that all artifacts of a state share where it is told in full."""
FEEDBACK_LENGTH = 1_000
HISTORY = 12
"""Stages that the history keeps; the oldest go first."""
ROW_LENGTH = 600
ROW_ARTIFACT_LENGTH = 80


class Subtask(FrozenModel):
    """One step of the plan, u_h (Eq. 18, 19).

    Args:
        id: its name in the plan.
        goal: what is to be done.
        status: sigma(u_h).
        artifact: what came of it, once it is completed.
        refinements: how often it was sent back.
        trouble: why it was sent back or has failed; "" if it never was.
    """

    id: Id
    goal: str = Field(min_length=1, max_length=GOAL_LENGTH)
    status: Status = "pending"
    artifact: str = Field(default="", max_length=ARTIFACT_LENGTH)
    refinements: int = Field(default=0, ge=0)
    trouble: str = Field(default="", max_length=FEEDBACK_LENGTH)


class Assessment(FrozenModel):
    """e_t of Eq. 20.

    Args:
        verdict: on the active subtask.
        confidence: c_t in [0, 1].
        feedback: what was found wrong, what is missing.
    """

    verdict: Verdict
    confidence: float = Field(default=0.0, ge=0, le=1)
    feedback: str = Field(default="", max_length=FEEDBACK_LENGTH)

    @property
    def reward(self) -> float:
        """The evaluator's binary reward: a partial success is none."""
        return float(self.verdict == "success")


class HistoryEntry(FrozenModel):
    """One stage as the history keeps it.

    Args:
        subtask: id of the subtask that it worked on.
        layers: the agents that were chosen.
        verdict: what became of it.
    """

    subtask: Id
    layers: tuple[tuple[Id, ...], ...]
    verdict: Verdict

    def __str__(self) -> str:
        """Write the stage in a few words."""
        return f"{self.subtask}: {' > '.join('+'.join(layer) for layer in self.layers)}: {self.verdict}"


class TaskState(FrozenModel):
    """s_t.

    Args:
        objective: the whole task.
        subtasks: the plan, in order.
        active: id of the subtask that is worked on; None before the first plan and when all are over.
        assessment: of the last stage; None before the first one.
        history: the stages so far, oldest first.
        summary: what the completed subtasks have brought, in the planner's words.
        hint: what the next stage may need.
        replan: whether a subtask has failed since the last plan.

    Raises:
        ValueError: ids repeat, or the active subtask is not pending.
    """

    objective: str
    subtasks: tuple[Subtask, ...] = Field(default=(), max_length=SUBTASKS)
    active: Id | None = None
    assessment: Assessment | None = None
    history: tuple[HistoryEntry, ...] = Field(default=(), max_length=HISTORY)
    summary: str = Field(default="", max_length=FEEDBACK_LENGTH)
    hint: str = Field(default="", max_length=FEEDBACK_LENGTH)
    replan: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        ids = [one.id for one in self.subtasks]
        if len(set(ids)) != len(ids):
            raise ValueError(f"subtasks repeat an id: {', '.join(ids)}")
        if self.active is not None and self.active not in [one.id for one in self.pending]:
            raise ValueError(f"the active subtask {self.active!r} is not among the pending ones")
        return self

    @property
    def pending(self) -> tuple[Subtask, ...]:
        """Subtasks that are still to be done."""
        return tuple(one for one in self.subtasks if one.status == "pending")

    @property
    def completed(self) -> tuple[Subtask, ...]:
        """Subtasks that the evaluator has passed."""
        return tuple(one for one in self.subtasks if one.status == "completed")

    @property
    def current(self) -> Subtask | None:
        """The active subtask."""
        return next((one for one in self.subtasks if one.id == self.active), None)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do: no subtask is pending and none has to be replaced."""
        return bool(self.subtasks) and not self.pending and not self.replan


def fresh_id(state: TaskState, more: Iterable[Subtask] = ()) -> str:
    """An id that neither a subtask has nor one that the history tells of, dropped as it may be.

    Args:
        state: the task state.
        more: subtasks that are to join it.
    """
    taken = [*(one.id for one in (*state.subtasks, *more)), *(past.subtask for past in state.history)]
    numbers = [int(one[1:]) for one in taken if one[:1] == "s" and one[1:].isdecimal()]
    return f"s{max(numbers, default=0) + 1}"


def to_rows(state: TaskState, *, whole: bool = True) -> tuple[str, ...]:
    """The compact serialisation for the router: one text per field that says something, active subtask first.

    Args:
        state: the task state.
        whole: off is the ablation without a task state: the objective is all there is.
    """
    objective = f"Objective: {state.objective}"
    current = state.current
    if not whole or current is None:
        return (_row(objective),)
    told = state.assessment
    fields = {
        "Active subtask": current.goal,
        "Refinement": f"try {current.refinements + 1}; {current.trouble}" if current.trouble else "",
        "Objective": state.objective,
        "Completed subtasks": "; ".join(f"{s.goal} -> {_short(s.artifact)}" for s in state.completed),
        "Still to do": "; ".join(one.goal for one in state.pending if one.id != state.active),
        "Failed subtasks": "; ".join(one.goal for one in state.subtasks if one.status == "failed"),
        "Last verdict": f"{told.verdict}, confidence {told.confidence:.1f}: {told.feedback}" if told else "",
        "History": "; ".join(map(str, state.history)),
        "Next stage": state.hint,
    }
    return tuple(_row(f"{name}: {text}") for name, text in fields.items() if text.strip())


def format_state(state: TaskState) -> str:
    """The full state, as agents, planner and evaluator read it."""
    parts = [f"Overall objective: {state.objective}"]
    parts += [f"Plan:\n{format_plan(state)}"] if state.subtasks else []
    parts += [f"Active subtask: [{state.current.id}] {state.current.goal}"] if state.current else []
    share = ARTIFACTS_LENGTH // max(1, len(state.completed))
    parts += [f"Result of [{one.id}]:\n{shorten(one.artifact, share)}" for one in state.completed]
    if state.assessment:
        told = state.assessment
        parts.append(f"Last verdict: {told.verdict} (confidence {told.confidence:.2f})\n{told.feedback}".strip())
    parts += [f"Summary so far: {state.summary}"] if state.summary else []
    parts += ["Stages so far:\n" + "\n".join(map(str, state.history))] if state.history else []
    parts += [f"Next stage: {state.hint}"] if state.hint else []
    return "\n\n".join(parts)


def format_plan(state: TaskState) -> str:
    """The plan, one line per subtask."""
    return "\n".join(_planned(one) for one in state.subtasks) or "(there is no plan yet)"


def _planned(one: Subtask) -> str:
    trouble = f" (sent back {one.refinements} times: {one.trouble})" if one.trouble else ""
    return f"[{one.id}] {one.status}: {one.goal}{trouble}"


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), ROW_ARTIFACT_LENGTH)


def _row(text: str) -> str:
    return shorten(" ".join(text.split()), ROW_LENGTH)
