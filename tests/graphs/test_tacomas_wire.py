"""TacoMAS through the real client of a compatible server: a worker that keeps failing, and kill -9 within a round."""

from pathlib import Path

import pytest

from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.report import format_round
from selfwire.evolvers.tacomas.rounds import Round
from selfwire.graphs import tacomas
from selfwire.runtime.models import make_chat_model
from tests.graphs.answering import killed, local, speaks
from tests.graphs.tacomas_process import ROUNDS
from tests.wire.server import WireServer, refused, served

SINK, CALCULATOR = "You give the team's final answer", "You are the calculator"


async def test_a_worker_that_keeps_failing_is_left_out_and_told() -> None:
    with WireServer(served(make_chat_model("offline"))) as server:
        server.picky = lambda body: refused() if speaks(body, CALCULATOR) else None
        graph = tacomas.build(local(server.url), config=TacomasConfig(rounds=2, topology=False)).compile()
        result = await graph.ainvoke({"question": "What am I?"})
    rounds = [Round.model_validate(one) for one in result["rounds"]]
    assert all(one.answer is not None for one in rounds)
    assert all("calculator" not in {score.agent for score in one.contributions} for one in rounds)
    assert all([*one.silent] == ["calculator"] for one in rounds)
    assert all("401" in one.silent["calculator"] for one in rounds)
    assert all("calculator failed, and the round went on without it" in format_round(one) for one in rounds)


@pytest.mark.slow
def test_after_kill_9_within_round_3_no_finished_agent_is_asked_twice(tmp_path: Path) -> None:
    done = killed("tests.graphs.tacomas_process", SINK, 3, tmp_path)  # four others have answered in that round
    assert done.whole.startswith(f"{ROUNDS} rounds")
    assert done.resumed == done.whole
    assert done.asked == done.requests + 1  # the one that was in flight
