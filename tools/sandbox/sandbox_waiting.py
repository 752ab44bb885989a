"""Waiting in all sandboxes: for a free slot, and for the end of a program within its time limit."""

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from selfwire.core.errors import SandboxError
from selfwire.tools.sandbox.process_time import ProcessTimer

_CHECK_INTERVAL = 0.2
"""Seconds between two checks of a program."""
PATIENCE = 10
"""Most wall time of a program, as a multiple of its time limit; after that the machine is too busy."""

_SLOTS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def slots() -> asyncio.Semaphore:
    """Return the semaphore of this event loop: two runs per processor, as half of a start is waiting for the kernel."""
    return _SLOTS.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(2 * (os.cpu_count() or 1)))


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
