"""One throttle per provider: it limits requests at once and per minute, and pauses all workers of a process.

Where processes share a pool, the limits and pauses are those of all of them together.
"""

import asyncio
import math
import threading
import time
from collections import deque
from typing import Protocol
from weakref import WeakKeyDictionary, proxy

from selfwire.runtime.amounts import Pool

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Throttle:
    """Limits requests at once, and their evenly spaced starts per minute, to one provider from any loop and thread."""

    def __init__(self, concurrency: int | None = None, per_minute: float | None = None) -> None:
        self.concurrency = concurrency
        self.per_minute = per_minute
        self.together = True
        self._lock = threading.RLock()
        self._active = 0
        self._waiting: deque[_Waiter] = deque()
        self._paused_until = self._next_start = 0.0
        self.answered = -math.inf
        """When the latest answered request was sent, on the monotonic clock."""

    def pause(self, seconds: float) -> None:
        """Start no request for some seconds, as the provider's Retry-After asks."""
        with self._lock:
            self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    @property
    def paused(self) -> float:
        """Seconds until the pause ends; 0 when there is none."""
        return max(0.0, self._paused_until - time.monotonic())

    async def __aenter__(self) -> None:
        """Wait for a free place, the end of a pause, and the next start; the place is taken until the exit."""
        await self._enter()
        try:
            while (delay := self._delay()) > 0:  # noqa: ASYNC110 - it waits for the clock
                await asyncio.sleep(delay)
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    async def _enter(self) -> None:
        with self._lock:
            if self.concurrency is None or self._active < self.concurrency:
                self._active += 1
                return
            waiter = (asyncio.get_running_loop(), asyncio.get_running_loop().create_future())
            self._waiting.append(waiter)
        try:
            await waiter[1]  # a request that ends hands over its place
        except asyncio.CancelledError:
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                else:  # the place was handed over already
                    self._leave()
            raise

    def _leave(self) -> None:
        with self._lock:
            while self._waiting:
                loop, turn = self._waiting.popleft()
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_wake, turn)
                    return
            self._active -= 1

    def _delay(self) -> float:
        """Seconds until the caller may start; at 0 the start is the caller's."""
        with self._lock:
            now = time.monotonic()
            delay = max(self.paused, self._next_start - now)
            if delay <= 0 and self.per_minute:
                self._next_start = now + 60.0 / self.per_minute
            return delay


class Limits(Protocol):
    """Limits on the requests to a provider."""

    @property
    def concurrency(self) -> int | None:
        """Requests at once; None for no limit."""

    @property
    def per_minute(self) -> float | None:
        """Starts per minute; None for no limit."""

    @property
    def together(self) -> bool:
        """Whether `concurrency` is that of all processes that share a pool, and not of each."""


class SharedThrottle(Throttle):
    """Limits the requests of all processes that share a pool, after those of this one."""

    def __init__(self, pool: Pool, provider: str) -> None:
        super().__init__()
        self._pool, self._provider = pool, provider

    def pause(self, seconds: float) -> None:
        """Start no request for some seconds, in no process."""
        super().pause(seconds)
        self._pool.pause(self._provider, seconds)

    async def __aenter__(self) -> None:
        """Wait as `Throttle`, then for the other processes."""
        await super().__aenter__()
        try:
            limit = self.concurrency if self.together else None
            await self._pool.take_place(self._provider, limit, self.per_minute)
        except BaseException:
            await super().__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pool.leave_place(self._provider)
        await super().__aexit__()


def _wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)


_throttles: dict[str, Throttle] = {}
_shared: WeakKeyDictionary[Pool, dict[str, Throttle]] = WeakKeyDictionary()


def get_throttle(provider: str, limits: Limits, pool: Pool | None = None) -> Throttle:
    """The throttle of a provider, of this process or of all that share a pool; the latest limits apply to all."""
    if pool is None:
        throttle = _throttles.setdefault(provider, Throttle())
    else:
        throttle = _shared.setdefault(pool, {}).setdefault(provider, SharedThrottle(proxy(pool), provider))
    throttle.concurrency, throttle.per_minute, throttle.together = (
        limits.concurrency,
        limits.per_minute,
        limits.together,
    )
    return throttle
