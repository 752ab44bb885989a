"""Chat models asked without LangChain's callbacks, where nobody listens: setting them up takes 0.2 ms of CPU a call."""

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

from selfwire.runtime.threads import run_in_thread
from selfwire.runtime.tracing import is_observed

TOLD = ("ls_structured_output_format", "structured_output_format")
"""Options that only tracers are told."""
ASKED_BY = ("ainvoke", "agenerate_prompt", "agenerate", "_agenerate_with_cache")
"""What stands between a call and the model; a model that has its own way there is asked that way."""
UNHEARD = AsyncCallbackManagerForLLMRun.get_noop_manager()
"""What a model may tell how it gets on; it tells nobody, so that all calls share it."""


async def invoke_without_callbacks(
    runnable: Runnable[Any, Any], messages: list[BaseMessage], options: Mapping[str, Any]
) -> AIMessage | None:
    """What a model says, as `ainvoke` would give it but without an id; None where it must be asked by `ainvoke`.

    Args:
        runnable: a chat model, or one with options bound to it.
        messages: texts only, as nothing is converted.
        options: of this call.
    """
    while _only_binds(runnable):
        options = {**runnable.kwargs, **options}
        runnable = runnable.bound
    if not isinstance(runnable, BaseChatModel) or not _is_plain(runnable) or "stream" in options or is_observed():
        return None
    said = {name: value for name, value in options.items() if name not in TOLD}
    result = await _generated(runnable, messages, said)
    first, only = result.generations[0], len(result.generations) == 1
    more = result.llm_output if only and result.llm_output else {}
    answer = cast("AIMessage", first.message)
    if more or first.generation_info:
        answer.response_metadata = {**more, **(first.generation_info or {}), **answer.response_metadata}
    return answer


def _only_binds(runnable: Runnable[Any, Any]) -> TypeGuard[RunnableBinding[Any, Any]]:
    """Whether it does nothing but add options."""
    if not isinstance(runnable, RunnableBinding) or runnable.config or runnable.config_factories:
        return False
    return type(runnable).ainvoke is RunnableBinding.ainvoke


def _is_plain(model: BaseChatModel) -> bool:
    """Whether nobody hears of its calls, and nothing stands between them and `_agenerate`: cache, limiter, stream."""
    if model.callbacks or model.verbose or model.rate_limiter:
        return False
    if model.cache or (model.cache is None and get_llm_cache()) or model.output_version == "v1":
        return False
    usual, streams = _kind(type(model))
    return usual and not (streams and getattr(model, "streaming", None))


@cache
def _kind(model: type[BaseChatModel]) -> tuple[bool, bool]:
    """Whether its models are asked as usual, and whether they may stream: to ask a model for what it lacks is slow."""
    usual = all(getattr(model, name) is getattr(BaseChatModel, name) for name in ASKED_BY)
    takes_any = model.model_config.get("extra") == "allow"
    return usual, takes_any or "streaming" in model.model_fields or hasattr(model, "streaming")


async def _generated(model: BaseChatModel, messages: list[BaseMessage], options: Mapping[str, Any]) -> ChatResult:
    if type(model)._agenerate is not BaseChatModel._agenerate:
        return await model._agenerate(messages, run_manager=UNHEARD, **options)
    # a thread each: the loop's pool, which LangChain would take, has as many threads as a small machine has cores
    call = partial(model._generate, messages, run_manager=UNHEARD.get_sync(), **options)
    return await run_in_thread(copy_context().run, call)
