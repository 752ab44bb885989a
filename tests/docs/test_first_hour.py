"""Pages that are scripts: their blocks are done in their order, and print what the page shows."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from selfwire.extras import demo_server
from tests.docs.blocks import BLOCKS
from tests.docs.world import World
from tests.wire.server import Body, WireServer

PAGES = {"docs/first-hour.md": 10, "docs/bring.md": 8}
"""Pages, and how many blocks they have at least."""


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
@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_is_a_script(world: World, page: str) -> None:
    blocks = [block for block in BLOCKS if block.page == page]
    assert len(blocks) > PAGES[page]
    for block in blocks:
        if block.file:
            world.write(block)
        elif block.language == "console":
            for command in block.commands:
                world.run(command)


def test_an_app_goes_from_adopt_to_an_applied_patch_in_under_ten_commands() -> None:
    blocks = [block for block in BLOCKS if block.page == "docs/bring.md" and block.language == "console"]
    done = [command.words for block in blocks for command in block.commands]
    applied = done.index(["git", "apply", "help.patch"])
    assert applied < 9
    assert [words[1] for words in done[: applied + 2]] == [
        *("adopt", "eval", "evolve", "diff", "eval", "export", "apply", "eval")
    ]
    assert "create_agent(" in next(block.text for block in BLOCKS if block.file == "help_app.py")
