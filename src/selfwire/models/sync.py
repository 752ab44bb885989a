"""Async code called from sync code, and threads of event loops: one background event loop, and daemon threads.

Foreign code gets the caller's context variables, so that untraced code stays untraced.
"""

import asyncio
import contextlib
import contextvars
import functools
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from concurrent.futures.thread import _worker
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet, finalize

from selfwire.core.errors import ConfigError
from selfwire.core.values import format_count

P = ParamSpec("P")
T = TypeVar("T")


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background event loop of this process and wait for it.

    The coroutine gets the caller's context variables, with LangGraph's callbacks, tags and stream writers. All calls
    share a loop, as HTTP clients are bound to the loop of their first use. Ctrl-C waits for the replies to the requests
    in flight, which are paid, unless there is another Ctrl-C. Then it cancels the coroutine, waits for its clean-up and
    takes over the notes that it has left on its cancellation.

    Raises:
        RuntimeError: the caller runs on the background loop, which would wait for itself.
    """
    loop = _get_background_loop()
    if find_running_loop() is loop:
        coroutine.close()
        raise RuntimeError("run_sync was called on the background event loop; await the coroutine instead")
    result: Future[T] = Future()
    tasks: list[asyncio.Task[None]] = []
    context, requests = contextvars.copy_context(), RequestsInFlight.find()
    context.run(_REQUESTS.set, requests)

    def start() -> None:
        tasks.append(loop.create_task(_deliver(coroutine, result)))
        tasks[0].add_done_callback(end)

    def cancel() -> None:
        if tasks:
            tasks[0].cancel()
        else:
            end(None)
        requests.end()

    def end(_: object) -> None:
        """End what was cancelled before it began."""
        coroutine.close()
        if not result.done():
            result.set_exception(CancelledError())

    try:
        loop.call_soon_threadsafe(start, context=context)
        return result.result()
    except KeyboardInterrupt as interrupt:
        try:
            with contextlib.suppress(KeyboardInterrupt):
                requests.wait()
            loop.call_soon_threadsafe(cancel)
            wait([result], timeout=_PATIENCE)
        finally:
            requests.end()  # also where the loop waits for a thread, which waits to send a request
        error = result.exception()  # waits
        for note in getattr(error, "__notes__", ()) if error is not interrupt else ():  # or it raised this itself
            interrupt.add_note(note)
        raise


class RequestsInFlight:
    """The requests to models that were sent under one `run_sync`, and whose replies are still to come.

    After an interruption no other is sent: those that would be wait until the end, and are cancelled then.
    """

    def __init__(self) -> None:
        self._sent = set[object]()
        self._is_stopping = self._is_ended = False

    @classmethod
    def find(cls) -> "RequestsInFlight":
        """Find those of the running code, of the outer `run_sync` where one calls another; new ones without any."""
        return _REQUESTS.get() or cls()

    @contextlib.asynccontextmanager
    async def send(self) -> AsyncIterator[None]:
        """Count a request that is sent in the block; raises CancelledError where it is not sent any more."""
        while self._must_wait:  # noqa: ASYNC110 - another thread ends it
            await asyncio.sleep(TURN)
        with self._count():
            yield

    @contextlib.contextmanager
    def send_in_thread(self) -> Iterator[None]:
        """Do as `send` in a thread; one with an event loop does not wait, as it would hold up what runs there."""
        while self._must_wait and find_running_loop() is None:
            time.sleep(TURN)
        with self._count():
            yield

    @property
    def _must_wait(self) -> bool:
        return self._is_stopping and not self._is_ended

    @contextlib.contextmanager
    def _count(self) -> Iterator[None]:
        if self._is_ended:
            raise asyncio.CancelledError
        request = object()
        self._sent.add(request)
        try:
            yield
        finally:
            self._sent.discard(request)

    def wait(self) -> None:
        """Let no other request be sent, and wait for those in flight, and shortly for their replies to be recorded."""
        self._is_stopping, until = True, time.monotonic() + INTERRUPT_WAIT
        if self._sent:
            _log.warning(
                "stopping: up to %g seconds for the replies to %s in flight, so that they are not paid again; "
                "Ctrl-C once more ends at once",
                INTERRUPT_WAIT,
                format_count(len(self._sent), "request"),
            )
        while self._sent and time.monotonic() < until:
            time.sleep(TURN)
            if not self._sent:
                time.sleep(TURN)

    def end(self) -> None:
        """Have all that would send requests be cancelled."""
        self._is_ended = True


_REQUESTS = contextvars.ContextVar["RequestsInFlight | None"]("requests in flight", default=None)
_log = logging.getLogger(__name__)
INTERRUPT_WAIT = 30.0
"""Most seconds that an interruption waits for the replies to requests in flight."""
TURN = 0.05
"""Seconds between two looks at requests in flight; within one a reply that has arrived is recorded."""


def is_called_synchronously() -> bool:
    """Whether the running code was called by `run_sync`, directly or not."""
    return find_running_loop() is _get_background_loop()


async def _deliver(coroutine: Coroutine[Any, Any, T], result: "Future[T]") -> None:
    try:
        value = await coroutine
    except BaseException as error:
        if not isinstance(error, asyncio.CancelledError):
            return result.set_exception(error)
        cancelled = CancelledError()
        cancelled.__notes__ = list(getattr(error, "__notes__", ()))
        result.set_exception(cancelled)
        raise
    else:
        result.set_result(value)


def find_running_loop() -> asyncio.AbstractEventLoop | None:
    """Find the event loop that runs in this thread; None if there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def require_event_loop(name: str) -> None:
    """Refuse to await the async form of a function without an event loop of asyncio, as under trio.

    Args:
        name: of the async form: that of the sync one with an "a" before it.

    Raises:
        ConfigError: there is no such loop.
    """
    if find_running_loop() is None:
        raise ConfigError(f"{name} is awaited without an event loop of asyncio; call {name[1:]} in a thread")


