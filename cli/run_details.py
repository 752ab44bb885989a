"""What a team that rewires itself while it works did, round by round."""

from collections.abc import Mapping
from typing import Any

from selfwire.cli import output
from selfwire.core import drawing
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import to_plain_json
from selfwire.evolvers.evomas.stages import Stage, get_runnable_part
from selfwire.evolvers.tacomas.rounds import Figures, Round
from selfwire.evolvers.trained_router.decisions import LayeredWorkflow
from selfwire.evolvers.dytopo.report import format_round


def show_rounds(method: str, done: Trajectory) -> None:
    """Print the rounds or stages that a trajectory's notes hold; nothing for methods without either."""
    rounds = to_plain_json(done.notes.get("rounds", ()))
    for number, one in enumerate(rounds, 1):
        lines = (
            format_tacomas_round(Round.model_validate(one)) if method == "tacomas" else format_dytopo_round(number, one)
        )
        output.make_console().print("\n".join(["", *lines]))
    for stage in to_plain_json(done.notes.get("stages", ())):
        output.make_console().print("\n".join(["", *format_stage(Stage.model_validate(stage))]))
    if why := format_end(to_plain_json(done.notes)):
        output.make_console().print(f"\nended: {why}")


def format_end(notes: Mapping[str, Any]) -> str:
    """How a run came to its end, from its trajectory's notes; "" for methods that do not say."""
    if "figures" not in notes:
        return str(notes.get("status") or notes.get("stopped") or "")
    found = Figures.model_validate(notes["figures"])
    answer = "no round has an answer" if found.best is None else f"the answer is that of round {found.best + 1}"
    means = ", ".join("-" if mean is None else f"{mean:.2f}" for mean in found.means)
    return f"{found.stop}; {answer}; {found.slow_updates} slow updates; mean contribution per round {means}"


def show_topology(done: Trajectory) -> None:
    """Print the topology that ran last, as text and as Mermaid; nothing where a run's notes hold none."""
    if "topology" not in done.notes:
        return
    ran = Topology.model_validate(to_plain_json(done.notes["topology"]))
    output.make_console().print(f"\ntopology that ran last\n{drawing.to_text(ran)}\n\n{drawing.to_mermaid(ran)}\n")


def format_stage(one: Stage) -> list[str]:
    """One stage of EvoMAS: subtask, layers with probabilities, what was run, verdict and what changed in the plan."""
    lines = [f"stage {one.number + 1}: {one.goal}"]
    if one.layered is not None:
        lines += format_layers(one.layered)
        ran = get_runnable_part(one.layered)
        cut = len(one.layered.layers) - len(ran.layers)
        lines += [f"  early exit: the run ends here{f', {cut} layers are skipped' if cut else ''}"] if ran.exits else []
    lines += [f"  nobody answered: {one.error}"] if one.error else []
    lines += [f"  no valid reply of the {name}; its safe default stands" for name in one.fell_back]
    lines += [f"  the planner or the evaluator failed, and the run ends here: {one.fault}"] if one.fault else []
    if one.assessment:
        feedback = output.format_value(one.assessment.feedback)
        told = f"{one.assessment.verdict} ({one.assessment.confidence:.2f}): {feedback}"
        lines.append(f"  verdict: {told}")
    lines += [f"  plan: {moved}" for moved in one.changes]
    return [*lines, f"  {one.usage.calls} calls, {one.usage.tokens:,} tokens"]


def format_layers(layered: LayeredWorkflow) -> list[str]:
    """The layers as drawn, each with everybody's probability, the most probable first."""
    lines = []
    for number, layer in enumerate(layered.layers):
        shares = layered.probabilities[number] if layered.probabilities else {}
        ranked = sorted(shares.items(), key=lambda one: -one[1])
        told = f"  (of {', '.join(f'{name} {share:.2f}' for name, share in ranked)})" if ranked else ""
        lines.append(f"  layer {number + 1}: {', '.join(layer)}{told}")
    return lines


def format_dytopo_round(number: int, one: Mapping[str, Any]) -> list[str]:
    """One round of DyTopo: its goal and what came of it."""
    return [f"round {number}: {one['goal']}", *format_round(one, nearest=False)]


def format_tacomas_round(one: Round) -> list[str]:
    """One round of TacoMAS: score, contributions, births, deaths and edge edits with reasons, tokens."""
    score = "no score" if one.score is None else f"score {one.score:.2f}{' (confirmed)' if one.confirmed else ''}"
    lines = [
        f"round {one.number + 1}: {one.goal}",
        f"  {score}; {one.nodes} nodes, {one.edges} edges; {one.usage.tokens:,} tokens",
        *([f"  ended without an answer: {one.error}"] if one.error else []),
        *(f"  {agent} failed, and the round went on without it: {why}" for agent, why in one.silent.items()),
        *([f"  the judge or the meta-model failed, and the run ends here: {one.fault}"] if one.fault else []),
        *(f"  not passed: {criterion}" for criterion in one.failed),
        *(f"  {c.agent}: contribution {c.score:.2f}: {c.reason}" for c in one.contributions),
        *(f"  {output.format_rewiring(rewiring)}" for rewiring in one.applied),
        *(f"  refused {refused.change}: {refused.reason}" for refused in one.refused),
    ]
    if one.slow:
        births, deaths = (", ".join(names) or "none" for names in (one.births, one.deaths))
        lines.append(f"  births {births}; deaths {deaths}; {one.control}")
    return lines
