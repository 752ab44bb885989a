"""Faults that can be injected into the offline model, to see what the code around it does."""

import threading
from collections import Counter
from random import Random
from types import SimpleNamespace

from pydantic import Field

from selfwire.core.values import FrozenModel

FAULTS = ("rate_limit", "server_error", "timeout", "truncated", "malformed", "empty")


class OfflineError(Exception):
    """An injected failure of the provider.

    Attributes:
        status_code: the HTTP status that a provider would have sent.
        response: where clients look for the status and the `retry-after` header.
    """

    def __init__(self, message: str, status_code: int, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        self.response = SimpleNamespace(status_code=status_code, headers=headers)


class Faults(FrozenModel):
    """Which share of requests fails, and how.

    Args:
        rate_limit: refused with status 429.
        server_error: refused with status 500.
        timeout: `TimeoutError`.
        truncated: the second half of the reply is missing; it finishes with "length".
        malformed: the JSON of a structured reply or of tool arguments does not parse.
        empty: a reply without text and tool calls.
        times: how many attempts at a chosen request fail before one succeeds; None: all.
        retry_after: seconds that a 429 tells the client to wait; None: it says nothing.
    """

    rate_limit: float = Field(default=0.0, ge=0, le=1)
    server_error: float = Field(default=0.0, ge=0, le=1)
    timeout: float = Field(default=0.0, ge=0, le=1)
    truncated: float = Field(default=0.0, ge=0, le=1)
    malformed: float = Field(default=0.0, ge=0, le=1)
    empty: float = Field(default=0.0, ge=0, le=1)
    times: int | None = Field(default=1, ge=1)
    retry_after: float | None = Field(default=None, ge=0)

    def drawn(self, rng: Random) -> str | None:
        """The fault that meets a request; None for most. Shares are laid end to end over [0, 1)."""
        at = rng.random()
        for name in FAULTS:
            if at < getattr(self, name):
                return name
            at -= getattr(self, name)
        return None

    def raise_for(self, name: str | None) -> None:
        """Fail as the provider would; faults of the reply's text are not raised.

        Raises:
            OfflineError, TimeoutError: as drawn.
        """
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
