"""EvoMAS through the real client of a compatible server: garbage, an agent that keeps failing, kill -9 in a stage."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from selfwire.evolvers.evomas.stages import Stage
from selfwire.graphs import evomas
from selfwire.runtime.models import make_chat_model
from tests.graphs.answering import killed, local, speaks
from tests.graphs.evomas_process import CONFIG, IO, SEARCH
from tests.wire.server import Body, Fault, WireServer, refused, saying, served

PLANNER, EVALUATOR, SYNTHESIS = "You plan the work", "You judge whether", "You give the final answer"


async def asked(picky: Callable[[Body], Fault | None]) -> dict[str, Any]:
    with WireServer(served(make_chat_model("offline"))) as server:
        server.picky = picky
        graph = evomas.build(local(server.url), config=CONFIG, embedder="hashing").compile()
        result: dict[str, Any] = await graph.ainvoke({"question": "What am I?"})
    return result


def stages(result: dict[str, Any]) -> list[Stage]:
    return [Stage.model_validate(one) for one in result["stages"]]


@pytest.mark.parametrize("garbage", ["no JSON", '{"subtasks": "many"', "[1, 2]", '{"reward": "high"}'])
async def test_a_planner_and_an_evaluator_that_talk_garbage_leave_safe_defaults(garbage: str) -> None:
    result = await asked(lambda body: saying(garbage) if speaks(body, PLANNER, EVALUATOR, SYNTHESIS) else None)
    assert [one.fell_back for one in stages(result)] == [("planner", "evaluator")] * 3
    assert {one.goal for one in stages(result)} == {"What am I?"}
    verdicts = [one.assessment and one.assessment.verdict for one in stages(result)]
    assert verdicts == ["refine"] * 3  # nothing passes unseen
    assert result["answer"] == stages(result)[-1].outcome


async def test_an_agent_that_keeps_failing_is_left_out_and_told() -> None:
    result = await asked(lambda body: refused() if speaks(body, IO) else None)
    failed = [step for step in result["steps"] if step.get("error")]
    assert {step["node"] for step in failed} == {"L1-io"}
    assert all("401" in step["error"] for step in failed)
    assert all(one.outcome for one in stages(result))


async def test_a_layer_that_fails_as_a_whole_is_no_answer_and_the_run_an_error() -> None:
    result = await asked(lambda body: refused() if speaks(body, SEARCH) else None)
    assert (result["answer"], result["status"]) == (None, "stages")
    assert "401" in result["error"]
    assert [one.outcome for one in stages(result)] == [None] * 3


@pytest.mark.slow
def test_after_kill_9_within_a_stage_no_finished_agent_is_asked_twice(tmp_path: Path) -> None:
    done = killed("tests.graphs.evomas_process", SEARCH, 2, tmp_path)  # two others have answered in that stage
    assert done.whole.startswith("3 stages")
    assert done.resumed == done.whole
    assert done.asked == done.requests + 1  # the one that was in flight
