"""Faults, limits and budgets, through the real ChatOpenAI client."""

import asyncio
import json
import re
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.errors import BudgetError, ConfigError, ModelError, OutageError, ReplyError, TaskBudgetError
from selfwire.core.scope import Scope
from selfwire.core.text import register_secret
from selfwire.core.usage import Budget, Usage
from selfwire.models.budget import Ledger, Prices
from selfwire.models.limits import get_throttle
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model, redact_error
from selfwire.models.structured import to_reply
from selfwire.store.journal import Journal
from tests.models.wired import ASKED, KEY, PRICES, QUICK, Verdict, metered, until
from tests.wire.server import Fault, WireServer, broken, cut_off, hanging, rate_limited, raw, refused, saying, text


async def test_a_retry_after_pauses_every_worker(wire_server: WireServer) -> None:
    wire_server.faults.append(rate_limited(after=0.5))
    model = metered(wire_server)
    first = asyncio.create_task(model.generate(ASKED, scope=Scope(task="t0")))
    gate = get_throttle(f"openai {wire_server.url}", QUICK)
    await until(lambda: gate._rate.paused_until > 0)
    others = [model.generate(ASKED, scope=Scope(task=f"t{i}")) for i in range(1, 5)]
    replies = await asyncio.gather(first, *others)
    start, *later = (asked.at for asked in wire_server.asked)
    assert [reply.content for reply in replies] == ["hello"] * 5
    assert len(later) == 5
    assert min(later) - start >= 0.45


async def test_a_retry_after_longer_than_patience_is_an_error(wire_server: WireServer) -> None:
    wire_server.faults.append(rate_limited(after=3600))
    with pytest.raises(ModelError, match=r"asks to wait 3,600 s .*wait, or ask less at once \(--requests-at-once"):
        await metered(wire_server).generate(ASKED, scope=Scope())


@pytest.mark.parametrize("fault", [broken(), cut_off(), saying("")], ids=["500", "cut-off body", "empty reply"])
async def test_a_transient_fault_is_tried_again(wire_server: WireServer, fault: Any) -> None:
    wire_server.faults.append(fault)
    journal = Journal.memory()
    model = metered(wire_server, journal=journal)
    reply = await model.generate(ASKED, scope=Scope())
    assert reply.content == "hello"
    assert len(wire_server.asked) == 2
    assert reply.usage.calls == (2 if fault.content == "" else 1)  # an empty reply was billed
    assert journal.spend() == reply.usage.replace(seconds=journal.spend().seconds)


async def test_a_second_empty_reply_is_an_error_that_was_billed(wire_server: WireServer) -> None:
    wire_server.always = saying("")
    model = metered(wire_server)
    with pytest.raises(ModelError, match=r"empty reply.*2 attempts\); take a model that answers, or .*--max-tokens"):
        await model.generate(ASKED, scope=Scope())
    assert model.ledger.spent.calls == 2


@pytest.mark.parametrize(
    ("body", "form", "told"),
    [
        (b'{"hello": 1}', "application/json", r"^a reply that is no answer: .*dict_keys\(\['hello'\]\)"),
        (b"<html>log in</html>", "text/html", "^a reply that is no answer: .*<html>log in"),
    ],
)
async def test_a_reply_of_something_else_is_told_without_the_class_of_an_error(
    wire_server: WireServer, body: bytes, form: str, told: str
) -> None:
    wire_server.always = raw(body, content_type=form)
    with pytest.raises(ModelError, match=told) as error:
        await metered(wire_server).generate(ASKED, scope=Scope())
    assert "check the address, the key" in str(error.value)


async def test_an_address_without_its_usual_path_is_told(wire_server: WireServer) -> None:
    wire_server.always = raw(b"nothing here", status=404)
    model = make_chat_model("openai:local", base_url=wire_server.url.removesuffix("/v1"), api_key=KEY)
    with pytest.raises(ModelError, match=r"check the address \(of most servers it ends in /v1\), the key"):
        await MeteredModel(model, policy=QUICK, prices=PRICES).generate(ASKED, scope=Scope())


