"""Frozen parts of a team, and rewirings without the edits that would change them. Method-free.

agent:NAME   the agent with its prompt, tools and notes, and the nodes at which it works
edges        edges, entry and sink
prompts      prompts, roles and notes of all agents; agents may come and go
tools        the team's own tools, and the tools that each agent holds
models       which model each agent asks
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from selfwire.core.edits import Edit, RefusedRewiring, Rewiring, format_edit
from selfwire.core.errors import ConfigError, EditError
from selfwire.core.plugins import is_graph
from selfwire.core.team import Team

AGENT = "agent:"
"""Stands before the name of a frozen agent."""
FIXED = {
    "edges": "edges, entry and sink of the team",
    "prompts": "prompts of all agents",
    "tools": "the team's own tools, and the tools that each agent holds",
    "models": "which model each agent asks",
}
"""Parts of every team that can be frozen, in the words of critics."""


def check_frozen(frozen: Sequence[str], team: Team) -> None:
    """Check that a team has what is to be frozen.

    Raises:
        ConfigError: it has no such part, or no agent of this name.
    """
    for part in frozen:
        name = part.removeprefix(AGENT)
        if part not in FIXED and (name == part or name not in team.agents_by_id):
            agents = ", ".join(AGENT + agent.id for agent in team.agents)
            raise ConfigError(f"freeze {part!r}: the team has no such part; it has {', '.join(FIXED)}, {agents}")


def describe_frozen(frozen: Sequence[str]) -> str:
    """Describe what is frozen, for critics; "" if nothing is."""
    parts = [FIXED.get(part, f"the agent {part.removeprefix(AGENT)}") for part in dict.fromkeys(frozen)]
    return f"These are fixed, so propose no change of them: {'; '.join(parts)}." if parts else ""


def find_frozen_change(before: Team, after: Team, frozen: Sequence[str]) -> str:
    """Find the first frozen part that differs between two teams; "" if none does."""
    return next((part for part in frozen if _get_part(before, after, part) != _get_part(after, before, part)), "")


def _get_part(team: Team, other: Team, part: str) -> Any:
    """A part as it can be compared with the other team's; of agents those that both have."""
    if part.startswith(AGENT):
        name = part.removeprefix(AGENT)
        return team.agents_by_id.get(name), [node for node in team.topology.nodes if node.agent == name]
    if part == "edges":
        return team.topology.edges, team.topology.entry, team.topology.sink
    both = [agent for agent in team.agents if agent.id in other.agents_by_id]
    if part == "models":
        return [agent.model for agent in both]
    if part == "prompts":
        return [(agent.prompt, agent.role, agent.memory) for agent in both]
    return [agent.tools for agent in both], [tool.model_dump(exclude={"record"}) for tool in team.tools]


def drop_frozen(
    team: Team, rewirings: Sequence[Rewiring], frozen: Sequence[str], seed: Team
) -> tuple[tuple[Rewiring, ...], tuple[RefusedRewiring, ...]]:
    """Take the edits that change frozen parts out of rewirings, which apply one after the other.

    The rest of a rewiring stays if it works alone: it is legal, leaves no node loose, and no agent or tool without a
    use. Edits of the topology hang together, so that they stay or go as a group.

    Args:
        seed: the team that the evolution began with; an agent that has gone may not come back with another prompt.

    Returns:
        The rewirings that stay, and what was taken out, with reasons.
    """

    def find_change(after: Team) -> str:
        return find_frozen_change(team, after, frozen) or find_frozen_change(seed, after, frozen)

    now, kept, refused = team, list[Rewiring](), list[RefusedRewiring]()
    for rewiring in rewirings:
        rest, dropped, reason = _split(now, rewiring, find_change)
        try:
            after = now.apply(rewiring.replace(edits=rest)) if rest else now
            if faults := find_change(after) or (dropped and sorted(_find_faults(after) - _find_faults(now))):
                raise EditError("; ".join(faults) if isinstance(faults, list) else f"it changes {faults}")
        except EditError as error:
            reason = f"{reason}; the rest does not work without it: {error}" if dropped else str(error)
            refused.append(RefusedRewiring(rewiring=rewiring, reason=reason))
            continue
        if dropped:
            refused.append(RefusedRewiring(rewiring=rewiring.replace(edits=dropped), reason=reason))
        if rest:
            now = after
            kept.append(rewiring.replace(edits=rest) if dropped else rewiring)
    return _drop_loose(team, kept, refused, find_change)


def _split(
    team: Team, rewiring: Rewiring, find_change: Callable[[Team], str]
) -> tuple[tuple[Edit, ...], tuple[Edit, ...], str]:
    """Edits that change nothing frozen, those that do, and the reason."""
    dropped, wiring, reason = list[Edit](), list[Edit](), ""
    for edit in rewiring.edits:
        try:
            after = team.apply(rewiring.replace(edits=(edit,)))
        except EditError:  # for want of what was taken out, or by itself; the rest is applied as a whole
            continue
        if after.topology != team.topology:
            wiring.append(edit)
        if part := find_change(after):
            dropped.append(edit)
            reason = reason or f"{format_edit(edit)} changes what is frozen: {part}"
        else:
            team = after
    if any(edit in wiring for edit in dropped):
        dropped += wiring
    rest = tuple(edit for edit in rewiring.edits if edit not in dropped)
    return rest, tuple(edit for edit in rewiring.edits if edit in dropped), reason


def _find_faults(team: Team) -> frozenset[str]:
    """Problems of the topology, and agents and own tools that nothing uses."""
    used = set(team.topology.agents.values())
    held = {tool for agent in team.agents for tool in agent.tools}
    idle = [f"no node uses agent {agent.id}" for agent in team.agents if agent.id not in used]
    idle += [f"no agent holds tool {tool.name}" for tool in team.tools if tool.name not in held]
    return frozenset([*_list_problems(team), *idle])


def _list_problems(team: Team) -> list[str]:
    """List the problems of a topology; none of a graph of the user's own, which it only shows."""
    return [] if is_graph(team.method) else [*map(str, team.topology.problems())]


def _drop_loose(
    team: Team, kept: list[Rewiring], refused: list[RefusedRewiring], find_change: Callable[[Team], str]
) -> tuple[tuple[Rewiring, ...], tuple[RefusedRewiring, ...]]:
    """Take the last rewirings of a topology out until it may run, as a repair of it may have been refused."""
    known = {*_list_problems(team)}
    while kept:
        teams = [team]
        for rewiring in [*kept]:
            after, illegal = teams[-1].apply_legal([rewiring])
            if illegal:
                kept.remove(rewiring)
                refused += illegal
            else:
                teams.append(after)
        problems = [problem for problem in _list_problems(teams[-1]) if problem not in known]
        if not (fault := (problems or [find_change(teams[-1])])[0]):
            break
        place = max((i for i, (a, b) in enumerate(pairwise(teams)) if a.topology != b.topology), default=-1)
        reason = f"without what is frozen the team would not run: {fault}"
        refused.append(RefusedRewiring(rewiring=kept.pop(place), reason=reason))
    return tuple(kept), tuple(refused)
