"""Where a shared pool lies: one row for the budget and one per process, in a SQLite file or in PostgreSQL.

A process writes the sums of what it has spent and holds, never a change of them, so writing a row twice, as after a
lost connection, does no harm. All rows are read and one is written in a transaction that no other process overlaps.
"""

import contextlib
import os
import secrets
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.core.budget import Budget
from selfwire.core.errors import ConfigError
from selfwire.core.usage import Usage
from selfwire.runtime.amounts import ResourceAmount

Execute = Callable[..., list[Any]]
"""Runs one statement in a transaction and returns its rows; `?` stands for a value."""
SUMS = "calls, input_tokens, output_tokens, dollars"
TABLES = (
    "CREATE TABLE IF NOT EXISTS selfwire_pools (name TEXT PRIMARY KEY, token TEXT NOT NULL, budget TEXT NOT NULL, "
    "elapsed DOUBLE PRECISION NOT NULL, calls BIGINT NOT NULL, input_tokens BIGINT NOT NULL, "
    "output_tokens BIGINT NOT NULL, dollars DOUBLE PRECISION)",
    "CREATE TABLE IF NOT EXISTS selfwire_holds (pool TEXT NOT NULL, process TEXT NOT NULL, beat BIGINT NOT NULL, "
    "held_calls BIGINT NOT NULL, held_tokens BIGINT NOT NULL, held_dollars DOUBLE PRECISION NOT NULL, "
    "calls BIGINT NOT NULL, input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, dollars DOUBLE PRECISION, "
    "PRIMARY KEY (pool, process))",
)
APPLICATION_ID = 0x7377706C
"""SQLite's application id of such a file ("swpl")."""
PATIENCE = 30.0
"""Seconds for which a locked file is waited for."""


class Holding(NamedTuple):
    """What one process has spent and holds; `beat` changes for as long as it lives."""

    beat: int = 0
    held: ResourceAmount = ResourceAmount()
    spent: Usage = Usage()

    @classmethod
    def of(cls, row: Sequence[Any]) -> "Holding":
        """The holding of a row without the names of pool and process."""
        return cls(row[0], ResourceAmount(*row[1:4]), to_usage(row[4:]))

    @property
    def row(self) -> tuple[object, ...]:
        """The columns, as `of` reads them."""
        spent = self.spent
        return self.beat, *self.held, spent.calls, spent.input_tokens, spent.output_tokens, spent.dollars


class PoolState(NamedTuple):
    """What all processes have written.

    Attributes:
        elapsed: wall time under the budget, in seconds.
        spent: by processes that have left, and before.
        holdings: of the processes, by name.
    """

    elapsed: float
    spent: Usage
    holdings: dict[str, Holding]


class Changes(NamedTuple):
    """What a process writes after reading a state: holdings by name, and wall time where it is news."""

    holdings: dict[str, Holding]
    elapsed: float | None = None


class StaleError(Exception):
    """The pool was started anew by another process, or is gone."""


def to_usage(row: Sequence[Any]) -> Usage:
    """The usage in the columns `SUMS`."""
    calls, sent, received, dollars = row
    return Usage(calls=calls, input_tokens=sent, output_tokens=received, dollars=dollars)


