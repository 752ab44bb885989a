"""The SQLite file of a journal: its tables, its one writer, its lease and its readers.

With a write-ahead log a commit ends in the system's cache and takes about 50 µs. A thread makes it slower: both threads
wait for the interpreter's lock at every statement, and a task that waits for the commit continues only after all other
work of the loop. An event loop of a single run, such as an evaluation's, therefore commits by itself. Moving the log
into the file waits for the disk, so a thread does that in either case.

A lease is SQLite's write lock on an empty file beside the journal. The kernel drops the lock however the process ends,
so a kill -9 never blocks a resume, and neither clocks nor process ids matter.
"""

import asyncio
import contextlib
import json
import math
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal, NamedTuple, Self, TypeVar

from selfwire.core.errors import JournalError
from selfwire.core.scope import Scope
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.store.files import make_draft, place_draft

APPLICATION_ID = 0x73776A6C  # "swjl"
SCHEMA = 1
MEMORY = ":memory:"
CODE, VERSION = "code", "version"
"""Facts: a hash of selfwire's sources, and the version that they had, which is shown and not compared."""
STARTED = "started"
"""Fact: when the run was started, in UTC as ISO 8601; it is not compared."""
PAGE = 2048
"""Bytes of a page; small, as a commit writes whole pages, and rows with hashes as keys all lie on different pages."""
PATIENCE = 30.0
"""Seconds to wait for a file that another program locks."""
READING = 60.0
"""Most seconds in which a file is checked and read, as pages of a foreign file may refer to each other without end."""
STEPS = 100_000
"""Steps of SQLite's machine between two looks at the clock, which are about a millisecond."""
TABLES = f"""
BEGIN;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE bodies (hash TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE calls (
    key TEXT PRIMARY KEY, kind TEXT NOT NULL, scope TEXT NOT NULL, iteration INTEGER NOT NULL, phase TEXT NOT NULL,
    task TEXT NOT NULL, node TEXT NOT NULL, request TEXT NOT NULL, attempt INTEGER NOT NULL, at_most INTEGER NOT NULL,
    state TEXT NOT NULL, failures INTEGER NOT NULL DEFAULT 0, error TEXT, reply TEXT,
    calls INTEGER, input_tokens INTEGER, output_tokens INTEGER, dollars REAL, seconds REAL
);
CREATE INDEX places ON calls (iteration, phase, task);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA};
"""
"""Begins a transaction, and leaves it open for the first rows."""


def create_journal(path: Path, facts: Mapping[str, str], fill: Callable[[Path], None]) -> None:
    """Create a journal's file with its tables and mode 0600; the file appears only when it is complete.

    Args:
        fill: writes the first notes to the file.

    Raises:
        JournalError: the file exists, or cannot be created.
    """
    exists = JournalError(f"run file {path} exists already; resume that run or name another")
    if path.exists():
        raise exists
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with make_draft(path) as draft:
            create_tables(str(draft), facts).close()
            fill(draft)
            if not place_draft(draft, path):
                raise exists
    except OSError as error:
        raise JournalError(f"run file {path} cannot be made: {error}; choose another folder") from None


class JournalHeader(NamedTuple):
    """The facts with which a journal was created, and the process that opened it last."""

    facts: dict[str, str]
    holder: str


def open_connection(path: str, mode: str = "mode=rw") -> sqlite3.Connection:
    """Open an existing file, or memory, for use by a single thread at a time; `mode` as in SQLite's URIs."""
    uri = f"{Path(path).resolve().as_uri()}?{mode}" if path != MEMORY else path
    connection = sqlite3.connect(
        uri, uri=path != MEMORY, isolation_level=None, check_same_thread=False, timeout=PATIENCE
    )
    if mode == "mode=rw":
        connection.execute("PRAGMA synchronous = NORMAL")  # survives a kill of the process
    return connection


