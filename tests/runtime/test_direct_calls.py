"""Asked without callbacks, a model says what `ainvoke` would give; who listens or stands between is not passed by."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.graph import START, StateGraph
from pydantic import ConfigDict

from selfwire.evolvers.hiva.schemas import SelfCriticism
from selfwire.runtime.direct_calls import invoke_without_callbacks
from selfwire.runtime.models import make_chat_model
from selfwire.runtime.provider_errors import Caught
from tests.runtime.test_tracing import Recorded

ASKED: list[BaseMessage] = [HumanMessage("Is it so?")]


class Blocking(BaseChatModel):
    at_once: int = 0
    most: int = 0

    @property
    def _llm_type(self) -> str:
        return "blocking"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kw: Any) -> ChatResult:
        assert run_manager.handlers == []
        message = AIMessage("so", response_metadata={"own": 1})
        told = ChatGeneration(message=message, generation_info={"finish_reason": "stop", "options": sorted(kw)})
        return ChatResult(generations=[told], llm_output={"model_name": "b"})


class Awaited(Blocking):
    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kw: Any) -> ChatResult:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return self._generate(messages, stop, run_manager, **kw)


class Streaming(Awaited):
    streaming: bool = True

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        raise NotImplementedError


class AnyField(Awaited):
    model_config = ConfigDict(extra="allow")


class OwnWay(Awaited):
    async def ainvoke(self, *args: Any, **kwargs: Any) -> AIMessage:
        return AIMessage("its own")


def same(one: BaseMessage | None, other: BaseMessage) -> bool:
    """Whether two answers differ in nothing but the id that LangChain gives."""
    return one is not None and one.model_dump(exclude={"id"}) == other.model_dump(exclude={"id"})


@pytest.mark.parametrize(
    "model",
    [
        Awaited(),
        Blocking(),
        Awaited().bind(temperature=0.5).bind(top=1, ls_structured_output_format={"schema": {}}),
        make_chat_model("offline"),
        make_chat_model("offline").bind_tools([{"type": "function", "function": {"name": "f", "parameters": {}}}]),
        make_chat_model("offline").with_structured_output(SelfCriticism, include_raw=True).first.steps__["raw"],  # type: ignore[attr-defined]
    ],
)
async def test_it_is_what_ainvoke_gives(model: Runnable[Any, Any]) -> None:
    assert same(await invoke_without_callbacks(model, ASKED, {"seed": 3}), await model.ainvoke(ASKED, seed=3))


@pytest.mark.parametrize(
    "model",
    [
        Awaited(callbacks=[BaseCallbackHandler()]),
        Awaited(verbose=True),
        Awaited(cache=InMemoryCache()),
        Awaited(rate_limiter=InMemoryRateLimiter()),
        Awaited(output_version="v1"),
        Awaited().bind(stream=True),
        Awaited().with_config(callbacks=[BaseCallbackHandler()]),
        Awaited() | (lambda said: said),
        Streaming(),
        AnyField(streaming=True),
        OwnWay(),
    ],
)
async def test_whoever_listens_or_stands_between_is_not_passed_by(model: Runnable[Any, Any]) -> None:
    assert await invoke_without_callbacks(model, ASKED, {}) is None


async def test_where_somebody_watches_it_is_left_to_ainvoke() -> None:
    async def node(_: int) -> object:
        return await invoke_without_callbacks(Awaited(), ASKED, {})

    assert await RunnableLambda(node).ainvoke(0, {"callbacks": [Recorded()]}) is None


async def test_models_without_an_async_form_do_not_wait_for_each_other() -> None:
    together = 20
    met = threading.Barrier(together, timeout=20)

    class Meeting(Blocking):
        def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
            met.wait()
            return super()._generate(*args, **kwargs)

    said = await asyncio.gather(*(invoke_without_callbacks(Meeting(), ASKED, {}) for _ in range(together)))
    assert [one and one.text for one in said] == ["so"] * together


async def test_what_a_client_raises_is_caught_and_what_cancels_the_task_is_not() -> None:
    with Caught() as caught:
        raise asyncio.CancelledError  # the client's own: nobody cancelled this task
    assert isinstance(caught.error, asyncio.CancelledError)
    with Caught() as caught:
        raise ValueError("no JSON")
    assert str(caught.error) == "no JSON"
    with Caught() as caught:
        pass
    assert caught.error is None
    with pytest.raises(KeyboardInterrupt), Caught():
        raise KeyboardInterrupt

    async def waits() -> None:
        with Caught():
            await asyncio.sleep(60)

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Nothing(TypedDict, total=False):
    """The state of a graph that keeps nothing."""

    kept: str


class Watcher(BaseCallbackHandler):
    """Hears of models only."""

    def __init__(self) -> None:
        self.heard = 0

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.heard += 1


async def test_inside_a_graph_only_a_listener_makes_it_ainvoke() -> None:
    found: list[AIMessage | None] = []

    async def node(state: Nothing) -> Nothing:
        found.append(await invoke_without_callbacks(Awaited(), ASKED, {}))
        return {}

    graph = StateGraph(Nothing)
    graph.add_node("one", node)
    graph.add_edge(START, "one")
    outer = graph.compile()
    await outer.ainvoke({})
    assert same(found[0], await Awaited().ainvoke(ASKED))
    await outer.ainvoke({}, {"callbacks": [Watcher()]})
    assert [_ async for _ in outer.astream({}, stream_mode="messages")] == []
    with get_usage_metadata_callback():
        await outer.ainvoke({})
    assert found[1:] == [None, None, None]
