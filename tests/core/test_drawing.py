"""Drawings of topologies."""

import pytest

from selfwire.core.topology import Edge, Node, Topology, make_chain, to_mermaid, to_text

LOOPED = Topology(
    nodes=tuple(Node(id=i, agent=a) for i, a in {"ask": "ask", "end": "end", "b-1": "worker", "b_1": "worker"}.items()),
    edges=tuple(
        Edge(source=a, target=b)
        for a, b in [("ask", "b-1"), ("ask", "b_1"), ("b-1", "end"), ("b_1", "b-1"), ("b-1", "b_1"), ("ask", "end")]
    ),
    entry="ask",
    sink="end",
)


def test_mermaid_marks_entry_sink_and_closing_edges() -> None:
    assert to_mermaid(LOOPED).splitlines() == [
        "flowchart TD",
        '    n0(["ask"])',
        '    n1["b-1 (worker)"]',
        '    n2["b_1 (worker)"]',
        '    n3[["end"]]',
        "    n0 --> n1",
        "    n0 --> n2",
        "    n0 --> n3",
        "    n1 --> n2",
        "    n1 --> n3",
        "    n2 -.-> n1",
    ]


def test_text_tells_levels_and_what_waits_a_round() -> None:
    assert to_text(LOOPED).splitlines() == [
        "  0  ask           -> b-1, b_1, end",
        "  1  b-1 (worker)  -> b_1, end",
        "  2  b_1 (worker)  ~> b-1",
        "  3  end           (answers)",
    ]


def test_a_node_that_leads_nowhere_says_so() -> None:
    loose = make_chain("a", "z").replace(nodes=tuple(Node(id=i, agent=i) for i in "abz"))
    assert "b  (leads nowhere)" in to_text(loose)


@pytest.mark.parametrize("draw", [to_mermaid, to_text])
def test_a_singleton_can_be_drawn(draw: object) -> None:
    assert "alone" in draw(make_chain("alone"))  # type: ignore[operator]
