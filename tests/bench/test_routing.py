from bench import routing


def test_the_router_is_measured() -> None:
    rows = routing.measure_routing(episodes=3, agents=3, rounds=1)
    assert [row.unit for row in rows] == ["ms", ""]
    assert all(row.value > 0 for row in rows)
