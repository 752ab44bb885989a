"""The texts of a program that can be evolved: those of its prompts whose place in what is sent can be told."""

import re
from collections.abc import Iterator
from typing import Any

from selfwire.extras.adopt.inventory import ProgramText
from selfwire.extras.adopt.reader import read_program
from selfwire.models.text_layer import LayerText

KINDS = frozenset({"constant", "template", "f-string", "file", "default"})
ROLES = frozenset({"system", "user", ""})
SHORTEST = 12
"""Letters of the static pieces of a text from which on it is a prompt."""
NAME = re.compile(r"[^A-Za-z0-9]+")


def list_texts(name: str) -> list[LayerText]:
    """List the prompts of a graph, each named after the node or agent that sends it.

    Raises:
        ConfigError: the source of the graph cannot be read.
    """
    return list({text.name: text for text, _ in list_prompts(name)}.values())


def list_prompts(name: str) -> Iterator[tuple[LayerText, ProgramText]]:
    """List the prompts of a graph with each of their places in its source; as `list_texts`."""
    inventory, seen = read_program(name), dict[Any, LayerText]()
    order = {f"node {node.name}": number for number, node in enumerate(inventory.nodes)}

    def find_place(text: ProgramText) -> int:
        return min((order[user] for user in text.used_by if user in order), default=len(order))

    for text in sorted(inventory.texts, key=find_place):
        if text.kind not in KINDS or text.role not in ROLES or text.signal or text.is_past:
            continue
        if sum(map(len, text.pieces)) < SHORTEST:
            continue
        user = next(iter(text.used_by), "").partition(" ")[2] or text.name or "text"
        taken = {known.name for known in seen.values()}
        found = LayerText.of(_make_name(user, taken), text.pieces, text.holes)
        if found is not None:
            found = found.replace(keeps=text.keeps, place=f"{text.file}:{text.line}")
            yield seen.setdefault((found.pieces, bool(found.before), bool(found.after)), found), text


def _make_name(user: str, taken: set[str]) -> str:
    stem = NAME.sub("-", user).strip("-")[:50] or "text"
    return next(
        name for number in range(1, 10_000) if (name := stem if number == 1 else f"{stem}-{number}") not in taken
    )
