"""The rounds of a TacoMAS run for people, as text and as a picture.

Both show what agents were worth, what the judge found, and how the team changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, ReplaceAgent, format_edit, format_rewiring
from selfwire.core.values import format_count
from selfwire.evolvers.pictures import DrawnEdge, DrawnNode, Entry, Frame, Graph, Look, Panel, Picture, Table, TextList
from selfwire.evolvers.tacomas.judge import RubricItem, to_goal
from selfwire.evolvers.tacomas.rounds import Figures, TacomasRound
from selfwire.evolvers.trajectory_text import shorten

ANSWER_LENGTH = 300
END_REASONS = {
    "threshold": "the judge's score reached the threshold twice",
    "rounds": "no round was left",
    "price": "another round was not expected to pay for its calls",
    "stop": "the meta-model stopped it",
    "failure": "the judge or the meta-model failed",
    "stopped": "a budget or an outage stopped it",
}
"""Why a question ended, in words, by the name in its notes."""

_LOOKS: Mapping[str, Look] = {
    "BIRTH": "new",
    "REPLACE": "new",
    "JOIN": "new",
    "EDGE_ADD": "new",
    "DEATH": "gone",
    "EDGE_REMOVE": "gone",
    "UNDO_BIRTH": "gone",
}


def format_notes(notes: Mapping[str, Any]) -> Sequence[str]:
    """A paragraph per round, and how the run ended."""
    rounds = [format_round(TacomasRound.model_validate(done)) for done in notes.get("rounds", ())]
    return [*rounds, f"ended: {format_end(notes)}"] if "figures" in notes else rounds


def format_end(notes: Mapping[str, Any]) -> str:
    """Why a run ended, its answer, and the mean contributions."""
    found = Figures.model_validate(notes["figures"])
    answer = "no round has an answer" if found.best is None else f"the answer is that of round {found.best + 1}"
    means = ", ".join("-" if mean is None else f"{mean:.2f}" for mean in found.means)
    return f"{found.stop}; {answer}; {found.slow_updates} slow updates; mean contribution per round {means}"


def format_round(done: TacomasRound) -> str:
    """Answer, score, contributions, weights, notes, births, deaths and edge edits with reasons, tokens."""
    score = "no score" if done.score is None else f"score {done.score:.2f}{' (confirmed)' if done.confirmed else ''}"
    size = f"{format_count(done.nodes, 'node')}, {format_count(done.edges, 'edge')}"
    lines = [
        f"round {done.number + 1}: {done.goal}",
        f"  {score}; {size}; {format_count(done.usage.tokens, 'token')}",
        *([f"  ended without an answer: {done.error}"] if done.error else []),
        *(f"  {agent} failed, and the round went on without it: {why}" for agent, why in done.silent.items()),
        *([f"  the judge or the meta-model failed, and the run ends here: {done.fault}"] if done.fault else []),
        *([f"  answer: {shorten(' '.join(done.answer.split()), ANSWER_LENGTH)}"] if done.answer else []),
        *(f"  still to achieve: {goal}" for goal in done.failed),
        *(f"  struck, as the task allows no answer that meets it: {criterion}" for criterion in done.struck),
        *(f"  {c.agent}: contribution {c.score:.2f}: {c.reason}" for c in done.contributions),
        *([f"  weights: {', '.join(f'{agent} {w:.2f}' for agent, w in done.weights.items())}"] if done.weights else []),
        *(f"  note for {agent}: {note}" for agent, note in done.notes.items()),
        *(f"  {format_rewiring(rewiring)}" for rewiring in done.applied),
        *(f"  refused {refused.change}: {refused.reason}" for refused in done.refused),
    ]
    if done.slow:
        births, deaths = (", ".join(names) or "none" for names in (done.births, done.deaths))
        lines.append(f"  births {births}; deaths {deaths}; {done.control}")
    return "\n".join(lines)


def draw_run(notes: Mapping[str, Any]) -> Picture:
    """A frame per round; weights, contributions and the judge's scores over all rounds."""
    rounds = [TacomasRound.model_validate(done) for done in notes.get("rounds", ())]
    if not rounds:
        return Picture()
    items = [RubricItem.model_validate(item) for item in notes.get("checklist", ())]
    figures = Figures.model_validate(notes["figures"]) if notes.get("figures") else None
    threshold = notes.get("threshold")
    frames: list[Frame] = []
    newborns: dict[str, Agent] = {}
    for done in rounds:
        frames.append(_draw_round(done, items, figures, threshold, newborns))
        newborns |= {agent.id: agent for agent in _find_newborns(done)}  # an id may be that of a dead agent
    return Picture(frames=tuple(frames), panels=_draw_course(rounds, threshold))


