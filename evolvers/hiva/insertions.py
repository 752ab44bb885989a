"""A change of the edges of a program's graph, proposed from gradients on the team; f_G where the graph is not ours.

The paper changes the topology around each node. Of a program only edges that its builder holds can change, and what an
agent there may read and write is a field of the program's state: so a critic chooses one change of a list.
"""

from collections.abc import Mapping, Sequence

from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.usage import ZERO_USAGE, Usage, sum_usages
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.gradients import Gradient, describe_team
from selfwire.evolvers.hiva.schemas import ProgramEdit
from selfwire.evolvers.hiva.semantics import render_gradients
from selfwire.evolvers.hiva.structure import list_concerns
from selfwire.evolvers.prompted_model import DeclinedProposal, PromptedModel

INSERT = "INSERT_AGENT"
"""The operation of a rewiring that inserts an agent."""
TAKE_OUT = "TAKE_OUT_NODE"
"""The operation of a rewiring that leaves a node out."""
TRIES = 2
"""Most requests for a change; those after the first say why the reply before was refused."""


async def propose_program_edit(
    team: Team,
    gradients: Sequence[Gradient],
    places: Mapping[str, str],
    removals: Mapping[str, str],
    hindrances: Mapping[str, str],
    meta_model: PromptedModel,
    config: HivaConfig,
    *,
    scope: Scope,
) -> tuple[ProgramEdit | DeclinedProposal | None, Usage]:
    """Ask over all gradients that ask for a change of the team; None where nothing is to change.

    Args:
        places: where an agent may come in, each with a description.
        removals: changes that take a node out, each with a description.
        hindrances: why other changes cannot be made.

    Returns:
        A change that is listed, whose description has a legal length if it inserts an agent; and the cost.
    """
    concerns, spent, reason = list_concerns(gradients), list[Usage](), ""
    if not (concerns and (places or removals)):
        return None, ZERO_USAGE
    for _ in range(TRIES):
        reply, usage = await meta_model.try_ask(
            ProgramEdit,
            "insertion",
            scope=scope.at(phase="insert"),
            gradients=render_gradients(concerns, lambda gradient: f"at {gradient.agent}: {gradient.overall.strip()}"),
            team=describe_team(team),
            places=_list_lines(places),
            removals=_list_lines(removals),
            refused=f"Your last choice was refused: {reason}. Choose anew, or nothing." if reason else "",
        )
        spent.append(usage)
        if isinstance(reply, ModelError):
            return DeclinedProposal(by="critic", operation=INSERT, reason=str(reply)), sum_usages(spent)
        found = reply.model_copy(update={"place": reply.place.strip()})
        if not found.place:
            break
        if not (reason := _find_objection(found, places, removals, hindrances, config.prompt_length)):
            return found, sum_usages(spent)
    return DeclinedProposal(by="critic", operation=INSERT, reason=reason) if reason else None, sum_usages(spent)


def _find_objection(
    found: ProgramEdit,
    places: Mapping[str, str],
    removals: Mapping[str, str],
    hindrances: Mapping[str, str],
    most: int,
) -> str:
    length = len(found.description.strip())
    if found.place in hindrances:
        return f"{found.place!r} cannot be done: {hindrances[found.place]}"
    if found.place not in (known := [*places, *removals]):
        return f"{found.place!r} is no listed change; listed are {', '.join(known)}"
    if found.place in removals:
        return ""
    if not length:
        return "the new agent has no description"
    return f"the description has {length} characters; at most {most} are allowed" if length > most else ""


def _list_lines(described: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {what}" for name, what in described.items()) or "none"
