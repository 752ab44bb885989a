"""docs/first-hour.md is a script: its blocks are done in their order, and print what the page shows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from selfwire.runtime.models import make_chat_model
from tests.docs.blocks import BLOCKS
from tests.docs.world import World
from tests.wire.server import Body, WireServer, served

PAGE = "docs/first-hour.md"
DESKS = {"billing": ("charged", "invoice", "refund", "card"), "tech": ("crash", "error", "empty", "white")}


async def answer(body: Body) -> AIMessage:
    """A model that knows some words of two desks; criticism and plans are the offline model's."""
    asked = "\n".join(str(one["content"]) for one in body["messages"])
    _, known, message = asked.rpartition("Which desk, billing, tech or sales?")
    if known and not body.get("response_format"):
        for desk, words in DESKS.items():
            if any(word in message for word in words):
                return AIMessage(f"Answer: {desk}")
    return await OFFLINE(body)


OFFLINE = served(make_chat_model("offline"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with WireServer(answer) as server:
        world = World(tmp_path, server, monkeypatch, cut=False)
        with world.stack:
            yield world


@pytest.mark.slow
def test_the_first_hour(world: World) -> None:
    blocks = [one for one in BLOCKS if one.page == PAGE]
    assert len(blocks) > 10
    for block in blocks:
        if block.file:
            world.write(block)
        elif block.language == "console":
            for command in block.commands:
                world.run(command)
