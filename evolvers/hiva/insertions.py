"""A change of a program's edges or settings, proposed from gradients on the team; f_G where the graph is not ours.

The paper changes the topology around each node. Of a program only edges that its builder holds can change, and what an
agent there may read and write is a field of the program's state: so a critic chooses one change of a list.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.usage import ZERO_USAGE, Usage, sum_usages
from selfwire.core.values import FrozenMap
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.gradients import Gradient, describe_team
from selfwire.evolvers.hiva.schemas import ProgramEdit
from selfwire.evolvers.hiva.semantics import render_gradients
from selfwire.evolvers.hiva.structure import list_concerns
from selfwire.evolvers.prompted_model import DeclinedProposal, PromptedModel

INSERT = "INSERT_AGENT"
"""The operation of a rewiring that inserts an agent."""
INSERT_BESIDE = "INSERT_BESIDE"
"""The operation of a rewiring that has an agent work beside a node."""
TAKE_OUT = "TAKE_OUT_NODE"
"""The operation of a rewiring that leaves a node out."""
SET_VALUE = "SET_VALUE"
"""The operation of a rewiring that changes a setting."""
TRIES = 2
"""Most requests for a change; those after the first say why the reply before was refused."""


class ProgramChanges(NamedTuple):
    """Changes of a program's edges that can be made, each with a description, by name.

    Attributes:
        places: where an agent may come in.
        specialists: beside which nodes one may work.
        removals: which nodes may be taken out.
        settings: which settings may get another value.
        hindrances: why others of these cannot be made.
        find_fault: finds why a setting cannot have the chosen value; "" if it can.
        closed: why no edge of the program can change; "" if some can.
    """

    places: Mapping[str, str] = FrozenMap()
    specialists: Mapping[str, str] = FrozenMap()
    removals: Mapping[str, str] = FrozenMap()
    settings: Mapping[str, str] = FrozenMap()
    hindrances: Mapping[str, str] = FrozenMap()
    find_fault: Callable[[ProgramEdit], str] = lambda found: ""
    closed: str = ""


async def propose_program_edit(
    team: Team,
    gradients: Sequence[Gradient],
    changes: ProgramChanges,
    meta_model: PromptedModel,
    config: HivaConfig,
    *,
    scope: Scope,
) -> tuple[ProgramEdit | DeclinedProposal | None, Usage]:
    """Ask for one change. Edges are changed only by gradients that concern the topology, settings by any.

    Returns:
        A change that is listed, whose prompts have a legal length if it brings an agent, and whose value is allowed if
        it changes a setting; None for no change; and the cost. Where gradients ask for agents that the program can
        have nowhere, the reason is declined.
    """
    concerns, spent, reason, operation = list_concerns(gradients), list[Usage](), "", INSERT
    if not concerns:
        changes = changes._replace(places={}, specialists={}, removals={})
    if changes.settings:
        concerns = [gradient for gradient in gradients if gradient.overall.strip()]
    if not (concerns and any(changes[:4])):
        is_closed = bool(list_concerns(gradients) and changes.closed)
        reason = changes.closed
        return (DeclinedProposal(by="critic", operation=INSERT, reason=reason) if is_closed else None), ZERO_USAGE
    for _ in range(TRIES):
        reply, usage = await meta_model.try_ask(
            ProgramEdit,
            "insertion",
            scope=scope.at(phase="insert"),
            gradients=render_gradients(concerns, lambda gradient: f"at {gradient.agent}: {gradient.overall.strip()}"),
            team=describe_team(team),
            places=_list_lines(changes.places),
            specialists=_list_lines(changes.specialists),
            removals=_list_lines(changes.removals),
            settings=_list_lines(changes.settings),
            refused=f"Your last choice was refused: {reason}. Choose anew, or nothing." if reason else "",
        )
        spent.append(usage)
        if isinstance(reply, ModelError):
            return DeclinedProposal(by="critic", operation=INSERT, reason=str(reply)), sum_usages(spent)
        found = reply.model_copy(update={"place": reply.place.strip()})
        if not found.place:
            break
        if not (reason := _find_objection(found, changes, config.prompt_length)):
            return found, sum_usages(spent)
        operation = SET_VALUE if found.place in changes.settings else INSERT
    return DeclinedProposal(by="critic", operation=operation, reason=reason) if reason else None, sum_usages(spent)


def _find_objection(found: ProgramEdit, changes: ProgramChanges, most: int) -> str:
    place, known = found.place, [name for group in changes[:4] for name in group]
    if place in changes.hindrances:
        return f"{place!r} cannot be done: {changes.hindrances[place]}"
    if place not in known:
        return f"{place!r} is no listed change; listed are {', '.join(known)}"
    if place in changes.settings:
        return changes.find_fault(found) if found.value.strip() else f"{place!r} needs a value"
    prompts = {} if place in changes.removals else {"description": found.description.strip()}
    if place in changes.specialists:
        prompts["merge"] = found.merge.strip()
    for name, prompt in prompts.items():
        if not prompt:
            return f"the new agent has no {name}"
        if len(prompt) > most:
            return f"the {name} has {len(prompt)} characters; at most {most} are allowed"
    return ""


def _list_lines(described: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {what}" for name, what in described.items())
