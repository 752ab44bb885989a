import asyncio
import contextvars
import gc
import inspect
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import pytest

from selfwire.models import sync
from selfwire.models.sync import RequestsInFlight, get_shared_loop, run_on_foreign_loop, run_sync

place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")


async def where() -> str:
    await asyncio.sleep(0)
    return place.get()


def test_context_variables_survive_the_hop() -> None:
    token = place.set("here")
    assert run_sync(where()) == "here"
    place.reset(token)


async def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_all_calls_share_one_loop_from_any_thread() -> None:
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(lambda: run_sync(_loop())) for _ in range(3)]
    assert {run_sync(_loop()), *(other.result() for other in others)} == {run_sync(_loop())}


async def test_it_works_where_a_loop_is_running_already() -> None:
    assert run_sync(where()) == "nowhere"


@pytest.mark.parametrize(("error", "seen"), [(KeyError("k"), KeyError), (asyncio.CancelledError(), CancelledError)])
def test_errors_and_cancellations_come_through(error: BaseException, seen: type[BaseException]) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(seen) as raised:
        run_sync(fail())
    assert raised.value.args == error.args


def test_an_interrupt_that_a_coroutine_raises_itself_comes_through_with_its_notes() -> None:
    async def fail() -> None:
        error = KeyboardInterrupt()
        error.add_note("go on")
        raise error

    with pytest.raises(KeyboardInterrupt) as raised:
        run_sync(fail())
    assert raised.value.__notes__ == ["go on"]


FORKED = """
import asyncio, os, signal
from selfwire.models.sync import get_shared_loop, run_on_foreign_loop, run_sync

async def ask():
    return await run_on_foreign_loop(get_shared_loop(), None, asyncio.sleep, 0, "answered")

print(run_sync(ask()), flush=True)
if not os.fork():
    signal.alarm(20)  # one that hangs
    print(run_sync(ask()), "in the child", flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it has no fork")
def test_a_forked_process_has_loops_of_its_own() -> None:
    """As a worker of a server that has loaded its application, or of a pool of processes."""
    ended = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=100, check=True)
    assert ended.stdout.splitlines() == ["answered", "answered in the child"]


async def _nested() -> None:
    run_sync(where())


def test_a_call_from_the_background_loop_is_refused_instead_of_hanging() -> None:
    with pytest.raises(RuntimeError, match="await the coroutine"):
        run_sync(_nested())


def test_an_interrupt_cancels_the_coroutine_and_waits_for_its_clean_up() -> None:
    cleaned = []

    async def slow() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        try:
            await asyncio.sleep(60)
            cleaned.append("slept to the end")
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("cleaned up")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_sync(slow())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert cleaned == ["cleaned up"]


def test_an_interrupt_ends_a_thread_that_would_send_a_request_while_the_loop_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As where a node of an async graph calls `batch` of a chain, which asks in threads."""
    sent = []

    def ask() -> None:
        for number in range(3):
            with RequestsInFlight.find().send_in_thread():
                sent.append(number)
                time.sleep(0.2)

    async def block() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(contextvars.copy_context().run, ask).result()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_sync(block())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert sent == [0]
    assert "for the replies to 1 request in flight" in caplog.text


@pytest.mark.parametrize("when", ["before it is given", "before it begins", "after it has begun"])
def test_an_interrupt_while_a_coroutine_is_given_to_the_loop_leaves_nothing_running(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, given, begun, cleaned = sync._get_background_loop(), threading.Event(), threading.Event(), list[str]()
    give = loop.call_soon_threadsafe

    def interrupt(*call: Any, **options: Any) -> None:
        monkeypatch.setattr(loop, "call_soon_threadsafe", give_more)
        if when == "before it is given":
            raise KeyboardInterrupt
        if when == "before it begins":
            give(given.wait)  # the loop sees the start and the end at once
        give(*call, **options)
        if when == "after it has begun":
            begun.wait()
        raise KeyboardInterrupt

    def give_more(*call: Any, **options: Any) -> None:
        give(*call, **options)
        given.set()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append("cleaned up")

    coroutine = slow()
    monkeypatch.setattr(loop, "call_soon_threadsafe", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_sync(coroutine)
    assert cleaned == ["cleaned up"] * begun.is_set() == ["cleaned up"] * (when == "after it has begun")
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
def test_code_that_ends_the_process_ends_only_its_own_call(end: type[BaseException]) -> None:
    async def stop() -> None:
        raise end

    async def in_a_task_of_its_own() -> None:
        await asyncio.create_task(stop())

    for ended in (stop, in_a_task_of_its_own):
        with pytest.raises(end):
            run_sync(ended())
        assert ThreadPoolExecutor().submit(run_sync, where()).result(timeout=60) == "nowhere"


async def test_an_error_that_comes_as_its_caller_is_cancelled_is_not_printed() -> None:
    loop, said, begun = asyncio.get_running_loop(), list[Any](), threading.Event()
    loop.set_exception_handler(lambda _, context: said.append(context))

    async def fail() -> None:
        begun.set()
        raise ValueError("nobody reads this")

    calling = asyncio.ensure_future(run_on_foreign_loop(get_shared_loop(), 30, fail))
    await asyncio.sleep(0)
    assert begun.wait(30)
    threading.Event().wait(0.2)  # the error is delivered once this task waits, and the cancellation behind it
    loop.call_soon(calling.cancel)
    with pytest.raises(asyncio.CancelledError):
        await calling
    del calling
    await asyncio.sleep(0.1)
    gc.collect()
    assert said == []