async def test_a_hang_is_given_up_after_the_timeout_and_the_request_is_dropped(wire_server: WireServer) -> None:
    wire_server.faults.append(hanging(30))
    reply = await metered(wire_server, QUICK.replace(timeout=2.0)).generate(ASKED, scope=Scope())
    assert reply.content == "hello"
    assert len(wire_server.asked) == 2
    await until(lambda: bool(wire_server.cancelled))


async def test_a_refused_key_fails_at_once_and_is_not_told(wire_server: WireServer) -> None:
    wire_server.always = refused(f"Incorrect API key provided: {KEY}")
    journal = Journal.memory()
    model = metered(wire_server, journal=journal)
    with pytest.raises(ModelError, match="1 attempt") as error:
        await model.generate(ASKED, scope=Scope())
    assert len(wire_server.asked) == 1
    assert wire_server.asked[0].authorization == f"Bearer {KEY}"
    noted = json.dumps([row.error for row in await journal.rows()])
    assert "secret" not in f"{error.value!r} {error.value.__cause__} {noted}"


async def test_a_provider_that_stays_down_is_an_error_and_the_call_is_sent_again_later(wire_server: WireServer) -> None:
    wire_server.always = broken()
    journal = Journal.memory()
    model = metered(wire_server, journal=journal)
    with pytest.raises(ModelError, match="rollout/t1 after 4 attempt"):
        await model.generate(ASKED, scope=Scope(phase="rollout", task="t1"))
    assert len(wire_server.asked) == 4
    assert [(row.state, row.failures) for row in await journal.rows()] == [("failed", 1)]
    wire_server.always = None
    assert (await model.generate(ASKED, scope=Scope(phase="rollout", task="t1"))).content == "hello"
    assert [(row.state, row.failures) for row in await journal.rows()] == [("settled", 1)]


@pytest.mark.parametrize(
    ("structured", "status", "asked", "unknown"), [("native", 400, 1, 0), ("auto", 401, 1, 0), ("auto", 503, 4, 1)]
)
async def test_a_call_that_the_provider_refuses_cost_nothing(
    wire_server: WireServer, structured: Any, status: int, asked: int, unknown: int
) -> None:
    wire_server.always = Fault(status=status, message="no such response_format")
    journal = Journal.memory()
    model = metered(wire_server, QUICK.replace(structured=structured), journal=journal)
    with pytest.raises(ModelError, match=str(status)):
        await model.generate_structured(Verdict, ASKED, scope=Scope())
    assert len(wire_server.asked) == asked
    assert journal.count_unsettled()[0] == unknown


async def test_an_empty_reply_before_an_outage_is_paid(wire_server: WireServer) -> None:
    wire_server.faults.append(saying(""))
    wire_server.always = broken()
    journal = Journal.memory()
    model = metered(wire_server, QUICK.replace(probe=True), journal=journal)
    with pytest.raises(OutageError):
        await model.generate(ASKED, scope=Scope())
    assert journal.spend().calls == model.ledger.spent.calls == 1


async def test_a_server_that_is_not_there_is_an_error() -> None:
    with WireServer(text("hello")) as server:
        model = metered(server, QUICK.replace(retries=1))
    with pytest.raises(ModelError, match="2 attempt"):
        await model.generate(ASKED, scope=Scope())


async def test_a_server_that_is_slow_is_an_error_that_names_the_limit(wire_server: WireServer) -> None:
    wire_server.delay = 600
    with pytest.raises(ModelError, match=r"no answer within 0\.3 seconds, which --timeout sets \(openai"):
        await metered(wire_server, QUICK.replace(timeout=0.3, retries=0)).generate(ASKED, scope=Scope())


async def test_the_concurrency_limit_holds_over_all_models_of_a_provider(wire_server: WireServer) -> None:
    wire_server.delay = 0.05
    models = [metered(wire_server, QUICK.replace(concurrency=3)) for _ in range(2)]
    await asyncio.gather(*(models[i % 2].generate(ASKED, scope=Scope(task=f"t{i}")) for i in range(12)))
    assert wire_server.most_active == 3