def _draw_course(rounds: Sequence[TacomasRound], threshold: float | None) -> tuple[Panel, ...]:
    columns = ("", *(f"round {done.number + 1}" for done in rounds))
    names = list(dict.fromkeys(name for done in rounds for name in _list_agents(done)))
    scored = [{found.agent: found.score for found in done.contributions} for done in rounds]
    after = "The last round has none, as nobody would use them."
    return (
        Table(
            title="The judge's score",
            note="Share of the checklist that an answer passes; the line is the threshold that ends a run.",
            columns=columns,
            rows=(("score", *(done.score for done in rounds)),),
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
            rows=tuple((name, *(done.weights.get(name) for done in rounds)) for name in names),
            largest=max([0.5, *(weight for done in rounds for weight in done.weights.values())]),
            by_frame=True,
        ),
    )


def _list_agents(done: TacomasRound) -> list[str]:
    return sorted({*(node.agent for node in done.topology.nodes)} if done.topology else done.weights)


def _draw_round(
    done: TacomasRound,
    items: Sequence[RubricItem],
    figures: Figures | None,
    threshold: float | None,
    newborns: Mapping[str, Agent],
) -> Frame:
    panels = [_draw_verdicts(done, items, threshold), _draw_agents(done), _draw_changes(done), _draw_coaching(done)]
    return Frame(
        label=f"Round {done.number + 1}",
        text="\n".join(_describe(done, figures)),
        tag="" if done.score is None else f"judge {done.score:.2f}",
        graph=_draw_graph(done, newborns) if done.topology else None,
        panels=tuple(panel for panel in panels if panel is not None),
    )


def _describe(done: TacomasRound, figures: Figures | None) -> Iterator[str]:
    yield f"Goal: {done.goal.replace('.; ', '; ')}"
    if done.answer is not None:
        yield f"Answer: {shorten(' '.join(done.answer.split()), ANSWER_LENGTH)}"
    if done.error:
        yield f"The round ended without an answer: {done.error}"
    if done.score is not None:
        yield f"The judge gives it {done.score:.2f}{', and so does a second judgement' if done.confirmed else ''}."
    if done.fault:
        yield f"The judge or the meta-model failed: {done.fault}"
    if figures is not None and done.number == figures.rounds - 1:
        best = "" if figures.best is None else f" The answer is that of round {figures.best + 1}."
        yield f"The run ended here: {END_REASONS[figures.stop]}.{best}"


def _draw_graph(done: TacomasRound, newborns: Mapping[str, Agent]) -> Graph:
    topology = done.topology
    assert topology is not None, "asked for rounds with a topology"
    scores = {found.agent: f"{found.score:.2f}" for found in done.contributions}
    weights = {agent: f"{weight:.2f}" for agent, weight in done.weights.items()}
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


def _find_newborns(done: TacomasRound) -> Iterator[Agent]:
    for rewiring in done.applied:
        for edit in rewiring.edits:
            if isinstance(edit, AddAgent):
                yield edit.agent
            elif isinstance(edit, ReplaceAgent):
                yield edit.replacement


def _draw_verdicts(done: TacomasRound, items: Sequence[RubricItem], threshold: float | None) -> Panel | None:
    if done.score is None:
        return None
    failed = [to_goal(item) in done.failed for item in items]
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


def _draw_agents(done: TacomasRound) -> Panel | None:
    rows: list[tuple[str | float | None, ...]] = [
        (
            found.agent,
            found.score,
            done.weights.get(found.agent),
            found.reason if found.evidence else f"(no evidence) {found.reason}",
        )
        for found in sorted(done.contributions, key=lambda found: -found.score)
    ]
    rows += [(agent, None, done.weights.get(agent), f"failed: {why}") for agent, why in done.silent.items()]
    if not rows:
        return None
    return Table(
        title="What each agent was worth", columns=("agent", "contribution", "weight", "why"), rows=tuple(rows)
    )


def _draw_changes(done: TacomasRound) -> Panel | None:
    if not done.slow:
        return None
    entries = []
    for rewiring in done.applied:
        edits = "; ".join(map(format_edit, rewiring.edits))
        name = rewiring.operation.replace("_", " ").lower() or "edit"
        entries.append(Entry(head=name, text=edits, look=_LOOKS.get(rewiring.operation, "")))
    entries += [Entry(head="refused", text=f"{no.change}: {no.reason}", look="bad") for no in done.refused]
    return TextList(
        title="How the team changed after this round",
        note=" ".join(filter(None, (_count_changes(done), done.rationale and f"Why: {done.rationale}"))),
        entries=tuple(entries),
    )


def _count_changes(done: TacomasRound) -> str:
    born, died = (", ".join(names) or "none" for names in (done.births, done.deaths))
    then = {"continue": "", "slow_again": " The team will be changed again after the next round.", "stop": " Stop."}
    return f"Births: {born}. Deaths: {died}.{then[done.control]}"


def _draw_coaching(done: TacomasRound) -> Panel | None:
    entries = tuple(Entry(head=agent, text=note) for agent, note in done.notes.items())
    return TextList(title="What the coach told the agents", entries=entries) if entries else None
