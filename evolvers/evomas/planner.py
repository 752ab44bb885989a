"""The Planner: a model proposes the plan, and a pure function makes a valid task state of any reply (App. B.1).

The reply is untrusted, so its effects are bounded: it adds, drops, rewords and reorders pending subtasks and may give
one up. It completes none (only the evaluator does), revives none that has failed, and loses no artifact.
"""

from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from selfwire.core.chat import ReplySchema
from selfwire.core.scope import Scope
from selfwire.core.text import excerpt
from selfwire.core.usage import Usage
from selfwire.evolvers.evomas.state import (
    FEEDBACK_LENGTH,
    GOAL_LENGTH,
    SUBTASKS,
    TAGS,
    WHOLE_TASK,
    Subtask,
    TaskState,
    format_plan,
    fresh_id,
)
from selfwire.evolvers.prompted_model import PromptedModel

Tag = Literal["TODO", "DONE", "FAILED", "NEED-REFINE"]


class PlannedSubtask(ReplySchema):
    """One subtask of the plan."""

    id: str = Field(default="", description="Its id if it is in the plan already; empty if it is new.")
    goal: str = Field(description="What to do, in one sentence.")
    status: Tag = Field(default="TODO", description="Where it stands.")


class Plan(ReplySchema):
    """The updated plan."""

    MAX_TOKENS: ClassVar[int] = 1500

    subtasks: list[PlannedSubtask] = Field(description="The whole plan, in order.")
    active: str = Field(default="", description="Id of the subtask to work on next; its goal if it is new.")
    summary: str = Field(default="", description="What the completed subtasks have found, in a few sentences.")
    hint: str = Field(default="", description="What the next subtask needs, in one sentence.")


class PlanResult(NamedTuple):
    """The state with its new plan, the cost, and whether it is only the fallback."""

    state: TaskState
    usage: Usage
    fell_back: bool = False


async def make_plan(
    state: TaskState, outcome: str, meta_model: PromptedModel, *, tools: str, agents: str, scope: Scope
) -> PlanResult:
    """Ask the planner for an updated plan; without a valid reply `advance_plan` keeps the plan."""
    last = state.assessment
    assessment = f"{TAGS[last.verdict]} (confidence {last.confidence:.2f}): {last.feedback}" if last else ""
    if state.replan:
        assessment += "\nThe subtask has failed for good; plan another way."
    passed = last is not None and last.verdict == "success"
    reply, usage = await meta_model.ask_or(
        None,
        Plan,
        "planner",
        scope=scope.at(node="planner"),
        task=state.objective,
        state=format_plan(state),
        outcome="" if passed else outcome,  # what passed stands among the results
        assessment=assessment,
        agents=agents,
        tools=tools,
    )
    if reply is None:
        return PlanResult(advance_plan(state), usage, fell_back=True)
    return PlanResult(apply_plan(state, reply), usage)


def apply_plan(state: TaskState, reply: Plan) -> TaskState:
    """The state with the legal part of a reply's plan; any reply gives a valid state."""
    if not any(_clean_goal(item.goal) or item.id.strip() for item in reply.subtasks):
        return advance_plan(state)
    by_id = {subtask.id: subtask for subtask in state.subtasks}
    by_goal = {subtask.goal.lower(): subtask for subtask in state.subtasks}
    over = [subtask for subtask in state.subtasks if subtask.status != "pending"]
    pending: list[Subtask] = []
    for item in reply.subtasks:
        known = by_id.get(item.id.strip()) or by_goal.get(_clean_goal(item.goal).lower())
        made = _revise(known, item) if known else _add(item, state, pending)
        if made is None or made.id in {subtask.id for subtask in (*over, *pending)}:
            continue
        (over if made.status == "failed" else pending).append(made)
    kept = _bound(over, pending)
    texts = {name: excerpt(getattr(reply, name).strip(), FEEDBACK_LENGTH) for name in ("summary", "hint")}
    return _activate_subtask(
        state.replace(subtasks=kept, active=None, replan=False, **texts), wanted=reply.active, previous=state
    )


def advance_plan(state: TaskState) -> TaskState:
    """The state after a useless reply: the next pending subtask is active, else the whole task."""
    return _activate_subtask(state.replace(replan=False), wanted="", previous=state)


def plan_single_subtask(state: TaskState) -> TaskState:
    """The state of a run without plans: the task is its only subtask, whatever its earlier outcomes."""
    return TaskState(
        objective=state.objective,
        subtasks=(Subtask(id="s1", goal=WHOLE_TASK),),
        active="s1",
    )


def _activate_subtask(state: TaskState, *, wanted: str, previous: TaskState) -> TaskState:
    """The state with an active subtask: the wanted one, else the one before, else the next; else the whole task."""
    pending = list(state.pending)
    if not pending:
        if state.completed and not previous.replan:
            return state.replace(active=None)
        whole = Subtask(id=fresh_id(previous, state.subtasks), goal=WHOLE_TASK)
        over = [subtask for subtask in state.subtasks if subtask.status != "pending"]
        return state.replace(subtasks=_bound(over, [whole]), active=whole.id)
    ids = [subtask.id for subtask in pending]
    goals = {subtask.goal.lower(): subtask.id for subtask in pending}
    found = wanted.strip() if wanted.strip() in ids else goals.get(_clean_goal(wanted).lower())
    return state.replace(active=found or (previous.active if previous.active in ids else ids[0]))


def _revise(known: Subtask, item: PlannedSubtask) -> Subtask | None:
    if known.status != "pending":
        return None  # a finished subtask does not change
    if item.status == "FAILED":
        return known.replace(status="failed", trouble=known.trouble or "The planner gave it up.")
    return known.replace(goal=_clean_goal(item.goal) or known.goal)


def _add(item: PlannedSubtask, state: TaskState, pending: list[Subtask]) -> Subtask | None:
    goal = _clean_goal(item.goal)
    if not goal or item.status in ("DONE", "FAILED"):
        return None  # a subtask that never ran is neither done nor failed
    return Subtask(id=fresh_id(state, pending), goal=goal)


def _bound(over: list[Subtask], pending: list[Subtask]) -> tuple[Subtask, ...]:
    """At most `SUBTASKS`: drops failed ones first, oldest first, then the last pending ones, and artifacts last."""
    failed = [subtask for subtask in over if subtask.status == "failed"]
    completed = [subtask for subtask in over if subtask.status != "failed"]
    pending = pending[: max(1, SUBTASKS - len(completed))]
    room = SUBTASKS - len(pending)
    completed = completed[-room:]
    left = room - len(completed)
    kept = {subtask.id for subtask in (*completed, *(failed[-left:] if left > 0 else ()))}
    return (*(subtask for subtask in over if subtask.id in kept), *pending)


def _clean_goal(text: str) -> str:
    return excerpt(" ".join(text.split()), GOAL_LENGTH)
