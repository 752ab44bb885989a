"""The time that a program itself takes: while its processes compute, and while all of them sleep.

Wall time also passes while other programs have the processors, so on a busy machine a correct program would look like
one that never ends.
"""

import os
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_READY = "RD"
"""States of threads that run, wait for a processor, or wait for the disk."""
_STATE, _TIMES = 0, slice(11, 15)
"""Positions after the name in /proc/N/stat: the state; user and system time, its own and that of ended children."""


class ProcessTimer:
    """Adds up the time that a process and its descendants take from now on, by checking them regularly.

    Without /proc no process seems to compute, so that all wall time counts.
    """

    def __init__(self, process: int) -> None:
        self._process, self._computed, self._slept = process, 0.0, 0.0
        self._before = _inspect(process)[0]

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return self._computed + self._slept

    def look(self, passed: float) -> float:
        """Check again, at least `passed` seconds after the last time; return the seconds so far."""
        computed, ready = _inspect(self._process)
        self._computed = max(self._computed, computed - self._before)
        if not ready:
            self._slept += passed
        return self.seconds


def _inspect(process: int) -> tuple[float, bool]:
    """Processor time in seconds of a process and its descendants, and whether any of their threads is ready to run."""
    waiting, computed, ready = [process], 0.0, False
    while waiting:
        here = Path("/proc", str(waiting.pop()))
        with suppress(OSError):  # it may end meanwhile
            computed += sum(map(int, _fields(here)[_TIMES])) / _TICKS
            for thread in (here / "task").iterdir():
                ready = ready or _fields(thread)[_STATE] in _READY
                waiting += map(int, (thread / "children").read_text().split())
    return computed, ready


def _fields(folder: Path) -> list[str]:
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
