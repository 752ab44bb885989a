"""Grades for tests of methods without an environment."""

from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory


async def no_grade(done: Trajectory, at: Scope) -> Trajectory:
    """Stands where a method must not ask for a grade."""
    raise AssertionError(f"nobody grades {done.question.id} at {at}")
