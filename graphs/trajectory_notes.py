"""Trajectories of a phase in the journal: a note per phase lists them by task, and their bodies lie beside it."""

from collections.abc import Iterable

from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.runtime.journal import Journal

TRAJECTORIES = "trajectories/"
"""Prefix of the notes."""


async def keep_trajectories(journal: Journal, found: Iterable[Trajectory], scope: Scope) -> None:
    """Keep the trajectories of a phase, in place of those that were kept for it before."""
    bodies = {get_sample_name(t): await journal.put_body(t.model_dump(mode="json")) for t in found}
    await journal.put_note(get_scope_note(scope), bodies)


async def load_trajectories(journal: Journal, scope: Scope) -> list[Trajectory]:
    """The kept trajectories of a phase; none where it has not begun."""
    bodies = await journal.get_note(get_scope_note(scope)) or {}
    return [Trajectory.model_validate(await journal.get_body(body)) for body in bodies.values()]


def get_sample_name(done: Trajectory) -> str:
    """Name of a trajectory within its phase: its task's id, and which of several samples it is."""
    return f"{done.question.id}#{done.sample}" if done.sample else done.question.id


def get_scope_note(scope: Scope) -> str:
    """Name of the note of a scope's phase; the side of a comparison stands behind the run's name."""
    return get_trajectories_note(scope.iteration, scope.phase, scope.run.partition("/")[2])


def get_trajectories_note(iteration: int, phase: str, side: str = "") -> str:
    """Name of the journal's note that lists a phase's trajectories, as hashes by task.

    The side of a comparison is incumbent, candidate or pruned, before or after, and "" elsewhere.
    """
    return f"{TRAJECTORIES}{iteration}/{phase}/{side}"
