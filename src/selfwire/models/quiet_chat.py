"""A LangChain chat model without LangChain's cost per call where nobody listens; imports no provider."""

import uuid
from typing import Any

from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig

from selfwire.models.tracing import has_listeners

TRACER_OPTIONS = ("ls_structured_output_format", "structured_output_format")
"""Options of a call that only tracers read."""


class QuietChat(BaseChatModel):
    """A chat model whose `ainvoke` calls `_agenerate` directly if nothing observes or intercepts the call.

    Requests and answers do not differ. With a callback, a tracer, a graph that streams messages, a cache, a rate
    limiter, image blocks or another output version, LangChain's own `ainvoke` is called.
    """

    async def ainvoke(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Answer as `BaseChatModel.ainvoke` does."""
        messages = self._convert_input(input).to_messages()
        texts = all(type(message.content) is str for message in messages)
        if not texts or not self._is_plain() or "stream" in kwargs or has_listeners(config):
            return await super().ainvoke(input, config, stop=stop, **kwargs)
        for name in TRACER_OPTIONS:
            kwargs.pop(name, None)
        result = await self._agenerate(messages, stop=stop, **kwargs)
        first, only = result.generations[0], len(result.generations) == 1
        reply = first.message
        assert isinstance(reply, AIMessage)
        more = (result.llm_output or {}) if only else {}
        reply.response_metadata = {**more, **(first.generation_info or {}), **reply.response_metadata}
        reply.id = reply.id or f"lc_run--{uuid.uuid4()}-0"
        return reply

    def _is_plain(self) -> bool:
        """Whether the model itself has nothing that observes or intercepts a call."""
        if self.callbacks or self.verbose or self.rate_limiter or getattr(self, "streaming", None):
            return False
        return not (self.cache or (self.cache is None and get_llm_cache()) or self.output_version == "v1")