@contextmanager
def explain_unwritable(path: Path | str) -> Iterator[None]:
    """Turn errors of SQLite and the system, such as a full disk, into a JournalError with the reason."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise JournalError(
            f"run file {path} cannot be written: {error}; make room, or check the rights of its folder, and try again"
        ) from error


def _limit_reading(connection: sqlite3.Connection) -> None:
    """Let statements fail that run later than `READING` seconds from now."""
    deadline = time.monotonic() + READING
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)


def choose_read_mode(path: Path) -> str:
    """Choose the mode that reads a file without creating files beside it; a file without a log is not open anywhere."""
    return "mode=ro" if path.with_name(path.name + "-wal").exists() else "immutable=1"


def open_unchecked(path: Path) -> sqlite3.Connection:
    """Open a journal for reading, without checking its pages; raises JournalError if it is missing or foreign."""
    if not path.is_file():
        raise JournalError(f"there is no run file {path}; `selfwire runs` lists runs")
    connection = open_connection(str(path), choose_read_mode(path))
    _limit_reading(connection)
    try:
        _refuse_foreign(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def create_tables(path: str, facts: Mapping[str, str]) -> sqlite3.Connection:
    """Open an empty file and create its tables; before the log, so that the file itself has the header at once."""
    with explain_unwritable(path):
        connection = open_connection(path)
        connection.execute(f"PRAGMA page_size = {PAGE}")
        connection.executescript(TABLES)
        connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
        _sign(connection)
    return connection


def open_as_holder(path: str) -> sqlite3.Connection:
    """Open a journal for writing and note this process as its holder; raises JournalError if it cannot be written."""
    with explain_unwritable(path):
        connection = open_connection(path)
        _sign(connection)
    return connection


def read_header(path: Path, *, check: bool = True) -> JournalHeader:
    """Read a file's header; raises JournalError if the file is missing, foreign, too new or corrupt.

    Args:
        check: whether all pages of the file are checked, which takes most of a second for 400 MB.
    """
    # by SQLite even for the header: closing another handle of the file would drop the locks of this process
    with _explain_unreadable(path), closing(open_unchecked(path)) as connection:
        state = connection.execute("PRAGMA quick_check(1)").fetchone()[0] if check else "ok"
        facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
        holder = connection.execute("SELECT value FROM notes WHERE name = 'holder'").fetchone()
    if state != "ok":
        raise _make_corrupt_error(path, state)
    if not isinstance(facts.get("run"), str):
        raise _make_corrupt_error(path, "it does not name its run")
    read = parse_stored(f"journal {path}", json.loads, holder[0]) if holder else "another process"
    return JournalHeader(facts, holder=str(read))


@contextmanager
def _explain_unreadable(path: Path) -> Iterator[None]:
    """Turn an error of SQLite into a JournalError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise JournalError(f"{path} is not a journal of selfwire ({error}); nothing was written to it") from None
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise JournalError(f"run file {path} is locked by another program; wait for it, and try again") from None
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            raise JournalError(f"run file {path} cannot be read within {READING:.0f} s; remove the run") from None
        raise _make_corrupt_error(path, str(error)) from None


def _make_corrupt_error(path: Path, state: str) -> JournalError:
    return JournalError(f"run file {path} is corrupt ({state}); nothing was written; start a new run")


def copy_rows(
    source: Path,
    into: Path,
    *,
    runs: Sequence[str] | None,
    notes: Sequence[str] = (),
    tasks: Sequence[str] | None = None,
    bodies: bool = False,
) -> None:
    """Copy calls and notes from a journal into another, where they replace equal keys. Blocks.

    A process that has the other journal open finds the copied notes and bodies at once, but the calls only when it
    opens the journal again. The files are not checked as a whole, since that takes long for large files and happens
    when they are opened.

    Args:
        runs: runs whose calls are copied; None for all.
        notes: prefixes of the names of the notes that are copied.
        tasks: tasks whose calls are copied; None for all.
        bodies: whether all bodies are copied too.
    """
    for path in (source, into):
        with _explain_unreadable(path):
            open_unchecked(path).close()
    named = " OR ".join("substr(name, 1, length(?)) = ?" for _ in notes) or "FALSE"
    columns = {"json_extract(scope, '$.run')": runs, "task": tasks}
    among = [f"{name} IN (SELECT value FROM json_each(?))" for name, some in columns.items() if some is not None]
    with explain_unwritable(into), closing(open_connection(str(into))) as connection:
        connection.execute("ATTACH DATABASE ? AS source", (f"{source.resolve().as_uri()}?mode=rw",))
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT OR REPLACE INTO main.calls SELECT * FROM source.calls "
            f"WHERE {' AND '.join(among) or 'TRUE'} ORDER BY rowid",
            [json.dumps(list(some)) for some in (runs, tasks) if some is not None],
        )
        copy_notes = f"INSERT OR REPLACE INTO main.notes SELECT * FROM source.notes WHERE {named}"
        connection.execute(copy_notes, [text for note in notes for text in (note, note)])
        if bodies:
            connection.execute("INSERT OR IGNORE INTO main.bodies SELECT * FROM source.bodies")
        connection.execute("COMMIT")


