"""The real ChatOpenAI client against a local server, through the metered model."""

import asyncio
import ssl
from pathlib import Path
from typing import Any, ClassVar, TypedDict

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.graph import END, START, StateGraph
from openai import DefaultAsyncHttpxClient

from selfwire.core.chat import ChatMessage, Reply, ToolSpec
from selfwire.core.errors import ModelError, ReplyError
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget
from selfwire.models import openai_chat
from selfwire.models.budget import Ledger
from selfwire.models.limits import CallSettings
from selfwire.models.providers import is_transient
from selfwire.models.structured import Mode
from selfwire.store.journal import Journal
from tests.models.wired import ASKED, QUICK, Verdict, metered, until
from tests.wire.server import WireServer, broken, cut_off, refused, saying, text


async def test_a_reply_has_text_usage_and_price(wire_server: WireServer) -> None:
    reply = await metered(wire_server).generate(ASKED, scope=Scope(), temperature=0.3)
    sent = wire_server.asked[0].body
    assert reply.content == "hello"
    assert reply.usage.calls == 1
    assert reply.usage.dollars == pytest.approx((reply.usage.input_tokens + 2 * reply.usage.output_tokens) / 1e6)
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert sent["temperature"] == 0.3


async def test_seed_and_sample_reach_the_provider(wire_server: WireServer) -> None:
    model = metered(wire_server)
    for sample in (0, 1):
        await model.generate(ASKED, scope=Scope(seed=7, sample=sample))
    first, second = (asked.body["seed"] for asked in wire_server.asked)
    assert first == 7
    assert second != first


async def test_tools_go_out_as_functions_and_come_back_as_calls(wire_server: WireServer) -> None:
    async def call(_: dict[str, Any]) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": "add", "args": {"a": 2}, "id": "c1"}])

    wire_server.answer = call
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
    add = ToolSpec(name="add", description="adds", parameters=parameters)
    model = metered(wire_server)
    reply = await model.generate(ASKED, scope=Scope(), tools=[add])
    assert wire_server.asked[0].body["tools"][0]["function"]["name"] == "add"
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [("add", {"a": 2})]
    wire_server.answer = text("done")
    conversation = [*ASKED, reply.message, ChatMessage.tool(reply.tool_calls[0], "2")]
    assert (await model.generate(conversation, scope=Scope(), tools=[add])).content == "done"
    assert wire_server.asked[1].body["messages"][-1] == {"role": "tool", "content": "2", "tool_call_id": "c1"}


async def test_a_structured_ask_sends_a_strict_schema(wire_server: WireServer) -> None:
    wire_server.answer = text('{"good": true, "reasons": ["short"], "note": ""}')
    verdict, usage = await metered(wire_server).generate_structured(Verdict, ASKED, scope=Scope())
    wanted = wire_server.asked[0].body["response_format"]["json_schema"]
    assert verdict == Verdict(good=True, reasons=["short"])
    assert usage.calls == 1
    assert (wanted["name"], wanted["strict"]) == ("Verdict", True)
    assert wanted["schema"]["required"] == ["good", "reasons", "note"]


async def test_a_model_that_is_asked_in_words_gets_the_schema_in_its_prompt(wire_server: WireServer) -> None:
    wire_server.answer = text('Sure!\n```json\n{"good": false, "reasons": []}\n```')
    verdict, _ = await metered(wire_server, QUICK.replace(structured="prompt")).generate_structured(
        Verdict, ASKED, scope=Scope()
    )
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
    policy = QUICK.replace(structured="tool")
    verdict, _ = await metered(wire_server, policy).generate_structured(Verdict, ASKED, scope=Scope())
    assert verdict == Verdict(good=True, reasons=["x"])
    assert "response_format" not in wire_server.asked[0].body


async def test_json_that_lost_its_end_is_repaired(wire_server: WireServer) -> None:
    wire_server.faults.append(saying('{"good": true, "reasons": ["a", "b"'))
    verdict, usage = await metered(wire_server).generate_structured(Verdict, ASKED, scope=Scope())
    assert verdict.reasons == ["a", "b"]
    assert usage.calls == len(wire_server.asked) == 1


