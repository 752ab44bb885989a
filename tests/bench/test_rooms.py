"""The bench of rooms: its rows."""

from bench.rooms import SYSTEMS, Measured, summarise


def test_a_share_of_no_gain_is_none() -> None:
    rows = summarise([{"4 agents, claims": dict.fromkeys(SYSTEMS, Measured(score=0.5, calls=3.0, agents=2.0))}])
    shares = [row for row in rows if row.column.endswith("share of the gain")]
    assert [row.note for row in shares] == ["-"] * len(SYSTEMS)