class PoolStore(ABC):
    """One pool in a database; `faults` are the driver's errors that may pass when tried again."""

    faults: tuple[type[Exception], ...]

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name, self._token = address, name, ""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Execute]:
        """A transaction on this pool that no other process overlaps."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def start(self, budget: Budget, spent: Usage, elapsed: float) -> None:
        """Begin anew: who has joined before is refused from now on."""
        self._token = secrets.token_hex(8)
        sums = spent.calls, spent.input_tokens, spent.output_tokens, spent.dollars
        with self.transaction() as execute:
            self._remove(execute)
            execute(
                "INSERT INTO selfwire_pools VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                self.name, self._token, budget.model_dump_json(), elapsed, *sums,
            )  # fmt: skip

    def join(self) -> Budget:
        """The budget of a pool that has been started; raises ConfigError if none was."""
        with self.transaction() as execute:
            found = execute("SELECT token, budget FROM selfwire_pools WHERE name = ?", self.name)
        if not found:
            raise ConfigError(
                f"there is no shared budget {self.name!r} at {self.address}; the run that shares it ended"
            )
        self._token, budget = found[0]
        return Budget.model_validate_json(budget)

    def exchange(self, decide: Callable[[PoolState], Changes]) -> None:
        """Read all rows and write what `decide` returns; raises StaleError."""
        with self.transaction() as execute:
            changes = decide(self._read(execute))
            for process, holding in changes.holdings.items():
                execute(
                    "INSERT INTO selfwire_holds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (pool, process) "
                    "DO UPDATE SET beat = excluded.beat, held_calls = excluded.held_calls, held_tokens = "
                    "excluded.held_tokens, held_dollars = excluded.held_dollars, calls = excluded.calls, input_tokens "
                    "= excluded.input_tokens, output_tokens = excluded.output_tokens, dollars = excluded.dollars",
                    self.name, process, *holding.row,
                )  # fmt: skip
            if changes.elapsed is not None:
                execute("UPDATE selfwire_pools SET elapsed = ? WHERE name = ?", changes.elapsed, self.name)

    def leave(self, process: str, spent: Usage) -> None:
        """Add what a process has spent to the sums and remove its row; twice is as good as once."""
        with self.transaction() as execute:
            state = self._read(execute)
            if process in state.holdings:
                total = state.spent + spent
                execute("DELETE FROM selfwire_holds WHERE pool = ? AND process = ?", self.name, process)
                execute(
                    "UPDATE selfwire_pools SET calls = ?, input_tokens = ?, output_tokens = ?, dollars = ? "
                    "WHERE name = ?",
                    total.calls, total.input_tokens, total.output_tokens, total.dollars, self.name,
                )  # fmt: skip

    def remove(self) -> None:
        """Remove the pool; whoever is still in it is refused from now on."""
        with self.transaction() as execute:
            self._remove(execute)

    def _remove(self, execute: Execute) -> None:
        execute("DELETE FROM selfwire_holds WHERE pool = ?", self.name)
        execute("DELETE FROM selfwire_pools WHERE name = ?", self.name)

    def _read(self, execute: Execute) -> PoolState:
        found = execute(f"SELECT token, elapsed, {SUMS} FROM selfwire_pools WHERE name = ?", self.name)
        if not found or found[0][0] != self._token:
            raise StaleError(
                f"the shared budget {self.name!r} at {self.address} has ended, or was started anew; resume the run"
            )
        rows = execute(
            f"SELECT process, beat, held_calls, held_tokens, held_dollars, {SUMS} FROM selfwire_holds WHERE pool = ?",
            self.name,
        )
        return PoolState(found[0][1], to_usage(found[0][2:]), {row[0]: Holding.of(row[1:]) for row in rows})


class SqlitePoolStore(PoolStore):
    """A pool in a file, for the processes of one machine."""

    faults = (sqlite3.Error,)

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), "run")
        self._path, self._is_over = path, False
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._refusal(error) from None
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._connection.close()
            raise self._refusal(error) from None

    def _prepare(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA synchronous = NORMAL")
        with self.transaction() as run:
            found = execute("PRAGMA application_id").fetchone()[0]
            if found != APPLICATION_ID and (found or run("SELECT name FROM sqlite_schema LIMIT 1")):
                raise sqlite3.DatabaseError("it is another program's file")
            for statement in (*TABLES, f"PRAGMA application_id = {APPLICATION_ID}"):
                run(statement)
        execute("PRAGMA journal_mode = WAL")

    def _refusal(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"the shared budget {self.address} cannot be used: {error}; it is left as it is: check the disk and the "
            "rights of its folder, or move it away; a resume makes a new one"
        )

    def remove(self) -> None:
        """Remove the pool and its file; whoever is still in it is refused from now on."""
        super().remove()
        self._is_over = True

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """A transaction on this pool that no other process overlaps."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield lambda statement, *values: connection.execute(statement, values).fetchall()
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        if self._is_over:
            self._path.unlink(missing_ok=True)
