"""Converts between LangChain's messages and the offline model's plain values."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCall, tool_call_chunk

from selfwire.extras.offline.skills import OfferedTool
from selfwire.extras.offline.worker import PlainMessage

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class OfflineDraft:
    """A reply before it is sent; calls are (name, arguments)."""

    text: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    skills: tuple[str, ...] = ()
    finish: str = "stop"

    def cut(self, stop: Sequence[str] | None, limit: int | None) -> "OfflineDraft":
        """End the text at a stop word and at a number of tokens."""
        text = re.split("|".join(map(re.escape, stop)), self.text)[0] if stop else self.text
        if limit is not None and len(text) > limit * _CHARACTERS_PER_TOKEN:
            return replace(self, text=text[: limit * _CHARACTERS_PER_TOKEN], finish="length")
        return replace(self, text=text)


def to_plain_message(message: BaseMessage) -> PlainMessage:
    """A LangChain message as a plain one."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return PlainMessage(
        role=_ROLES.get(message.type, "user"),
        text=str(message.text),
        calls=tuple((call["id"] or "", call["name"], call["args"]) for call in calls),
        answers=message.tool_call_id if isinstance(message, ToolMessage) else "",
    )


def plain(message: PlainMessage) -> list[Any]:
    """The parts of a message that decide the randomness: all but the ids of tool calls."""
    return [message.role, message.text, [[name, arguments] for _, name, arguments in message.calls]]


def get_offered_tools(kwargs: Mapping[str, Any]) -> tuple[OfferedTool, ...]:
    """The tools of a request in OpenAI's form."""
    functions = [tool["function"] for tool in kwargs.get("tools") or ()]
    return tuple(OfferedTool(f["name"], f.get("description", ""), f.get("parameters", {})) for f in functions)


@dataclass(frozen=True)
class RequestedSchema:
    """The object that a request asks for: the kind of reply is the name of the response format or forced tool."""

    kind: str
    parameters: Mapping[str, Any]
    is_tool: bool


def requested_schema(kwargs: Mapping[str, Any]) -> RequestedSchema | None:
    """The output schema of a request: its response format, or the one tool that it forces."""
    form = kwargs.get("response_format")
    if isinstance(form, Mapping) and form.get("type") == "json_object":
        return RequestedSchema("", {}, is_tool=False)
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        return RequestedSchema(
            form["json_schema"].get("name", ""), form["json_schema"].get("schema", {}), is_tool=False
        )
    tools, choice = get_offered_tools(kwargs), kwargs.get("tool_choice")
    if isinstance(choice, Mapping):
        choice = choice.get("function", {}).get("name")
    if choice in (None, False, "auto", "none"):
        return None
    forced = [tool for tool in tools if tool.name == choice] or (list(tools) if len(tools) == 1 else [])
    return RequestedSchema(forced[0].name, forced[0].parameters, is_tool=True) if forced else None


def draft_reply(wanted: RequestedSchema, text: str, reply: Mapping[str, Any]) -> OfflineDraft:
    """The object in the form that the request asks for: as text, or as arguments of the forced tool."""
    return OfflineDraft("", ((wanted.kind, reply),)) if wanted.is_tool else OfflineDraft(text)


def message(draft: OfflineDraft, *, name: str, key: str, input_tokens: int) -> AIMessage:
    """The draft as LangChain's message, with usage and metadata; `key` makes ids of calls unique."""
    calls = [ToolCall(name=tool, args=dict(args), id=f"call_{key}_{i}") for i, (tool, args) in enumerate(draft.calls)]
    output_tokens = _tokens(draft.text + json.dumps([dict(args) for _, args in draft.calls]))
    finish = "tool_calls" if draft.calls and draft.finish == "stop" else draft.finish
    return AIMessage(
        content=draft.text,
        tool_calls=calls,
        usage_metadata=UsageMetadata(
            input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens
        ),
        response_metadata={"model_name": name, "finish_reason": finish, "skills": list(draft.skills)},
    )


def chunks(whole: AIMessage) -> Iterator[AIMessageChunk]:
    """A message as a stream: word by word, then tool calls, usage and metadata."""
    for word in re.findall(r"\s*\S+\s*$|\s*\S+", str(whole.text)):
        yield AIMessageChunk(content=word)
    calls = [(c["name"], json.dumps(c["args"]), c["id"]) for c in whole.tool_calls]
    calls += [(c["name"] or "", c["args"] or "", c["id"]) for c in whole.invalid_tool_calls]
    yield AIMessageChunk(
        content="",
        tool_call_chunks=[tool_call_chunk(name=n, args=a, id=i, index=at) for at, (n, a, i) in enumerate(calls)],
        usage_metadata=whole.usage_metadata,
        response_metadata=whole.response_metadata,
    )


def tokens_sent(messages: Sequence[PlainMessage], kwargs: Mapping[str, Any]) -> int:
    """Estimated tokens of a request, tools included."""
    tools = json.dumps(list(kwargs.get("tools") or ()), default=str)
    return sum(_tokens(message.text) + 4 for message in messages) + (_tokens(tools) if kwargs.get("tools") else 0)


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
