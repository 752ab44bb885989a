"""Connections to PostgreSQL that outlive a restart of the server; needs the extra `postgres`."""

from collections.abc import Iterable

import psycopg
from langgraph.store.base import Op, Result
from langgraph.store.postgres import PostgresStore
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

PATIENCE = 30.0
"""Seconds to wait for a server that is away, as for a locked file."""
CONNECTIONS = 4
"""Most connections."""


def open_pool(url: str) -> ConnectionPool[psycopg.Connection[DictRow]]:
    """Open connections to a server; a broken connection is replaced at its next use.

    Raises:
        psycopg.Error: the server cannot be reached now, or refuses.
    """
    psycopg.connect(url).close()  # says why, where a pool would only wait
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    return ConnectionPool(
        url,
        kwargs=options,
        min_size=1,
        max_size=CONNECTIONS,
        open=True,
        timeout=PATIENCE,
        check=ConnectionPool.check_connection,
    )


class LastingStore(PostgresStore):
    """LangGraph's store, which runs operations once more whose connection is lost meanwhile; twice is as once."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction."""
        wanted = list(ops)
        try:
            return super().batch(wanted)
        except PoolTimeout:
            raise
        except psycopg.OperationalError:
            return super().batch(wanted)
