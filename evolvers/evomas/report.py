"""The stages of an EvoMAS run, as text for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from selfwire.core.values import format_value
from selfwire.evolvers.evomas.stages import Stage, get_runnable_part
from selfwire.evolvers.trained_router.decisions import LayeredWorkflow


def format_notes(notes: Mapping[str, Any]) -> Sequence[str]:
    """A paragraph per stage, and why the run ended."""
    stages = [format_stage(Stage.model_validate(one)) for one in notes.get("stages", ())]
    return [*stages, f"ended: {notes['status']}"] if notes.get("status") else stages


def format_stage(one: Stage) -> str:
    """Subtask, layers with probabilities, what was run, verdict and what changed in the plan."""
    lines = [f"stage {one.number + 1}: {one.goal}"]
    if one.layered is not None:
        lines += format_layers(one.layered)
        ran = get_runnable_part(one.layered)
        cut = len(one.layered.layers) - len(ran.layers)
        lines += [f"  early exit: the run ends here{f', {cut} layers are skipped' if cut else ''}"] if ran.exits else []
    lines += [f"  nobody answered: {one.error}"] if one.error else []
    lines += [f"  no valid reply of the {name}; its safe default stands" for name in one.fell_back]
    lines += [f"  the planner or the evaluator failed, and the run ends here: {one.fault}"] if one.fault else []
    if found := one.assessment:
        lines.append(f"  verdict: {found.verdict} ({found.confidence:.2f}): {format_value(found.feedback)}")
    lines += [f"  plan: {change}" for change in one.changes]
    return "\n".join([*lines, f"  {one.usage.calls} calls, {one.usage.tokens:,} tokens"])


def format_layers(layered: LayeredWorkflow) -> list[str]:
    """The layers as drawn, each with everybody's probability, the most probable first."""
    lines = []
    for number, layer in enumerate(layered.layers):
        shares = layered.probabilities[number] if layered.probabilities else {}
        ranked = sorted(shares.items(), key=lambda one: -one[1])
        of = f"  (of {', '.join(f'{name} {share:.2f}' for name, share in ranked)})" if ranked else ""
        lines.append(f"  layer {number + 1}: {', '.join(layer)}{of}")
    return lines
