"""A new agent on an edge of a program's graph, proposed from gradients on the team; f_G where the graph is not ours.

The paper changes the topology around each node. Of a program only edges that its builder holds can be split, and what
an agent there may read and write is a field of the program's state: so a critic chooses among places, one at a time.
"""

from collections.abc import Mapping, Sequence

from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.gradients import Gradient, describe_team
from selfwire.evolvers.hiva.schemas import AgentInsertion
from selfwire.evolvers.hiva.semantics import render_gradients
from selfwire.evolvers.hiva.structure import list_concerns
from selfwire.evolvers.prompted_model import DeclinedProposal, PromptedModel

INSERT = "INSERT_AGENT"
"""The operation of a rewiring that inserts an agent."""


async def propose_insertion(
    team: Team,
    gradients: Sequence[Gradient],
    places: Mapping[str, str],
    meta_model: PromptedModel,
    config: HivaConfig,
    *,
    scope: Scope,
) -> tuple[AgentInsertion | DeclinedProposal | None, Usage]:
    """Ask once over all gradients that ask for a change of the team; None where nothing is to be inserted.

    Args:
        places: where an agent may come in, each with a description.

    Returns:
        An insertion whose place is one of these and whose description has a legal length; and the cost.
    """
    concerns = list_concerns(gradients)
    if not (concerns and places):
        return None, ZERO_USAGE
    reply, usage = await meta_model.try_ask(
        AgentInsertion,
        "insertion",
        scope=scope.at(phase="insert"),
        gradients=render_gradients(concerns, lambda gradient: f"at {gradient.agent}: {gradient.overall.strip()}"),
        team=describe_team(team),
        places="\n".join(f"{place}: {what}" for place, what in places.items()),
    )
    if isinstance(reply, ModelError):
        return DeclinedProposal(by="critic", operation=INSERT, reason=str(reply)), usage
    place, length = reply.place.strip(), len(reply.description.strip())
    if not place:
        return None, usage
    reason = ""
    if place not in places:
        reason = f"{place!r} is no place for an agent; places are {', '.join(places)}"
    elif not length:
        reason = "the new agent has no description"
    elif length > config.prompt_length:
        reason = f"the description has {length} characters; at most {config.prompt_length} are allowed"
    if reason:
        return DeclinedProposal(by="critic", operation=INSERT, reason=reason), usage
    return AgentInsertion(place=place, name=reply.name, description=reply.description, reason=reply.reason), usage
