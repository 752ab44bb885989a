"""The rounds of a TacoMAS run, as text for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from selfwire.core.edits import format_rewiring
from selfwire.evolvers.tacomas.rounds import Figures, Round
from selfwire.evolvers.trace_text import shorten

ANSWER_LENGTH = 300


def format_notes(notes: Mapping[str, Any]) -> Sequence[str]:
    """A paragraph per round, and how the run ended."""
    rounds = [format_round(Round.model_validate(one)) for one in notes.get("rounds", ())]
    return [*rounds, f"ended: {format_end(notes)}"] if "figures" in notes else rounds


def format_end(notes: Mapping[str, Any]) -> str:
    """Why a run ended, its answer, and the mean contributions."""
    found = Figures.model_validate(notes["figures"])
    answer = "no round has an answer" if found.best is None else f"the answer is that of round {found.best + 1}"
    means = ", ".join("-" if mean is None else f"{mean:.2f}" for mean in found.means)
    return f"{found.stop}; {answer}; {found.slow_updates} slow updates; mean contribution per round {means}"


def format_round(one: Round) -> str:
    """Answer, score, contributions, weights, notes, births, deaths and edge edits with reasons, tokens."""
    score = "no score" if one.score is None else f"score {one.score:.2f}{' (confirmed)' if one.confirmed else ''}"
    lines = [
        f"round {one.number + 1}: {one.goal}",
        f"  {score}; {one.nodes} nodes, {one.edges} edges; {one.usage.tokens:,} tokens",
        *([f"  ended without an answer: {one.error}"] if one.error else []),
        *(f"  {agent} failed, and the round went on without it: {why}" for agent, why in one.silent.items()),
        *([f"  the judge or the meta-model failed, and the run ends here: {one.fault}"] if one.fault else []),
        *([f"  answer: {shorten(' '.join(one.answer.split()), ANSWER_LENGTH)}"] if one.answer else []),
        *(f"  still to achieve: {goal}" for goal in one.failed),
        *(f"  {c.agent}: contribution {c.score:.2f}: {c.reason}" for c in one.contributions),
        *([f"  weights: {', '.join(f'{agent} {w:.2f}' for agent, w in one.weights.items())}"] if one.weights else []),
        *(f"  note for {agent}: {note}" for agent, note in one.notes.items()),
        *(f"  {format_rewiring(rewiring)}" for rewiring in one.applied),
        *(f"  refused {refused.change}: {refused.reason}" for refused in one.refused),
    ]
    if one.slow:
        births, deaths = (", ".join(names) or "none" for names in (one.births, one.deaths))
        lines.append(f"  births {births}; deaths {deaths}; {one.control}")
    return "\n".join(lines)
