"""Keys and passwords in replies, encoded errors and traces, with a provider and a LangSmith on the wire."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.tracers.langchain import wait_for_all_tracers
from langchain_openai import ChatOpenAI
from langsmith import Client, run_trees, utils
from pydantic import SecretStr

from selfwire.core import text
from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.text import mask_json
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model
from selfwire.store.journal import Journal
from tests.models.wired import ASKED, PRICES, QUICK, Verdict
from tests.wire.langsmith_server import LangSmithServer
from tests.wire.server import WireServer, lying, refused, saying

KEY, PASSWORD, QUERY = "sk-f00ba4f00ba4f00ba4", "pa55-w0rd-4711", "q-4711-abcdef"
SECRETS = (KEY, PASSWORD, QUERY)


def forget_environment() -> None:
    """Let LangSmith read its settings anew, which it remembers."""
    remembered: Any = utils.get_env_var
    remembered.cache_clear()


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[LangSmithServer]:
    with LangSmithServer() as server:
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        monkeypatch.setenv("LANGSMITH_ENDPOINT", server.url)
        monkeypatch.setattr(run_trees, "_CLIENT", None)
        forget_environment()
        yield server
        wait_for_all_tracers()
    forget_environment()


def make_model(server: WireServer, *, ready: bool, journal: Journal | None = None) -> MeteredModel:
    address = f"http://usr:{PASSWORD}@127.0.0.1:{server.port}/v1"
    if ready:
        text.mask_address(f"?api_key={QUERY}")
        options: dict[str, Any] = {"max_retries": 0, "default_query": {"api_key": QUERY}}
        chat: Any = ChatOpenAI(model="local", base_url=address, api_key=SecretStr(KEY), **options)
    else:
        chat = make_chat_model("openai:local", base_url=f"{address}?api_key={QUERY}", api_key=KEY)
    return MeteredModel(chat, policy=QUICK.replace(retries=0), prices=PRICES, journal=journal)


@pytest.mark.parametrize("ready", [False, True], ids=["by name", "ready"])
async def test_no_trace_shows_the_secrets_of_an_address_or_a_key_that_a_provider_repeats(
    wire_server: WireServer, traced: LangSmithServer, ready: bool
) -> None:
    model = make_model(wire_server, ready=ready)
    await model.generate(ASKED, scope=Scope())
    wire_server.always = saying('{"good": true, "reasons": []}')
    await model.generate_structured(Verdict, ASKED, scope=Scope())
    wire_server.always = refused(f"bad {KEY}, {PASSWORD} and {QUERY}")
    with pytest.raises(ModelError):
        await model.generate(ASKED, scope=Scope(task="t"))
    wire_server.always = saying(f"the key is {KEY}")
    await model.generate(ASKED, scope=Scope(task="u"))
    wait_for_all_tracers()
    traced.settled()
    runs = json.dumps([*traced.runs.values()])
    assert len([run for run in traced.runs.values() if run["run_type"] == "llm"]) == 4
    assert "hello?" in runs
    assert [secret for secret in SECRETS if secret in runs] == []


@pytest.mark.parametrize("own", [True, False])
def test_an_anonymizer_of_the_users_own_stays(
    wire_server: WireServer, traced: LangSmithServer, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(api_url=traced.url, api_key="k", anonymizer=dict if own else None, auto_batch_tracing=False)
    monkeypatch.setattr(run_trees, "_CLIENT", client)
    make_model(wire_server, ready=True)
    assert client._anonymizer is (dict if own else mask_json)


async def test_a_key_in_a_reply_is_masked_before_it_is_kept(wire_server: WireServer) -> None:
    journal = Journal.memory()
    model = make_model(wire_server, ready=False, journal=journal)
    encoded = base64.b64encode(f"usr:{PASSWORD}".encode()).decode()
    wire_server.always = saying(f"Bearer {KEY}, Basic {encoded}, {QUERY}; hello")
    reply = await model.generate(ASKED, scope=Scope())
    assert reply.content == "Bearer ***, Basic ***, ***; hello"
    called = {"id": "c", "type": "function", "function": {"name": "add", "arguments": json.dumps({"k": [KEY]})}}
    wire_server.always = lying({"content": None, "tool_calls": [called]}, system_fingerprint=KEY)
    reply = await model.generate(ASKED, scope=Scope(task="t"))
    assert reply.tool_calls[0].arguments["k"] == ("***",)
    message = await model.chat().ainvoke("hello?")
    assert KEY not in message.model_dump_json()
    kept = json.dumps([row.reply for row in await journal.rows()])
    assert [secret for secret in (*SECRETS, encoded) if secret in kept] == []


@pytest.mark.parametrize("turn", ["first", "second"])
def test_a_secret_of_another_test_masks_nothing(turn: str) -> None:
    assert text.mask_secrets("no swordfish here") == "no swordfish here"
    text.register_secret("swordfish")


async def test_a_word_that_is_a_password_stays_in_replies(
    wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "postgres")
    text.mask_address("http://usr:1234@h/")
    wire_server.always = saying("postgres 1234")
    assert (await make_model(wire_server, ready=False).generate(ASKED, scope=Scope())).content == "postgres 1234"


@pytest.mark.parametrize("around", ["{}", "a{}", "ab{}", "abc{}c", "usr:{}", "{}@"])
def test_encoded_secrets_are_masked_wherever_they_begin(around: str) -> None:
    text.register_secret("pässw0rd/+?~ÿ")
    whole = around.format("pässw0rd/+?~ÿ").encode()
    for encoded in (base64.b64encode(whole), base64.urlsafe_b64encode(whole), whole.hex().encode()):
        assert "***" in text.mask_secrets(f"bad {encoded.decode()} here")
    assert text.mask_secrets("p%C3%A4ssw0rd%2F%2B%3F~%C3%BF") == "***"
