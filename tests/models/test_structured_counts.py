"""A run's journal tells how many objects were valid at once, when asked again, and not at all."""

import pytest

from selfwire.core.chat import ChatMessage, ReplySchema
from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.models.limits import CallSettings
from selfwire.models.metered_chat import MeteredModel, ObjectCounts, count_objects, list_unusable_replies
from selfwire.models.providers import make_chat_model
from selfwire.store.journal import Journal
from tests.wire.server import WireServer, refused, saying, text


class Fact(ReplySchema):
    year: int


RIGHT, WRONG = saying('{"year": 1874}'), saying("It was in 1874.")


async def ask(model: MeteredModel, what: str) -> Fact:
    return (await model.generate_structured(Fact, [ChatMessage.user(what)], scope=Scope(phase="p")))[0]


async def test_asks_are_counted_by_what_became_of_them(wire_server: WireServer) -> None:
    wire_server.answer = text("hello")
    journal = Journal.memory()
    chat = make_chat_model("openai:any", base_url=wire_server.url)
    model = MeteredModel(chat, journal=journal, policy=CallSettings(retries=0, structured="prompt"))
    wire_server.faults.extend([RIGHT, WRONG, RIGHT, WRONG, WRONG, WRONG, refused()])
    assert (await ask(model, "When?")).year == 1874
    assert (await ask(model, "When did it open?")).year == 1874
    with pytest.raises(ReplyError):
        await ask(model, "When did it close?")
    with pytest.raises(Exception, match="401"):
        await ask(model, "When was it built?")
    await model.generate([ChatMessage.user("Hello")], scope=Scope())
    assert await count_objects(journal) == ObjectCounts(at_once=1, again=1, invalid=1, unanswered=1)
    assert (await ask(model, "When did it open?")).year == 1874
    assert sum(await count_objects(journal)) == 4
    assert "1 of 4 structured requests had no valid reply" in (await list_unusable_replies(journal))[0]


async def test_a_model_that_gives_no_objects_is_named_at_the_end(wire_server: WireServer) -> None:
    wire_server.answer = text("hello")
    journal = Journal.memory()
    model = MeteredModel(make_chat_model("openai:any", base_url=wire_server.url), journal=journal)
    assert not await list_unusable_replies(journal)
    with pytest.raises(ReplyError):
        await ask(model, "When?")
    (told,) = await list_unusable_replies(journal)
    assert "1 of 1 structured request had no valid reply" in told
    assert "cannot serve as critic or judge; take another --model" in told
