"""The rounds of a TacoMAS run as a picture: what agents were worth, what the judge found, how the team changed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, ReplaceAgent, format_edit
from selfwire.core.pictures import DrawnEdge, DrawnNode, Entry, Frame, Graph, Look, Panel, Picture, Table, TextList
from selfwire.core.topology import Topology
from selfwire.core.values import format_count
from selfwire.evolvers.tacomas.judge import Item, to_goal
from selfwire.evolvers.tacomas.rounds import Figures, Round
from selfwire.evolvers.trace_text import shorten

ANSWER_LENGTH = 300
_ENDS = {
    "threshold": "the judge's score reached the threshold twice",
    "rounds": "no round was left",
    "stop": "the meta-model stopped it",
    "failure": "the judge or the meta-model failed",
    "stopped": "a budget or an outage stopped it",
}

_LOOKS: Mapping[str, Look] = {
    "BIRTH": "new",
    "REPLACE": "new",
    "JOIN": "new",
    "EDGE_ADD": "new",
    "DEATH": "gone",
    "EDGE_REMOVE": "gone",
    "UNDO_BIRTH": "gone",
}


def draw_run(notes: Mapping[str, Any]) -> Picture:
    """A frame per round; weights, contributions and the judge's scores over all rounds."""
    rounds = [Round.model_validate(one) for one in notes.get("rounds", ())]
    if not rounds:
        return Picture()
    items = [Item.model_validate(one) for one in notes.get("checklist", ())]
    figures = Figures.model_validate(notes["figures"]) if notes.get("figures") else None
    threshold = notes.get("threshold")
    frames: list[Frame] = []
    newborns: dict[str, Agent] = {}
    for one in rounds:
        frames.append(_draw_round(one, items, figures, threshold, newborns))
        newborns |= {agent.id: agent for agent in _find_newborns(one)}  # an id may be that of one who died before
    return Picture(frames=tuple(frames), panels=_draw_course(rounds, threshold))


def _draw_course(rounds: Sequence[Round], threshold: float | None) -> tuple[Panel, ...]:
    columns = ("", *(f"round {one.number + 1}" for one in rounds))
    names = list(dict.fromkeys(name for one in rounds for name in _list_agents(one)))
    scored = [{found.agent: found.score for found in one.contributions} for one in rounds]
    after = "The last round has none, as nobody would use them."
    return (
        Table(
            title="The judge's score",
            note="Share of the checklist that an answer passes; the line is the threshold that ends a run.",
            columns=columns,
            rows=(("score", *(one.score for one in rounds)),),
            mark=threshold,
            by_frame=True,
        ),
        Table(
            title="Contribution of each agent",
            note=f"The judge's c, from 0 to 1. {after}",
            columns=columns,
            rows=tuple((name, *(found.get(name) for found in scored)) for name in names),
            by_frame=True,
        ),
        Table(
            title="Weight of each agent after each round",
            note="Who is read first and at greater length in the next round; empty where the agent was not there.",
            columns=columns,
            rows=tuple((name, *(one.weights.get(name) for one in rounds)) for name in names),
            largest=max([0.5, *(weight for one in rounds for weight in one.weights.values())]),
            by_frame=True,
        ),
    )


def _list_agents(one: Round) -> list[str]:
    return sorted({*(node.agent for node in one.topology.nodes)} if one.topology else one.weights)


def _draw_round(
    one: Round,
    items: Sequence[Item],
    figures: Figures | None,
    threshold: float | None,
    newborns: Mapping[str, Agent],
) -> Frame:
    panels = [_draw_verdicts(one, items, threshold), _draw_agents(one), _draw_changes(one), _draw_coaching(one)]
    return Frame(
        label=f"Round {one.number + 1}",
        text="\n".join(_describe(one, figures)),
        tag="" if one.score is None else f"judge {one.score:.2f}",
        graph=_draw_graph(one, newborns) if one.topology else None,
        panels=tuple(panel for panel in panels if panel is not None),
    )


