"""EvoMAS through the real client of a compatible server: garbage, and agents that keep failing."""

from typing import Any

import pytest

from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.stages import Stage
from selfwire.evolvers.evomas.state import WHOLE_TASK
from selfwire.graphs import evomas
from selfwire.models.providers import make_chat_model
from tests.asks import PLAN, local, speaks
from tests.wire.server import WireServer, refused, saying, served

MEMBER = "You are a member of a team that works on a task in parts."
IO, SEARCH = f"{MEMBER} You answer the current part without tools", f"{MEMBER} You find out with your tools"
PLANNER, EVALUATOR, SYNTHESIS = "You plan the work", "You review the work", "You write the final answer"


def look(query: str) -> str:
    """Look something up."""
    return f"nothing on {query}"


async def asked(server: WireServer, config: EvomasConfig = PLAN) -> dict[str, Any]:
    graph = evomas.build(local(server.url), tools=[look], config=config, embedder="hashing").compile()
    result: dict[str, Any] = await graph.ainvoke({"question": "What am I?"})
    return result


def stages(result: dict[str, Any]) -> list[Stage]:
    return [Stage.model_validate(one) for one in result["stages"]]


@pytest.mark.parametrize("garbage", ["no JSON", '{"subtasks": "many"', "[1, 2]", '{"reward": "high"}'])
async def test_a_planner_and_an_evaluator_that_talk_garbage_leave_safe_defaults(garbage: str) -> None:
    with WireServer(served(make_chat_model("offline"))) as server:
        server.picky = lambda body: saying(garbage) if speaks(body, PLANNER, EVALUATOR, SYNTHESIS) else None
        result = await asked(server)
    assert [one.fell_back for one in stages(result)] == [("planner", "evaluator")] * 3
    assert {one.goal for one in stages(result)} == {WHOLE_TASK}
    verdicts = [one.assessment and one.assessment.verdict for one in stages(result)]
    assert verdicts == ["refine"] * 3  # nothing passes unseen
    assert result["answer"] == stages(result)[-1].outcome


async def test_an_agent_that_keeps_failing_is_left_out_and_told() -> None:
    with WireServer(served(make_chat_model("offline"))) as server:
        server.picky = lambda body: refused() if speaks(body, IO) else None
        result = await asked(server)
    failed = [step for step in result["steps"] if step.get("error")]
    assert {step["node"] for step in failed} == {"L1-io"}
    assert all("401" in step["error"] for step in failed)
    assert all(one.outcome for one in stages(result))


async def test_a_layer_that_fails_as_a_whole_is_no_answer_and_the_run_an_error() -> None:
    with WireServer(served(make_chat_model("offline"))) as server:
        server.picky = lambda body: refused() if speaks(body, SEARCH) else None
        result = await asked(server)
    assert (result["answer"], result["status"]) == (None, "stages")
    assert "401" in result["error"]
    assert [one.outcome for one in stages(result)] == [None] * 3
