"""Servers that take objects in other forms than a JSON schema, through the real ChatOpenAI client."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from pydantic import BaseModel

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget
from selfwire.models import structured
from selfwire.models.budget import Ledger
from selfwire.models.structured import Mode, recall_modes
from selfwire.store.journal import Journal
from tests.models.wired import ASKED, QUICK, Verdict, metered
from tests.wire.server import Fault, WireServer, broken, cut_off, text

GOOD = {"good": True, "reasons": ["short"], "note": ""}
LLAMA = Fault(
    status=500,
    message="[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), "
    "'msg': \"Input should be 'text' or 'json_object'\", 'input': 'json_schema'}]",
)
NO_TOOLS = Fault(status=500, message="tools param requires --jinja flag")
NO_JSON = Fault(status=400, message="Unrecognized request argument supplied: response_format")


class Choice(BaseModel):
    option: str


def mode_of(body: dict[str, Any]) -> Mode:
    if body.get("tool_choice"):
        return "tool"
    formats: dict[str, Mode] = {"json_schema": "native", "json_object": "json"}
    return formats[body["response_format"]["type"]] if "response_format" in body else "prompt"


def refusing(*modes: Mode, fault: Fault | None = None) -> Callable[[dict[str, Any]], Fault | None]:
    faults = {"native": LLAMA, "tool": NO_TOOLS, "json": NO_JSON}
    return lambda body: (fault or faults[mode_of(body)]) if mode_of(body) in modes else None


async def objects(body: dict[str, Any]) -> AIMessage:
    if mode_of(body) != "tool":
        return AIMessage(json.dumps(GOOD))
    return AIMessage("", tool_calls=[{"name": body["tool_choice"]["function"]["name"], "args": GOOD, "id": "1"}])


@pytest.fixture
def server(wire_server: WireServer) -> WireServer:
    wire_server.answer = objects
    return wire_server


def modes_asked(server: WireServer) -> list[Mode]:
    return [mode_of(asked.body) for asked in server.asked]


@pytest.mark.parametrize(
    ("refused", "tried"),
    [
        ((), ["native"]),
        (("native",), ["native", "tool"]),
        (("native", "tool"), ["native", "tool", "json"]),
        (("native", "tool", "json"), ["native", "tool", "json", "prompt"]),
    ],
)
async def test_the_mode_is_found_at_the_first_refusal_and_told_once(
    server: WireServer, refused: tuple[Mode, ...], tried: list[Mode], caplog: pytest.LogCaptureFixture
) -> None:
    server.picky = refusing(*refused)
    model = metered(server, QUICK.replace(retries=0), ledger=Ledger(Budget(calls=2)))
    for task in ("a", "b"):
        verdict, usage = await model.generate_structured(Verdict, ASKED, scope=Scope(task=task))
        assert (verdict.good, usage.calls) == (True, 1)
    assert modes_asked(server) == [*tried, tried[-1]]
    assert model.ledger.spent.calls == 2
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == (len(tried) > 1)
    for line in said:
        assert line.startswith(f"openai:local at {server.url.removesuffix('/v1')} ")
        assert f"--structured {tried[-1]}" in line


async def test_the_schema_is_in_the_prompt_where_the_server_does_not_know_it(server: WireServer) -> None:
    server.picky = refusing("native", "tool", "json")
    await metered(server).generate_structured(Verdict, ASKED, scope=Scope())
    told = ['"reasons"' in asked.body["messages"][-1]["content"] for asked in server.asked]
    assert told == [False, False, True, True]
    assert [message["role"] for message in server.asked[-1].body["messages"]] == ["system", "user"]


async def test_many_first_calls_at_once_settle_on_one_mode_and_tell_it_once(
    server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.picky = refusing("native", "tool")
    server.delay = 0.02
    model = metered(server, ledger=Ledger(Budget(calls=24)))
    asks = [model.generate_structured(Verdict, ASKED, scope=Scope(task=f"t{i}")) for i in range(24)]
    found = await asyncio.gather(*asks)
    assert all(verdict.good and usage.calls == 1 for verdict, usage in found)
    assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) == 1
    before = len(server.asked)
    await metered(server).generate_structured(Verdict, ASKED, scope=Scope())
    assert modes_asked(server)[before:] == ["json"]


async def test_a_resumed_run_begins_with_the_mode_that_it_has_found(
    server: WireServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server.picky = refusing("native", "tool")
    journal = Journal.memory()
    await metered(server, journal=journal).generate_structured(Verdict, ASKED, scope=Scope())
    monkeypatch.setattr(structured, "_known", {})  # another process
    await recall_modes(journal)
    await metered(server, journal=journal).generate_structured(Verdict, ASKED, scope=Scope(task="next"))
    assert modes_asked(server) == ["native", "tool", "json", "json"]
    assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) == 1


async def test_a_mode_that_the_user_sets_is_kept_and_its_refusal_is_no_transient_error(server: WireServer) -> None:
    server.picky = refusing("native")
    with pytest.raises(ModelError, match=r"after 1 attempt.*--structured auto"):
        await metered(server, QUICK.replace(structured="native")).generate_structured(Verdict, ASKED, scope=Scope())
    await metered(server, QUICK.replace(structured="json")).generate_structured(Verdict, ASKED, scope=Scope())
    assert modes_asked(server) == ["native", "json"]


async def test_an_error_that_is_none_of_the_form_is_retried_in_the_same_mode(server: WireServer) -> None:
    server.faults += [broken(), cut_off(), broken()]
    await metered(server).generate_structured(Verdict, ASKED, scope=Scope())
    assert modes_asked(server) == ["native"] * 4


async def test_a_server_that_breaks_without_a_word_at_a_form_is_asked_in_another_one_after_all_retries(
    server: WireServer,
) -> None:
    server.picky = refusing("native", "tool", fault=broken())
    model = metered(server, QUICK.replace(retries=2))
    for task in "abc":
        await model.generate_structured(Verdict, ASKED, scope=Scope(task=task))
    once = ["native", "native", "native", "tool", "json"]
    assert modes_asked(server) == [*once, *once, "json"]  # a server that was out of order is back at the second request


async def test_a_server_that_was_out_of_order_for_long_is_asked_as_before(server: WireServer) -> None:
    server.faults += [broken(), broken()]
    model = metered(server, QUICK.replace(retries=1))
    for task in "ab":
        await model.generate_structured(Verdict, ASKED, scope=Scope(task=task))
    assert modes_asked(server) == ["native", "native", "tool", "native"]


async def test_a_broken_connection_after_all_retries_is_no_reason_for_another_form(server: WireServer) -> None:
    server.faults += [broken(), broken(), cut_off()]
    with pytest.raises(ModelError, match="after 3 attempt"):
        await metered(server, QUICK.replace(retries=2)).generate_structured(Verdict, ASKED, scope=Scope())
    assert modes_asked(server) == ["native"] * 3


@pytest.mark.parametrize("status", [401, 403, 429, 503])
async def test_a_word_about_tools_in_an_error_of_keys_or_load_is_no_refusal(server: WireServer, status: int) -> None:
    server.faults.append(Fault(status=status, message="no capacity for response_format and tools"))
    model = metered(server)
    if status < 429:
        with pytest.raises(ModelError, match="1 attempt"):
            await model.generate_structured(Verdict, ASKED, scope=Scope())
    else:
        await model.generate_structured(Verdict, ASKED, scope=Scope())
    assert set(modes_asked(server)) == {"native"}


async def test_a_schema_that_a_server_refuses_changes_nothing_for_others(
    server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    def picky(body: dict[str, Any]) -> Fault | None:
        is_choice = "option" in json.dumps(body.get("response_format", {}))
        return Fault(status=400, message="Invalid schema for response_format 'Choice'") if is_choice else None

    async def answer(body: dict[str, Any]) -> AIMessage:
        if "Choice" not in json.dumps(body.get("tools", "")):
            return await objects(body)
        return AIMessage("", tool_calls=[{"name": "Choice", "args": {"option": "a"}, "id": "1"}])

    server.picky, server.answer = picky, answer
    model = metered(server)
    for task in "ab":
        await model.generate_structured(Verdict, ASKED, scope=Scope(task=task))
        await model.generate_structured(Choice, ASKED, scope=Scope(task=task))
    assert modes_asked(server) == ["native", "native", "tool", "native", "tool"]
    assert not caplog.records


async def test_a_server_that_ignores_the_form_is_asked_again_with_the_schema_and_then_otherwise(
    server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(body: dict[str, Any]) -> AIMessage:
        told = "of this schema" in body["messages"][-1]["content"]
        return AIMessage(json.dumps(GOOD) if told else "It is good, I think.")

    server.answer = answer
    model = metered(server)
    for task in "abc":
        verdict, _ = await model.generate_structured(Verdict, ASKED, scope=Scope(task=task))
        assert verdict.good
    assert modes_asked(server) == ["native", "tool", "tool", "json", "json"]
    assert "--structured json" in caplog.text


async def test_a_server_without_tools_is_no_outage_and_is_asked_once(server: WireServer) -> None:
    server.always = NO_TOOLS
    tool = ToolSpec(name="add", description="adds", parameters={"type": "object", "properties": {}})
    with pytest.raises(ModelError, match=r"after 1 attempt.*takes no tools"):
        await metered(server).generate(ASKED, scope=Scope(), tools=[tool])
    assert len(server.asked) == 1


async def test_a_timeout_above_that_of_the_client_is_heeded(
    wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("selfwire.models.providers.TIMEOUT", 0.2)
    wire_server.delay = 0.6
    wire_server.answer = text("late")
    reply = await metered(wire_server, QUICK.replace(retries=0)).generate(ASKED, scope=Scope())
    assert reply.content == "late"