def _describe(one: Round, figures: Figures | None) -> Iterator[str]:
    yield f"Goal: {one.goal.replace('.; ', '; ')}"
    if one.answer is not None:
        yield f"Answer: {shorten(' '.join(one.answer.split()), ANSWER_LENGTH)}"
    if one.error:
        yield f"The round ended without an answer: {one.error}"
    if one.score is not None:
        yield f"The judge gives it {one.score:.2f}{', and so does a second judgement' if one.confirmed else ''}."
    if one.fault:
        yield f"The judge or the meta-model failed: {one.fault}"
    if figures is not None and one.number == figures.rounds - 1:
        best = "" if figures.best is None else f" The answer is that of round {figures.best + 1}."
        yield f"The run ended here: {_ENDS[figures.stop]}.{best}"


def _draw_graph(one: Round, newborns: Mapping[str, Agent]) -> Graph:
    topology: Topology | None = one.topology
    assert topology is not None, "asked for rounds with a topology"
    scores = {found.agent: f"{found.score:.2f}" for found in one.contributions}
    weights = {agent: f"{weight:.2f}" for agent, weight in one.weights.items()}
    nodes = [
        DrawnNode(
            id=node.id,
            name=node.agent,
            agent=node.agent,
            caption=f"contributes {scores[node.agent]}" if node.agent in scores else "",
            prompt=newborns[node.agent].prompt if node.agent in newborns else "",
            facts={
                name: found[node.agent]
                for name, found in (("contribution", scores), ("weight after this round", weights))
                if node.agent in found
            },
        )
        for node in topology.nodes
    ]
    edges = tuple(DrawnEdge(source=edge.source, target=edge.target) for edge in topology.edges)
    return Graph(nodes=tuple(nodes), edges=edges, entry=topology.entry, sink=topology.sink)


def _find_newborns(one: Round) -> Iterator[Agent]:
    for rewiring in one.applied:
        for edit in rewiring.edits:
            if isinstance(edit, AddAgent):
                yield edit.agent
            elif isinstance(edit, ReplaceAgent):
                yield edit.replacement


def _draw_verdicts(one: Round, items: Sequence[Item], threshold: float | None) -> Panel | None:
    if one.score is None:
        return None
    failed = [to_goal(item) in one.failed for item in items]
    entries = [
        Entry(head="failed" if bad else "passed", text=to_goal(item), look="bad" if bad else "good")
        for item, bad in zip(items, failed, strict=True)
    ]
    of = "" if threshold is None else f"; two scores of {threshold:.2f} or more end the run"
    return TextList(
        title="What the judge found",
        note=f"{failed.count(False)} of {format_count(len(items), 'item')} of the checklist passed{of}.",
        entries=tuple(entries),
    )


def _draw_agents(one: Round) -> Panel | None:
    rows: list[tuple[str | float | None, ...]] = [
        (
            found.agent,
            found.score,
            one.weights.get(found.agent),
            found.reason if found.evidence else f"(no evidence) {found.reason}",
        )
        for found in sorted(one.contributions, key=lambda found: -found.score)
    ]
    rows += [(agent, None, one.weights.get(agent), f"failed: {why}") for agent, why in one.silent.items()]
    if not rows:
        return None
    return Table(
        title="What each agent was worth", columns=("agent", "contribution", "weight", "why"), rows=tuple(rows)
    )


def _draw_changes(one: Round) -> Panel | None:
    if not one.slow:
        return None
    entries = []
    for rewiring in one.applied:
        edits = "; ".join(map(format_edit, rewiring.edits))
        name = rewiring.operation.replace("_", " ").lower() or "edit"
        entries.append(Entry(head=name, text=edits, look=_LOOKS.get(rewiring.operation, "")))
    entries += [Entry(head="refused", text=f"{no.change}: {no.reason}", look="bad") for no in one.refused]
    return TextList(
        title="How the team changed after this round",
        note=" ".join(filter(None, (_count_changes(one), one.rationale and f"Why: {one.rationale}"))),
        entries=tuple(entries),
    )


def _count_changes(one: Round) -> str:
    born, died = (", ".join(names) or "none" for names in (one.births, one.deaths))
    then = {"continue": "", "slow_again": " The team will be changed again after the next round.", "stop": " Stop."}
    return f"Births: {born}. Deaths: {died}.{then[one.control]}"


def _draw_coaching(one: Round) -> Panel | None:
    entries = tuple(Entry(head=agent, text=note) for agent, note in one.notes.items())
    return TextList(title="What the coach told the agents", entries=entries) if entries else None
