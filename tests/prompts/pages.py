"""A page per method with what a model reads and what it replies: every step's prompt whole, and a good reply to it."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from selfwire.core.chat import ChatMessage
from selfwire.core.values import format_count, to_plain_json
from tests.prompts.recording import Ask
from tests.prompts.replies import FEEDS, GoodReply

FOLDER = Path(__file__).parents[2] / "docs" / "prompts"
COMMAND = "python -m tests.render_prompts"
BEGINNING = 80
"""Characters of two agents' instructions that differ where two agents speak."""


def render_page(method: str, asks: Sequence[Ask]) -> str:
    """The page of a method."""
    good = [reply for feed in FEEDS.get(method, ()) for reply in feed.good]
    steps = list(dict.fromkeys(ask.step for ask in asks))
    head = (
        f"# Prompts of {method}\n\nWhat a model reads, whole, one example per step. Made by `{COMMAND}`\n"
        "from small runs on two questions; all replies in them are the offline stand-in's.\n"
    )
    head += "A good reply to such a prompt, and what it leads to, stands below it.\n" if good else ""
    parts = [head]
    for step in steps:
        parts.append(_render_step(step, [ask for ask in asks if ask.step == step]))
        parts += [_render_reply(reply) for reply in good if reply.title == step]
    return "\n".join(parts)


def _render_reply(good: GoodReply) -> str:
    text = good.reply if isinstance(good.reply, str) else json.dumps(good.reply, indent=1, ensure_ascii=False)
    whose = f" of the agent whose prompt begins with *{good.step}*" if good.is_text else ""
    return f"**A good reply{whose}**\n\n````text\n{text.strip()}\n````\n\n{good.effect}\n"


def _render_step(step: str, asks: Sequence[Ask]) -> str:
    example = max(asks, key=lambda ask: (ask.length, str(ask.messages)))
    what = "A turn of an agent" if step == "agent" else f"Reply: {step}"
    parts = [f"## {what}\n\nRole {example.role}, {format_count(len(asks), 'call')} in these runs.\n"]
    parts += [_render_message(message) for message in example.messages]
    parts += [_block(name, json.dumps(value, indent=1)) for name, value in example.options.items()]
    others = list(_find_others(example, asks))
    if others:
        parts += ["Other agents' instructions:\n", *(_block("instructions", text) for text in others)]
    return "\n".join(parts)


def _find_others(example: Ask, asks: Sequence[Ask]) -> Iterator[str]:
    """Instructions that begin otherwise, one for each beginning."""
    seen = {example.instructions[:BEGINNING]}
    for text in sorted(ask.instructions for ask in asks if ask.role == "agent"):
        if text[:BEGINNING] not in seen:
            seen.add(text[:BEGINNING])
            yield text


def _render_message(message: ChatMessage) -> str:
    calls = [{call.name: to_plain_json(call.arguments)} for call in message.tool_calls]
    return _block(message.role, "\n".join(filter(None, [message.content, json.dumps(calls) if calls else ""])))


def _block(name: str, text: str) -> str:
    return f"**{name}**\n\n````text\n{text.strip()}\n````\n"
