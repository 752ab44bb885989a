"""Classes of other providers, which take options and name the end of a reply in their own ways."""

import asyncio
import time
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.models import providers
from selfwire.models.metered_chat import MeteredModel
from tests.models.wired import ASKED, QUICK, Verdict, metered
from tests.wire.server import WireServer, lying


class FieldsOnly(BaseChatModel):
    """A model whose client takes no options with a call, as that of langchain-ollama."""

    temperature: float | None = None
    seed: int | None = None
    request_timeout: float = 1.0
    num_predict: int = 77
    said: str = "hello"
    notes: dict[str, str] = Field(default_factory=dict)
    asked: list[tuple[float | None, int | None]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "fields-only"

    def _generate(
        self, messages: object, stop: object = None, run_manager: object = None, **options: object
    ) -> ChatResult:
        for name in options:
            raise TypeError(f"Client.chat() got an unexpected keyword argument {name!r}")
        self.asked.append((self.temperature, self.seed))
        answer = AIMessage(self.said, response_metadata=self.notes)
        return ChatResult(generations=[ChatGeneration(message=answer)])


async def test_options_that_a_call_does_not_take_are_set_on_the_model() -> None:
    chat = FieldsOnly()
    model = MeteredModel(chat, policy=QUICK.replace(retries=0))
    for temperature, seed in [(0.3, 1), (0.7, 2), (None, 3)]:
        reply = await model.generate(ASKED, scope=Scope(task="t", seed=seed), temperature=temperature)
        assert reply.content == "hello"
    assert chat.asked == [(0.3, 1), (0.7, 2), (None, 3)]
    assert chat.temperature is None, "the user's own model stays as it is"
    assert model.chat().max_reply_tokens == 77


async def test_calls_at_once_all_learn_which_options_a_call_does_not_take() -> None:
    chat = SlowFieldsOnly()
    model = MeteredModel(chat, policy=QUICK.replace(retries=0))
    await asyncio.gather(*(model.generate(ASKED, scope=Scope(task=f"t{i}"), temperature=0.3) for i in range(4)))
    assert [temperature for temperature, _ in chat.asked] == [0.3] * 4


class SlowFieldsOnly(FieldsOnly):
    def _generate(self, *messages: Any, **options: Any) -> ChatResult:
        time.sleep(0.05)
        return super()._generate(*messages, **options)


async def test_an_option_that_neither_call_nor_model_takes_is_told(caplog: pytest.LogCaptureFixture) -> None:
    model = MeteredModel(NoOptions(messages=iter([AIMessage("hello")] * 2)), policy=QUICK.replace(retries=0))
    for _ in range(2):
        assert (await model.generate(ASKED, scope=Scope(), temperature=0.3)).content == "hello"
    (told,) = caplog.messages
    assert told.endswith("takes no temperature: it is not sent from now on")


class NoOptions(GenericFakeChatModel):
    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None) -> ChatResult:  # type: ignore[override]
        return super()._generate(messages, stop, run_manager)


async def test_a_model_whose_replies_may_be_endless_is_asked() -> None:
    model = MeteredModel(FieldsOnly(num_predict=-1), policy=QUICK)
    assert (await model.generate(ASKED, scope=Scope())).content == "hello"


@pytest.mark.parametrize(
    "notes", [{"stop_reason": "max_tokens"}, {"finish_reason": "MAX_TOKENS"}, {"done_reason": "length"}]
)
async def test_a_reply_that_was_cut_is_never_taken_for_a_whole_object(notes: dict[str, str]) -> None:
    chat = FieldsOnly(said='{"good": true, "reasons": ["the first", "the sec', notes=notes)
    with pytest.raises(ReplyError):
        await MeteredModel(chat, policy=QUICK).generate_structured(Verdict, ASKED, scope=Scope())
    assert len(chat.asked) == 2


async def test_calls_of_one_id_get_their_own(wire_server: WireServer) -> None:
    function = {"name": "stock", "arguments": "{}"}
    wire_server.always = lying(message={"tool_calls": [{"id": "a", "type": "function", "function": function}] * 2})
    reply = await metered(wire_server).generate(ASKED, scope=Scope())
    assert [call.id for call in reply.tool_calls] == ["a-0", "a-1"]


@pytest.mark.parametrize(("given", "limit"), [({}, 2048), ({"max_tokens": 9}, 9), ({"num_predict": 7}, 7)])
def test_a_name_of_ollama_takes_the_limit_of_a_reply_in_its_own_word(
    given: dict[str, int], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "_make_hosted", lambda name, options: options)
    made: Any = providers.make_chat_model("ollama:small", **given)
    assert made["num_predict"] == limit
    assert "max_tokens" not in made
