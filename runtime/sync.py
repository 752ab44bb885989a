"""The sync form of every async function: one background event loop per process."""

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def _background() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="selfwire-loop", daemon=True).start()
    return loop


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and wait for it.

    One loop for the whole process keeps clients that are bound to a loop usable from call to call.
    The caller's context variables are seen by the coroutine.

    Raises:
        RuntimeError: called on the background loop itself, which would wait for itself forever.
    """
    loop = _background()
    try:
        running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        coroutine.close()
        raise RuntimeError("a sync call was made from inside selfwire's own event loop; await the async form there")
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # an interrupt of the waiting thread must not leave requests in flight
        raise