def _refuse_foreign(path: Path, connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise JournalError(f"{path} is not a journal of selfwire; nothing was written to it")
    if (schema := connection.execute("PRAGMA user_version").fetchone()[0]) != SCHEMA:
        raise JournalError(f"{path} has journal schema {schema}, this version of selfwire reads {SCHEMA}")
    if other := sorted({*_list_parts(connection)} ^ _list_own_parts(), key=repr):
        kind, name, *_ = other[0]
        raise JournalError(
            f"{path} is not a journal of selfwire: its {kind} {str(name)[:80]!r} is not as selfwire makes it; "
            "nothing was read from it, and nothing was written to it"
        )


def _list_parts(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    """List tables, indices, views and triggers with their definitions; reading a view would run its definition."""
    return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()


@cache
def _list_own_parts() -> frozenset[tuple[str, ...]]:
    with closing(sqlite3.connect(MEMORY)) as connection:
        connection.executescript(TABLES)
        return frozenset(_list_parts(connection))


def refuse_other_facts(path: Path, then: Mapping[str, str], now: Mapping[str, str] | None) -> None:
    """Raise a JournalError that names the first fact that differs now; None compares nothing."""
    run = then.get("run", path.parent.name)
    names = () if now is None else sorted({*then, *now} - {"run", VERSION, STARTED})
    for name in names:
        old, new = then.get(name, "nothing"), (now or {}).get(name, "nothing")
        if old == new:
            continue
        if name == CODE:
            before, after = (facts.get(VERSION, "of an unknown version") for facts in (then, now or {}))
            raise JournalError(
                f"run {run!r} in {path} goes on only under the code that began it, which was selfwire {before} "
                f"(code {old}), and this is selfwire {after} (code {new}); go on with an "
                f"installation whose `selfwire version` prints code {old}, or start a run by another name"
            )
        raise JournalError(
            f"run {run!r} in {path} was started with another {name} ({old} then, {new} now); "
            f"restore the {name} or start a new run"
        )


def _sign(connection: sqlite3.Connection) -> None:
    holder = f"process {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}"
    connection.execute("INSERT OR REPLACE INTO notes VALUES ('holder', ?)", (json.dumps(holder),))


Statement = tuple[str, tuple[Any, ...]]
"""An SQL statement and its values."""

USAGE = "calls, input_tokens, output_tokens, dollars, seconds"
BILLED = ", ".join(f"{column} = COALESCE({column}, 0) + ?" for column in USAGE.split(", "))
"""Assignments that add a usage to the bill of a call; an unknown price makes the sum unknown."""

RESERVE = (
    "INSERT INTO calls (key, kind, scope, iteration, phase, task, node, request, attempt, at_most, state) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved') ON CONFLICT (key) DO UPDATE SET state = 'reserved', "
    "at_most = MAX(at_most, excluded.at_most)"
)
SETTLE = f"UPDATE calls SET state = 'settled', error = NULL, reply = ?, {BILLED} WHERE key = ?"
FAIL = "UPDATE calls SET state = 'failed', failures = failures + 1, at_most = ?, error = ? WHERE key = ?"
BILL = f"UPDATE calls SET {BILLED} WHERE key = ?"
FORGET = "DELETE FROM calls WHERE key = ?"
GIVE_BACK = "UPDATE calls SET state = IIF(failures > 0, 'failed', 'reserved'), at_most = ? WHERE key = ?"
"""Takes back a reservation of a call that an earlier attempt has sent."""
STORE_BODY = "INSERT OR IGNORE INTO bodies VALUES (?, ?)"
STORE_NOTE = "INSERT OR REPLACE INTO notes VALUES (?, ?)"

PLACES = ("iteration", "phase", "task", "node", "run")


def make_job(statements: Sequence[Statement]) -> Callable[[sqlite3.Connection], None]:
    """Make a job that executes statements."""

    def write(connection: sqlite3.Connection) -> None:
        for statement, values in statements:
            connection.execute(statement, values).close()

    return write


def make_condition(wanted: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Make a condition on columns, and its values; None is no condition; raises ValueError for an unknown column."""
    if unknown := set(wanted) - {"kind", "state", *PLACES}:
        raise ValueError(f"rows are found by {', '.join(PLACES)}, not by {', '.join(sorted(unknown))}")
    asked = {name: value for name, value in wanted.items() if value is not None}
    columns = {"run": "json_extract(scope, '$.run')"}
    return " AND ".join(["TRUE", *(f"{columns.get(name, name)} = ?" for name in asked)]), list(asked.values())


def to_columns(usage: Usage) -> tuple[Any, ...]:
    """Convert a usage to the columns of `USAGE`."""
    return usage.calls, usage.input_tokens, usage.output_tokens, usage.dollars, usage.seconds


def to_usage(columns: Any) -> Usage:
    """Convert the columns of `USAGE` to a usage."""
    calls, sent, received, dollars, seconds = columns
    return Usage(calls=calls, input_tokens=sent, output_tokens=received, dollars=dollars, seconds=seconds)


def sum_rows(rows: Sequence[tuple[Any, ...]]) -> Usage:
    """Add up rows of the columns of `USAGE`; prices are added exactly, so that their order does not matter."""
    calls, sent, received, dollars, seconds = zip(*rows, strict=True) if rows else ((),) * 5
    price = None if None in dollars else math.fsum(dollars)
    return to_usage((sum(calls), sum(sent), sum(received), price, sum(seconds)))


T = TypeVar("T")
State = Literal["reserved", "settled", "failed"]


class CallResult(NamedTuple):
    """A reply as JSON text, with its cost, and whether the journal replayed it."""

    text: str
    usage: Usage = ZERO_USAGE
    replayed: bool = False

    def parse(self, read: Callable[[str], T]) -> T:
        """Parse the reply by `read`; raises JournalError if the text is damaged."""
        return parse_stored("a reply of the journal", read, self.text)


class CallRow(NamedTuple):
    """A call in the journal; `reply` is None until the call is settled, `usage` until it is billed."""

    kind: str
    scope: Scope
    request: str
    attempt: int
    state: str
    failures: int
    error: str | None
    reply: Any
    usage: Usage | None

    @classmethod
    def from_columns(cls, columns: tuple[Any, ...]) -> Self:
        """Make a row from its columns."""
        kind, scope, request, attempt, state, failures, error, reply, *usage = columns
        settled = state == "settled"
        return cls(
            kind, Scope.model_validate_json(scope), request, attempt, state, failures, error,
            json.loads(reply) if settled else None, None if usage[0] is None else to_usage(usage),
        )  # fmt: skip


def parse_stored(where: str, read: Callable[[Any], T], value: Any) -> T:
    """Parse a stored value by `read`; raises JournalError if the value is damaged."""
    try:
        return read(value)
    except (ValueError, TypeError, RecursionError) as error:  # a ValidationError is a ValueError
        why = " ".join(str(error).split())[:200]
        raise JournalError(f"{where} is damaged: {why}; start a new run, or restore the file") from None


_SUM = (
    "SUM(calls), SUM(input_tokens), SUM(output_tokens), IIF(COUNT(dollars) = COUNT(*), SUM(dollars), NULL), "
    "SUM(seconds)"
)
"""The columns of a usage summed over rows; if a row has no price, the sum has none."""


BY_MODEL = f"""
SELECT CASE WHEN json_valid(reply) THEN json_extract(reply, '$.metadata.named') END AS named,
    CASE WHEN json_valid(reply) THEN json_extract(reply, '$.model') END AS model, {_SUM}
FROM calls WHERE kind = 'model' AND calls > 0 GROUP BY named, model ORDER BY SUM(dollars) DESC, named, model
"""
"""The cost of models by the names that agents have for them and those that providers say, the dearest first."""


def read_spend_by_model(rows: Sequence[Any]) -> dict[str, Usage]:
    """Read the rows of `BY_MODEL`: cost by label, such as "cheap (gpt-4o-mini)"."""
    found = dict[str, Usage]()
    for named, model, *columns in rows:
        said = str(model or "calls without a reply")
        label = f"{named} ({said})" if named else said
        found[label] = found.get(label, ZERO_USAGE) + to_usage(columns)
    return found


class JournalReader:
    """A reader of a journal that another process may write; blocks, and raises JournalError for a damaged file.

    Args:
        check: whether all pages of the file are checked first; without that, a damaged page is found when it is read,
            and nothing can be read later than `READING` seconds from now.
    """

    def __init__(self, path: Path, *, check: bool = True) -> None:
        self.run = read_header(path, check=check).facts["run"]
        self._path, self._name = path, f"journal {path}"
        self._connection = open_connection(str(path), choose_read_mode(path))
        if not check:
            _limit_reading(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def notes(self, prefix: str = "") -> dict[str, Any]:
        """Read the notes whose names begin with a prefix, by name, sorted."""
        statement = "SELECT name, value FROM notes WHERE substr(name, 1, ?) = ? ORDER BY name"
        found = self._read(statement, len(prefix), prefix)
        return {name: parse_stored(self._name, json.loads, value) for name, value in found}

    def note(self, name: str) -> Any:
        """The value of a note; None if there is none."""
        found = self._read("SELECT value FROM notes WHERE name = ?", name)
        return parse_stored(self._name, json.loads, found[0][0]) if found else None

    def body(self, digest: str, read: Callable[[Any], T]) -> T:
        """Read the JSON value of a body by `read`.

        Raises:
            JournalError: there is no such body, or it is damaged.
        """
        if digest not in (found := self.bodies([digest], read)):
            raise JournalError(f"{self._name} has no body {digest!r}; it belongs to another run")
        return found[digest]

    def bodies(self, digests: Sequence[str], read: Callable[[Any], T]) -> dict[str, T]:
        """Read the JSON values of bodies by `read`, by hash; missing bodies are left out."""
        statement = "SELECT hash, body FROM bodies WHERE hash IN (SELECT value FROM json_each(?))"
        found = self._read(statement, json.dumps([*digests]))
        return {digest: parse_stored(self._name, lambda text: read(json.loads(text)), body) for digest, body in found}

    def list_states(self) -> list[tuple[str, str, int]]:
        """Every call's key, state, and most tokens that it may have cost unnoted."""
        return self._read("SELECT key, state, at_most FROM calls")

    def count_unsettled(self) -> tuple[int, int]:
        """Count the model calls that never settled, and the tokens that they may have cost at most."""
        tokens = [at_most for _, state, at_most in self.list_states() if state != "settled" and at_most]
        return len(tokens), sum(tokens)

    def spend(self) -> Usage:
        """The cost of all calls."""
        rows = self._read(f"SELECT {USAGE} FROM calls WHERE calls IS NOT NULL")
        return parse_stored(self._name, sum_rows, rows)

    def spend_by_place(self) -> dict[tuple[str, str], Usage]:
        """Add up the billed cost by phase and node."""
        statement = f"SELECT phase, node, {_SUM} FROM calls WHERE calls IS NOT NULL GROUP BY phase, node"
        rows = self._read(statement)
        return {(phase, node): parse_stored(self._name, to_usage, usage) for phase, node, *usage in rows}

    def spend_by_model(self) -> dict[str, Usage]:
        """Add up the billed cost by model."""
        return parse_stored(self._name, read_spend_by_model, self._read(BY_MODEL))

    def replies(self, kind: str, **place: str | int) -> list[tuple[str, Any]]:
        """Read settled replies of a kind at a place, such as a phase or a run, each with its task."""
        where, values = make_condition({"kind": kind, "state": "settled", **place})
        rows = self._read(f"SELECT task, reply FROM calls WHERE {where} ORDER BY rowid", *values)
        return [(task, parse_stored(self._name, json.loads, reply)) for task, reply in rows]

    def _read(self, statement: str, *values: Any) -> list[Any]:
        with _explain_unreadable(self._path):
            return self._connection.execute(statement, values).fetchall()


def read_spend(path: Path) -> Usage:
    """Read the cost of a journal's calls, without checking the whole file; raises JournalError as `JournalReader`."""
    with JournalReader(path, check=False) as journal:
        return journal.spend()


Job = Callable[[sqlite3.Connection], T]
MOST_WAITING = 128
"""Most jobs or statements that wait for a commit on a loop."""
BATCH = 256
"""Most jobs in one commit of the thread."""
CHECKPOINT = 3000
"""Commits after which the log is moved into the file; the log grows by about 10 kB a commit."""
PAUSE = 0.002
"""Seconds after which a loop checks again whether the connection is free."""
STATEMENT_ERRORS = (sqlite3.Error, ValueError, OverflowError)
"""Errors of statements: SQLite's own, and those for values that it cannot store, such as a surrogate."""


class _Pending(NamedTuple):
    job: Job[Any]
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[Any]"


class Writer:
    """A queue of jobs on a connection, in the order of their arrival; waiting jobs share a commit.

    The writer owns the connection, which is opened with `check_same_thread=False` and `isolation_level=None`.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.name = name
        self._shared = _Shared(connection, name)
        self._jobs: SimpleQueue[_Pending | None] = SimpleQueue()
        self._thread = threading.Thread(target=_run_jobs, args=(self._shared, self._jobs), name="journal", daemon=True)
        self._thread.start()
        self._stop = weakref.finalize(self, self._jobs.put, None)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[Job[Any]] = []
        self._deferred: list[Statement] = []

    @contextlib.contextmanager
    def commit_on_loop(self) -> Iterator[None]:
        """Commit the running loop's jobs on that loop inside the block."""
        before, self._loop = self._loop, asyncio.get_running_loop()
        try:
            yield
        finally:
            self._loop = before
            with self._shared.lock:
                self._commit_all()

    async def run(self, job: Job[T], *, overtakes: bool = False) -> T:
        """Run a job and return its result after the commit; with `overtakes` it may run before deferred jobs."""
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
        except STATEMENT_ERRORS as error:
            raise self._failure(error) from error

    def run_now(self, job: Job[T]) -> T:
        """Run a job while the caller, which cannot await, waits for the commit.

        A thread runs it for a caller on an event loop, as `langgraph dev` lets no loop call SQLite.
        """
        done: Future[T] = Future()

        def commit() -> None:
            try:
                with self._shared.lock:
                    done.set_result(self._commit_now(job))
            except JournalError as error:
                done.set_exception(error)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            commit()
        else:  # no executor, which takes no job once the main thread has ended
            thread = threading.Thread(target=commit, name="commit")
            thread.start()
            thread.join()
        return done.result(timeout=0)

    async def put(self, job: Job[Any]) -> None:
        """Run a job; a loop that commits by itself runs it with the next `run`, or at the end of the turn."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            await self.run(job)
            return
        self._waiting.append(job)
        if len(self._waiting) < MOST_WAITING:
            loop.call_soon(self._end_turn, loop)
        else:
            await self._flush()

    async def put_within(self, within: float, statements: Sequence[Statement]) -> None:
        """Write; a loop that commits by itself may wait `within` seconds for more, as a commit writes whole pages."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            await self.run(make_job(statements))
            return
        if not self._deferred:
            loop.call_later(within, self._end_wait, loop)
        self._deferred += statements
        if len(self._deferred) >= MOST_WAITING:
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
        waiting = [*self._waiting]  # a loop may add to it meanwhile
        try:
            results = self._shared.commit_all([*waiting, job])
        except STATEMENT_ERRORS as error:
            raise self._failure(error) from error
        del self._waiting[: len(waiting)]
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
    """A connection and its lock; separate from the writer, so that the thread does not keep the writer alive."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.connection, self.name = connection, name
        self.lock = threading.Lock()
        self._commits = 0
        connection.execute("PRAGMA wal_autocheckpoint = 0").close()

    def commit_each(self, jobs: Sequence[Job[Any]]) -> list[Any]:
        """Commit jobs together; return each job's result or error, for all jobs the error if the commit fails."""
        try:
            return self.commit_all([partial(_try_job, job) for job in jobs])
        except STATEMENT_ERRORS as error:
            return [error] * len(jobs)

    def commit_all(self, jobs: Sequence[Job[Any]]) -> list[Any]:
        """Commit jobs together and return their results; if a job fails, no job is committed."""
        self._commits += 1
        try:
            self.connection.execute("BEGIN").close()
            results = [job(self.connection) for job in jobs]
            self.connection.execute("COMMIT").close()
        except STATEMENT_ERRORS:
            with contextlib.suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK").close()
            raise
        return results

    def is_due(self) -> bool:
        return self._commits % CHECKPOINT == 0

    def checkpoint(self) -> None:
        """Move the log into the file while jobs go on, then the rest with jobs stopped, so that the log starts over."""
        with contextlib.suppress(sqlite3.Error):  # the connection was closed, which moves the log too
            with contextlib.closing(sqlite3.connect(self.name)) as mover:
                mover.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
            with self.lock:
                self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()


def _do_nothing(connection: sqlite3.Connection) -> None:
    """Do nothing: a job that only makes the writer commit waiting jobs."""


def _execute(statements: Sequence[Statement], connection: sqlite3.Connection) -> None:
    kinds: dict[str, list[tuple[Any, ...]]] = {}
    for statement, values in statements:
        kinds.setdefault(statement, []).append(values)
    for statement, values_of_all in kinds.items():
        connection.executemany(statement, values_of_all).close()


def _run_jobs(shared: _Shared, jobs: "SimpleQueue[_Pending | None]") -> None:
    with contextlib.closing(shared.connection):
        while batch := _next_batch(jobs):
            with shared.lock:
                results = shared.commit_each([pending.job for pending in batch])
            _deliver(batch, results)
            if shared.is_due():
                shared.checkpoint()


def _next_batch(jobs: "SimpleQueue[_Pending | None]") -> list[_Pending]:
    """Wait for a job, then take all others from the queue; empty when the writer is closed."""
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
    except STATEMENT_ERRORS as error:
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
        if isinstance(result, STATEMENT_ERRORS):
            done.set_exception(result)
        else:
            done.set_result(result)


LEASE_PATIENCE = 0.2
"""Seconds to wait for a lease; longer than `is_held` takes it to test it."""


def is_held(path: Path) -> bool:
    """Whether a process works on a run's files; True also if the lease cannot be tested, as its file is read-only."""
    if not path.with_name(path.name + ".lease").exists():
        return False
    try:
        Lease(path).release()
    except JournalError:
        return True
    return False


class Lease:
    """A lock on `<path>.lease`, until it is released or the process ends.

    Args:
        holder: name of the other process, for the message of the error.
        patience: seconds to wait for a lease that another process has.

    Raises:
        JournalError: another process has the lease.
    """

    def __init__(self, path: Path, holder: str = "another process", patience: float = LEASE_PATIENCE) -> None:
        self._file = path.with_name(path.name + ".lease")
        # opening and closing a file that exists would drop its locks
        with explain_unwritable(self._file), contextlib.suppress(FileExistsError):
            os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with explain_unwritable(self._file):
            if not os.access(self._file, os.W_OK):  # SQLite would lock it for reading, as many may
                raise PermissionError("it is read-only")
        self._lock = sqlite3.connect(self._file, timeout=patience, isolation_level=None, check_same_thread=False)
        try:
            self._lock.execute("PRAGMA journal_mode = MEMORY")
            self._lock.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            self._lock.close()
            fault = f"run file {path} is held by {holder}; wait for it, stop it, or start another run"
            raise JournalError(fault) from error

    def release(self) -> None:
        """Release the lease; the empty file stays, as removing it would let two processes lock the same name."""
        with contextlib.closing(self._lock):
            self._lock.rollback()
