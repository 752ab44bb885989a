"""Synchronous calls of coroutines; no other module makes a sync form of an async one."""

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background event loop of this process and wait for it.

    It gets the context variables, with callbacks, tags and stream writers of LangGraph. One loop serves all calls, as
    HTTP clients are bound to the loop of their first use. Ctrl-C cancels the coroutine and waits for its clean-up.
    On the background loop it raises a RuntimeError, as that would wait for itself.
    """
    loop = _background_loop()
    if _get_running_loop() is loop:
        coroutine.close()
        raise RuntimeError("run_sync was called on the background event loop; await the coroutine instead")
    result: Future[T] = Future()
    tasks: list[asyncio.Task[None]] = []

    def start() -> None:
        tasks.append(loop.create_task(_deliver(coroutine, result)))

    loop.call_soon_threadsafe(start, context=contextvars.copy_context())
    try:
        return result.result()
    except KeyboardInterrupt:
        loop.call_soon_threadsafe(lambda: tasks[0].cancel())
        result.exception()  # waits
        raise


async def _deliver(coroutine: Coroutine[Any, Any, T], result: "Future[T]") -> None:
    try:
        value = await coroutine
    except BaseException as error:
        result.set_exception(CancelledError() if isinstance(error, asyncio.CancelledError) else error)
        if isinstance(error, asyncio.CancelledError):
            raise
    else:
        result.set_result(value)


def _get_running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@functools.cache
def _background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=_serve_forever, args=(loop,), name="selfwire-loop", daemon=True).start()
    return loop


def _serve_forever(loop: asyncio.AbstractEventLoop) -> NoReturn:
    """Run a loop for ever, also after code of others has called `sys.exit` on it; who waits for that gets the error."""
    while True:
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            loop.run_forever()
