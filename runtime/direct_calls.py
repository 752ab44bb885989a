"""Calls of chat models without LangChain's callbacks if nothing observes them: setting those up takes 0.2 ms of CPU."""

from collections.abc import Mapping
from contextvars import copy_context
from functools import cache, partial
from typing import Any, TypeGuard, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable, RunnableBinding

from selfwire.runtime.openai_calls import complete, is_openai_chat
from selfwire.runtime.threads import run_in_thread
from selfwire.runtime.tracing import has_listeners

TRACER_OPTIONS = ("ls_structured_output_format", "structured_output_format")
"""Options that only tracers read."""
OVERRIDABLE = ("ainvoke", "agenerate_prompt", "agenerate", "_agenerate_with_cache")
"""Methods between a call and the model; a model with one of its own is called through `ainvoke`."""
NO_CALLBACKS = AsyncCallbackManagerForLLMRun.get_noop_manager()
"""The callback manager that a model gets; it has no handlers, so all calls share it."""


async def invoke_without_callbacks(
    runnable: Runnable[Any, Any], messages: list[BaseMessage], options: Mapping[str, Any]
) -> AIMessage | None:
    """The reply to messages with texts only, as of `ainvoke` but without an id; None if only `ainvoke` may be used."""
    while _only_binds(runnable):
        options = {**runnable.kwargs, **options}
        runnable = runnable.bound
    if not isinstance(runnable, BaseChatModel) or not _is_plain(runnable) or "stream" in options or has_listeners():
        return None
    model_options = {name: value for name, value in options.items() if name not in TRACER_OPTIONS}
    result = await _generate(runnable, messages, model_options)
    first, only = result.generations[0], len(result.generations) == 1
    more = result.llm_output if only and result.llm_output else {}
    reply = cast("AIMessage", first.message)
    if more or first.generation_info:
        reply.response_metadata = {**more, **(first.generation_info or {}), **reply.response_metadata}
    return reply


def _only_binds(runnable: Runnable[Any, Any]) -> TypeGuard[RunnableBinding[Any, Any]]:
    if not isinstance(runnable, RunnableBinding) or runnable.config or runnable.config_factories:
        return False
    return type(runnable).ainvoke is RunnableBinding.ainvoke


def _is_plain(model: BaseChatModel) -> bool:
    """Whether nothing observes a model's calls or stands before `_agenerate`: no cache, rate limiter or stream."""
    if model.callbacks or model.verbose or model.rate_limiter:
        return False
    if model.cache or (model.cache is None and get_llm_cache()) or model.output_version == "v1":
        return False
    is_usual, streams = _inspect(type(model))
    return is_usual and not (streams and getattr(model, "streaming", None))


@cache
def _inspect(model: type[BaseChatModel]) -> tuple[bool, bool]:
    """Whether a class overrides no method of `OVERRIDABLE`, and whether it may stream; looking this up is slow."""
    is_usual = all(getattr(model, name) is getattr(BaseChatModel, name) for name in OVERRIDABLE)
    takes_any = model.model_config.get("extra") == "allow"
    return is_usual, takes_any or "streaming" in model.model_fields or hasattr(model, "streaming")


async def _generate(model: BaseChatModel, messages: list[BaseMessage], options: Mapping[str, Any]) -> ChatResult:
    if is_openai_chat(model) and (result := await complete(model, messages, options)):
        return result
    if type(model)._agenerate is not BaseChatModel._agenerate:
        return await model._agenerate(messages, run_manager=NO_CALLBACKS, **options)
    # one thread per call: LangChain would take the loop's pool, which has few threads on a small machine
    call = partial(model._generate, messages, run_manager=NO_CALLBACKS.get_sync(), **options)
    return await run_in_thread(copy_context().run, call)
