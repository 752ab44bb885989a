"""Teams with a ready LangChain model in any order of sync and async use, event loops and threads."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from langgraph.graph.state import CompiledStateGraph
from openai import DefaultAsyncHttpxClient

from selfwire.graphs import hiva
from selfwire.models.metered_chat import MeteredChat
from selfwire.models.openai_chat import OpenAIChat
from selfwire.models.providers import make_chat_model
from tests.wire.server import WireServer, forget_shared_clients, text

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""A client of a user's is never closed here, as in a notebook."""

TEXT = "Answer: a spade"
QUESTION = {"question": "What is it?"}
Team = CompiledStateGraph[Any, Any, Any, Any]


class OwnModel(BaseChatModel):
    """A model of a user's own, which has only the method that LangChain demands."""

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(TEXT))])

    @property
    def _llm_type(self) -> str:
        return "own"


def given(server: WireServer) -> dict[str, Any]:
    return {"model": "local", "base_url": server.url, "api_key": "none", "max_retries": 0}


def make_azure(server: WireServer) -> BaseChatModel:
    there = {**given(server), "base_url": None, "azure_endpoint": server.url.removesuffix("/v1")}
    return AzureChatOpenAI(**there, azure_deployment="local", api_version="2024-02-01")


def make_proxied(kind: type[ChatOpenAI]) -> Callable[[WireServer], BaseChatModel]:
    def make(server: WireServer) -> BaseChatModel:
        there = {**given(server), "base_url": "http://model.invalid/v1"}  # only the proxy can answer
        return kind(**there, openai_proxy=server.url.removesuffix("/v1"))

    return make


def make_with_own_client(server: WireServer) -> BaseChatModel:
    return ChatOpenAI(**given(server), http_async_client=DefaultAsyncHttpxClient())


KINDS: dict[str, Callable[[WireServer], Any]] = {
    "ChatOpenAI": lambda server: ChatOpenAI(**given(server)),
    "ChatOpenAI that streams": lambda server: ChatOpenAI(**given(server), streaming=True),
    "OpenAIChat": lambda server: OpenAIChat(**given(server)),
    "init_chat_model": lambda server: init_chat_model(**given(server), model_provider="openai"),
    "make_chat_model": lambda server: make_chat_model("openai:local", base_url=server.url, api_key="none"),
    "AzureChatOpenAI": make_azure,
    "ChatOpenAI by a proxy": make_proxied(ChatOpenAI),
    "OpenAIChat by a proxy": make_proxied(OpenAIChat),
    "a model of one's own": lambda server: OwnModel(),
    "a metered ChatOpenAI": lambda server: MeteredChat(ChatOpenAI(**given(server))),
}
"""Makers of models, by kind."""
QUICK = ("ChatOpenAI", "a model of one's own")


def invoke(team: Team) -> str:
    return str(team.invoke(QUESTION)["answer"])


def ainvoke(team: Team) -> str:
    return str(asyncio.run(team.ainvoke(QUESTION))["answer"])


def stream(team: Team) -> str:
    return str([values for values in team.stream(QUESTION, stream_mode="values")][-1]["answer"])


def astream(team: Team) -> str:
    async def read() -> str:
        return str([values async for values in team.astream(QUESTION, stream_mode="values")][-1]["answer"])

    return asyncio.run(read())


def messages(team: Team) -> str:
    async def read() -> None:
        async for _ in team.astream(QUESTION, stream_mode="messages"):
            pass

    asyncio.run(read())
    return TEXT


def threads(team: Team) -> str:
    with ThreadPoolExecutor(4) as pool:
        said = {*pool.map(lambda way: way(team), [invoke, ainvoke, astream, stream])}
    return said.pop() if len(said) == 1 else str(said)


def one_loop(team: Team) -> str:
    async def ask() -> str:
        found = await asyncio.gather(*(team.ainvoke(QUESTION) for _ in range(2)))
        blocking = team.invoke(QUESTION)  # as in a notebook, whose loop waits
        return str((await team.ainvoke(QUESTION) if found else blocking)["answer"])

    return asyncio.run(ask())


WAYS: tuple[Callable[[Team], str], ...] = (invoke, ainvoke, stream, astream, messages, threads, one_loop)


def order_ways(first: int) -> list[Callable[[Team], str]]:
    """Every way once, each first one followed by the others in another order, as their number is a prime."""
    step = first % (len(WAYS) - 1) + 1
    return [WAYS[(first + step * number) % len(WAYS)] for number in range(len(WAYS))]


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer(text(TEXT)) as started:
        yield started
    forget_shared_clients()
    gc.collect()  # what is never closed warns here, and not in a later test


async def ask_and_close(mine: ChatOpenAI) -> str:
    said = await mine.ainvoke("What?")
    await mine.root_async_client.close()
    return str(said.text)


@pytest.mark.parametrize("first", range(len(WAYS)), ids=[way.__name__ for way in WAYS])
@pytest.mark.parametrize(
    "make",
    [pytest.param(make, id=kind, marks=() if kind in QUICK else pytest.mark.slow) for kind, make in KINDS.items()],
)
def test_a_ready_model_answers_in_any_order_of_use_and_spoils_no_other_client(
    make: Callable[[WireServer], Any], first: int, server: WireServer
) -> None:
    mine = ChatOpenAI(**given(server))  # of the same address, for which LangChain shares one client
    team = hiva.build(make(server)).compile()
    used = order_ways(first)
    assert used[0](team) == TEXT
    assert (mine.invoke("What?").text, asyncio.run(ask_and_close(mine))) == (TEXT, TEXT)
    mine.root_client.close()
    assert [way(team) for way in used[1:]] == [TEXT] * len(used[1:])


@pytest.mark.parametrize("first", range(len(WAYS)), ids=[way.__name__ for way in WAYS])
def test_a_client_of_ones_own_answers_in_any_order_of_use(first: int, server: WireServer) -> None:
    team = hiva.build(make_with_own_client(server)).compile()
    for way in order_ways(first):
        assert way is threads or way(team) == TEXT  # several loops at once are more than such a client can do


def test_a_client_of_ones_own_streams_synchronously(server: WireServer) -> None:
    model = MeteredChat(make_with_own_client(server))
    assert "".join(chunk.text for chunk in model.stream("What?")) == TEXT
    assert asyncio.run(model.ainvoke("What?")).text == TEXT
    assert "".join(chunk.text for chunk in model.stream("And what?")) == TEXT


def test_a_client_of_ones_own_stays_on_the_loop_of_a_program_with_one_loop(server: WireServer) -> None:
    model = make_with_own_client(server)
    team = hiva.build(model).compile()

    async def ask() -> set[str]:
        asked = [team.ainvoke(QUESTION) for _ in range(3)]
        answers = {str(found["answer"]) for found in await asyncio.gather(*asked)}
        return answers | {message.text for message in await asyncio.gather(*(model.ainvoke("What?") for _ in range(3)))}

    assert asyncio.run(ask()) == {TEXT}