async def test_a_budget_of_calls_binds_under_concurrency(wire_server: WireServer) -> None:
    wire_server.delay = 0.02
    journal = Journal.memory()
    model = metered(wire_server, ledger=Ledger(Budget(calls=5)), journal=journal)
    calls = [model.generate(ASKED, scope=Scope(task=f"t{i}")) for i in range(20)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert len(wire_server.asked) == 5
    assert sum(isinstance(outcome, BudgetError) for outcome in outcomes) == 15
    assert journal.count_unsettled() == (0, 0)  # what was refused was not sent


async def test_a_call_that_a_share_refuses_lets_those_under_way_end_as_they_are_paid_for(
    wire_server: WireServer,
) -> None:
    wire_server.delay = 0.2
    journal, ledger, task = Journal.memory(), Ledger(), Scope(task="t")
    ledger.reserve_task(task, Budget(calls=2))
    model = metered(wire_server, ledger=ledger, journal=journal)

    async def together() -> None:
        async with asyncio.TaskGroup() as team:  # the first to fail cancels the others, as in a team
            for node in "abcd":
                team.create_task(model.generate(ASKED, scope=task.at(node=node)))

    with pytest.raises(ExceptionGroup) as refused:
        await together()
    assert {type(error) for error in refused.value.exceptions} == {TaskBudgetError}
    assert len(wire_server.asked) == 2
    assert ledger.spent.calls == journal.spend().calls == 2
    assert journal.count_unsettled() == (0, 0)


async def test_a_budget_of_dollars_binds(wire_server: WireServer) -> None:
    model = metered(wire_server, ledger=Ledger(Budget(dollars=0.0005)))

    async def calls() -> None:
        for visit in range(100):
            await model.generate(ASKED, scope=Scope(visit=visit))

    with pytest.raises(BudgetError, match=r"of \$0.0005 dollars"):
        await calls()
    assert 0 < (model.ledger.spent.dollars or 0) <= 0.0005
    assert len(wire_server.asked) >= 2


def test_a_budget_of_dollars_is_refused_for_a_model_without_a_price(wire_server: WireServer) -> None:
    with pytest.raises(ConfigError, match="price of openai:local is not known"):
        metered(wire_server, ledger=Ledger(Budget(dollars=1)), prices=Prices.load())


async def test_a_cancelled_call_is_dropped_and_stays_unknown(wire_server: WireServer) -> None:
    wire_server.delay = 30
    journal = Journal.memory()
    model = metered(wire_server, journal=journal)
    call = asyncio.create_task(model.generate(ASKED, scope=Scope()))
    await until(lambda: bool(wire_server.asked))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: bool(wire_server.cancelled))
    rows, at_most = journal.count_unsettled()
    assert rows == 1
    assert at_most > 50
    assert model.ledger.spent.calls == 0


def test_half_a_character_in_a_reply_or_a_fault_is_replaced_so_that_both_can_be_kept() -> None:
    call = {"name": "search", "args": {"q": "\ud83d\ude00 and \udc00"}, "id": "c"}
    reply = to_reply(AIMessage("Answer: \ud83d", tool_calls=[call]), Usage(calls=1))
    assert reply.content == "Answer: \ufffd"
    assert reply.tool_calls[0].arguments["q"] == "\U0001f600 and \ufffd"
    assert Reply.model_validate_json(reply.model_dump_json()) == reply
    assert redact_error(ValueError("bad \ud83d")) == "ValueError: bad \ufffd"


def test_a_key_that_stands_for_none_masks_nothing() -> None:
    for value in ("x", "", "none"):
        register_secret(value)
    assert redact_error(ValueError("next exit, none")) == "ValueError: next exit, none"
    register_secret("0123-abcd")
    assert redact_error(ValueError("bad key 0123-abcd")) == "ValueError: bad key ***"


