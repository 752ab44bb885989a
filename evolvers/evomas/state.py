"""The task state, as router and agents read it, and its update (Sec. 3.1, App. B.3): plan, results and judgements."""

from collections.abc import Iterable, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from selfwire.core.text import excerpt
from selfwire.core.values import FrozenModel, Id

Status = Literal["pending", "completed", "failed"]
Verdict = Literal["success", "fail", "refine"]
TAGS = {"success": "DONE", "refine": "NEED-REFINE", "fail": "FAILED"}
"""Verdicts in the words of a plan (Prompt 1)."""

SUBTASKS = 12
"""Most subtasks of a plan, finished ones included."""
GOAL_LENGTH = 500
WHOLE_TASK = "Do the whole task."
"""Goal of a subtask that is not a part of the task, but all of it."""
ARTIFACT_LENGTH = 6_000
ARTIFACTS_LENGTH = 12_000
"""Characters that all artifacts share in the full text of a state."""
LAST_TRY_LENGTH = 3_000
"""Characters of the outcome that was sent back, in the full text of a state."""
FEEDBACK_LENGTH = 1_000
HISTORY = 12
"""Most stages of a history; the oldest are dropped first."""
ROW_LENGTH = 600


class Subtask(FrozenModel):
    """A step of the plan, u_h (Eq. 18, 19).

    Args:
        status: sigma(u_h).
        trouble: why it was sent back or failed; "" if neither.
        attempt: the outcome that was sent back last; "" if there is none.
    """

    id: Id
    goal: str = Field(min_length=1, max_length=GOAL_LENGTH)
    status: Status = "pending"
    artifact: str = Field(default="", max_length=ARTIFACT_LENGTH)
    refinements: int = Field(default=0, ge=0)
    trouble: str = Field(default="", max_length=FEEDBACK_LENGTH)
    attempt: str = Field(default="", max_length=ARTIFACT_LENGTH)

    @property
    def tag(self) -> str:
        """The status in the words of a plan (Prompt 1)."""
        if self.status == "pending":
            return "NEED-REFINE" if self.trouble else "TODO"
        return "DONE" if self.status == "completed" else "FAILED"


class Assessment(FrozenModel):
    """e_t of Eq. 20: a verdict on the active subtask with its confidence c_t, and faults and gaps."""

    verdict: Verdict
    confidence: float = Field(default=0.0, ge=0, le=1)
    feedback: str = Field(default="", max_length=FEEDBACK_LENGTH)

    @property
    def reward(self) -> float:
        """The evaluator's binary reward: a partial success is none."""
        return float(self.verdict == "success")


class HistoryEntry(FrozenModel):
    """A stage as the history keeps it."""

    subtask: Id
    layers: tuple[tuple[Id, ...], ...]
    verdict: Verdict

    def __str__(self) -> str:
        """Write the stage in a few words, as the router reads it."""
        return f"{self.work}: {self.verdict}"

    @property
    def work(self) -> str:
        """The subtask and the layers that worked on it."""
        return f"{self.subtask}: {' > '.join('+'.join(layer) for layer in self.layers)}"


