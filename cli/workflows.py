"""Commands that read and move saved workflows: show, diff, history, rollback, export."""

from pathlib import Path
from typing import Annotated

import typer

from selfwire.cli import output
from selfwire.cli.history_output import show_history
from selfwire.cli.json_output import add_result
from selfwire.cli.options import Home, Ref, refuse_unused, with_library
from selfwire.cli.trajectories import is_run, show_run
from selfwire.core import drawing
from selfwire.core.errors import ConfigError
from selfwire.core.workflow import Workflow
from selfwire.core.workflow_diff import diff_workflows
from selfwire.runs.evaluation.systems import make_seed_team
from selfwire.runs.targets import describe_clashes, find_kind, load_saved
from selfwire.runtime.blobs import find_blob_references
from selfwire.runtime.exports import write_workflow
from selfwire.runtime.versions import Version
from selfwire.runtime.workflow_library import WorkflowLibrary


def show(
    ctx: typer.Context,
    ref: Annotated[
        str,
        typer.Argument(help="A run, a saved team (name, name@version, team:name, fingerprint, .json), or a method."),
    ],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print only a Mermaid flowchart.")] = False,
    task: Annotated[str | None, typer.Option(help="Of a run: this task's messages and routing.")] = None,
    at: Annotated[
        str | None, typer.Option(help="Of a run: the phase or system to look in, such as 2/gate/candidate or single.")
    ] = None,
    home: Home = None,
) -> None:
    """Show a saved team, or the seed team of a method, or the tasks of a run, or one task of a run."""
    if is_run(home, ref):
        refuse_unused(ctx, ["mermaid"], f"{ref} is a run; name a workflow")
        show_run(home, ref, task, at)
        return
    refuse_unused(ctx, ["task", "at"], f"{ref} is no run; name one, as `selfwire runs` lists them")
    title, version = "", None
    if kind := find_kind(ref):
        for line in describe_clashes([ref], with_library(home, lambda library: library.names())):
            typer.echo(line, err=True)
        workflow, title = make_seed_team(ref), f"{kind} {ref}, its seed team"
    else:
        workflow, version = with_library(home, lambda library: load_saved(ref, library))
    add_result(version=version, team=workflow)
    if mermaid:
        typer.echo(drawing.to_mermaid(workflow.topology))
        return
    output.show_workflow(workflow, version, title)


def diff(before: Ref, after: Ref, home: Home = None) -> None:
    """Show what changed from one workflow to another."""

    async def both(library: WorkflowLibrary) -> tuple[Workflow, Workflow]:
        return await library.load(before), await library.load(after)

    old, new = with_library(home, both)
    found = diff_workflows(old, new)
    add_result(before=old.fingerprint, after=new.fingerprint, changes=found)
    output.show_changes(found, old, new)


def history(
    name: Annotated[str | None, typer.Argument(help="Name of a workflow; without it, all names.")] = None,
    home: Home = None,
) -> None:
    """List the versions of a workflow, from old to new; * marks the head."""
    if name is None:
        names = with_library(home, lambda library: library.names())
        add_result(names=names)
        typer.echo("\n".join(names) if names else "nothing has been saved yet")
        return
    found = with_library(home, lambda library: library.history(name))
    add_result(history=found)
    show_history(found)


def rollback(
    name: Annotated[str, typer.Argument(help="Name of a workflow.")],
    version: Annotated[str, typer.Argument(help="A version as `selfwire history` lists it, a step or a tag.")],
    home: Home = None,
) -> None:
    """Make an older version of a workflow the one that its name means; nothing is deleted."""

    async def moved(library: WorkflowLibrary) -> tuple[Version, Version]:
        return await library.head(name), await library.rollback(name, version)

    before, now = with_library(home, moved)
    add_result(before=before.ref, now=now.ref)
    typer.echo(f"{name} is now {now.ref} ({now.fingerprint}); it was {before.ref} ({before.fingerprint})")


def export(
    ref: Ref,
    file: Annotated[Path, typer.Argument(help="A .json file; `-` writes to standard output.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    home: Home = None,
) -> None:
    """Write a workflow to a JSON file that every command takes in place of a name."""
    workflow, _ = with_library(home, lambda library: load_saved(ref, library))
    if str(file) == "-":
        add_result(team=workflow, fingerprint=workflow.fingerprint)
        typer.echo(workflow.model_dump_json(indent=2))
        if find_blob_references(workflow.memory):
            typer.echo("its router's weights are not in this; export to a file to have them beside it", err=True)
        return
    if file.suffix != ".json":
        raise ConfigError(f"export to a file that ends in .json, not to {file}, so that commands take it for one")
    output.refuse_existing(file, force)
    beside = write_workflow(workflow, file)
    add_result(files=[str(one) for one in (file, *beside)], fingerprint=workflow.fingerprint)
    typer.echo(f"wrote {ref} ({workflow.fingerprint}) to {', with '.join(map(str, (file, *beside)))}")
