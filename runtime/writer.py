"""One SQLite connection for an event loop: what is asked for in one turn of the loop shares a commit.

Commits are made on the loop itself. With a write-ahead log they end in the system's cache and take some 20 µs a row;
a thread of its own cost several times that, as both threads wait for the interpreter's lock at every statement.
What does wait for the disk is moving the log into the file, and that a thread does.
"""

import asyncio
import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from selfwire.core.errors import JournalError

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
CHECKPOINT = 5000
"""Jobs after which the log is moved into the file; it takes some 10 kB a job until then."""
PAUSE = 0.002
"""Seconds until a turn looks again whether the connection is free."""


class _Pending(NamedTuple):
    job: Job
    done: "asyncio.Future[Any]"


class Writer:
    """Runs jobs on a connection in the order in which a loop asks for them; loops of several threads may share it.

    Args:
        connection: opened with `check_same_thread=False` and `isolation_level=None`; owned from here on.
        name: what messages call the file.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.name = name
        self._connection, self._lock = connection, threading.Lock()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Pending]] = {}
        self._since = 0
        self._stop = weakref.finalize(self, connection.close)
        connection.execute("PRAGMA wal_autocheckpoint = 0").close()

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job and return its result once it is committed.

        Raises:
            JournalError: SQLite failed or the writer is closed.
        """
        if not self._stop.alive:
            raise JournalError(f"journal {self.name} is closed; open the run again")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if (gathered := self._gathered.get(loop)) is None:
            gathered = self._gathered[loop] = []
            loop.call_soon(self._turn, loop)
        gathered.append(_Pending(job, done))
        try:
            return await done
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.name} failed: {error}; check the disk, then resume the run") from error

    def close(self) -> None:
        """Finish what waits and close the connection. Blocks shortly."""
        with self._lock:
            for loop in tuple(self._gathered):
                finished = self._committed(loop)
                with contextlib.suppress(RuntimeError):  # the loop that asked is gone, as after Ctrl-C
                    loop.call_soon_threadsafe(_resolve, finished)
            self._stop()

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._lock.acquire(blocking=False):  # another loop's turn, or the log is being moved
            loop.call_later(PAUSE, self._turn, loop)
            return
        try:
            finished = self._committed(loop)
        finally:
            self._lock.release()
        _resolve(finished)
        if self._since >= CHECKPOINT:
            self._since = 0
            threading.Thread(target=self._checkpoint, name="checkpoint").start()

    def _committed(self, loop: asyncio.AbstractEventLoop) -> "list[tuple[asyncio.Future[Any], Any]]":
        batch = self._gathered.pop(loop, [])  # `close` may have been faster
        self._since += len(batch)
        results = _results(self._connection, batch)
        return [(pending.done, result) for pending, result in zip(batch, results, strict=True)]

    def _checkpoint(self) -> None:
        with self._lock, contextlib.suppress(sqlite3.Error):  # closed meanwhile, or later, with the connection
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()


def _results(connection: sqlite3.Connection, batch: list[_Pending]) -> list[Any]:
    """What jobs return or fail with, committed together or not at all."""
    if not batch:
        return []
    try:
        connection.execute("BEGIN").close()
        results = [_result(pending.job, connection) for pending in batch]
        connection.execute("COMMIT").close()
    except sqlite3.Error as error:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK").close()
        return [error] * len(batch)
    return results


def _result(job: Job, connection: sqlite3.Connection) -> Any:
    try:
        return job(connection)
    except sqlite3.Error as error:
        return error


def _resolve(finished: "list[tuple[asyncio.Future[Any], Any]]") -> None:
    for done, result in finished:
        if done.done():  # cancelled while it waited
            continue
        if isinstance(result, sqlite3.Error):
            done.set_exception(result)
        else:
            done.set_result(result)
