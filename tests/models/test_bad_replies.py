"""Replies that no honest provider sends: each is a fault of its reply, and ends neither the run nor its journal."""

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from operator import add
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import json_repair
import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from selfwire.core.chat import Reply
from selfwire.core.errors import ModelError, ReplyError
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.models.metered_chat import MeteredModel, estimate_tokens
from selfwire.models.structured import LONGEST_REPAIR, UNPARSED, parse_reply, to_reply
from selfwire.models.sync import run_in_thread
from selfwire.store.journal import Journal
from tests.models.wired import ASKED, QUICK, Verdict, metered
from tests.wire.server import WireServer, lying, saying, text

HOPELESS = {
    "deep list": "[" * 1000,
    "deep object": '{"good":' * 1000,
    "open braces": "{" * 60_000,
    "comments without end": '1{"a":1}\n*/' + "a}null{*/" * 2000,
    "stars": "[…" + "]*/{" * 4000,
    "a megabyte": "{" * 1_000_000,
    "whole but deep": '{"good": ' + "[" * 900 + "]" * 900 + "}",
}


@pytest.mark.parametrize("content", HOPELESS.values(), ids=HOPELESS)
async def test_hopeless_text_is_asked_again_and_then_a_reply_error_also_out_of_the_journal(
    content: str, wire_server: WireServer, tmp_path: Path
) -> None:
    wire_server.always = saying(content)
    for asked in (2, 2):  # a resumed run replays both replies
        journal = (
            Journal.create(tmp_path / "j", run="r") if not (tmp_path / "j").exists() else Journal.open(tmp_path / "j")
        )
        with pytest.raises(ReplyError, match="nor when asked again"):
            await metered(wire_server, journal=journal).generate_structured(Verdict, ASKED, scope=Scope())
        journal.close()
        assert len(wire_server.asked) == asked


@pytest.mark.parametrize("content", HOPELESS.values(), ids=HOPELESS)
async def test_a_repair_is_bounded_and_leaves_the_event_loop_free(content: str) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.create_task(tick())
    since = time.process_time()
    with pytest.raises(ValueError, match="JSON"):
        await parse_reply(Verdict, Reply(content=content))
    spent = time.process_time() - since
    ticking.cancel()
    assert spent < 20  # seconds of processor; it is about whether it ends: without a bound it is minutes
    assert ticks or spent < 0.1


async def test_a_repair_that_takes_too_long_is_cut_off_and_no_finaliser_that_runs_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[bool] = []

    class Garbage:
        def __del__(self) -> None:
            ended.append(True)

    def repair(text: str) -> object:
        Garbage()
        return repaired(text)

    repaired = json_repair.loads
    monkeypatch.setattr("json_repair.loads", repair)
    monkeypatch.setattr("selfwire.models.structured.REPAIR_SECONDS", -1.0)
    with pytest.raises(ValueError, match="cannot be repaired"):
        await parse_reply(Verdict, Reply(content='{"good": true'))
    assert ended


async def test_a_repair_leaves_the_trace_function_of_a_debugger_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[str]()

    def debugger(frame: FrameType, event: str, value: Any) -> None:
        seen.append(frame.f_code.co_name)

    async def work_in_a_traced_thread(work: Callable[..., Any], *args: Any) -> Any:
        def traced() -> Any:
            before = sys.gettrace()
            sys.settrace(debugger)
            try:
                return work(*args)
            finally:
                after_it()
                sys.settrace(before)

        return await run_in_thread(traced)

    def after_it() -> None:
        """What the thread does next."""

    monkeypatch.setattr("asyncio.to_thread", work_in_a_traced_thread)
    for content in ('{"good": true', "[" * 1000):
        seen.clear()
        with suppress(ValueError):
            await parse_reply(Verdict, Reply(content=content))
        assert seen[-1] == "after_it"


async def test_a_reply_that_was_cut_off_is_not_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("json_repair.loads", lambda text: pytest.fail("it was repaired"))
    with pytest.raises(ValueError, match="JSON"):
        await parse_reply(Verdict, Reply(content='{"good": true', finish="length"))
    with pytest.raises(ValueError, match="too long to be repaired"):
        await parse_reply(Verdict, Reply(content="x" * (LONGEST_REPAIR + 1)))


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tool: str
    given: str = Field(default="{}", description="A JSON object in a string.")


