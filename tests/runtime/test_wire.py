"""The real ChatOpenAI client against a local server, through the metered model."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, ConfigDict, Field

from selfwire.core.chat import ChatMessage, ToolSpec
from selfwire.core.errors import BudgetError, ConfigError, ModelError, ReplyError
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget
from selfwire.runtime.budget import Ledger
from selfwire.runtime.journal import Journal
from selfwire.runtime.metered import CallPolicy, MeteredModel
from selfwire.runtime.models import chat_model
from selfwire.runtime.prices import Price, Prices
from selfwire.runtime.throttle import throttle
from tests.wire.server import (
    WireServer,
    broken,
    cut_off,
    hanging,
    rate_limited,
    refused,
    saying,
    text,
)

KEY = "sk-secret-0123456789"
PRICES = Prices(table={"openai:local": Price(input=1.0, output=2.0)})
QUICK = CallPolicy(timeout=5.0, retries=3, backoff=0.01)
ASKED = [ChatMessage.system("be kind"), ChatMessage.user("hello?")]


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    good: bool
    reasons: list[str] = Field(max_length=3)
    note: str = ""


async def until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110 - it happens in the server's thread
        await asyncio.sleep(0.005)


def metered(server: WireServer, policy: CallPolicy = QUICK, **options: Any) -> MeteredModel:
    model = chat_model("openai:local", base_url=server.url, api_key=KEY, max_tokens=50)
    return MeteredModel(model, policy=policy, **{"prices": PRICES, **options})


async def test_a_reply_has_text_usage_and_price(wire_server: WireServer) -> None:
    reply = await metered(wire_server).reply(ASKED, scope=Scope(), temperature=0.3)
    sent = wire_server.asked[0].body
    assert reply.content == "hello"
    assert reply.usage.calls == 1
    assert reply.usage.dollars == pytest.approx((reply.usage.input_tokens + 2 * reply.usage.output_tokens) / 1e6)
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert sent["temperature"] == 0.3


async def test_seed_and_sample_reach_the_provider(wire_server: WireServer) -> None:
    model = metered(wire_server)
    for sample in (0, 1):
        await model.reply(ASKED, scope=Scope(seed=7, sample=sample))
    first, second = (asked.body["seed"] for asked in wire_server.asked)
    assert first == 7
    assert second != first


async def test_tools_go_out_as_functions_and_come_back_as_calls(wire_server: WireServer) -> None:
    async def call(_: dict[str, Any]) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": "add", "args": {"a": 2}, "id": "c1"}])

    wire_server.answer = call
    add = ToolSpec(
        name="add", description="adds", parameters={"type": "object", "properties": {"a": {"type": "integer"}}}
    )
    model = metered(wire_server)
    reply = await model.reply(ASKED, scope=Scope(), tools=[add])
    assert wire_server.asked[0].body["tools"][0]["function"]["name"] == "add"
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [("add", {"a": 2})]
    wire_server.answer = text("done")
    conversation = [*ASKED, reply.message, ChatMessage.tool(reply.tool_calls[0], "2")]
    assert (await model.reply(conversation, scope=Scope(), tools=[add])).content == "done"
    assert wire_server.asked[1].body["messages"][-1] == {"role": "tool", "content": "2", "tool_call_id": "c1"}


async def test_a_structured_ask_sends_a_strict_schema(wire_server: WireServer) -> None:
    wire_server.answer = text('{"good": true, "reasons": ["short"], "note": ""}')
    verdict, usage = await metered(wire_server).ask(Verdict, ASKED, scope=Scope())
    wanted = wire_server.asked[0].body["response_format"]["json_schema"]
    assert verdict == Verdict(good=True, reasons=["short"])
    assert usage.calls == 1
    assert (wanted["name"], wanted["strict"]) == ("Verdict", True)
    assert wanted["schema"]["required"] == ["good", "reasons", "note"]


async def test_a_model_that_is_asked_in_words_gets_the_schema_in_its_prompt(wire_server: WireServer) -> None:
    wire_server.answer = text('Sure!\n```json\n{"good": false, "reasons": []}\n```')
    verdict, _ = await metered(wire_server, QUICK.replace(structured="prompt")).ask(Verdict, ASKED, scope=Scope())
    assert not verdict.good
    assert "response_format" not in wire_server.asked[0].body
    assert '"reasons"' in wire_server.asked[0].body["messages"][-1]["content"]


async def test_a_server_without_response_formats_can_be_asked_by_a_forced_tool_call(wire_server: WireServer) -> None:
    async def call(body: dict[str, Any]) -> AIMessage:
        name = body["tool_choice"]["function"]["name"]
        return AIMessage(
            "", tool_calls=[{"name": name, "args": {"good": True, "reasons": ["x"], "note": ""}, "id": "1"}]
        )

    wire_server.answer = call
    policy = QUICK.replace(structured="function_calling")
    verdict, _ = await metered(wire_server, policy).ask(Verdict, ASKED, scope=Scope())
    assert verdict == Verdict(good=True, reasons=["x"])
    assert "response_format" not in wire_server.asked[0].body


async def test_json_that_lost_its_end_is_repaired(wire_server: WireServer) -> None:
    wire_server.faults.append(saying('{"good": true, "reasons": ["a", "b"'))
    verdict, usage = await metered(wire_server).ask(Verdict, ASKED, scope=Scope())
    assert verdict.reasons == ["a", "b"]
    assert usage.calls == len(wire_server.asked) == 1


@pytest.mark.parametrize("first", [saying('{"good": tr', "length"), saying('{"good": "perhaps", "reasons": []}')])
async def test_what_cannot_be_repaired_is_asked_again_with_the_error(wire_server: WireServer, first: Any) -> None:
    wire_server.answer = text('{"good": false, "reasons": [], "note": ""}')
    wire_server.faults.append(first)
    verdict, usage = await metered(wire_server).ask(Verdict, ASKED, scope=Scope())
    assert not verdict.good
    assert usage.calls == 2
    assert wire_server.asked[1].body["messages"][-2]["content"] == first.content
    assert "not what was asked for" in wire_server.asked[1].body["messages"][-1]["content"]


async def test_two_invalid_replies_are_a_reply_error(wire_server: WireServer) -> None:
    with pytest.raises(ReplyError, match=r"openai:local gave no valid Verdict at gate/t1"):
        await metered(wire_server).ask(Verdict, ASKED, scope=Scope(phase="gate", task="t1"))
    assert len(wire_server.asked) == 2


class State(TypedDict):
    said: str


def one_node(node: Any) -> Any:
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph.compile()


async def test_calls_inside_a_langgraph_node_stream_their_tokens_and_carry_tags(wire_server: WireServer) -> None:
    wire_server.answer = text("one two three four five six")
    model = metered(wire_server).labelled(method="hiva", workflow="abc")
    replies = []

    async def node(state: State) -> State:
        replies.append(await model.reply(ASKED, scope=Scope(run="r", task="t1", node="solver")))
        return {"said": replies[0].content}

    pieces: list[Any] = [piece async for piece in one_node(node).astream({"said": ""}, stream_mode="messages")]
    texts = [str(message.content) for message, _ in pieces if isinstance(message, AIMessageChunk)]
    assert "".join(texts) == replies[0].content == "one two three four five six"
    assert len([piece for piece in texts if piece]) > 1
    told = pieces[0][1]
    assert told["langgraph_node"] == "node"
    assert (told["selfwire_method"], told["selfwire_agent"], told["selfwire_task"]) == ("hiva", "solver", "t1")
    assert {"method:hiva", "workflow:abc", "agent:solver"} <= set(told["tags"])
    assert (replies[0].model, replies[0].finish) == ("local", "stop")
    assert 0 < replies[0].usage.output_tokens < 10


@pytest.mark.parametrize("fault", [broken(), cut_off(), saying(""), saying('{"good": tr', "length")])
async def test_a_structured_ask_that_streams_survives_faults_too(wire_server: WireServer, fault: Any) -> None:
    wire_server.answer = text('{"good": false, "reasons": [], "note": "streamed"}')
    wire_server.faults.append(fault)
    model = metered(wire_server)

    async def node(state: State) -> State:
        verdict, _ = await model.ask(Verdict, ASKED, scope=Scope())
        return {"said": verdict.note}

    stream = one_node(node).astream({"said": ""}, stream_mode=["messages", "updates"])
    *_, last = [piece async for piece in stream]
    assert last == ("updates", {"node": {"said": "streamed"}})
    assert [asked.body["stream"] for asked in wire_server.asked] == [True, True]


async def test_nothing_blocks_the_event_loop(wire_server: WireServer, tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "r.sqlite", run="r")
    model = metered(wire_server, journal=journal, ledger=Ledger(Budget(calls=100)))
    with blockbuster_ctx():  # raises where `langgraph dev` would
        await asyncio.gather(*(model.reply(ASKED, scope=Scope(task=f"t{i % 5}")) for i in range(10)))
        await journal.note("status", "done")
        assert len(await journal.rows()) == 5
    journal.close()


async def test_a_retry_after_pauses_every_worker(wire_server: WireServer) -> None:
    wire_server.faults.append(rate_limited(after=0.5))
    model = metered(wire_server)
    first = asyncio.create_task(model.reply(ASKED, scope=Scope(task="t0")))
    gate = throttle(f"openai {wire_server.url}", QUICK.concurrency, QUICK.per_minute)
    await until(lambda: gate.paused > 0)
    others = [model.reply(ASKED, scope=Scope(task=f"t{i}")) for i in range(1, 5)]
    replies = await asyncio.gather(first, *others)
    start, *later = (asked.at for asked in wire_server.asked)
    assert [reply.content for reply in replies] == ["hello"] * 5
    assert len(later) == 5
    assert min(later) - start >= 0.45


async def test_a_retry_after_longer_than_patience_is_an_error(wire_server: WireServer) -> None:
    wire_server.faults.append(rate_limited(after=3600))
    with pytest.raises(ModelError, match="asks to wait 3,600 s"):
        await metered(wire_server).reply(ASKED, scope=Scope())


@pytest.mark.parametrize("fault", [broken(), cut_off(), saying("")], ids=["500", "cut-off body", "empty reply"])
async def test_a_transient_fault_is_tried_again(wire_server: WireServer, fault: Any) -> None:
    wire_server.faults.append(fault)
    model = metered(wire_server)
    reply = await model.reply(ASKED, scope=Scope())
    assert reply.content == "hello"
    assert len(wire_server.asked) == 2
    assert reply.usage.calls == (2 if fault.content == "" else 1)  # an empty reply was billed
    assert model.journal.spend() == reply.usage.replace(seconds=model.journal.spend().seconds)


async def test_a_second_empty_reply_is_an_error_that_was_billed(wire_server: WireServer) -> None:
    wire_server.always = saying("")
    model = metered(wire_server)
    with pytest.raises(ModelError, match=r"2 attempt.*empty reply"):
        await model.reply(ASKED, scope=Scope())
    assert model.ledger.spent.calls == 2


async def test_a_hang_is_given_up_after_the_timeout_and_the_request_is_dropped(wire_server: WireServer) -> None:
    wire_server.faults.append(hanging(30))
    reply = await metered(wire_server, QUICK.replace(timeout=0.3)).reply(ASKED, scope=Scope())
    assert reply.content == "hello"
    assert len(wire_server.asked) == 2
    await until(lambda: bool(wire_server.cancelled))


async def test_a_refused_key_fails_at_once_and_is_not_told(wire_server: WireServer) -> None:
    wire_server.always = refused(f"Incorrect API key provided: {KEY}")
    model = metered(wire_server)
    with pytest.raises(ModelError, match="1 attempt") as error:
        await model.reply(ASKED, scope=Scope())
    assert len(wire_server.asked) == 1
    assert wire_server.asked[0].authorization == f"Bearer {KEY}"
    noted = json.dumps([row.error for row in await model.journal.rows()])
    assert "secret" not in f"{error.value!r} {error.value.__cause__} {noted}"


async def test_a_provider_that_stays_down_is_an_error_and_the_call_is_sent_again_later(wire_server: WireServer) -> None:
    wire_server.always = broken()
    model = metered(wire_server)
    with pytest.raises(ModelError, match="rollout/t1 after 4 attempt"):
        await model.reply(ASKED, scope=Scope(phase="rollout", task="t1"))
    assert len(wire_server.asked) == 4
    assert [(row.state, row.failures) for row in await model.journal.rows()] == [("failed", 1)]
    wire_server.always = None
    assert (await model.reply(ASKED, scope=Scope(phase="rollout", task="t1"))).content == "hello"
    assert [(row.state, row.failures) for row in await model.journal.rows()] == [("settled", 1)]


async def test_a_server_that_is_not_there_is_an_error() -> None:
    with WireServer(text("hello")) as server:
        model = metered(server, QUICK.replace(retries=1))
    with pytest.raises(ModelError, match="2 attempt"):
        await model.reply(ASKED, scope=Scope())


async def test_the_concurrency_limit_holds_over_all_models_of_a_provider(wire_server: WireServer) -> None:
    wire_server.delay = 0.05
    models = [metered(wire_server, QUICK.replace(concurrency=3)) for _ in range(2)]
    await asyncio.gather(*(models[i % 2].reply(ASKED, scope=Scope(task=f"t{i}")) for i in range(12)))
    assert wire_server.most_active == 3


async def test_a_budget_of_calls_binds_under_concurrency(wire_server: WireServer) -> None:
    wire_server.delay = 0.02
    model = metered(wire_server, ledger=Ledger(Budget(calls=5)))
    calls = [model.reply(ASKED, scope=Scope(task=f"t{i}")) for i in range(20)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert len(wire_server.asked) == 5
    assert sum(isinstance(outcome, BudgetError) for outcome in outcomes) == 15
    assert model.journal.unknown() == (0, 0)  # what was refused was not sent


async def test_a_budget_of_dollars_binds(wire_server: WireServer) -> None:
    model = metered(wire_server, ledger=Ledger(Budget(dollars=0.0005)))

    async def calls() -> None:
        for visit in range(100):
            await model.reply(ASKED, scope=Scope(visit=visit))

    with pytest.raises(BudgetError, match=r"of \$0.0005 dollars"):
        await calls()
    assert 0 < (model.ledger.spent.dollars or 0) <= 0.0005
    assert len(wire_server.asked) >= 2


def test_a_budget_of_dollars_is_refused_for_a_model_without_a_price(wire_server: WireServer) -> None:
    with pytest.raises(ConfigError, match="price of openai:local is not known"):
        metered(wire_server, ledger=Ledger(Budget(dollars=1)), prices=Prices.load())


async def test_a_cancelled_call_is_dropped_and_stays_unknown(wire_server: WireServer) -> None:
    wire_server.delay = 30
    model = metered(wire_server)
    call = asyncio.create_task(model.reply(ASKED, scope=Scope()))
    await until(lambda: bool(wire_server.asked))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: bool(wire_server.cancelled))
    rows, at_most = model.journal.unknown()
    assert rows == 1
    assert at_most > 50
    assert model.ledger.spent.calls == 0


async def test_a_request_that_is_too_long_is_cut_and_says_so(wire_server: WireServer) -> None:
    model = metered(wire_server, QUICK.replace(max_input_tokens=600))
    call = ChatMessage(role="assistant", content="old " * 1000)
    reply = await model.reply([*ASKED, call, ChatMessage.user("new " * 100)], scope=Scope())
    sent = wire_server.asked[0].body["messages"]
    assert len(sent[2]["content"]) < 2000
    assert sent[3]["content"] == "new " * 100
    assert reply.metadata["trimmed"][0]["message"] == 2
    assert reply.metadata["trimmed"][0]["characters"] > 2000
