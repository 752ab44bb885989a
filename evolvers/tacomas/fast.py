"""The capability loop F^C: replicator weights and refinements, every round (Sec. 3.3, Eq. 2)."""

from collections.abc import Iterable, Mapping, Sequence
from math import exp

from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.workflow import Workflow
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.tacomas.judge import Contribution
from selfwire.evolvers.tacomas.schemas import Refinement
from selfwire.evolvers.trace_text import format_step, gather_all, shorten

NOTE_LENGTH = 600
INBOX_LENGTH = 4_000

Notes = Mapping[str, Sequence[str]]
"""Refinements by agent, oldest first."""


def get_members(workflow: Workflow) -> tuple[Agent, ...]:
    """The agents that have a place in the team."""
    placed = set(workflow.topology.agents.values())
    return tuple(agent for agent in workflow.agents if agent.id in placed)


def update_weights(
    weights: Mapping[str, float], contributions: Mapping[str, float], *, rate: float, floor: float
) -> dict[str, float]:
    """Eq. 2: w_v proportional to w_v * exp(eta * (c_v - mean c)), then w <- (1 - floor) * w + floor / n.

    Args:
        weights: w by agent; they sum to 1.
        contributions: c in [0, 1] by agent; an agent without one grows as the mean does (D6).
        rate: eta.
        floor: share that is spread evenly (D2).
    """
    known = [contributions[agent] for agent in weights if agent in contributions]
    mean = sum(known) / len(known) if known else 0.0
    grown = {agent: w * exp(rate * (contributions.get(agent, mean) - mean)) for agent, w in weights.items()}
    whole = sum(grown.values())
    return {agent: (1 - floor) * w / whole + floor / len(grown) for agent, w in grown.items()}


def make_uniform_weights(agents: Iterable[str]) -> dict[str, float]:
    """Equal weights."""
    names = list(agents)
    return {agent: 1 / len(names) for agent in names}


def inherit_weights(weights: Mapping[str, float], agents: Iterable[str]) -> dict[str, float]:
    """Weights after births and deaths: a newborn starts with the survivors' mean.

    Args:
        agents: the living; at least one lived before.
    """
    living = list(agents)
    survivors = [weights[agent] for agent in living if agent in weights]
    mean = sum(survivors) / len(survivors)
    now = {agent: weights.get(agent, mean) for agent in living}
    whole = sum(now.values())
    return {agent: weight / whole for agent, weight in now.items()}


def to_note(refinement: Refinement, number: int) -> str:
    """A refinement as a note for its agent; "" if it says nothing."""
    parts = (("Fault", refinement.errors), ("Next", refinement.plan), (refinement.kind.capitalize(), refinement.update))
    note = " ".join(f"{name}: {' '.join(text.split())}" for name, text in parts if text.strip())
    return shorten(f"Round {number}. {note}", NOTE_LENGTH) if note else ""


def append_notes(
    notes: Notes, fresh: Mapping[str, str], agents: Iterable[str], *, keep: int
) -> dict[str, tuple[str, ...]]:
    """The last `keep` notes of every living agent, the fresh ones among them."""
    return {
        agent: (*notes.get(agent, ()), *([fresh[agent]] if fresh.get(agent) else ()))[-keep:]
        for agent in agents
        if notes.get(agent) or fresh.get(agent)
    }


async def refine_agents(
    done: Trajectory,
    workflow: Workflow,
    scores: Sequence[Contribution],
    meta_model: PromptedModel,
    *,
    number: int,
    goal: str,
    scope: Scope,
) -> tuple[dict[str, str], Usage]:
    """Diagnose every agent that acted and was scored, in parallel.

    Returns:
        Notes by agent, and their cost; an agent without a valid diagnosis gets no note.
    """

    async def refine(score: Contribution) -> tuple[str, str, Usage]:
        steps = [step for step in done.steps if step.agent == score.agent]
        found, usage = await meta_model.ask_or(
            None,
            Refinement,
            "refine",
            scope=scope.at(node=f"refine-{score.agent}"),
            task=done.question.input,
            role=workflow.agents_by_id[score.agent].prompt,
            work="\n".join(_experience(step) for step in steps),
            contribution=f"{score.score:g}: {score.reason}",
            goal=goal,
        )
        return score.agent, to_note(found, number) if found else "", usage

    acted = {step.agent for step in done.steps if step.error is None}
    found = await gather_all(refine(score) for score in scores if score.agent in acted)
    return {agent: note for agent, note, _ in found if note}, sum_usages(usage for _, _, usage in found)


def _experience(step: Step) -> str:
    read = "\n".join(f"from {message.source}: {message.text}" for message in step.inbox)
    return f"It read:\n{shorten(read, INBOX_LENGTH) or '(nothing but the task)'}\nIt did:\n{format_step(step)}"
