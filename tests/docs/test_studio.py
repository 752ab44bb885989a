"""The steps of docs/studio.md, in their order, against a real server."""

import doctest
import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from selfwire.models.providers import make_chat_model
from tests.docs.blocks import BLOCKS
from tests.docs.world import World
from tests.wire.server import WireServer, served

SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.slow
def test_the_steps_of_the_page_work_and_print_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    known, printed = dict[str, Any](), ""
    with WireServer(served(make_chat_model("offline"))) as server:
        world = World(tmp_path, server, monkeypatch, cut=False)
        with world.stack:
            world.stack.callback(lambda: known["client"].close())
            for block in (one for one in BLOCKS if one.page == "docs/studio.md"):
                if block.language == "console":
                    for command in block.commands:
                        world.run(command)
                elif block.language == "python":
                    with redirect_stdout(io.StringIO()) as out:
                        exec(compile(world.point_at_servers(block.text), str(block), "exec"), known)
                    printed = out.getvalue()
                elif block.language != "py":  # that is of a run which waits, as in tests/runs/test_studio.py
                    told = f"{block} shows\n{block.text}\nand this is printed:\n{printed}"
                    assert doctest.OutputChecker().check_output(block.text, printed, SHOWN), told
