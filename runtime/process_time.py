"""The time that a program takes of its own: what its processes compute, and what passes while all of them sleep.

A clock on the wall also runs while others have the processors; by it a right program on a busy machine looks like
one that never ends.
"""

import os
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_READY = "RD"
"""States of what computes, or would if it were let: on a processor or waiting for one, or waiting for the disk."""
_STATE, _TIMES = 0, slice(11, 15)
"""Places behind the name in /proc/N/stat: the state; user and system time, own and of children that were awaited."""


class ProcessTimer:
    """Adds up the time that a process and all below it take of their own, from looks at them now and then.

    Where /proc cannot be read nothing seems to compute, so that all time counts, as on a clock on the wall.

    Args:
        process: its number.
    """

    def __init__(self, process: int) -> None:
        self._process, self._computed, self._slept = process, 0.0, 0.0

    @property
    def seconds(self) -> float:
        """So far."""
        return self._computed + self._slept

    def look(self, passed: float) -> float:
        """Look again, `passed` seconds after the last time at least; return the seconds so far."""
        computed, ready = _seen(self._process)
        self._computed = max(self._computed, computed)
        if not ready:
            self._slept += passed
        return self.seconds


def _seen(process: int) -> tuple[float, bool]:
    """Seconds of processor time of a process and all below it, and whether any of their threads is ready to run."""
    waiting, computed, ready = [process], 0.0, False
    while waiting:
        here = Path("/proc", str(waiting.pop()))
        with suppress(OSError):  # it may end while it is looked at
            computed += sum(map(int, _fields(here)[_TIMES])) / _TICKS
            for thread in (here / "task").iterdir():
                ready = ready or _fields(thread)[_STATE] in _READY
                waiting += map(int, (thread / "children").read_text().split())
    return computed, ready


def _fields(folder: Path) -> list[str]:
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
