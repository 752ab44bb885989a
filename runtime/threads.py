"""Foreign code in a thread of its own: if it never returns, nobody else waits for its place in a pool.

Context variables go along, so that what is not traced here is not traced there either.
"""

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from types import TracebackType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
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


class CallTimeoutError(Exception):
    """A call did not end in its time."""


class LoopBlockedError(Exception):
    """A call did not end in its time, as another one held up the loop that they share."""


async def on_foreign_loop(
    loop: asyncio.AbstractEventLoop, seconds: float | None, call: Callable[P, Awaitable[T]], *args: P.args,
    **kwargs: P.kwargs,
) -> T:  # fmt: skip
    """Await a call on a loop for foreign code; one that never yields holds up nothing here.

    Args:
        loop: `get_shared_loop()`, or one of `get_own_loop()`.
        seconds: until it is given up; None for never.
        call, args, kwargs: what is awaited there.

    Raises:
        CallTimeoutError: it took too long. If it does not let go of a shared loop, later calls get a new one.
        LoopBlockedError: it took too long because of another call, so nobody knows how long it takes.
        RuntimeError: it raised what would end the process; whatever else it raises passes through.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    tasks: list[asyncio.Task[None]] = []
    begun: list[float] = []

    async def run() -> None:
        begun.append(time.monotonic())
        with _Delivery(done) as delivery:
            value = await call(*args, **kwargs)
            delivery.tell(lambda: done.set_result(value))

    loop.call_soon_threadsafe(lambda: tasks.append(loop.create_task(run())), context=contextvars.copy_context())
    try:
        await asyncio.wait({done}, timeout=seconds)
        if begun and seconds is not None:  # its time is its own: others may have kept it from beginning
            await asyncio.wait({done}, timeout=max(0.0, begun[0] + seconds - time.monotonic()))
        if done.done():
            return done.result()
        busy_with = asyncio.current_task(loop)
        stuck = await _is_stuck(loop)
        if done.done():
            return done.result()
    finally:
        if not done.done():
            done.cancel()
            with contextlib.suppress(RuntimeError):  # the loop has gone
                loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
    others = busy_with not in tasks and (busy_with is not None or stuck)
    raise LoopBlockedError if others or not begun else CallTimeoutError


_LOOPS: list[asyncio.AbstractEventLoop] = []
"""The loop that serves foreign code now, if there is one; one that is stuck lives until the process ends."""
_CHANGE = threading.Lock()
_PATIENCE = 0.5
"""Seconds in which a loop that is not stuck answers."""


def get_shared_loop() -> asyncio.AbstractEventLoop:
    """The loop that all foreign code shares, as clients are bound to the loop of their first use."""
    with _CHANGE:
        if not _LOOPS:
            _LOOPS.append(_running_loop())
        return _LOOPS[-1]


@contextlib.contextmanager
def get_own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop for one call, which nobody else can hold up."""
    loop = _running_loop()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)


def _running_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()

    def run() -> None:
        loop.run_forever()
        loop.run_until_complete(_ended())
        loop.close()

    threading.Thread(target=run, name="foreign loop", daemon=True).start()
    return loop


async def _ended() -> None:
    """Wait for what was cancelled, so that it can clean up."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*left, return_exceptions=True)


async def _is_stuck(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop does not answer, or did not when it was last asked; a shared one is given up then."""
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    loop.call_soon_threadsafe(_Delivery(answer).tell, lambda: answer.set_result(None))
    if (await asyncio.wait({answer}, timeout=_PATIENCE))[0]:
        return False
    answer.cancel()
    with _CHANGE, contextlib.suppress(ValueError):
        _LOOPS.remove(loop)
    return True


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
