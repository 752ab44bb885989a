"""Models that reason before they answer, and what their providers refuse, through the real ChatOpenAI client."""

import json
import logging
from typing import Any

import pytest

from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.models.budget import Price, Prices
from selfwire.models.metered_chat import MeteredModel
from tests.models.wired import ASKED, QUICK, Verdict, metered
from tests.wire.server import Body, Fault, WireServer, lying, raw, saying

TEMPERATURE = "Unsupported value: 'temperature' does not support 0.3 with this model. Only 1 is supported."
LIMIT = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
SEED = '{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted"}]}'
GOOD = '{"good": true, "reasons": ["a"], "note": ""}'


def refuse_options(body: Body) -> Fault | None:
    if body.get("temperature") not in (None, 1.0):
        return Fault(status=400, message=TEMPERATURE)
    if "max_tokens" in body:
        return Fault(status=400, message=LIMIT)
    return raw(SEED.encode(), 422) if "seed" in body else None


async def ask(model: MeteredModel, temperature: float | None = 0.3) -> str:
    reply = await model.generate(ASKED, scope=Scope(task="t"), temperature=temperature)
    return reply.content


async def test_options_that_a_model_refuses_are_left_out_from_then_on(
    wire_server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    wire_server.picky, model = refuse_options, metered(wire_server, QUICK.replace(retries=0))
    with caplog.at_level(logging.WARNING):
        assert await ask(model) == "hello"
        assert len(wire_server.asked) == 4
        wire_server.answer = saying_good
        assert (await model.generate_structured(Verdict, ASKED, scope=Scope(), temperature=0.3))[0].good
    assert len(wire_server.asked) == 5, "the same model knows them"
    assert {"temperature", "seed", "max_tokens"}.isdisjoint(wire_server.asked[-1].body)
    assert wire_server.asked[-1].body["max_completion_tokens"] == 50
    assert model.ledger.spent.calls == 2, "refused requests are not paid"
    told = [record.getMessage().partition(" takes no ")[2] for record in caplog.records]
    plain = "it is not sent from now on"
    assert told == [f"max_tokens: {plain}, but max_completion_tokens", f"seed: {plain}", f"temperature: {plain}"]


async def saying_good(_: Body) -> Any:
    from langchain_core.messages import AIMessage

    return AIMessage(GOOD)


async def test_an_option_is_sent_again_where_its_refusal_had_another_cause(wire_server: WireServer) -> None:
    model = metered(wire_server)
    wire_server.always = Fault(status=400, message="the text 'temperature' is not allowed here")
    with pytest.raises(ModelError, match="not allowed here"):
        await ask(model)
    assert ["temperature" in asked.body for asked in wire_server.asked] == [True, False]
    wire_server.always = None
    await ask(model)
    assert wire_server.asked[-1].body["temperature"] == 0.3


async def test_an_option_that_a_refusal_of_another_one_lists_is_still_sent(wire_server: WireServer) -> None:
    listed = Fault(status=400, message="Unknown argument: seed. Known are temperature and max_tokens.")
    wire_server.picky = lambda body: listed if "seed" in body else None
    model = metered(wire_server)
    await ask(model)
    assert ["temperature" in asked.body for asked in wire_server.asked] == [True, True]


async def test_options_are_still_sent_where_a_form_is_refused_with_the_whole_request(wire_server: WireServer) -> None:
    """As FastAPI shows what it refuses."""

    def refuse_form(body: Body) -> Fault | None:
        shown = {"detail": [{"loc": ["body"], "msg": "no response_format here", "input": {**body, "messages": ""}}]}
        return raw(json.dumps(shown).encode(), 422) if "response_format" in body else None

    wire_server.picky, wire_server.answer = refuse_form, saying_good
    model = metered(wire_server)
    await model.generate_structured(Verdict, ASKED, scope=Scope(), temperature=0.3)
    assert {"temperature", "seed", "tools"} <= wire_server.asked[-1].body.keys()
    await ask(model)
    assert {"temperature", "seed"} <= wire_server.asked[-1].body.keys()


@pytest.mark.parametrize(
    "said",
    [
        '<think>\nIs it {"good": false}? No.\n</think>\n\n' + GOOD,
        'Is it {"good": false}? No.\n</think>\n```json\n' + GOOD + "\n```",
    ],
)
async def test_a_thought_before_an_answer_is_no_part_of_it(said: str, wire_server: WireServer) -> None:
    wire_server.always = saying(said)
    verdict, usage = await metered(wire_server).generate_structured(Verdict, ASKED, scope=Scope())
    assert (verdict.good, usage.calls) == (True, 1)
    assert "</think>" not in await ask(metered(wire_server))


@pytest.mark.parametrize(
    "said",
    [
        "<think>so far",
        "<think>no answer</think>",
        "<b>think</b>",
        "a <think>b</think> c",
        "Close a thought with </think> and go on.",
        'def drop(text):\n    return text.split("</think>")[1]\n',
        '{"good": true, "note": "it ends with </think> here"}',
    ],
)
async def test_a_text_without_an_answer_behind_a_thought_stays(said: str, wire_server: WireServer) -> None:
    wire_server.always = saying(said)
    assert await ask(metered(wire_server)) == said


@pytest.mark.parametrize("finish", ["stop", "length"])
async def test_tokens_that_the_provider_had_in_its_cache_cost_their_own_price(
    finish: str, wire_server: WireServer
) -> None:
    usage = {"prompt_tokens": 2000, "completion_tokens": 300, "total_tokens": 2300}
    details = {"prompt_tokens_details": {"cached_tokens": 1536}, "completion_tokens_details": {"reasoning_tokens": 290}}
    choice = {"index": 0, "message": {"role": "assistant", "content": GOOD}, "finish_reason": finish}
    wire_server.always = raw(json.dumps({
        "id": "r", "object": "chat.completion", "created": 0, "model": "local", "choices": [choice],
        "usage": usage | details,
    }).encode())  # fmt: skip
    model = metered(wire_server, prices=Prices(table={"openai:local": Price(input=2, output=8, cached=0.5)}))
    await ask(model)
    await model.generate_structured(Verdict, ASKED, scope=Scope())
    assert model.ledger.spent.dollars == pytest.approx(2 * (464 * 2 + 1536 * 0.5 + 300 * 8) / 1e6)


@pytest.mark.parametrize("cached", [None, -5, 10**12, 2001, "1536", {"text": 1536}])
async def test_an_odd_count_of_cached_tokens_lowers_no_price(cached: object, wire_server: WireServer) -> None:
    usage = {"prompt_tokens": 2000, "completion_tokens": 300, "total_tokens": 2300}
    wire_server.always = lying(usage=usage | {"prompt_tokens_details": {"cached_tokens": cached}})
    model = metered(wire_server, prices=Prices(table={"openai:local": Price(input=2, output=8, cached=0.5)}))
    await ask(model)
    assert model.ledger.spent.dollars == pytest.approx((2000 * 2 + 300 * 8) / 1e6)


@pytest.mark.parametrize(
    ("message", "finish", "told"),
    [
        ({"refusal": "I cannot help with sk-secret-0123456789."}, "stop", "a refusal: I cannot help with ***."),
        ({}, "content_filter", "an empty reply: the provider's filter took its text"),
        ({}, "length", "an empty reply: its tokens ended before the text"),
    ],
)
async def test_an_empty_reply_names_its_reason(
    message: dict[str, str], finish: str, told: str, wire_server: WireServer
) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    wire_server.always = raw(json.dumps({
        "id": "r", "object": "chat.completion", "created": 0, "model": "local", "choices": [choice],
        "usage": {"prompt_tokens": 20, "completion_tokens": 30, "total_tokens": 50},
    }).encode())  # fmt: skip
    model = metered(wire_server)
    with pytest.raises(ModelError) as failed:
        await model.generate_structured(Verdict, ASKED, scope=Scope())
    assert str(failed.value).startswith(f"{told} (")
    assert model.ledger.spent.calls == 2
