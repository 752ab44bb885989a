"""One SQLite connection behind one thread, so that an event loop never waits for a disk."""

import asyncio
import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from selfwire.core.errors import JournalError

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
BATCH = 256
"""Jobs that share one commit at most."""


class _Pending(NamedTuple):
    job: Job
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[Any]"


class Writer:
    """Runs jobs on a connection in the order in which they were given; waiting ones share a commit.

    Args:
        connection: opened with `check_same_thread=False` and `isolation_level=None`; owned from here on.
        name: what messages call the file.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.name = name
        self._jobs: SimpleQueue[_Pending | None] = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(connection, self._jobs), name="journal", daemon=True)
        self._thread.start()
        self._stop = weakref.finalize(self, self._jobs.put, None)

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job and return its result once it is committed.

        Raises:
            JournalError: SQLite failed or the writer is closed.
        """
        if not self._stop.alive:
            raise JournalError(f"journal {self.name} is closed; open the run again")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Pending(job, loop, done))
        try:
            return await done
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.name} failed: {error}; check the disk, then resume the run") from error

    def close(self) -> None:
        """Finish what waits, close the connection and end the thread."""
        self._stop()
        self._thread.join()


def _work(connection: sqlite3.Connection, jobs: "SimpleQueue[_Pending | None]") -> None:
    with contextlib.closing(connection):
        while batch := _waiting(jobs):
            _commit(connection, batch)


def _waiting(jobs: "SimpleQueue[_Pending | None]") -> list[_Pending]:
    """Wait for a job, then take what else is there; empty when there will be none any more."""
    batch: list[_Pending] = []
    with contextlib.suppress(Empty):
        while len(batch) < BATCH:
            job = jobs.get_nowait() if batch else jobs.get()
            if job is None:
                if batch:
                    jobs.put(None)
                break
            batch.append(job)
    return batch


def _commit(connection: sqlite3.Connection, batch: list[_Pending]) -> None:
    results: list[Any] = []
    try:
        connection.execute("BEGIN")
        results.extend(_result(pending.job, connection) for pending in batch)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        results = [error] * len(batch)
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for pending, result in zip(batch, results, strict=True):
        by_loop.setdefault(pending.loop, []).append((pending.done, result))
    for loop, finished in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop that asked is gone, as after Ctrl-C
            loop.call_soon_threadsafe(_resolve, finished)  # one wake-up for all of them


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
