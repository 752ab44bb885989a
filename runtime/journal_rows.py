"""The rows of a journal as values."""

import json
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Self, TypeVar

from selfwire.core.errors import JournalError
from selfwire.core.scope import Scope
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.runtime import journal_sql as sql

T = TypeVar("T")
State = Literal["reserved", "settled", "failed"]


class CallResult(NamedTuple):
    """The reply to a call as JSON text, its cost, and whether it was replayed from the journal."""

    text: str
    usage: Usage = ZERO_USAGE
    replayed: bool = False

    def parse(self, read: Callable[[str], T]) -> T:
        """The reply as `read` makes it; raises JournalError if the text has been damaged."""
        return parse_stored("a reply of the journal", read, self.text)


class Row(NamedTuple):
    """One call in the journal; `reply` is None until it is settled, `usage` until something was billed."""

    kind: str
    scope: Scope
    request: str
    attempt: int
    at_most: int
    state: str
    failures: int
    error: str | None
    reply: Any
    usage: Usage | None

    @classmethod
    def of(cls, columns: tuple[Any, ...]) -> Self:
        """A row from its columns."""
        kind, scope, request, attempt, at_most, state, failures, error, reply, *usage = columns
        settled = state == "settled"
        return cls(
            kind, Scope.model_validate_json(scope), request, attempt, at_most, state, failures, error,
            json.loads(reply) if settled else None, None if usage[0] is None else sql.usage(usage),
        )  # fmt: skip


def parse_stored(where: str, read: Callable[[Any], T], value: Any) -> T:
    """A stored value as `read` makes it; raises JournalError if it has been damaged."""
    try:
        return read(value)
    except (ValueError, TypeError, RecursionError) as error:  # a ValidationError is a ValueError
        why = " ".join(str(error).split())[:200]
        raise JournalError(f"{where} is damaged: {why}; start a new run, or restore the file") from None
