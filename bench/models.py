"""Models of the benches: they cost nothing and answer at once, or after a delay."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.errors import ReplyError
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage


class CannedModel:
    """A model with fixed answers, after a delay; `objects` makes structured replies from (schema's name, scope)."""

    def __init__(
        self,
        delay: float = 0.0,
        objects: Callable[[str, Scope], dict[str, Any]] | None = None,
        object_delay: float = 0.0,
    ) -> None:
        self._delay, self._objects, self._object_delay = delay, objects, object_delay

    async def generate(self, messages: Sequence[ChatMessage], *, scope: Scope, **_: Any) -> Reply:
        """Return a fixed answer."""
        if self._delay:
            await asyncio.sleep(self._delay)
        return Reply(content=f"noted by {scope.node}", usage=Usage(calls=1, input_tokens=50, output_tokens=5))

    async def generate_structured(
        self, schema: type[Schema], messages: Sequence[ChatMessage], *, scope: Scope, **_: Any
    ) -> tuple[Schema, Usage]:
        """Return a fixed object, or refuse."""
        if self._objects is None:
            raise ReplyError(  # pragma: no cover - a bench is run by hand
                f"no {schema.__name__}: this model replies in text only"
            )
        if self._object_delay:
            await asyncio.sleep(self._object_delay)
        return schema.model_validate(self._objects(schema.__name__, scope)), Usage(calls=1)


class CannedChatModel(BaseChatModel):
    """A LangChain model that answers with a text of usual length, after `delay` seconds if that is not None."""

    delay: float | None = None
    on_call: Callable[[], object] = lambda: None

    @property
    def _llm_type(self) -> str:
        return "canned"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        usage: Any = {"input_tokens": 400, "output_tokens": 100, "total_tokens": 500}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("It is. " * 60, usage_metadata=usage))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.on_call()
        if self.delay is not None:
            await asyncio.sleep(self.delay)
        return self._generate(messages)
