"""Commands of LangSmith's prompt hub: push, pull."""

import secrets
from typing import Annotated

import typer

from selfwire.cli import output
from selfwire.cli.json_output import add_result
from selfwire.cli.options import Home, Ref, with_library
from selfwire.cli.versions import format_reasons
from selfwire.core.errors import ConfigError
from selfwire.core.plugins import is_graph
from selfwire.core.team import Team, diff_teams
from selfwire.evals.langsmith import open_client
from selfwire.evals.prompt_hub import HubPrompt, list_prompts, pull_prompts, push_prompts
from selfwire.graphs.approval import ApprovalAnswer, edit_by_hand
from selfwire.graphs.own_graph import read_texts
from selfwire.runs.inputs import load_to_ask
from selfwire.store.library import Library, Version

KEPT = ("method", "model", "models", "tools")
"""Facts of a version that hold for the same team with other prompts."""


def _load_prompts(ref: str, home: str | None) -> tuple[Team, Version, list[HubPrompt]]:
    """Load a saved team, and its prompts as the hub calls them.

    Raises:
        ConfigError: it is a file, or the texts of the user's own graph cannot be read.
        LibraryError: there is none.
    """
    team, version = with_library(home, lambda library: load_to_ask(ref, library))
    if version is None:
        raise ConfigError(f"{ref} is a file; name a saved team, by whose name its prompts are known in LangSmith")
    texts, unread = read_texts(team.method) if is_graph(team.method) else ({}, "")
    if unread:
        raise ConfigError(f"the texts of {team.method} cannot be read: {unread}")
    return team, version, list_prompts(version.name, team, texts)


def push(ref: Ref, home: Home = None) -> None:
    """Write the prompts of a saved team to LangSmith's prompt hub, one prompt per agent, called NAME-AGENT."""
    team, version, prompts = _load_prompts(ref, home)
    with open_client() as client:
        change = f"{version.ref} ({version.fingerprint}): {format_reasons(version)}".rstrip(": ")
        pushed = push_prompts(client, prompts, f"the team {version.name} of selfwire, method {team.method}", change)
    add_result(version=version.ref, prompts=pushed)
    for name, address in pushed.items():
        typer.echo(f"{name}: {address or 'is there already'}")


def pull(
    ref: Ref,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change; save nothing.")] = False,
    home: Home = None,
) -> None:
    """Take the prompts of a saved team from LangSmith's prompt hub, as a new version; nothing else of it changes."""
    team, version, prompts = _load_prompts(ref, home)
    with open_client() as client:
        changed, origin = pull_prompts(client, prompts), f"edited in LangSmith at {client.api_url}"
    add_result(version=version.ref, changed=sorted(changed))
    if not changed:
        typer.echo(f"the prompts in LangSmith are those of {version.ref}; nothing is changed")
        return
    answer = ApprovalAnswer(answer="edit", why=origin, prompts=changed)
    after, _ = edit_by_hand(team, answer, lambda edited: None)
    output.show_changes(diff_teams(team, after), team, after)
    if dry_run:
        typer.echo("nothing is saved; leave --dry-run out to save this as a new version", err=True)
        return
    facts = {name: version.facts[name] for name in KEPT if name in version.facts}

    async def save(library: Library) -> Version:
        run = f"pull-{secrets.token_hex(3)}"
        return await library.save(version.name, after, run=run, step=0, facts={**facts, "why": origin})

    saved = with_library(home, save)
    add_result(saved=saved.ref)
    typer.echo(f"saved as {saved.ref} ({saved.fingerprint}); it was {version.ref}, and is not measured yet")
