"""The capability loop F^C: replicator weights, their effect on messages, and refinements (Sec. 3.3, Eq. 2)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import exp
from typing import NamedTuple

from selfwire.core.agent import MEMORY_NOTES, Agent
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.text import excerpt
from selfwire.core.trajectory import Message, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenMap
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.tacomas.config import FastConfig
from selfwire.evolvers.tacomas.judge import Contribution
from selfwire.evolvers.tacomas.rounds import RunSoFar, TacomasRound, render_goal
from selfwire.evolvers.tacomas.schemas import AgentRefinement, Refinement
from selfwire.evolvers.tacomas.slow import RefusedChange
from selfwire.evolvers.tacomas.work import Notes, cut_task, render_agent, render_graph, render_work
from selfwire.evolvers.trajectory_text import Described, describe_tools, find_name, gather_all, shorten

NOTE_LENGTH = 900
PROMPT_LENGTH = 2_000

UPDATES = {"prompt": "Rule", "memory": "Remember", "tool": "Tools"}
"""First word of an update for its agent, by kind."""


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


def share_budget(lengths: Sequence[int], weights: Sequence[float], budget: int) -> tuple[int, ...]:
    """Characters of each message that fit a budget, shared by weight (D1).

    A message shorter than its share leaves the rest to the others, again by weight.

    Args:
        weights: of their senders, >= 0; all 0 counts as all equal.
    """
    shares = list(lengths)
    open_, left = set(range(len(lengths))), float(budget)
    while open_:
        whole = sum(weights[i] for i in open_)
        part = {i: left * weights[i] / whole if whole > 0 else left / len(open_) for i in open_}
        fitting = {i for i in open_ if lengths[i] <= part[i] + 1e-9}
        if not fitting:
            for i in open_:
                shares[i] = int(part[i] + 1e-9)
            break
        left -= sum(lengths[i] for i in fitting)
        open_ -= fitting
    return tuple(shares)


def weigh_messages(
    inbox: Sequence[Message], weights: Mapping[str, float], budget: int, *, about: str = ""
) -> tuple[Message, ...]:
    """The messages by their senders' weights, heaviest first, each cut to its share of the budget (D1).

    A sender that is not in the team any more weighs 0; equal weights keep their order.

    Args:
        about: decides which passages of a long message stay.
    """
    ordered = sorted(inbox, key=lambda message: -weights.get(message.source, 0.0))
    shares = share_budget([len(m.text) for m in ordered], [weights.get(m.source, 0.0) for m in ordered], budget)
    return tuple(
        message if len(message.text) <= share else message.replace(text=excerpt(message.text, share, about))
        for message, share in zip(ordered, shares, strict=True)
    )


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


def drop_notes(notes: Notes, dropped: Mapping[str, Collection[int]]) -> dict[str, tuple[str, ...]]:
    """The notes without those that the coach withdraws, by their numbers from 1; other numbers are passed over."""
    return {
        agent: tuple(note for number, note in enumerate(kept, 1) if number not in dropped.get(agent, ()))
        for agent, kept in notes.items()
    }


def give_notes(team: Team, notes: Notes) -> dict[str, Agent]:
    """The team's agents by id, with notes in their memory; the oldest go where there are too many."""
    agents = dict(team.agents_by_id)
    for name, kept in notes.items():
        agents[name] = agents[name].replace(memory=(*agents[name].memory, *kept)[-MEMORY_NOTES:])
    return agents


def choose_coached(
    done: Trajectory, team: Team, scores: Sequence[Contribution], *, failed: Sequence[str], good: float
) -> tuple[Contribution, ...]:
    """Scores of agents that need a coach: those that acted and contributed little, and a failed answer's sink (D13)."""
    acted = {step.agent for step in done.steps if step.error is None}
    sink = team.agent_at(team.topology.sink).id
    living = team.agents_by_id
    return tuple(
        s
        for s in scores
        if s.agent in acted and s.agent in living and (s.score < good or (s.agent == sink and bool(failed)))
    )


class Coaching(NamedTuple):
    """Result of the coach.

    Attributes:
        notes: by agent; one without a valid diagnosis gets none and keeps all that it has.
        dropped: numbers of earlier notes that are withdrawn, by agent.
        refused: entries that reach nobody.
    """

    notes: Mapping[str, str] = FrozenMap()
    dropped: Mapping[str, tuple[int, ...]] = FrozenMap()
    refused: tuple[RefusedChange, ...] = ()
    usage: Usage = Usage()


async def refine_agents(
    team: Team,
    run: RunSoFar,
    meta_model: PromptedModel,
    *,
    tools: Mapping[str, Described],
    config: FastConfig,
    scope: Scope,
) -> Coaching:
    """Diagnose the agents that need it, in one call, or in parallel as `judge_each` says.

    Args:
        tools: of the run, whose descriptions are shown.
    """
    if not config.refines:
        return Coaching()
    last, done, failed = run.rounds[-1], run.done, run.rounds[-1].failed
    coached = choose_coached(done, team, last.contributions, failed=failed, good=config.good)
    groups = [[score] for score in coached] if config.judge_each else [coached]
    goal, work = render_goal(run), render_work(done)

    async def coach(
        group: Sequence[Contribution],
    ) -> tuple[dict[str, AgentRefinement], list[RefusedChange], Usage]:
        place = f"refine-{group[0].agent}" if len(group) == 1 else "refine"
        names, taken, refused = [score.agent for score in group], dict[str, AgentRefinement](), list[RefusedChange]()
        held = dict.fromkeys(tool for name in names for tool in team.agents_by_id[name].tools)
        found, usage = await meta_model.ask_or(
            None,
            Refinement,
            "refine",
            scope=scope.at(node=place),
            task=cut_task(done.question.input, f"{goal}\n{work}"),
            graph=render_graph(team),
            changes=_render_changes(last, team),
            trace=work,
            goal=goal,
            agents="\n\n".join(_render_coached(score, team, run.notes) for score in group),
            tools=describe_tools(list(held), team, tools),
        )
        for said in found.agents if found else ():
            agent = find_name(said.agent, names)
            if agent is not None and agent not in taken:
                taken[agent] = said
                continue
            reason = f"{agent} has advice already" if agent else f"this call coached {', '.join(names)} alone"
            refused.append(RefusedChange(change=shorten(f"advice for {said.agent}", 200), reason=reason))
        return taken, refused, usage

    replies = await gather_all(coach(group) for group in groups if group)
    given = {agent: refinement for found, *_ in replies for agent, refinement in found.items()}
    notes = {agent: to_note(refinement, last.number) for agent, refinement in given.items()}
    return Coaching(
        notes={agent: note for agent, note in notes.items() if note},
        dropped={agent: tuple(refinement.drop) for agent, refinement in given.items() if refinement.drop},
        refused=tuple(refused for _, some, _ in replies for refused in some),
        usage=sum_usages(usage for *_, usage in replies),
    )


def _render_changes(last: TacomasRound, team: Team) -> str:
    """The dead, and the newborns with their roles; "" without a birth or a death since the round."""
    joined = [f"{agent} ({team.agents_by_id[agent].role})" for agent in last.births]
    parts = (("left", last.deaths), ("joined", joined))
    return "; ".join(f"{word}: {', '.join(agents)}" for word, agents in parts if agents)


def _render_coached(score: Contribution, team: Team, notes: Notes) -> str:
    agent = team.agents_by_id[score.agent]
    held = render_agent(agent, notes, PROMPT_LENGTH)
    return f"[{agent.id}]\ncontribution: {score.score:g}. {score.reason}\n{held}"
