"""Real processes that share a budget, in a file and in PostgreSQL, with a server that counts what they send."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from selfwire.core.errors import BudgetError, ConfigError, OutageError
from selfwire.core.usage import Budget, Usage
from selfwire.extras.cluster import shared_pool
from selfwire.extras.cluster.shared_ledger import SERVER, make_budget_address, open_ledger, share_ledger
from selfwire.models import limits
from tests import processes
from tests.extras.cluster import budget_worker
from tests.extras.cluster.test_shared_pool import CALL, call, die, get_pool
from tests.models.test_rates import TOOK, assert_within, count_tokens
from tests.store import postgres
from tests.wire.server import WireServer, text

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Cluster]:
    with postgres.cluster() as made:
        yield made


@pytest.fixture(params=["file", "server"])
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "server":
        cluster: postgres.Cluster = request.getfixturevalue("server")
        monkeypatch.setenv(SERVER, f"{cluster.address}/postgres")
    return make_budget_address(tmp_path / "run")


def start(address: str, wire: WireServer, name: str, calls: int, *limit: float) -> processes.Process:
    given = (str(one) for one in (calls, *limit))
    return processes.start("tests.extras.cluster.budget_worker:main", address, wire.url, name, *given)


def wait_until(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(0.01)


@pytest.mark.parametrize("budget", [Budget(calls=21), Budget(tokens=400, dollars=0.0006)])
def test_processes_together_never_spend_more_and_ask_for_no_more_at_once(address: str, budget: Budget) -> None:
    run = share_ledger(address, budget)
    with WireServer(text("hello there"), delay=0.03) as wire:
        workers = [start(address, wire, name, 12) for name in "abc"]
        told = [json.loads(processes.wait_for(one)[0]) for one in workers]
    get_pool(run)._exchange()
    spent = run.spent
    run.close()
    assert wire.most_active <= budget_worker.AT_ONCE
    assert len(wire.asked) == spent.calls == sum(one["answered"] for one in told)
    assert any(one["refused"] for one in told)
    assert not [error for one in told for error in one["refused"] if "held" in error]
    for name, limit in budget.model_dump(exclude_none=True).items():
        assert 0.5 * limit < getattr(spent, name) <= limit
    if budget.calls:
        assert spent.calls == budget.calls


def test_processes_together_send_no_more_tokens_a_minute_than_the_limit(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MINUTE", 2.0)
    run, most = share_ledger(address, Budget()), 6 * TOOK
    with WireServer(count_tokens) as wire:
        workers = [start(address, wire, name, 9, most, limits.MINUTE) for name in "ab"]
        for one in workers:
            processes.wait_for(one)
    run.close()
    assert len(wire.asked) == 18
    assert_within(wire.asked, most, slack=1.0)
    assert len({one.body["messages"][0]["content"][0] for one in wire.asked[:9]}) == 2


async def test_kill_9_in_mid_call_gives_back_what_was_held_when_the_lease_ends(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_pool, "LEASE", 1.0)
    run = share_ledger(address, Budget(calls=5))
    with WireServer(text("hello there")) as wire:
        processes.wait_for(start(address, wire, "first", 2))
        wire.delay = 600
        killed = start(address, wire, "killed", 2)
        await asyncio.to_thread(wait_until, lambda: wire.active == 2)
        killed.kill()
        run.reserve(CALL, "a").settle(CALL)
        with pytest.raises(BudgetError, match="3 of 5 calls spent, 2 held by calls and tasks under way"):
            run.reserve(CALL, "b")
        async with asyncio.timeout(60):
            await asyncio.gather(call(run, CALL), call(run, CALL))
    with pytest.raises(BudgetError, match="5 of 5 calls spent and up to 1 more"):
        run.reserve(CALL, "c")
    run.close()


def test_a_server_that_restarts_beneath_them_loses_and_repeats_nothing(
    server: postgres.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SERVER, f"{server.address}/postgres")
    address = make_budget_address(tmp_path / "run")
    run = share_ledger(address, Budget(calls=30), Usage(calls=5))
    with WireServer(text("hello there"), delay=0.05) as wire:
        workers = [start(address, wire, name, 20) for name in "ab"]
        wait_until(lambda: len(wire.asked) > 5)
        server.stop()
        time.sleep(0.5)
        server.start()
        for one in workers:
            processes.wait_for(one)
    wait_until(lambda: run.spent.calls == 30)
    run.close()
    assert len(wire.asked) == 25


async def test_a_server_that_stays_away_is_an_error_in_words(
    server: postgres.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_pool, "PATIENCE", 0.3)
    address = f"{server.address}/postgres#away"
    run = share_ledger(address, Budget(calls=3))
    server.stop()
    try:
        with pytest.raises(
            OutageError, match=r"budget at postgres://127.0.0.1:\d+/postgres cannot be used: .*try again"
        ):
            await call(run, CALL)
        with pytest.raises(ConfigError, match="cannot be used"):
            share_ledger(address, Budget(calls=3))
        with pytest.raises(OutageError, match="cannot be used"):
            open_ledger(address)
    finally:
        server.start()
    monkeypatch.setattr(shared_pool, "PATIENCE", 30.0)
    run.reserve(CALL, "a").settle(CALL)
    assert run.spent.calls == 1
    run.close()


def test_what_a_killed_run_has_left_binds_no_other_and_goes_after_30_days(server: postgres.Cluster) -> None:
    database = f"{server.address}/postgres"

    def leave(name: str) -> None:
        run = share_ledger(f"{database}#{name}", Budget(calls=2))
        worker = open_ledger(f"{database}#{name}")
        worker.reserve(CALL, "a")
        get_pool(worker)._exchange()
        for ledger in (worker, run):
            die(ledger)

    for name in ("young", "old", "again"):
        leave(name)
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE selfwire_pools SET touched = now() - INTERVAL '29 days' WHERE name = 'young'")
        connection.execute("UPDATE selfwire_pools SET touched = now() - INTERVAL '31 days' WHERE name = 'old'")
    with closing(share_ledger(f"{database}#again", Budget(calls=2))) as run:
        run.reserve(Usage(calls=2), "b")
        with psycopg.connect(database) as connection:
            pools = connection.execute("SELECT name FROM selfwire_pools").fetchall()
            holds = connection.execute("SELECT DISTINCT pool FROM selfwire_holds").fetchall()
    assert {"young", "again"} <= {name for (name,) in pools}
    assert ("old",) not in (*pools, *holds)
    assert ("young",) in holds


def test_a_database_of_an_earlier_version_learns_when_a_pool_was_used(server: postgres.Cluster) -> None:
    database = f"{server.address}/postgres"
    share_ledger(f"{database}#first", Budget(calls=1)).close()
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE selfwire_pools DROP COLUMN touched")
    with closing(share_ledger(f"{database}#second", Budget(calls=1))) as run, psycopg.connect(database) as connection:
        assert connection.execute(
            "SELECT now() - touched < INTERVAL '1 day' FROM selfwire_pools WHERE name = 'second'"
        ).fetchone() == (True,)
        connection.execute("UPDATE selfwire_pools SET touched = now() - INTERVAL '31 days' WHERE name = 'second'")
        connection.commit()
        used = "SELECT 1 FROM selfwire_pools WHERE name = 'second' AND touched > now() - INTERVAL '1 day'"
        wait_until(lambda: connection.execute(used).fetchone() is not None)
        run.reserve(CALL, "a")
