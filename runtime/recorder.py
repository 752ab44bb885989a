"""Recorders of calls: the journal is one; this one records nothing."""

from typing import Protocol

from selfwire.core.scope import Scope
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.runtime.journal import Call, CallResult, Kind


class Recorder(Protocol):
    """What makes calls and may keep a record of them; see `Journal.call_once`."""

    async def call_once(
        self, kind: Kind, scope: Scope, request: object, call: Call, at_most: Usage = ZERO_USAGE, *, attempt: int = 0
    ) -> CallResult:
        """Make a call, or give back what is on record."""
        ...


class NullRecorder:
    """Makes every call and keeps nothing, for use where the same question may be put twice and a process lives long."""

    async def call_once(
        self, kind: Kind, scope: Scope, request: object, call: Call, at_most: Usage = ZERO_USAGE, *, attempt: int = 0
    ) -> CallResult:
        """Make the call."""
        return await call()
