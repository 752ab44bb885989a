"""Every task of a benchmark with an answer that is made for it."""

import asyncio
from collections.abc import Callable, Sequence

from selfwire.core.protocols import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task


async def graded(environment: Environment, tasks: Sequence[Task], answer: Callable[[Task], str]) -> dict[str, Feedback]:
    found = await asyncio.gather(*(environment.grade(task, answer(task), scope=Scope(task=task.id)) for task in tasks))
    return dict(zip((task.id for task in tasks), found, strict=True))


def solved(found: dict[str, Feedback]) -> int:
    assert all(one.solved == (one.score == 1) for one in found.values())
    return sum(one.solved for one in found.values())


def unsolved(found: dict[str, Feedback]) -> dict[str, str]:
    """What is said of those that are not solved."""
    return {name: one.text for name, one in found.items() if not one.solved}
