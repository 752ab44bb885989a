"""Structural lessons across questions: beyond the paper, which names their absence as its limitation. Off by default.

A lesson says how a kind of structural change moved the judge's score, in numbers and in names of fixed sets: the
initial roles, the tools and the operations. Every other agent is "a newcomer". A lesson holds no text of a question,
an answer or a model, so it cannot reveal an instance.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from pydantic import Field

from selfwire.core.edits import AddAgent, AddEdge, Edit, RemoveAgent, RemoveEdge, ReplaceAgent, Rewiring
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel, to_plain_json
from selfwire.evolvers.tacomas.initial_team import ROLES
from selfwire.evolvers.tacomas.rounds import TacomasRound

MEMORY = "lessons"
MOST = 50
SHOWN = 5


class ChangeLesson(FrozenModel):
    """Effect of one kind of change.

    Args:
        change: the change, in words of this module.
        times: number of slow updates that made it.
        gain: sum of the changes of s from the round before to the round after.
    """

    change: str
    times: int = Field(ge=1)
    gain: float

    @property
    def mean_gain(self) -> float:
        """Mean change of s, drawn toward 0 where there is little evidence."""
        return self.gain / (self.times + 1)


def get_lessons(team: Team) -> tuple[ChangeLesson, ...]:
    """Lessons in the team's memory."""
    return tuple(ChangeLesson.model_validate(to_plain_json(lesson)) for lesson in team.memory.get(MEMORY, ()))


def with_lessons(team: Team, trajectories: Iterable[Trajectory], *, tools: Sequence[str]) -> Team:
    """The team with the lessons of some runs; a run with an error teaches nothing.

    Args:
        trajectories: results of `Tacomas.answer`, whose notes hold the rounds.
        tools: names of tools that lessons may mention.
    """
    lessons = {lesson.change: lesson for lesson in get_lessons(team)}
    for done in trajectories:
        if done.error is None and "rounds" in done.notes:
            for change, gain in derive_lessons(
                [TacomasRound.model_validate(to_plain_json(r)) for r in done.notes["rounds"]], tools
            ):
                old = lessons.get(change)
                times, whole = (old.times, old.gain) if old else (0, 0.0)
                lessons[change] = ChangeLesson(change=change, times=times + 1, gain=round(whole + gain, 6))
    if not lessons:
        return team
    kept = sorted(lessons.values(), key=lambda lesson: (-lesson.times, -lesson.gain, lesson.change))[:MOST]
    return team.with_memory(**{MEMORY: [lesson.model_dump(mode="json") for lesson in kept]})


def derive_lessons(rounds: Sequence[TacomasRound], tools: Sequence[str]) -> list[tuple[str, float]]:
    """(change, change of s) of every slow update between two scored rounds; each change once per update."""
    found = []
    for before, after in pairwise(rounds):
        if before.score is not None and after.score is not None:
            changes = (describe_changes(rewiring, tools) for rewiring in before.applied)
            found += [(change, after.score - before.score) for change in dict.fromkeys(changes) if change]
    return found


def describe_changes(rewiring: Rewiring, tools: Sequence[str]) -> str:
    """A structural change in words of this module; "" for any other."""
    if rewiring.operation in ("FEEDBACK", "UNDO_BIRTH"):
        return ""
    return "; ".join(text for edit in rewiring.edits if (text := _edit_text(edit, tools)))


def render_lessons(lessons: Sequence[ChangeLesson]) -> str:
    """The most and the least helpful changes, for the meta-model."""
    ranked = sorted(lessons, key=lambda lesson: (-abs(lesson.mean_gain), lesson.change))[:SHOWN]
    return "\n".join(
        f"{lesson.change}: {lesson.times} times, mean change of the score {lesson.gain / lesson.times:+.2f}"
        for lesson in ranked
    )


def _edit_text(edit: Edit, tools: Sequence[str]) -> str:
    match edit:
        case AddAgent():
            return f"birth of a newcomer {_holding(edit.agent.tools, tools)}"
        case ReplaceAgent():
            return f"{_name(edit.agent)} replaced by a newcomer {_holding(edit.replacement.tools, tools)}"
        case RemoveAgent():
            return f"death of {_name(edit.agent)}"
        case AddEdge():
            return f"edge added {_name(edit.source)} -> {_name(edit.target)}"
        case RemoveEdge():
            return f"edge removed {_name(edit.source)} -> {_name(edit.target)}"
        case _:
            return ""


def _name(agent: str) -> str:
    return agent if agent in ROLES else "a newcomer"


def _holding(held: Sequence[str], tools: Sequence[str]) -> str:
    names = sorted(set(held) & set(tools))
    return f"with {', '.join(names)}" if names else "without tools"
