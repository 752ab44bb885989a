"""Writes a team as one file of plain Python: its LangGraph, as a person would write it, without this package."""

import re
from collections.abc import Mapping

from langchain_core.tools import BaseTool

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import import_user_module, is_graph
from selfwire.core.team import Team
from selfwire.core.values import FrozenMap
from selfwire.evals.baselines import BASELINES, VOTE
from selfwire.evolvers.hera.initial_team import METHOD, has_one_plan
from selfwire.evolvers.router.config import ROUTER
from selfwire.extras.langgraph_file.hera_file import HeraFile
from selfwire.extras.langgraph_file.team_file import CALCULATOR, OutsideTool, TeamFile
from selfwire.models.providers import is_offline
from selfwire.tools.ready import LangChainTool, load_tools

DEFAULT_MODEL = "openai:gpt-4o-mini"


def write_langgraph(
    team: Team, name: str, *, tools: str | None = None, model: str = "", models: Mapping[str, str] = FrozenMap()
) -> str:
    """Write a team as the source of a file that builds its LangGraph and does not import this package.

    Args:
        name: of the team, for its docstring and its graph.
        tools: of the user's own modules, as `module:name`, several between commas; the file imports them.
        model: by name, that the graph is built with where the environment names none.
        models: that agents may ask instead, by the names that they have for them.

    Raises:
        ConfigError: the team cannot be written; the message says why, and what can be done.
    """
    refuse_method(team)
    kind = HeraFile if team.method == METHOD and not has_one_plan(team) else TeamFile
    hosted = {called: _find_hosted(known) for called, known in models.items()}
    return kind(team, name, find_own_tools(tools), _find_hosted(model), hosted).write()


def _find_hosted(model: str) -> str:
    return model if ":" in model and not is_offline(model) else DEFAULT_MODEL


def find_own_tools(listed: str | None) -> dict[str, OutsideTool]:
    """Find tools in the user's modules, by the names that agents hold.

    Raises:
        ConfigError: one of them cannot be imported, or is no function and no LangChain tool.
    """
    found = dict[str, OutsideTool]()
    for place in map(str.strip, listed.split(",") if listed else ()):
        if place == CALCULATOR:
            continue
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", place) or place.partition(":")[0] in ("benchmark", "sql"):
            raise ConfigError(f"a file cannot import tool {place!r}; name one of a module of yours, as my_tools:search")
        loaded = [*load_tools(place).values()]
        if len(loaded) != 1 or not isinstance(loaded[0], LangChainTool):
            raise ConfigError(f"{place!r} is no single function or LangChain tool; name one of them")
        module, _, name = place.partition(":")
        is_function = not isinstance(getattr(import_user_module(module), name), BaseTool)
        found[loaded[0].spec.name] = OutsideTool(module, name, is_function, loaded[0].spec)
    return found


def refuse_method(team: Team) -> None:
    """Refuse a team whose way to work is no graph of its agents.

    Raises:
        ConfigError: it is one.
    """
    way_out = (
        "use it from Python as selfwire.load(NAME).graph(), which is a LangGraph too, or export it to a .json file"
    )
    if is_graph(team.method):
        raise ConfigError(f"{team.method} is a graph of your own: export its new prompts to a .patch file")
    if reason := REWIRED.get(team.method):
        raise ConfigError(f"a team of {team.method} is no file of plain Python: {reason}; {way_out}")
    if team.method not in {*BASELINES, "hiva", "hera"}:
        raise ConfigError(f"nothing is known of how {team.method} runs its teams, so none is written; {way_out}")
    if votes := [agent.id for agent in team.agents if agent.kind == VOTE]:
        raise ConfigError(
            f"agent {votes[0]!r} counts votes by this package's reading of answers, which no other file has; {way_out}"
        )
    if ROUTER in team.memory:
        raise ConfigError(
            "this team's trained router chooses by what each question means, and no fixed edges can do that; export a "
            f"version from before it was trained (`selfwire history NAME` lists them), or {way_out}"
        )


REWIRED: Mapping[str, str] = {
    "tacomas": "it writes, adds and removes agents anew for every question",
    "dytopo": "who reads whom is found anew in every round, by comparing what agents need with what they offer",
    "evomas": "a trained router draws its layers anew in every stage of a question",
    "self-consistency": "it asks one agent several times and counts votes",
}
"""Reasons why methods' teams are not written."""
