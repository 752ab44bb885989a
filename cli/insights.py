"""Commands on the experience that a saved workflow carries: insights list, export, import."""

import json
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.table import Table

from selfwire.cli import output
from selfwire.cli.json_output import add_json_option, add_result
from selfwire.cli.options import Home, Ref, with_library
from selfwire.core.errors import ConfigError, format_first_fault
from selfwire.core.values import fingerprint
from selfwire.core.workflow import Workflow
from selfwire.evolvers.experience.library import (
    Insight,
    LibraryConfig,
    Source,
    get_library,
    import_insights,
    load_import_counts,
    to_json,
    with_import_counts,
)
from selfwire.evolvers.experience.library import with_library as holding
from selfwire.evolvers.experience.retrieval import rank_insights
from selfwire.graphs.method_registry import describe_method, installed_methods
from selfwire.runtime.versions import Version
from selfwire.runtime.workflow_library import WorkflowLibrary

FORMAT = "selfwire-insights-1"
"""Format of an exported file."""


def build() -> typer.Typer:
    """The group of commands."""
    group = typer.Typer(no_args_is_help=True, help="List, export or import the insights that a workflow has learned.")
    for name, command in (("list", list_insights), ("export", export_insights), ("import", import_from_file)):
        group.command(name)(add_json_option(f"insights {name}", command))
    return group


def list_insights(ref: Ref, home: Home = None) -> None:
    """List the insights of a workflow, the best first, with the trajectories that they came from."""
    found = with_library(home, lambda library: get_insights(library, ref))
    add_result(insights=to_json(found))
    if not found:
        typer.echo(f"{ref} has learned no insights")
        return
    table = Table("id", "type", "utility", "uses", "insight", "from", box=None)
    for one in rank_insights(found):
        came = ", ".join(map(str, one.sources[:2])) + (f" and {len(one.sources) - 2} more" * (len(one.sources) > 2))
        table.add_row(one.id, one.profile.type, f"{one.utility:.2f}", str(one.uses), one.text, came)
    output.make_console().print(table)


def export_insights(
    ref: Ref,
    file: Annotated[Path, typer.Argument(help="A .json file; `-` writes to standard output.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    home: Home = None,
) -> None:
    """Write the insights of a workflow to a JSON file; each names the run and the trajectories that it came from."""
    found = with_library(home, lambda library: get_insights(library, ref))
    origin = with_library(home, lambda library: get_origin(library, ref))
    body = json.dumps({"format": FORMAT, "origin": origin, "insights": to_json(found)}, indent=2)
    add_result(insights=len(found), file=str(file))
    if str(file) == "-":
        add_result(export=json.loads(body))
        typer.echo(body)
        return
    output.refuse_existing(file, force)
    output.write_text(file, body + "\n", "the insights")
    typer.echo(f"wrote {len(found)} insights of {ref} to {file}")


def import_from_file(
    name: Annotated[str, typer.Argument(help="Name of a saved workflow.")],
    file: Annotated[Path, typer.Argument(help="A file that `insights export` wrote.")],
    home: Home = None,
) -> None:
    """Merge insights into a workflow as a new version; what both have gets the evidence of both, counted once."""
    given, origin = read_insights(file)

    async def merged(library: WorkflowLibrary) -> tuple[Version, int, int] | None:
        workflow = await load_with_insights(library, name)
        before, taken = get_library(workflow), load_import_counts(workflow, origin)
        if origin == await get_origin(library, name):  # what it holds came from here, and counts already
            taken = {**taken, **{one.id: (one.uses, one.successes) for one in before}}
        after, known = import_insights(before, given, max(LibraryConfig().size, len(before)), taken)
        if known == taken:
            return None
        now = with_import_counts(holding(workflow, after), origin, known).with_lineage(workflow, ())
        facts = {"why": f"imported {len(given)} insights from {file.name}", "method": workflow.method}
        version = await library.save(name, now, run=f"import-{secrets.token_hex(3)}", step=0, facts=facts)
        return version, len(before), len(after)

    done = with_library(home, merged)
    if done is None:
        typer.echo(f"{name} has taken in these insights before, with all their evidence; nothing is changed")
        return
    version, before, after = done
    add_result(version=version.ref, insights=after, before=before)
    typer.echo(f"{version.ref} ({version.fingerprint}) has {after} insights; there were {before}")


def read_insights(file: Path) -> tuple[tuple[Insight, ...], str]:
    """Insights out of an exported file, and where they come from; a file that does not say is its own origin.

    Raises:
        ConfigError: the file cannot be read, or is not an export of insights.
    """
    try:
        body: Any = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise ValueError(f"it does not say that it is {FORMAT}")
        plain = [{k: v for k, v in one.items() if k not in ("id", "utility")} for one in body["insights"]]
        return tuple(Insight.model_validate(one) for one in plain), str(body.get("origin") or fingerprint(plain))
    except ValidationError as error:
        raise ConfigError(f"{file} is no export of insights: {format_first_fault(error)}") from None
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ConfigError(f"{file} is no export of insights: {error}") from None


async def get_origin(library: WorkflowLibrary, ref: str) -> str | None:
    """Identifies a library of insights while it grows: its name and its first run."""
    if ref.endswith(".json"):
        return None
    version = await library.find(ref)
    return f"{version.name}/{(await library.history(version.name)).versions[0].run}"


async def get_insights(library: WorkflowLibrary, ref: str) -> tuple[Insight, ...]:
    """The insights of a workflow, their sources with the runs of the first versions that hold them.

    Raises:
        ConfigError: the workflow belongs to another method.
        LibraryError: there is no such workflow.
    """
    workflow = await load_with_insights(library, ref)
    runs = {} if ref.endswith(".json") else await _runs(library, ref)
    return tuple(
        one.replace(sources=tuple(s if s.run or s not in runs else s.replace(run=runs[s]) for s in one.sources))
        for one in get_library(workflow)
    )


async def load_with_insights(library: WorkflowLibrary, ref: str) -> Workflow:
    """A workflow of a method that learns insights.

    Raises:
        ConfigError: the workflow belongs to another method.
        LibraryError: there is no such workflow.
    """
    workflow = await library.load(ref)
    if not describe_method(workflow.method).learns_insights:
        names = ", ".join(one.name for one in installed_methods() if one.learns_insights)
        raise ConfigError(f"{ref!r} belongs to {workflow.method}, which learns no insights; methods that do: {names}")
    try:
        get_library(workflow)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{ref!r} holds insights that cannot be read: {error}") from None
    return workflow


async def _runs(library: WorkflowLibrary, ref: str) -> dict[Source, str]:
    version = await library.find(ref)
    runs: dict[Source, str] = {}
    for one in (await library.history(version.name)).versions:
        held: Workflow = await library.load(one.ref)
        for insight in get_library(held):
            for source in insight.sources:
                runs.setdefault(source, one.run)
    return runs
