"""Functions that a file of a team may need; `write` copies those that it does, as they stand here."""

import json
import re
from collections.abc import Mapping, Sequence
from string import Template
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel

from selfwire.core.chat import SHARED_SYSTEM
from selfwire.core.text import excerpt
from selfwire.evolvers.hiva.schemas import Instruction
from selfwire.nodes.agent import render_request

MAX_TURNS, MAX_CALLS = 8, 32
"""Replies in which an agent may call tools, and calls of a reply that are run."""


def ask(model: BaseChatModel, prompt: str, question: str, inbox: Mapping[str, str], **options: Any) -> str:
    """Ask an agent once; `inbox` has the texts that it reads, by their sources."""
    messages = [SystemMessage(SHARED_SYSTEM), HumanMessage(render_request(question, prompt, inbox.items()))]
    return str(model.invoke(messages, **options).text)


def work(
    model: BaseChatModel,
    prompt: str,
    question: str,
    inbox: Mapping[str, str],
    tools: Sequence[BaseTool] = (),
    **options: Any,
) -> list[BaseMessage]:
    """Let an agent call tools until it answers; the last message is its answer."""
    request = render_request(question, prompt, inbox.items())
    messages: list[BaseMessage] = [SystemMessage(SHARED_SYSTEM), HumanMessage(request)]
    for turn in range(MAX_TURNS + 1):
        may_call = bool(tools) and turn < MAX_TURNS  # then it must answer
        chat = model.bind_tools(tools) if may_call else model
        reply = chat.invoke(messages, **options)
        messages.append(reply)
        calls = [*reply.tool_calls, *reply.invalid_tool_calls]
        if not (may_call and calls):
            break
        for number, call in enumerate(reply.tool_calls):
            messages.append(use_tool(call, tools if number < MAX_CALLS else ()))
        for broken in reply.invalid_tool_calls:
            fault = "error: the arguments are no JSON object"
            messages.append(ToolMessage(fault, tool_call_id=broken["id"] or ""))
    return messages


def use_tool(call: ToolCall, tools: Sequence[BaseTool]) -> ToolMessage:
    """Run a tool call; an error is its result, for the agent to deal with."""
    names = {tool.name: tool for tool in tools}
    try:
        if not tools:
            raise ToolException(
                f"not run, as a reply may call at most {MAX_CALLS} tools; call those that you still need again"
            )
        if call["name"] not in names:
            raise ToolException(f"there is no tool {call['name']!r}; your tools are {', '.join(names)}")
        result = names[call["name"]].invoke(call["args"])
        text = result if isinstance(result, str) else str(result)
    except ToolException as error:
        text = f"error: {error}"
    except Exception as error:  # noqa: BLE001
        text = f"error: {call['name']} failed: {error}"
    return ToolMessage(text, tool_call_id=call["id"] or "")


LONGEST_RESULT = 4000
"""Most characters of a tool's result that an agent reads."""


def to_text(value: object) -> str:
    """Write a tool's result as text: a text unchanged, anything else as JSON."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text[:LONGEST_RESULT] + ("\n[cut off]" if len(text) > LONGEST_RESULT else "")


SECTION = re.compile(r"(?:[^<]*\n)?<(\w+)>\n\$\1\n</\1>")
"""A section of a prompt: a heading, and a value between tags."""


def fill(prompt: str, **values: str) -> list[BaseMessage]:
    """Fill the sections of a prompt that begins with the task.

    A value cannot forge a tag, and a section with a blank value is left out.
    """
    names = "|".join(sorted(set(re.findall(r"<(\w+)>", prompt))))
    tags = re.compile(rf"<(/?\s*(?:{names})\s*)>", re.IGNORECASE)
    texts = {name: tags.sub(r"[\1]", value.strip()) for name, value in values.items()}
    kept = []
    for paragraph in prompt.split("\n\n"):
        section = SECTION.fullmatch(paragraph.strip())
        if section is None or texts[section[1]].strip():
            kept.append(paragraph)
    return [
        SystemMessage(SHARED_SYSTEM),
        HumanMessage(Template("\n\n".join(kept)).substitute(texts).strip()),
    ]


LONGEST_PART = 6000
"""Most characters of an agent's input, and of its output, in a prompt."""


