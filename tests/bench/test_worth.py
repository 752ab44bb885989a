import pytest

from bench import worth
from bench.worth import MeasuredTeam


def make_team(*losses: int) -> MeasuredTeam:
    """A team that solves 40 tasks; without agent n it loses every k-th of them, k being its loss, or none."""
    names = [f"agent {number}" for number in range(len(losses))]
    scores = [tuple(float(not loss or t % loss > 0) for t in range(40)) for loss in losses]
    return MeasuredTeam(
        whole=(1.0,) * 40,
        calls=(6,) * 40,
        without=dict(zip(names, scores, strict=True)),
        sent=dict.fromkeys(names, (1,) * 40),
        full=dict.fromkeys(names, (5,) * 40),
    )


def test_an_estimate_takes_the_tasks_that_its_share_of_the_calls_pays_for() -> None:
    team = make_team(2, 4, 0, 0)
    exact = worth.estimate_worth(team, 40)
    assert exact.worth == {"agent 0": 0.5, "agent 1": 0.25, "agent 2": 0.0, "agent 3": 0.0}
    assert exact.calls == 40 * (6 + 4 * 5)
    assert worth.count_affordable(team, 0.1, "in full") == 4
    assert worth.count_affordable(team, 0.1, "replayed") == 10  # 104 calls at 6 + 4 a task
    assert worth.estimate_worth(team, 10, first=2).tasks == 8
    stopped = worth.estimate_worth(make_team(1, 0), 20, "ledger")
    assert stopped.calls == 20 * 6 + 5 + 20  # the first agent is needed, as five tasks show


def test_ranks_of_all_teams_are_compared_together() -> None:
    rows = worth.summarise([make_team(2, 4, 0), make_team(1, 8, 0)])
    found = {(row.what, row.column): row.value for row in rows}
    assert found["equal calls replayed, 9.0 tasks", "Spearman with exact"] == pytest.approx(1)
    assert found["every run paid in full, 4.0 tasks", "calls, % of exact"] == pytest.approx(10)
    assert found["exact, a half with the other", "Spearman with exact"] < 1
