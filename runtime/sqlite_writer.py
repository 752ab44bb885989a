"""One SQLite connection, used by a thread, so that no event loop waits for a disk, or by an event loop itself.

With a write-ahead log a commit ends in the system's cache and takes about 50 µs. A thread makes it slower: both threads
wait for the interpreter's lock at every statement, and a task that waits for the commit continues only when the loop
has done everything else. So a loop that serves nothing else, such as an evaluation's, commits by itself. Moving the log
into the file waits for the disk, so a thread does that in either case.
"""

import asyncio
import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from selfwire.core.errors import JournalError
from selfwire.runtime.journal_sql import Statement, writing

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
TOGETHER = 128
"""Jobs or statements that may wait for a commit on a loop."""
BATCH = 256
"""Most jobs in one commit of the thread."""
CHECKPOINT = 3000
"""Commits after which the log is moved into the file; until then it grows by about 10 kB a commit."""
PAUSE = 0.002
"""Seconds after which a loop checks again whether the connection is free."""
FAULTS = (sqlite3.Error, ValueError, OverflowError)
"""Errors of statements: SQLite's own, and those for values that it cannot hold, such as half a character."""


class _Pending(NamedTuple):
    job: Job[Any]
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[Any]"


class Writer:
    """Runs jobs on a connection in the order of their arrival; waiting ones share a commit.

    It owns the connection, which is opened with `check_same_thread=False` and `isolation_level=None`.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.name = name
        self._shared = _Shared(connection, name)
        self._jobs: SimpleQueue[_Pending | None] = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._shared, self._jobs), name="journal", daemon=True)
        self._thread.start()
        self._stop = weakref.finalize(self, self._jobs.put, None)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[Job[Any]] = []
        self._deferred: list[Statement] = []

    @contextlib.contextmanager
    def commit_on_loop(self) -> Iterator[None]:
        """Commit the running loop's jobs on that loop while this is open."""
        before, self._loop = self._loop, asyncio.get_running_loop()
        try:
            yield
        finally:
            self._loop = before
            with self._shared.lock:
                self._commit_all()

    async def run(self, job: Job[T], *, overtakes: bool = False) -> T:
        """Run a job and return its result once it is committed; one that `overtakes` may run before deferred ones."""
        if not self._stop.alive:
            raise self._closed
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            if not overtakes:
                self._stop_deferring()
            return await self._run_on_loop(job)
        done: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Pending(job, loop, done))
        try:
            return await done
        except FAULTS as error:
            raise self._failure(error) from error

    async def put(self, job: Job[Any]) -> None:
        """Run a job; on a loop that commits by itself, with the next `run`, which fails too, or when its turn ends."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            await self.run(job)
            return
        self._waiting.append(job)
        if len(self._waiting) < TOGETHER:
            loop.call_soon(self._end_turn, loop)
        else:
            await self._flush()

    async def put_within(self, within: float, statements: Sequence[Statement]) -> None:
        """Write; a loop that commits by itself may defer it for `within` seconds, as a commit writes whole pages."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            await self.run(writing(statements))
            return
        if not self._deferred:
            loop.call_later(within, self._end_wait, loop)
        self._deferred += statements
        if len(self._deferred) >= TOGETHER:
            await self._flush()

    def close(self) -> None:
        """Finish waiting jobs, close the connection and end the thread; raises JournalError if a job fails."""
        try:
            with self._shared.lock:
                self._commit_all()
        finally:
            self._stop()
            self._thread.join()

    async def _flush(self) -> None:
        await self.run(_do_nothing)
        await asyncio.sleep(0)  # a task that only puts would never let others run

    def _stop_deferring(self) -> None:
        if self._deferred:
            self._waiting.append(partial(_execute, self._deferred))
            self._deferred = []

    async def _run_on_loop(self, job: Job[T]) -> T:
        while not self._shared.lock.acquire(blocking=False):  # noqa: ASYNC110 - it waits for a thread
            await asyncio.sleep(PAUSE)
        try:
            return self._commit_now(job)
        finally:
            self._shared.lock.release()

    def _end_wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stop_deferring()
        self._end_turn(loop)

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._shared.lock.acquire(blocking=False):
            loop.call_later(PAUSE, self._end_turn, loop)
            return
        try:
            with contextlib.suppress(JournalError):  # they still wait, and the next caller gets the error
                self._commit_waiting()
        finally:
            self._shared.lock.release()

    def _commit_all(self) -> None:
        self._stop_deferring()
        self._commit_waiting()

    def _commit_waiting(self) -> None:
        if self._waiting and self._stop.alive:
            self._commit_now(_do_nothing)

    def _commit_now(self, job: Job[T]) -> T:
        if not self._stop.alive:  # closed while it waited
            raise self._closed
        try:
            results = self._shared.commit_all([*self._waiting, job])
        except FAULTS as error:
            raise self._failure(error) from error
        self._waiting.clear()
        if self._shared.is_due():
            threading.Thread(target=self._shared.checkpoint, name="checkpoint", daemon=True).start()
        last: T = results[-1]
        return last

    @property
    def _closed(self) -> JournalError:
        return JournalError(f"journal {self.name} is closed; open the run again")

    def _failure(self, error: Exception) -> JournalError:
        return JournalError(f"journal {self.name} failed: {error}; check the disk, then resume the run")


