"""Drawings of a topology: Mermaid for pages, text for terminals."""

from selfwire.core.topology import Topology


def to_mermaid(topology: Topology) -> str:
    """A Mermaid flowchart: the entry is rounded, the sink framed, edges with a message of the last round dotted."""
    names = {node: f"n{index}" for index, node in enumerate(topology.order())}
    ends, nodes = {topology.entry: ('(["', '"])'), topology.sink: ('[["', '"]]')}, []
    for node, name in names.items():
        left, right = ends.get(node, ('["', '"]'))
        nodes.append(f"    {name}{left}{_label(topology, node)}{right}")
    edges = [
        f"    {names[edge.source]} {'-.->' if edge in topology.closing_edges else '-->'} {names[edge.target]}"
        for edge in topology.edges
    ]
    return "\n".join(["flowchart TD", *nodes, *edges])


def to_text(topology: Topology) -> str:
    """One line per node, by level, with its successors.

    `search ~> plan` is an edge that delivers its message in the next round.
    """
    width = max(len(_label(topology, node)) for node in topology.agents)
    lines = []
    for depth, level in enumerate(topology.levels()):
        for place, node in enumerate(level):
            margin = f"{depth:>3} " if place == 0 else "    "
            lines.append(f"{margin} {_label(topology, node):<{width}}  {_format_successors(topology, node)}".rstrip())
    return "\n".join(lines)


def _format_successors(topology: Topology, node: str) -> str:
    closing = {edge.target for edge in topology.closing_edges if edge.source == node}
    now = [target for target in topology.successors[node] if target not in closing]
    parts = [f"-> {', '.join(now)}"] if now else []
    parts += [f"~> {', '.join(sorted(closing))}"] if closing else []
    return "  ".join(parts) or ("(answers)" if node == topology.sink else "(leads nowhere)")


def _label(topology: Topology, node: str) -> str:
    agent = topology.agents[node]
    return node if agent == node else f"{node} ({agent})"