@pytest.mark.parametrize("first", [saying('{"good": tr', "length"), saying('{"good": "perhaps", "reasons": []}')])
async def test_what_cannot_be_repaired_is_asked_again_with_the_error(wire_server: WireServer, first: Any) -> None:
    wire_server.answer = text('{"good": false, "reasons": [], "note": ""}')
    wire_server.faults.append(first)
    verdict, usage = await metered(wire_server).generate_structured(Verdict, ASKED, scope=Scope())
    assert not verdict.good
    assert usage.calls == 2
    assert wire_server.asked[1].body["messages"][-2]["content"] == first.content
    assert "not what was asked for" in wire_server.asked[1].body["messages"][-1]["content"]


async def test_two_invalid_replies_are_a_reply_error(wire_server: WireServer) -> None:
    model = metered(wire_server)
    with pytest.raises(ReplyError, match=r"openai:local gave no valid Verdict at gate/t1") as invalid:
        await model.generate_structured(Verdict, ASKED, scope=Scope(phase="gate", task="t1"))
    assert len(wire_server.asked) == 2
    assert invalid.value.cost is not None
    assert invalid.value.cost.calls == model.ledger.spent.calls == 2


@pytest.mark.parametrize(("mode", "advised"), [("native", True), ("json", True), ("prompt", False)])
async def test_an_invalid_reply_advises_mode_prompt_where_it_is_another_one(
    mode: Mode, advised: bool, wire_server: WireServer
) -> None:
    with pytest.raises(ReplyError, match="try another model") as invalid:
        await metered(wire_server, QUICK.replace(structured=mode)).generate_structured(Verdict, ASKED, scope=Scope())
    assert ("--structured prompt" in str(invalid.value)) is advised


async def test_an_ask_that_fails_when_it_is_repeated_tells_what_both_attempts_cost(wire_server: WireServer) -> None:
    wire_server.faults += [saying("no object"), refused()]
    model = metered(wire_server)
    with pytest.raises(ModelError) as failed:
        await model.generate_structured(Verdict, ASKED, scope=Scope())
    assert failed.value.cost is not None
    assert failed.value.cost.calls == model.ledger.spent.calls == 1


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
    model = metered(wire_server).with_labels(method="hiva", workflow="abc")
    replies = []

    async def node(state: State) -> State:
        replies.append(await model.generate(ASKED, scope=Scope(run="r", task="t1", node="solver")))
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
        verdict, _ = await model.generate_structured(Verdict, ASKED, scope=Scope())
        return {"said": verdict.note}

    stream = one_node(node).astream({"said": ""}, stream_mode=["messages", "updates"])
    *_, last = [piece async for piece in stream]
    assert last == ("updates", {"node": {"said": "streamed"}})
    assert [asked.body["stream"] for asked in wire_server.asked] == [True, True]


async def test_nothing_blocks_the_event_loop(wire_server: WireServer, tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "r.sqlite", run="r")
    model = metered(wire_server, journal=journal, ledger=Ledger(Budget(calls=100)))
    with blockbuster_ctx():  # raises where `langgraph dev` would
        await asyncio.gather(*(model.generate(ASKED, scope=Scope(task=f"t{i % 5}")) for i in range(10)))
        await journal.put_note("status", "done")
        assert len(await journal.rows()) == 5
    journal.close()


def test_one_model_serves_one_event_loop_after_another(wire_server: WireServer) -> None:
    model = metered(wire_server, policy=CallSettings(retries=0))

    async def both(phase: str) -> list[str]:
        asked = (model.generate(ASKED, scope=Scope(phase=phase, task=task)) for task in "ab")
        return [reply.content for reply in await asyncio.gather(*asked)]

    assert asyncio.run(both("first")) == asyncio.run(both("second")) == ["hello", "hello"]
    assert len(wire_server.asked) == 4


