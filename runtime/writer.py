"""One SQLite connection on which an event loop commits as it goes.

With a write-ahead log a commit ends in the system's cache and takes some 50 µs. With a thread of its own it would take
more, as both threads wait for the interpreter's lock at every statement, and whoever waits for it would go on only
after all that the loop does meanwhile. What does wait for the disk is moving the log into the file: a thread does that.
"""

import asyncio
import contextlib
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from selfwire.core.errors import JournalError

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
TOGETHER = 64
"""Jobs that may wait for a commit."""
CHECKPOINT = 3000
"""Commits after which the log is moved into the file; until then it grows by some 10 kB a commit."""
PAUSE = 0.002
"""Seconds until a job looks again whether the connection is free."""


class Writer:
    """Runs jobs on a connection; loops of several threads may share it.

    Args:
        connection: opened with `check_same_thread=False` and `isolation_level=None`; owned from here on.
        name: its file, or ":memory:".
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.name = name
        self._connection, self._lock = connection, threading.Lock()
        self._waiting: deque[Job[Any]] = deque()
        self._commits = 0
        self._stop = weakref.finalize(self, connection.close)
        connection.execute("PRAGMA wal_autocheckpoint = 0").close()

    async def run(self, job: Job[T]) -> T:
        """Run a job, after those that were put before it, and return its result once they are committed.

        Raises:
            JournalError: SQLite failed or the writer is closed.
        """
        while not self._lock.acquire(blocking=False):  # another loop's job, or the log is being moved
            await asyncio.sleep(PAUSE)
        try:
            return self._committed(job)
        finally:
            self._lock.release()

    async def put(self, job: Job[Any]) -> None:
        """Have a job run and committed soon: with the next one that is run, or when the loop's turn is over.

        Raises:
            JournalError: as `run`; also for a job that was put before.
        """
        self._waiting.append(job)
        if len(self._waiting) >= TOGETHER:
            await self.run(_nothing)
            await asyncio.sleep(0)  # whoever only puts jobs would never let others take their turn
        elif len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._end_turn, asyncio.get_running_loop())

    def close(self) -> None:
        """Finish what waits and close the connection. Blocks shortly.

        Raises:
            JournalError: what waited could not be written.
        """
        with self._lock:
            try:
                if self._waiting and self._stop.alive:
                    self._committed(_nothing)
            finally:
                self._stop()

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._lock.acquire(blocking=False):
            loop.call_later(PAUSE, self._end_turn, loop)
            return
        try:
            with contextlib.suppress(JournalError):  # they still wait, and whoever asks next is told
                if self._waiting and self._stop.alive:
                    self._committed(_nothing)
        finally:
            self._lock.release()

    def _committed(self, job: Job[T]) -> T:
        """Run what waits and the job in one transaction."""
        if not self._stop.alive:
            raise JournalError(f"journal {self.name} is closed; open the run again")
        before = list(self._waiting)
        try:
            self._connection.execute("BEGIN").close()
            for one in before:
                one(self._connection)
            result = job(self._connection)
            self._connection.execute("COMMIT").close()
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK").close()
            raise JournalError(f"journal {self.name} failed: {error}; check the disk, then resume the run") from error
        for _ in before:  # others may have been put by another thread meanwhile
            self._waiting.popleft()
        self._commits += 1
        if self._commits % CHECKPOINT == 0:
            threading.Thread(target=self._checkpoint, name="checkpoint").start()
        return result

    def _checkpoint(self) -> None:
        """Move the log into the file while jobs go on, then what they have added, so that the log begins anew."""
        with contextlib.suppress(sqlite3.Error):  # closed meanwhile, or later, with the connection
            with contextlib.closing(sqlite3.connect(self.name)) as mover:
                mover.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
            with self._lock:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()


def _nothing(connection: sqlite3.Connection) -> None:
    """Commits what waits."""
