"""Everything that a method asks a model, as the model receives it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from selfwire.core.chat import ChatMessage, Reply, ToolSpec
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.structured import bind_schema
from selfwire.store.journal import NullRecorder
from tests.request_parts import read_instructions


@dataclass(frozen=True)
class Ask:
    """One call of a model.

    Attributes:
        step: what asks: the name of the reply's schema, or "agent" where a text is asked for.
        options: what is sent beside the messages: tools, or the schema of the reply.
    """

    step: str
    scope: Scope
    role: str
    messages: tuple[ChatMessage, ...]
    options: dict[str, Any]

    @property
    def instructions(self) -> str:
        """The instructions of whoever is asked."""
        system, user, *_ = self.messages
        return read_instructions(system.content, user.content)

    @property
    def length(self) -> int:
        """Characters of the messages."""
        return sum(len(one.content) for one in self.messages)


@dataclass(frozen=True)
class Asks:
    """Calls in the order in which they were made."""

    made: list[Ask] = field(default_factory=list)

    def add(
        self,
        scope: Scope,
        role: str,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec] = (),
        schema: type[BaseModel] | None = None,
    ) -> None:
        """Note one call."""
        step = get_title(schema) if schema else "agent"
        self.made.append(Ask(step, scope, role, tuple(messages), options_sent(tuple(tools), schema)))


def get_title(schema: type[BaseModel]) -> str:
    """The name of a schema as models read it."""
    return str(schema.model_json_schema()["title"])


class RecordingModel(MeteredModel):
    """Notes what it is asked, and keeps no journal.

    Args:
        replies: what it replies, by the title of a schema or the beginning of an agent's instructions, in place of
            what the chat model would.
    """

    def __init__(self, chat: BaseChatModel, asks: Asks, replies: Mapping[str, Any]) -> None:
        super().__init__(chat, journal=NullRecorder())
        self.asks, self.replies = asks, replies

    async def generate(
        self, messages: Sequence[ChatMessage], *, scope: Scope, role: str = "agent", **options: Any
    ) -> Reply:
        self.asks.add(scope, role, messages, tools=options.get("tools", ()))
        for beginning, text in self.replies.items():
            if self.asks.made[-1].instructions.startswith(beginning):
                return Reply(content=text, usage=Usage(calls=1))
        return await super().generate(messages, scope=scope, role=role, **options)

    async def generate_structured(
        self, schema: type[Schema], messages: Sequence[ChatMessage], *, scope: Scope, role: str = "meta", **options: Any
    ) -> tuple[Schema, Usage]:
        self.asks.add(scope, role, messages, schema=schema)
        if (title := get_title(schema)) in self.replies:
            return schema.model_validate(self.replies[title]), Usage(calls=1)
        return await super().generate_structured(schema, messages, scope=scope, role=role, **options)


@cache
def _client() -> ChatOpenAI:
    return ChatOpenAI(model="any", api_key=SecretStr("none"))


@cache
def options_sent(tools: tuple[ToolSpec, ...], schema: type[BaseModel] | None) -> dict[str, Any]:
    """What an OpenAI-compatible server gets beside the messages."""
    bound: Any = bind_schema(_client(), tools, schema, "native").runnable
    given: dict[str, Any] = {}
    while hasattr(bound, "kwargs"):
        given = {**bound.kwargs, **given}
        bound = bound.bound
    if "response_format" in given:
        return {"response_format": given["response_format"]}
    return {"tools": given["tools"]} if "tools" in given else {}
