"""Structured output: asking a model for a schema, and parsing its reply into a validated object."""

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel, ValidationError

from selfwire.core.chat import ChatMessage, Reply, ToolSpec
from selfwire.core.errors import ConfigError, format_faults
from selfwire.core.values import fingerprint
from selfwire.runtime.messages import BROKEN, to_function
from selfwire.runtime.strict_schema import make_strict_schema
from selfwire.runtime.structured_modes import Mode

Schema = TypeVar("Schema", bound=BaseModel)
LONGEST_REPAIR = 100_000
"""Characters of the longest text that is repaired."""
REPAIR_SECONDS = 0.2
"""Time that a repair may take."""


@lru_cache(maxsize=256)
def schema_fingerprint(schema: type[BaseModel]) -> str:
    """The fingerprint of a schema, cached: building its JSON schema is the slowest part of a call."""
    return fingerprint(schema.model_json_schema())


async def parse_reply(schema: type[Schema], reply: Reply) -> Schema:
    """The object in a reply: as it stands, else after JSON repair; raises ValueError if there is none."""
    if reply.tool_calls and not isinstance(reply.tool_calls[0].arguments.get(BROKEN), str):
        return _validated(schema, reply.tool_calls[0].arguments)
    text = reply.tool_calls[0].arguments[BROKEN] if reply.tool_calls else reply.content
    try:
        return schema.model_validate_json(text)
    except ValidationError:
        if reply.finish == "length":  # what was cut off cannot be repaired
            raise
        repaired = await asyncio.to_thread(_repair, text)
        if not isinstance(repaired, dict):
            raise
        return _validated(schema, repaired)


def _validated(schema: type[Schema], value: Any) -> Schema:
    try:
        return schema.model_validate_json(json.dumps(value))  # JSON rules, as for the text: lists become tuples
    except RecursionError:
        raise ValueError("the object is nested too deeply") from None


def _repair(text: str) -> Any:
    """Repair JSON, within bounds: json_repair takes minutes for some texts of a few thousand characters."""
    if len(text) > LONGEST_REPAIR:
        raise ValueError(f"the text is no JSON, and too long to be repaired: {len(text):,} characters")
    import json_repair  # which few replies need

    deadline = time.monotonic() + REPAIR_SECONDS

    def stop_late(frame: FrameType, event: str, value: Any) -> None:
        # not what the garbage collector calls in between: it would be cut off, and the repair go on
        if time.monotonic() > deadline and frame.f_globals.get("__name__", "").startswith("json_repair"):
            raise TimeoutError  # pragma: no cover - no tracer sees inside a trace function

    before = sys.gettrace()  # of a debugger, or of a tool that counts lines; this thread does other work later
    try:
        sys.settrace(stop_late)  # called at every function call of this thread
        try:
            return json_repair.loads(text)
        finally:
            sys.settrace(before)
    except (RecursionError, TimeoutError, ValueError):
        raise ValueError("the text is no JSON, and cannot be repaired") from None


def make_retry_messages(messages: Sequence[ChatMessage], reply: Reply, error: ValueError) -> list[ChatMessage]:
    """The one re-ask: what was answered, and what is wrong with it."""
    answer = reply.content or json.dumps([call.arguments for call in reply.tool_calls])
    fault = list_faults(error)
    wish = f"That is not what was asked for: {fault}. Reply again with the whole JSON object and nothing else."
    return [*messages, ChatMessage(role="assistant", content=answer), ChatMessage.user(wish)]


def list_faults(error: ValueError) -> str:
    """What is wrong with a reply, in one line."""
    if not isinstance(error, ValidationError):
        return f"reply: {error}"
    return format_faults(error, "reply", most=5)


class Bound(NamedTuple):
    """A model with tools or a schema bound to it; `in_words`: only the prompt can contain the schema."""

    runnable: Runnable[Any, AIMessage]
    schema: type[BaseModel] | None = None
    in_words: bool = False

    def add_schema(self, messages: Sequence[ChatMessage], *, again: bool) -> Sequence[ChatMessage]:
        """The messages, with the schema in words where the server may not heed it otherwise."""
        if self.schema is None or not (self.in_words or again):
            return messages
        wish = "Reply with one JSON object of this schema and nothing else:\n"
        wish += json.dumps(make_strict_schema(self.schema))
        *before, last = messages
        if last.role != "user":
            return [*messages, ChatMessage.user(wish)]
        return [*before, ChatMessage.user(f"{last.content}\n\n{wish}")]  # chat templates want roles to alternate


def bind_schema(model: BaseChatModel, tools: Sequence[ToolSpec], schema: type[BaseModel] | None, mode: Mode) -> Bound:
    """Bind tools or a schema to a model; raises ConfigError if there are tools, and the model takes none."""
    if schema is not None:
        return _structured(model, schema, mode)
    if not tools:
        return Bound(model)
    try:
        return Bound(model.bind_tools([to_function(tool) for tool in tools]))
    except NotImplementedError:
        raise ConfigError(f"{type(model).__name__} takes no tools; use another model or agents without tools") from None


METHODS: Mapping[Mode, str] = {"tool": "function_calling", "json": "json_mode"}
"""LangChain's names of the modes that are not a model's own way."""


def _structured(model: BaseChatModel, schema: type[BaseModel], mode: Mode) -> Bound:
    openai = any(kind.__name__ == "BaseChatOpenAI" for kind in type(model).__mro__)  # its import takes a second
    wanted: Any = make_strict_schema(schema) if openai else schema
    options: dict[str, Any] = {"strict": True} if openai and mode != "json" else {}
    if mode in METHODS:
        options["method"] = METHODS[mode]
    raw = None
    if mode != "prompt":
        with suppress(NotImplementedError, ValueError):
            chain = model.with_structured_output(wanted, include_raw=True, **options)
            raw = getattr(getattr(chain, "first", None), "steps__", {}).get("raw")
    if raw is None:
        return Bound(model, schema, in_words=True)
    return Bound(_bind_traced_schema(raw, schema), schema, in_words=mode == "json")


def _bind_traced_schema(raw: Any, schema: type[BaseModel]) -> Any:
    """Bind the JSON schema that LangChain shows to tracers; from a class it would build it at every call."""
    shown = getattr(raw, "kwargs", {}).get("ls_structured_output_format")
    if not shown:
        return raw
    return raw.bind(ls_structured_output_format={**shown, "schema": schema.model_json_schema()})
