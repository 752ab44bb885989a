"""kill -9 in the middle of a run, and what the next process finds."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from selfwire.runtime.journal import Journal
from tests.forks import Process, start_module
from tests.runtime.killed_run import STEPS, TASKS
from tests.wire.server import Body, WireServer


async def _derived(body: Body) -> AIMessage:
    await asyncio.sleep(0.01)
    return AIMessage(f"{body['messages'][-1]['content']}."[-60:])


def _start(path: Path, server: WireServer, *, fresh: bool = False) -> Process:
    return start_module("tests.runtime.killed_run", path, server.url, fresh=fresh)


def _result(run: Process) -> dict[str, Any]:
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 0
    result: dict[str, Any] = json.loads(out)
    return result


@pytest.mark.slow
def test_killed_runs_replay_what_they_paid_for(tmp_path: Path, wire_server: WireServer) -> None:
    wire_server.answer = _derived
    expected = _result(_start(tmp_path / "whole.sqlite", wire_server))
    assert len(wire_server.asked) == TASKS * STEPS
    wire_server.asked.clear()

    unknown = 0
    for asked in (7, 13, 19):  # three kills in a row
        run = _start(tmp_path / "killed.sqlite", wire_server)
        while len(wire_server.asked) < asked:
            assert run.poll() is None, "the run ended before it could be killed"
            time.sleep(0.002)
        run.kill()
        run.communicate()
        reading = Journal.open_read_only(tmp_path / "killed.sqlite")
        unknown += reading.unknown()[0]
        reading.close()
    result = _result(_start(tmp_path / "killed.sqlite", wire_server, fresh=True))
    assert result == expected
    assert 0 < unknown <= 3 * TASKS  # one call of each task was in flight at most
    assert len(wire_server.asked) <= TASKS * STEPS + unknown
    assert expected["ledger"] == TASKS * STEPS
