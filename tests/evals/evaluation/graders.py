"""Graders that misbehave, for tests that name them as module:function."""

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
