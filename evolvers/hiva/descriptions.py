"""Descriptions of a program's tools, rewritten from gradients on the use of these tools; f_P for another text.

The paper evolves prompts, and tools that a team writes itself. The tools of a program are its own: their code, names
and arguments stay, and only what models read of them changes. A description is the prompt of an agent without a node.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from selfwire.core.chat import ToolSpec
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.values import FrozenMap, FrozenModel, Id, is_id
from selfwire.evolvers.hiva.gradients import Gradient
from selfwire.evolvers.hiva.semantics import RewriteResult, ask_rewrite, render_gradients
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trajectory_text import describe_tools, gather_all

LONGEST = 1000
"""Most characters of an evolved description; OpenAI takes 1024."""


class DescribedTool(FrozenModel):
    """A tool of the program as critics see it."""

    spec: ToolSpec


def make_toolbox(team: Team, names: Mapping[Id, str]) -> dict[str, DescribedTool]:
    """Make the tools of a program, by name, with the descriptions that a team has.

    Args:
        names: of the tools, by the agent whose prompt describes it.
    """
    texts = {name: team.agents_by_id[agent].prompt for agent, name in names.items() if agent in team.agents_by_id}
    return {
        name: DescribedTool(spec=ToolSpec(name=name, description=text, parameters=FrozenMap()))
        for name, text in texts.items()
        if is_id(name)
    }


def offer_tools(team: Team, offered: Mapping[Id, Iterable[str]]) -> Team:
    """Return the team whose agents have the tools that the program offered them, by the tools' names."""
    agents = [agent.replace(tools=tuple(filter(is_id, offered.get(agent.id, ())))) for agent in team.agents]
    return team.replace(agents=agents)


def blame_tools(
    gradients: Iterable[Gradient], offered: Mapping[Id, Sequence[str]], names: Mapping[Id, str], sink: Id
) -> list[Gradient]:
    """Find the gradients at tools: feedback on the use of tools goes to those that it names, of those on offer.

    An agent with one tool need not name it. At the sink, whose gradient has no part for tools, the whole text counts.

    Args:
        offered: names of the tools that each agent could call.
        names: of the tools, by the agent whose prompt describes it.
    """
    found = list[Gradient]()
    for gradient in gradients:
        tools, text = offered.get(gradient.agent, ()), gradient.tool.strip()
        if gradient.sentiment == "positive" or not (text or gradient.agent == sink):
            continue
        blamed = {tool for tool in tools if _is_named(tool, text or gradient.text)}
        if text and len(tools) == 1:
            blamed.update(tools)
        found += [
            Gradient(
                task=gradient.task,
                node=gradient.node,
                agent=agent,
                tool=text or gradient.text,
                sentiment="critical",
                concerns="semantics",
            )
            for agent, name in names.items()
            if name in blamed
        ]
    return found


def _is_named(tool: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(tool)}(?!\w)", text, re.IGNORECASE) is not None


async def propose_descriptions(
    team: Team,
    gradients: Sequence[Gradient],
    names: Mapping[Id, str],
    meta_model: PromptedModel,
    *,
    placeholders: Mapping[Id, str],
    scope: Scope,
) -> RewriteResult:
    """f_P for descriptions: one call per tool that was blamed, over all gradients at it.

    Args:
        gradients: of `blame_tools`.
        names: of the tools, by the agent whose prompt describes it.
        placeholders: words that a description must keep.
    """
    toolbox = make_toolbox(team, names)

    mine = [(agent, [g for g in gradients if g.agent == agent.id]) for agent in team.agents]
    found = await gather_all(
        ask_rewrite(
            agent,
            meta_model,
            "description",
            scope=scope,
            length=LONGEST,
            why=" ".join(g.tool for g in some),
            name=names[agent.id],
            gradients=render_gradients(some, lambda gradient: gradient.tool.strip()),
            tools=describe_tools([name for name in toolbox if name != names[agent.id]], team, toolbox),
            placeholders=placeholders.get(agent.id, ""),
        )
        for agent, some in mine
        if some
    )
    return RewriteResult.of(found)
