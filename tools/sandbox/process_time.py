"""Measures a program's own time: computing or sleeping, without waiting for a busy processor.

Wall time also passes while other programs use the processors, so that on a busy machine a correct program would seem
never to end.
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
    """A timer of a process and its descendants from now on; `look` must be called regularly.

    Without /proc all processes seem to sleep, so that all wall time counts.
    """

    def __init__(self, process: int) -> None:
        self._process, self._computed, self._slept = process, 0.0, 0.0
        self._before = _inspect(process)[0]

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return self._computed + self._slept

    def look(self, passed: float) -> float:
        """Check the processes, at least `passed` seconds after the last check; return the seconds so far."""
        computed, ready = _inspect(self._process)
        self._computed = max(self._computed, computed - self._before)
        if not ready:
            self._slept += passed
        return self.seconds


def _inspect(process: int) -> tuple[float, bool]:
    """Measure the processor seconds of a process and its descendants, and whether any thread is ready to run."""
    waiting, computed, ready = [process], 0.0, False
    while waiting:
        here = Path("/proc", str(waiting.pop()))
        with suppress(OSError):  # it may end meanwhile
            computed += sum(map(int, _read_fields(here)[_TIMES])) / _TICKS
            for thread in (here / "task").iterdir():
                ready = ready or _read_fields(thread)[_STATE] in _READY
                waiting += map(int, (thread / "children").read_text().split())
    return computed, ready


def _read_fields(folder: Path) -> list[str]:
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
