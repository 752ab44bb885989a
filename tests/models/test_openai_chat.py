"""`OpenAIChat` beside `ChatOpenAI`: equal requests, replies and errors, with tools, streams and several loops."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI
from openai.resources.chat import AsyncCompletions
from pydantic import SecretStr

from selfwire.core.usage import Usage
from selfwire.models.openai_chat import OpenAIChat
from selfwire.models.structured import to_reply
from tests.wire.server import Fault, WireServer, forget_shared_clients, lying, refused, saying, text


@pytest.fixture(autouse=True)
def no_shared_clients() -> Iterator[None]:
    yield
    forget_shared_clients()


ASKED: list[BaseMessage] = [
    SystemMessage("Antworte kürzer."),
    HumanMessage("3 + 4?"),
    AIMessage("", tool_calls=[{"name": "add", "args": {"a": 3}, "id": "call-1"}]),
    ToolMessage("7", tool_call_id="call-1"),
    HumanMessage("So?"),
]
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}


async def _note_sent(model: ChatOpenAI, ask: Runnable[Any, Any], monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, Any]:
    """Body and headers of what a model sends for the messages."""
    sent: list[tuple[bytes, list[tuple[bytes, bytes]]]] = []
    client = model.root_async_client._client
    send = client.send

    async def note(request: Any, **rest: Any) -> Any:
        sent.append((request.content, request.headers.raw))
        return await send(request, **rest)

    monkeypatch.setattr(client, "send", note)
    await ask.ainvoke(ASKED, seed=3)
    await model.root_async_client.close()
    return sent[0]


@pytest.mark.parametrize("options", [{}, {"extra_body": {"top_k": 3}, "temperature": 0.3}, {"model": "o3"}])
@pytest.mark.parametrize("tools", [False, True])
async def test_requests_are_equal_to_the_byte(
    options: dict[str, Any], tools: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    with WireServer(text("Seven.")) as server:
        given = {"model": "gpt-4o-mini", **options, "base_url": server.url, "api_key": "none", "max_retries": 0}
        for model in (ChatOpenAI(**given), OpenAIChat(**given)):
            sent.append(await _note_sent(model, model.bind_tools([TOOL]) if tools else model, monkeypatch))
    assert sent[0] == sent[1]
    assert json.loads(sent[0][0])["messages"][1]["content"] == "3 + 4?"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(),
        saying("half of i", "length"),
        lying(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": "{"}}],
            }
        ),
        lying(usage=None),
        lying(usage={"prompt_tokens": "7"}),
        lying(system_fingerprint=None, service_tier="flex"),
        lying(id=None, model=None),
        lying(choices=[]),
        lying(choices=None),
        lying(error={"message": "overloaded"}),
        refused(),
    ],
)
async def test_replies_and_errors_are_those_of_langchain(fault: Fault) -> None:
    found: list[Any] = []
    with WireServer(text("Seven.")) as server:
        server.always = fault
        for kind in (ChatOpenAI, OpenAIChat):
            model = kind(model="gpt-4o-mini", base_url=server.url, api_key=SecretStr("none"), max_retries=0)
            try:
                reply = await model.ainvoke(ASKED)
                found.append((to_reply(reply, Usage()), reply.usage_metadata))
            except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same
                found.append((type(error), str(error).partition("response keys")[0]))
            await model.root_async_client.close()
    assert len(server.asked) == 2
    assert found[0] == found[1]


async def test_streams_objects_and_traced_clients_are_langchains_own_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    own = ChatOpenAI._agenerate

    async def note(self: Any, *args: Any, **options: Any) -> Any:
        asked.append("own")
        return await own(self, *args, **options)

    monkeypatch.setattr(ChatOpenAI, "_agenerate", note)
    with WireServer(text("Seven.")) as server:
        given: dict[str, Any] = {"model": "gpt-4o-mini", "base_url": server.url, "api_key": "none", "max_retries": 0}
        model = OpenAIChat(**given)
        await model.ainvoke("3 + 4?")
        assert asked == []
        await model.ainvoke("3 + 4?", response_format={"type": "json_object"})
        await OpenAIChat(**given, include_response_headers=True).ainvoke("3 + 4?")
        create = AsyncCompletions.create

        async def traced(self: Any, **request: Any) -> Any:
            assert request["messages"]  # the whole request, as the tracers of other makers read it
            return await create(self, **request)

        monkeypatch.setattr(AsyncCompletions, "create", traced)
        await model.ainvoke("3 + 4?")
    assert asked == ["own"] * 3


def test_one_model_serves_sync_calls_several_loops_and_threads() -> None:
    with WireServer(text("Seven.")) as server:
        model = OpenAIChat(model="gpt-4o-mini", base_url=server.url, api_key=SecretStr("none"), max_retries=0)

        async def ask() -> list[str]:
            return [str((await model.ainvoke("3 + 4?")).text) for _ in range(2)]

        said = [model.invoke("3 + 4?").text, *asyncio.run(ask()), model.invoke("3 + 4?").text, *asyncio.run(ask())]
        with ThreadPoolExecutor(3) as threads:
            said += [text for texts in threads.map(lambda _: asyncio.run(ask()), range(6)) for text in texts]
        model.root_client.close()
    assert said == ["Seven."] * 18
