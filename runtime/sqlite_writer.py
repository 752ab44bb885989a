"""One SQLite connection: behind a thread, so that no event loop waits for a disk, or on a loop that is lent to it.

With a write-ahead log a commit ends in the system's cache and takes some 50 µs. A thread makes more of it: both threads
wait for the interpreter's lock at every statement, and whoever waits for the commit goes on only after all that the
loop does meanwhile. A loop that serves nobody else, such as an evaluation's, is better off committing as it goes. What
does wait for the disk, which is moving the log into the file, is left to a thread even then.
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
"""Jobs that share one commit of the thread at most."""
CHECKPOINT = 3000
"""Commits after which the log is moved into the file; until then it grows by some 10 kB a commit."""
PAUSE = 0.002
"""Seconds until a loop looks again whether the connection is free."""
FAULTS = (sqlite3.Error, ValueError, OverflowError)
"""What statements fail with: SQLite itself, and values that it cannot hold, such as half a character."""


class _Pending(NamedTuple):
    job: Job[Any]
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[Any]"


class Writer:
    """Runs jobs on a connection in the order in which they were given; waiting ones share a commit.

    Args:
        connection: opened with `check_same_thread=False` and `isolation_level=None`; owned from here on.
        name: its file, or ":memory:".
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.name = name
        self._shared = _Shared(connection, name)
        self._jobs: SimpleQueue[_Pending | None] = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._shared, self._jobs), name="journal", daemon=True)
        self._thread.start()
        self._stop = weakref.finalize(self, self._jobs.put, None)
        self._lent: asyncio.AbstractEventLoop | None = None
        self._waiting: list[Job[Any]] = []
        self._spare: list[Statement] = []

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Lend the running loop: what it asks for meanwhile is committed on it."""
        before, self._lent = self._lent, asyncio.get_running_loop()
        try:
            yield
        finally:
            self._lent = before
            with self._shared.lock:
                self._commit_all()

    async def run(self, job: Job[T], *, overtakes: bool = False) -> T:
        """Run a job and return its result once it is committed.

        Args:
            job: reads or writes.
            overtakes: whether it may go before what still has seconds to spare.

        Raises:
            JournalError: SQLite failed or the writer is closed.
        """
        if not self._stop.alive:
            raise self._closed
        loop = asyncio.get_running_loop()
        if loop is self._lent:
            if not overtakes:
                self._hurry()
            return await self._run_here(job)
        done: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Pending(job, loop, done))
        try:
            return await done
        except FAULTS as error:
            raise self._failed(error) from error

    async def put(self, job: Job[Any]) -> None:
        """Run a job; on a lent loop it is committed with the next one that is run, or at the end of the loop's turn.

        Args:
            job: writes.

        Raises:
            JournalError: as `run`; on a lent loop also for jobs that were put before.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._lent:
            await self.run(job)
            return
        self._waiting.append(job)
        if len(self._waiting) < TOGETHER:
            loop.call_soon(self._end_turn, loop)
        else:
            await self._caught_up()

    async def put_by(self, within: float, statements: Sequence[Statement]) -> None:
        """Execute statements; on a lent loop they may wait for others, as a commit writes every page that is changed.

        Args:
            within: seconds that they may wait.
            statements: that write.

        Raises:
            JournalError: as `put`.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._lent:
            await self.run(writing(statements))
            return
        if not self._spare:
            loop.call_later(within, self._end_time, loop)
        self._spare += statements
        if len(self._spare) >= TOGETHER:
            await self._caught_up()

    def close(self) -> None:
        """Finish what waits, close the connection and end the thread.

        Raises:
            JournalError: what was put could not be written.
        """
        try:
            with self._shared.lock:
                self._commit_all()
        finally:
            self._stop()
            self._thread.join()

    async def _caught_up(self) -> None:
        await self.run(_nothing)
        await asyncio.sleep(0)  # whoever only puts would never let others take their turn

    def _hurry(self) -> None:
        """Have what had seconds to spare wait no longer than all else."""
        if self._spare:
            self._waiting.append(partial(_execute, self._spare))
            self._spare = []

    async def _run_here(self, job: Job[T]) -> T:
        while not self._shared.lock.acquire(blocking=False):  # noqa: ASYNC110 - what is waited for is a thread
            await asyncio.sleep(PAUSE)
        try:
            return self._commit_here(job)
        finally:
            self._shared.lock.release()

    def _end_time(self, loop: asyncio.AbstractEventLoop) -> None:
        self._hurry()
        self._end_turn(loop)

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._shared.lock.acquire(blocking=False):
            loop.call_later(PAUSE, self._end_turn, loop)
            return
        try:
            with contextlib.suppress(JournalError):  # they still wait, and whoever asks next is told
                self._commit_waiting()
        finally:
            self._shared.lock.release()

    def _commit_all(self) -> None:
        self._hurry()
        self._commit_waiting()

    def _commit_waiting(self) -> None:
        if self._waiting and self._stop.alive:
            self._commit_here(_nothing)

    def _commit_here(self, job: Job[T]) -> T:
        """Run what waits and the job, in one transaction."""
        if not self._stop.alive:  # closed while it waited for its turn
            raise self._closed
        try:
            results = self._shared.all_committed([*self._waiting, job])
        except FAULTS as error:
            raise self._failed(error) from error
        self._waiting.clear()
        if self._shared.is_due():
            threading.Thread(target=self._shared.checkpoint, name="checkpoint", daemon=True).start()
        last: T = results[-1]
        return last

    @property
    def _closed(self) -> JournalError:
        return JournalError(f"journal {self.name} is closed; open the run again")

    def _failed(self, error: Exception) -> JournalError:
        return JournalError(f"journal {self.name} failed: {error}; check the disk, then resume the run")


class _Shared:
    """A connection and who may use it now; apart from the writer, so that its thread does not keep that alive."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.connection, self.name = connection, name
        self.lock = threading.Lock()
        self._commits = 0
        connection.execute("PRAGMA wal_autocheckpoint = 0").close()

    def committed(self, jobs: Sequence[Job[Any]]) -> list[Any]:
        """What jobs return or fail with, committed together; all fail where the commit does."""
        try:
            return self.all_committed([partial(_result, job) for job in jobs])
        except FAULTS as error:
            return [error] * len(jobs)

    def all_committed(self, jobs: Sequence[Job[Any]]) -> list[Any]:
        """What jobs return, committed together, or not at all where one fails, so that they can be tried again.

        Raises:
            sqlite3.Error, ValueError, OverflowError: of the first that failed, or of the commit.
        """
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
        """Whether the log has grown enough."""
        return self._commits % CHECKPOINT == 0

    def checkpoint(self) -> None:
        """Move the log into the file while jobs go on, then what they have added, so that the log begins anew."""
        with contextlib.suppress(sqlite3.Error):  # closed meanwhile, or later, with the connection
            with contextlib.closing(sqlite3.connect(self.name)) as mover:
                mover.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
            with self.lock:
                self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()


def _nothing(connection: sqlite3.Connection) -> None:
    """Commits what waits."""


def _execute(statements: Sequence[Statement], connection: sqlite3.Connection) -> None:
    """Executes them by kind."""
    kinds: dict[str, list[tuple[Any, ...]]] = {}
    for statement, values in statements:
        kinds.setdefault(statement, []).append(values)
    for statement, values_of_all in kinds.items():
        connection.executemany(statement, values_of_all).close()


def _work(shared: _Shared, jobs: "SimpleQueue[_Pending | None]") -> None:
    with contextlib.closing(shared.connection):
        while batch := _waiting(jobs):
            with shared.lock:
                results = shared.committed([pending.job for pending in batch])
            _tell(batch, results)
            if shared.is_due():
                shared.checkpoint()


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


def _result(job: Job[Any], connection: sqlite3.Connection) -> Any:
    try:
        return job(connection)
    except FAULTS as error:
        return error


def _tell(batch: Sequence[_Pending], results: Sequence[Any]) -> None:
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
