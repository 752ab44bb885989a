"""Chat completions through `openai`'s client, sent and read as `ChatOpenAI` does, at about half of its CPU time.

The client takes every message apart to look for names to translate, of which messages have none, and builds typed
objects of the reply, which LangChain takes apart again in another thread. Here messages and tools go in as the
client's `extra_body`, which it sends as it is, and the reply stays JSON. What is sent is equal to the byte.
"""

import sys
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult

OWN_METHODS = ("_agenerate", "_create_chat_result")
"""Methods that must be those of `BaseChatOpenAI`; other providers' models, and Azure's, read more in a reply."""
USED = ("_handle_openai_bad_request", "_handle_openai_api_error", "_add_gateway_metadata")
"""Functions of LangChain's module, which all releases may not have."""
AS_THEY_ARE = ("messages", "tools")
"""Parts of a request that the client need not look into."""


def is_openai_chat(model: BaseChatModel) -> bool:
    """Whether `complete` may stand for a model's `_agenerate`."""
    library = sys.modules.get("langchain_openai.chat_models.base")  # it is imported wherever there is such a model
    if library is None or not _inherits(type(model), library) or getattr(model, "include_response_headers", None):
        return False
    return _is_untouched(getattr(model, "async_client", None))


@cache
def _inherits(model: type[BaseChatModel], library: ModuleType) -> bool:
    base: Any = library.BaseChatOpenAI
    if not issubclass(model, base) or not all(hasattr(library, name) for name in USED):
        return False
    return all(getattr(model, name) is getattr(base, name) for name in OWN_METHODS)


def _is_untouched(completions: Any) -> bool:
    """Whether requests go by `openai`'s own code: a user's client, or one that is traced, gets whole requests."""
    import openai
    from openai.resources.chat import AsyncCompletions

    code = getattr(AsyncCompletions.create, "__code__", None)
    return (
        type(completions) is AsyncCompletions and code is not None and code.co_filename.startswith(openai.__path__[0])
    )


async def complete(model: Any, messages: list[BaseMessage], options: Mapping[str, Any]) -> ChatResult | None:
    """The result of `model._agenerate`; None if the request is of a kind that only it can send.

    Raises:
        openai.OpenAIError, ValueError, LookupError, TypeError: as `_agenerate`.
    """
    from langchain_openai.chat_models import base
    from openai import APIError, BadRequestError

    payload: dict[str, Any] = model._get_request_payload(messages, **options)
    if payload.get("stream") or model._use_responses_api(payload) or "response_format" in payload:
        return None
    plain = {name: payload.pop(name) for name in AS_THEY_ARE if name in payload}
    extra_body = {**plain, **(payload.pop("extra_body", None) or {})}
    empty = dict.fromkeys(plain, ())  # they have the places of the parts in the body
    try:
        response = await model.async_client.with_raw_response.create(**payload, **empty, extra_body=extra_body)
    except BadRequestError as error:
        base._handle_openai_bad_request(error)
    except APIError as error:
        base._handle_openai_api_error(error)
    answer = response.parse(to=object)
    if not isinstance(answer, dict):
        answer = response.parse()
    else:
        answer.setdefault("system_fingerprint", None)
    notes: dict[str, Any] = {}
    base._add_gateway_metadata(notes, response)
    result: ChatResult = model._create_chat_result(answer, notes)
    return result
