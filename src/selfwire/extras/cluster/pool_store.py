"""Where a shared pool lies: one row for the budget and one per process, in a SQLite file or in PostgreSQL.

A process writes the sums of what it has spent and holds, never a change of them, so writing a row twice, as after a
lost connection, does no harm. All rows are read and one is written in a transaction that no other process overlaps.
"""

import contextlib
import json
import os
import secrets
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.core.errors import ConfigError, OutageError
from selfwire.core.usage import Budget, Usage
from selfwire.models.limits import Rate, ResourceAmount
from selfwire.store.journal_file import to_usage

Execute = Callable[..., list[Any]]
"""Runs one statement in a transaction and returns its rows; `?` stands for a value."""
SUMS = "calls, input_tokens, output_tokens, dollars"
HOLDING = f"beat, places, held_calls, held_tokens, held_dollars, {SUMS}"
WRITE = (
    "INSERT INTO selfwire_holds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (pool, process) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in HOLDING.split(", "))
)
_SUMS = "calls BIGINT NOT NULL, input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, dollars DOUBLE PRECISION"
TABLES = (
    "CREATE TABLE IF NOT EXISTS selfwire_pools (name TEXT PRIMARY KEY, token TEXT NOT NULL, budget TEXT NOT NULL, "
    f"elapsed DOUBLE PRECISION NOT NULL, rates TEXT NOT NULL, {_SUMS})",
    "CREATE TABLE IF NOT EXISTS selfwire_holds (pool TEXT NOT NULL, process TEXT NOT NULL, beat BIGINT NOT NULL, "
    "places TEXT NOT NULL, held_calls BIGINT NOT NULL, held_tokens BIGINT NOT NULL, held_dollars DOUBLE PRECISION "
    f"NOT NULL, {_SUMS}, PRIMARY KEY (pool, process))",
)
APPLICATION_ID = 0x7377706C
"""SQLite's application id of such a file ("swpl")."""
PATIENCE = 30.0
"""Seconds for which a locked file is waited for."""


class ProviderPlaces(NamedTuple):
    """Requests to a provider that a process has under way, and those that wait for a place.

    Attributes:
        since: when a request began to wait for tokens, as `PoolState.elapsed`; 0 if none does.
        short_since: when one began to wait for a place; 0 if none does.
    """

    used: int = 0
    waiting: int = 0
    since: float = 0.0
    short_since: float = 0.0


class Holding(NamedTuple):
    """Cost and reservations of a process.

    Attributes:
        beat: changes for as long as the process lives.
        places: by provider.
    """

    beat: int
    held: ResourceAmount
    spent: Usage
    places: Mapping[str, ProviderPlaces]

    @property
    def row(self) -> tuple[object, ...]:
        """The columns, as `read_holding` reads them."""
        spent = self.spent
        sums = spent.calls, spent.input_tokens, spent.output_tokens, spent.dollars
        return self.beat, json.dumps(self.places), *self.held, *sums


@lru_cache(maxsize=1024)
def read_holding(row: tuple[Any, ...]) -> Holding:
    """The holding of a row without the names of pool and process; most rows are as they were when last read."""
    places = {name: ProviderPlaces(*counts) for name, counts in json.loads(row[1]).items()}
    return Holding(row[0], ResourceAmount(*row[2:5]), to_usage((*row[5:], 0.0)), places)


class PoolState(NamedTuple):
    """Entries of all processes.

    Attributes:
        elapsed: wall time under the budget, in seconds.
        spent: by processes that have left, and before.
        holdings: of the processes, by name.
        rates: by provider, in wall time as `elapsed`.
    """

    elapsed: float
    spent: Usage
    holdings: Mapping[str, Holding]
    rates: Mapping[str, Rate]


class Changes(NamedTuple):
    """Changes that a process writes after reading a state."""

    holdings: Mapping[str, Holding]
    elapsed: float
    rates: Mapping[str, Rate]


class AwayError(ConfigError):
    """The pool cannot be reached now, and maybe soon."""


class StaleError(Exception):
    """The pool was started anew by another process, or is gone."""


