"""Objects from models: how they are asked for, read, repaired and asked for again.

The modes are tried in the order of `MODES`. A request whose form is refused is sent again in the next mode; the first
mode that gets an answer is used for all later requests to that server and model. After other errors the request is
retried in the same mode. Some servers answer status 500 to an unknown form, so if status 500 remains after all retries,
the next mode is tried too.

Each mode refuses or ignores some keywords, so only keywords that all modes support are sent. A limit is written into
the description in words; replies are validated by the full schema.
"""

import asyncio
import json
import math
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from types import FrameType
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_core.runnables import Runnable
from pydantic import BaseModel, ValidationError

from selfwire.core.chat import ChatMessage, Reply, ToolCall, ToolSpec
from selfwire.core.errors import ConfigError, format_faults
from selfwire.core.text import find_code_blocks, mask_keys
from selfwire.core.usage import Usage
from selfwire.core.values import UNKNOWN, FrozenMap, fingerprint, replace_surrogates, to_plain_json
from selfwire.models.providers import format_status_error, get_status
from selfwire.store.journal import Journal

Mode = Literal["native", "tool", "json", "prompt"]
"""A JSON schema as response format (or the provider's own way), a forced tool call, any JSON object, words only."""
MODES: tuple[Mode, ...] = get_args(Mode)
StructuredMode = Literal["auto", "native", "tool", "json", "prompt"]
"""A mode, or "auto" for the first mode that the server accepts."""

MODE_NOTE = "structured mode of "
"""Prefix of journal notes with a mode that was found by trial; a server and model follow."""
OTHER_STATUSES = {401, 402, 403, 408, 409, 413, 425, 429, 502, 503, 504}
"""Statuses about keys, limits or load, whatever the message says."""
REFUSAL_STATUSES = {400, 415, 422, 501}
"""Statuses of refused requests, with or without a reason."""
FORM_WORDS = (
    "response_format",
    "response format",
    "json_schema",
    "json_object",
    "json schema",
    "json mode",
    "structured output",
    "output_config",
    "invalid schema",
    "guided",
    "grammar",
)
TOOL_WORDS = ("tool_choice", "tool choice", "tools", "tool use", "tool call", "function call", "parallel_tool_calls")


def names_form(error: BaseException, *, tools: bool = False) -> bool:
    """Whether an error message says that the response format, schema or tools of a request are refused.

    Args:
        tools: whether only words about tools count.
    """
    code = get_status(error)
    if code is None or code < 400 or code in OTHER_STATUSES:
        return False
    text = format_status_error(error).lower()
    return any(word in text for word in (TOOL_WORDS if tools else FORM_WORDS + TOOL_WORDS))


class KnownMode:
    """The structured mode of a server and model, as known to this process."""

    def __init__(self) -> None:
        self.mode: Mode = "native"
        self.proven = False
        """Whether the server has given a structured answer in this mode."""
        self._of_schema: dict[str, Mode] = {}
        self._doubted = math.inf
        self._told = False
        self._lock = threading.Lock()

    def get(self, schema: str) -> Mode:
        """Return the mode for a schema, given by its fingerprint."""
        return self._of_schema.get(schema, self.mode)

    def recall(self, mode: Mode) -> None:
        """Start with a mode that an earlier process found, unless this process has found a mode itself."""
        with self._lock:
            if not (self.proven or self._told):
                self.mode, self.proven, self._told = mode, True, True

    def settle(self, mode: Mode, schema: str, *, since: float, sure: bool) -> bool:
        """Note that a request was answered in a mode; return whether the user should be told.

        Args:
            since: first sending of the request, by the monotonic clock.
            sure: whether earlier modes were clearly refused. If they failed with status 500, a later request must
                confirm the mode, as the server may have failed for a moment.
        """
        with self._lock:
            if mode != self.get(schema):
                if not sure and since <= self._doubted:
                    self._doubted = min(self._doubted, time.monotonic())
                    return False
                if self.proven:  # the server takes the form, but not with this schema
                    self._of_schema[schema] = mode
                    return False
                self.mode = mode
            if mode == self.mode:
                self.proven, self._doubted = True, math.inf
            news = self.mode != "native" and not self._told
            self._told = self._told or news
            return news

    def ignore(self, mode: Mode) -> None:
        """Note that a request was answered in prose; a server that has never obeyed the form gets the next mode."""
        with self._lock:
            if not self.proven and mode != "prompt" and MODES.index(mode) >= MODES.index(self.mode):
                self.mode = MODES[MODES.index(mode) + 1]


