"""TacoMAS through the real client of a compatible server: a worker that keeps failing, and kill -9 within a round."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from selfwire.evals.cli.rounds import coevolved
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.rounds import Round
from selfwire.graphs import tacomas
from selfwire.runtime.models import chat_model
from tests.graphs.tacomas_process import ROUNDS
from tests.wire.server import Fault, WireServer, hanging, refused, served

SINK, CALCULATOR = "You give the team's final answer", "You are the calculator"


def speaks(body: dict[str, Any], beginning: str) -> bool:
    return str(body["messages"][0]["content"]).startswith(beginning)


async def test_a_worker_that_keeps_failing_is_left_out_and_told() -> None:
    with WireServer(served(chat_model("offline"))) as server:
        server.picky = lambda body: refused() if speaks(body, CALCULATOR) else None
        model = chat_model("openai:local", base_url=server.url, api_key="none")
        graph = tacomas.build(model, config=TacomasConfig(rounds=2, topology=False)).compile()
        result = await graph.ainvoke({"question": "What am I?"})
    rounds = [Round.model_validate(one) for one in result["rounds"]]
    assert all(one.answer is not None for one in rounds)
    assert all("calculator" not in {score.agent for score in one.contributions} for one in rounds)
    assert all([*one.silent] == ["calculator"] for one in rounds)
    assert all("401" in one.silent["calculator"] for one in rounds)
    assert all("calculator failed, and the round went on without it" in "\n".join(coevolved(one)) for one in rounds)


class HangsInRoundThree:
    """Lets the sink of the third round, where four others have answered, wait until the process is killed."""

    def __init__(self) -> None:
        self.turns = 0
        self.hung = False

    def __call__(self, body: dict[str, Any]) -> Fault | None:
        if not speaks(body, SINK) or self.hung:
            return None
        self.turns += 1
        self.hung = self.turns == 3
        return hanging(60) if self.hung else None


def started(server: WireServer, file: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.graphs.tacomas_process", server.url, str(file)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: "subprocess.Popen[str]") -> str:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out


@pytest.mark.slow
def test_after_kill_9_within_round_3_no_finished_agent_is_asked_twice(tmp_path: Path) -> None:
    with WireServer(served(chat_model("offline"))) as server:
        whole = ended(started(server, tmp_path / "whole.sqlite"))
        requests = len(server.asked)
        hangs = HangsInRoundThree()
        server.picky = hangs
        process = started(server, tmp_path / "killed.sqlite")
        while not hangs.hung:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.kill()
        process.communicate()
        resumed = ended(started(server, tmp_path / "killed.sqlite"))
        asked = len(server.asked) - requests
    assert whole.startswith(f"{ROUNDS} rounds")
    assert resumed == whole
    assert asked == requests + 1  # the one that was in flight
