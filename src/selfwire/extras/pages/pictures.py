"""Pictures of methods' rounds and learning, and rounds as versions of the team."""

from collections.abc import Iterable, Mapping
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.evolvers.pictures import DrawnNode, Frame, Panel, Picture
from selfwire.extras.pages.data import AgentCard, Link, TeamVersion
from selfwire.graphs.method import Method, MethodType, find_method

_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError)


def find_drawing_method(name: str) -> MethodType:
    """Find the class of a method; where this process does not have it, `Method` itself, which draws nothing."""
    try:
        return find_method(name)
    except ConfigError:
        return Method


def draw_run(method: str, notes: object) -> Picture:
    """The rounds of a run, as its method draws them; nothing of notes that it cannot read."""
    if not method or not isinstance(notes, dict):
        return Picture()
    try:
        return find_drawing_method(method).draw_run(notes)
    except _UNREADABLE:
        return Picture()


def format_notes(method: str, notes: object) -> tuple[str, ...]:
    """Notes of a method on its run, as it formats them; empty for notes that it cannot read."""
    if not method or not isinstance(notes, dict):
        return ()
    try:
        return tuple(find_drawing_method(method).format_notes(notes))
    except _UNREADABLE:
        return ()


def draw_learning(before: Team, after: Team, notes: Mapping[str, Any]) -> tuple[Panel, ...]:
    """Panels of an iteration's learning, as the method draws them; empty for notes that it cannot read."""
    try:
        return tuple(find_drawing_method(after.method).draw_learning(before, after, notes))
    except _UNREADABLE:
        return ()


def make_round(frame: Frame, number: int, team: Team, known: Iterable[AgentCard]) -> TeamVersion:
    """A frame as a version of the team, without nodes where it has no graph; `known` took steps in it."""
    graph = frame.graph
    drawn = graph.nodes if graph else ()
    nodes = {node.id: node.agent or node.id for node in drawn}
    cards = {card.id: card for card in known}
    agents = {
        name: _fill_card(cards.get(name) or make_card(team, name, unknown="(its prompt is not on record)"), node, team)
        for node in drawn
        for name in [node.agent or node.id]
    }
    return TeamVersion(
        number=number,
        label=frame.label,
        ref="",
        accepted=None,
        why=frame.text,
        tag=frame.tag,
        nodes=nodes,
        names={node.id: node.name for node in drawn if node.name},
        captions={node.id: node.caption for node in drawn if node.caption},
        links=tuple(
            Link(source=edge.source, target=edge.target, traffic=edge.weight)
            for edge in (graph.edges if graph else ())
            if edge.source in nodes and edge.target in nodes and edge.source != edge.target
        ),
        entry=graph.entry if graph and graph.entry in nodes else "",
        sink=graph.sink if graph and graph.sink in nodes else "",
        agents=tuple(agents[name] for name in sorted(agents)),
        panels=frame.panels,
    )


def _fill_card(card: AgentCard, node: DrawnNode, team: Team) -> AgentCard:
    prompt = card.prompt if card.id in team.agents_by_id or not node.prompt else node.prompt
    return card.replace(prompt=prompt, learned={**node.facts, **card.learned})


def make_card(team: Team, name: str, *, unknown: str) -> AgentCard:
    """The card of an agent; `unknown` stands for the prompt of one that the team does not have."""
    known = team.agents_by_id.get(name)
    return AgentCard(
        id=name,
        role=known.role if known else "",
        kind=known.kind if known else "made for this question",
        prompt=known.prompt if known else unknown,
        tools=known.tools if known else (),
    )
