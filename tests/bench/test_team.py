import pytest

from selfwire.bench.team import Canned, by_hand, layered, run
from selfwire.core.topology import Topology
from selfwire.graphs.agent_node import TeamRun
from selfwire.graphs.team import run_team
from selfwire.nodes.agent import agent_act
from tests.graphs.teams import team_run


def scripted_run(topology: Topology) -> TeamRun:
    return team_run(topology, agent_act(Canned(), {}))


@pytest.mark.parametrize("conditional", [False, True])
async def test_the_graphs_that_are_compared_do_the_same(conditional: bool) -> None:
    topology = layered((1, 3, 2, 1))
    team = await run_team(topology, scripted_run(topology))
    hand = await by_hand(topology, Canned(), conditional=conditional).ainvoke({"outputs": {}, "sample": 0})
    assert hand["outputs"] == {step.node: step.output for step in team.steps}
    assert len(team.steps) == 7


def test_the_bench_tells_figures_beside_what_is_aimed_for() -> None:
    rows = run(sizes=(5,), rounds=1)
    assert [row.bound for row in rows] == [None, None, None, 1.25, None, 1.10]
    assert all(row.value > 0 for row in rows)
