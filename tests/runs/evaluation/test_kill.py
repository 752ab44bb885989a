"""An evaluation that is killed goes on where it was: nothing that was paid for is paid again."""

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest

from selfwire.evals.table import read_results
from selfwire.models.providers import make_chat_model
from tests import kills, processes
from tests.runs.evaluation.test_evaluation import comparable
from tests.wire.server import WireServer, served


def beginning(server: WireServer) -> tuple[str, ...]:
    sizes = ("--evolve", "none", "--tasks", "6", "--concurrency", "3")
    return ("compare", "hiva", "single", "--benchmark", "archive", *sizes, *kills.name_model(server))


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize("share", [0.4, 0.8])
def test_killed_and_resumed_it_repeats_nothing_and_ends_with_the_same_numbers(share: float, tmp_path: Path) -> None:
    with WireServer(served(make_chat_model("offline"))) as server:
        whole = tmp_path / "whole"
        kills.call(whole, *beginning(server))  # in this process, where sets have another order
        requests = len(server.asked)
        home, before = tmp_path / "killed", server.replied
        process = kills.start(home, *beginning(server))
        kills.killed_after(process, server, before + int(share * requests))
        in_flight = asyncio.run(kills.open_calls(home))
        run = kills.run_of(home)
        out, _ = processes.wait_for(kills.start(home, "compare", "--resume", run))
        extra = len(server.asked) - 2 * requests
    assert 0 <= extra <= in_flight
    expected, found = (read_results(one / "runs" / kills.run_of(one) / "results.jsonl") for one in (whole, home))
    assert comparable(found[1]) == comparable(expected[1])
    assert found[0].complete
    assert "results are in" in out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="ends processes otherwise")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_asked_to_end_it_writes_what_there_is_and_says_how_to_go_on(name: str, tmp_path: Path) -> None:
    with WireServer(served(make_chat_model("offline"))) as server:
        process = kills.start(tmp_path, *beginning(server))
        while server.replied < 12 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(getattr(signal, name))
        out, _ = processes.wait_for(process, code=130)
        run = kills.run_of(tmp_path)
        assert f"go on with: selfwire compare --resume {run}" in out
        assert not read_results(tmp_path / "runs" / run / "results.jsonl")[0].complete
        processes.wait_for(kills.start(tmp_path, "compare", "--resume", run))
    assert read_results(tmp_path / "runs" / run / "results.jsonl")[0].complete
