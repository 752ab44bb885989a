"""Waiting in all sandboxes: for a free slot, and for the end of a program within a limit on its own time.

A program's own time passes while it computes or sleeps, not while it waits for a busy processor: wall time also passes
while other programs use the processors, so that on a busy machine a correct program would seem never to end.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from selfwire.core.errors import SandboxError

_CHECK_INTERVAL = 0.2
"""Seconds between two checks of a program."""
PATIENCE = 10
"""Most wall time of a program, as a multiple of its time limit; after that the machine is too busy."""

_SLOTS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def slots() -> asyncio.Semaphore:
    """Return the semaphore of this event loop: two runs per processor, as half of a start is waiting for the kernel."""
    return _SLOTS.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(2 * (os.cpu_count() or 1)))


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
            computed += sum(map(int, _read_fields(here)[_TIMES])) / os.sysconf("SC_CLK_TCK")
            for thread in (here / "task").iterdir():
                ready = ready or _read_fields(thread)[_STATE] in _READY
                waiting += map(int, (thread / "children").read_text().split())
    return computed, ready


def _read_fields(folder: Path) -> list[str]:
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()


async def wait_for_end(process: int, ends: Sequence[asyncio.Future[Any]], seconds: float) -> None:
    """Wait for any of the ends, or until the process and its descendants have used up their seconds."""
    timer, began = ProcessTimer(process), time.monotonic()
    while not any(end.done() for end in ends):
        await asyncio.wait(ends, timeout=_CHECK_INTERVAL, return_when=asyncio.FIRST_COMPLETED)
        if timer.look(_CHECK_INTERVAL) >= seconds:
            return
        if (waited := time.monotonic() - began) > PATIENCE * seconds and not any(end.done() for end in ends):
            raise SandboxError(
                f"the machine is too busy to run the program: in {waited:.0f} s it had {timer.seconds:.0f} of its "
                f"{seconds:g} s; run less beside it, or set a lower --concurrency, and resume"
            )
