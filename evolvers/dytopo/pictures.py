"""The rounds of a DyTopo run as a picture: the needs and offers that made each edge, and what the manager said."""

from collections.abc import Iterator, Mapping
from typing import Any

from selfwire.core.values import format_count
from selfwire.evolvers.dytopo.induction import Descriptors, RoundGraph, ScoredEdge
from selfwire.evolvers.pictures import (
    DrawnEdge,
    DrawnNode,
    Entry,
    Frame,
    Graph,
    Look,
    Match,
    Matching,
    Panel,
    Picture,
    TextList,
)

END_REASONS = {
    "complete": "the manager called it complete, and the workers' turns confirm it",
    "rounds": "no round was left",
    "failed": "all workers of this round failed",
    "stopped": "a budget or an outage stopped it",
}
"""Why a question ended, in words, by the name in its notes."""


def draw_run(notes: Mapping[str, Any]) -> Picture:
    """A frame per round."""
    found = notes.get("rounds", ())
    stopped, answerer = str(notes.get("stopped") or ""), notes.get("topology", {}).get("sink", "")
    return Picture(
        frames=tuple(
            _draw_round(number, done, found[0]["goal"], answerer, stopped if number == len(found) else "")
            for number, done in enumerate(found, 1)
        )
    )


def _draw_round(number: int, notes: Mapping[str, Any], task: str, answerer: str, stopped: str) -> Frame:
    graph = RoundGraph.model_validate(notes["graph"])
    named = {worker: Descriptors.model_validate(texts) for worker, texts in notes["needs"].items()}
    lines = [f"Goal: {'the task' if notes['goal'] == task else notes['goal']}"]
    lines += [f"{worker} failed, and the round went on without it: {why}" for worker, why in notes["failed"].items()]
    lines += [f"The run ended here: {END_REASONS.get(stopped, stopped)}."] if stopped else []
    return Frame(
        label=f"Round {number}",
        text="\n".join(lines),
        tag=format_count(len(graph.edges), "edge"),
        graph=_draw_graph(graph, named, answerer),
        panels=tuple(
            panel for panel in (_draw_matches(graph, named), _draw_manager(notes), _draw_order(graph)) if panel
        ),
    )


def _draw_graph(graph: RoundGraph, named: Mapping[str, Descriptors], answerer: str) -> Graph | None:
    if not named:
        return None
    nodes = [
        DrawnNode(id=worker, facts={"needs": texts.query or "nothing", "offers": texts.key or "nothing"})
        for worker, texts in named.items()
    ]
    edges = [DrawnEdge(source=edge.source, target=edge.target) for edge in graph.edges]
    return Graph(nodes=tuple(nodes), edges=tuple(edges), sink=answerer)


def _draw_matches(graph: RoundGraph, named: Mapping[str, Descriptors]) -> Panel:
    """Offers on the left, needs on the right, edges between them; and the nearest pair without an edge."""
    places = {worker: place for place, worker in enumerate(named)}
    pairs: list[tuple[ScoredEdge, Look]] = [(edge, "") for edge in graph.edges]
    pairs += [(graph.best_rejected, "faint")] if graph.best_rejected else []
    return Matching(
        title="Offers, and the needs that they met",
        note=_explain(graph),
        sides=("offers", "needs"),
        left=tuple(Entry(head=worker, text=texts.key or "(nothing)") for worker, texts in named.items()),
        right=tuple(Entry(head=worker, text=texts.query or "(nothing)") for worker, texts in named.items()),
        matches=tuple(
            Match(left=places[edge.source], right=places[edge.target], value=edge.score, look=look)
            for edge, look in pairs
            if edge.source in places and edge.target in places
        ),
        mark=graph.threshold,
    )


def _explain(graph: RoundGraph) -> str:
    if graph.threshold is None:
        return "These edges were not made by similarity."
    most = "" if graph.most_providers is None else f"; at most {format_count(graph.most_providers, 'provider')} each"
    near = " Dashed: the most similar pair that got none." if graph.best_rejected else ""
    return (
        f"An edge joins an offer with a need that is more similar to it than tau = {graph.threshold:g}, which is the "
        f"line in the bars{most}.{near}"
    )


def _draw_manager(notes: Mapping[str, Any]) -> Panel | None:
    managed = notes["managed"]
    if not managed:
        return None
    return TextList(title="The manager", entries=tuple(_list_words(managed)))


def _list_words(managed: Mapping[str, Any]) -> Iterator[Entry]:
    if managed["complete"]:
        yield Entry(head="complete", text=managed["public"], look="good")
    elif managed["claimed"]:
        yield Entry(head="called it complete, and was not believed", text=managed["why"], look="bad")
    else:
        yield Entry(head="not complete", text=managed["why"])
    if not managed["complete"] and managed["public"]:
        yield Entry(head="said", text=managed["public"])
    if not managed["complete"]:
        yield Entry(head="goal of the next round", text=managed["goal"])


def _draw_order(graph: RoundGraph) -> Panel | None:
    if not graph.order:
        return None
    return TextList(
        title="Order and density",
        entries=(
            Entry(head=" → ".join(graph.order), text="The order in which messages are read and reported."),
            Entry(
                head=f"{graph.density:.2f}",
                text=f"{format_count(len(graph.edges), 'edge')} of all ordered pairs of agents.",
            ),
        ),
    )
