import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from selfwire.models.limits import CallSettings, Rate, Throttle, get_throttle


async def test_starts_are_spaced_by_the_rate() -> None:
    gate, begun = Throttle(CallSettings(requests_per_minute=1200)), time.monotonic()

    async def worker() -> None:
        async with gate.take_place():
            pass

    await asyncio.gather(*(worker() for _ in range(4)))
    assert time.monotonic() - begun >= 3 * 0.05


async def test_a_pause_binds_who_waits_already_and_who_comes_later() -> None:
    gate = Throttle(CallSettings())
    begun = time.monotonic()
    gate.pause(0.05)
    gate.pause(0.01)  # a shorter one does not end it
    async with gate.take_place():
        assert time.monotonic() - begun >= 0.05
    assert gate._rate.paused_until < time.monotonic()


async def test_who_is_cancelled_in_a_pause_leaves_its_place() -> None:
    gate = Throttle(CallSettings(concurrency=1))
    gate.pause(600)

    async def enter() -> None:
        async with gate.take_place():
            pass

    waiting = asyncio.create_task(enter())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate._rate = Rate()
    async with asyncio.timeout(60):
        await enter()


def test_places_are_handed_over_between_event_loops() -> None:
    gate, inside, most = Throttle(CallSettings(concurrency=2)), 0, 0

    async def worker() -> None:
        nonlocal inside, most
        async with gate.take_place():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    async def workers() -> None:
        await asyncio.gather(*(worker() for _ in range(20)))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(asyncio.run, [workers() for _ in range(3)]))
    assert most == 2
    assert inside == 0


async def test_who_is_cancelled_while_waiting_takes_no_place_along() -> None:
    gate, leave = Throttle(CallSettings(concurrency=1)), asyncio.Event()

    async def holder() -> None:
        async with gate.take_place():
            await leave.wait()

    async def passing() -> None:
        async with gate.take_place():
            pass

    first = asyncio.create_task(holder())
    await asyncio.sleep(0)
    early, late = asyncio.create_task(passing()), asyncio.create_task(passing())
    await asyncio.sleep(0)
    early.cancel()  # while it waits
    leave.set()
    await first
    late.cancel()  # when the place may be on its way to it
    for task in (early, late):
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(60):
        await passing()


def test_a_provider_has_one_gate_in_a_process() -> None:
    first = get_throttle("somebody", CallSettings(concurrency=3))
    assert get_throttle("somebody", CallSettings(concurrency=5)) is first
    assert first._places.limit == 5