class ModeSearch:
    """The search for a request's mode, which goes to the next mode when the server refuses one."""

    def __init__(self, known: KnownMode, schema: str, wanted: StructuredMode) -> None:
        self._known, self._schema, self._free = known, schema, wanted == "auto"
        self.mode: Mode = known.get(schema) if wanted == "auto" else wanted
        self._since, self._sure, self._failures = time.monotonic(), True, 0

    def is_refused(self, error: BaseException) -> bool:
        """Whether an error means that the server refuses the mode, so that a retry makes no sense."""
        unproven = self._free and not self._known.proven and get_status(error) in REFUSAL_STATUSES
        return self.mode != "prompt" and (unproven or names_form(error))

    def step_down(self, error: BaseException, *, is_last: bool) -> bool:
        """Go to the next mode if the current mode may be the reason of an error; return whether it changed.

        Args:
            is_last: whether no retries in the same mode are left.
        """
        if not self._free or self.mode == "prompt":
            return False
        if not self.is_refused(error):
            if get_status(error) != 500 or self._known.proven:
                return False
            self._failures += 1
            if self._failures < 2 or not is_last:
                return False
            self._sure = False
        settled = self._known.get(self._schema)
        self.mode = MODES[max(MODES.index(self.mode) + 1, MODES.index(settled))]
        return True

    def end(self, answer: AIMessage, *, in_words: bool) -> bool:
        """Note that the request was answered; return whether the user should be told about the mode.

        Args:
            in_words: whether the prompt contained the schema too.
        """
        heeded = self.mode == "prompt" or _heeds_form(answer, in_words=in_words and self.mode != "json")
        if not self._free or heeded is None:
            return False
        if heeded:
            return self._known.settle(self.mode, self._schema, since=self._since, sure=self._sure)
        self._known.ignore(self.mode)
        return False


def _heeds_form(answer: AIMessage, *, in_words: bool) -> bool | None:
    """Whether a server has obeyed the form of a request, to judge by the answer; None if that is unclear."""
    if answer.tool_calls or answer.invalid_tool_calls:
        return True
    if answer.text.lstrip().startswith("{"):
        return None if in_words else True
    whole = get_finish(answer) != "length"
    return False if whole and "{" not in answer.text else None


_known: dict[str, KnownMode] = {}


def get_known_mode(label: str) -> KnownMode:
    """Return this process's knowledge about the server and model of a label."""
    return _known.setdefault(label, KnownMode())


async def recall_modes(journal: Journal) -> None:
    """Start with the structured modes that a run had found before it was resumed."""
    for name in await journal.list_note_names(MODE_NOTE):
        get_known_mode(name.removeprefix(MODE_NOTE)).recall(await journal.get_note(name))


PASSED_KEYWORDS = ("type", "enum", "description")
"""Keywords that are sent unchanged."""
LIMIT_WORDS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matches {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
}
"""Keywords that are sent in words, as a part of the description."""

NOT_EMPTY = ("minLength", "minItems")

_Node = Mapping[str, Any]


