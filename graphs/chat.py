"""Messages of a thread, for chat clients: the last human message is the question, and its answer is appended."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from selfwire.core.errors import ConfigError


def take_question(channels: Mapping[str, Any]) -> dict[str, Any]:
    """The question of a human message that no run was asked before; {} where there is none.

    Raises:
        ConfigError: the message has more than text.
    """
    message = _find_last(channels)
    if message is None or message.id == channels.get("asked"):
        return {}
    return {"question": _read_text(message), "asked": message.id}


def append_answer(channels: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """The messages that an update's answer adds; an earlier answer to the same message is replaced."""
    message, answer = _find_last(channels), update.get("answer")
    if message is None or not answer or _read_text(message) != channels.get("question"):
        return {}
    return {"messages": [AIMessage(answer, id=f"{message.id}-answer")]}


def _find_last(channels: Mapping[str, Any]) -> HumanMessage | None:
    messages = channels.get("messages") or ()
    return next((one for one in reversed(messages) if isinstance(one, HumanMessage)), None)


def _read_text(message: HumanMessage) -> str:
    content = message.content
    blocks = [content] if isinstance(content, str) else content
    kinds = {"text" if isinstance(one, str) else str(one.get("type")) for one in blocks}
    if other := sorted(kinds - {"text"}):
        raise ConfigError(f"a message is text only, and the last one has {', '.join(other)}; send another one")
    return "\n".join(one if isinstance(one, str) else str(one.get("text", "")) for one in blocks)
