"""Replies that are too long, packed bombs, and redirects, sent by a server on the wire."""

import gzip
import json
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import Field, SecretStr

from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.models import openai_chat
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.structured import KEPT_CALLS, LONGEST_REPLY, UNPARSED
from selfwire.store.journal import Journal, NullRecorder
from tests.models.wired import ASKED, KEY, PRICES, QUICK, metered
from tests.wire.server import Fault, WireServer, lying, raw

REPLY = {
    "id": "r", "object": "chat.completion", "created": 0, "model": "local",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}  # fmt: skip
SMALL = json.dumps(REPLY).encode()
MOST = 2**20
"""What the tests put in the place of `LARGEST_BODY`: longer bodies take seconds to pack and to send."""
BOMB = SMALL + b" " * (2 * MOST)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (raw(BOMB), "more than 1 MiB"),
        (raw(gzip.compress(BOMB), content_encoding="gzip"), "more than 1 MiB"),
        (raw(zlib.compress(BOMB), content_encoding="deflate"), "more than 1 MiB"),
        (raw(gzip.compress(BOMB), 500, content_encoding="gzip"), "more than 1 MiB"),
        (raw(gzip.compress(gzip.compress(BOMB)), content_encoding="gzip, gzip"), "packed more than once"),
        (raw(b"\x1b\x00", content_encoding="br"), "packed by 'br', where gzip or deflate"),
        (raw(b"(\xb5/\xfd", content_encoding="zstd"), "packed by 'zstd', where gzip or deflate"),
    ],
    ids=["plain", "gzip", "deflate", "an error's page", "packed twice", "br", "zstd"],
)
@pytest.mark.parametrize("ready", [False, True], ids=["by name", "ready"])
async def test_a_body_beyond_the_limit_is_an_error_at_once(
    wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, fault: Fault, told: str, ready: bool
) -> None:
    monkeypatch.setattr(openai_chat, "LARGEST_BODY", MOST)
    wire_server.always = fault
    model = metered(wire_server)
    if ready:
        chat = ChatOpenAI(model="local", base_url=wire_server.url, api_key=SecretStr(KEY), max_retries=0)
        model = MeteredModel(chat, policy=QUICK, prices=PRICES)
    with pytest.raises(ModelError, match=rf"{told}.*after 1 attempt"):
        await model.generate(ASKED, scope=Scope())
    assert len(wire_server.asked) == 1


async def test_a_class_that_is_built_on_langchains_openai_is_bounded_too(
    wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_chat, "LARGEST_BODY", MOST)
    wire_server.always = raw(BOMB)
    address = wire_server.url.removesuffix("/v1")
    chat = AzureChatOpenAI(azure_endpoint=address, api_version="1", model="m", api_key=SecretStr(KEY), max_retries=0)
    with pytest.raises(ModelError, match=r"more than 1 MiB.*after 1 attempt"):
        await MeteredModel(chat, policy=QUICK, prices=PRICES).generate(ASKED, scope=Scope())