def make_strict_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """Make the JSON schema of a reply for strict modes: all properties required, no others, references resolved.

    References to definitions that contain themselves are not resolved.
    """
    whole = schema.model_json_schema()
    defs: _Node = whole.get("$defs", {})
    recursive = {name for name in defs if _contains(defs[name], name, defs, ())}
    root = defs[target] if (target := _get_target(whole)) else whole
    strict = {**_make_strict(root, defs, recursive), "title": root["title"]}
    if recursive:
        strict["$defs"] = {name: _make_strict(defs[name], defs, recursive) for name in sorted(recursive)}
    return strict


def _contains(node: Any, name: str, defs: _Node, seen: tuple[str, ...]) -> bool:
    if isinstance(node, list):
        return any(_contains(item, name, defs, seen) for item in node)
    if not isinstance(node, dict):
        return False
    if target := _get_target(node):
        if target == name:
            return True
        return target not in seen and _contains(defs[target], name, defs, (*seen, target))
    return any(_contains(item, name, defs, seen) for item in node.values())


def _get_target(node: _Node) -> str:
    """Return the name of the definition to which a node refers; "" if it is no reference."""
    reference = node.get("$ref")
    return reference.rpartition("/")[2] if isinstance(reference, str) else ""


def _make_strict(node: _Node, defs: _Node, recursive: set[str]) -> dict[str, Any]:
    if target := _get_target(node):
        if target in recursive:
            return {"$ref": node["$ref"]}
        return _make_strict({**defs[target], **{name: node[name] for name in node if name != "$ref"}}, defs, recursive)
    strict = {name: node[name] for name in PASSED_KEYWORDS if name in node}
    if "const" in node:
        strict["enum"] = [node["const"]]
    if options := node.get("anyOf") or node.get("oneOf"):
        strict["anyOf"] = [_make_strict(option, defs, recursive) for option in options]
    if "items" in node:
        strict["items"] = _make_strict(node["items"], defs, recursive)
    if "properties" in node:
        strict["properties"] = {name: _make_strict(item, defs, recursive) for name, item in node["properties"].items()}
        strict |= {"required": list(node["properties"]), "additionalProperties": False}
    if limits := "; ".join(_list_limits(node)):
        strict["description"] = f"{strict['description']} ({limits})" if "description" in strict else limits
    return strict


def _list_limits(node: _Node) -> Iterator[str]:
    """List limits in words, without those that the description already states."""
    described = [word.strip(".") for word in re.findall(r"[\w.]+", node.get("description", "").lower())]
    for name, words in LIMIT_WORDS.items():
        limit = node.get(name)
        if limit is None or _format(limit) in described:
            continue
        if name not in NOT_EMPTY or limit > 1:
            yield words.format(_format(limit))
        elif limit == 1 and "empty" not in described:
            yield "not empty"


def _format(limit: object) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)


BOOKKEEPING = {"token_usage", "usage", "model_name", "model", "finish_reason", "stop_reason", "logprobs", "headers"}
"""Response metadata that a Reply has in other fields, or that is not stored."""

UNPARSED = "_not_json"
"""Name of the argument with the raw text of arguments that could not be parsed."""
UNPARSED_LENGTH = 2000
"""Most characters of such a text."""


def to_langchain(message: ChatMessage) -> BaseMessage:
    """Convert a message to LangChain's."""
    if message.role == "system":
        return SystemMessage(message.content)
    if message.role == "user":
        return HumanMessage(message.content)
    if message.role == "tool":
        return ToolMessage(message.content, tool_call_id=message.tool_call_id or "")
    calls = [tool_call(name=c.name, args=to_plain_json(c.arguments), id=c.id) for c in message.tool_calls]
    return AIMessage(message.content, tool_calls=calls)


def to_function(tool: ToolSpec) -> dict[str, Any]:
    """Convert a tool to the function object that every provider's `bind_tools` accepts."""
    function = {"name": tool.name, "description": tool.description, "parameters": to_plain_json(tool.parameters)}
    return {"type": "function", "function": function}


