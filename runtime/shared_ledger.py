"""Ledgers whose budget several processes share, opened by the address of the pool."""

from pathlib import Path

from selfwire.core.budget import Budget
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.pool_store import PoolStore, SqlitePoolStore
from selfwire.runtime.shared_pool import SharedPool

FILE = "budget.sqlite"
"""Name of the file in a run's folder."""


def share_ledger(address: str, budget: Budget, spent: Usage = ZERO_USAGE, *, elapsed: float = 0.0) -> Ledger:
    """Start a budget that other processes may share: they call `open_ledger` with the same address.

    Processes that shared an earlier budget at this address are refused from now on. `close` ends the sharing.

    Args:
        address: a file, or postgresql://...#NAME.

    Raises:
        ConfigError: the address cannot be used.
    """
    store = open_store(address)
    store.start(budget, spent, elapsed)
    return Ledger(budget, pool=SharedPool(store, budget, is_owner=True))


def open_ledger(
    address: str | None, budget: Budget = Budget(), spent: Usage = ZERO_USAGE, *, elapsed: float = 0.0
) -> Ledger:
    """The ledger of this process: the budget shared at an address, or one of its own without an address.

    Args:
        budget: only used without an address, as are `spent` and `elapsed`.

    Raises:
        ConfigError: the address cannot be used, or nobody shares a budget there.
    """
    if address is None:
        return Ledger(budget, spent=spent, elapsed=elapsed)
    store = open_store(address)
    try:
        shared = store.join()
    except BaseException:
        store.close()
        raise
    return Ledger(shared, pool=SharedPool(store, shared))


def make_budget_address(folder: Path) -> str:
    """Where a run shares its budget: a file in its folder, for the processes of one machine."""
    return str(folder / FILE)


def open_store(address: str) -> PoolStore:
    """The store at an address; raises ConfigError if it cannot be used."""
    return SqlitePoolStore(Path(address))
