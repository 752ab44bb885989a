"""Limits of requests per provider: how many at once, how many per minute, how often again.

If processes share a budget, their requests count together, and a pause stops all of them.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from operator import sub
from typing import Any, NamedTuple, Protocol, Self
from weakref import WeakKeyDictionary, proxy

from pydantic import Field

from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.models.structured import StructuredMode

MINUTE = 60.0
"""Seconds to which the limits refer."""
PARTS = 60
"""Parts of a minute; tokens count as if all tokens of a part were sent at its end."""


class RateLimits(NamedTuple):
    """Most requests that start, and most tokens that are sent and received, in a minute; None for no limit."""

    requests: float | None = None
    tokens: int | None = None


class Rate(NamedTuple):
    """The recent load of a provider; all times are seconds on the same clock.

    Starts of requests are spaced evenly. Tokens are counted over the last minute: the possible maximum of a call under
    way, the real tokens of a finished call.

    Attributes:
        next_start: earliest start of the next request.
        paused_until: end of a pause, before which no request starts.
        tokens: pairs of the number of a part of a minute and the tokens of calls that started in this part.
    """

    next_start: float = 0.0
    paused_until: float = 0.0
    tokens: tuple[tuple[int, int], ...] = ()

    @classmethod
    def read(cls, stored: Iterable[Any]) -> Self:
        """Read a rate from JSON."""
        next_start, paused_until, *more = stored
        return cls(next_start, paused_until, *(tuple((part, tokens) for part, tokens in pairs) for pairs in more))

    def find_start(self, now: float) -> float:
        """Find the earliest start of a request, before its tokens are considered."""
        return max(now, self.next_start, self.paused_until)

    def has_room(self, tokens: int, limits: RateLimits, start: float) -> bool:
        """Whether a call may start at `start`; a call above the limit may start if no other call counts."""
        counted = sum(counted for _, counted in self._list_last_minute(start))
        return limits.tokens is None or not counted or counted + tokens <= limits.tokens

    def add(self, tokens: int, limits: RateLimits, start: float) -> "Rate":
        """Add a call to the rate."""
        rate = self if limits.tokens is None else self.correct(tokens, start)
        return rate._replace(next_start=start + MINUTE / limits.requests) if limits.requests else rate

    def correct(self, more: int, start: float) -> "Rate":
        """Add tokens to a call that started at `start`, or subtract them if `more` is negative."""
        part, counted = int(start * PARTS / MINUTE), dict(self._list_last_minute(start))
        counted[part] = max(0, counted.get(part, 0) + more)
        return self._replace(tokens=tuple(counted.items()))

    def _list_last_minute(self, start: float) -> Iterator[tuple[int, int]]:
        return ((part, tokens) for part, tokens in self.tokens if (part + 1) * MINUTE / PARTS + MINUTE > start)


def update_rates(
    known: Mapping[str, Rate], pauses: Mapping[str, float], corrections: Iterable[tuple[str, int, float]]
) -> dict[str, Rate]:
    """Update the rates by provider with a process's pauses and corrections of tokens."""
    rates = dict(known)
    for name, until in pauses.items():
        rate = rates.get(name, Rate())
        rates[name] = rate._replace(paused_until=max(until, rate.paused_until))
    for name, more, start in corrections:
        rates[name] = rates.get(name, Rate()).correct(more, start)
    return rates


class ResourceAmount(NamedTuple):
    """An amount of calls, tokens and dollars."""

    calls: float = 0
    tokens: float = 0
    dollars: float = 0

    @classmethod
    def of(cls, cost: Usage) -> Self:
        """Make the amount of a cost; an unknown price counts 0, as it excludes a budget in dollars."""
        return cls(cost.calls, cost.input_tokens + cost.output_tokens, cost.dollars or 0)

    def plus(self, other: "ResourceAmount") -> "ResourceAmount":
        """Add another amount."""
        return ResourceAmount(self.calls + other.calls, self.tokens + other.tokens, self.dollars + other.dollars)

    def less(self, other: "ResourceAmount") -> "ResourceAmount":
        """Subtract another amount, never below 0."""
        return ResourceAmount(*map(max, (0, 0, 0), map(sub, self, other)))

    @property
    def usage(self) -> Usage:
        """The amount as a usage, with all tokens as input tokens."""
        return Usage(calls=int(self.calls), input_tokens=int(self.tokens), dollars=self.dollars)

    def only(self, names: frozenset[str]) -> "ResourceAmount":
        """Keep the named amounts, and set the others to 0."""
        return ResourceAmount(**{name: getattr(self, name) for name in names})