class Endless(BaseChatModel):
    """A model of another provider, whose stream does not end; notes how much it has sent."""

    sent: list[int] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "endless"

    def _generate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
        calls = [{"name": "search", "args": {}, "id": str(number)} for number in range(2 * KEPT_CALLS)]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("x" * LONGEST_REPLY, tool_calls=calls))])

    def _stream(self, messages: Any, *args: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
        while sum(self.sent) < 20 * LONGEST_REPLY:
            self.sent.append(LONGEST_REPLY // 4)
            yield ChatGenerationChunk(message=AIMessageChunk(content="x" * self.sent[-1]))


async def test_a_reply_and_a_stream_of_another_provider_are_bounded() -> None:
    chat = Endless()
    model = MeteredModel(chat, policy=QUICK, prices=PRICES, journal=NullRecorder())
    reply = await model.generate(ASKED, scope=Scope())
    assert (len(reply.content), len(reply.tool_calls), reply.finish) == (LONGEST_REPLY, KEPT_CALLS, "length")
    async for _ in model.chat().astream("hello?"):
        pass
    assert LONGEST_REPLY < sum(chat.sent) < 3 * LONGEST_REPLY


@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity"])
async def test_a_packed_reply_of_usual_length_is_read(wire_server: WireServer, coding: str) -> None:
    packed = {"gzip": gzip.compress(SMALL), "deflate": zlib.compress(SMALL), "identity": SMALL}[coding]
    wire_server.always = raw(packed, content_encoding=coding)
    assert (await metered(wire_server).generate(ASKED, scope=Scope())).content == "hello"
    assert wire_server.asked[0].accepts == "gzip, deflate"


async def test_a_stream_beyond_the_limit_is_an_error(wire_server: WireServer) -> None:
    wire_server.always = raw(gzip.compress(b": " + b" " * (2 * openai_chat.LARGEST_BODY)), content_encoding="gzip")
    with pytest.raises(ModelError, match="more than 32 MiB"):
        async for _ in metered(wire_server).chat().astream("hello?"):
            pass


async def test_a_timeout_acts_while_a_body_is_unpacked(
    wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_chat, "LARGEST_BODY", 2**40)
    packer = zlib.compressobj(1, wbits=31)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    wire_server.always = raw(head + block * 2**10, content_encoding="gzip")
    start = time.thread_time()
    with pytest.raises(ModelError, match=r"no answer within 0\.3 seconds|timed out"):
        await metered(wire_server, QUICK.replace(timeout=0.3, retries=0)).generate(ASKED, scope=Scope())
    assert time.thread_time() - start < 1.5


async def test_a_long_reply_is_cut_and_counted_by_its_length(wire_server: WireServer) -> None:
    wire_server.always = lying({"content": "x" * (3 * LONGEST_REPLY)}, system_fingerprint="f" * LONGEST_REPLY)
    journal = Journal.memory()
    reply = await metered(wire_server, journal=journal).generate(ASKED, scope=Scope())
    assert (len(reply.content), reply.finish) == (LONGEST_REPLY, "length")
    assert reply.usage.output_tokens >= 3 * LONGEST_REPLY // 8
    (row,) = await journal.rows()
    assert len(json.dumps(row.reply)) < 1.1 * LONGEST_REPLY


async def test_long_arguments_become_a_text_that_is_no_json_and_many_calls_are_cut(
    wire_server: WireServer,
) -> None:
    def call(number: int, arguments: dict[str, Any]) -> dict[str, Any]:
        written = {"name": "add", "arguments": json.dumps(arguments)}
        return {"id": f"c{number}", "type": "function", "function": written}

    long = {"a": "x" * (LONGEST_REPLY + 1)}
    calls = [call(0, {"a": 1}), call(1, long), *(call(number, {}) for number in range(2, 5000))]
    wire_server.always = lying({"content": None, "tool_calls": calls})
    reply = await metered(wire_server).generate(ASKED, scope=Scope())
    assert len(reply.tool_calls) == KEPT_CALLS
    assert reply.tool_calls[0].arguments["a"] == 1
    told = [called.arguments[UNPARSED] for called in reply.tool_calls if UNPARSED in called.arguments]
    assert told == [f"arguments of {LONGEST_REPLY + 2:,} characters, which are too many"]
    assert reply.usage.output_tokens > LONGEST_REPLY // 8


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(wire_server: WireServer, status: int) -> None:
    wire_server.always = raw(b"", status, location=f"http://usr:secret@127.0.0.1:{wire_server.port}/v1/other?k=v")
    told = rf"{status} and redirects to 127.0.0.1, which is not.*after 1 attempt"
    with pytest.raises(ModelError, match=told) as error:
        await metered(wire_server).generate(ASKED, scope=Scope())
    assert "secret" not in str(error.value)
    assert len(wire_server.asked) == 1
