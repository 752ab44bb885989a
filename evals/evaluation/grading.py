"""Grading with a time limit: an environment that hangs costs one task, not the run."""

import asyncio

from selfwire.core.errors import GradingError
from selfwire.core.ports import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task


class TimedEnvironment:
    """An environment that is given up after some seconds.

    Args:
        inner: grades.
        seconds: for one answer.
    """

    def __init__(self, inner: Environment, seconds: float) -> None:
        self.inner, self.seconds = inner, seconds
        self.name = inner.name  # so that the journal finds what it graded

    async def assess(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score an answer.

        Raises:
            GradingError: the environment failed, or took too long.
        """
        try:
            async with asyncio.timeout(self.seconds) as timer:
                return await self.inner.assess(task, answer, scope=scope)
        except TimeoutError as error:
            if not timer.expired():
                raise GradingError(f"{self.name} failed on task {task.id!r}: {error!r}") from error
            raise GradingError(
                f"{self.name} did not grade task {task.id!r} within {self.seconds:g} s; "
                "mend it or raise --grading-timeout"
            ) from None
