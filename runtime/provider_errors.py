"""Provider errors: whether another try makes sense, and their text without keys."""

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from selfwire.core.errors import format_error
from selfwire.core.secrets import MASK, register_secret

TRANSIENT_STATUS = {408, 409, 425, 429}
TRANSIENT_NAMES = ("Timeout", "Connection", "Connect", "Transport", "RemoteProtocol", "ReadError", "WriteError")
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, AssertionError)
"""Errors of clients for a body that breaks the protocol, such as a truncated one."""
KEY_PATTERN = re.compile(r"\b(?:sk|pk|key|Bearer)[-_ ][A-Za-z0-9*._-]{6,}")


class Caught:
    """A context manager that catches any error of a client, whatever its type, and keeps it.

    The cancellation of this task passes through; a cancellation that came from the client itself is caught.
    """

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            own = task is None or not task.cancelling()
        else:
            own = isinstance(error, Exception)
        self.error = error if own else None
        return own


def status(error: BaseException) -> int | None:
    """The HTTP status of an error; None if it has none."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "http_status", "status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and 100 <= value < 600:
                return value
    return None


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later: 429, 5xx, timeouts, lost connections, truncated bodies."""
    if (code := status(error)) is not None and code >= 300:
        return code in TRANSIENT_STATUS or code >= 500
    if str(error) == "Event loop is closed":
        return True  # a pooled connection of an earlier `asyncio.run`; the failure took it out of the pool
    names = " ".join(kind.__name__ for kind in type(error).__mro__)
    return isinstance(error, (OSError, *MALFORMED)) or any(name in names for name in TRANSIENT_NAMES)


def is_refusal(error: BaseException) -> bool:
    """Whether a provider has refused a request before it worked on it, so that nothing is billed: 4xx but 408."""
    return (code := status(error)) is not None and 400 <= code < 500 and code != 408


def retry_after(error: BaseException) -> float | None:
    """Seconds that the provider asks to wait; None if it does not."""
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", None) or {}
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


LONGEST = 1_000
"""Characters of the longest error that is kept; a provider may send a whole page."""


def format_provider_error(error: BaseException, model: BaseChatModel) -> str:
    """An error in one line without secrets, including the model's own."""
    for value in (getattr(model, name, None) for name in type(model).model_fields):
        if isinstance(value, SecretStr):
            register_secret(value.get_secret_value())
    return redact_error(error)


def redact_error(error: BaseException) -> str:
    """An error in one line of at most `LONGEST` characters, without known secrets and texts that look like keys."""
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    text = " ".join(KEY_PATTERN.sub(MASK, format_error(error)).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