class TaskState(FrozenModel):
    """s_t.

    Args:
        subtasks: the plan, in order.
        active: id of the current subtask; None before the first plan and after the last subtask.
        assessment: of the last stage; None before the first one.
        history: the stages so far, oldest first.
        summary: the planner's, of the completed subtasks' results.
        hint: the planner's, for the next stage.
        replan: whether a subtask failed since the last plan.

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
        ids = [subtask.id for subtask in self.subtasks]
        if len(set(ids)) != len(ids):
            raise ValueError(f"subtasks repeat an id: {', '.join(ids)}")
        if self.active is not None and self.active not in [subtask.id for subtask in self.pending]:
            raise ValueError(f"the active subtask {self.active!r} is not among the pending ones")
        return self

    @property
    def pending(self) -> tuple[Subtask, ...]:
        """The pending subtasks."""
        return tuple(subtask for subtask in self.subtasks if subtask.status == "pending")

    @property
    def completed(self) -> tuple[Subtask, ...]:
        """Subtasks that the evaluator passed."""
        return tuple(subtask for subtask in self.subtasks if subtask.status == "completed")

    @property
    def current(self) -> Subtask | None:
        """The active subtask."""
        return next((subtask for subtask in self.subtasks if subtask.id == self.active), None)

    @property
    def is_over(self) -> bool:
        """Whether no subtask is pending and none has to be replaced."""
        return bool(self.subtasks) and not self.pending and not self.replan


def fresh_id(state: TaskState, more: Iterable[Subtask] = ()) -> str:
    """An id that no subtask of the state or of `more` has or had, as the history may name a dropped one."""
    taken = [*(subtask.id for subtask in (*state.subtasks, *more)), *(past.subtask for past in state.history)]
    numbers = [int(name[1:]) for name in taken if name[:1] == "s" and name[1:].isdecimal()]
    return f"s{max(numbers, default=0) + 1}"


def to_rows(state: TaskState, *, whole: bool = True) -> tuple[str, ...]:
    """The compact serialisation for the router: one text per field that is not empty, active subtask first.

    Args:
        whole: off is the ablation without a task state: the objective alone.
    """
    objective = f"Objective: {state.objective}"
    current = state.current
    if not whole or current is None:
        return (_shorten_line(objective, ROW_LENGTH),)
    last = state.assessment
    fields = {
        "Active subtask": current.goal,
        "Refinement": f"try {current.refinements + 1}; {current.trouble}" if current.trouble else "",
        "Objective": state.objective,
        "Completed subtasks": "; ".join(f"{s.goal} -> {_shorten_line(s.artifact, 80)}" for s in state.completed),
        "Still to do": "; ".join(subtask.goal for subtask in state.pending if subtask.id != state.active),
        "Failed subtasks": "; ".join(subtask.goal for subtask in state.subtasks if subtask.status == "failed"),
        "Last verdict": f"{last.verdict}, confidence {last.confidence:.1f}: {last.feedback}" if last else "",
        "History": "; ".join(map(str, state.history)),
        "Next stage": state.hint,
    }
    return tuple(_shorten_line(f"{name}: {text}", ROW_LENGTH) for name, text in fields.items() if text.strip())


def format_state(state: TaskState, *, here: str = "this part") -> str:
    """The state as agents and the evaluator read it beside task, active subtask and hint; "" if there is nothing.

    Args:
        here: what the active subtask is called, whose goal stands elsewhere in the prompt.
    """
    current = state.current
    goals = {subtask.id: here if subtask == current else subtask.goal for subtask in state.subtasks}
    plan = [f"[{subtask.id}] {subtask.tag}: {goals[subtask.id]}" for subtask in state.subtasks]
    parts = ["Plan:\n" + "\n".join(plan)] if len(plan) > 1 else []
    parts += _format_results(state)
    if current and current.attempt:
        parts.append(f"The last try at this part:\n{excerpt(current.attempt, LAST_TRY_LENGTH, current.goal)}")
    parts += [f"Why the last try at this part was sent back: {current.trouble}"] if current and current.trouble else []
    return "\n\n".join(parts)


def format_plan(state: TaskState) -> str:
    """The state as the planner reads it beside the task and the last judgement; "" before the first plan."""
    judged = state.assessment.feedback if state.assessment else ""
    parts = (
        ["Plan:\n" + "\n".join(_format_subtask(subtask, judged) for subtask in state.subtasks)]
        if state.subtasks
        else []
    )
    parts += _format_results(state)
    past = [f"{entry.work}: {TAGS[entry.verdict]}" for entry in state.history]
    parts += ["Who worked on what (+ at once, > then), and the verdict:\n" + "\n".join(past)] if past else []
    return "\n\n".join(parts)


def _format_results(state: TaskState) -> list[str]:
    """The artifacts, with the planner's summary where they had to be cut."""
    share = ARTIFACTS_LENGTH // max(1, len(state.completed))
    about = state.current.goal if state.current else state.objective
    parts = [f"Result of [{subtask.id}]:\n{excerpt(subtask.artifact, share, about)}" for subtask in state.completed]
    cut = any(len(subtask.artifact) > share for subtask in state.completed)
    return [*parts, f"Summary of the results: {state.summary}"] if cut and state.summary else parts


def _format_subtask(subtask: Subtask, judged: str) -> str:
    line = f"[{subtask.id}] {subtask.tag}: {subtask.goal}"
    if not subtask.trouble:
        return line
    times = "once" if subtask.refinements == 1 else f"{subtask.refinements} times"
    what = "given up" if subtask.status == "failed" else f"tried {times}"
    why = f": {subtask.trouble}" if subtask.trouble != judged else ""  # the judgement stands elsewhere in the prompt
    return f"{line} ({what}{why})"


def _shorten_line(text: str, length: int) -> str:
    return excerpt(" ".join(text.split()), length)


def compute_next_state(
    state: TaskState,
    layers: Sequence[Sequence[str]],
    outcome: str | None,
    assessment: Assessment,
    *,
    refinements: int = 2,
) -> TaskState:
    """The Updater, a pure function: s_t = mu(s_{t-1}, G_{t-1}, xi_{t-1}) (Eq. 7).

    Args:
        state: s_{t-1}; without an active subtask nothing changes.
        outcome: of the workflow; None without an answer.
        refinements: how often a subtask is sent back before it fails.
    """
    current = state.current
    if current is None:
        return state
    after = apply_assessment(current, outcome or "", assessment, refinements=refinements)
    subtasks = tuple(after if subtask.id == after.id else subtask for subtask in state.subtasks)
    pending = [subtask.id for subtask in subtasks if subtask.status == "pending"]
    past = HistoryEntry(subtask=current.id, layers=tuple(map(tuple, layers)), verdict=assessment.verdict)
    return state.replace(
        subtasks=subtasks,
        active=after.id if after.status == "pending" else next(iter(pending), None),
        assessment=assessment,
        history=(*state.history, past)[-HISTORY:],
        hint="",
        replan=after.status == "failed",
    )


def apply_assessment(subtask: Subtask, outcome: str, assessment: Assessment, *, refinements: int) -> Subtask:
    """The active subtask after a verdict (App. B.3).

    success                            DONE         completed, with its artifact; the next pending one is active
    refine, refinements left           NEED-REFINE  pending, with its outcome and what is wrong; it stays active
    refine, no refinements left        FAILED       failed, and the planner must plan anew
    fail                               FAILED       failed, and the planner must plan anew
    """
    if assessment.verdict == "success":
        artifact = excerpt(outcome, ARTIFACT_LENGTH, subtask.goal)
        return subtask.replace(status="completed", artifact=artifact, trouble="", attempt="")
    trouble = excerpt(assessment.feedback, FEEDBACK_LENGTH) or "It was not done, and nobody said why."
    if assessment.verdict == "refine" and subtask.refinements < refinements:
        attempt = excerpt(outcome, ARTIFACT_LENGTH, subtask.goal) or subtask.attempt
        return subtask.replace(refinements=subtask.refinements + 1, trouble=trouble, attempt=attempt)
    return subtask.replace(status="failed", trouble=trouble, attempt="")
