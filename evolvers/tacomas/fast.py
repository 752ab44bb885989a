"""The capability loop F^C: replicator weights and refinements, every round (Sec. 3.3, Eq. 2)."""

from collections.abc import Iterable, Mapping, Sequence
from math import exp

from selfwire.core.agent import Agent
from selfwire.core.excerpt import excerpt
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.workflow import Workflow
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.tacomas.config import FastConfig
from selfwire.evolvers.tacomas.judge import Contribution
from selfwire.evolvers.tacomas.schemas import AgentRefinement, Refinement
from selfwire.evolvers.tacomas.slow import render_graph
from selfwire.evolvers.tacomas.work import Notes, cut_task, render_agent, render_work
from selfwire.evolvers.trace_text import gather_all

NOTE_LENGTH = 900
PROMPT_LENGTH = 2_000

UPDATES = {"prompt": "Rule", "memory": "Remember", "tool": "Tools"}
"""What an update is to its agent, by kind."""


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


def to_note(refinement: AgentRefinement, number: int) -> str:
    """A refinement after round t as a note for its agent, which counts rounds from 1; "" if it says nothing."""
    parts = (("Fault", refinement.errors), ("Next", refinement.plan), (UPDATES[refinement.kind], refinement.update))
    note = " ".join(f"{name}: {' '.join(text.split())}" for name, text in parts if text.strip())
    return excerpt(f"After round {number + 1}. {note}", NOTE_LENGTH) if note else ""


def append_notes(
    notes: Notes, fresh: Mapping[str, str], agents: Iterable[str], *, keep: int
) -> dict[str, tuple[str, ...]]:
    """The last `keep` notes of every living agent, the fresh ones among them."""
    return {
        agent: (*notes.get(agent, ()), *([fresh[agent]] if fresh.get(agent) else ()))[-keep:]
        for agent in agents
        if notes.get(agent) or fresh.get(agent)
    }


def choose_coached(
    done: Trajectory, workflow: Workflow, scores: Sequence[Contribution], *, failed: Sequence[str], good: float
) -> tuple[Contribution, ...]:
    """Who needs a coach: those who acted and contributed little, and the sink where the answer fails an item (D13)."""
    acted = {step.agent for step in done.steps if step.error is None}
    sink = workflow.agent_at(workflow.topology.sink).id
    return tuple(s for s in scores if s.agent in acted and (s.score < good or (s.agent == sink and bool(failed))))


async def refine_agents(
    done: Trajectory,
    workflow: Workflow,
    scores: Sequence[Contribution],
    meta_model: PromptedModel,
    *,
    number: int,
    failed: Sequence[str],
    notes: Notes,
    config: FastConfig,
    scope: Scope,
) -> tuple[dict[str, str], Usage]:
    """Diagnose the agents that need it, in one call, or in parallel as `judge_each` says.

    Args:
        failed: goals that the answer has not reached.
        notes: those that the agents have so far.

    Returns:
        Notes by agent, and their cost; an agent without a valid diagnosis gets no note.
    """
    if not config.refines:
        return {}, Usage()
    coached = choose_coached(done, workflow, scores, failed=failed, good=config.good)
    groups = [[one] for one in coached] if config.judge_each else [coached]
    goals = [*failed, *([] if done.answer else ["An answer: the last round ended without one."])]
    goal, work = "\n".join(f"- {one}" for one in goals), render_work(done)

    async def coach(group: Sequence[Contribution]) -> tuple[dict[str, str], Usage]:
        place = f"refine-{group[0].agent}" if len(group) == 1 else "refine"
        found, usage = await meta_model.ask_or(
            None,
            Refinement,
            "refine",
            scope=scope.at(node=place),
            task=cut_task(done.question.input, f"{goal}\n{work}"),
            graph=render_graph(workflow),
            trace=work,
            goal=goal,
            agents="\n\n".join(_render_coached(one, workflow, notes) for one in group),
        )
        names, advice = {one.agent for one in group}, found.agents if found else []
        return {
            one.agent.strip(): to_note(one, number) for one in reversed(advice) if one.agent.strip() in names
        }, usage

    replies = await gather_all(coach(group) for group in groups if group)
    fresh = {agent: note for found, _ in replies for agent, note in found.items() if note}
    return fresh, sum_usages(usage for _, usage in replies)


def _render_coached(score: Contribution, workflow: Workflow, notes: Notes) -> str:
    agent = workflow.agents_by_id[score.agent]
    held = render_agent(agent, notes, PROMPT_LENGTH)
    return f"[{agent.id}]\ncontribution: {score.score:g}. {score.reason}\n{held}"
