"""Calls that other code makes: how long a model may be silent."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget
from selfwire.models import call_meter
from selfwire.models.budget import Ledger, Prices
from selfwire.models.call_meter import PATIENCE, CallMeter
from selfwire.models.sync import find_running_loop
from selfwire.store.journal import Journal

SILENCE = 1.5
"""Seconds after which calls are given up."""
LONG = 2.0


class Clock:
    """A clock on which time passes only where a test says so, and never before the meter has looked at it."""

    def __init__(self) -> None:
        self.now, self._looks, self._is_watched, self._sleep = 0.0, 0, True, asyncio.sleep

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        """What the meter does between two looks."""
        until = self.now + seconds
        while self.now < until:
            await self._sleep(0.001)
            self._looks += 1

    def let_pass(self, seconds: float) -> None:
        """Let time pass until the meter has seen it or has given up; in its event loop it sees nothing meanwhile."""
        self.now += seconds
        seen = self._looks + 2
        while self._is_watched and self._looks < seen and find_running_loop() is None:
            time.sleep(0.001)

    def end(self) -> None:
        """Wait for the meter no more."""
        self._is_watched = False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(call_meter, "time", clock)
    monkeypatch.setattr(call_meter, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": clock.sleep}))
    return clock


class SlowModel(BaseChatModel):
    """A model that pauses before each word of a stream, and before each answer, for some seconds of a clock."""

    clock: Any
    pause: float = 0.25
    words: int = 8

    @property
    def _llm_type(self) -> str:
        return "slow"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        self.clock.let_pass(self.pause)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("done"))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for _word in range(self.words):
            self.clock.let_pass(self.pause)
            yield ChatGenerationChunk(message=AIMessageChunk(content="word "))


Use = Callable[[SlowModel, Any], Awaitable[Any]]


async def use(work: Use, model: SlowModel) -> CallMeter:
    """Let code ask a model under a meter; raises ModelError if its calls are given up."""
    meter = CallMeter(Ledger(Budget()), Journal.memory(), Prices(table={}), Scope(), timeout=SILENCE / PATIENCE)
    await meter.recall()
    try:
        async with meter.limit_silence():
            await work(model, {"callbacks": [meter]})
    finally:
        model.clock.end()
    return meter


async def read(model: SlowModel, config: Any) -> None:
    await asyncio.to_thread(lambda: [*model.stream("Count.", config)])


async def read_here(model: SlowModel, config: Any) -> None:
    assert [part async for part in model.astream("Count.", config)]


async def read_in_an_answer(model: SlowModel, config: Any) -> None:
    await asyncio.to_thread(model.invoke, "Count.", config, stream=True)


@pytest.mark.parametrize("work", [read, read_here, read_in_an_answer])
async def test_a_stream_may_take_long_while_it_sends(work: Use, clock: Clock) -> None:
    assert len((await use(work, SlowModel(clock=clock))).calls) == 1
    assert clock.now > SILENCE


async def test_calls_that_wait_for_their_turn_may_take_long_while_others_are_answered(
    clock: Clock,
) -> None:
    turn = asyncio.Lock()

    class Queue(SlowModel):
        async def _agenerate(self, *asked: Any, **given: Any) -> ChatResult:
            async with turn:
                await asyncio.to_thread(clock.let_pass, 0.25)
            return ChatResult(generations=[ChatGeneration(message=AIMessage("done"))])

    async def ask(model: SlowModel, config: Any) -> None:
        await model.abatch(["Count."] * 8, config)

    assert len((await use(ask, Queue(clock=clock))).calls) == 8
    assert clock.now > SILENCE


async def leave(model: SlowModel, config: Any) -> None:
    held = model.stream("Count.", config)
    await asyncio.to_thread(next, held)
    await asyncio.to_thread(model.clock.let_pass, LONG)
    assert next(held).text


async def leave_here(model: SlowModel, config: Any) -> None:
    held = model.astream("Count.", config)
    await anext(held)
    await asyncio.to_thread(model.clock.let_pass, LONG)
    assert (await anext(held)).text


async def work_between_calls(model: SlowModel, config: Any) -> None:
    await model.ainvoke("Count.", config)
    await asyncio.to_thread(model.clock.let_pass, LONG)


@pytest.mark.parametrize("work", [leave, leave_here, work_between_calls])
async def test_time_in_which_nobody_waits_for_a_model_is_not_its_silence(work: Use, clock: Clock) -> None:
    await use(work, SlowModel(clock=clock))


async def read_on(model: SlowModel, config: Any) -> None:
    """Read a stream that is silent after a program has let it wait."""
    held = model.astream("Count.", config)
    await anext(held)
    await asyncio.to_thread(model.clock.let_pass, SILENCE / 2)
    vars(model)["pause"] = 2 * SILENCE
    await anext(held)


@pytest.mark.parametrize("work", [read, read_here, read_on])
async def test_a_stream_that_falls_silent_is_given_up(work: Use, clock: Clock) -> None:
    model = SlowModel(clock=clock) if work is read_on else SlowModel(clock=clock, pause=2 * SILENCE, words=1)
    with pytest.raises(ModelError, match=r"no answer within 1\.5 seconds, which is 5 times --timeout"):
        await use(work, model)
