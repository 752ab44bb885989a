"""Commands that look into what teams have learned: insights, selection of agents, measures of teams, recall."""

import json
import secrets
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from selfwire.cli import options, output
from selfwire.cli.json_output import add_json_option, add_result
from selfwire.cli.trajectories import read_trajectories
from selfwire.core.errors import ConfigError, TaskError, format_first_fault
from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import fingerprint, read_file_text
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evals.benchmarks.multihop import load_collection
from selfwire.evals.learning_curve import build_curve_table, compute_learning_curve
from selfwire.evals.retrieval import format_recall, measure_recall
from selfwire.evals.topology_metrics import WINDOW, build_metrics_table, compute_run_metrics
from selfwire.evolvers.hera.library import (
    Insight,
    InsightSource,
    LibraryConfig,
    get_library,
    import_insights,
    load_import_counts,
    rank_insights,
    to_json,
    with_import_counts,
)
from selfwire.evolvers.hera.library import with_library as holding
from selfwire.evolvers.router.decisions import Decision, read_decisions
from selfwire.evolvers.router.probing import Selection, collect_selections, probe_router
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method, find_method, installed_methods, make_method
from selfwire.models.budget import Ledger
from selfwire.models.embeddings import CachedEmbedder, load_embedder
from selfwire.models.sync import run_sync
from selfwire.runs.inputs import find_saved_teams, load_models
from selfwire.runs.training import UNTRAINED, describe_router, is_untrained
from selfwire.store.journal import Journal
from selfwire.store.library import Library, Version, open_library, to_local_folder
from selfwire.tools.own import refuse_missing_tools
from selfwire.tools.ready import FORMS, load_tools
from selfwire.tools.search import NAMES

FORMAT = "selfwire-insights-1"
"""Format of an exported file."""


def build() -> typer.Typer:
    """Make the group of commands."""
    group = typer.Typer(no_args_is_help=True, help="List, export or import the insights that a team has learned.")
    for name, command in (("list", list_insights), ("export", export_insights), ("import", import_from_file)):
        group.command(name)(add_json_option(f"insights {name}", command))
    return group


def list_insights(ref: options.Ref, home: options.Home = None) -> None:
    """List the insights of a team, the best first, with the trajectories that they came from."""
    found = options.with_library(home, lambda library: get_insights(library, ref))
    add_result(insights=to_json(found))
    if not found:
        typer.echo(f"{ref} has learned no insights")
        return
    table = Table("id", "type", "utility", "uses", "insight", "from", box=None)
    for insight in rank_insights(found):
        came = ", ".join(map(str, insight.sources[:2])) + (
            f" and {len(insight.sources) - 2} more" * (len(insight.sources) > 2)
        )
        table.add_row(insight.id, insight.profile.type, f"{insight.utility:.2f}", str(insight.uses), insight.text, came)
    output.make_console().print(table)


