from collections import Counter
from collections.abc import Sequence

import pytest

from selfwire.core.agent import Agent
from selfwire.core.edits import RemoveEdge, Rewiring
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.topology import TopologyLimits, make_chain
from selfwire.evolvers.random_edits import (
    RandomEdits,
    add_instruction,
    apply_at_random,
    edit_at_random,
    list_team_operations,
)
from selfwire.evolvers.topology_ops import list_legal_operations, make_fresh_id

TEXTS = ("You look things up.", "You compare two dates.", "You keep a friendly tone.")


def line(**caps: int) -> Team:
    agents = tuple(Agent(id=name, prompt=f"You are {name}.", tools=("search",)) for name in ("s", "a", "end"))
    return Team(method="any", agents=agents, topology=make_chain("s", "a", "end", caps=TopologyLimits(**caps)))


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


TEAM_KINDS = ("REWRITE_PROMPT", "ADD_PARALLEL", "ADD_SERIAL", "REMOVE_SUCCESSOR", "CONNECT_TO_AGGREGATOR")


def matched(operations: Sequence[str], seed: int = 0, team: Team | None = None) -> RandomEdits:
    kinds = list_team_operations(TEXTS, 200)
    return apply_at_random(team or line(), operations, kinds, Scope(seed=seed).random("random edits"))


def test_a_matched_control_makes_the_edits_of_the_given_kinds_and_no_other() -> None:
    wanted = ("REWRITE_PROMPT", "REWRITE_PROMPT", "ADD_SERIAL", "ADD_PARALLEL", "CONNECT_TO_AGGREGATOR")
    for seed in range(20):
        found = matched(wanted, seed)
        assert Counter(one.operation for one in found.applied) + Counter(found.left_out) == Counter(wanted)
        assert set(found.left_out) <= {"CONNECT_TO_AGGREGATOR"}
        replayed, refused = line().apply_legal(found.applied)
        assert (refused, replayed.fingerprint) == ((), found.workflow.fingerprint)
    assert matched(wanted, 3) == matched(wanted, 3)
    assert set(list_team_operations(TEXTS, 200)) == set(TEAM_KINDS)
    with pytest.raises(ValueError, match="there is no random SWAP; kinds are REWRITE_PROMPT, ADD_PARALLEL"):
        matched(["SWAP"])
    with pytest.raises(ValueError, match="need instructions"):
        list_team_operations((), 200)


def test_a_place_is_edited_once_while_others_are_open() -> None:
    for seed in range(10):
        found = matched(("REWRITE_PROMPT",) * 3 + ("ADD_SERIAL",) * 2, seed)
        assert sorted(one.by for one in found.applied) == ["a", "a", "end", "s", "s"]
        more = matched(("ADD_SERIAL",) * 3, seed)  # one more than there are nodes
        assert len(more.applied) == 3


def test_what_is_legal_nowhere_is_tried_after_the_others_and_then_left_out() -> None:
    found = matched(("REMOVE_SUCCESSOR", "ADD_SERIAL"), team=pair())
    assert [one.operation for one in found.applied] == ["ADD_SERIAL", "REMOVE_SUCCESSOR"]
    assert matched(("REMOVE_SUCCESSOR",), team=pair()).left_out == ("REMOVE_SUCCESSOR",)
    assert matched((), team=pair()).workflow == pair()


def test_a_rewrite_adds_an_instruction_or_replaces_one_that_was_drawn() -> None:
    random = Scope().random("texts")
    seen = set()
    for _ in range(40):
        prompt = "Write the answer after Answer:"
        for _ in range(4):
            prompt = add_instruction(prompt, TEXTS, 200, random)
        first, *drawn = prompt.split("\n")
        assert first == "Write the answer after Answer:"
        assert set(drawn) <= set(TEXTS)
        seen.add(len(drawn))
    assert len(seen) > 1
    assert len(add_instruction("You look things up.\nmore " * 5, TEXTS, 60, random)) < 160
    assert add_instruction("x" * 58, TEXTS, 60, random) in TEXTS


def pair() -> Team:
    agents = tuple(Agent(id=name, prompt=f"You are {name}.") for name in ("s", "end"))
    return Team(method="any", agents=agents, topology=make_chain("s", "end"))
