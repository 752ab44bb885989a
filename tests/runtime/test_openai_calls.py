"""Chat completions by the short way: equal requests, replies and errors, and left to LangChain where they must be."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from openai.resources.chat import AsyncCompletions

from selfwire.core.usage import Usage
from selfwire.runtime.direct_calls import invoke_without_callbacks
from selfwire.runtime.messages import to_reply
from selfwire.runtime.models import make_chat_model
from selfwire.runtime.openai_calls import complete, is_openai_chat
from tests.wire.server import Fault, WireServer, lying, refused, saying, text

ASKED: list[BaseMessage] = [
    SystemMessage("Antworte kürzer."),
    HumanMessage("3 + 4?"),
    AIMessage("", tool_calls=[{"name": "add", "args": {"a": 3}, "id": "call-1"}]),
    ToolMessage("7", tool_call_id="call-1"),
    HumanMessage("So?"),
]
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}


def _make(url: str, **options: Any) -> Any:
    return make_chat_model("openai:gpt-4o-mini", base_url=url, api_key="none", **options)


@pytest.mark.parametrize("options", [{}, {"extra_body": {"top_k": 3}, "temperature": 0.3}, {"model": "o3"}])
@pytest.mark.parametrize("tools", [False, True])
async def test_requests_are_equal_to_the_byte(
    options: dict[str, Any], tools: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[bytes, list[tuple[bytes, bytes]]]] = []
    with WireServer(text("Seven.")) as server:
        model = ChatOpenAI(**{"model": "gpt-4o-mini", **options}, base_url=server.url, api_key="none", max_retries=0)
        asked: Runnable[Any, Any] = model.bind_tools([TOOL]) if tools else model
        client = model.root_async_client._client
        send = client.send

        async def note(request: Any, **rest: Any) -> Any:
            sent.append((request.content, request.headers.raw))
            return await send(request, **rest)

        monkeypatch.setattr(client, "send", note)
        await asked.ainvoke(ASKED, seed=3)
        await invoke_without_callbacks(asked, ASKED, {"seed": 3})
        await model.root_async_client.close()
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
        model = _make(server.url)
        for way in (model._agenerate, lambda asked: complete(model, asked, {})):
            try:
                result: Any = await way(ASKED)
                reply = result.generations[0]
                reply.message.response_metadata |= {**result.llm_output, **reply.generation_info}
                found.append((to_reply(reply.message, Usage()), reply.message.usage_metadata))
            except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same
                found.append((type(error), str(error).partition("response keys")[0]))
    assert len(server.asked) == 2
    assert found[0] == found[1]


async def test_other_kinds_of_requests_and_models_are_left_to_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _make("http://127.0.0.1:1/v1")
    assert is_openai_chat(model)
    assert await complete(model, ASKED, {"response_format": {"type": "json_object"}}) is None
    assert await complete(model, ASKED, {"stream": True}) is None
    assert not is_openai_chat(_make("http://127.0.0.1:1/v1", include_response_headers=True))
    assert not is_openai_chat(make_chat_model("offline"))
    azure = AzureChatOpenAI(azure_endpoint="http://127.0.0.1:1", api_key="none", api_version="1", azure_deployment="d")
    assert not is_openai_chat(azure)
    assert not is_openai_chat(model.model_copy(update={"async_client": object()}))

    async def traced(self: object, **request: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(AsyncCompletions, "create", traced)  # as tracers of other makers do
    assert not is_openai_chat(model)