class PoolStore(ABC):
    """A pool in a database.

    Attributes:
        faults: the driver's errors.
        way_out: what the user may do about them.
        lock: what to add to a SELECT so that it locks its row.
        touch: what to add to an UPDATE so that the pool counts as in use.
    """

    faults: tuple[type[Exception], ...]
    way_out: str
    lock = touch = ""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name, self._token = address, name, ""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Execute]:
        """A transaction on this pool that no other process overlaps."""

    @abstractmethod
    def may_pass(self, fault: Exception) -> bool:
        """Whether what failed may succeed when tried again, without help."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def explain(self, fault: Exception) -> ConfigError:
        """Say why the pool cannot be opened."""
        why, schema = " ".join(str(fault).split()), AwayError if self.may_pass(fault) else ConfigError
        return schema(f"the shared budget at {self.address} cannot be used: {why}; {self.way_out}")

    def explain_outage(self, fault: Exception) -> OutageError:
        """Say why the pool cannot be reached any more."""
        outage = OutageError(str(self.explain(fault)))
        outage.is_cost_known = True
        return outage

    def start(self, budget: Budget, spent: Usage, elapsed: float) -> None:
        """Begin anew: who has joined before is refused from now on."""
        self._token = secrets.token_hex(8)
        sums = spent.calls, spent.input_tokens, spent.output_tokens, spent.dollars
        with self.transaction() as execute:
            self._remove(execute)
            execute(
                f"INSERT INTO selfwire_pools (name, token, budget, elapsed, rates, {SUMS}) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                self.name, self._token, budget.model_dump_json(), elapsed, "{}", *sums,
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
            state = self._read(execute)
            changes = decide(state)
            for process, holding in changes.holdings.items():
                execute(WRITE, self.name, process, *holding.row)
            if (changes.elapsed, changes.rates) != (state.elapsed, state.rates):
                rates = json.dumps(changes.rates)
                execute(
                    f"UPDATE selfwire_pools SET elapsed = ?, rates = ?{self.touch} WHERE name = ?",
                    changes.elapsed, rates, self.name,
                )  # fmt: skip

    def leave(self, process: str, spent: Usage) -> None:
        """Add what a process has spent to the sums and remove its row, if it has one in this pool; else do nothing."""
        with contextlib.suppress(StaleError), self.transaction() as execute:
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
        """Remove the pool; processes that are still in it are refused from now on."""
        with self.transaction() as execute:
            self._remove(execute)

    def _remove(self, execute: Execute) -> None:
        execute("DELETE FROM selfwire_holds WHERE pool = ?", self.name)
        execute("DELETE FROM selfwire_pools WHERE name = ?", self.name)

    def _read(self, execute: Execute) -> PoolState:
        head = f"SELECT token, elapsed, rates, {SUMS} FROM selfwire_pools WHERE name = ?{self.lock}"
        found = execute(head, self.name)
        if not found or found[0][0] != self._token:
            raise StaleError(
                f"the shared budget {self.name!r} at {self.address} has ended, or was started anew; resume the run"
            )
        _, elapsed, rates, *spent = found[0]
        holdings = execute(f"SELECT process, {HOLDING} FROM selfwire_holds WHERE pool = ?", self.name)
        return PoolState(
            elapsed,
            to_usage((*spent, 0.0)),
            {row[0]: read_holding(row[1:]) for row in holdings},
            {name: Rate.read(rate) for name, rate in json.loads(rates).items()},
        )


class SqlitePoolStore(PoolStore):
    """A pool in a file, for the processes of one machine."""

    faults = (sqlite3.Error, OSError)
    way_out = "it is left as it is: make room, check the rights of its folder, or move it away, then try again"

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), "run")
        self._path, self._is_over = path, False
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self.explain(error) from None
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._connection.close()
            raise self.explain(error) from None

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

    def remove(self) -> None:
        """Remove the pool and its file; processes that are still in it are refused from now on."""
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

    def may_pass(self, fault: Exception) -> bool:
        """Whether another program only locks the file."""
        return getattr(fault, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        if self._is_over:
            self._path.unlink(missing_ok=True)
