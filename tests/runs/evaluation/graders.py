"""Graders that misbehave, for tests that name them as module:function."""

import asyncio
import time

from selfwire.core.task import Task

MENDED = set[str]()
"""Whims that are over."""


def capricious(task: Task, answer: str) -> float:
    """Raises, hangs, returns NaN or leaves the process, as the reference says; else 1."""
    whim = str(task.reference)
    if whim in MENDED:
        return 1.0
    if whim == "raise":
        raise KeyError("gone")
    if whim == "hang":
        time.sleep(3600)
    if whim == "leave":
        raise SystemExit(3)
    return float("nan") if whim == "nan" else 1.0


async def capricious_async(task: Task, answer: str) -> float:
    """As `capricious`; `block` holds up the loop that it runs on, `dawdle` for a while, and `wait` only itself."""
    whim = str(task.reference)
    if whim in MENDED:
        return 1.0
    if whim == "wait":
        await asyncio.sleep(3600)
    if whim == "block":
        time.sleep(3600)  # noqa: ASYNC251  # as foreign code may do
    if whim == "dawdle":
        time.sleep(0.3)  # noqa: ASYNC251
    if whim == "cancel":
        raise asyncio.CancelledError
    await asyncio.sleep(0)
    return capricious(task, answer)