def describe_message(message: BaseMessage) -> str:
    """Join the texts and tool calls of a message, for an estimate of its size."""
    calls = message.tool_calls if isinstance(message, AIMessage) else ()
    return replace_surrogates(message.text + (json.dumps(calls, default=repr) if calls else ""))


LONGEST_REPLY = 2**20
"""Most characters of a reply that are kept, in its text and in its tool calls together."""
KEPT_CALLS = 128
"""Most tool calls of a reply that are kept."""


def measure_reply(answer: AIMessage) -> int:
    """Count the characters of a reply's content and tool calls."""
    called = [(call["name"], call["args"]) for call in (*answer.tool_calls, *answer.invalid_tool_calls)]
    return _measure([answer.content, called])


def _measure(value: object) -> int:
    """Count the characters of all texts in a JSON value, with 4 for each other value."""
    size, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            size += len(part)
        elif isinstance(part, Mapping):
            waiting += [*part, *part.values()]
        elif isinstance(part, list | tuple):
            waiting += part
        else:
            size += 4
    return size


def cut_reply(answer: AIMessage) -> AIMessage:
    """Cut a reply that is longer than `LONGEST_REPLY`, or has more than `KEPT_CALLS` calls, as if it had met its limit.

    Arguments beyond the limit become a text that is no JSON, so that the tool can tell the agent about the fault.
    """
    size = _measure([answer.content, answer.tool_calls, answer.invalid_tool_calls])
    notes = _measure([answer.additional_kwargs, answer.response_metadata])
    count = len(answer.tool_calls) + len(answer.invalid_tool_calls)
    if size + notes <= LONGEST_REPLY and count <= KEPT_CALLS:
        return answer
    text = answer.text[:LONGEST_REPLY]
    room = LONGEST_REPLY - len(text)
    calls, broken = list[Any](), list[Any]()
    for call in answer.tool_calls[:KEPT_CALLS]:
        size = _measure(call["args"])
        if size <= room:
            calls.append(call)
            room -= size
        else:
            raw = f"arguments of {size:,} characters, which are too many"
            broken.append({**call, "type": "invalid_tool_call", "args": raw, "error": None})
    for unread in answer.invalid_tool_calls[: KEPT_CALLS - len(calls) - len(broken)]:
        broken.append({**unread, "args": (unread["args"] or "")[:UNPARSED_LENGTH], "error": None})
    for call in (*calls, *broken):
        call |= {name: call[name] and call[name][:LONGEST_NAME] for name in ("id", "name")}
    known = {name: str(v)[:LONGEST_NAME] for name, v in answer.response_metadata.items() if name.startswith("model")}
    return AIMessage(
        text,
        id=answer.id and answer.id[:LONGEST_NAME],
        tool_calls=calls,
        invalid_tool_calls=broken,
        usage_metadata=answer.usage_metadata,
        response_metadata={**known, "finish_reason": "length"},
    )


def mask_reply(answer: AIMessage) -> AIMessage:
    """Mask keys of ours that a reply repeats; the same object if there are none."""
    parts = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs", "response_metadata")
    before = {name: getattr(answer, name) for name in parts}
    try:
        masked = mask_keys(before)
    except RecursionError:  # it is nested so deeply that it is not read either
        return answer
    return answer if masked == before else answer.model_copy(update=masked)


LONGEST_NAME = 200
"""Most characters of a name or id in a reply that was cut."""


def get_finish(answer: AIMessage) -> str:
    """Get the reason why a reply ended, as the provider words it; "length" for that of any that met its limit."""
    names = ("finish_reason", "stop_reason", "done_reason")
    finish = next((str(said) for name in names if (said := answer.response_metadata.get(name))), "")
    return "length" if finish.lower() in CUT else finish


