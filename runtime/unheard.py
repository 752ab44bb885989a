"""Chat models asked without LangChain's callbacks, where nobody listens: setting those up takes longer than a call."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableBinding

from selfwire.runtime.tracing import is_watched

TOLD = ("ls_structured_output_format", "structured_output_format")
"""Options that only tracers are told."""
ASKED_BY = ("ainvoke", "agenerate_prompt", "agenerate")
"""What stands between a call and the model; a model that has its own way there is asked that way."""


async def answered(
    runnable: Runnable[Any, AIMessage], messages: list[BaseMessage], options: dict[str, Any]
) -> AIMessage | None:
    """A model's answer, its cache and its rate limit included; None where `ainvoke` must be used.

    Args:
        runnable: a chat model, or one with options bound to it.
        messages: texts only, as nothing is converted.
        options: of this call.
    """
    while type(runnable) is RunnableBinding and not runnable.config and not runnable.config_factories:
        options = {**runnable.kwargs, **options}
        runnable = runnable.bound
    if not isinstance(runnable, BaseChatModel) or runnable.callbacks or runnable.verbose or is_watched():
        return None
    if any(getattr(type(runnable), name) is not getattr(BaseChatModel, name) for name in ASKED_BY):
        return None
    said = {name: value for name, value in options.items() if name not in TOLD}
    result = await runnable._agenerate_with_cache(messages, **said)
    answer = result.generations[0].message
    return answer if isinstance(answer, AIMessage) else None
