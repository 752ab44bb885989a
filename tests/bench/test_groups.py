"""The bench of groups runs, and says what it measured."""

from selfwire.bench import groups


def test_a_group_and_a_team_are_measured() -> None:
    team, group = groups.measure_groups(rounds=1)
    assert team.value >= groups.LATENCY * groups.AGENTS * 1e3
    assert (group.unit, group.bound) == ("x", 1.2)
