"""`offline`: a chat model without weights and network, a stand-in with which everything runs.

Its reply is a function of (messages, seed, sample, temperature) and of nothing else. Measurements with it show the
machinery, not a method's accuracy.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from pydantic import BaseModel, Field

from selfwire.core.values import fingerprint
from selfwire.extras.offline import critics, wire
from selfwire.extras.offline.instructions import VOICES, Voice
from selfwire.extras.offline.vocabulary import family_of
from selfwire.extras.offline.worker import work_on
from selfwire.models.tracing import QuietChat


class OfflineChat(QuietChat):
    """The offline stand-in as a LangChain chat model.

    `seed`, `sample` and `temperature` may also be given per call or bound, and have priority over the fields.

    Args:
        temperature: in [0, 2]; a higher one means more wrong steps and more varied wording.
        error_rate: share of wrong steps of work at temperature 1; half as many at 0.
        critic_error_rate: share of wrong judgements of critics, judges and evolvers.
        voice: the instructions that a worker follows: all, or for comparison the standing ones ("system") or those of
            the moment ("user").
    """

    voices: ClassVar[tuple[Voice, ...]] = VOICES
    """Names of the instructions that a worker may follow."""

    model_name: str = "offline"
    voice: Voice = "all"
    seed: int = 0
    temperature: float = Field(default=1.0, ge=0, le=2)
    error_rate: float = Field(default=0.04, ge=0, le=1)
    critic_error_rate: float = Field(default=0.2, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)

    @staticmethod
    def knows(question: str) -> bool:
        """Whether a question is of a family of tasks that the model can work on."""
        return family_of(question) is not None

    @property
    def _llm_type(self) -> str:
        return "offline"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name, "seed": self.seed, "error_rate": self.error_rate}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools; `tool_choice` "any", "required" or a name forces a call."""
        offered = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=offered, tool_choice=tool_choice, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: str = "function_calling",
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Ask for an object, by a forced tool call or (method "json_schema") by the response format."""
        if method != "json_schema":
            return super().with_structured_output(schema, include_raw=include_raw, **kwargs)
        wanted = convert_to_json_schema(schema)
        name = wanted.get("title", "reply")
        model = self.bind(response_format={"type": "json_schema", "json_schema": {"name": name, "schema": wanted}})
        typed = isinstance(schema, type) and issubclass(schema, BaseModel)
        parser: Runnable[Any, Any] = PydanticOutputParser(pydantic_object=schema) if typed else JsonOutputParser()
        if not include_raw:
            return model | parser
        parsed = RunnablePassthrough.assign(
            parsed=(lambda both: both["raw"]) | parser, parsing_error=lambda _: None
        ).with_fallbacks([RunnablePassthrough.assign(parsed=lambda _: None)], exception_key="parsing_error")
        return RunnableMap(raw=model) | parsed

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages, stop, kwargs))])

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        await asyncio.sleep(0)  # other tasks have their turn, as with a model that is far away
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages, stop, kwargs))])

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in wire.chunks(self._reply(messages, stop, kwargs)):
            if run_manager:
                run_manager.on_llm_new_token(str(chunk.text), chunk=ChatGenerationChunk(message=chunk))
            yield ChatGenerationChunk(message=chunk)

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        await asyncio.sleep(0)
        for chunk in wire.chunks(self._reply(messages, stop, kwargs)):
            if run_manager:
                await run_manager.on_llm_new_token(str(chunk.text), chunk=ChatGenerationChunk(message=chunk))
            yield ChatGenerationChunk(message=chunk)

    def _reply(self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]) -> AIMessage:
        """The reply; the only randomness is a hash of messages, seed, sample and temperature."""
        plain = [wire.to_plain_message(message) for message in messages]
        temperature = self.temperature if kwargs.get("temperature") is None else float(kwargs["temperature"])
        seed = self.seed if kwargs.get("seed") is None else int(kwargs["seed"])
        place = [[wire.plain(message) for message in plain], seed, int(kwargs.get("sample") or 0), temperature]
        key = fingerprint(place)

        def random(purpose: str) -> Random:
            return Random(f"{key} {purpose}")

        scale = (1 + temperature) / 2
        schema = wire.requested_schema(kwargs)
        errors, slips = (min(1.0, rate * scale) for rate in (self.critic_error_rate, self.error_rate))
        if schema is None:
            turn = work_on(plain, wire.get_offered_tools(kwargs), random, slips, errors, self.voice)
            draft = wire.OfflineDraft(turn.text, turn.calls, turn.skills)
        else:
            reply = critics.reply(schema.kind, schema.parameters, plain, random, errors, slips, self.voice)
            draft = wire.draft_reply(schema, json.dumps(reply, ensure_ascii=False), reply)
        limit = kwargs.get("max_tokens") or self.max_tokens
        draft = draft.cut(stop, limit)
        return wire.message(draft, name=self.model_name, key=key[:8], input_tokens=wire.tokens_sent(plain, kwargs))
