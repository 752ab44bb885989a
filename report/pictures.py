"""What methods show of their rounds and of what they learned, and rounds as versions of the team."""

from collections.abc import Iterable, Mapping
from typing import Any

from selfwire.core.pictures import Frame, Graph, Panel, Picture
from selfwire.core.workflow import Workflow
from selfwire.graphs.method_registry import describe_method
from selfwire.report.data import AgentCard, Link, TeamVersion

_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError)


def draw_run(method: str, notes: object) -> Picture:
    """The rounds of a run, as its method draws them; nothing of notes that it cannot read."""
    if not method or not isinstance(notes, dict):
        return Picture()
    try:
        return describe_method(method).draw_run(notes)
    except _UNREADABLE:
        return Picture()


def draw_learning(before: Workflow, after: Workflow, notes: Mapping[str, Any]) -> tuple[Panel, ...]:
    """What an iteration taught, as the method draws it; nothing of what it cannot read."""
    try:
        return tuple(describe_method(after.method).draw_learning(before, after, notes))
    except _UNREADABLE:
        return ()


def make_round(frame: Frame, number: int, graph: Graph, team: Workflow, known: Iterable[AgentCard]) -> TeamVersion:
    """A frame with a graph as a version of the team; `known` are the agents that took steps in it."""
    cards = {card.id: card for card in known}
    nodes = {node.id: node.agent or node.id for node in graph.nodes}
    agents = {}
    for node in graph.nodes:
        name = node.agent or node.id
        card = cards.get(name) or _make_card(team, name, node.prompt)
        prompt = card.prompt if name in team.agents_by_id else node.prompt or card.prompt
        agents[name] = card.replace(prompt=prompt, learned={**node.facts, **card.learned})
    return TeamVersion(
        number=number,
        label=frame.label,
        ref="",
        accepted=None,
        why=frame.text,
        tag=frame.tag,
        nodes=nodes,
        names={node.id: node.name for node in graph.nodes if node.name},
        captions={node.id: node.caption for node in graph.nodes if node.caption},
        links=tuple(
            Link(source=edge.source, target=edge.target, traffic=edge.weight)
            for edge in graph.edges
            if edge.source in nodes and edge.target in nodes and edge.source != edge.target
        ),
        entry=graph.entry if graph.entry in nodes else "",
        sink=graph.sink if graph.sink in nodes else "",
        agents=tuple(agents[name] for name in sorted(agents)),
        panels=frame.panels,
    )


def _make_card(team: Workflow, name: str, prompt: str) -> AgentCard:
    known = team.agents_by_id.get(name)
    return AgentCard(
        id=name,
        role=known.role if known else "",
        kind=known.kind if known else "made for this question",
        prompt=known.prompt if known else prompt or "(its prompt is not on record)",
        tools=known.tools if known else (),
    )
