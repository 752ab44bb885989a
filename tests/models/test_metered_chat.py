"""A metered chat model called as LangChain's: every way to call it is paid, recorded, replayed, limited and retried."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, SecretStr

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage
from selfwire.core.errors import BudgetError, ConfigError, ModelError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step
from selfwire.core.usage import Budget
from selfwire.graphs.team import run_team
from selfwire.models import openai_chat
from selfwire.models.budget import Ledger, Price, Prices
from selfwire.models.limits import CallSettings
from selfwire.models.metered_chat import MeteredChat, MeteredModel
from selfwire.models.openai_chat import OpenAIChat
from selfwire.models.providers import make_chat_model
from selfwire.models.sync import run_sync
from selfwire.store.journal import Journal, NullRecorder
from tests.graphs.teams import team_run, topology
from tests.models.test_tracing import Recorded
from tests.models.wired import KEY, PRICES, QUICK
from tests.wire.server import Fault, WireServer, broken, cut_off, lying, refused, saying, text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.sqlite"


ASKED = [SystemMessage("be kind"), HumanMessage("hello?")]
TEXT = "Good morning to you, and welcome."


class Verdict(BaseModel):
    """A judgement."""

    good: bool
    reasons: list[str]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


CALLED: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 3, "b": 4}'}}],
}


@pytest.fixture
def wire_server() -> Iterator[WireServer]:
    with WireServer(text(TEXT)) as server:
        yield server
        run_sync(_close_background_clients())


async def _close_background_clients() -> None:
    """Sync calls leave theirs open, on a loop that ends with the process."""
    here = asyncio.get_running_loop()
    for pool in [pool for (loop, _), pool in openai_chat._pools.items() if loop is here]:
        await (await pool)[1].aclose()


def make(server: WireServer, journal: Any = None, **settings: Any) -> MeteredChat:
    inner = make_chat_model("openai:local", base_url=server.url, api_key=KEY, max_tokens=50)
    return MeteredChat(inner, journal=journal or Journal.memory(), policy=QUICK, prices=PRICES, **settings)


async def by_ainvoke(chat: MeteredChat) -> str:
    return str((await chat.ainvoke(ASKED)).text)


async def by_invoke(chat: MeteredChat) -> str:
    return str((await asyncio.to_thread(chat.invoke, ASKED)).text)


async def by_astream(chat: MeteredChat) -> str:
    return "".join([str(chunk.text) async for chunk in chat.astream(ASKED)])


async def by_stream(chat: MeteredChat) -> str:
    return await asyncio.to_thread(lambda: "".join(str(chunk.text) for chunk in chat.stream(ASKED)))


async def by_prompt(chat: MeteredChat) -> str:
    chain = ChatPromptTemplate.from_messages([("system", "be {how}"), ("user", "hello?")]) | chat
    return str((await chain.ainvoke({"how": "kind"})).text)


async def by_agenerate(chat: MeteredChat) -> str:
    return str((await chat.agenerate([list(ASKED)])).generations[0][0].text)


async def by_batch(chat: MeteredChat) -> str:
    return str((await chat.abatch([ASKED]))[0].text)


WAYS = [by_ainvoke, by_invoke, by_astream, by_stream, by_prompt, by_agenerate, by_batch]
Way = Callable[[MeteredChat], Any]


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_is_paid_recorded_and_replayed(way: Way, wire_server: WireServer, path: Path) -> None:
    journal = Journal.create(path, run="r")
    chat = make(wire_server, journal)
    assert await way(chat) == TEXT
    assert (len(wire_server.asked), chat.ledger.spent.calls, journal.spend().calls) == (1, 1, 1)
    assert chat.ledger.spent.tokens > 0
    journal.close()
    again = Journal.open(path)
    chat = make(wire_server, again)
    assert await way(chat) == TEXT
    assert (len(wire_server.asked), chat.ledger.spent.calls, again.spend().calls) == (1, 0, 1)
    again.close()


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_is_refused_where_the_budget_is_used_up(way: Way, wire_server: WireServer) -> None:
    chat = make(wire_server, NullRecorder(), ledger=Ledger(Budget(calls=1)))
    await way(chat)
    with pytest.raises(BudgetError, match="1 of 1 calls"):
        await way(chat)
    assert len(wire_server.asked) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_is_sent_again_after_an_error_that_may_pass(way: Way, wire_server: WireServer) -> None:
    wire_server.faults += [broken(), cut_off()]
    chat = make(wire_server)
    if way in (by_astream, by_stream):
        wire_server.faults.pop()  # a stream that broke off has been handed on
    assert await way(chat) == TEXT
    wire_server.faults.append(refused())
    with pytest.raises(ModelError, match="check the address, the key"):
        await way(make(wire_server))


async def test_equal_calls_are_samples_and_a_resumed_run_replays_each(wire_server: WireServer, path: Path) -> None:
    journal = Journal.create(path, run="r")
    chat = make(wire_server, journal)
    wire_server.faults += [saying("one"), saying("two")]
    assert [await by_ainvoke(chat) for _ in range(3)] == ["one", "two", TEXT]
    journal.close()
    again = Journal.open(path)
    chat = make(wire_server, again)
    assert [await by_ainvoke(chat) for _ in range(3)] == ["one", "two", TEXT]
    assert len(wire_server.asked) == 3
    again.close()


async def test_at_temperature_0_an_equal_call_is_made_once(wire_server: WireServer) -> None:
    chat = make(wire_server)
    said = [(await chat.ainvoke(ASKED, temperature=0)).text for _ in range(2)]
    assert said == [TEXT, TEXT]
    assert len(wire_server.asked) == 1


async def test_tools_are_bound_as_by_the_inner_model(wire_server: WireServer, path: Path) -> None:
    journal = Journal.create(path, run="r")
    wire_server.faults.append(lying(CALLED))
    first = await make(wire_server, journal).bind_tools([add]).ainvoke(ASKED)
    replayed = await make(wire_server, journal).bind_tools([add]).ainvoke(ASKED)
    streamed = [chunk async for chunk in make(wire_server, journal).bind_tools([add]).astream(ASKED)]
    journal.close()
    assert first.tool_calls == replayed.tool_calls == streamed[0].tool_calls
    assert first.tool_calls[0]["args"] == {"a": 3, "b": 4}
    assert len(wire_server.asked) == 1
    assert wire_server.asked[0].body["tools"][0]["function"]["name"] == "add"
    assert first.model_dump() == replayed.model_dump()


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
@pytest.mark.parametrize("include_raw", [False, True])
async def test_objects_are_asked_for_as_by_the_inner_model(
    method: str, include_raw: bool, wire_server: WireServer, path: Path
) -> None:
    call = {"name": "Verdict", "arguments": '{"good": true, "reasons": []}'}
    tools = {**CALLED, "tool_calls": [{"id": "c", "type": "function", "function": call}]}
    wire_server.always = lying(tools) if method == "function_calling" else saying(call["arguments"])
    found, journal = [], Journal.create(path, run="r")
    for _ in range(2):
        chat = make(wire_server, journal)
        asking = chat.with_structured_output(Verdict, method=method, include_raw=include_raw)
        answer = await asking.ainvoke([HumanMessage("Is it good? Answer in JSON.")])
        found.append(answer["parsed"] if include_raw else answer)
        await asyncio.to_thread(chat.with_structured_output(Verdict, method=method).invoke, "Is it good? As JSON.")
    journal.close()
    assert found == [Verdict(good=True, reasons=[])] * 2
    assert (len(wire_server.asked), journal.spend().calls) == (2, 2)


async def test_a_model_that_cannot_be_stood_in_for_is_named() -> None:
    class Odd(FakeListChatModel):
        def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
            return RunnableLambda(lambda asked: AIMessage(str(asked)))

    with pytest.raises(ConfigError, match="Odd makes a RunnableLambda of itself"):
        MeteredChat(Odd(responses=[])).bind_tools([add])


async def test_a_stream_comes_in_chunks_and_settles_once(wire_server: WireServer) -> None:
    chat = make(wire_server)
    chunks = [chunk async for chunk in chat.astream(ASKED)]
    assert sum(bool(chunk.text) for chunk in chunks) > 1
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert isinstance(whole, AIMessageChunk)
    assert whole.text == TEXT
    assert chat.ledger.spent.calls == 1
    assert whole.usage_metadata is not None
    assert chat.ledger.spent.tokens == whole.usage_metadata["total_tokens"]


async def test_a_stream_that_breaks_off_is_not_begun_again(wire_server: WireServer) -> None:
    class Breaking(FakeListChatModel):
        async def _astream(self, *args: Any, **kwargs: Any) -> Any:
            async for chunk in super()._astream(*args, **kwargs):
                yield chunk
                raise ConnectionError("lost")

    chat, seen = MeteredChat(Breaking(responses=["abc"]), policy=QUICK), []

    async def read() -> None:
        async for chunk in chat.astream(ASKED):
            seen.append(chunk.text)

    with pytest.raises(ModelError, match="after 1 attempt"):
        await read()
    assert seen == ["a"]


async def test_who_leaves_a_stream_leaves_nothing_running(wire_server: WireServer) -> None:
    chat = make(wire_server, ledger=Ledger(Budget(calls=2)))
    stream: Any = chat.astream(ASKED)
    assert await anext(stream)
    await stream.aclose()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert await by_ainvoke(chat) == TEXT  # nothing is held any more


async def test_traces_show_one_run_per_call_with_its_place(wire_server: WireServer) -> None:
    heard = Recorded()
    chat = make(wire_server, labels={"method": "hiva"}, scope=Scope(task="t1"))
    await chat.ainvoke(ASKED, {"callbacks": [heard], "tags": ["mine"]})
    _ = [chunk async for chunk in chat.astream(ASKED, {"callbacks": [heard]})]
    assert [run.name for run in heard.runs] == ["OpenAIChat", "OpenAIChat"]
    assert {"mine", "method:hiva"} <= set(heard.runs[0].tags or ())
    assert heard.runs[0].metadata["selfwire_task"] == "t1"


async def test_a_call_inside_a_teams_node_is_recorded_at_that_node(wire_server: WireServer) -> None:
    journal = Journal.memory()
    chat = make(wire_server, journal)

    async def act(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        reply = await chat.ainvoke([*ASKED, HumanMessage(agent.id)])
        return Step(node=scope.node, agent=agent.id, output=str(reply.text))

    team = topology("s>a a>z")
    scope = Scope(run="r", task="t1", iteration=2, phase="rollout", sample=1)
    assert (await run_team(team, team_run(team, act, scope=scope))).answer == TEXT
    rows = await journal.rows()
    assert [row.scope for row in rows] == [scope.at(node=node) for node in "saz"]
    assert (await journal.spend_at(task="t1", iteration=2, node="a")).calls == 1


async def test_it_is_the_model_of_an_agent_of_langgraph(wire_server: WireServer) -> None:
    wire_server.faults.append(lying(CALLED))
    chat = make(wire_server)
    asking = chat.bind_tools([add])

    async def agent(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await asking.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode([add]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", lambda state: "tools" if state["messages"][-1].tool_calls else "__end__")
    graph.add_edge("tools", "agent")
    done = await graph.compile().ainvoke({"messages": [HumanMessage("3 + 4?")]})
    assert [message.type for message in done["messages"]] == ["human", "ai", "tool", "ai"]
    assert chat.ledger.spent.calls == 2


async def test_images_are_sent_as_they_are(wire_server: WireServer) -> None:
    blocks: list[Any] = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    assert (await make(wire_server).ainvoke([HumanMessage(blocks)])).text == TEXT
    assert wire_server.asked[0].body["messages"][0]["content"] == blocks


async def test_agents_go_through_the_same_object_with_the_keys_they_had(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[MeteredChat] = []
    complete = MeteredChat.complete

    async def note(self: MeteredChat, request: Any) -> Any:
        seen.append(self)
        return await complete(self, request)

    monkeypatch.setattr(MeteredChat, "complete", note)
    journal = Journal.memory()
    model = MeteredModel(make_chat_model("offline"), journal=journal)
    await model.generate([ChatMessage.user("hello?")], scope=Scope(run="r", task="t1"))
    await model.chat().ainvoke("hello?")
    assert seen == [model.chat()] * 2
    assert (await journal.rows())[0].request == "6d94b941cb4f76a3f9b533c6ef787449"


@pytest.mark.parametrize("role", ["agent", "judge"])
async def test_each_role_has_its_model(role: str) -> None:
    models: dict[str, BaseChatModel] = {name: FakeListChatModel(responses=[name]) for name in ("agent", "judge")}
    journal = Journal.memory()
    assert (await MeteredModel(models, journal=journal).chat(role).ainvoke("who?")).text == role


@pytest.mark.parametrize("kind", [OpenAIChat, ChatOpenAI])
def test_one_metered_model_serves_sync_calls_and_several_loops(kind: type[ChatOpenAI], wire_server: WireServer) -> None:
    inner = kind(model="local", base_url=wire_server.url, api_key=SecretStr("none"), max_retries=0)
    chat = MeteredChat(inner, journal=NullRecorder(), policy=CallSettings(retries=0))
    said = [
        chat.invoke(ASKED).text,
        asyncio.run(by_ainvoke(chat)),
        chat.invoke(ASKED).text,
        asyncio.run(by_stream(chat)),
    ]
    assert said == [TEXT] * 4


async def test_a_fault_is_never_text(wire_server: WireServer) -> None:
    wire_server.always = Fault(status=400, message="no such thing")
    with pytest.raises(ModelError, match="no such thing"):
        await by_astream(make(wire_server))


async def test_a_named_model_has_rows_prices_and_a_budget_of_its_own_beside_one_of_the_same_kind(
    wire_server: WireServer,
) -> None:
    journal, ledger = Journal.memory("r"), Ledger(Budget(calls=2))
    chats = [make_chat_model("openai:gpt-4o-mini", base_url=wire_server.url, temperature=heat) for heat in (0.0, 0.5)]
    model = MeteredModel(chats[0], named={"warm": chats[1]}, journal=journal, ledger=ledger, policy=QUICK)
    asked, place = [ChatMessage.user("hello?")], Scope(run="r", task="t", node="n")
    for _ in range(2):  # the second time both are replayed
        for name in ("", "warm"):
            await model.generate(asked, scope=place, model=name)
    assert [request.body["temperature"] for request in wire_server.asked] == [0.0, 0.5]
    assert {*await journal.spend_by_model()} == {"gpt-4o-mini", "warm (gpt-4o-mini)"}
    assert sum(usage.calls for usage in (await journal.spend_by_model()).values()) == journal.spend().calls == 2
    with pytest.raises(BudgetError):
        await model.with_labels(method="m").generate(asked, scope=place.at(node="other"), model="warm")
    with pytest.raises(ConfigError, match="a request is for model 'cold', and this run names no such model, but warm"):
        await model.generate(asked, scope=place, model="cold")
    model.refuse_unnamed([Agent(id="a", prompt="p"), Agent(id="b", prompt="p", model="openai:gpt-4o-mini")])
    with pytest.raises(ConfigError, match=r"agent 'c' asks model 'openai:gpt-4o', .* --models NAME=openai:gpt-4o "):
        model.refuse_unnamed([Agent(id="c", prompt="p", model="openai:gpt-4o")])
    nobody = make_chat_model("openai:nobody", base_url=wire_server.url)
    with pytest.raises(ConfigError, match="the price of openai:nobody is not known"):
        MeteredModel(chats[0], named={"x": nobody}, ledger=Ledger(Budget(dollars=1)))


async def test_a_budget_in_dollars_has_room_for_the_cheap_model_where_it_has_none_for_the_strong_one(
    wire_server: WireServer,
) -> None:
    prices = Prices(table={"openai:strong": Price(input=2, output=8), "openai:cheap": Price(input=0.1, output=0.4)})
    strong, cheap = (make_chat_model(f"openai:{name}", base_url=wire_server.url) for name in ("strong", "cheap"))
    ledger = Ledger(Budget(dollars=0.005))  # a reply of 2,048 tokens costs more than that of one, and less of the other
    model = MeteredModel(strong, named={"cheap": cheap}, ledger=ledger, prices=prices, policy=QUICK)
    assert model.list_prices() == {"": prices.table["openai:strong"], "cheap": prices.table["openai:cheap"]}
    reply = await model.generate([ChatMessage.user("hello?")], scope=Scope(), model="cheap")
    sent, received = reply.usage.input_tokens, reply.usage.output_tokens
    assert ledger.spent.dollars == pytest.approx((0.1 * sent + 0.4 * received) / 1e6)
    with pytest.raises(BudgetError):
        await model.generate([ChatMessage.user("hello?")], scope=Scope())
    assert [request.body["model"] for request in wire_server.asked] == ["cheap"]
