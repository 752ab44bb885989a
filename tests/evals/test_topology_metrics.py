"""Topology measures: the hand-worked numbers, windows, phases, and trajectories of any shape."""

import math
from collections.abc import Sequence
from itertools import pairwise, permutations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.task import Feedback, Question
from selfwire.core.trajectory import Message, Step, Trajectory
from selfwire.core.usage import Usage
from selfwire.evals.topology_metrics import (
    MOST_CYCLES,
    PHASES,
    build_metrics_table,
    compute_metrics,
    compute_run_metrics,
    diameter,
    entropy,
    list_transitions,
)


def trajectory(
    path: str, *, question: str = "q", kind: str = "", score: float | None = None, f1: float | None = None,
    sample: int = 0,
) -> Trajectory:  # fmt: skip
    """A chain of nodes, one per letter, each of the agent of that letter."""
    nodes = [f"{agent}{place}" for place, agent in enumerate(path)]
    ahead = dict(pairwise(nodes))
    steps = tuple(
        Step(
            node=node,
            agent=agent,
            output="x",
            sent=(Message(source=node, target=ahead[node], text="x"),) if node in ahead else (),
            usage=Usage(calls=1, input_tokens=10),
        )
        for node, agent in zip(nodes, path, strict=True)
    )
    details = {} if f1 is None else {"f1": f1}
    feedback = None if score is None else Feedback(score=score, solved=score == 1, text="", details=details)
    asked = Question(id=question, input="?", kind=kind)
    return Trajectory(question=asked, workflow="w", steps=steps, answer="x", feedback=feedback, sample=sample)


def network(edges: Sequence[tuple[str, str]]) -> Trajectory:
    """Agents who write to each other along the edges, a node each."""
    names = sorted({name for edge in edges for name in edge})
    steps = tuple(
        Step(node=name, agent=name, sent=tuple(Message(source=a, target=b, text="") for a, b in edges if a == name))
        for name in names
    )
    return Trajectory(question=Question(id="q", input="?"), workflow="w", steps=steps)


def test_transition_entropy_by_hand() -> None:
    pairs = [("A", "B"), ("A", "B"), ("B", "C"), ("B", "D")]
    assert entropy(pairs) == pytest.approx(1.039721, abs=1e-6)
    assert entropy(pairs[:2]) == 0
    assert entropy([]) is None


def test_a_path_that_returns_by_hand() -> None:
    found = compute_metrics(trajectory("ABAC", score=0.6))
    assert (found.agents, found.steps, found.cycles, found.self_loops, found.diameter) == (3, 4, 1, 0, 2)
    assert found.efficiency == pytest.approx(0.2)
    assert found.tokens == 40
    assert found.transitions == (("A", "B"), ("B", "A"), ("A", "C"))


def test_an_agent_that_hands_on_to_itself_is_a_self_loop_and_no_cycle() -> None:
    found = compute_metrics(trajectory("AAAB"))
    assert (found.self_loops, found.cycles, found.agents, found.diameter) == (2, 0, 2, 1)


def test_the_environments_f1_counts_before_its_score_and_errors_count_for_neither() -> None:
    assert compute_metrics(trajectory("AB", score=1.0, f1=0.5)).efficiency == 0.25
    assert compute_metrics(trajectory("AB")).efficiency is None
    failed = trajectory("AB", score=1.0).as_failed("no model")
    assert compute_run_metrics([failed, trajectory("AB", question="r", score=0.5)]).whole.f1 == 0.5


def test_a_run_without_steps_or_messages_has_measures() -> None:
    empty = Trajectory(question=Question(id="q", input="?"), workflow="w", error="nobody acted")
    found = compute_metrics(empty)
    assert (found.agents, found.diameter, found.cycles, found.efficiency) == (0, 0, 0, None)
    assert compute_run_metrics([empty]).whole.entropy is None
    nothing = compute_run_metrics([])
    assert (nothing.entropies, nothing.phases, nothing.kinds, nothing.whole.queries) == ((), (), (), 0)
    assert build_metrics_table(nothing).rows == (("all", "0", *"--------"),)


def test_messages_to_nodes_that_never_acted_are_left_out() -> None:
    lost = Step(node="a0", agent="A", sent=(Message(source="a0", target="gone", text="x"),))
    assert list_transitions(Trajectory(question=Question(id="q", input="?"), workflow="w", steps=(lost,))) == ()


def test_the_window_slides_over_queries_and_not_over_samples() -> None:
    """Two queries of two samples each, then a third: windows of two end at the second and the third."""
    paths = [("q1", "AB", 0), ("q1", "AB", 1), ("q2", "BC", 0), ("q2", "BC", 1), ("q3", "BC", 0)]
    found = compute_run_metrics(
        [trajectory(path, question=question, sample=n) for question, path, n in paths], window=2
    )
    two_and_two = math.log(2)
    assert found.entropies == pytest.approx([two_and_two, 0.0])
    assert (found.whole.queries, found.whole.trajectories) == (3, 5)


