from collections import Counter

import pytest

from selfwire.core.agent import Agent
from selfwire.core.edits import RemoveEdge, Rewiring
from selfwire.core.scope import Scope
from selfwire.core.topology import TopologyLimits, make_chain
from selfwire.core.workflow import Workflow
from selfwire.evolvers.operations import list_legal_operations, make_fresh_id
from selfwire.evolvers.random_edits import edit_at_random, edit_pool_at_random

TEXTS = ("You look things up.", "You compare two dates.", "You keep a friendly tone.")


def line(**caps: int) -> Workflow:
    agents = tuple(Agent(id=name, prompt=f"You are {name}.", tools=("search",)) for name in ("s", "a", "end"))
    return Workflow(method="any", agents=agents, topology=make_chain("s", "a", "end", caps=TopologyLimits(**caps)))


def test_exactly_the_count_of_legal_edits_is_applied() -> None:
    for count in (0, 1, 7):
        changed, applied = edit_at_random(line(), count, TEXTS, scope=Scope(seed=1))
        assert len(applied) == count
        replayed, refused = line().apply_legal(applied)
        assert refused == ()
        assert replayed.fingerprint == changed.fingerprint
    assert changed.lineage.parent == line().fingerprint
    assert changed.lineage.rewirings == applied


def test_equal_scopes_draw_equal_edits_and_others_do_not() -> None:
    first = edit_at_random(line(), 5, TEXTS, scope=Scope(seed=1, iteration=2))
    assert edit_at_random(line(), 5, TEXTS, scope=Scope(seed=1, iteration=2, run="other")) == first
    others = {edit_at_random(line(), 5, TEXTS, scope=Scope(seed=s, iteration=2))[0].fingerprint for s in range(9)}
    assert len(others) > 5


def test_all_kinds_of_edits_are_drawn_and_the_sink_keeps_its_prompt() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(60):
        changed, applied = edit_at_random(line(nodes=8, successors=3), 4, TEXTS, scope=Scope(seed=seed))
        kinds.update(r.operation for r in applied)
        assert changed.agents_by_id["end"].prompt == "You are end."
        assert changed.topology.problems() == ()
        assert all(agent.tools == ("search",) for agent in changed.agents)
    assert min(kinds.values()) > 5
    assert set(kinds) == {
        "REWRITE_PROMPT", "ADD_PARALLEL", "ADD_SERIAL", "REMOVE_SUCCESSOR", "CONNECT_TO_AGGREGATOR",
    }  # fmt: skip


def test_caps_are_kept_and_the_sink_has_no_operations() -> None:
    for seed in range(20):
        changed, _ = edit_at_random(line(nodes=4, successors=2), 12, TEXTS, scope=Scope(seed=seed))
        assert len(changed.topology.nodes) <= 4
    assert list_legal_operations(line(), "end") == ()


def test_misuse_and_a_team_that_cannot_run_are_refused() -> None:
    with pytest.raises(ValueError, match="instructions"):
        edit_at_random(line(), 1, [], scope=Scope())
    with pytest.raises(ValueError, match="count"):
        edit_at_random(line(), -1, TEXTS, scope=Scope())
    cut = line().apply(Rewiring(RemoveEdge("a", "end"), why="cut"))
    with pytest.raises(ValueError, match="sink unreachable"):
        edit_at_random(cut, 1, TEXTS, scope=Scope())


def test_ids_come_from_descriptions() -> None:
    assert make_fresh_id(line(), "You are a member of a team. Compare two dates!") == "compare-two-dates"
    assert make_fresh_id(line(), "???") == "agent"
    assert make_fresh_id(line(), "S") == "s-2"
    assert len(make_fresh_id(line(), "x" * 900 + " " + "y" * 900)) <= 64


def test_a_pool_is_edited_within_its_size_and_keeps_its_topology_and_its_sink() -> None:
    for count in (0, 1, 9):
        changed, applied = edit_pool_at_random(line(), count, TEXTS, most=5, scope=Scope(seed=1))
        assert len(applied) == count
        assert changed.topology == line().topology
        assert len(changed.agents) <= 5
        assert changed.agents_by_id["end"] == line().agents_by_id["end"]
    assert {one.operation for one in applied} == {"MUTATE", "REWRITE_PROMPT"}
    assert len(changed.agents) == 5
    assert all(agent.tools == ("search",) for agent in changed.agents)
    assert changed.lineage.rewirings == applied
    assert edit_pool_at_random(line(), 9, TEXTS, most=5, scope=Scope(seed=1, run="other"))[0] == changed
    with pytest.raises(ValueError, match="0, 1"):
        edit_pool_at_random(line(), 1, (), most=5, scope=Scope())
