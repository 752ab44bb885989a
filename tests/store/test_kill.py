"""kill -9 in the middle of a run, and what the next process finds."""

import asyncio
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from tests.journals import read_journal
from tests.processes import kill_when, start
from tests.store.killed_run import STEPS, TASKS, answer
from tests.wire.server import Body, WireServer


async def _derived(body: Body) -> AIMessage:
    await asyncio.sleep(0.01)
    return AIMessage(f"{body['messages'][-1]['content']}."[-60:])


@pytest.mark.slow
def test_killed_runs_replay_what_they_paid_for(tmp_path: Path, wire_server: WireServer) -> None:
    wire_server.answer = _derived
    expected = asyncio.run(answer(tmp_path / "whole.sqlite", wire_server.url))
    assert len(wire_server.asked) == TASKS * STEPS
    wire_server.asked.clear()

    unknown = 0
    for asked in (7, 13, 19):  # three kills in a row
        run = start("tests.store.killed_run:main", str(tmp_path / "killed.sqlite"), wire_server.url)
        kill_when(run, lambda asked=asked: len(wire_server.asked) >= asked)  # type: ignore[misc]
        reading = read_journal(tmp_path / "killed.sqlite")
        unknown += reading.count_unsettled()[0]
        reading.close()
    result = asyncio.run(answer(tmp_path / "killed.sqlite", wire_server.url))
    assert result == expected
    assert 0 < unknown <= 3 * TASKS  # one call of each task was in flight at most
    assert len(wire_server.asked) <= TASKS * STEPS + unknown
    assert expected["ledger"] == TASKS * STEPS
