"""The protocol for recorders of calls, such as the journal, and one that records nothing."""

from typing import Any, Protocol

from selfwire.core.scope import Scope
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.runtime.journal import Call
from selfwire.runtime.journal_keys import Kind
from selfwire.runtime.journal_rows import CallResult


class Recorder(Protocol):
    """Makes calls and may record them; see `Journal.call_once`."""

    @property
    def can_resume(self) -> bool:
        """Whether another process may go on from what is recorded."""

    async def call_once(
        self,
        kind: Kind,
        scope: Scope,
        request: object,
        call: Call,
        at_most: Usage = ZERO_USAGE,
        *,
        attempt: int = 0,
        anywhere: bool = False,
    ) -> CallResult:
        """Make a call, or return its recorded result."""
        ...

    async def put_note(self, name: str, value: object) -> None:
        """Set a note about the run."""
        ...

    async def reopen(self, kind: Kind, scope: Scope, request: object, *, anywhere: bool = False) -> bool:
        """Have a recorded call made again, if failed ones shall be retried; see `Journal.reopen`."""
        ...


class NullRecorder:
    """Makes every call and records nothing: for long-lived processes, in which questions may be repeated."""

    can_resume = False

    async def call_once(self, kind: Kind, scope: Scope, request: object, call: Call, *_: Any, **__: Any) -> CallResult:
        """Make the call."""
        return await call()

    async def put_note(self, name: str, value: object) -> None:
        """Note nothing."""

    async def reopen(self, *_: Any, **__: Any) -> bool:
        """Nothing is recorded."""
        return False