async def test_calls_that_start_together_share_one_client(
    wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, bounded = list[DefaultAsyncHttpxClient](), openai_chat._BoundedClient

    def client(**options: Any) -> DefaultAsyncHttpxClient:
        made.append(bounded(**options))
        return made[-1]

    monkeypatch.setattr(openai_chat, "_BoundedClient", client)
    served = metered(wire_server)
    calls = [asyncio.create_task(served.generate(ASKED, scope=Scope(sample=n))) for n in range(9)]
    while not any(loop is asyncio.get_running_loop() for loop, _ in openai_chat._pools):  # noqa: ASYNC110
        await asyncio.sleep(0)  # between two longer looks the first call may end
    calls[0].cancel()  # whoever asked first gives up
    replies = await asyncio.gather(*calls, return_exceptions=True)
    assert [reply.content for reply in replies if isinstance(reply, Reply)] == ["hello"] * 8
    assert len(made) == 1


async def test_a_burst_leaves_few_connections_that_later_calls_look_at(
    wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, connections = metered(wire_server), wire_server._server.server_state.connections
    wire_server.delay = 1.0
    await asyncio.gather(*(served.generate(ASKED, scope=Scope(sample=n)) for n in range(20)))
    assert len(connections) == wire_server.most_active == 20
    wire_server.delay = 0.0
    await served.generate(ASKED, scope=Scope(sample=20))
    assert len(connections) == 20
    monkeypatch.setattr(openai_chat, "IDLE", 0.2)
    await asyncio.sleep(0.3)
    await served.generate(ASKED, scope=Scope(sample=21))
    async with asyncio.timeout(60):
        await until(lambda: len(connections) == openai_chat.CONNECTIONS)
    await asyncio.gather(*(served.generate(ASKED, scope=Scope(sample=n)) for n in range(30, 50)))
    assert len(wire_server.asked) == 42


def test_models_of_all_servers_and_loops_share_what_was_read_of_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[object]()
    monkeypatch.setenv("SSL_CERT_FILE", "certificates of this test alone")
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *given: read.append(given[1]))
    for _ in range(2):
        with WireServer(text("hello")) as server:
            model = metered(server)
            assert asyncio.run(model.generate(ASKED, scope=Scope())).content == "hello"
    assert read == ["certificates of this test alone"]


def test_a_connection_of_a_closed_loop_is_worth_another_try() -> None:
    assert is_transient(RuntimeError("Event loop is closed"))
    assert not is_transient(RuntimeError("something else"))


class ShortVerdict(Verdict):
    MAX_TOKENS: ClassVar[int] = 20


async def test_a_kind_of_reply_has_its_own_limit_and_a_reply_that_was_cut_is_asked_for_without_it(
    wire_server: WireServer,
) -> None:
    wire_server.answer = text('{"good": true, "reasons": []}')
    wire_server.faults.append(saying('{"good": tr', finish="length"))
    verdict, usage = await metered(wire_server).generate_structured(ShortVerdict, ASKED, scope=Scope())
    assert (verdict.good, usage.calls) == (True, 2)
    assert [asked.body["max_tokens"] for asked in wire_server.asked] == [20, 50]
    await metered(wire_server).generate_structured(Verdict, ASKED, scope=Scope())
    assert wire_server.asked[-1].body["max_tokens"] == 50


@pytest.mark.parametrize(
    ("temperature", "places", "sent"),
    [
        (0.0, [{"node": "a"}, {"node": "b", "phase": "gate"}, {"node": "b", "iteration": 2, "task": "t2"}], 1),
        (0.0, [{"sample": 0}, {"sample": 1}], 2),
        (0.0, [{"seed": 0}, {"seed": 1}], 2),
        (0.0, [{"run": "r"}, {"run": "s"}], 2),
        (0.0, [{"run": "r/one"}, {"run": "r/other"}], 2),
        (0.7, [{"node": "a"}, {"node": "b"}], 2),
        (None, [{"node": "a"}, {"node": "b"}], 2),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
async def test_equal_requests_at_temperature_0_are_paid_once_in_a_run(
    wire_server: WireServer, temperature: float | None, places: list[dict[str, Any]], sent: int, at_once: bool
) -> None:
    ledger, journal = Ledger(Budget(calls=sent)), Journal.memory()
    model = metered(wire_server, ledger=ledger, journal=journal)
    asked = [model.generate(ASKED, scope=Scope(**place), temperature=temperature) for place in places]
    replies = await asyncio.gather(*asked) if at_once else [await one for one in asked]
    assert len(wire_server.asked) == sent
    assert (ledger.spent.calls, journal.spend().calls) == (sent, sent)
    assert {reply.usage.calls for reply in replies} == {1}, "what a question takes does not depend on who asked first"
