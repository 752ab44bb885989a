"""Saves a graph of the user's own, unedited, as a team."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.graphs.method import make_method
from selfwire.runs.inputs import choose_team_name
from selfwire.store.library import Version, open_library


def save_graph(program: str, name: str, config: Mapping[str, Any], home: str | None = None) -> Version:
    """Save a graph as a team, whose agents are its texts; the graph is imported.

    Args:
        config: fields of `OwnGraphConfig`: where the question goes and where the answer is, if the graph's schema does
            not show it.

    Raises:
        ConfigError: the name is taken, or the graph cannot be imported or asked.
    """
    name = choose_team_name(name)
    team = make_method(program, config).seed()

    async def save() -> Version:
        with await asyncio.to_thread(open_library, home) as library:
            if name in await library.names():
                raise ConfigError(
                    f"there is a team {name!r} already (selfwire history {name}); save the graph under another name"
                )
            facts = {"method": team.method, "why": "the graph as it is"}
            return await library.save(name, team, run=f"adopted-{secrets.token_hex(4)}", step=0, facts=facts)

    return asyncio.run(save())