class Advice(BaseModel):
    model_config = ConfigDict(extra="forbid")

    said: str = ""
    verdict: Literal["pass", "fail"]
    names: list[str] = []
    parts: list[Part] = []
    other: Part | None = None


WHOLE: Mapping[str, Any] = {"said": "a", "verdict": "pass", "names": ["b"], "parts": [], "other": None}
NEARLY: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lines for a text": ({"said": ["a", "b"]}, {"said": "a\nb"}),
    "a number for a text": ({"said": 2.5}, {"said": "2.5"}),
    "nothing for a text": ({"said": None}, {"said": ""}),
    "a text for a list": ({"names": "b"}, {"names": ["b"]}),
    "nothing for a list": ({"names": None}, {"names": []}),
    "a word in capitals": ({"verdict": "Pass."}, {"verdict": "pass"}),
    "one object for a list, with an object for its text": (
        {"parts": {"tool": "look", "given": {"q": "é"}}},
        {"parts": [{"tool": "look", "given": '{"q": "é"}'}]},
    ),
    "a field too many": ({"sure": 0.9}, {}),
    "a field too many within": (
        {"other": {"tool": "look", "given": "{}", "why": "x"}},
        {"other": {"tool": "look", "given": "{}"}},
    ),
}


@pytest.mark.parametrize(("given", "meant"), NEARLY.values(), ids=NEARLY)
async def test_a_reply_whose_values_have_almost_their_types_is_not_asked_for_again(
    given: dict[str, Any], meant: dict[str, Any], wire_server: WireServer
) -> None:
    wire_server.faults.append(saying(f"Here it is:\n```json\n{json.dumps({**WHOLE, **given})}\n```"))
    found, _ = await metered(wire_server).generate_structured(Advice, ASKED, scope=Scope())
    assert found == Advice.model_validate({**WHOLE, **meant})
    assert len(wire_server.asked) == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({**WHOLE, "verdict": "perhaps"}, "verdict"),
        ({**WHOLE, "said": {"text": "a"}}, "said"),
        ({"sayd": "a", "verdict": "pass", "names": [], "parts": [], "other": None}, "sayd"),  # said, misspelt
        ({**WHOLE, "verdict": ["pass"], "names": "b"}, "verdict"),
        ([WHOLE, WHOLE], "Advice"),
        ({**WHOLE, "verdict": None}, "verdict"),
        ({**WHOLE, "names": "b, c"}, "names"),
        ({**WHOLE, "names": "b\nc"}, "names"),
        ({**WHOLE, "names": '["b"]'}, "names"),
        ({**WHOLE, "names": " "}, "names"),
        ({**WHOLE, "names": False}, "names"),
        ({**WHOLE, "names": 0}, "names"),
        ({**WHOLE, "names": {}}, "names"),
        ({**WHOLE, "names": [["b", "c"]]}, "names"),
        ({**WHOLE, "names": [None]}, "names"),
        ({**WHOLE, "said": []}, "said"),
        ({**WHOLE, "other": {"tool": None, "given": "{}"}}, "tool"),
        ({**WHOLE, "other": {"tool": [], "given": "{}"}}, "tool"),
    ],
)
async def test_a_reply_of_which_it_is_not_plain_what_it_means_is_a_fault(content: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        await parse_reply(Advice, Reply(content=json.dumps(content)))


async def test_an_object_that_stands_alone_in_a_list_is_the_object() -> None:
    assert await parse_reply(Advice, Reply(content=json.dumps([WHOLE]))) == Advice.model_validate(WHOLE)


class Findings(BaseModel):
    results: list[bool]
    reason: str = ""


@pytest.mark.parametrize("given", [None, False, True, "true", 0, ""])
async def test_a_list_without_a_default_is_asked_for_again_where_there_is_another_value(given: object) -> None:
    with pytest.raises(ValueError, match="results"):
        await parse_reply(Findings, Reply(content=json.dumps({"results": given})))


async def test_null_for_a_field_with_a_default_is_its_default_beside_a_field_too_many() -> None:
    given = {**WHOLE, "names": None, "sure": 0.9, "parts": {"tool": "look", "given": None, "why": "x"}}
    meant = Advice.model_validate({**WHOLE, "names": [], "parts": [{"tool": "look"}]})
    assert await parse_reply(Advice, Reply(content=json.dumps(given))) == meant


class Names(BaseModel):
    names: list[str]


@pytest.mark.parametrize("said", ['["a", "b"]', ' ["a", "b"]\n', 'Here they are:\n```json\n["a", "b"]\n```'])
async def test_a_text_that_is_a_list_is_the_only_field_of_a_schema(said: str) -> None:
    assert await parse_reply(Names, Reply(content=said)) == Names(names=["a", "b"])


@pytest.mark.parametrize(
    "said",
    [
        "I'm sorry, I can't help with [that].",
        "I cannot see the traces [1] that you speak of [2].",
        "There are no [] errors.",
        "[]",
        "```\n[]\n```",
        '["a"] or ["b"]',
    ],
)
async def test_words_in_brackets_are_no_list(said: str) -> None:
    with pytest.raises(ValueError, match="Names"):
        await parse_reply(Names, Reply(content=said))


def calling(arguments: object, name: str = "search") -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"content": None, "tool_calls": [call]}


