"""Faults that can be injected into the offline model, to test the code around it."""

import threading
from collections import Counter
from random import Random
from types import SimpleNamespace

from pydantic import Field

from selfwire.core.values import FrozenModel

FAULTS = ("rate_limit", "server_error", "timeout", "truncated", "malformed", "empty")


class OfflineError(Exception):
    """An injected failure with the status and the `retry-after` header that a provider would have sent."""

    def __init__(self, message: str, status_code: int, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        self.response = SimpleNamespace(status_code=status_code, headers=headers)


class Faults(FrozenModel):
    """The share of requests that fail, by kind of fault.

    Args:
        rate_limit: refused with status 429.
        server_error: refused with status 500.
        timeout: ended by a `TimeoutError`.
        truncated: without the second half of the reply; it finishes with "length".
        malformed: the JSON of a structured reply or of tool arguments does not parse.
        empty: a reply without text and tool calls.
        times: how many attempts at such a request fail before one succeeds; None: all.
        retry_after: seconds to wait that a 429 states; None: it states none.
    """

    rate_limit: float = Field(default=0.0, ge=0, le=1)
    server_error: float = Field(default=0.0, ge=0, le=1)
    timeout: float = Field(default=0.0, ge=0, le=1)
    truncated: float = Field(default=0.0, ge=0, le=1)
    malformed: float = Field(default=0.0, ge=0, le=1)
    empty: float = Field(default=0.0, ge=0, le=1)
    times: int | None = Field(default=1, ge=1)
    retry_after: float | None = Field(default=None, ge=0)

    def draw(self, rng: Random) -> str | None:
        """Draw the fault of a request, or None, by the shares."""
        at = rng.random()
        for name in FAULTS:
            if at < getattr(self, name):
                return name
            at -= getattr(self, name)
        return None

    def raise_for(self, name: str | None) -> None:
        """Raise the fault as the provider would; faults of the reply's text are not raised."""
        if name == "rate_limit":
            raise OfflineError("offline model: injected rate limit", 429, self.retry_after)
        if name == "server_error":
            raise OfflineError("offline model: injected server error", 500)
        if name == "timeout":
            raise TimeoutError("offline model: injected timeout")


class Attempts:
    """How often each request was tried on one model object; safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[int] = Counter()

    def next(self, request: int) -> int:
        """Number of this attempt at the request, from 0."""
        with self._lock:
            self._counts[request] += 1
            return self._counts[request] - 1
