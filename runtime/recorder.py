"""Recorders of calls: the journal is one; this one records nothing."""

from typing import Protocol

from selfwire.core.scope import Scope
from selfwire.core.usage import NOTHING, Usage
from selfwire.runtime.journal import Call, Kind, Outcome


class Recorder(Protocol):
    """What makes calls and may keep a record of them; see `Journal.recorded`."""

    async def recorded(
        self, kind: Kind, scope: Scope, request: object, call: Call, at_most: Usage = NOTHING, *, attempt: int = 0
    ) -> Outcome:
        """Make a call, or give back what is on record."""
        ...


class Unrecorded:
    """Makes every call and keeps nothing, for use where the same question may be put twice and a process lives long."""

    async def recorded(
        self, kind: Kind, scope: Scope, request: object, call: Call, at_most: Usage = NOTHING, *, attempt: int = 0
    ) -> Outcome:
        """Make the call."""
        return await call()
