"""Keeps teams that people's graphs evolve as versions of a saved team."""

import os

from langgraph.config import get_config

from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.values import fingerprint, is_id
from selfwire.graphs.machine import Saver
from selfwire.store.library import Library, Version

STUDIO = "studio"
"""Origin of versions that a server saves, and the tag of the newest one."""
DIGITS = 6
"""Digits of a thread's id in the names of the versions that it saves."""


def make_saver(library: Library, name: str, method: str, embedder: str) -> Saver:
    """Make a function that saves an evolved team as a version of `name`, keyed by thread and step."""

    async def save(team: Team, scope: Scope, step: int) -> Version:
        run = scope.run if is_id(scope.run) else fingerprint(scope.run)
        taken = {v.version: v.fingerprint for v in await _list_versions(library, name)}
        while taken.get(f"{run}.{step}", team.fingerprint) != team.fingerprint:
            step += 1  # a fork of the thread saved another one there
        facts = {"method": method, "question": scope.task, "embedder": embedder}
        return await library.save(name, team, run=run, step=step, facts=facts)

    return save


def make_studio_saver(library: Library, name: str, method: str, embedder: str) -> Saver:
    """Make a function that saves what a server's run has evolved on a branch of its own.

    Versions are called after the end of the thread's id and counted from 1, such as `studio-3f2a9c.1`; the newest one
    has the tag `studio`. The head stays where it is, unless all versions of the name are from a server.
    """

    async def save(team: Team, scope: Scope, step: int) -> Version:
        run = f"{STUDIO}-{scope.run[-DIGITS:] if is_id(scope.run[-DIGITS:]) else fingerprint(scope.run)[:DIGITS]}"
        versions = await _list_versions(library, name)
        own = {saved.fingerprint: saved for saved in versions if saved.run == run}
        if saved := own.get(team.fingerprint):
            return saved
        settings = get_config().get("configurable", {})
        user, tools = settings.get("langgraph_auth_user_id"), os.environ.get("SELFWIRE_TOOLS")
        facts = {"method": method, "origin": STUDIO, "thread": scope.run, **({"user": user} if user else {})}
        facts |= {"question": scope.task, "embedder": embedder, **({"tools": tools} if tools else {})}
        beside = any(known.facts.get("origin") != STUDIO for known in versions)
        number = 1 + max((saved.step for saved in own.values()), default=0)
        version = await library.save(name, team, run=run, step=number, facts=facts, beside=beside)
        await library.tag(name, version.version, STUDIO)
        return version

    return save


async def _list_versions(library: Library, name: str) -> tuple[Version, ...]:
    return (await library.history(name)).versions if name in await library.names() else ()
