"""Estimates of the tokens of a request, and what is cut from one that is too long."""

from collections.abc import Sequence
from typing import NamedTuple

from selfwire.core.chat import ChatMessage, ToolSpec
from selfwire.core.errors import ModelError
from selfwire.core.values import to_canonical_json

BYTES_PER_TOKEN = 3
"""Fewer than the usual 4, so that estimates are rather too high."""
MESSAGE_TOKENS = 8
KEPT = 400
"""Characters that always remain of a message."""


class Truncation(NamedTuple):
    """How many characters were cut from one message."""

    message: int
    role: str
    characters: int


def estimate_tokens(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> int:
    """Estimate the tokens of a request by its bytes, rather too high than too low."""
    texts = sum(_size(message) + MESSAGE_TOKENS for message in messages)
    return texts + sum(len(to_canonical_json(tool).encode()) // BYTES_PER_TOKEN + MESSAGE_TOKENS for tool in tools)


def truncate_messages(
    messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], limit: int | None
) -> tuple[list[ChatMessage], list[Truncation]]:
    """Cut the middle out of messages until the request is at most `limit` tokens by estimate.

    Results of tools and the assistant's texts come first, oldest first; then user texts, longest first. System
    messages say who the agent is and are never cut. Raises ModelError if it is too long even then.
    """
    fitting, cuts = list(messages), list[Truncation]()
    if limit is None:
        return fitting, cuts
    for place in _order_cuts(messages):
        excess = estimate_tokens(fitting, tools) - limit
        if excess <= 0:
            break
        shorter = _shorten(fitting[place], excess * BYTES_PER_TOKEN)
        lost = len(fitting[place].content) - len(shorter.content)
        if lost > 0:
            cuts.append(Truncation(place, shorter.role, lost))
            fitting[place] = shorter
    if (size := estimate_tokens(fitting, tools)) > limit:
        raise ModelError(
            f"a request of about {size:,} tokens does not fit into {limit:,} even after cutting "
            f"{len(cuts)} messages; raise max_input_tokens or shorten the agent's prompt and tools"
        )
    return fitting, cuts


def _order_cuts(messages: Sequence[ChatMessage]) -> list[int]:
    replies = [i for i, message in enumerate(messages) if message.role in ("tool", "assistant")]
    questions = [i for i, message in enumerate(messages) if message.role == "user"]
    return replies + sorted(questions, key=lambda i: -len(messages[i].content))


def _shorten(message: ChatMessage, excess: int) -> ChatMessage:
    text = message.content
    mark = "\n[... left out to fit the context ...]\n"
    keep = max(KEPT, len(text) - excess - len(mark))
    if keep + len(mark) >= len(text):
        return message
    return message.replace(content=text[: keep - keep // 2] + mark + text[len(text) - keep // 2 :])


def _size(message: ChatMessage) -> int:
    calls = sum(len(to_canonical_json(call).encode()) for call in message.tool_calls)
    return (len(message.content.encode()) + calls) // BYTES_PER_TOKEN
