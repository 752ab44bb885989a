from typing import Any, Self

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from pydantic import BaseModel, PrivateAttr, model_validator

from selfwire.core.chat import ChatMessage, ToolSpec
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import get_identity, make_chat_model, rename_model


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


def test_a_ready_model_is_taken_as_it_is() -> None:
    model = FakeListChatModel(responses=["a"])
    assert make_chat_model(model) is model


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpt-4o", "unknown model 'gpt-4o'"),
        ("openai:", "unknown model 'openai:'"),
        ("nobody:model", "'nobody:model' cannot be used"),
        ("offline:mute", "unknown model 'offline:mute'; the offline model's voices are "),
        ("openai:gpt-4o-mini", "set OPENAI_API_KEY"),
        ("fireworks:some", "'fireworks:some' needs a package"),
    ],
)
def test_a_wrong_name_or_a_missing_key_is_said_plainly(name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_chat_model(name)


def test_retries_are_the_wrappers_and_a_timeout_is_always_set() -> None:
    model: Any = make_chat_model("openai:own", base_url="http://127.0.0.1:9/v1", max_retries=7)
    assert (model.max_retries, model.request_timeout, model.stream_usage, model.max_tokens) == (0, 120.0, True, 2048)
    assert get_identity(model) == ("openai", "own", "http://127.0.0.1:9/v1")
    assert get_identity(model).name == "openai:own"
    assert get_identity(model).label == "openai:own at http://127.0.0.1:9"


def test_an_option_that_the_model_refuses_is_a_config_error_without_the_key() -> None:
    with pytest.raises(ConfigError, match="cannot be used") as error:
        make_chat_model("openai:own", api_key="sk-very-secret-key", temperature="hot")
    assert "secret" not in str(error.value)


async def test_roles_without_a_model_of_their_own_use_the_agents() -> None:
    def named(name: str) -> BaseChatModel:
        return FakeListChatModel(responses=[name])

    model = MeteredModel({"agent": named("a"), "judge": named("j")})
    asked = [ChatMessage.user("who?")]
    said = [(await model.generate(asked, scope=Scope(), role=role)).content for role in ("agent", "meta", "judge")]
    assert said == ["a", "a", "j"]
    with pytest.raises(ConfigError, match="no model for role 'agent'"):
        MeteredModel({"judge": named("j")})


class Colour(BaseModel):
    name: str


async def test_a_model_without_structured_output_or_tools_is_asked_in_words_and_refuses_tools() -> None:
    model = MeteredModel(FakeListChatModel(responses=['I say {"name": "red"}']))
    colour, usage = await model.generate_structured(Colour, [ChatMessage.user("which?")], scope=Scope())
    assert colour == Colour(name="red")
    assert usage.dollars is None  # nobody knows its price
    assert usage.input_tokens > 0  # estimated, as it counts nothing
    tool = ToolSpec(name="t", description="d", parameters={})
    with pytest.raises(ConfigError, match="takes no tools"):
        await model.generate([ChatMessage.user("x")], scope=Scope(), tools=[tool])


@pytest.mark.parametrize(
    ("server", "limit"),
    [
        ("http://127.0.0.1:8000/v1", "max_tokens"),
        ("https://models.example.com/v1", "max_tokens"),
        ("https://api.openai.com/v1", "max_completion_tokens"),
    ],
)
def test_a_server_gets_the_limit_of_a_reply_in_the_field_that_it_reads(server: str, limit: str) -> None:
    model: Any = make_chat_model("openai:any", base_url=server, api_key="k", max_tokens=7)
    payload = model._get_request_payload([("user", "hello")])
    assert {name: payload[name] for name in payload if name.startswith("max_")} == {limit: 7}


class Addressed(FakeListChatModel):
    """Derives an address from its model's name when it is made."""

    model_name: str
    address: str = ""

    @model_validator(mode="after")
    def derive(self) -> Self:
        self.address = self.address or f"projects/p/models/{self.model_name}"
        return self

    def _get_ls_params(self, stop: Any = None, **_: Any) -> LangSmithParams:
        return LangSmithParams(ls_provider="own", ls_model_name=self.model_name)


def test_a_class_that_derives_a_text_from_its_models_name_is_refused_a_copy() -> None:
    with pytest.raises(ConfigError, match="own:dear by Addressed, which has the name in its 'address' too"):
        rename_model(Addressed(model_name="dear", responses=[]), "own:cheap")
    made = rename_model(Addressed(model_name="dear", address="models/dear-2", responses=[]), "own:cheap")
    assert get_identity(made).name == "own:cheap"
    made = rename_model(Addressed(model_name="dear", address="http://dear:8080/v1", responses=[]), "own:cheap")
    assert get_identity(made).name == "own:cheap"


class Hidden(Addressed):
    """Keeps what it derives to itself."""

    _url: str = PrivateAttr("")

    def model_post_init(self, _: Any) -> None:
        """Derive it."""
        self._url = f"projects/p/models/{self.model_name}"


def test_a_private_text_of_a_class_that_is_derived_from_its_models_name_is_seen() -> None:
    with pytest.raises(ConfigError, match="own:dear by Hidden, which has the name in its '_url' too"):
        rename_model(Hidden(model_name="dear", address="a", responses=[]), "own:cheap")
