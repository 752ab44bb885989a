"""A shared pool in PostgreSQL, for processes on several machines; needs the extra `postgres`."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from selfwire.core.text import mask_address
from selfwire.core.usage import Budget, Usage
from selfwire.extras.cluster.pool_store import TABLES, Execute, PoolStore

LOCK = 0x7377706C
"""Number of the advisory lock under which tables are made, as two processes cannot make one at once."""
KEPT = 30
"""Days after which a pool is removed that nobody uses, as its run was killed and never resumed."""
TOUCHED = (
    "SELECT 1 FROM information_schema.columns "
    "WHERE table_schema = current_schema() AND table_name = 'selfwire_pools' AND column_name = 'touched'"
)
OLD = f"touched < now() - INTERVAL '{KEPT} days'"
SESSION: dict[str, str | int] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,  # milliseconds; a server that is cut off gives no error otherwise
    # a process that is stopped in a transaction must not stop the others
    "options": "-c idle_in_transaction_session_timeout=5s -c lock_timeout=20s",
}
"""Settings of a connection, where the address has no others."""


class PostgresPoolStore(PoolStore):
    """A pool in a database; a connection that broke is opened again."""

    faults = (psycopg.Error,)
    way_out = "see to it, or name another in SELFWIRE_BUDGET, then try again"
    lock = " FOR UPDATE"
    touch = ", touched = now()"

    def __init__(self, url: str, name: str) -> None:
        parts = urlsplit(url)
        super().__init__(f"postgres://{parts.netloc.rpartition('@')[2]}{parts.path}", name)
        mask_address(url)
        self._url = url
        try:
            self._connection = self._connect()
            with self._connection.transaction():
                self._execute("SELECT pg_advisory_xact_lock(?)", LOCK)
                for table in TABLES:
                    self._execute(table)
                if not self._execute(TOUCHED):
                    self._execute("ALTER TABLE selfwire_pools ADD COLUMN touched TIMESTAMPTZ NOT NULL DEFAULT now()")
        except psycopg.Error as error:
            raise self.explain(error) from None

    def _connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        given = conninfo_to_dict(self._url)
        lacking = {name: value for name, value in SESSION.items() if name not in given}
        return psycopg.connect(make_conninfo(self._url, **lacking), autocommit=True, prepare_threshold=0)

    def _execute(self, statement: str, *values: object) -> list[Any]:
        done = self._connection.execute(statement.replace("?", "%s"), values)
        return done.fetchall() if done.description else []

    def start(self, budget: Budget, spent: Usage, elapsed: float) -> None:
        """Begin anew, and remove pools of other runs that were not used for `KEPT` days."""
        super().start(budget, spent, elapsed)
        with self.transaction() as execute:
            execute(f"DELETE FROM selfwire_holds WHERE pool IN (SELECT name FROM selfwire_pools WHERE {OLD})")
            execute(f"DELETE FROM selfwire_pools WHERE {OLD}")

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """A transaction on this pool that no other process overlaps, as `lock` locks its row."""
        if self._connection.broken or self._connection.closed:
            self._connection = self._connect()
        with self._connection.transaction():
            yield self._execute

    def may_pass(self, fault: Exception) -> bool:
        """Whether the server is away or the connection broken."""
        return isinstance(fault, psycopg.OperationalError)

    def close(self) -> None:
        """Close the connection."""
        with suppress(psycopg.Error):
            self._connection.close()
