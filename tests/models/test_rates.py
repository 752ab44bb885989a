"""Limits of requests and tokens per minute, in one process and in those that share a pool."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget
from selfwire.extras.cluster.shared_ledger import open_ledger, share_ledger
from selfwire.models import limits
from selfwire.models.limits import CallSettings, Rate, RateLimits, Throttle, get_throttle
from tests.models.wired import ASKED, QUICK, metered
from tests.wire.server import Asked, Body, WireServer, refused

SETTINGS = CallSettings(tokens_per_minute=100)
TOOK = 30
"""Tokens of each call by `count_tokens`."""


async def count_tokens(_: Body) -> AIMessage:
    usage = {"input_tokens": TOOK - 10, "output_tokens": 10, "total_tokens": TOOK}
    return AIMessage("hello", usage_metadata=usage)


def assert_within(asked: list[Asked], limit: int, slack: float = 0.3) -> None:
    """By any time the server was sent no more than the minutes until then allow; it may be told late, never early.

    Args:
        slack: seconds by which the first request may arrive late.
    """
    first = asked[0].at
    for number, one in enumerate(asked, start=1):
        assert number * TOOK <= limit * ceil((one.at - first + slack) / limits.MINUTE)


Call = tuple[int, float, float, float]
"""The most tokens of a call, the part of them that it takes, its seconds, and those from the call before."""
CALLS = st.lists(
    st.tuples(st.integers(1, 150), st.floats(0, 1), st.floats(0, 90), st.floats(0, 30)), min_size=1, max_size=40
)


@given(CALLS)
def test_no_minute_has_more_tokens_than_the_limit_but_for_a_call_that_is_larger(calls: list[Call]) -> None:
    allowed, rate, now = RateLimits(tokens=100), Rate(), 0.0
    sent: list[tuple[float, int]] = []
    ends: list[tuple[float, int, float]] = []
    for most, part, seconds, gap in calls:
        now += gap
        waited = 0.0
        while True:
            for one in [one for one in ends if one[0] <= now]:
                ends.remove(one)
                rate = Rate.read(json.loads(json.dumps(rate.correct(one[1], one[2]))))
            if rate.find_start(now) <= now and rate.has_room(most, allowed, now):
                break
            now, waited = now + 0.7, waited + 0.7
        assert waited <= limits.MINUTE + 2  # whatever its size
        rate = rate.add(most, allowed, now)
        sent.append((now, took := int(part * most)))
        ends.append((now + seconds, took - most, now))
    for start, _ in sent:
        within = [took for at, took in sent if start <= at < start + limits.MINUTE]
        assert sum(within) <= 100 or sum(map(bool, within)) == 1
    assert len(rate.tokens) <= limits.PARTS + 2


def test_both_limits_bind() -> None:
    limits = RateLimits(requests=30, tokens=100)
    rate = Rate().add(60, limits, 5.0)
    assert rate.find_start(5.0) == 7.0
    assert rate._replace(paused_until=9.0).find_start(5.0) == 9.0
    assert rate.has_room(40, limits, 7.0)
    assert not rate.has_room(41, limits, 64.9)
    assert rate.has_room(41, limits, 66.0)


@pytest.fixture(params=["alone", "beside others"])
def throttles(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Throttle]]:
    """The throttle of one provider, as two users have it: of this process, or as of two that share a file."""
    if request.param == "alone":
        yield 2 * [get_throttle("somebody", SETTINGS)]
        return
    address = str(tmp_path / "budget.sqlite")
    with closing(share_ledger(address, Budget())) as one, closing(open_ledger(address)) as other:
        yield [get_throttle("somebody", SETTINGS, ledger.pool) for ledger in (one, other)]


async def test_a_call_that_takes_fewer_tokens_makes_room_at_once(throttles: list[Throttle]) -> None:
    one, other = throttles
    async with asyncio.timeout(30), AsyncExitStack() as running:
        start = await running.enter_async_context(one.take_place(90))
        waiting = asyncio.create_task(running.enter_async_context(other.take_place(80)))
        await asyncio.sleep(0.12)
        assert not waiting.done()
        one.correct(-70, start)
        await waiting


async def test_a_large_call_is_not_overtaken_by_small_ones(
    throttles: list[Throttle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MINUTE", 0.8)
    order = list[int]()

    async def ask(throttle: Throttle, tokens: int) -> None:
        async with throttle.take_place(tokens):
            order.append(tokens)

    one, other = throttles
    await ask(one, 60)
    waiting = asyncio.create_task(ask(one, 300))
    await asyncio.sleep(0.3)  # until the other process knows
    async with asyncio.timeout(60):
        await asyncio.gather(waiting, ask(other, 20), ask(other, 21))
    assert order == [60, 300, 20, 21]


async def test_who_is_cancelled_while_it_waits_for_tokens_lets_others_go(throttles: list[Throttle]) -> None:
    one, other = throttles
    async with asyncio.timeout(30), one.take_place(60):
        waiting = asyncio.create_task(one.take_place(90).__aenter__())
        await asyncio.sleep(0.12)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with other.take_place(40):
            pass


async def test_a_server_gets_no_more_tokens_than_the_limit(
    wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MINUTE", 0.4)
    wire_server.answer, most = count_tokens, 6 * TOOK
    model = metered(wire_server, QUICK.replace(tokens_per_minute=most))
    await asyncio.gather(*(model.generate(ASKED, scope=Scope(task=f"t{i}")) for i in range(10)))
    assert len(wire_server.asked) == 10
    assert_within(wire_server.asked, most)


async def test_a_refused_request_takes_no_tokens(wire_server: WireServer) -> None:
    wire_server.faults.append(refused())
    model = metered(wire_server, QUICK.replace(tokens_per_minute=1))
    async with asyncio.timeout(30):
        with pytest.raises(ModelError, match="Error code: 401"):
            await model.generate(ASKED, scope=Scope(task="t1"))
        await model.generate(ASKED, scope=Scope(task="t2"))
