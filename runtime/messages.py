"""Core's chat values as LangChain messages and back."""

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from selfwire.core.chat import ChatMessage, Reply, ToolCall, ToolSpec
from selfwire.core.usage import Usage
from selfwire.core.values import replace_surrogates, to_plain_json

BOOKKEEPING = {"token_usage", "usage", "model_name", "model", "finish_reason", "stop_reason", "logprobs", "headers"}
"""Response metadata that a Reply has in other fields, or that is not kept."""

BROKEN = "_not_json"
"""Under this name stand the arguments of a tool call that could not be read."""
BROKEN_LENGTH = 2000
"""Characters of them that are kept."""


def to_langchain(messages: Sequence[ChatMessage]) -> list[BaseMessage]:
    """Core's messages as LangChain's."""
    return [_to_langchain(message) for message in messages]


def _to_langchain(message: ChatMessage) -> BaseMessage:
    if message.role == "system":
        return SystemMessage(message.content)
    if message.role == "user":
        return HumanMessage(message.content)
    if message.role == "tool":
        return ToolMessage(message.content, tool_call_id=message.tool_call_id or "")
    calls = [tool_call(name=c.name, args=to_plain_json(c.arguments), id=c.id) for c in message.tool_calls]
    return AIMessage(message.content, tool_calls=calls)


def to_function(tool: ToolSpec) -> dict[str, Any]:
    """A tool as the function object that every provider's `bind_tools` takes."""
    function = {"name": tool.name, "description": tool.description, "parameters": to_plain_json(tool.parameters)}
    return {"type": "function", "function": function}


def to_reply(message: AIMessage, usage: Usage) -> Reply:
    """LangChain's answer as a Reply.

    A call whose arguments are not a JSON object has their raw text under `BROKEN`, so that the tool can tell the agent
    what is wrong with them.
    """
    response = message.response_metadata
    calls = [_to_call(c["id"], c["name"], c["args"], i) for i, c in enumerate(message.tool_calls)]
    for broken in message.invalid_tool_calls:
        calls.append(_to_call(broken["id"], broken["name"] or "", {BROKEN: broken["args"] or ""}, len(calls)))
    return Reply(
        content=replace_surrogates(message.text),
        tool_calls=tuple(calls),
        usage=usage,
        model=replace_surrogates(str(response.get("model_name") or response.get("model") or "")),
        finish=replace_surrogates(str(response.get("finish_reason") or response.get("stop_reason") or "")),
        metadata={name: value for name, value in response.items() if name not in BOOKKEEPING and _is_json(value)},
    )


def _to_call(id: str | None, name: str, arguments: dict[str, Any], number: int) -> ToolCall:
    """A tool call; arguments that are no JSON (NaN, too deep) stand as text under `BROKEN`."""
    called = {"id": replace_surrogates(id or f"call-{number}"), "name": replace_surrogates(name)}
    try:
        text = json.dumps(arguments, ensure_ascii=False)
        return ToolCall(**called, arguments=arguments if text.isascii() else json.loads(replace_surrogates(text)))
    except (RecursionError, ValueError):
        return ToolCall(**called, arguments={BROKEN: replace_surrogates(_shorten_repr(arguments))})


def _shorten_repr(arguments: dict[str, Any]) -> str:
    try:
        return repr(arguments)[:BROKEN_LENGTH]
    except RecursionError:
        return "arguments that are nested too deeply"


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (RecursionError, TypeError, ValueError):
        return False
    return value is not None


def salvage_calls(error: BaseException) -> AIMessage | None:
    """The truncated answer in OpenAI's error that a structured reply reached the token limit."""
    completion: Any = getattr(error, "completion", None)
    if completion is None or not getattr(completion, "choices", None):
        return None
    usage = completion.usage
    counts = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens} if usage else None
    return AIMessage(
        completion.choices[0].message.content or "",
        response_metadata={"model_name": completion.model, "finish_reason": "length"},
        usage_metadata=counts and {**counts, "total_tokens": sum(counts.values())},
    )