CUT = ("length", "max_tokens", "model_length")
"""Words of providers for a reply that was cut at its limit, in lower case."""
THOUGHT = re.compile(r"\A\s*<think>.*?</think>\s*(?=\S)|\A(?:(?!<think>).)*?\n</think>[ \t\r]*\n\s*(?=\S)", re.DOTALL)
"""A thought before an answer, where a server does not set it apart.

Where the first tag stands in the server's template, the other one is a line of its own; a text about tags stays.
"""


def to_reply(message: AIMessage, usage: Usage, notes: Mapping[str, Any] = FrozenMap()) -> Reply:
    """Convert LangChain's answer to a Reply, with the provider's metadata and `notes`.

    If the arguments of a call are no JSON object, their raw text is the argument `UNPARSED`, so that the tool can tell
    the agent about the fault. A thought before the answer is left out.
    """
    response = message.response_metadata
    calls = [_to_call(c["id"], c["name"], c["args"], i) for i, c in enumerate(message.tool_calls)]
    for broken in message.invalid_tool_calls:
        calls.append(_to_call(broken["id"], broken["name"] or "", {UNPARSED: broken["args"] or ""}, len(calls)))
    if len({call.id for call in calls}) < len(calls):  # providers refuse a conversation with such calls
        calls = [call.replace(id=f"{call.id}-{i}") for i, call in enumerate(calls)]
    text = replace_surrogates(message.text)
    return Reply(
        content=THOUGHT.sub("", text) if "</think>" in text else text,  # a search takes 0.3 ms per thousand characters
        tool_calls=tuple(calls),
        usage=usage,
        model=replace_surrogates(str(response.get("model_name") or response.get("model") or "")),
        finish=replace_surrogates(get_finish(message)),
        metadata={name: v for name, v in response.items() if name not in BOOKKEEPING and _is_json(v)} | {**notes},
    )


def _to_call(id: str | None, name: str, arguments: dict[str, Any], number: int) -> ToolCall:
    """Make a tool call; arguments that are no JSON (NaN, too deep) become the text `UNPARSED`."""
    called = {"id": replace_surrogates(id or f"call-{number}"), "name": replace_surrogates(name)}
    try:
        text = json.dumps(arguments, ensure_ascii=False)
        return ToolCall(**called, arguments=arguments if text.isascii() else json.loads(replace_surrogates(text)))
    except (RecursionError, ValueError):
        return ToolCall(**called, arguments={UNPARSED: replace_surrogates(_shorten_repr(arguments))})


def _shorten_repr(arguments: dict[str, Any]) -> str:
    try:
        return repr(arguments)[:UNPARSED_LENGTH]
    except RecursionError:
        return "arguments that are nested too deeply"


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (RecursionError, TypeError, ValueError):
        return False
    return value is not None


def salvage_calls(error: BaseException) -> AIMessage | None:
    """Take the answer out of OpenAI's error for a structured reply that reached the token limit or a filter."""
    completion: Any = getattr(error, "completion", None)
    if completion is None or not getattr(completion, "choices", None):
        return None
    usage = completion.usage
    counts = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens} if usage else None
    cached = {"cache_read": getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None) or 0}
    return AIMessage(
        completion.choices[0].message.content or "",
        response_metadata={"model_name": completion.model, "finish_reason": completion.choices[0].finish_reason},
        usage_metadata=counts and {**counts, "total_tokens": sum(counts.values()), "input_token_details": cached},
    )


Schema = TypeVar("Schema", bound=BaseModel)
LONGEST_REPAIR = 100_000
"""Most characters of a text that is repaired."""
REPAIR_SECONDS = 0.2
"""Most seconds of a repair."""


@lru_cache(maxsize=256)
def schema_fingerprint(schema: type[BaseModel]) -> str:
    """Hash a schema; cached, since building the JSON schema is the slowest part of a call."""
    return fingerprint(schema.model_json_schema())


