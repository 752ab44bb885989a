"""Calls from the library's thread: it is synchronous, and models run on the event loop that waits for it."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from selfwire.core.errors import SelfwireError

Result = TypeVar("Result")


class StoppedCallError(SelfwireError):
    """Nothing more is called after an error or a stop."""


@dataclass
class LoopCalls:
    """Runs coroutines on an event loop from another thread.

    The library catches errors and tries again, so after the first error here no call is made any more.

    Attributes:
        fault: the first error; None if there is none.
    """

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    fault: BaseException | None = None
    ended: bool = False
    _running: Future[Any] | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of a coroutine.

        Raises:
            StoppedCallError: no calls are made any more.
        """
        if self.ended:
            work.close()
            raise StoppedCallError("no calls are made any more")
        self._running = running = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return running.result()
        except BaseException as error:
            self.fault, self.ended = error, True
            raise

    def end(self) -> None:
        """Make no more calls, and cancel those under way."""
        self.ended = True
        if self._running is not None:
            self._running.cancel()
