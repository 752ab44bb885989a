"""One throttle per provider: it limits requests at once, and requests and tokens per minute, and pauses all workers.

Where processes share a pool, the limits and pauses are those of all of them together.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from weakref import WeakKeyDictionary, proxy

from selfwire.runtime.amounts import Pool
from selfwire.runtime.call_settings import CallSettings
from selfwire.runtime.rates import Rate, RateLimits

POLL = 0.05
"""Seconds after which a request that waits for tokens looks again, as calls that end are found to have taken fewer."""
_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class _Places:
    """Places that are handed over in the order in which they are asked for, from any loop and thread."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._lock = threading.RLock()
        self._active = 0
        self._waiting: deque[_Waiter] = deque()

    async def __aenter__(self) -> None:
        with self._lock:
            if self.limit is None or self._active < self.limit:
                self._active += 1
                return
            waiter = (asyncio.get_running_loop(), asyncio.get_running_loop().create_future())
            self._waiting.append(waiter)
        try:
            await waiter[1]  # who leaves hands over its place
        except asyncio.CancelledError:
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                else:  # the place was handed over already
                    self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            while self._waiting:
                loop, turn = self._waiting.popleft()
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_wake, turn)
                    return
            self._active -= 1


class Throttle:
    """Limits requests at once, their evenly spaced starts and their tokens, from any loop and thread.

    Args:
        limits: may be replaced at any time.
    """

    def __init__(self, limits: CallSettings) -> None:
        self._places, self._turn = _Places(None), _Places(1)
        self.set_limits(limits)
        self._lock = threading.Lock()
        self._rate = Rate()
        self.answered = -math.inf
        """When the latest answered request was sent, on the monotonic clock."""

    def set_limits(self, limits: CallSettings) -> None:
        """Replace the limits for all requests that come."""
        self._places.limit, self._together = limits.concurrency, limits.together
        self._limits = RateLimits(limits.requests_per_minute, limits.tokens_per_minute)

    def pause(self, seconds: float) -> None:
        """Start no request for some seconds, as the provider's Retry-After asks."""
        with self._lock:
            until = max(self._rate.paused_until, time.monotonic() + seconds)
            self._rate = self._rate._replace(paused_until=until)

    @asynccontextmanager
    async def take_place(self, tokens: int = 0) -> AsyncIterator[float]:
        """Hold a place for a request, after waiting for a free one, the end of a pause and the limits per minute.

        Requests start in the order in which they got their places, whatever their sizes.

        Args:
            tokens: the most that the request and its reply can have.

        Yields:
            The start of the request, for `correct`.
        """
        turn: AbstractAsyncContextManager[None] = self._turn if any(self._limits) else nullcontext()
        async with self._places:
            async with turn:
                start = await self._start(tokens)
            try:
                yield start
            finally:
                self._end()

    def correct(self, more: int, start: float) -> None:
        """Count more tokens for a request than its most, or fewer if `more` is below 0."""
        if self._limits.tokens:
            with self._lock:
                self._rate = self._rate.correct(more, start)

    async def _start(self, tokens: int) -> float:
        while True:
            with self._lock:
                now = time.monotonic()
                delay = self._rate.find_start(now) - now
                if delay <= 0 and self._rate.has_room(tokens, self._limits, now):
                    self._rate = self._rate.add(tokens, self._limits, now)
                    return now
            await asyncio.sleep(delay or POLL)

    def _end(self) -> None:
        """Say that a request has ended."""


class SharedThrottle(Throttle):
    """Limits the requests of all processes that share a pool, after those of this one."""

    def __init__(self, limits: CallSettings, pool: Pool, provider: str) -> None:
        super().__init__(limits)
        self._pool, self._provider = pool, provider

    def pause(self, seconds: float) -> None:
        """Start no request for some seconds, in no process."""
        self._pool.pause(self._provider, seconds)

    def correct(self, more: int, start: float) -> None:
        """Count more tokens for a request than its most, or fewer if `more` is below 0."""
        if self._limits.tokens:
            self._pool.correct_tokens(self._provider, more, start)

    async def _start(self, tokens: int) -> float:
        concurrency = self._places.limit if self._together else None
        return await self._pool.take_place(self._provider, concurrency, self._limits, tokens)

    def _end(self) -> None:
        self._pool.leave_place(self._provider)


def _wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)


_throttles: dict[str, Throttle] = {}
_shared: WeakKeyDictionary[Pool, dict[str, Throttle]] = WeakKeyDictionary()


def get_throttle(provider: str, limits: CallSettings, pool: Pool | None = None) -> Throttle:
    """The throttle of a provider, of this process or of all that share a pool; the latest limits apply to all."""
    if pool is None:
        throttle = _throttles.setdefault(provider, Throttle(limits))
    else:
        throttle = _shared.setdefault(pool, {}).setdefault(provider, SharedThrottle(limits, proxy(pool), provider))
    throttle.set_limits(limits)
    return throttle
