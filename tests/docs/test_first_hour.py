"""docs/first-hour.md is a script: its blocks are done in their order, and print what the page shows."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from selfwire.extras import demo_server
from tests.docs.blocks import BLOCKS
from tests.docs.world import World
from tests.wire.server import Body, WireServer

PAGE = "docs/first-hour.md"


async def answer(body: Body) -> AIMessage:
    """The answers of the server that the page starts."""
    return await asyncio.to_thread(demo_server.answer, body)


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