@functools.cache
def _get_background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=_serve, args=(loop,), name="selfwire-loop", daemon=True).start()
    return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped; code that calls `sys.exit` on it ends only its own caller's wait."""
    while True:
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            loop.run_forever()
            return


ROOM = 256
"""Threads of an event loop for what graphs run there; some wait for others, as an entrypoint does for its tasks."""


class _DaemonThreads(ThreadPoolExecutor):
    """Runs calls in daemon threads, `ROOM` at once, each in a copy of its caller's context.

    Its end waits for all calls but those whose callers were cancelled: they may hang, and keep no process from ending.
    """

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="graph")
        self._change, self._started, self._unfinished, self._process = threading.Lock(), 0, 0, os.getpid()
        self._given = SimpleQueue[Callable[[], None] | None]()
        self._awaited = set[Future[Any]]()
        finalize(self, self._given.put, None).atexit = False
        _POOLS.add(self)

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a call, or let it wait for the end of another; its future can be cancelled while it runs."""
        done = Future[T]()
        self._awaited.add(done)
        done.add_done_callback(self._awaited.discard)
        bound: partial[T] = partial(contextvars.copy_context().run, call, *args, **kwargs)
        self._given.put(partial(self._run_call, done, bound))
        with self._change:
            self._unfinished += 1
            if self._started < min(ROOM, self._unfinished):
                self._started += 1
                threading.Thread(target=_run_calls, args=[self._given], name="graph", daemon=True).start()
        return done

    def _run_call(self, done: Future[T], call: Callable[[], T]) -> None:
        finish: Callable[[], None] | None = None
        if not done.cancelled():
            try:
                finish = partial(done.set_result, call())
            except BaseException as error:  # noqa: BLE001 - who waits for the future gets it
                finish = partial(done.set_exception, error)
        with self._change:  # before the caller goes on, whose next call this thread takes
            self._unfinished -= 1
        if done.set_running_or_notify_cancel() and finish:
            finish()
        del done, call, finish  # an error keeps this frame

    def shutdown(self, wait: bool = True, **_: Any) -> None:
        """Wait for the calls that were not cancelled; a forked process has none of its parent's."""
        for done in [*self._awaited] if wait and os.getpid() == self._process else ():
            with contextlib.suppress(CancelledError):
                done.exception()


def _run_calls(given: SimpleQueue[Callable[[], None] | None]) -> None:
    while (run := given.get()) is not None:
        run()
        del run  # it holds the pool
    given.put(None)  # for the next thread


_POOLS = WeakSet[_DaemonThreads]()


def _end_pools() -> None:
    for pool in [*_POOLS]:
        pool.shutdown()


threading._register_atexit(_end_pools)  # type: ignore[attr-defined]  # as Python's pools: before functions of atexit


def make_room() -> None:
    """Let the running event loop have threads for graphs whose threads wait for others, unless a pool was set for it.

    Asyncio's few may all wait, and then nothing goes on.
    """
    loop = asyncio.get_running_loop()
    pool = getattr(loop, "_default_executor", None)
    if pool is None or getattr(pool, "_thread_name_prefix", "") == "asyncio":
        loop.set_default_executor(_DaemonThreads())


