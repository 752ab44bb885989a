"""Foreign code in a thread of its own: if it never returns, nobody else waits for its place in a pool."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
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

    def run() -> None:
        with _Delivery(done) as delivery:
            value = call(*args, **kwargs)
            delivery.tell(lambda: done.set_result(value))

    threading.Thread(target=run, name="foreign", daemon=True).start()
    return await done


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
            fault = error if isinstance(error, Exception) else RuntimeError(repr(error))
            self.tell(lambda: self._done.set_exception(fault))
        return True
