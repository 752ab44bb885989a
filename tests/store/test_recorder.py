import asyncio

import pytest

from selfwire.core.chat import ChatMessage
from selfwire.core.errors import BudgetError
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget, Usage
from selfwire.models.budget import Ledger
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model
from selfwire.store.journal import Journal, NullRecorder
from selfwire.store.journal_file import CallResult

ASKED = [ChatMessage.system("You are brief."), ChatMessage.user("hello?")]


async def test_equal_calls_are_made_each_time() -> None:
    made: list[int] = []

    async def call() -> CallResult:
        made.append(len(made))
        return CallResult(str(len(made)), Usage(calls=1))

    outcomes = [await NullRecorder().call_once("model", Scope(), {}, call) for _ in range(2)]
    assert [outcome.text for outcome in outcomes] == ["1", "2"]
    assert not any(outcome.replayed for outcome in outcomes)


async def test_a_model_that_is_not_recorded_is_still_paid_for() -> None:
    model = MeteredModel(make_chat_model("offline"), journal=NullRecorder())
    for _ in range(2):
        await model.generate(ASKED, scope=Scope())
    assert model.ledger.spent.calls == 2


async def test_another_ledger_pays_for_the_same_models() -> None:
    model = MeteredModel(make_chat_model("offline"), journal=NullRecorder())
    poor = model.with_ledger(Ledger(Budget(calls=1)))
    await poor.generate(ASKED, scope=Scope())
    with pytest.raises(BudgetError, match="1 of 1 calls"):
        await poor.generate(ASKED, scope=Scope())
    await model.generate(ASKED, scope=Scope())
    assert model.ledger.spent.calls == poor.ledger.spent.calls == 1


async def test_equal_calls_that_are_recorded_from_threads_are_all_kept_in_order() -> None:
    journal, place = Journal.memory(), Scope(run="r", phase="rollout", task="t")
    with journal.on_this_loop():
        for number in range(3):
            await journal.put_note(f"n{number}", number)
            result = CallResult(f'"{number}"', Usage(calls=1))
            await asyncio.to_thread(journal.record, "model", place.at(node="a"), {"asked": "x"}, result)
        journal.record("model", place.at(node="b"), {"asked": "x"}, CallResult('"b"', Usage(calls=1)))
        journal.record("model", place.at(task="u"), {"asked": "x"}, CallResult('"u"', Usage(calls=1)))
        found = await journal.list_replies(place)
    assert [(node, reply) for node, _, reply in found] == [("a", '"0"'), ("a", '"1"'), ("a", '"2"'), ("b", '"b"')]
    assert len({digest for _, digest, _ in found}) == 1
    assert journal.spend().calls == 5
    assert not await journal.retry_replies(place)
    journal.retry_failed()
    assert await journal.retry_replies(place.at(task="u"))
    assert [reply for _, _, reply in await journal.list_replies(place)] == ['"0"', '"1"', '"2"', '"b"']
    assert await journal.retry_replies(place)
    assert await journal.list_replies(place) == []
    journal.record("model", place.at(node="a"), {"asked": "x"}, CallResult('"new"', Usage(calls=1)))
    assert not await journal.retry_replies(place)
    assert [reply for _, _, reply in await journal.list_replies(place)] == ['"new"']
    assert journal.spend().calls == 6
    assert await NullRecorder().list_replies(place) == []
    assert not await NullRecorder().retry_replies(place)