def test_a_question_that_is_put_again_is_another_query() -> None:
    """One train task, or a task that ends one pass and opens the next."""
    found = compute_run_metrics([trajectory("AB", sample=n) for n in (0, 1, 0, 1, 0)], window=2)
    assert (found.whole.queries, found.whole.trajectories, len(found.entropies)) == (3, 5, 2)


def test_without_a_full_window_all_transitions_count() -> None:
    found = compute_run_metrics([trajectory("AB"), trajectory("BC", question="r")])
    assert found.entropies == pytest.approx([math.log(2)])
    assert [phase.entropy for phase in found.phases] == [0.0, 0.0]


def test_phases_are_quarters_of_training() -> None:
    paths = ["AB"] * 20 + ["AB", "BC"] * 10 + ["CD"] * 40
    found = compute_run_metrics([trajectory(path, question=f"q{n}") for n, path in enumerate(paths)])
    assert [phase.name for phase in found.phases] == list(PHASES)
    assert [phase.queries for phase in found.phases] == [20, 20, 20, 20]
    assert len(found.entropies) == 61
    first, second, third, last = (phase.entropy or 0.0 for phase in found.phases)
    assert first == 0 == last  # one full window ends in the first quarter, and all of the last are alike
    assert second > 0 < third


def test_phases_are_compared_by_windows_or_not_at_all() -> None:
    """Of 40 queries only the last two quarters end a window of 20: all four count their own transitions instead."""
    paths = ["AB"] * 30 + ["AB", "BC"] * 5
    found = compute_run_metrics([trajectory(path, question=f"q{n}") for n, path in enumerate(paths)])
    assert [phase.entropy for phase in found.phases] == pytest.approx([0, 0, 0, math.log(2)])


def test_kinds_come_from_the_profile_and_else_from_the_benchmark() -> None:
    bridge = trajectory("AB", question="a", kind="bridge", score=1.0)
    profiled = trajectory("ABC", question="b", kind="bridge").replace(
        notes={"profile": {"type": "temporal", "difficulty": "hard", "summary": "two dates"}}
    )
    found = compute_run_metrics([bridge, profiled, trajectory("A", question="c")])
    assert [kind.name for kind in found.kinds] == ["any", "bridge", "temporal, hard"]
    assert [kind.agents for kind in found.kinds] == [1, 2, 3]


def test_each_quarter_of_training_is_told_by_sort_of_question() -> None:
    asked = [("bridge", 1.0), ("single", 0.0), ("bridge", 0.0), ("bridge", 1.0), ("single", 1.0), ("single", 0.0)]
    found = compute_run_metrics(
        [trajectory("AB", question=f"q{n}", kind=kind, score=score) for n, (kind, score) in enumerate(asked)]
    )
    assert [(row.name.split(", ")[1], row.queries, row.f1) for row in found.crossed] == [
        ("bridge", 1, 1.0), ("bridge", 1, 0.0), ("single", 1, 0.0), ("bridge", 1, 1.0), ("single", 2, 0.5),
    ]  # fmt: skip
    assert [row.name for row in found.crossed][1:3] == [f"{PHASES[1]}, bridge", f"{PHASES[1]}, single"]
    assert [row[0] for row in build_metrics_table(found, crossed=True).rows] == [row.name for row in found.crossed]
    assert sum(row.queries for row in found.crossed) == found.whole.queries


def test_everybody_writing_to_everybody_ends() -> None:
    found = compute_metrics(network(list(permutations("abcdefghijklmnopqrst", 2))))
    assert (found.agents, found.cycles, found.diameter) == (20, MOST_CYCLES, 1)


@given(st.lists(st.tuples(st.sampled_from("ABCDE"), st.sampled_from("ABCDE")), max_size=14))
def test_measures_agree_with_their_definitions(edges: list[tuple[str, str]]) -> None:
    found = compute_metrics(network(edges))
    graph = nx.DiGraph([(a, b) for a, b in edges if a != b])
    assert found.cycles == sum(_is_cycle(graph, path) for size in range(2, 6) for path in permutations("ABCDE", size))
    assert found.self_loops == sum(a == b for a, b in edges)
    assert found.diameter == diameter(graph) <= max(found.agents - 1, 0)
    value = entropy(found.transitions)
    assert value is None if not edges else -1e-12 <= (value or 0.0) <= math.log(len(set(edges))) + 1e-12


def _is_cycle(graph: "nx.DiGraph[str]", path: tuple[str, ...]) -> bool:
    starts_smallest = path[0] == min(path)
    return starts_smallest and all(graph.has_edge(a, b) for a, b in pairwise((*path, path[0])))


def test_the_table_has_a_row_per_phase_and_kind() -> None:
    found = compute_run_metrics([trajectory("AB", question=f"q{n}", kind="bridge", score=1.0) for n in range(4)])
    told = build_metrics_table(found)
    assert [row[0] for row in told.rows] == [*PHASES, "bridge", "all"]
    assert told.rows[-1] == ("all", "4", "0.000", "2.000", "0.500", "0.000", "0.000", "1.000", "1.000", "20")
    assert "windows of 20 queries" in told.notes[0]


def test_a_window_has_at_least_one_query() -> None:
    with pytest.raises(ValueError, match="at least 1 query"):
        compute_run_metrics([], window=0)