class _Shared:
    """A connection and its lock; apart from the writer, so that the thread does not keep the writer alive."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.connection, self.name = connection, name
        self.lock = threading.Lock()
        self._commits = 0
        connection.execute("PRAGMA wal_autocheckpoint = 0").close()

    def commit_each(self, jobs: Sequence[Job[Any]]) -> list[Any]:
        """Commit jobs together and return what each returns or fails with; all fail if the commit fails."""
        try:
            return self.commit_all([partial(_try_job, job) for job in jobs])
        except FAULTS as error:
            return [error] * len(jobs)

    def commit_all(self, jobs: Sequence[Job[Any]]) -> list[Any]:
        """Commit jobs together, or none if one fails with `FAULTS`, so that they can be tried again; return results."""
        self._commits += 1
        try:
            self.connection.execute("BEGIN").close()
            results = [job(self.connection) for job in jobs]
            self.connection.execute("COMMIT").close()
        except FAULTS:
            with contextlib.suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK").close()
            raise
        return results

    def is_due(self) -> bool:
        return self._commits % CHECKPOINT == 0

    def checkpoint(self) -> None:
        """Move the log into the file while jobs go on, then what they added meanwhile, so that the log starts over."""
        with contextlib.suppress(sqlite3.Error):  # the connection was closed, which moves the log too
            with contextlib.closing(sqlite3.connect(self.name)) as mover:
                mover.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
            with self.lock:
                self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()


def _do_nothing(connection: sqlite3.Connection) -> None:
    """A job that only has waiting jobs committed."""


def _execute(statements: Sequence[Statement], connection: sqlite3.Connection) -> None:
    kinds: dict[str, list[tuple[Any, ...]]] = {}
    for statement, values in statements:
        kinds.setdefault(statement, []).append(values)
    for statement, values_of_all in kinds.items():
        connection.executemany(statement, values_of_all).close()


def _work(shared: _Shared, jobs: "SimpleQueue[_Pending | None]") -> None:
    with contextlib.closing(shared.connection):
        while batch := _next_batch(jobs):
            with shared.lock:
                results = shared.commit_each([pending.job for pending in batch])
            _deliver(batch, results)
            if shared.is_due():
                shared.checkpoint()


def _next_batch(jobs: "SimpleQueue[_Pending | None]") -> list[_Pending]:
    """Wait for a job, then take the others in the queue; empty when the writer is closed."""
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


def _try_job(job: Job[Any], connection: sqlite3.Connection) -> Any:
    try:
        return job(connection)
    except FAULTS as error:
        return error


def _deliver(batch: Sequence[_Pending], results: Sequence[Any]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for pending, result in zip(batch, results, strict=True):
        by_loop.setdefault(pending.loop, []).append((pending.done, result))
    for loop, finished in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop that asked is gone, as after Ctrl-C
            loop.call_soon_threadsafe(_resolve, finished)  # one wake-up for all of them


def _resolve(finished: "list[tuple[asyncio.Future[Any], Any]]") -> None:
    for done, result in finished:
        if done.done():  # cancelled while it waited
            continue
        if isinstance(result, FAULTS):
            done.set_exception(result)
        else:
            done.set_result(result)