def is_at_work(thread: threading.Thread) -> bool:
    """Whether a thread runs code, and does not wait for the next call in a pool of Python's or of an event loop."""
    frame = sys._current_frames().get(thread.ident or 0)
    idle = (_worker.__code__, _run_calls.__code__)
    return thread.is_alive() and frame is not None and frame.f_code not in idle


async def run_in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a daemon thread and wait for it; a cancelled caller leaves the thread running.

    Errors pass through, except that one that would end the process, such as SystemExit, or a loop, as StopIteration,
    becomes a RuntimeError.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    context = contextvars.copy_context()

    def run() -> None:
        with _Delivery(done) as delivery:
            value = context.run(partial(call, *args, **kwargs))
            delivery.call_on_loop(lambda: done.set_result(value))

    threading.Thread(target=run, name="foreign", daemon=True).start()
    return await done


class CallTimeoutError(Exception):
    """A call took too long."""


class LoopBlockedError(Exception):
    """A call took too long because another call blocked its loop."""


async def run_on_foreign_loop(
    loop: asyncio.AbstractEventLoop, seconds: float | None, call: Callable[P, Awaitable[T]], *args: P.args,
    **kwargs: P.kwargs,
) -> T:  # fmt: skip
    """Await a call on a loop for foreign code; a call that never yields does not block the loop of the caller.

    Args:
        loop: `get_shared_loop()`, or the loop of `get_own_loop()`.
        seconds: seconds after which the call is cancelled; None for no limit.

    Raises:
        CallTimeoutError: the call took too long. If it still blocks a shared loop, later calls get a new loop.
        LoopBlockedError: another call blocked the loop, so that the duration of this call is not known.
        RuntimeError: the call raised an error that would end the process or a loop; other errors pass through.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    done.add_done_callback(lambda done: done.cancelled() or done.exception())  # a cancelled caller reads no error
    tasks: list[asyncio.Task[None]] = []
    begun: list[float] = []

    async def run() -> None:
        begun.append(time.monotonic())
        with _Delivery(done) as delivery:
            value = await call(*args, **kwargs)
            delivery.call_on_loop(lambda: done.set_result(value))

    loop.call_soon_threadsafe(lambda: tasks.append(loop.create_task(run())), context=contextvars.copy_context())
    try:
        await asyncio.wait({done}, timeout=seconds)
        if begun and seconds is not None:  # time counts from the start, which other calls may have delayed
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
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
    others = busy_with not in tasks and (busy_with is not None or stuck)
    raise LoopBlockedError if others or not begun else CallTimeoutError


_LOOPS: list[asyncio.AbstractEventLoop] = []
"""The shared loop for foreign code, if there is one; a blocked loop is removed and lives until the process ends."""
_CHANGE = threading.Lock()
_PATIENCE = 0.5
"""Seconds within which an unblocked loop answers."""


def get_shared_loop() -> asyncio.AbstractEventLoop:
    """Return the loop that all foreign code shares, as clients are bound to the loop of their first use."""
    with _CHANGE:
        if not _LOOPS:
            _LOOPS.append(_start_loop())
        return _LOOPS[-1]


@contextlib.contextmanager
def get_own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Start a loop for a single call, which no other call can block."""
    loop = _start_loop()
    try:
        yield loop
    finally:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(loop.stop)


def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()

    def run() -> None:
        _serve(loop)
        loop.run_until_complete(_finish_tasks())
        loop.close()

    threading.Thread(target=run, name="foreign loop", daemon=True).start()
    return loop


async def _finish_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*left, return_exceptions=True)


def _forget_loops() -> None:
    _get_background_loop.cache_clear()
    _LOOPS.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_loops)  # the loops' threads are left in the parent


async def _is_stuck(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop does not answer; a blocked loop is no longer shared."""
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    loop.call_soon_threadsafe(_Delivery(answer).call_on_loop, lambda: answer.set_result(None))
    if (await asyncio.wait({answer}, timeout=_PATIENCE))[0]:
        return False
    answer.cancel()
    with _CHANGE, contextlib.suppress(ValueError):
        _LOOPS.remove(loop)
    return True


class _Delivery:
    def __init__(self, done: "asyncio.Future[T]") -> None:
        self._done = done
        self._loop = done.get_loop()

    def call_on_loop(self, finish: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(lambda: None if self._done.done() else finish())

    def __enter__(self) -> "_Delivery":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is not None:
            if not isinstance(error, Exception) or isinstance(error, StopIteration):  # such as a SystemExit
                error = RuntimeError(repr(error)).with_traceback(error.__traceback__)
            fault = error
            self.call_on_loop(lambda: self._done.set_exception(fault))
        return True
