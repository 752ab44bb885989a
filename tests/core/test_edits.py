"""The edit algebra: all or nothing, errors that name the edit, and agreement with a naive model."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.core.agent import MEMORY_NOTES, Agent
from selfwire.core.edits import (
    AddAgent,
    AddEdge,
    AddNode,
    AddTool,
    Edit,
    Grant,
    Remember,
    RemoveAgent,
    RemoveEdge,
    RemoveNode,
    RemoveTool,
    ReplaceAgent,
    Revoke,
    Rewiring,
    RewritePrompt,
    RewriteTool,
    format_edit,
)
from selfwire.core.errors import EditError
from selfwire.core.own_tool import TOOLS, ToolExample, ToolRecord
from selfwire.core.team import Team
from selfwire.core.values import to_canonical_json
from tests.core.generators import SOURCES, Model, make_tool, random_rewiring, seed_team
from tests.samples import sample

SEQUENCES, LENGTH, CHUNKS = 10_000, 3, 10


def check(team: Team, rewiring: Rewiring) -> Team | None:
    before = to_canonical_json(team)
    model = Model.of(team)
    refused = next((edit for edit in rewiring.edits if not model.allows(edit)), None)
    if refused is not None:
        with pytest.raises(EditError) as refusal:
            team.apply(rewiring)
        assert str(refusal.value).startswith(f"{format_edit(refused)}: ")
        assert "Value error" not in str(refusal.value)
    after = None if refused else team.apply(rewiring)
    assert to_canonical_json(team) == before
    if after is None:
        return None
    assert Model.of(after) == model
    assert (after.lineage.parent, after.lineage.rewirings) == (team.fingerprint, (rewiring,))
    return after


@pytest.mark.sweep
@pytest.mark.parametrize("chunk", sample(range(CHUNKS)))
def test_ten_thousand_sequences_leave_a_valid_workflow_or_name_the_edit(chunk: int) -> None:
    rng = random.Random(chunk)
    legal, now = 0, seed_team()
    for sequence in range(SEQUENCES // CHUNKS):
        if sequence % 20 == 0:
            now = seed_team()
        for _ in range(LENGTH):
            after = check(now, random_rewiring(rng, now))
            legal += after is not None
            now = after or now
        assert Team.model_validate_json(now.model_dump_json()) == now
    assert legal / (LENGTH * SEQUENCES // CHUNKS) >= 0.3


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 8))
def test_apply_legal_is_apply_one_by_one_without_the_refused(rng: random.Random, length: int) -> None:
    seed = seed_team()
    rewirings = [random_rewiring(rng, seed) for _ in range(length)]
    after, refused = seed.apply_legal(rewirings)
    applied = after.lineage.rewirings
    assert [r for r in rewirings if r in applied or r in [x.rewiring for x in refused]] == rewirings
    assert len(applied) + len(refused) == length
    again = seed
    for rewiring in applied:
        again = again.apply(rewiring)
    assert again.fingerprint == after.fingerprint
    assert after.lineage.parent == (seed.fingerprint if applied else None)


def test_a_group_is_applied_all_or_not_at_all() -> None:
    seed = seed_team()
    group = Rewiring(AddNode("b", "a"), AddEdge("a", "b"), AddEdge("b", "nowhere"), why="half of it would fit")
    with pytest.raises(EditError, match=r"^AddEdge\(b, nowhere\): .*nodes are a, b, z"):
        seed.apply(group)
    after, (refused,) = seed.apply_legal([group])
    assert after is seed
    assert refused.rewiring == group
    assert refused.reason.startswith("AddEdge(b, nowhere)")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (AddAgent(Agent(id="a", prompt="Again.")), "agent 'a' exists already; choose another id"),
        (RemoveAgent("b"), "there is no agent 'b'; agents are a, z"),
        (RemoveAgent("a"), "agent 'a' is used by node a; remove the nodes first"),
        (ReplaceAgent("a", Agent(id="z", prompt="Twice.")), "agent 'z' exists already; choose another id"),
        (AddNode("a", "a"), "node 'a' appears twice"),
        (AddNode("b", "b"), "there is no agent 'b'; agents are a, z"),
        (RemoveNode("b"), "there is no node 'b'; nodes are a, z"),
        (RemoveNode("a"), "node 'a' is the entry, which cannot be removed; replace its agent instead"),
        (RemoveNode("z"), "node 'z' is the sink, which cannot be removed; replace its agent instead"),
        (AddEdge("a", "a"), "edge a->a is a self-loop"),
        (AddEdge("a", "z"), "edge 'a->z' appears twice"),
        (AddEdge("a", "b"), "edge a->b ends at 'b', which is not a node; nodes are a, z"),
        (RemoveEdge("z", "a"), "there is no edge z->a; 'z' leads to nothing"),
        (RemoveEdge("b", "a"), "there is no node 'b'; nodes are a, z"),
        (RewritePrompt("a", " "), "the new prompt is blank; give the agent a prompt"),
        (RewriteTool("add", SOURCES[0]), "the team has no tool 'add' of its own; its own tools are none"),
        (RemoveTool("add"), "the team has no tool 'add' of its own; its own tools are none"),
        (Grant("b", "search"), "there is no agent 'b'; agents are a, z"),
        (Revoke("a", "search"), "agent 'a' holds no tool 'search'; it holds none"),
        (Remember("a", ""), "the note is blank; write what the agent should remember"),
    ],
    ids=lambda value: format_edit(value) if not isinstance(value, str) else "",
)
def test_a_refusal_names_the_edit_and_the_way_out(edit: Edit, message: str) -> None:
    with pytest.raises(EditError) as refusal:
        seed_team().apply(Rewiring(edit, why="try"))
    assert message in str(refusal.value)
    assert str(refusal.value).startswith(f"{format_edit(edit)}: ")


def test_caps_are_refusals_too() -> None:
    now = seed_team()
    for name in "bcde":
        now = now.apply(Rewiring(AddNode(name, "a"), why="grow"))
    with pytest.raises(EditError, match=r"^AddNode\(f, a\): 7 nodes exceed the cap of 6"):
        now.apply(Rewiring(AddNode("f", "a"), why="grow"))
    now = now.apply(Rewiring(AddEdge("a", "b"), AddEdge("a", "c"), why="fan out"))
    with pytest.raises(EditError, match=r"AddEdge\(a, d\): .*node 'a' has 4 successors; the cap is 3"):
        now.apply(Rewiring(AddEdge("a", "d"), why="fan out"))


def test_the_oldest_note_goes_first() -> None:
    now = seed_team()
    for number in range(MEMORY_NOTES + 2):
        now = now.apply(Rewiring(Remember("a", f"note {number}"), why="learn"))
    assert now.agents_by_id["a"].memory == tuple(f"note {n}" for n in range(2, MEMORY_NOTES + 2))


def test_a_replaced_agent_leaves_its_nodes_and_edges() -> None:
    seed = seed_team()
    after = seed.apply(Rewiring(ReplaceAgent("a", Agent(id="b", prompt="Better.")), why="swap"))
    assert after.topology.edges == seed.topology.edges
    assert (after.agent_at("a").id, "a" in after.agents_by_id) == ("b", False)


def test_a_rewiring_needs_an_edit() -> None:
    with pytest.raises(ValueError, match="Rewiring: edits: Field required"):
        Rewiring(why="nothing")


def test_a_long_prompt_is_cut_in_messages() -> None:
    assert len(format_edit(RewritePrompt("a", "x" * 500))) < 80
    assert format_edit(RewritePrompt("a", "two\n  lines")) == "RewritePrompt(a, two lines)"


def test_a_tool_is_added_granted_rewritten_revoked_and_removed() -> None:
    tool = make_tool(examples=(ToolExample(arguments={"n": 1}, result="2"),), record=ToolRecord(calls=3, failures=1))
    held = seed_team().apply(Rewiring(AddTool(tool), Grant("a", "add"), why="a sum is needed"))
    assert (held.tools, held.agents_by_id["a"].tools) == ((tool,), ("add",))
    rewritten = held.apply(Rewiring(RewriteTool("add", SOURCES[2]), why="one too few", by="a"))
    [now] = rewritten.tools
    assert (now.version, now.by, now.why, now.record) == (2, "a", "one too few", ToolRecord())
    assert (now.source, now.examples, now.description) == (SOURCES[2], tool.examples, tool.description)
    with pytest.raises(EditError, match=r"RemoveTool\(add\): tool 'add' is held by a; revoke it first"):
        rewritten.apply(Rewiring(RemoveTool("add"), why="unused"))
    gone = rewritten.apply(Rewiring(Revoke("a", "add"), RemoveTool("add"), why="unused"))
    assert gone.fingerprint == seed_team().fingerprint


def test_refusals_of_tools_name_the_line_and_the_bounds() -> None:
    held = seed_team().apply(Rewiring(AddTool(make_tool()), Grant("a", "add"), why="try"))
    for edit, message in (
        (AddTool(make_tool()), "tool 'add' exists already; rewrite it, or choose another name"),
        (Grant("a", "add"), "agent 'a' holds tool 'add' already"),
        (RewriteTool("add", SOURCES[1]), "tool 'add' stays as it is; change its source, description or examples"),
        (
            RewriteTool("add", "def tool_function(n: int):\n    return eval('n')"),
            "line 2: the name 'eval' is not allowed",
        ),
        (RewriteTool("add", SOURCES[2], examples=(ToolExample(result="1"),)), "an example of tool 'add' lacks n"),
        (
            RewriteTool("add", SOURCES[2], examples=(ToolExample(arguments={"n": 1, "m": 2}, result="1"),)),
            "an example of tool 'add' has m, which it does not take",
        ),
    ):
        with pytest.raises(EditError) as refusal:
            held.apply(Rewiring(edit, why="try"))
        assert message in str(refusal.value)
    for number in range(1, TOOLS):
        held = held.apply(Rewiring(AddTool(make_tool(f"add-{number}")), why="grow"))
    with pytest.raises(EditError, match=f"the team has {TOOLS} tools, the most that it may have; remove one first"):
        held.apply(Rewiring(AddTool(make_tool("more")), why="grow"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([1], r"arguments must be a JSON object, not \(1,\)"),
        ({"n": "x" * 4_000}, "the arguments have 4,008 characters; at most 4,000 are allowed"),
    ],
    ids=["a list", "too long"],
)
def test_arguments_of_an_example_are_an_object_of_a_bounded_length(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ToolExample(arguments=arguments, result="1")


def test_edits_of_tools_are_short_in_messages() -> None:
    assert format_edit(AddTool(make_tool())) == "AddTool(add)"
    assert format_edit(RewriteTool("add", "x = 1")) == "RewriteTool(add, x = 1)"
    assert (
        format_edit(RewriteTool("add", "x = 1", "d", (ToolExample(result="1"),)))
        == "RewriteTool(add, x = 1, d, 1 example)"
    )
