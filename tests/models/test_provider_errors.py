"""What a provider's error says about another try."""

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.outputs import ChatGenerationChunk

from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.models import openai_chat
from selfwire.models.openai_chat import ClientPerLoop
from selfwire.models.providers import ErrorCatcher, format_provider_error, get_retry_after, is_transient
from tests.models.wired import ASKED, metered
from tests.wire.server import WireServer, raw


def asked_to_wait(until: str) -> float | None:
    error = RuntimeError("slow down")
    error.response = SimpleNamespace(headers={"retry-after": until})  # type: ignore[attr-defined]
    return get_retry_after(error)


def test_a_provider_names_seconds_or_a_time() -> None:
    assert asked_to_wait("7.5") == 7.5
    assert asked_to_wait("-3") == 0
    in_an_hour = asked_to_wait(format_datetime(datetime.now(UTC) + timedelta(hours=1)))
    assert in_an_hour is not None
    assert 3000 < in_an_hour <= 3600
    assert asked_to_wait(format_datetime(datetime.now(UTC) - timedelta(hours=1))) == 0


@pytest.mark.parametrize("nonsense", ["soon", "", "Wed, 99 Nov 2026 99:00:00 GMT", "Wed, 25 Nov 2026 12:00:00"])
def test_a_time_that_is_none_is_no_wish(nonsense: str) -> None:
    assert asked_to_wait(nonsense) is None


class Unstreamed(GenericFakeChatModel):
    """A model of a server that answers the request of a stream with one JSON."""

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        return iter(())


def test_a_stream_without_a_piece_is_told_with_the_way_out() -> None:
    model = Unstreamed(messages=iter(()))
    with pytest.raises(ValueError, match="No generation") as raised:
        [*model.stream("Who?")]
    assert "sent no stream; if it cannot, give the model disable_streaming=True" in format_provider_error(
        raised.value, model
    )


class Keyed(GenericFakeChatModel):
    """A model of the user's own with its key as a plain text."""

    api_key: str = "plain-text-key-1a2b3c4d"


def test_a_key_that_a_model_of_ones_own_holds_as_plain_text_is_masked() -> None:
    model = Keyed(messages=iter(()))
    said = format_provider_error(ValueError(f"no answer to {model.api_key}"), model)
    assert model.api_key not in said
    assert "no answer to" in said


async def test_a_client_that_could_not_be_made_is_made_by_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sending:
        async def send(self, request: str) -> str:
            return f"sent {request}"

        async def aclose(self) -> None:
            pass

    faults = [OSError("no certificates")]

    def make(**options: object) -> Sending:
        if faults:
            raise faults.pop()
        return Sending()

    monkeypatch.setattr(openai_chat, "_BoundedClient", make)
    client = ClientPerLoop.__new__(ClientPerLoop)
    client._proxy_address = ""
    with pytest.raises(OSError, match="no certificates"):
        await client.send("one")
    assert await client.send("two") == "sent two"


async def test_what_a_client_raises_is_caught_and_what_cancels_the_task_is_not() -> None:
    with ErrorCatcher() as caught:
        raise asyncio.CancelledError  # the client's own: nobody cancelled this task
    assert isinstance(caught.error, asyncio.CancelledError)
    with ErrorCatcher() as caught:
        raise ValueError("no JSON")
    assert str(caught.error) == "no JSON"
    with ErrorCatcher() as caught:
        pass
    assert caught.error is None
    with pytest.raises(KeyboardInterrupt), ErrorCatcher():
        raise KeyboardInterrupt

    async def waits() -> None:
        with ErrorCatcher():
            await asyncio.sleep(60)

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"detail":[{"type":"missing","loc":["body","model"]}]}', 'Error code: 400 - {"detail": [{"type": "missing"'),
        ('{"error":"model q not found"}', "Error code: 400 - model q not found ("),
        ('[{"error":{"code":400,"message":"Unknown name"}}]', 'Error code: 400 - [{"error": {"code": 400, "message"'),
        ("no such key sk-secret-0123456789", "Error code: 400 - no such key *** ("),
    ],
)
async def test_the_reason_of_a_refusal_is_told_wherever_the_server_puts_it(
    body: str, told: str, wire_server: WireServer
) -> None:
    wire_server.always = raw(body.encode(), 400)
    with pytest.raises(ModelError, match=re.escape(told)):
        await metered(wire_server).generate(ASKED, scope=Scope())


def test_the_status_and_the_wish_of_an_error_that_another_one_wraps_are_found() -> None:
    """As langchain-google-genai wraps them; its provider asks in the body."""
    inner = RuntimeError("429 RESOURCE_EXHAUSTED. {'details': [{'retryDelay': '34.5s'}]}")
    inner.code = 429  # type: ignore[attr-defined]
    outer = RuntimeError(f"Error calling model 'g': {inner}")
    outer.__cause__ = inner
    assert is_transient(outer)
    assert get_retry_after(outer) == 34.5
    inner.response = SimpleNamespace(headers={"retry-after": "2"})  # type: ignore[attr-defined]
    assert get_retry_after(outer) == 2


async def test_a_request_that_a_filter_refuses_is_no_fault_of_the_key(wire_server: WireServer) -> None:
    told = {"error": {"message": "The response was filtered", "code": "content_filter"}}
    wire_server.always = raw(json.dumps(told).encode(), 400)
    with pytest.raises(ModelError, match=r"The response was filtered .*; change what the message names") as failed:
        await metered(wire_server).generate(ASKED, scope=Scope())
    assert "the key" not in str(failed.value)