def export_insights(
    ref: options.Ref,
    file: Annotated[Path, typer.Argument(help="A .json file; `-` writes to standard output.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    home: options.Home = None,
) -> None:
    """Write the insights of a team to a JSON file; each names the run and the trajectories that it came from."""
    found = options.with_library(home, lambda library: get_insights(library, ref))
    origin = options.with_library(home, lambda library: get_origin(library, ref))
    exported = {"format": FORMAT, "origin": origin, "insights": to_json(found)}
    add_result(insights=len(found), file=str(file))
    text = f"{json.dumps(exported, indent=2)}\n"
    if output.print_or_write(file, text, "the insights", kind="insights", force=force):
        typer.echo(f"wrote {len(found)} insights of {ref} to {file}")
    else:
        add_result(export=exported)


def import_from_file(
    name: Annotated[str, typer.Argument(help="Name of a saved team.")],
    file: Annotated[Path, typer.Argument(help="A file that `insights export` wrote.")],
    home: options.Home = None,
) -> None:
    """Merge insights into a team as a new version; what both have gets the evidence of both, counted once."""
    given, origin = read_insights(file)

    async def merged(library: Library) -> tuple[Version, int, int] | None:
        team = await load_with_insights(library, name)
        library.refuse_foreign_graph(team, await library.find(name))
        before, taken = get_library(team), load_import_counts(team, origin)
        if origin == await get_origin(library, name):  # what it holds came from here, and counts already
            taken = {**taken, **{insight.id: (insight.uses, insight.successes) for insight in before}}
        after, known = import_insights(before, given, max(LibraryConfig().size, len(before)), taken)
        if known == taken:
            return None
        now = with_import_counts(holding(team, after), origin, known).with_lineage(team, ())
        facts = {"why": f"imported {len(given)} insights from {file.name}", "method": team.method}
        version = await library.save(name, now, run=f"import-{secrets.token_hex(3)}", step=0, facts=facts)
        return version, len(before), len(after)

    done = options.with_library(home, merged)
    if done is None:
        typer.echo(f"{name} has taken in these insights before, with all their evidence; nothing is changed")
        return
    version, before, after = done
    add_result(version=version.ref, insights=after, before=before)
    typer.echo(f"{version.ref} ({version.fingerprint}) has {after} insights; there were {before}")


def read_insights(file: Path) -> tuple[tuple[Insight, ...], str]:
    """Read the insights of an exported file, and their origin; without one in the file, the file is the origin.

    Raises:
        ConfigError: the file cannot be read, or is not an export of insights.
    """
    try:
        body: Any = json.loads(read_file_text(file))
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise ValueError(f"it does not say that it is {FORMAT}")
        plain = [{k: v for k, v in insight.items() if k not in ("id", "utility")} for insight in body["insights"]]
        return tuple(Insight.model_validate(insight) for insight in plain), str(
            body.get("origin") or fingerprint(plain)
        )
    except ValidationError as error:
        raise ConfigError(f"{file} is no export of insights: {format_first_fault(error)}") from None
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ConfigError(f"{file} is no export of insights: {error}") from None


async def get_origin(library: Library, ref: str) -> str | None:
    """Identify a library of insights while it grows: by its name and its first run."""
    if ref.endswith(".json"):
        return None
    version = await library.find(ref)
    return f"{version.name}/{(await library.history(version.name)).versions[0].run}"


async def get_insights(library: Library, ref: str) -> tuple[Insight, ...]:
    """Load the insights of a team, their sources with the runs of the first versions that have them.

    Raises:
        ConfigError: the team belongs to another method.
        LibraryError: there is no such team.
    """
    team = await load_with_insights(library, ref)
    runs = {} if ref.endswith(".json") else await _runs(library, ref)
    return tuple(
        insight.replace(sources=tuple(s if s.run or s not in runs else s.replace(run=runs[s]) for s in insight.sources))
        for insight in get_library(team)
    )


async def load_with_insights(library: Library, ref: str) -> Team:
    """Load a team of a method that learns insights.

    Raises:
        ConfigError: the team belongs to another method.
        LibraryError: there is no such team.
    """
    team = await library.load(ref)
    if not find_method(team.method).learns_insights:
        names = ", ".join(method.name for method in installed_methods() if method.learns_insights)
        raise ConfigError(f"{ref!r} belongs to {team.method}, which learns no insights; methods that do: {names}")
    try:
        get_library(team)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{ref!r} holds insights that cannot be read: {error}") from None
    return team


async def _runs(library: Library, ref: str) -> dict[InsightSource, str]:
    version = await library.find(ref)
    runs: dict[InsightSource, str] = {}
    for saved in (await library.history(version.name)).versions:
        held: Team = await library.load(saved.ref)
        for insight in get_library(held):
            for source in insight.sources:
                runs.setdefault(source, saved.run)
    return runs


def selection(
    *,
    workflow: Annotated[str, typer.Argument(help="Saved team with a router, or .json file.")],
    question: Annotated[str, typer.Argument(help="What is asked.")],
    benchmark: Annotated[str | None, typer.Option(help="Lend the tools of a benchmark.")] = None,
    tools: Annotated[str | None, typer.Option(help=f"Tools that agents may call: {FORMS}.")] = None,
    mcp: options.Mcp = None,
    training: Annotated[bool, typer.Option("--training", help="All versions, on the states of this run.")] = False,
    models: options.ModelOptions,
    seed: options.Seed = 0,
    svg: Annotated[Path | None, typer.Option(help="Write the picture to this file as well.")] = None,
    config: options.ConfigFields = None,
    home: options.Home = None,
) -> None:
    """Run a question and show the selection probabilities per stage and layer (EvoMAS, Fig. 5 and 7)."""
    if training and workflow.endswith(".json"):
        raise ConfigError("an exported team has no other versions; name a saved one, or leave out --training")
    if svg is not None:
        output.refuse_unwritable(svg, "picture", "--svg")
    folder, saved = to_local_folder(home), find_saved_teams([workflow], home, evolves=False)
    loaded = load_models(models.find_names([workflow], home), folder, teams=saved)
    for notice in loaded.notices:
        typer.echo(notice, err=True)
    names = options.name_tools(tools, mcp)
    toolbox = {**(load_benchmark(benchmark).toolbox if benchmark else {}), **(load_tools(names) if names else {})}
    chat = loaded.meter(Journal.memory(), Ledger())
    with open_library(home, create=False) as library:
        team = run_sync(library.load(workflow))
        fields = {**describe_router(team.method).config, **options.parse_config_fields(config or [])}
        method = make_method(team.method, fields)
        refuse_missing_tools(team, toolbox, f"team {workflow!r}", "; lend the tools with --benchmark or --tools")
        ctx = method.make_ctx(chat, toolbox, loaded.embedder, scope=Scope(run="selection", seed=seed, phase="run"))
        asked = Question(id=fingerprint(question), input=question)
        done = run_sync(method.answer(team, asked, ctx))
        decisions = _read_decisions(done, workflow)
        found: Mapping[str, Sequence[Selection]] = {f"{workflow}: {question}": collect_selections(decisions)}
        if training:
            found = run_sync(_probe_versions(method, ctx, library, workflow.partition("@")[0], decisions))
    add_result(selection=found)
    output.make_console().print(draw_selection(found))
    if is_untrained(method, team):
        typer.echo(UNTRAINED, err=True)
    if svg:
        write_svg(found, svg)


def _read_decisions(done: Trajectory, team: str) -> Sequence[Decision]:
    """Read what a router has chosen.

    Raises:
        ConfigError: the team leaves it no choice.
        TaskError: the run ended before anything was chosen.
    """
    if decisions := read_decisions(done):
        return decisions
    if done.error is None:
        raise ConfigError(f"the router of {team!r} chose nothing: no agent that ran has two successors")
    raise TaskError(f"the run ended before anything was chosen: {done.error}; try again")


async def _probe_versions(
    method: Method[Any], ctx: Ctx[Any], library: Library, name: str, decisions: Sequence[Decision]
) -> dict[str, Sequence[Selection]]:
    router, found = describe_router(method.name), dict[str, Sequence[Selection]]()
    for version in (await library.history(name)).versions:
        team = await library.load(version.ref)
        plan = router.plan(method, team)
        found[version.version] = await probe_router(team, decisions, plan.config, ctx.embed)
    return found


COLOURS = ("blue", "yellow", "green", "red", "magenta", "cyan", "white")
WIDTH = 56
"""Characters of a bar; p = 1 fills it."""


def draw_selection(columns: Mapping[str, Sequence[Selection]]) -> Group:
    """Draw bars of every stage and layer, for one run or for several versions of a router.

    Args:
        columns: selections by title, such as the number of an update.
    """
    agents = dict.fromkeys(name for found in columns.values() for layer in found for name in layer.probabilities)
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(agents)}
    legend = Text.assemble(*((f"█ {name}  ", colour) for name, colour in colours.items()))
    return Group(legend, *(_table(title, found, colours) for title, found in columns.items()))


def _table(title: str, found: Sequence[Selection], colours: Mapping[str, str]) -> Table:
    table = Table("stage", "layer", "p", "most probable", "drawn", title=title, title_justify="left", box=None)
    for layer in found:
        first = max(layer.probabilities, key=lambda name: layer.probabilities[name])
        stage = str(layer.stage + 1) if layer.layer == 0 else ""
        told = f"{first} {layer.probabilities[first]:.2f}"
        table.add_row(
            stage, str(layer.layer + 1), draw_bar(layer.probabilities, colours), told, ", ".join(layer.chosen)
        )
    return table


def draw_bar(shares: Mapping[str, float], colours: Mapping[str, str], width: int = WIDTH) -> Text:
    """Draw a stacked bar; rounding never lengthens it."""
    text, end, drawn = Text(), 0.0, 0
    for name, share in shares.items():
        end += share
        length = max(0, min(width, round(end * width)) - drawn)
        text.append("█" * length, colours[name])
        drawn += length
    return text


def write_svg(columns: Mapping[str, Sequence[Selection]], path: Path) -> None:
    """Write the picture as an SVG file.

    Raises:
        ConfigError: it cannot be written.
    """
    console = Console(record=True, width=130, file=StringIO(), force_terminal=True)
    console.print(draw_selection(columns))
    output.write_text(path, console.export_svg(title="selection probabilities"), "the picture")


TRAIN = "/rollout"


def measures(
    run: Annotated[str, typer.Argument(help="Name of a run, of any method.")],
    window: Annotated[int, typer.Option(min=1, help="Queries of a sliding window.")] = WINDOW,
    curve: Annotated[bool, typer.Option("--curve", help="Score and tokens of every query instead.")] = False,
    crossed: Annotated[bool, typer.Option("--crossed", help="Each quarter by sort of question instead.")] = False,
    home: options.Home = None,
) -> None:
    """Show the topology measures of a run's training, by quarter and by sort of question, or its learning curve."""
    if curve and crossed:
        raise ConfigError("--curve and --crossed are two tables; ask for one of them")
    found = [done for place, done in read_trajectories(home, run) if place.endswith(TRAIN)]
    if not found:
        raise ConfigError(f"run {run!r} has no trajectories of training yet; look with `selfwire show {run}`")
    if curve:
        points = compute_learning_curve(found, window)
        add_result(run=run, curve=points)
        output.print_table(build_curve_table(points, window))
        return
    measured = compute_run_metrics(found, window)
    add_result(run=run, measures=measured)
    output.print_table(build_metrics_table(measured, crossed=crossed))


def recall(
    benchmark: Annotated[str, typer.Argument(help="hotpotqa or 2wikimultihopqa.")],
    retriever: Annotated[str, typer.Option(help="bm25, dense, hybrid, or several with commas; all.")] = "bm25",
    embedder: Annotated[str, typer.Option(help="Of dense and hybrid: auto, minilm or hashing.")] = "auto",
) -> None:
    """Show how much of what the questions need is among the first 5 and 10 passages found."""
    names = NAMES if retriever == "all" else tuple(name.strip() for name in retriever.split(","))
    found = load_collection(benchmark)
    embeds: Embedder | None = None
    if names != ("bm25",):
        loaded, notice = load_embedder(embedder)
        typer.echo(notice or f"embeddings by {loaded.name}", err=True)
        embeds = CachedEmbedder(loaded)
    measured = []
    for name in names:
        measured.append(run_sync(measure_recall(found, name, embeds)))
        typer.echo(format_recall(measured[-1]))
    add_result(benchmark=benchmark, retrievers=measured)
