import pytest

from bench.models import CannedModel
from bench.team import build_by_hand, make_layered_topology, measure_team
from selfwire.core.topology import Topology
from selfwire.graphs.team import TeamContext, run_team
from selfwire.nodes.agent import make_agent_runner
from tests.graphs.teams import team_run


def scripted_run(topology: Topology) -> TeamContext:
    return team_run(topology, make_agent_runner(CannedModel(), {}))


@pytest.mark.parametrize("conditional", [False, True])
async def test_the_graphs_that_are_compared_do_the_same(conditional: bool) -> None:
    topology = make_layered_topology((1, 3, 2, 1))
    team = await run_team(topology, scripted_run(topology))
    hand = await build_by_hand(topology, CannedModel(), conditional=conditional).ainvoke({"outputs": {}, "sample": 0})
    assert hand["outputs"] == {step.node: step.output for step in team.steps}
    assert len(team.steps) == 7


def test_figures_are_measured_beside_their_aims() -> None:
    rows = measure_team(sizes=(5,), rounds=1)
    assert [row.bound for row in rows] == [None, None, None, 1.25, None, 1.10]
    assert all(row.value > 0 for row in rows)