def shorten_inbox(inbox: Mapping[str, str], about: str) -> str:
    """Write what an agent was handed, each text cut to what concerns the output."""
    share = max(LONGEST_PART // max(len(inbox), 1), 400)
    blocks = [f"From {source}:\n{excerpt(text, share, about)}" for source, text in inbox.items()]
    return "\n\n".join(blocks) or "(nothing but the task)"


def shorten_work(messages: Sequence[BaseMessage], about: str) -> str:
    """Write what an agent did: its tool calls with their results, and its answer."""
    answer = str(messages[-1].text)
    results = {message.tool_call_id: str(message.text) for message in messages if isinstance(message, ToolMessage)}
    calls = [call for message in messages[:-1] if isinstance(message, AIMessage) for call in message.tool_calls]
    share = max(LONGEST_PART // 2 // max(len(calls), 1), 400)
    lines = []
    for call in calls:
        given, result = write_input(call["args"]), results[call["id"] or ""]
        if len(given) > 400:
            given = f"{given[:197]} ... {given[-197:]}"
        given = f"\n{given}\n" if "\n" in given else given
        failed = "error: " if result.startswith("error: ") else ""
        shown = failed + excerpt(result, share, f"{about}\n{answer}")
        lines.append(f"tool {call['name']}({given}) -> {shown}")
    return "\n".join([*lines, *(["it wrote:"] if lines else []), excerpt(answer, LONGEST_PART, about)])


def _write_whole(text: str) -> float:
    """A number of JSON; a whole one without a point."""
    number = float(text)
    return int(number) if number.is_integer() else number


def write_input(given: Mapping[str, Any]) -> str:
    """Write a tool's input as text, an argument per line; a text of several lines stands below its name."""
    rows = []
    for name, value in given.items():
        text = value
        if not isinstance(value, str):
            text = json.dumps(
                json.loads(json.dumps(value), parse_float=_write_whole), ensure_ascii=False, sort_keys=True
            )
        rows.append(f"{name}:\n{text}" if "\n" in text else f"{name}: {text}")
    return "\n".join(rows)


Schema = TypeVar("Schema", bound=BaseModel)


def ask_for(model: BaseChatModel, schema: type[Schema], *asks: Sequence[BaseMessage]) -> list[Schema | None]:
    """Ask for objects, side by side; None where a reply is not valid."""
    asked: list[LanguageModelInput] = [[*messages] for messages in asks]
    replies = model.with_structured_output(schema).batch(asked, return_exceptions=True)
    for reply in replies:
        if isinstance(reply, Exception) and not isinstance(reply, ValueError):
            raise reply
    return [reply if isinstance(reply, schema) else None for reply in replies]


def hand_over(
    model: BaseChatModel,
    prompt: str,
    question: str,
    inbox: Mapping[str, str],
    messages: Sequence[BaseMessage],
    readers: Mapping[str, str],
) -> dict[str, str]:
    """Write an instruction for each agent that takes over; the answer itself where the model gives none.

    Args:
        prompt: that asks for an instruction.
        inbox: texts that the agent read, by their sources.
        messages: of its work, its answer last.
        readers: prompts of the agents that take over, by their names.
    """
    answer = str(messages[-1].text)
    asks = [
        fill(
            prompt,
            task=question,
            input=shorten_inbox(inbox, answer),
            output=shorten_work(messages, reader),
            successor=reader,
        )
        for reader in readers.values()
    ]
    written = ask_for(model, Instruction, *asks)
    return {
        name: (found.instruction.strip() if found else "") or answer
        for name, found in zip(readers, written, strict=True)
    }
