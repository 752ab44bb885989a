import pytest

from selfwire.core.chat import ChatMessage
from selfwire.core.errors import BudgetError
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget, Usage
from selfwire.models.budget import Ledger
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model
from selfwire.store.journal import NullRecorder
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
