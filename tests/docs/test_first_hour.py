"""Pages that are scripts: their blocks are done in their order, and print what the page shows."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from selfwire.extras import demo_server
from selfwire.extras.pages.reading import read_report
from tests.docs.blocks import BLOCKS
from tests.docs.world import World
from tests.wire.server import Body, WireServer

FIRST = "docs/first-hour.md"
PAGES = {FIRST: 10, "docs/bring.md": 8}
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
    printed = dict[str, str]()
    for block in blocks:
        if block.file:
            world.write(block)
        elif block.language == "console":
            printed |= {command.text: world.run(command) for command in block.commands}
    if page == FIRST:
        [evolved] = [text for command, text in printed.items() if "--name first" in command]
        check_worth(world.home, evolved)


def check_worth(home: Path, printed: str) -> None:
    """The seed team is asked as often as the evolved team, and the report says what that shows."""
    table = [re.split(r"\s{2,}", row.strip()) for row in printed.splitlines() if row.startswith(" ")]
    [place] = [cells.index("calls/task") for cells in table if "calls/task" in cells]
    rows = {cells[0]: cells for cells in table}
    seed, voted, evolved = (float(rows[name][place]) for name in ("seed team", "seed team with votes", "evolved team"))
    assert abs(evolved - voted) < 0.15 < 2 * seed < voted  # calls per task, which the table rounds to tenths
    [told] = [row for row in printed.splitlines() if "worth it: " in row]
    [run] = re.findall(r"^run (\S+):", printed, re.MULTILINE)
    assert f"{told[0].upper()}{told[1:]}." in read_report(home, run).verdict


def test_an_app_goes_from_adopt_to_an_applied_patch_in_under_ten_commands() -> None:
    blocks = [block for block in BLOCKS if block.page == "docs/bring.md" and block.language == "console"]
    done = [command.words for block in blocks for command in block.commands]
    applied = done.index(["git", "apply", "help.patch"])
    assert applied < 9
    assert [words[1] for words in done[: applied + 2]] == [
        *("adopt", "eval", "evolve", "diff", "eval", "export", "apply", "eval")
    ]
    assert "create_agent(" in next(block.text for block in BLOCKS if block.file == "help_app.py")
