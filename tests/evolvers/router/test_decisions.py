"""Decisions of a router as they are counted."""

from selfwire.core.trajectory import DecisionCount
from selfwire.evolvers.router.decisions import LayeredWorkflow, count_decisions


def test_a_draw_is_free_where_there_are_two_agents_to_draw_from() -> None:
    both = LayeredWorkflow(layers=(("a",), ("b",)), probabilities=({"a": 0.5, "b": 0.5}, {"b": 1.0}))
    planned = LayeredWorkflow(layers=(("a",),))
    assert count_decisions([both, planned]) == DecisionCount(made=2, free=1)
    assert count_decisions([planned]) is None