async def parse_reply(schema: type[Schema], reply: Reply) -> Schema:
    """Parse the object in a reply, if needed after JSON repair; raises ValueError if there is no valid object."""
    if reply.tool_calls and not isinstance(reply.tool_calls[0].arguments.get(UNPARSED), str):
        return _validate(schema, reply.tool_calls[0].arguments)
    text = reply.tool_calls[0].arguments[UNPARSED] if reply.tool_calls else reply.content
    try:
        return schema.model_validate_json(text)
    except ValidationError:
        if reply.finish == "length":  # what was cut off cannot be repaired
            raise
        repaired = _unwrap(schema, text, await asyncio.to_thread(_repair, text))
        if not isinstance(repaired, dict):
            raise
        return _validate(schema, repaired)


def _unwrap(schema: type[BaseModel], text: str, value: Any) -> Any:
    """The only object of a list; a list is the only field of a schema if the whole text, or its code block, is that.

    Args:
        value: the repaired text, which is a list also where prose has words in brackets.
    """
    if not isinstance(value, list):
        return value
    if len(value) == 1 and isinstance(value[0], dict) and not value[0].keys().isdisjoint(schema.model_fields):
        return value[0]
    names, blocks = [*schema.model_fields], find_code_blocks(text)
    if len(names) == 1 and "items" in make_strict_schema(schema)["properties"][names[0]]:
        with suppress(RecursionError, ValueError):
            whole = json.loads(blocks[0] if len(blocks) == 1 else text)
            return {names[0]: whole} if whole and isinstance(whole, list) else value
    return value


SEVERAL = re.compile(r"[,;\n\[]|^\s*$")
"""What a text has that is more than one item of a list, or none."""
FITS = 3
"""Most times that values are fitted to their types, as what stands in a list of one is only seen once it is one."""


def _validate(schema: type[Schema], value: Any) -> Schema:
    """Validate an object, if needed after its values were fitted; a fault is that of the object as it came."""
    fault: ValidationError | None = None
    for _ in range(FITS + 1):
        try:
            return schema.model_validate_json(json.dumps(value))  # JSON rules, as for the text: lists become tuples
        except RecursionError:
            raise ValueError("the object is nested too deeply") from None
        except ValidationError as error:
            fault = fault or error
            try:
                fitted = _fit_values(schema, value, error)
            except RecursionError:  # it calls more, so that it reaches the limit first
                raise ValueError("the object is nested too deeply") from None
            if fitted == value:
                break
            value = fitted
    assert fault is not None, "an object without a fault is returned"
    raise fault


def _fit_values(schema: type[BaseModel], value: Any, error: ValidationError) -> Any:
    """Fit values to the types that they lack, where it is plain what they mean; fields that do not exist are left out.

    Where a field of the schema is missing, one that does not exist may be that field misspelt, and stays. A field that
    is null is left out, as for its default.
    """
    fitted, whole = json.loads(json.dumps(value)), make_strict_schema(schema)
    faults = error.errors(include_url=False)
    for details in sorted(faults, key=lambda fault: fault["type"] != UNKNOWN):  # as long as all other fields are there
        owner: Any = fitted
        node: _Node = whole
        with suppress(KeyError, IndexError, TypeError, ValueError):  # a place that a fit of this pass has moved
            *path, last = details["loc"]
            for name in path:
                owner, node = owner[name], _get_part(node, name)
            if details["type"] == UNKNOWN:
                if _get_parts(node, "properties").keys() <= owner.keys():
                    del owner[last]
            elif owner[last] is None and isinstance(last, str):
                del owner[last]
            else:
                part, about = _get_part(node, last), node.get("description", "") if isinstance(last, int) else ""
                if not (isinstance(last, int) and isinstance(owner[last], list)):  # a list in a list is no text
                    owner[last] = _fit(owner[last], details["type"], part, part.get("description", about))
    return fitted


def _get_part(node: _Node, name: str | int) -> _Node:
    """Return the schema of a field or of the items of a list."""
    part: _Node = _get_parts(node, "items") if isinstance(name, int) else _get_parts(node, "properties")[name]
    return part


