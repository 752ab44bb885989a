"""Opening the LangGraph store that keeps saved workflows: SQLite by default, Postgres by URL, or memory."""

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from langgraph.store.base import BaseStore, Op, Result

from selfwire.core.errors import ConfigError, LibraryError
from selfwire.runtime.drafts import make_draft, place_draft

if TYPE_CHECKING:
    from langgraph.store.sqlite import SqliteStore

SCHEMA = 1
"""Version of the format, in the header of a SQLite file and in every entry."""

PATIENCE = 30.0
"""Seconds to wait for a library that another process writes to."""
_MAGIC = b"SQLite format 3\x00"
_APPLICATION = 0x73776C62
"""SQLite's application id of a library file ("swlb"), which other databases do not have."""
_WAY_OUT = "it is left as it is; move it away or choose another home with --home"


def home_folder(home: Path | str | None = None) -> Path:
    """The folder that holds library and runs: the argument, else SELFWIRE_HOME, else `.selfwire` here."""
    return Path(home or os.environ.get("SELFWIRE_HOME") or ".selfwire").expanduser()


class ThreadedStore(BaseStore):
    """A synchronous store behind LangGraph's async interface; `faults` of its driver become a `LibraryError`."""

    def __init__(
        self, inner: BaseStore, where: str, faults: tuple[type[Exception], ...], release: Callable[[], None]
    ) -> None:
        self.where = where
        self._inner, self._release = inner, release
        self._faults: tuple[type[Exception], ...] = (*faults, ValueError, RecursionError)  # of entries that are no JSON

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction; raises LibraryError if the database refused."""
        try:
            return self._inner.batch(ops)
        except self._faults as error:
            raise LibraryError(f"library {self.where} cannot be used: {error}") from None

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction, without blocking the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    def close(self) -> None:
        """Close the connection."""
        self._release()


def open_sqlite(path: Path) -> ThreadedStore:
    """Open a library file, or create it with mode 0600; raises LibraryError if it is corrupt, foreign or newer."""
    try:
        if not path.exists():
            _create(path)
        refuse_foreign(path)
        connection = sqlite3.connect(path, timeout=PATIENCE, check_same_thread=False, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise LibraryError(f"library {path} cannot be opened: {error}") from None
    store = _make_store(connection)

    def release() -> None:
        with store.lock:  # a cancelled run leaves its last write to a thread
            connection.close()

    return ThreadedStore(store, str(path), (sqlite3.Error, json.JSONDecodeError), release)


def open_snapshot(path: Path) -> ThreadedStore:
    """Open a library file for reading as it is now, with no lock, so that no process waits for it.

    What is read while a process writes may be half of it: an error, or gone with the next look.

    Raises:
        LibraryError: it is foreign or newer, or a process has begun to write it.
    """
    try:
        _refuse_header(path)
        if path.with_name(f"{path.name}-journal").exists():
            raise LibraryError(f"library {path} is being written; it is read again soon")
        uri = f"{path.absolute().as_uri()}?immutable=1"
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise LibraryError(f"library {path} cannot be opened: {error}") from None
    return ThreadedStore(_make_store(connection), str(path), (sqlite3.Error, json.JSONDecodeError), connection.close)


def _make_store(connection: sqlite3.Connection) -> "SqliteStore":
    from langgraph.store.sqlite import SqliteStore  # imports numpy

    return SqliteStore(connection)


def refuse_foreign(path: Path) -> None:
    """Raise a LibraryError that names what is wrong with a library file.

    It writes nothing, except that SQLite takes back a transaction that a killed process has left half written.
    """
    _refuse_header(path)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=PATIENCE)) as connection:
            found = " ".join(connection.execute("PRAGMA quick_check(1)").fetchone()[0].split())
            connection.execute("SELECT prefix, key, value FROM store LIMIT 1").fetchone()
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise LibraryError(
                f"library {path} is in use by another process: {error}; try again when it is done"
            ) from None
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
            why = "a killed process left a transaction half written, and it cannot be taken back"
            raise LibraryError(f"{why} in library {path}: {error}; allow writing to it and to its folder") from None
        raise LibraryError(f"library {path} is corrupt: {error}; {_WAY_OUT}") from None
    if found != "ok":
        raise LibraryError(f"library {path} is corrupt: {found}; {_WAY_OUT}")


def _refuse_header(path: Path) -> None:
    with path.open("rb") as file:
        header = file.read(100)
    if header[:16] != _MAGIC or int.from_bytes(header[68:72], "big") != _APPLICATION:
        raise LibraryError(f"{path} is not a selfwire library; {_WAY_OUT}")
    schema = int.from_bytes(header[60:64], "big")
    if schema != SCHEMA:
        raise LibraryError(f"library {path} has schema {schema}; this selfwire reads schema {SCHEMA}; {_WAY_OUT}")


def _create(path: Path) -> None:
    """Create the whole file under another name, then link it: of two processes one wins, and none sees half a file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with make_draft(path) as draft:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            _make_store(connection).setup()
        place_draft(draft, path)


def open_postgres(url: str) -> ThreadedStore:
    """Open a library in Postgres; a ConfigError is about address or extra, a LibraryError about the server."""
    if not url.startswith(("postgres://", "postgresql://")):
        raise ConfigError(f"a library is a folder or a postgres:// address, not {url.partition('://')[0]}://...")
    try:
        import psycopg
        from langgraph.store.postgres import PostgresStore

        from selfwire.runtime.postgres_pool import open_pool
    except ImportError as error:
        raise ConfigError(
            f"a library at a postgres:// address needs the extra 'postgres': pip install 'selfwire[postgres]' ({error})"
        ) from None
    where = f"postgres://{urlsplit(url).hostname or ''}{urlsplit(url).path}"  # without user and password
    try:
        pool = open_pool(url)
        store = PostgresStore(pool)
        store.setup()
    except psycopg.Error as error:
        raise LibraryError(f"library {where} cannot be opened: {error}") from None
    return ThreadedStore(store, where, (psycopg.Error,), pool.close)
