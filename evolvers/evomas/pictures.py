"""The stages of an EvoMAS run as a picture: the layers as drawn with their probabilities, and the state around them."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from selfwire.core.pictures import (
    Cell,
    DrawnEdge,
    DrawnNode,
    Entry,
    Frame,
    Graph,
    Look,
    Panel,
    Picture,
    Table,
    TextList,
)
from selfwire.evolvers.evomas.pool import EARLY_EXIT
from selfwire.evolvers.evomas.stages import Stage, get_runnable_part
from selfwire.evolvers.evomas.state import TaskState
from selfwire.evolvers.trained_router.decisions import LayeredWorkflow

_ENDS = {
    "done": "no subtask is left",
    "early_exit": "Early-exit was drawn",
    "stages": "no stage was left",
    "failure": "the planner or the evaluator failed",
    "stopped": "a budget or an outage stopped it",
}
_VERDICTS: Mapping[str, Look] = {"success": "good", "fail": "bad", "refine": ""}


def draw_run(notes: Mapping[str, Any]) -> Picture:
    """A frame per stage."""
    stages = [Stage.model_validate(one) for one in notes.get("stages", ())]
    before = [None, *(one.state for one in stages)]
    status = str(notes.get("status") or "")
    frames = [
        _draw_stage(one, was, status if one.number == len(stages) - 1 else "")
        for one, was in zip(stages, before, strict=False)
    ]
    return Picture(frames=tuple(frames))


def _draw_stage(one: Stage, before: TaskState | None, status: str) -> Frame:
    panels = (_draw_probabilities(one), _draw_state(one, before), _draw_rows(one), _draw_verdict(one))
    return Frame(
        label=f"Stage {one.number + 1}",
        text="\n".join(_describe(one, status)),
        tag=one.assessment.verdict if one.assessment else "",
        graph=_draw_layers(one),
        panels=tuple(panel for panel in panels if panel is not None),
    )


def _describe(one: Stage, status: str) -> Iterator[str]:
    if one.goal:
        yield f"Subtask: {one.goal}"
    if one.error:
        yield f"Nobody answered: {one.error}"
    for name in one.fell_back:
        yield f"No valid reply of the {name}; its safe default stands."
    if one.fault:
        yield f"The planner or the evaluator failed: {one.fault}"
    if status:
        yield f"The run ended here: {_ENDS.get(status, status)}."


def _draw_layers(one: Stage) -> Graph | None:
    """The layers that ran, from the task state to the outcome; a place holds another agent in every stage."""
    layers = one.layers_to_run
    if not layers or one.layered is None:
        return None
    levels = [[f"layer-{number}-{place}" for place, _ in enumerate(layer, 1)] for number, layer in enumerate(layers, 1)]
    shares = [*one.layered.probabilities, *({} for _ in layers)]
    nodes = [DrawnNode(id="task-state", caption="what the router read")]
    for level, layer, found in zip(levels, layers, shares, strict=False):
        nodes += [
            DrawnNode(id=node, name=name, agent=name, caption=f"probability {found[name]:.2f}" if name in found else "")
            for node, name in zip(level, layer, strict=True)
        ]
    nodes.append(DrawnNode(id="outcome", caption=one.assessment.verdict if one.assessment else ""))
    rows = [["task-state"], *levels, ["outcome"]]
    edges = [DrawnEdge(source=a, target=b) for above, below in pairwise(rows) for a in above for b in below]
    return Graph(nodes=tuple(nodes), edges=tuple(edges), entry="task-state", sink="outcome")


def _draw_probabilities(one: Stage) -> Panel | None:
    layered = one.layered
    if layered is None:
        return None
    if not layered.probabilities:
        drawn = [Entry(head=f"layer {n}", text=", ".join(layer)) for n, layer in enumerate(layered.layers, 1)]
        return TextList(title="The layers", note="They were given, not drawn.", entries=tuple(drawn))
    names = [*one.agents] or sorted({name for shares in layered.probabilities for name in shares})
    rows = [(name, *(_draw_share(layered, layer, name) for layer in range(len(layered.layers)))) for name in names]
    ran = get_runnable_part(layered)
    cut = len(layered.layers) - len(ran.layers)
    exits = f" {EARLY_EXIT} was drawn, so that the run ends with this stage." if ran.exits else ""
    skipped = f" The layers after layer {len(ran.layers)} were skipped." if ran.exits and cut > 1 else ""
    return Table(
        title="Who was drawn, layer by layer",
        note=f"The router's probability of each agent; ✓ was drawn; empty could not be.{exits}{skipped}",
        columns=("agent", *(f"layer {number}" for number in range(1, len(layered.layers) + 1))),
        rows=tuple(rows),
    )


def _draw_share(layered: LayeredWorkflow, layer: int, name: str) -> Cell | None:
    share = layered.probabilities[layer].get(name)
    drawn = name in layered.layers[layer]
    return None if share is None and not drawn else Cell(value=share, look="good" if drawn else "faint")


def _draw_state(one: Stage, before: TaskState | None) -> Panel | None:
    if one.state is None or not one.state.subtasks:
        return None
    was = {task.id: task.status for task in before.subtasks} if before else {}
    there = {task.id for task in one.state.subtasks}
    rows: list[tuple[Cell | str | float | None, ...]] = [
        (
            f"{task.id}: {task.goal}",
            was.get(task.id, "planned in this stage"),
            Cell(text=task.status, look={"completed": "good", "failed": "bad"}.get(task.status, "")),
            task.artifact or task.trouble,
        )
        for task in one.state.subtasks
    ]
    rows += [
        (f"{task.id}: {task.goal}", task.status, Cell(text="dropped from the plan", look="gone"), "")
        for task in (before.subtasks if before else ())
        if task.id not in there
    ]
    return Table(
        title="The task state before and after this stage",
        columns=("subtask", "before", "after", "result, or why it was sent back"),
        rows=tuple(rows),
    )


def _draw_rows(one: Stage) -> Panel | None:
    heads = [row.partition(": ") for row in one.rows]
    entries = tuple(Entry(head=head, text=text) for head, _, text in heads)
    return TextList(title="What the router read of the state", entries=entries) if entries else None


def _draw_verdict(one: Stage) -> Panel | None:
    entries = []
    if one.assessment:
        head = f"{one.assessment.verdict}, confidence {one.assessment.confidence:.2f}"
        entries.append(Entry(head=head, text=one.assessment.feedback, look=_VERDICTS[one.assessment.verdict]))
    if one.outcome:
        entries.append(Entry(head="the outcome", text=one.outcome))
    entries += [Entry(head="the plan", text=change) for change in one.changes]
    return TextList(title="The evaluator's verdict", entries=tuple(entries)) if entries else None
