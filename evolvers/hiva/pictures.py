"""Pictures of an iteration of HiVA: beliefs, synergy, and the gradients as they flowed back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel, format_count
from selfwire.evolvers.hiva.gradients import Backward, Gradient
from selfwire.evolvers.hiva.memory import EdgeRecord, HivaMemory
from selfwire.evolvers.pictures import Cell, Entry, Look, Panel, Table, TextList
from selfwire.evolvers.prompted_model import DeclinedProposal
from selfwire.evolvers.trajectory_text import shorten

GRADIENTS = 30
"""Most gradients that the notes of an iteration keep, whole tasks, the first one in any case."""
TEXT = 400
_LOOKS: Mapping[str, Look] = {"critical": "bad", "positive": "good", "neutral": ""}


class NotedGradient(FrozenModel):
    """A gradient in the notes; it was drawn from those of the nodes `received`, or from the environment."""

    node: str
    received: tuple[str, ...] = ()
    sentiment: str
    concerns: str
    text: str


class NotedPass(FrozenModel):
    """The way of a task's loss back through the team, the aggregator first."""

    task: str
    feedback: str
    gradients: tuple[NotedGradient, ...]


def note_passes(trajectories: Sequence[Trajectory], passes: Sequence[Backward | None]) -> list[dict[str, Any]]:
    """The backward passes of an iteration in short, as many tasks as there is room for."""
    noted: list[NotedPass] = []
    for done, backward in zip(trajectories, passes, strict=False):
        if backward is None or not backward.gradients:
            continue
        if noted and sum(len(before.gradients) for before in noted) + len(backward.gradients) > GRADIENTS:
            break
        noted.append(_note_pass(done, backward.gradients))
    return [note.model_dump(mode="json") for note in noted]


def _note_pass(done: Trajectory, gradients: Sequence[Gradient]) -> NotedPass:
    there = {gradient.node for gradient in gradients}
    heard = {step.node: [message.target for message in step.sent if message.target in there] for step in done.steps}
    said = done.feedback.text if done.feedback else ""
    return NotedPass(
        task=done.question.id,
        feedback=shorten(" ".join(said.split()), TEXT),
        gradients=tuple(
            NotedGradient(
                node=gradient.node,
                received=tuple(dict.fromkeys(heard.get(gradient.node, ()))),
                sentiment=gradient.sentiment,
                concerns=gradient.concerns,
                text=shorten(gradient.text, TEXT),
            )
            for gradient in gradients[:GRADIENTS]
        ),
    )


def draw_learning(before: Team, after: Team, notes: Mapping[str, Any]) -> tuple[Panel, ...]:
    """Gradients by task, beliefs and synergy before and after, and what was proposed in vain."""
    was, now = HivaMemory.of(before), HivaMemory.of(after)
    passes = [NotedPass.model_validate(note) for note in notes.get("gradients", ())]
    declined = [DeclinedProposal.model_validate(note) for note in notes.get("declined", ())]
    panels = (
        _draw_passes(passes, notes.get("unsolved")),
        _draw_beliefs(was, now),
        _draw_edges(was, now),
        _draw_declined(declined),
    )
    return tuple(panel for panel in panels if panel is not None)


def _draw_passes(passes: Sequence[NotedPass], unsolved: int | None) -> Panel | None:
    if not passes:
        return None
    entries = [entry for noted in passes for entry in _draw_pass(noted)]
    of = "" if unsolved is None else f" {len(passes)} of {format_count(unsolved, 'unsolved task')} are shown."
    return TextList(
        title="Textual gradients as they flowed back",
        note=f"From the answer to its predecessors: what each agent heard, and what should change there.{of}",
        entries=tuple(entries),
    )


def _draw_pass(noted: NotedPass) -> Iterable[Entry]:
    yield Entry(head=f"task {noted.task}", text=noted.feedback)
    depth: dict[str, int] = {}
    for gradient in noted.gradients:
        depth[gradient.node] = 1 + max((depth.get(name, 0) for name in gradient.received), default=0)
        source = ", ".join(gradient.received) or "the environment"
        about = "" if gradient.concerns == "none" else f", concerns {gradient.concerns}"
        yield Entry(
            head=f"{source} → {gradient.node}: {gradient.sentiment}{about}",
            text=gradient.text,
            look=_LOOKS.get(gradient.sentiment, ""),
            depth=min(depth[gradient.node], 6),
        )


def _draw_beliefs(was: HivaMemory, now: HivaMemory) -> Panel | None:
    names = sorted({*was.beliefs, *now.beliefs})
    if not names:
        return None
    rows = []
    for name in names:
        old, new = was.beliefs.get(name), now.beliefs.get(name)
        found = new or now.retired.beliefs.get(name)
        look: Look = "new" if old is None else "gone" if new is None else ""
        shape = f"Beta({found.alpha:.2f}, {found.beta:.2f})" if found else ""
        rows.append((Cell(text=name, look=look), old and old.mean, found and found.mean, shape))
    return Table(
        title="Beliefs about the agents",
        note="The expected success of each agent, by which the bandit chooses successors; 0.5 where nothing is known.",
        columns=("agent", "before", "after", "posterior"),
        rows=tuple(rows),
    )


def _draw_edges(was: HivaMemory, now: HivaMemory) -> Panel | None:
    names = sorted({*was.edges, *now.edges})
    if not names:
        return None
    rows = [_draw_edge(name, was.edges.get(name), now.edges.get(name)) for name in names]
    return Table(
        title="Synergy of agents along the edges",
        note="Synergy grows with use, from 1 to at most 2; the bar is the smoothed share of runs that succeeded.",
        columns=("edge", "synergy before", "after", "solved", "of runs"),
        rows=tuple(rows),
    )


def _draw_edge(name: str, old: EdgeRecord | None, new: EdgeRecord | None) -> tuple[Cell | str | float | None, ...]:
    look: Look = "new" if old is None else "gone" if new is None else ""
    found = new or old
    return (
        Cell(text=name.replace("->", " → "), look=look),
        f"{old.synergy:.2f}" if old else "",
        f"{new.synergy:.2f}" if new else "",
        found.rate if found and found.runs else None,
        f"{found.runs:,}" if found else "",
    )


def _draw_declined(declined: Sequence[DeclinedProposal]) -> Panel | None:
    entries = [
        Entry(head=f"{proposal.by}: {proposal.operation.replace('_', ' ').lower()}", text=proposal.reason, look="bad")
        for proposal in declined
    ]
    return TextList(title="Proposals that changed nothing", entries=tuple(entries)) if entries else None