def _get_parts(node: _Node, kind: Literal["items", "properties"]) -> _Node:
    [parts] = [option[kind] for option in node.get("anyOf", [node]) if kind in option]
    found: _Node = parts
    return found


def _fit(value: Any, fault: str, node: _Node, about: str) -> Any:
    """Fit a value: lines, numbers and described JSON to text, one value to a list, and a word to one of its spelling.

    Args:
        about: description of the value.
    """
    if fault == "string_type":
        if value and isinstance(value, list) and all(isinstance(line, str) for line in value):
            return "\n".join(value)
        is_json = isinstance(value, bool | int | float) or "JSON" in about
        return json.dumps(value, ensure_ascii=False) if is_json and value is not None else value
    if fault == "list_type" and value:
        is_text = isinstance(value, str) and _get_parts(node, "items").get("type") == "string"
        return [value] if isinstance(value, dict) or (is_text and not SEVERAL.search(value)) else value
    if fault == "literal_error" and isinstance(value, str):
        bare = value.strip().strip(".").casefold()
        return next((word for word in node["enum"] if str(word).casefold() == bare), value)
    return value


def _repair(text: str) -> Any:
    """Repair JSON within a time limit, as json_repair takes minutes for some texts of a few thousand characters."""
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
    """Append an invalid reply and its faults to the messages, to ask a second time."""
    answer = reply.content or json.dumps([call.arguments for call in reply.tool_calls])
    fault = list_faults(error)
    wish = f"That is not what was asked for: {fault}. Reply again with the whole JSON object and nothing else."
    return [*messages, ChatMessage(role="assistant", content=answer), ChatMessage.user(wish)]


def list_faults(error: ValueError) -> str:
    """List the faults of a reply in one line."""
    if not isinstance(error, ValidationError):
        return f"reply: {error}"
    return format_faults(error, "reply", most=5)


class Bound(NamedTuple):
    """A model with tools or a schema bound to it.

    Attributes:
        in_words: whether the schema must be written into the prompt.
    """

    runnable: Runnable[Any, AIMessage]
    schema: type[BaseModel] | None = None
    in_words: bool = False

    def add_schema(self, messages: Sequence[ChatMessage], *, again: bool) -> Sequence[ChatMessage]:
        """Append the schema in words, if the server may not obey it otherwise."""
        if self.schema is None or not (self.in_words or again):
            return messages
        wish = "Reply with one JSON object of this schema and nothing else:\n"
        wish += json.dumps(make_strict_schema(self.schema))
        *before, last = messages
        if last.role != "user":
            return [*messages, ChatMessage.user(wish)]
        return [*before, ChatMessage.user(f"{last.content}\n\n{wish}")]  # chat templates want roles to alternate


def bind_schema(model: BaseChatModel, tools: Sequence[ToolSpec], schema: type[BaseModel] | None, mode: Mode) -> Bound:
    """Bind tools or a schema to a model; raises ConfigError if the model does not support tools."""
    if schema is not None:
        return _bind_output(model, schema, mode)
    if not tools:
        return Bound(model)
    try:
        return Bound(model.bind_tools([to_function(tool) for tool in tools]))
    except NotImplementedError:
        raise ConfigError(f"{type(model).__name__} takes no tools; use another model or agents without tools") from None


METHODS: Mapping[Mode, str] = {"tool": "function_calling", "json": "json_mode"}
"""LangChain's names of modes; other modes have none."""


def _bind_output(model: BaseChatModel, schema: type[BaseModel], mode: Mode) -> Bound:
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
    """Bind the JSON schema that LangChain shows to tracers, which it would otherwise build at every call."""
    shown = getattr(raw, "kwargs", {}).get("ls_structured_output_format")
    if not shown:
        return raw
    return raw.bind(ls_structured_output_format={**shown, "schema": schema.model_json_schema()})
