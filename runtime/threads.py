"""Foreign code in a thread of its own: if it never returns, nobody else waits for its place in a pool.

Context variables go along, so that what is not traced here is not traced there either.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a daemon thread and wait for it; who is cancelled leaves it behind.

    Python cannot stop a thread: a call that never returns lives until the process ends, which does not wait for it.

    Raises:
        RuntimeError: it raised what would end the process, such as SystemExit; whatever else it raises passes through.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    context = contextvars.copy_context()

    def run() -> None:
        with _Delivery(done) as delivery:
            value = context.run(partial(call, *args, **kwargs))
            delivery.tell(lambda: done.set_result(value))

    threading.Thread(target=run, name="foreign", daemon=True).start()
    return await done


async def on_foreign_loop(call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await a call on the event loop that foreign code shares; one that never yields holds up nothing here.

    All calls share one loop, as clients are bound to the loop of their first use; where a call that is cancelled
    does not let go of it, later calls get a new one.

    Raises:
        RuntimeError: it raised what would end the process; whatever else it raises passes through.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    loop = _foreign_loop()
    tasks: list[asyncio.Task[None]] = []

    async def run() -> None:
        with _Delivery(done) as delivery:
            value = await call(*args, **kwargs)
            delivery.tell(lambda: done.set_result(value))

    loop.call_soon_threadsafe(lambda: tasks.append(loop.create_task(run())), context=contextvars.copy_context())
    try:
        return await done
    except asyncio.CancelledError:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
        _give_up_if_stuck(loop)
        raise


_LOOPS: list[asyncio.AbstractEventLoop] = []
"""The loop that serves foreign code now, if there is one; one that is stuck lives until the process ends."""
_CHANGE = threading.Lock()
_PATIENCE = 0.5
"""Seconds in which a loop that is not stuck answers."""


def _foreign_loop() -> asyncio.AbstractEventLoop:
    with _CHANGE:
        if not _LOOPS:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="foreign loop", daemon=True).start()
            _LOOPS.append(loop)
        return _LOOPS[-1]


def _give_up_if_stuck(loop: asyncio.AbstractEventLoop) -> None:
    if loop not in _LOOPS:
        return
    answered = threading.Event()
    loop.call_soon_threadsafe(answered.set)
    if not answered.wait(_PATIENCE):
        with _CHANGE, contextlib.suppress(ValueError):
            _LOOPS.remove(loop)


class _Delivery:
    """Hands what a thread came to over to the loop that waits for it."""

    def __init__(self, done: "asyncio.Future[T]") -> None:
        self._done = done
        self._loop = done.get_loop()

    def tell(self, finish: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has gone
            self._loop.call_soon_threadsafe(lambda: None if self._done.done() else finish())

    def __enter__(self) -> "_Delivery":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None:
            fault = error if isinstance(error, Exception) else RuntimeError(repr(error))  # or a cancelled task's end
            self.tell(lambda: self._done.set_exception(fault))
        return True
