"""Ledgers whose budget several processes share, opened by the address of the pool."""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selfwire.core.errors import ConfigError, OutageError
from selfwire.core.usage import ZERO_USAGE, Budget, Usage
from selfwire.extras.cluster import shared_pool
from selfwire.extras.cluster.pool_store import AwayError, PoolStore, SqlitePoolStore
from selfwire.extras.cluster.shared_pool import RETRY, SharedPool
from selfwire.models.budget import Ledger

FILE = "budget.sqlite"
"""Name of the file in a run's folder."""
SERVER = "SELFWIRE_BUDGET"
"""Variable with the postgresql:// address at which runs share their budgets; without it they use a file."""

POSTGRES = ("postgres://", "postgresql://")


def share_ledger(address: str, budget: Budget, spent: Usage = ZERO_USAGE, *, elapsed: float = 0.0) -> Ledger:
    """Start a budget that other processes may share: they call `open_ledger` with the same address.

    Processes that shared an earlier budget at this address are refused from now on. `close` ends the sharing.

    Args:
        address: a file, or postgresql://...#NAME.

    Raises:
        ConfigError: the address cannot be used.
        OutageError: the server went away.
    """
    with _opening(address) as store:
        store.start(budget, spent, elapsed)
        return Ledger(budget, pool=SharedPool(store, budget, is_owner=True))


def open_ledger(
    address: str | None, budget: Budget = Budget(), spent: Usage = ZERO_USAGE, *, elapsed: float = 0.0
) -> Ledger:
    """The ledger of this process: the budget shared at an address, or one of its own without an address.

    Waits for a server that is away, as one that restarts.

    Args:
        budget: only used without an address, as are `spent` and `elapsed`.

    Raises:
        ConfigError: the address cannot be used, or nobody shares a budget there.
        OutageError: the server stays away.
    """
    if address is None:
        return Ledger(budget, spent=spent, elapsed=elapsed)
    end = time.monotonic() + shared_pool.PATIENCE
    while True:
        try:
            with _opening(address) as store:
                shared = store.join()
                return Ledger(shared, pool=SharedPool(store, shared))
        except AwayError as error:
            if time.monotonic() > end:
                raise OutageError(str(error)) from None
            time.sleep(RETRY)


@contextmanager
def _opening(address: str) -> Iterator[PoolStore]:
    """A store that an error in the block closes."""
    store = open_store(address)
    try:
        yield store
    except store.faults as fault:
        store.close()
        raise store.explain(fault) from None
    except BaseException:
        store.close()
        raise


def find_budget_server() -> str:
    """The address of the server that `SELFWIRE_BUDGET` names; "" if it names none.

    Raises:
        ConfigError: it is no address of PostgreSQL.
    """
    address = os.environ.get(SERVER, "").partition("#")[0]
    if address and not address.startswith(POSTGRES):
        raise ConfigError(
            f"{SERVER} names a postgresql:// address at which a budget is shared, not {address.partition('://')[0]!r}; "
            "set another, or none to share it in a file"
        )
    return address


def make_budget_address(folder: Path) -> str:
    """Where a run shares its budget: a file in its folder, or the server that `SELFWIRE_BUDGET` names."""
    server = find_budget_server()
    if not server:
        return str(folder / FILE)
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()
    return f"{server}#{folder.name}-{digest[:8]}"


def open_store(address: str) -> PoolStore:
    """The store at an address; raises ConfigError if it cannot be used."""
    if "://" not in address:
        return SqlitePoolStore(Path(address))
    try:
        from selfwire.extras.cluster.postgres_pool_store import PostgresPoolStore
    except ImportError as error:
        raise ConfigError(
            f"a budget in PostgreSQL needs the extra 'postgres': pip install 'selfwire[postgres]' ({error})"
        ) from None
    url, _, name = address.partition("#")
    return PostgresPoolStore(url, name or "run")
