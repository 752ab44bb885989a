"""EvoMAS through the real client of a compatible server: garbage, an agent that keeps failing, kill -9 in a stage."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.stages import Stage
from selfwire.graphs import evomas
from selfwire.runtime.models import chat_model
from tests.graphs.evomas_process import CONFIG
from tests.wire.server import Fault, WireServer, hanging, refused, saying, served

IO = "You are a member of a team that works on a task in stages. You answer the current subtask out of"
SEARCH = "You are a member of a team that works on a task in stages. You answer the current subtask by searching"
PLANNER, EVALUATOR, SYNTHESIS = "You plan the work", "You judge whether", "You give the final answer"


def speaks(body: dict[str, Any], *beginnings: str) -> bool:
    return str(body["messages"][0]["content"]).startswith(beginnings)


async def asked(server: WireServer, config: EvomasConfig = CONFIG) -> dict[str, Any]:
    model = chat_model("openai:local", base_url=server.url, api_key="none")
    graph = evomas.build(model, config=config, embedder="hashing").compile()
    result: dict[str, Any] = await graph.ainvoke({"question": "What am I?"})
    return result


def stages(result: dict[str, Any]) -> list[Stage]:
    return [Stage.model_validate(one) for one in result["stages"]]


@pytest.mark.parametrize("garbage", ["no JSON", '{"subtasks": "many"', "[1, 2]", '{"reward": "high"}'])
async def test_a_planner_and_an_evaluator_that_talk_garbage_leave_safe_defaults(garbage: str) -> None:
    with WireServer(served(chat_model("offline"))) as server:
        server.picky = lambda body: saying(garbage) if speaks(body, PLANNER, EVALUATOR, SYNTHESIS) else None
        result = await asked(server)
    assert [one.fell_back for one in stages(result)] == [("planner", "evaluator")] * 3
    assert {one.goal for one in stages(result)} == {"What am I?"}
    verdicts = [one.assessment and one.assessment.verdict for one in stages(result)]
    assert verdicts == ["refine"] * 3  # nothing passes unseen
    assert result["answer"] == stages(result)[-1].outcome


async def test_an_agent_that_keeps_failing_is_left_out_and_told() -> None:
    with WireServer(served(chat_model("offline"))) as server:
        server.picky = lambda body: refused() if speaks(body, IO) else None
        result = await asked(server)
    failed = [step for step in result["steps"] if step.get("error")]
    assert {step["node"] for step in failed} == {"L1-io"}
    assert all("401" in step["error"] for step in failed)
    assert all(one.outcome for one in stages(result))


async def test_a_layer_that_fails_as_a_whole_is_no_answer_and_the_run_an_error() -> None:
    with WireServer(served(chat_model("offline"))) as server:
        server.picky = lambda body: refused() if speaks(body, SEARCH) else None
        result = await asked(server)
    assert (result["answer"], result["status"]) == (None, "stages")
    assert "401" in result["error"]
    assert [one.outcome for one in stages(result)] == [None] * 3


class HangsInStageTwo:
    """Lets the searcher of the second stage, where two others have answered, wait until the process is killed."""

    def __init__(self) -> None:
        self.turns = 0
        self.hung = False

    def __call__(self, body: dict[str, Any]) -> Fault | None:
        if not speaks(body, SEARCH) or self.hung:
            return None
        self.turns += 1
        self.hung = self.turns == 2
        return hanging(60) if self.hung else None


def started(server: WireServer, file: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.graphs.evomas_process", server.url, str(file)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: "subprocess.Popen[str]") -> str:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out


@pytest.mark.slow
def test_after_kill_9_within_a_stage_no_finished_agent_is_asked_twice(tmp_path: Path) -> None:
    with WireServer(served(chat_model("offline"))) as server:
        whole = ended(started(server, tmp_path / "whole.sqlite"))
        requests = len(server.asked)
        hangs = HangsInStageTwo()
        server.picky = hangs
        process = started(server, tmp_path / "killed.sqlite")
        while not hangs.hung:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.kill()
        process.communicate()
        resumed = ended(started(server, tmp_path / "killed.sqlite"))
        asked_again = len(server.asked) - requests
    assert whole.startswith("3 stages")
    assert resumed == whole
    assert asked_again == requests + 1  # the one that was in flight
