"""HERA's evolutions that are killed lose nothing: the same library, prompts and spend as one that nobody killed."""

import asyncio
from pathlib import Path

import pytest

from selfwire.evolvers.hera.library import get_library
from selfwire.models.providers import make_chat_model
from selfwire.store.library import open_library
from tests import kills
from tests.wire.server import WireServer, served

HERA = ("hera", "--set", "group=3", "--no-baselines")


@pytest.mark.slow
def test_killed_evolutions_end_with_the_same_library_prompts_and_spend(tmp_path: Path) -> None:
    with WireServer(served(make_chat_model("offline"))) as server:
        expected, requests = kills.whole(tmp_path / "whole", server, kills.TINY, HERA)
        rollout, evolve = 0.15, 0.5  # shares of the requests, in the middle of each phase
        for number, share in enumerate((rollout, evolve)):
            point = int(share * requests)
            points = (point, point + 7)
            home = tmp_path / str(number)
            found = kills.killed(home, server, kills.TINY, points, expected, HERA)
            assert found.differs == ()
            assert 0 <= found.extra - requests <= sum(found.open_calls)
    held = asyncio.run(learned(tmp_path / "whole"))
    assert held.count("ADD") + held.count("MERGE") > 0  # there was something to lose
    assert held == asyncio.run(learned(tmp_path / "1"))


async def learned(home: Path) -> list[str]:
    """The library's insights and what became of new ones, by the versions that hold them."""
    with open_library(home, create=False) as library:
        history = await library.history(kills.NAME)
        insights = [one.model_dump_json() for one in get_library(await library.load(kills.NAME))]
    notes = [version.facts.get("notes", {}) for version in history.versions]
    changes = [one["operation"] for noted in notes for one in noted.get("changes", ())]
    return [*insights, *changes]
