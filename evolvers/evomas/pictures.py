"""The stages of an EvoMAS run for people: as text, and as a picture of the drawn layers and the state around them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from selfwire.core.values import format_count, format_value
from selfwire.evolvers.evomas.pool import EARLY_EXIT
from selfwire.evolvers.evomas.stages import Stage, get_runnable_part
from selfwire.evolvers.evomas.state import TaskState
from selfwire.evolvers.pictures import (
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
from selfwire.evolvers.router.decisions import LayeredWorkflow

END_REASONS = {
    "done": "no subtask is left",
    "early_exit": "Early-exit was drawn",
    "stages": "no stage was left",
    "failure": "the planner or the evaluator failed",
    "stopped": "a budget or an outage stopped it",
}
"""Why a question ended, in words, by the name in its notes."""
_VERDICTS: Mapping[str, Look] = {"success": "good", "fail": "bad", "refine": ""}


def format_notes(notes: Mapping[str, Any]) -> Sequence[str]:
    """A paragraph per stage, and why the run ended."""
    stages = [format_stage(Stage.model_validate(stage)) for stage in notes.get("stages", ())]
    return [*stages, f"ended: {notes['status']}"] if notes.get("status") else stages


def format_stage(stage: Stage) -> str:
    """Subtask, layers with probabilities, what was run, verdict and what changed in the plan."""
    lines = [f"stage {stage.number + 1}: {stage.goal}"]
    if stage.layered is not None:
        lines += format_layers(stage.layered)
        ran = get_runnable_part(stage.layered)
        lines += [f"  early exit after {format_count(len(ran.layers), 'layer')}"] if ran.exits else []
    lines += [f"  nobody answered: {stage.error}"] if stage.error else []
    lines += [f"  no valid reply of the {name}; its safe default stands" for name in stage.fell_back]
    lines += [f"  the planner or the evaluator failed, and the run ends here: {stage.fault}"] if stage.fault else []
    if found := stage.assessment:
        lines.append(f"  verdict: {found.verdict} ({found.confidence:.2f}): {format_value(found.feedback)}")
    lines += [f"  plan: {change}" for change in stage.changes]
    return "\n".join(
        [*lines, f"  {format_count(stage.usage.calls, 'call')}, {format_count(stage.usage.tokens, 'token')}"]
    )


def format_layers(layered: LayeredWorkflow) -> list[str]:
    """The layers as drawn, each with the probability of every agent, the most probable first."""
    lines = []
    for number, layer in enumerate(layered.layers):
        shares = layered.probabilities[number] if layered.probabilities else {}
        ranked = sorted(shares.items(), key=lambda share: -share[1])
        of = f"  (of {', '.join(f'{name} {share:.2f}' for name, share in ranked)})" if ranked else ""
        lines.append(f"  layer {number + 1}: {', '.join(layer)}{of}")
    return lines


def draw_run(notes: Mapping[str, Any]) -> Picture:
    """A frame per stage."""
    stages = [Stage.model_validate(stage) for stage in notes.get("stages", ())]
    before = [None, *(stage.state for stage in stages)]
    status = str(notes.get("status") or "")
    frames = [
        _draw_stage(stage, was, status if stage.number == len(stages) - 1 else "")
        for stage, was in zip(stages, before, strict=False)
    ]
    return Picture(frames=tuple(frames))


def _draw_stage(stage: Stage, before: TaskState | None, status: str) -> Frame:
    panels = (_draw_probabilities(stage), _draw_state(stage, before), _draw_rows(stage), _draw_verdict(stage))
    return Frame(
        label=f"Stage {stage.number + 1}",
        text="\n".join(_describe(stage, status)),
        tag=stage.assessment.verdict if stage.assessment else "",
        graph=_draw_layers(stage),
        panels=tuple(panel for panel in panels if panel is not None),
    )


def _describe(stage: Stage, status: str) -> Iterator[str]:
    if stage.goal:
        yield f"Subtask: {stage.goal}"
    if stage.error:
        yield f"Nobody answered: {stage.error}"
    for name in stage.fell_back:
        yield f"No valid reply of the {name}; its safe default stands."
    if stage.fault:
        yield f"The planner or the evaluator failed: {stage.fault}"
    if status:
        yield f"The run ended here: {END_REASONS.get(status, status)}."


def _draw_layers(stage: Stage) -> Graph | None:
    """The layers that ran, from the task state to the outcome; a place holds another agent in every stage."""
    layers = stage.layers_to_run
    if not layers or stage.layered is None:
        return None
    levels = [[f"layer-{number}-{place}" for place, _ in enumerate(layer, 1)] for number, layer in enumerate(layers, 1)]
    shares = [*stage.layered.probabilities, *({} for _ in layers)]
    nodes = [DrawnNode(id="task-state", caption="what the router read")]
    for level, layer, found in zip(levels, layers, shares, strict=False):
        nodes += [
            DrawnNode(id=node, name=name, agent=name, caption=f"probability {found[name]:.2f}" if name in found else "")
            for node, name in zip(level, layer, strict=True)
        ]
    nodes.append(DrawnNode(id="outcome", caption=stage.assessment.verdict if stage.assessment else ""))
    rows = [["task-state"], *levels, ["outcome"]]
    edges = [DrawnEdge(source=a, target=b) for above, below in pairwise(rows) for a in above for b in below]
    return Graph(nodes=tuple(nodes), edges=tuple(edges), entry="task-state", sink="outcome")


def _draw_probabilities(stage: Stage) -> Panel | None:
    layered = stage.layered
    if layered is None:
        return None
    if not layered.probabilities:
        drawn = [Entry(head=f"layer {n}", text=", ".join(layer)) for n, layer in enumerate(layered.layers, 1)]
        return TextList(title="The layers", note="They were given, not drawn.", entries=tuple(drawn))
    names = [*stage.agents] or sorted({name for shares in layered.probabilities for name in shares})
    rows = [(name, *(_draw_share(layered, layer, name) for layer in range(len(layered.layers)))) for name in names]
    ran = get_runnable_part(layered)
    exits = f" {EARLY_EXIT} was drawn after {format_count(len(ran.layers), 'layer')}." if ran.exits else ""
    return Table(
        title="Who was drawn, layer by layer",
        note=f"The router's probability of each agent; ✓ was drawn; empty could not be.{exits}",
        columns=("agent", *(f"layer {number}" for number in range(1, len(layered.layers) + 1))),
        rows=tuple(rows),
    )


def _draw_share(layered: LayeredWorkflow, layer: int, name: str) -> Cell | None:
    share = layered.probabilities[layer].get(name)
    drawn = name in layered.layers[layer]
    return None if share is None and not drawn else Cell(value=share, look="good" if drawn else "faint")


def _draw_state(stage: Stage, before: TaskState | None) -> Panel | None:
    if stage.state is None or not stage.state.subtasks:
        return None
    was = {task.id: task.status for task in before.subtasks} if before else {}
    there = {task.id for task in stage.state.subtasks}
    rows: list[tuple[Cell | str | float | None, ...]] = [
        (
            f"{task.id}: {task.goal}",
            was.get(task.id, "planned in this stage"),
            Cell(text=task.status, look={"completed": "good", "failed": "bad"}.get(task.status, "")),
            task.artifact or task.trouble,
        )
        for task in stage.state.subtasks
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


def _draw_rows(stage: Stage) -> Panel | None:
    heads = [row.partition(": ") for row in stage.rows]
    entries = tuple(Entry(head=head, text=text) for head, _, text in heads)
    return TextList(title="What the router read of the state", entries=entries) if entries else None


def _draw_verdict(stage: Stage) -> Panel | None:
    entries = []
    if stage.assessment:
        head = f"{stage.assessment.verdict}, confidence {stage.assessment.confidence:.2f}"
        entries.append(Entry(head=head, text=stage.assessment.feedback, look=_VERDICTS[stage.assessment.verdict]))
    if stage.outcome:
        entries.append(Entry(head="the outcome", text=stage.outcome))
    entries += [Entry(head="the plan", text=change) for change in stage.changes]
    return TextList(title="The evaluator's verdict", entries=tuple(entries)) if entries else None
