import asyncio
import random
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.errors import BudgetError, ConfigError
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget, Usage
from selfwire.models.budget import Ledger
from selfwire.models.limits import ResourceAmount
from selfwire.store.journal import Journal

CALL = Usage(calls=1, input_tokens=60, output_tokens=40)


def test_a_hold_counts_until_it_is_settled_with_the_real_cost() -> None:
    ledger = Ledger(Budget(tokens=150))
    hold = ledger.reserve(CALL, "rollout")
    with pytest.raises(
        BudgetError, match="in 'gate': 0 of 150 tokens spent, 100 held by calls and tasks under way, and up to 100 more"
    ):
        ledger.reserve(CALL, "gate")
    hold.settle(Usage(calls=1, input_tokens=50))
    ledger.reserve(CALL, "gate").settle(CALL)
    assert ledger.spent.tokens == 150


def test_a_hold_that_is_left_unsettled_is_given_back() -> None:
    ledger = Ledger(Budget(calls=1))
    with ledger.reserve(CALL, "a"):
        pass
    with ledger.reserve(CALL, "a") as hold:
        hold.settle(CALL)
    with pytest.raises(BudgetError):
        ledger.reserve(CALL, "a")
    with pytest.raises(ValueError, match="settled before"):
        hold.settle(CALL)


def test_a_limit_in_dollars_refuses_calls_without_a_price() -> None:
    child = Ledger(Budget(), Ledger(Budget(dollars=1)))
    with pytest.raises(ConfigError, match="price is not known"):
        child.reserve(Usage(calls=1, dollars=None), "a")
    Ledger(Budget(calls=1)).reserve(Usage(calls=1, dollars=None), "a")


def test_no_limit_is_too_large() -> None:
    Ledger(Budget(calls=10**400)).reserve(CALL, "a").settle(CALL)


def test_what_was_spent_before_a_resume_counts() -> None:
    ledger = Ledger(Budget(calls=3), spent=Usage(calls=2, seconds=1e6))
    ledger.reserve(CALL, "a").settle(CALL)
    with pytest.raises(BudgetError):
        ledger.reserve(CALL, "a")


def test_seconds_are_those_of_the_clock() -> None:
    now = 100.0
    ledger = Ledger(Budget(seconds=10), elapsed=4, clock=lambda: now)
    now = 105.0
    ledger.reserve(CALL, "a").settle(Usage(calls=1, seconds=50))
    assert ledger.spent.seconds == 9
    now = 107.0
    with pytest.raises(BudgetError, match=r"11.* of 10.* seconds spent"):
        ledger.reserve(CALL, "a")


def test_a_child_is_bound_by_every_ledger_above_it() -> None:
    run = Ledger(Budget(calls=2))
    first, second = Ledger(Budget(calls=5), run), Ledger(Budget(calls=1), run)
    second.reserve(CALL, "b").settle(CALL)
    with pytest.raises(BudgetError):
        second.reserve(CALL, "b")  # its own limit
    first.reserve(CALL, "a").settle(CALL)
    with pytest.raises(BudgetError):
        first.reserve(CALL, "a")  # the run's
    assert (run.spent.calls, first.spent.calls, second.spent.calls) == (2, 1, 1)


def scope(task: str) -> Scope:
    return Scope(phase="rollout", task=task)


def test_shares_decide_before_a_phase_which_task_is_refused() -> None:
    run = Ledger(Budget(calls=5))
    for task in ("t1", "t2"):
        run.reserve_task(scope(task), Budget(calls=2))
    with pytest.raises(BudgetError, match="rollout/t3"):
        run.reserve_task(scope("t3"), Budget(calls=2))
    for task in ("t2", "t1"):  # whoever is faster
        ledger = run.get_task_ledger(scope(task).at(node="solver", visit=3))
        for _ in range(2):
            ledger.reserve(CALL, task).settle(CALL)
        with pytest.raises(BudgetError):
            ledger.reserve(CALL, task)
    assert run.spent.calls == 4
    assert run.get_task_ledger(scope("t3")) is run


def test_a_share_gives_back_what_it_did_not_spend() -> None:
    run = Ledger(Budget(calls=3, tokens=1000))
    run.reserve_task(scope("t1"), Budget(calls=3))
    run.get_task_ledger(scope("t1")).reserve(CALL, "t1").settle(CALL)
    run.release_task(scope("t1"))
    assert run.get_task_ledger(scope("t1")) is run
    assert run.spent.tokens == 100  # what the share did not limit was paid by the run
    run.reserve_task(scope("t2"), Budget(calls=2))
    run.release_task(scope("t2"))
    run.release_task(scope("t2"))


