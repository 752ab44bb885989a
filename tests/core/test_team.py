"""Teams as values: fingerprints, JSON round trips, frozenness, differences."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from selfwire.core.agent import Agent
from selfwire.core.edits import (
    AddAgent,
    AddEdge,
    AddNode,
    AddTool,
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
)
from selfwire.core.own_tool import ToolExample, ToolRecord
from selfwire.core.task import Feedback, Question, Task
from selfwire.core.team import Lineage, Team, diff_teams
from selfwire.core.topology import TopologyLimits, make_chain
from selfwire.core.trajectory import Message, Routing, Step, ToolUse, Trajectory
from selfwire.core.usage import Budget, Usage
from selfwire.core.values import FrozenModel, fingerprint, to_canonical_json
from tests.core.generators import SOURCES, make_tool, random_rewiring, seed_team

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e300, 1e300) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def evolved(rng: random.Random) -> Team:
    now, _ = seed_team().apply_legal([random_rewiring(rng, seed_team()) for _ in range(6)])
    return now


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False), st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_a_workflow_survives_json(rng: random.Random, memory: dict[str, Any]) -> None:
    team = evolved(rng).with_memory(**{f"m{i}": value for i, value in enumerate(memory.values())})
    again = Team.model_validate_json(team.model_dump_json())
    assert (again, again.fingerprint) == (team, team.fingerprint)
    assert Team(**json.loads(to_canonical_json(team))) == team


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False))
def test_equal_content_has_equal_fingerprint_in_any_order(rng: random.Random) -> None:
    team = evolved(rng)
    agents, nodes, edges = (list(x) for x in (team.agents, team.topology.nodes, team.topology.edges))
    for part in (agents, nodes, edges):
        rng.shuffle(part)
    memory = dict(reversed(team.memory.items()))
    topology = team.topology.replace(nodes=tuple(nodes), edges=tuple(edges))
    again = Team(method=team.method, agents=tuple(agents), topology=topology, memory=memory)
    again = again.replace(tools=rng.sample(team.tools, len(team.tools)))
    assert again.fingerprint == team.fingerprint


@settings(max_examples=200, deadline=None)
@given(json_values, json_values)
def test_fingerprints_are_equal_exactly_for_equal_json(one: Any, other: Any) -> None:
    equal = to_canonical_json(one) == to_canonical_json(other)
    assert (fingerprint(one) == fingerprint(other)) == equal
    assert to_canonical_json(json.loads(to_canonical_json(one))) == to_canonical_json(one)


SEED = seed_team()
A = SEED.agents_by_id["a"]


@pytest.mark.parametrize(
    "other",
    [
        SEED.replace(method="dytopo"),
        SEED.replace(agents=(*SEED.agents, Agent(id="b", prompt=""))),
        *(
            SEED.replace(agents=(A.replace(**{field: value}), SEED.agents_by_id["z"]))
            for field, value in {
                "role": "r",
                "prompt": "p",
                "tools": ("search",),
                "memory": ("n",),
                "kind": "judge",
                "temperature": 0.5,
                "model": "cheap",
            }.items()
        ),
        SEED.replace(topology=SEED.topology.replace(edges=())),
        SEED.replace(topology=SEED.topology.replace(entry="z")),
        SEED.replace(topology=SEED.topology.replace(sink="a")),
        SEED.replace(topology=SEED.topology.replace(caps=TopologyLimits(nodes=7, successors=3))),
        SEED.replace(tools=(make_tool(),)),
        SEED.with_memory(beliefs={"a": [1, 2]}),
        SEED.with_memory(synergy=None),
    ],
)
def test_every_field_but_lineage_is_in_the_fingerprint(other: Team) -> None:
    assert other != SEED
    assert other.fingerprint != SEED.fingerprint


def test_the_table_above_forgets_no_field() -> None:
    assert set(Team.model_fields) == {"method", "agents", "topology", "tools", "memory", "lineage"}
    assert set(Agent.model_fields) == {"id", "role", "prompt", "tools", "memory", "kind", "temperature", "model"}


def test_lineage_is_not_in_the_fingerprint() -> None:
    child = SEED.replace(lineage=Lineage(parent="0" * 16))
    assert child != SEED
    assert child.fingerprint == SEED.fingerprint


def test_a_whole_float_and_its_integer_are_the_same_content() -> None:
    assert SEED.with_memory(beliefs={"a": [1.0, 1.0]}) == SEED
    assert SEED.with_memory(beliefs={"a": [1.0, 1.0]}).fingerprint == SEED.fingerprint


def test_fingerprints_are_equal_across_processes() -> None:
    code = (
        "from selfwire.core.team import Team; import sys;print(Team.model_validate_json(sys.stdin.read()).fingerprint)"
    )
    team = evolved(random.Random(1)).with_memory(**{name: {name: 0.1} for name in "zyxw"})
    prints = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=team.model_dump_json(),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert prints == {team.fingerprint}


def test_the_fingerprint_of_the_seed_does_not_drift() -> None:
    assert make_chain("a", "b").fingerprint == fingerprint(
        {
            "nodes": [{"id": "a", "agent": "a"}, {"id": "b", "agent": "b"}],
            "edges": [{"source": "a", "target": "b"}],
            "entry": "a",
            "sink": "b",
            "caps": {"nodes": 1000, "successors": 1000},
        }
    )


EVERY_EDIT = Rewiring(
    AddAgent(Agent(id="b", prompt="p", tools=("search",), temperature=0.5)),
    RemoveAgent("b"),
    ReplaceAgent("a", Agent(id="c", prompt="q")),
    AddNode("n", "a"),
    RemoveNode("n"),
    AddEdge("a", "n"),
    RemoveEdge("a", "n"),
    RewritePrompt("a", "${x} \u2192 ü"),
    AddTool(
        make_tool(examples=(ToolExample(arguments={"n": 1}, result="2"),), record=ToolRecord(calls=1, seconds=0.5))
    ),
    RewriteTool("add", SOURCES[0], "Adds nothing.", (ToolExample(arguments={"n": 1}, result="1"),)),
    RemoveTool("add"),
    Grant("a", "python"),
    Revoke("a", "python"),
    Remember("a", "note"),
    why="all of them",
    operation="ADD_SERIAL",
    by="a",
)

TRAJECTORY = Trajectory(
    question=Question(id="q1", input="Who?", kind="bridge"),
    workflow=SEED.fingerprint,
    steps=(
        Step(
            node="a",
            agent="a",
            inbox=(Message(source="z", target="a", text="go"),),
            output="Ada",
            tools=(ToolUse(name="search", arguments={"query": "x", "k": [1, 2.5]}, result="none", error=True),),
            routing=Routing(chosen=("z",), scores={"z": 0.25}, why="all"),
            sent=(Message(source="a", target="z", text="Ada"),),
            usage=Usage(calls=2, input_tokens=10, output_tokens=5, dollars=0.01, seconds=0.5),
            skills=("search",),
        ),
        Step(node="z", agent="z", error="timed out", usage=Usage(calls=1, dollars=None)),
    ),
    answer="Ada",
    feedback=Feedback(score=0.5, solved=False, text="partly", details={"f1": 0.5}),
)


@pytest.mark.parametrize(
    "value",
    [EVERY_EDIT, TRAJECTORY, Task(id="t", input="?", reference={"answer": ["a", 1, None]}, entities=("e",)), SEED],
    ids=lambda value: type(value).__name__,
)
def test_values_survive_json_and_are_frozen(value: FrozenModel) -> None:
    again = type(value).model_validate_json(value.model_dump_json())
    assert again == value
    assert hash(again) == hash(value)
    field = next(iter(type(value).model_fields))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(value, field, getattr(value, field))
    with pytest.raises(ValidationError, match=r"Extra inputs|there is no such field"):
        type(value).model_validate({**value.model_dump(), "colour": "red"})


def test_every_kind_of_edit_is_in_the_round_trip() -> None:
    assert len({type(edit) for edit in EVERY_EDIT.edits}) == len(EVERY_EDIT.edits) == 14


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.__setitem__("beliefs", 1),
        lambda m: m["beliefs"].update(a=2),
        lambda m: m.pop("beliefs"),
        lambda m: m.clear(),
        lambda m: m.__ior__({"b": 1}),
        lambda m: m["beliefs"]["a"].append(3),
    ],
)
def test_memory_cannot_be_changed_in_place(change: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        change(SEED.memory)
    assert SEED.memory == {"beliefs": {"a": (1, 1)}}


def test_memory_does_not_share_what_it_was_built_from() -> None:
    beliefs = {"a": [1, 1]}
    team = SEED.with_memory(beliefs=beliefs)
    beliefs["a"].append(5)
    assert team.memory["beliefs"]["a"] == (1, 1)


@pytest.mark.parametrize("memory", [{"a": float("nan")}, {"a": float("inf")}, {"a": {1}}, {1: "a"}, [1], {"a": SEED}])
def test_memory_is_finite_json_by_name(memory: Any) -> None:
    with pytest.raises(ValueError, match=r"memory"):
        SEED.replace(memory=memory)


def test_a_node_needs_its_agent_and_agents_are_unique() -> None:
    with pytest.raises(ValueError, match="node 'z' needs agent 'z'; agents are a"):
        SEED.replace(agents=(A,))
    with pytest.raises(ValueError, match="agent 'a' appears twice"):
        SEED.replace(agents=(*SEED.agents, A))


def test_a_trajectory_sums_its_steps_and_an_error_takes_the_feedback() -> None:
    assert TRAJECTORY.usage == Usage(calls=3, input_tokens=10, output_tokens=5, dollars=None, seconds=0.5)
    assert TRAJECTORY.edges == (("a", "z"),)
    failed = TRAJECTORY.as_failed("the judge was down")
    assert (failed.error, failed.feedback) == ("the judge was down", None)
    feedback = Feedback(score=1, solved=True, text="right")
    assert TRAJECTORY.with_feedback(feedback).feedback == feedback


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_score_is_between_zero_and_one(score: float) -> None:
    with pytest.raises(ValueError, match="score"):
        Feedback(score=score, solved=False, text="")


def test_a_question_has_no_reference() -> None:
    task = Task(id="t", input="?", reference="42", entities=("life",))
    assert "42" not in task.question.model_dump_json()


def test_changes_tell_agents_that_came_went_and_changed() -> None:
    after = SEED.apply(
        Rewiring(ReplaceAgent("a", Agent(id="b", prompt="Other.")), RewritePrompt("z", "Finish."), why="try")
    ).replace(method="dytopo")
    found = diff_teams(SEED, after)
    assert (found.added_agents, found.removed_agents) == (("b",), ("a",))
    assert [(c.agent, c.field, c.before, c.after) for c in found.agents] == [("z", "prompt", "Answer.", "Finish.")]
    assert [node.agent for node in found.topology.added_nodes] == ["b"]
    assert (found.method, found.entry, found.memory) == (("hiva", "dytopo"), None, ())
    assert not diff_teams(SEED, SEED.replace(lineage=Lineage(parent="f" * 16)))


def test_a_workflow_without_tools_keeps_the_fingerprint_that_it_had_before_there_were_any() -> None:
    """Stored by 0.1.0, so that saved teams are found again."""
    assert seed_team().fingerprint == "1abbd68f46f677cb"


def test_tools_are_part_of_the_fingerprint_and_their_records_are_not() -> None:
    held = SEED.replace(tools=(make_tool("b"), make_tool("a")))
    assert [tool.name for tool in held.tools] == ["a", "b"]
    called = held.replace(tools=[tool.replace(record=ToolRecord(calls=2, seconds=1)) for tool in held.tools])
    assert len({SEED.fingerprint, held.fingerprint, held.replace(tools=held.tools[:1]).fingerprint}) == 3
    assert called.fingerprint == held.fingerprint
    assert not diff_teams(held, called)
    assert Team.model_validate_json(called.model_dump_json()) == called
    with pytest.raises(ValueError, match="tool 'a' appears twice"):
        held.replace(tools=(*held.tools, make_tool("a")))


def test_a_diff_tells_tools_that_came_went_and_were_rewritten() -> None:
    before = SEED.replace(tools=(make_tool("a"), make_tool("b")))
    better = Rewiring(
        RemoveTool("a"),
        RewriteTool("b", SOURCES[2]),
        AddTool(make_tool("c")),
        Grant("z", "c"),
        why="better",
        by="z",
    )
    found = diff_teams(before, before.apply(better))
    assert (found.added_tools, found.removed_tools) == (("c",), ("a",))
    assert {change.field: (change.before, change.after) for change in found.tools} == {
        "source": (SOURCES[1], SOURCES[2]),
        "version": (1, 2),
        "by": ("", "z"),
        "why": ("", "better"),
    }
    assert [(change.agent, change.field, change.after) for change in found.agents] == [("z", "tools", ("c",))]


def test_a_record_gives_latency_and_success_rate() -> None:
    record = ToolRecord(calls=3, failures=1, seconds=0.5) + ToolRecord(calls=1, seconds=0.5)
    assert (record.latency, record.success_rate) == (0.25, 0.75)
    assert (ToolRecord().latency, ToolRecord().success_rate) == (None, None)
    with pytest.raises(ValueError, match="2 failures are more than 1 calls"):
        ToolRecord(calls=1, failures=2)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Task(), "Task: id: Field required; input: Field required; its fields are id, input, kind, reference"),  # type: ignore[call-arg]
        (lambda: Agent(id="a b", prompt="x"), "Agent: id: it must have up to 64 letters, digits, _ and -, and begin"),
        (lambda: Agent(id="a", promt="x"), "promt: there is no such field; its fields are id, "),  # type: ignore[call-arg]
        (lambda: Agent(id="a", prompt="x", tools="t"), "tools: Input should be a list or a tuple, not 't'"),
        (lambda: Budget(calls=-1), "Budget: calls: Input should be greater than or equal to 0, not -1"),
        (lambda: Team(method="hiva", agents=["a"], topology=None), "agents.0: Input should be a valid dictionary or"),
        (lambda: Team(method="hiva", agents=[{}] * 50, topology=None), "agents.2.id: Field required; and 96 more; its"),
        (lambda: SEED.replace(agnts=()), "Team: agnts: there is no such field; its fields are method, agents,"),
    ],
)
def test_a_wrong_value_names_its_fields_in_a_sentence(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ValueError) as error:
        make()
    assert told in str(error.value)
    assert "pydantic" not in str(error.value)
    assert "\n" not in str(error.value)