class Pool(Protocol):
    """A budget shared by the ledgers of several processes; safe for threads."""

    @property
    def spent(self) -> Usage:
        """The cost of all calls; `seconds` is wall time."""

    def take(self, wanted: ResourceAmount, where: str) -> None:
        """Reserve an amount; blocks. Raises BudgetError if the amount does not fit now."""

    async def take_for_call(self, wanted: ResourceAmount, where: str) -> None:
        """Reserve the amount of a call; if it does not fit yet, wait for other calls and processes."""

    def end_call(self) -> None:
        """Report the end of a call whose amount `take_for_call` reserved."""

    def settle(self, wanted: ResourceAmount, cost: Usage) -> None:
        """Give back a reserved amount and add the cost."""

    async def take_place(self, provider: str, concurrency: int | None, limits: RateLimits, tokens: int) -> float:
        """Wait for a place among all processes' requests to a provider, and for the start; return the start."""

    def correct_tokens(self, provider: str, more: int, start: float) -> None:
        """Add tokens to a request that began at `start`, or subtract them if `more` is negative."""

    def leave_place(self, provider: str) -> None:
        """Give a place back."""

    def pause(self, provider: str, seconds: float) -> None:
        """Start no request for some seconds, in any process."""

    def close(self) -> None:
        """Leave the pool, which keeps what was spent."""


class CallSettings(FrozenModel):
    """Settings of model calls.

    Args:
        timeout: seconds until a request is given up, > 0.
        retries: further attempts after a transient error, >= 0.
        backoff: seconds before the first retry; doubles each time, with jitter.
        patience: longest pause in seconds that a provider may ask for.
        concurrency: most requests at the same time per provider, in this process.
        together: whether `concurrency` is the limit of all processes that share a budget, not of each process.
        requests_per_minute: most requests that start in a minute, per provider; None for no limit.
        tokens_per_minute: most tokens of requests and replies in a minute, per provider; None for no limit. Until a
            call ends, it counts as its possible maximum; a call above the limit is sent when no other call counts.
        probe: whether to send a one-word request after a call has failed for good; if that fails too, the provider has
            an outage, and this request is not to blame.
        structured: mode of asking for objects: "native" by a JSON schema as response format, or the provider's own
            way; "tool" by a forced tool call; "json" by a response format for any JSON object, with the schema in the
            prompt; "prompt" by the prompt alone; "auto" by the first of these modes that the server accepts.
    """

    timeout: float = Field(default=120.0, gt=0)
    retries: int = Field(default=4, ge=0)
    backoff: float = Field(default=0.5, ge=0)
    patience: float = Field(default=120.0, ge=0)
    concurrency: int = Field(default=32, ge=1)
    together: bool = True
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    probe: bool = False
    structured: StructuredMode = "auto"


POLL = 0.05
"""Seconds after which a request that waits for tokens checks again, as finished calls took fewer than reserved."""
_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class _FairSemaphore:
    """A semaphore for all loops and threads that serves waiters in order."""

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
            await waiter[1]  # until a leaving request hands over its place
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
    """The limits of a provider: simultaneous requests, evenly spaced starts, and tokens; for all loops and threads.

    Args:
        limits: the first limits; `set_limits` replaces them.
    """

    def __init__(self, limits: CallSettings) -> None:
        self._places, self._turn = _FairSemaphore(None), _FairSemaphore(1)
        self.set_limits(limits)
        self._lock = threading.Lock()
        self._rate = Rate()
        self.answered = -math.inf
        """Sending time of the latest answered request, on the monotonic clock."""

    def set_limits(self, limits: CallSettings) -> None:
        """Replace the limits for all later requests."""
        self._places.limit, self._together = limits.concurrency, limits.together
        self._limits = RateLimits(limits.requests_per_minute, limits.tokens_per_minute)

    def pause(self, seconds: float) -> None:
        """Start no request for some seconds, as the provider's Retry-After asks."""
        with self._lock:
            until = max(self._rate.paused_until, time.monotonic() + seconds)
            self._rate = self._rate._replace(paused_until=until)

    @asynccontextmanager
    async def take_place(self, tokens: int = 0) -> AsyncIterator[float]:
        """Wait for a free place, the end of a pause and the limits a minute; occupy the place inside the block.

        Requests start in the order in which they got their places, whatever their sizes.

        Args:
            tokens: the most tokens of the request and its reply.

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
        """Add tokens to a request, or subtract them if `more` is negative."""
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
        """Report the end of a request; nothing to do in a single process."""


class SharedThrottle(Throttle):
    """The limits of a provider for all processes that share a budget."""

    def __init__(self, limits: CallSettings, pool: Pool, provider: str) -> None:
        super().__init__(limits)
        self._pool, self._provider = pool, provider

    def pause(self, seconds: float) -> None:
        """Start no request for some seconds, in any process."""
        self._pool.pause(self._provider, seconds)

    def correct(self, more: int, start: float) -> None:
        """Add tokens to a request, or subtract them if `more` is negative."""
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
    """Return the throttle of a provider, for this process or for all that share `pool`; the latest limits apply."""
    if pool is None:
        throttle = _throttles.setdefault(provider, Throttle(limits))
    else:
        throttle = _shared.setdefault(pool, {}).setdefault(provider, SharedThrottle(limits, proxy(pool), provider))
    throttle.set_limits(limits)
    return throttle