def test_a_resumed_share_reserves_only_what_is_left() -> None:
    run = Ledger(Budget(calls=3), spent=Usage(calls=2))
    share = run.reserve_task(scope("t1"), Budget(calls=3), spent=Usage(calls=2))
    share.reserve(CALL, "t1").settle(CALL)
    with pytest.raises(BudgetError):
        share.reserve(CALL, "t1")
    assert run.spent.calls == 3


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 150), st.booleans()), max_size=30))
def test_the_run_never_spends_more_than_its_limit_or_loses_a_token(calls: list[tuple[str, int, bool]]) -> None:
    run = Ledger(Budget(tokens=500))
    for task in "ab":
        run.reserve_task(scope(task), Budget(tokens=120))
    spent = 0
    for task, tokens, fails in calls:
        try:
            hold = run.get_task_ledger(scope(task)).reserve(Usage(input_tokens=tokens), task)
        except BudgetError:
            continue
        with hold:
            if not fails:
                hold.settle(Usage(input_tokens=tokens))
                spent += tokens
    for task in "ab":
        run.release_task(scope(task))
    assert run.spent.tokens == spent <= 500
    run.reserve(Usage(input_tokens=500 - spent), "rest")  # nothing is left held


def test_threads_cannot_spend_past_the_limit() -> None:
    ledger, refused = Ledger(Budget(calls=100)), []

    def spend() -> None:
        for _ in range(50):
            try:
                ledger.reserve(CALL, "a").settle(CALL)
            except BudgetError as error:
                refused.append(error)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: spend(), range(4)))
    assert ledger.spent.calls == 100
    assert len(refused) == 100


def test_what_is_spent_is_never_half_of_a_call(often_switching: None) -> None:
    ledger, journal, over = Ledger(), Journal.memory(), threading.Event()
    even = Usage(calls=1, input_tokens=1, output_tokens=1, dollars=1.0)

    def spends() -> None:
        while not over.is_set():
            ledger.settle(ResourceAmount(), even)
            journal._count(even)

    spender = threading.Thread(target=spends)
    spender.start()
    found = [spent for _ in range(3000) for spent in (ledger.spent, journal.spend())]
    over.set()
    spender.join()
    journal.close()
    assert all(one.calls == one.input_tokens == one.output_tokens == one.dollars for one in found)


@pytest.fixture
def often_switching() -> Iterator[None]:
    """Threads take turns after every few steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


async def call(ledger: Ledger, wanted: Usage, cost: Usage) -> None:
    with ledger.track_call() as tracked, await tracked.reserve(wanted, "a call") as hold:
        await asyncio.sleep(0)
        hold.settle(cost)


async def test_a_call_waits_for_those_under_way_and_has_what_they_give_back() -> None:
    ledger, cheap = Ledger(Budget(tokens=250)), Usage(calls=1, input_tokens=30)
    await asyncio.gather(*(call(ledger, CALL, cheap) for _ in range(5)))
    assert ledger.spent.tokens == 150
    await call(ledger, CALL, cheap)
    with pytest.raises(BudgetError, match=r"180 of 250 tokens spent and up to 100 more needed"):
        await call(ledger, CALL, cheap)


async def test_a_reservation_that_no_call_made_is_not_waited_for() -> None:
    ledger = Ledger(Budget(calls=1))
    with ledger.reserve(CALL, "everything"), pytest.raises(BudgetError, match="0 of 1 calls spent, 1 held"):
        async with asyncio.timeout(60):
            await call(ledger, CALL, CALL)


async def test_a_waiting_call_that_is_cancelled_leaves_the_others_alone() -> None:
    ledger = Ledger(Budget(calls=1))
    with ledger.track_call() as tracked:
        hold = await tracked.reserve(CALL, "a")
        waiting = asyncio.create_task(call(ledger, CALL, CALL))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        hold.settle(Usage())
    await call(ledger, CALL, CALL)
    assert ledger.spent.calls == 1


@pytest.mark.parametrize("seed", range(20))
async def test_nested_budgets_never_wait_for_each_other_and_no_limit_is_exceeded(seed: int) -> None:
    draw = random.Random(seed)
    run = Ledger(Budget(calls=60, tokens=3_000, dollars=0.5))
    refused: list[BudgetError] = []

    async def ask(task: str) -> None:
        cost = Usage(calls=1, input_tokens=draw.randint(0, 60), output_tokens=40, dollars=draw.choice([0.0, 0.01]))
        wanted = cost.replace(output_tokens=draw.randint(40, 400), dollars=0.02)
        try:
            with run.get_task_ledger(scope(task)).track_call() as tracked:
                with await tracked.reserve(wanted, task) as hold:
                    for _ in range(draw.randint(0, 4)):
                        await asyncio.sleep(0)
                    hold.settle(cost if draw.random() < 0.8 else Usage())
        except BudgetError as error:
            refused.append(error)

    async def work(task: str) -> None:
        try:
            run.reserve_task(scope(task), Budget(calls=5))
        except BudgetError as error:
            refused.append(error)
            return
        for _ in range(3):
            await asyncio.gather(*(ask(task) for _ in range(draw.randint(1, 4))))
        run.release_task(scope(task))

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(f"t{number}") for number in range(16)))
    spent = run.spent
    assert (spent.calls <= 60, spent.tokens <= 3_000, (spent.dollars or 0) <= 0.5) == (True, True, True)
    assert refused
    run.reserve(Usage(calls=60 - spent.calls, input_tokens=3_000 - spent.tokens), "rest")  # nothing is left held