@pytest.mark.parametrize(
    "arguments", ['{"q": NaN}', '{"q": 1e999}', '{"q": ' + "[" * 300 + "]" * 300 + "}", '{"q": "\\ud83d"}', "{"]
)
async def test_arguments_that_are_no_json_reach_the_tool_as_text(arguments: str, wire_server: WireServer) -> None:
    wire_server.faults.append(lying(calling(arguments)))
    reply = await metered(wire_server).generate(ASKED, scope=Scope())
    (call,) = reply.tool_calls
    assert call.name == "search"
    assert UNPARSED in call.arguments or call.arguments["q"] == "\ufffd" or arguments.count("[") == 300
    assert Reply.model_validate_json(reply.model_dump_json()) == reply


@pytest.mark.parametrize("arguments", ['["a"]', '"a"', "5", ["a"], {"q": "a"}])
async def test_arguments_that_are_no_text_of_an_object_cost_no_second_request(
    arguments: object, wire_server: WireServer
) -> None:
    wire_server.faults.append(lying(calling(arguments)))
    reply = await metered(wire_server).generate(ASKED, scope=Scope())
    (call,) = reply.tool_calls
    assert call.arguments == arguments or "is no JSON object" in str(call.arguments[UNPARSED])
    assert len(wire_server.asked) == 1


async def test_half_a_character_in_a_name_is_replaced(wire_server: WireServer) -> None:
    wire_server.faults.append(lying(calling("{}", name="se\ud83darch")))
    reply = await metered(wire_server).generate(ASKED, scope=Scope())
    assert reply.tool_calls[0].name == "se\ufffdarch"


async def test_half_a_character_in_text_without_usage_is_counted(wire_server: WireServer) -> None:
    wire_server.faults.append(lying({"content": "half of \ud83d"}, usage=None))
    reply = await metered(wire_server).generate(ASKED, scope=Scope())
    assert reply.content == "half of \ufffd"
    assert reply.usage.output_tokens > 0


async def test_half_a_character_is_replaced_for_callers_of_langchains_methods_too(wire_server: WireServer) -> None:
    wire_server.faults.append(lying({"content": "half of \ud83d"}))
    assert (await metered(wire_server).chat().ainvoke("Say it.")).text == "half of \ufffd"


@pytest.mark.parametrize("count", [-1, -(10**12), 10**9, 10**30])
async def test_absurd_counts_of_tokens_are_estimated(count: int, wire_server: WireServer) -> None:
    wire_server.answer = text("hello")
    wire_server.faults.append(lying(usage={"prompt_tokens": count, "completion_tokens": count, "total_tokens": count}))
    model = metered(wire_server)
    reply = await model.generate(ASKED, scope=Scope())
    assert 0 < reply.usage.tokens < 1000
    assert model.ledger.spent.tokens == reply.usage.tokens


@pytest.mark.parametrize("count", [0, None])
async def test_tokens_are_estimated_where_what_was_sent_counts_as_nothing(
    count: int | None, wire_server: WireServer
) -> None:
    wire_server.answer = text("hello")
    wire_server.faults.append(lying(usage={"prompt_tokens": count, "completion_tokens": count, "total_tokens": count}))
    reply = await metered(wire_server).generate(ASKED, scope=Scope())
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (estimate_tokens(ASKED), 9)