async def test_what_calls_under_way_hold_is_not_spent(wire_server: WireServer) -> None:
    wire_server.delay = 0.02
    limit, journal, longest = 12_000, Journal.memory(), 2_000
    chat = make_chat_model("openai:local", base_url=wire_server.url, api_key=KEY, max_tokens=longest)
    model = MeteredModel(chat, policy=QUICK, prices=PRICES, ledger=Ledger(Budget(tokens=limit)), journal=journal)
    refused: list[str] = []

    async def work(number: int) -> None:
        for visit in count():
            await model.generate([ChatMessage.user("hello? " * 40)], scope=Scope(task=f"t{number}", visit=visit))

    async def work_until_refused(number: int) -> None:
        with pytest.raises(BudgetError) as error:
            await work(number)
        refused.append(str(error.value))

    async with asyncio.timeout(120):
        await asyncio.gather(*(work_until_refused(number) for number in range(32)))
    spent = model.ledger.spent
    assert limit - longest - 500 < spent.tokens <= limit
    assert spent.calls == len(wire_server.asked)
    assert journal.count_unsettled() == (0, 0)
    told = [re.search(r": (\d+),\d\d\d of 12,000 tokens spent and up to 2,\d\d\d more", why) for why in refused]
    assert all(one and int(one[1]) >= 9 for one in told), refused


async def test_an_empty_reply_is_not_asked_again_beyond_a_budget(wire_server: WireServer) -> None:
    wire_server.always = saying("")
    model = metered(wire_server, ledger=Ledger(Budget(calls=1)))
    with pytest.raises(ModelError, match="an empty reply"):
        await model.generate(ASKED, scope=Scope())
    assert len(wire_server.asked) == model.ledger.spent.calls == 1


async def test_nobody_is_told_to_resume_a_run_of_which_nothing_is_kept(wire_server: WireServer) -> None:
    wire_server.always = saying("[" * 1000)
    with pytest.raises(ReplyError, match=r"or --structured prompt$"):
        await metered(wire_server).generate_structured(Verdict, ASKED, scope=Scope())


async def test_replies_of_no_use_are_asked_for_again_only_where_a_resumed_run_is_told_so(
    wire_server: WireServer, tmp_path: Path
) -> None:
    path, where = tmp_path / "journal.sqlite", Scope(phase="rollout", task="t1")

    async def ask(journal: Journal) -> Verdict:
        with closing(journal):
            return (await metered(wire_server, journal=journal).generate_structured(Verdict, ASKED, scope=where))[0]

    wire_server.always = saying("[" * 1000)
    with pytest.raises(ReplyError, match="resuming the run with --retry-failed asks again"):
        await ask(Journal.create(path, run="r"))
    asked = len(wire_server.asked)
    assert asked == 2
    wire_server.always = saying('{"good": true, "reasons": []}')
    with pytest.raises(ReplyError):
        await ask(Journal.open(path))
    assert len(wire_server.asked) == asked  # what is on record is replayed

    wire_server.always = saying("[" * 1000)
    again = Journal.open(path)
    again.retry_failed()
    with pytest.raises(ReplyError):
        await ask(again)
    assert len(wire_server.asked) == asked + 2  # once, and not for ever

    wire_server.always = saying('{"good": true, "reasons": []}')
    mended = Journal.open(path)
    mended.retry_failed()
    assert (await ask(mended)).good
    assert len(wire_server.asked) == asked + 3
    with closing(Journal.open(path)) as journal:
        assert journal.spend().calls == asked + 3  # everything that was paid for
    assert (await ask(Journal.open(path))).good
    assert len(wire_server.asked) == asked + 3


@pytest.mark.parametrize(
    ("message", "masked"),
    [
        ("Incorrect API key provided: sk-a1b2c3d4", "Incorrect API key provided: ***"),
        ("the key expired yesterday", "the key expired yesterday"),
        ("Bearer authentication is wanted", "Bearer authentication is wanted"),
        ("bad key ab12cd34ef", "bad ***"),
        ("bad Bearer abcdefghijklmnopqrstuvwxyz", "bad ***"),
        ("bad key abc***xyz", "bad ***"),
    ],
)
def test_a_providers_own_words_about_a_key_are_shown_and_keys_are_masked(message: str, masked: str) -> None:
    assert redact_error(RuntimeError(message)) == f"RuntimeError: {masked}"
