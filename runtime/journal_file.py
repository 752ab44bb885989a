"""The file of a journal: creating, opening and checking it, and copying rows of one run between journals."""

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from selfwire.core.errors import JournalError
from selfwire.core.usage import Usage
from selfwire.runtime.drafts import make_draft, place_draft

APPLICATION_ID = 0x73776A6C  # "swjl"
SCHEMA = 1
MEMORY = ":memory:"
PAGE = 2048
"""Bytes of a page: keys are hashes, so every row changes other pages, and a commit writes whole pages."""
PATIENCE = 30.0
"""Seconds for which a file is waited for that another program locks."""
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
COMMIT;
"""
SUMS = "SELECT TOTAL(calls), TOTAL(input_tokens), TOTAL(output_tokens), TOTAL(seconds) FROM calls"
PRICES = "SELECT dollars FROM calls WHERE calls IS NOT NULL AND dollars IS NOT 0"
"""Of calls that were billed; their sum is exact in Python only."""


def create_journal(path: Path, facts: Mapping[str, str], fill: Callable[[Path], None]) -> None:
    """Create a file with mode 0600 and its tables; nobody sees it before it is whole.

    Args:
        fill: writes to the file what the journal holds from its first moment.

    Raises:
        JournalError: it exists, or cannot be created.
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
    """The facts that a journal was created with, and who opened it last."""

    facts: dict[str, str]
    holder: str


def open_connection(path: str, mode: str = "mode=rw") -> sqlite3.Connection:
    """Open a file that exists, or memory, for use by one thread at a time; `mode` as in SQLite's URIs."""
    uri = f"{Path(path).resolve().as_uri()}?{mode}" if path != MEMORY else path
    connection = sqlite3.connect(
        uri, uri=path != MEMORY, isolation_level=None, check_same_thread=False, timeout=PATIENCE
    )
    if mode == "mode=rw":
        connection.execute("PRAGMA synchronous = NORMAL")  # survives a kill of the process
    return connection


@contextmanager
def explain_unwritable(path: Path | str) -> Iterator[None]:
    """Raise a JournalError with the reason, such as a full disk, in place of the error of SQLite or the system."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise JournalError(
            f"run file {path} cannot be written: {error}; make room, or check the rights of its folder, and try again"
        ) from error


def choose_read_mode(path: Path) -> str:
    """The mode that reads a file without creating others beside it; a file that nobody has open cannot change."""
    return "mode=ro" if path.with_name(path.name + "-wal").exists() else "immutable=1"


def open_checked(path: Path) -> sqlite3.Connection:
    """Open a journal for reading, without going through its pages; raises JournalError if it is missing or foreign."""
    _refuse_missing(path)
    connection = open_connection(str(path), choose_read_mode(path))
    try:
        _refuse_foreign(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def create_tables(path: str, facts: Mapping[str, str]) -> sqlite3.Connection:
    """Open an empty file and create its tables; the log comes later, so that the file itself has its header at once."""
    with explain_unwritable(path):
        connection = open_connection(path)
        connection.execute(f"PRAGMA page_size = {PAGE}")
        connection.executescript(TABLES)
        connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
        connection.execute("PRAGMA journal_mode = WAL")
        _sign(connection)
    return connection


def open_as_holder(path: str) -> sqlite3.Connection:
    """Open a journal for writing and note this process as its holder; raises JournalError if it cannot be written."""
    with explain_unwritable(path):
        connection = open_connection(path)
        _sign(connection)
    return connection


def read_header(path: Path) -> JournalHeader:
    """Read a file's header, write nothing; raises JournalError if it is missing, foreign, too new or corrupt."""
    _refuse_missing(path)
    # by SQLite even for the header: closing another handle of the file would drop the locks of this process
    with _explain_unreadable(path), closing(open_connection(str(path), choose_read_mode(path))) as connection:
        _refuse_foreign(path, connection)
        state = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
        holder = connection.execute("SELECT value FROM notes WHERE name = 'holder'").fetchone()
    if state != "ok":
        raise _make_corrupt_error(path, state)
    return JournalHeader(facts, holder=json.loads(holder[0]) if holder else "another process")


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
        raise _make_corrupt_error(path, str(error)) from None


def _make_corrupt_error(path: Path, state: str) -> JournalError:
    return JournalError(f"run file {path} is corrupt ({state}); nothing was written; start a new run")


def read_spend(path: Path) -> Usage:
    """The cost of all calls; the file is not checked as a whole, as by `copy_rows`. Raises JournalError."""
    with _explain_unreadable(path), closing(open_checked(path)) as connection:
        calls, sent, received, seconds = connection.execute(SUMS).fetchone()
        prices = [price for (price,) in connection.execute(PRICES)]
    dollars = None if None in prices else float(sum(map(Fraction, prices)))
    return Usage(calls=calls, input_tokens=sent, output_tokens=received, dollars=dollars, seconds=seconds)


def copy_rows(
    source: Path,
    into: Path,
    *,
    runs: Sequence[str] | None,
    notes: Sequence[str] = (),
    tasks: Sequence[str] | None = None,
    bodies: bool = False,
) -> None:
    """Copy calls and notes from one journal into another, in which they replace equal keys. Blocks.

    A journal that is open finds the notes and bodies at once, and the calls when it is opened again. The files are not
    checked as a whole, which takes the longer the larger they are: whoever opens them does that.

    Args:
        runs: runs whose calls are copied; None for all.
        notes: beginnings of the names of the notes that are copied.
        tasks: whose calls are copied; None for all.
    """
    for path in (source, into):
        with _explain_unreadable(path):
            open_checked(path).close()
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


def _refuse_missing(path: Path) -> None:
    if not path.is_file():
        raise JournalError(f"there is no run file {path}; `selfwire runs` lists runs")


def _refuse_foreign(path: Path, connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise JournalError(f"{path} is not a journal of selfwire; nothing was written to it")
    if (schema := connection.execute("PRAGMA user_version").fetchone()[0]) != SCHEMA:
        raise JournalError(f"{path} has journal schema {schema}, this version of selfwire reads {SCHEMA}")


def refuse_other_facts(path: Path, found: JournalHeader, facts: Mapping[str, str] | None) -> None:
    """Raise a JournalError that names the first fact that differs now; None compares nothing."""
    then = {name: value for name, value in found.facts.items() if name != "run"}
    names = () if facts is None else sorted({*then, *facts})
    for name in names:
        old, new = then.get(name, "nothing"), (facts or {}).get(name, "nothing")
        if old != new:
            raise JournalError(
                f"run {found.facts['run']!r} in {path} was started with another {name} ({old} then, {new} now); "
                f"restore the {name} or start a new run"
            )


def _sign(connection: sqlite3.Connection) -> None:
    holder = f"process {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}"
    connection.execute("INSERT OR REPLACE INTO notes VALUES ('holder', ?)", (json.dumps(holder),))