async def test_what_a_reply_counts_beyond_its_text_stays_where_nothing_counts_as_sent(wire_server: WireServer) -> None:
    wire_server.answer = text("hello")  # after thoughts that the reply leaves out
    wire_server.faults.append(lying(usage={"prompt_tokens": 0, "completion_tokens": 5000, "total_tokens": 5000}))
    reply = await metered(wire_server).generate(ASKED, scope=Scope())
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (estimate_tokens(ASKED), 5000)


@pytest.mark.parametrize("count", ["5", "many", 2.5, 8.0])
async def test_counts_of_tokens_of_another_type_cost_no_reply_of_a_ready_model(
    count: object, wire_server: WireServer
) -> None:
    wire_server.answer = text("hello")
    usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": count}
    wire_server.faults += [lying(usage=usage)] * 2
    model = MeteredModel(ChatOpenAI(model="m", base_url=wire_server.url, api_key=SecretStr("k"), max_retries=0))
    reply = await model.generate(ASKED, scope=Scope())
    assert (reply.content, 0 < reply.usage.tokens < 1000) == ("hello", True)
    assert (await model.chat().ainvoke("Say it.")).text == "hello"


@pytest.mark.parametrize("bound", [False, True])
def test_counts_of_tokens_of_another_type_cost_no_stream(*, bound: bool) -> None:
    class Own(GenericFakeChatModel):
        def _stream(self, messages: Any, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
            for count in ("many", 2.5, 3):
                counts: Any = dict.fromkeys(["input_tokens", "output_tokens", "total_tokens"], count)
                message = AIMessageChunk(content="hello ")
                message.usage_metadata = counts
                yield ChatGenerationChunk(message=message)

    chat = MeteredModel(Own(messages=iter(())), policy=QUICK).chat()
    chat.is_bound_to_loop = bound
    whole = reduce(add, chat.stream("Say it."))
    assert (whole.text, whole.usage_metadata and whole.usage_metadata["input_tokens"]) == ("hello " * 3, 3)


@pytest.mark.parametrize("said", ["hello", {"content": "hello"}, None])
async def test_what_is_no_message_is_no_answer(said: object) -> None:
    class Own(GenericFakeChatModel):
        async def ainvoke(self, *_: Any, **__: Any) -> Any:
            return said

    model = MeteredModel(Own(messages=iter(())), policy=QUICK)
    with pytest.raises(ModelError, match=re.escape(f"a reply that is no answer: {said!r} in place of an AIMessage")):
        await model.generate(ASKED, scope=Scope())


def test_arguments_that_are_too_deep_even_to_be_shown_are_a_broken_call() -> None:
    deep: list[Any] = []
    for _ in range(sys.getrecursionlimit()):
        deep = [deep]
    call = {"id": "c1", "name": "search", "args": {"q": deep}}
    reply = to_reply(AIMessage("", tool_calls=[call]), Usage())
    assert reply.tool_calls[0].arguments == {UNPARSED: "arguments that are nested too deeply"}


def test_metadata_that_are_no_json_are_left_out() -> None:
    told = {"kept": [1], "not a number": float("nan"), "object": object(), "half": "\ud83d"}
    assert to_reply(AIMessage("", response_metadata=told), Usage()).metadata == {"kept": (1,)}


async def test_at_no_depth_does_a_reply_end_in_a_recursion_error() -> None:
    for depth in range(850, 1000, 5):  # somewhere there, what could be parsed is too deep to be written again
        with pytest.raises(ValueError, match=r"JSON|nested too deeply"):
            await parse_reply(Verdict, Reply(content='{"good": ' + "[" * depth + "]" * depth + "}"))


@pytest.mark.parametrize("depth", [100, 240, 300, 5000])
async def test_arguments_of_a_forced_tool_that_are_nested_deeply_are_a_fault_of_the_reply(
    depth: int, wire_server: WireServer
) -> None:
    wire_server.always = lying(calling('{"good": ' + "[" * depth + "]" * depth + "}", name="Verdict"))
    model = metered(wire_server, QUICK.replace(structured="tool"))
    with pytest.raises(ReplyError, match="nor when asked again"):
        await model.generate_structured(Verdict, ASKED, scope=Scope())
