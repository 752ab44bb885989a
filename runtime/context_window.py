"""How much fits into a model's context, and what is cut first when it does not."""

from collections.abc import Sequence
from typing import NamedTuple

from selfwire.core.chat import ChatMessage, ToolSpec
from selfwire.core.errors import ModelError
from selfwire.core.values import to_canonical_json

BYTES_PER_TOKEN = 3
"""Fewer than the usual 4, so that estimates err on the high side."""
MESSAGE_TOKENS = 8
KEPT = 400
"""Characters that are left of a message however much must go."""


class Truncation(NamedTuple):
    """What was left out of one message."""

    message: int
    role: str
    characters: int


def estimate_tokens(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> int:
    """Tokens of a request by its bytes: an estimate on the high side for what providers count."""
    said = sum(_size(message) + MESSAGE_TOKENS for message in messages)
    return said + sum(len(to_canonical_json(tool).encode()) // BYTES_PER_TOKEN + MESSAGE_TOKENS for tool in tools)


def truncate_messages(
    messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], limit: int | None
) -> tuple[list[ChatMessage], list[Truncation]]:
    """Cut the middle out of messages until the request is at most `limit` tokens by estimate.

    First what tools and peers said, oldest first; then user texts, longest first. System messages say who the
    agent is and are never cut.

    Raises:
        ModelError: it does not fit even then.
    """
    fitting, cuts = list(messages), list[Truncation]()
    if limit is None:
        return fitting, cuts
    for place in _expendable(messages):
        excess = estimate_tokens(fitting, tools) - limit
        if excess <= 0:
            break
        shorter = _shortened(fitting[place], excess * BYTES_PER_TOKEN)
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


def _expendable(messages: Sequence[ChatMessage]) -> list[int]:
    heard = [i for i, message in enumerate(messages) if message.role in ("tool", "assistant")]
    asked = [i for i, message in enumerate(messages) if message.role == "user"]
    return heard + sorted(asked, key=lambda i: -len(messages[i].content))


def _shortened(message: ChatMessage, excess: int) -> ChatMessage:
    text = message.content
    mark = "\n[... left out to fit the context ...]\n"
    keep = max(KEPT, len(text) - excess - len(mark))
    if keep + len(mark) >= len(text):
        return message
    return message.replace(content=text[: keep - keep // 2] + mark + text[len(text) - keep // 2 :])


def _size(message: ChatMessage) -> int:
    calls = sum(len(to_canonical_json(call).encode()) for call in message.tool_calls)
    return (len(message.content.encode()) + calls) // BYTES_PER_TOKEN
