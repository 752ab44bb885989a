"""One budget for several ledgers, as processes have them; `test_shared_budget.py` has real processes."""

import asyncio
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.core.errors import BudgetError, ConfigError, OutageError
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget, Usage
from selfwire.extras.cluster import shared_ledger, shared_pool
from selfwire.extras.cluster.pool_store import AwayError, Holding, PoolStore, ProviderPlaces, SqlitePoolStore
from selfwire.extras.cluster.shared_ledger import open_ledger, open_store, share_ledger
from selfwire.extras.cluster.shared_pool import PlaceAsk, SharedPool, Silence, has_place
from selfwire.models.budget import Ledger, Reservation, enforce_deadline
from selfwire.models.limits import CallSettings, Rate, RateLimits, ResourceAmount, Throttle, get_throttle
from tests.machines import count_lost_seconds

CALL = Usage(calls=1, input_tokens=60, output_tokens=40)
TASK = Scope(phase="rollout", task="t1")
Opened = Callable[[Ledger], Ledger]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "run" / "budget.sqlite")


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Has ledgers closed at the end, the latest first."""
    ledgers: list[Ledger] = []

    def keep(ledger: Ledger) -> Ledger:
        ledgers.append(ledger)
        return ledger

    yield keep
    for ledger in reversed(ledgers):
        ledger.close()


def get_pool(ledger: Ledger) -> SharedPool:
    assert isinstance(ledger.pool, SharedPool)
    return ledger.pool


def read_rates(address: str) -> dict[str, Rate]:
    with closing(sqlite3.connect(address)) as connection:
        [[stored]] = connection.execute("SELECT rates FROM selfwire_pools")
    return {name: Rate.read(rate) for name, rate in json.loads(stored).items()}


def die(ledger: Ledger) -> None:
    """Give no sign of life any more, as after kill -9."""
    pool = get_pool(ledger)
    pool._is_closed = pool._is_closing = True
    pool._wake.set()
    pool._thread.join()
    pool._store.close()


def test_without_an_address_a_ledger_is_the_process_s_own() -> None:
    ledger = open_ledger(None, Budget(calls=2), Usage(calls=1))
    ledger.reserve(CALL, "a").settle(CALL)
    with pytest.raises(BudgetError, match="2 of 2 calls spent"):
        ledger.reserve(CALL, "a")
    ledger.close()


def test_a_worker_waits_for_a_server_that_restarts(
    address: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(share_ledger(address, Budget(calls=2)))
    away = iter([True, True, False])

    def open_store(address: str) -> PoolStore:
        if next(away):
            raise AwayError("the database system is starting up")
        return SqlitePoolStore(Path(address))

    monkeypatch.setattr(shared_ledger, "open_store", open_store)
    opened(open_ledger(address)).reserve(CALL, "a").settle(CALL)
    assert not any(away)


def test_what_one_holds_binds_the_other_and_a_refusal_tells_spent_and_held_apart(address: str, opened: Opened) -> None:
    run = opened(share_ledger(address, Budget(tokens=350), Usage(calls=9, input_tokens=100)))
    first, second = opened(open_ledger(address)), opened(open_ledger(address))
    hold = first.reserve(CALL, "a")
    with pytest.raises(BudgetError, match="100 of 350 tokens spent, 100 held by calls and tasks under way, and up"):
        second.reserve(Usage(calls=1, input_tokens=151), "b")
    second.reserve(CALL, "b").settle(CALL)
    hold.settle(Usage(calls=1, input_tokens=50))
    first.close()
    second.reserve(CALL, "b").settle(CALL)
    with pytest.raises(BudgetError, match="350 of 350 tokens spent and up to 100 more"):
        run.reserve(CALL, "c")
    assert run.spent.calls == 12
    assert second.spent_here.calls == 2


async def call(ledger: Ledger, cost: Usage, until: asyncio.Event | None = None) -> None:
    with ledger.track_call() as tracked, await tracked.reserve(CALL, "a call") as hold:
        if until:
            await until.wait()
        hold.settle(cost)


async def until_it_holds(ledger: Ledger) -> None:
    while not any(get_pool(ledger)._held):  # noqa: ASYNC110 - another thread changes it
        await asyncio.sleep(0)


async def test_a_call_waits_for_what_another_process_holds_before_it_is_refused(address: str, opened: Opened) -> None:
    opened(share_ledger(address, Budget(tokens=150)))
    first, second, end = opened(open_ledger(address)), opened(open_ledger(address)), asyncio.Event()
    running = asyncio.create_task(call(first, Usage(calls=1, input_tokens=50), end))
    await until_it_holds(first)
    waiting = asyncio.create_task(call(second, Usage(calls=1, input_tokens=60)))
    await asyncio.sleep(2 * shared_pool.SETTLING)
    assert not waiting.done()
    end.set()
    await asyncio.gather(running, waiting)
    with pytest.raises(BudgetError, match=r"110 of 150 tokens spent and up to 100 more needed"):
        await call(first, CALL)


async def test_a_waiting_call_that_is_cancelled_holds_nothing(address: str, opened: Opened) -> None:
    run = opened(share_ledger(address, Budget(calls=1)))
    other, end = opened(open_ledger(address)), asyncio.Event()
    running = asyncio.create_task(call(run, Usage(), end))
    await until_it_holds(run)
    waiting = [asyncio.create_task(call(ledger, CALL)) for ledger in (run, other)]
    await asyncio.sleep(2 * shared_pool.RETRY)
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    end.set()
    await running
    await call(other, CALL)
    assert run.spent.calls <= other.spent.calls == 1


def test_a_task_s_share_is_held_for_all_and_its_rest_goes_back(address: str, opened: Opened) -> None:
    opened(share_ledger(address, Budget(calls=5, tokens=1000)))
    first, second = opened(open_ledger(address)), opened(open_ledger(address))
    share = first.reserve_task(TASK, Budget(calls=3))
    with pytest.raises(BudgetError, match="0 of 5 calls spent, 3 held"):
        second.reserve_task(TASK, Budget(calls=3))
    share.reserve(CALL, "t1").settle(CALL)
    first.release_task(TASK)
    second.reserve_task(TASK, Budget(calls=4)).reserve(CALL, "t1").settle(CALL)
    second.release_task(TASK)
    assert get_pool(second)._held == (0, 0, 0)
    first.reserve(Usage(calls=3, input_tokens=800), "rest")


def test_wall_time_goes_on_from_what_the_first_has_counted(address: str, opened: Opened) -> None:
    run = opened(share_ledger(address, Budget(seconds=100), elapsed=99.0))
    assert 99.0 <= opened(open_ledger(address)).spent.seconds
    get_pool(run)._since -= 10  # as if it had started earlier
    late = opened(open_ledger(address))
    while not late.is_out_of_time():
        time.sleep(0.01)
    with pytest.raises(BudgetError, match=r"1\d\d\.\d+ of 100.* seconds spent"):
        late.reserve(CALL, "a")


async def test_seconds_that_are_over_end_the_calls_of_all_processes_within_one_more(
    address: str, opened: Opened
) -> None:
    run = opened(share_ledger(address, Budget(seconds=1.0)))
    end = time.monotonic() - run.spent.seconds + 1.0

    async def hang(ledger: Ledger) -> float:
        with pytest.raises(BudgetError, match=r"\d+\.\d+ of 1\.00 seconds spent"):
            async with enforce_deadline(ledger):
                await call(ledger, CALL, until=asyncio.Event())
        with pytest.raises(BudgetError, match="seconds spent"):
            await call(ledger, CALL)
        return time.monotonic() - end

    with count_lost_seconds() as lost:
        early = asyncio.create_task(hang(run))
        await asyncio.sleep(0.4)
        late = await asyncio.to_thread(open_ledger, address)
        beyond = await asyncio.gather(early, hang(opened(late)))
    assert 0 <= min(beyond)
    assert max(beyond) <= 2 * shared_pool.BEAT + lost()


async def test_a_dead_process_loses_what_it_holds_when_its_lease_ends(
    address: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_pool, "LEASE", 0.3)
    monkeypatch.setattr(shared_pool, "BEAT", 0.1)
    run = opened(share_ledger(address, Budget(calls=2)))
    dead = open_ledger(address)
    dead.reserve(CALL, "a").settle(CALL)
    dead.reserve(CALL, "a")
    get_pool(dead)._exchange()
    die(dead)
    with pytest.raises(BudgetError, match="1 of 2 calls spent, 1 held"):
        run.reserve(CALL, "b")
    async with asyncio.timeout(60):
        await call(run, CALL)
    assert run.spent.calls == 2  # what the dead one has spent stays


def test_a_process_that_only_seemed_dead_has_its_holds_again(
    address: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_pool, "LEASE", 0.0)
    run = opened(share_ledger(address, Budget(calls=1)))
    slow = opened(open_ledger(address))
    hold = slow.reserve(CALL, "a")
    monkeypatch.setattr(shared_pool, "LEASE", 60.0)
    get_pool(slow)._exchange()
    with pytest.raises(BudgetError, match="1 held"):
        run.reserve(CALL, "b")
    hold.settle(CALL)
    while run.spent.calls < 1:
        time.sleep(0.01)


def test_who_shares_a_budget_that_was_started_anew_is_refused(address: str, opened: Opened) -> None:
    old = opened(share_ledger(address, Budget(calls=9)))
    worker = opened(open_ledger(address))
    hold = worker.reserve(CALL, "a")
    new = opened(share_ledger(address, Budget(calls=9), Usage(calls=3)))
    for ledger in (old, worker):
        with pytest.raises(BudgetError, match="has ended, or was started anew; resume the run"):
            ledger.reserve(CALL, "a")
    hold.settle(CALL)
    worker.close()
    new.reserve(Usage(calls=6), "b")
    assert new.spent.calls == 3


def test_there_is_nothing_to_join_where_nobody_shares(address: str) -> None:
    share_ledger(address, Budget(calls=1)).close()
    with pytest.raises(ConfigError, match=r"there is no shared budget .* the run that shares it ended"):
        open_ledger(address)


@pytest.mark.parametrize("kind", ["text", "foreign", "damaged"])
def test_a_file_of_others_is_an_error_in_words_and_is_left_alone(address: str, kind: str) -> None:
    path = Path(address)
    path.parent.mkdir()
    if kind == "text":
        path.write_text("no database " * 100)
    elif kind == "foreign":
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE mine (a)")
    else:
        open_store(address).close()
        path.write_bytes(path.read_bytes()[:5000] + b"?" * 4000)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"budget.sqlite cannot be used: .*; it is left as it is"):
        share_ledger(address, Budget())
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_written_is_an_error_in_words_at_once(address: str, opened: Opened) -> None:
    run = opened(share_ledger(address, Budget(calls=1)))
    full = sqlite3.OperationalError("database or disk is full")

    def fail(decide: object) -> None:
        raise full

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(get_pool(run)._store, "exchange", fail)
        with pytest.raises(OutageError, match=r"budget.sqlite cannot be used: database or disk is full; .*make room"):
            run.reserve(CALL, "a")
        patched.setattr(SqlitePoolStore, "start", lambda self, *given: fail(given))
        with pytest.raises(ConfigError, match="disk is full"):
            share_ledger(address, Budget())
    run.reserve(CALL, "a").settle(CALL)


def test_a_file_that_another_program_locks_is_waited_for(address: str, opened: Opened) -> None:
    run = opened(share_ledger(address, Budget(calls=1)))
    with ThreadPoolExecutor(1) as pool, closing(sqlite3.connect(address, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        asking = pool.submit(run.reserve, CALL, "a")
        time.sleep(0.1)
        assert not asking.done()
        other.execute("ROLLBACK")
        asking.result().settle(CALL)


async def test_requests_at_once_and_pauses_are_those_of_all_processes(address: str, opened: Opened) -> None:
    run = opened(share_ledger(address, Budget()))
    ledgers, inside, most = [run, opened(open_ledger(address)), opened(open_ledger(address))], Counter[int](), 0

    async def request(number: int) -> None:
        nonlocal most
        async with get_throttle("somebody", CallSettings(concurrency=3), ledgers[number].pool).take_place():
            inside[number] += 1
            most = max(most, inside.total())
            await asyncio.sleep(0.002)
            inside[number] -= 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(request(number % 3) for number in range(24)))
    assert most == 3
    waiting = asyncio.create_task(request(1))
    begun = time.monotonic()
    await waiting
    get_throttle("somebody", CallSettings(concurrency=3), run.pool).pause(0.6)
    while not get_pool(ledgers[2])._pauses:  # noqa: ASYNC110 - another thread changes it
        await asyncio.sleep(0.01)
    await request(2)
    assert time.monotonic() - begun >= 0.55


async def test_starts_are_spaced_by_the_rate_of_all_processes(address: str, opened: Opened) -> None:
    ledgers = [opened(share_ledger(address, Budget())), opened(open_ledger(address))]
    begun = time.monotonic()

    async def request(ledger: Ledger) -> None:
        async with get_throttle("somebody", CallSettings(requests_per_minute=1200), ledger.pool).take_place():
            pass

    await asyncio.gather(*(request(ledger) for ledger in 4 * ledgers))
    assert time.monotonic() - begun >= 6 * 0.05  # their wall times differ a little


async def test_a_pause_puts_off_starts_that_were_given_already_at_even_distances(address: str, opened: Opened) -> None:
    ledgers = [opened(share_ledger(address, Budget())), *(opened(open_ledger(address)) for _ in range(2))]
    settings = CallSettings(requests_per_minute=80, tokens_per_minute=1000)
    throttles = [get_throttle("somebody", settings, ledger.pool) for ledger in ledgers]
    sent = list[tuple[float, float]]()

    async def request(throttle: Throttle) -> None:
        async with throttle.take_place(10) as start:
            sent.append((time.monotonic(), start))

    await request(throttles[0])
    waiting = [asyncio.create_task(request(one)) for one in throttles[1:]]
    await asyncio.sleep(0.1)
    throttles[0].pause(1.5)  # others get to know it in half a second, before their starts
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting)
    (first, start), *later = sent
    assert later[0][0] - first >= 1.5
    assert later[1][0] - later[0][0] >= 0.6
    assert later[0][1] - start >= 1.5  # its tokens count from when it is sent
    [rate] = read_rates(address).values()
    assert sum(tokens for _, tokens in rate.tokens) == 30


async def test_a_request_that_is_cancelled_before_its_start_takes_no_tokens(address: str, opened: Opened) -> None:
    ledgers = [opened(share_ledger(address, Budget())), opened(open_ledger(address))]
    one, other = (get_throttle("somebody", CallSettings(tokens_per_minute=100), ledger.pool) for ledger in ledgers)
    one.pause(1.0)
    waiting = asyncio.create_task(one.take_place(90).__aenter__())
    await asyncio.sleep(0.3)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(30), other.take_place(80):
        pass


async def test_a_process_whose_calls_follow_each_other_lets_others_have_the_only_place(
    address: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_pool, "TURN", 0.2)
    ledgers, order = [opened(share_ledger(address, Budget())), opened(open_ledger(address))], list[int]()

    async def request(number: int) -> None:
        async with get_throttle("somebody", CallSettings(concurrency=1), ledgers[number].pool).take_place():
            order.append(number)
            await asyncio.sleep(0.06)

    async with asyncio.timeout(60):
        await asyncio.gather(*(request(0) for _ in range(20)), *(request(1) for _ in range(2)))
    assert 1 in order[:10]


async def test_a_request_that_is_cancelled_gives_its_place_back(address: str, opened: Opened) -> None:
    run = opened(share_ledger(address, Budget()))
    throttle, leave = get_throttle("somebody", CallSettings(concurrency=1), run.pool), asyncio.Event()

    async def request() -> None:
        async with throttle.take_place():
            await leave.wait()

    running = asyncio.create_task(request())
    while not get_pool(run)._places["somebody"]:  # noqa: ASYNC110 - another thread changes it
        await asyncio.sleep(0.01)
    throttle.pause(600)
    late = get_pool(opened(open_ledger(address)))
    while not late._pauses.get("somebody"):  # noqa: ASYNC110 - another thread changes it
        await asyncio.sleep(0.01)
    other = get_throttle("somebody", CallSettings(concurrency=9), late)
    waiting = asyncio.create_task(other.take_place().__aenter__())
    await asyncio.sleep(2 * shared_pool.RETRY)
    for one in (running, waiting):
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
    assert get_pool(run)._places["somebody"] == 0


@pytest.mark.parametrize(
    ("used", "others", "may_start"),
    [
        (0, [], True),
        (3, [ProviderPlaces(1, 0)], False),  # none is free
        (2, [ProviderPlaces(1, 1)], False),  # the other waits and has less than its half
        (1, [ProviderPlaces(2, 1)], True),
        (3, [ProviderPlaces(0, 0)], True),  # the other wants none
        (0, [ProviderPlaces(3, 0), ProviderPlaces(0, 1, short_since=7.5)], False),  # waits longer by more than a turn
        (0, [ProviderPlaces(3, 0), ProviderPlaces(0, 1, short_since=8.5)], True),
        (0, [ProviderPlaces(2, 0), ProviderPlaces(0, 1, short_since=7.5)], True),  # there is one for each
    ],
)
def test_a_free_place_is_left_to_a_process_that_has_less_than_its_part(
    used: int, others: list[ProviderPlaces], may_start: bool
) -> None:
    assert has_place(PlaceAsk("somebody", 4, RateLimits(), 0, 9.0), used, others) == may_start


def test_a_pause_of_this_process_or_a_clock_that_jumps_takes_nobody_for_dead() -> None:
    now = 100.0
    silence = Silence(lambda: now)
    held = Holding(1, ResourceAmount(calls=1), Usage(), {})
    assert not silence.find_dead({"a": held})
    now += 1e6
    assert silence.is_due()
    assert not silence.find_dead({"a": held})
    now -= 2e6
    assert not silence.find_dead({"a": held})
    looks = 0
    while not (dead := silence.find_dead({"a": held, "b": held._replace(beat=looks)})):
        now, looks = now + 0.4, looks + 1
    assert dead == {"a": held._replace(held=ResourceAmount())}
    assert shared_pool.LEASE - 3 < 0.4 * looks < shared_pool.LEASE + 1


DONE = st.sampled_from(("hold", "settle", "fail", "leave", "die"))
STEPS = st.lists(st.tuples(DONE, st.integers(0, 2), st.integers(0, 150)), max_size=40)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_the_sums_are_those_of_one_ledger_whatever_processes_do(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    address = str(tmp_path_factory.mktemp("pool") / "budget.sqlite")
    limit, spent = 500, 0
    run = share_ledger(address, Budget(tokens=limit))
    ledgers = [open_ledger(address) for _ in range(3)]
    held: list[list[tuple[int, Reservation]]] = [[], [], []]
    lost = 0
    for what, number, amount in steps:
        ledger, holds = ledgers[number], held[number]
        if what == "hold":
            free = limit - spent - lost - sum(tokens for each in held for tokens, _ in each)
            with suppress(BudgetError):
                holds.append((amount, ledger.reserve(Usage(input_tokens=amount), "a")))
                assert amount <= free
                continue
            assert amount > free
        elif what in ("settle", "fail") and holds:
            tokens, hold = holds.pop()
            cost = min(tokens, amount) if what == "settle" else 0
            hold.settle(Usage(input_tokens=cost))
            spent += cost
        elif what in ("leave", "die"):
            if what == "leave":
                ledger.close()
            else:
                get_pool(ledger)._exchange()
                die(ledger)
                lost += sum(tokens for tokens, _ in holds)  # until its lease ends
            holds.clear()
            ledgers[number] = open_ledger(address)
    for ledger in ledgers:
        ledger.close()
    get_pool(run)._exchange()
    assert run.spent.tokens == spent <= limit
    run.close()
