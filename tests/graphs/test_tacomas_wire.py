"""TacoMAS through the real client of a compatible server with a worker that keeps failing."""

from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.report import format_round
from selfwire.evolvers.tacomas.rounds import Round
from selfwire.graphs import tacomas
from selfwire.runtime.models import make_chat_model
from tests.asks import local, speaks
from tests.wire.server import WireServer, refused, served

CALCULATOR = "You are the calculator"


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
