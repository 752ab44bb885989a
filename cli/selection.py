"""The command that shows which agents a trained router chooses: selection."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from selfwire.cli import options, output
from selfwire.cli.json_output import add_result
from selfwire.cli.option_groups import Models
from selfwire.cli.options import ConfigFields, Home, parse_config_fields
from selfwire.cli.selection_plot import draw_selection, write_svg
from selfwire.core.errors import ConfigError, TaskError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.values import fingerprint
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evolvers.trained_router.decisions import Decision
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.method_registry import make_method
from selfwire.graphs.ready_tools import FORMS, load_tools
from selfwire.graphs.trained_router.probing import Selection, collect_selections, probe_router, read_decisions
from selfwire.runs.models import load_models_embedder, make_metered_model
from selfwire.runs.training import UNTRAINED, describe_router, is_untrained
from selfwire.runtime.journal import Journal
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.sync import run_sync
from selfwire.runtime.workflow_library import WorkflowLibrary, open_library


def selection(
    *,
    workflow: Annotated[str, typer.Argument(help="Saved workflow with a router, or .json file.")],
    question: Annotated[str, typer.Argument(help="What is asked.")],
    benchmark: Annotated[str | None, typer.Option(help="Lend the tools of a benchmark.")] = None,
    tools: Annotated[str | None, typer.Option(help=f"Tools that agents may call: {FORMS}.")] = None,
    training: Annotated[bool, typer.Option("--training", help="All versions, on the states of this run.")] = False,
    models: Models,
    seed: options.Seed = 0,
    svg: Annotated[Path | None, typer.Option(help="Write the picture to this file as well.")] = None,
    data: Annotated[Path | None, typer.Option(help="Write the probabilities to this JSON file as well.")] = None,
    config: ConfigFields = None,
    home: Home = None,
) -> None:
    """Run a question and show the selection probabilities per stage and layer (EvoMAS, Fig. 5 and 7)."""
    if training and workflow.endswith(".json"):
        raise ConfigError("an exported workflow has no other versions; name a saved one, or leave out --training")
    embeds, notices = load_models_embedder(models.names)
    for notice in notices:
        typer.echo(notice, err=True)
    toolbox = {**(load_benchmark(benchmark).toolbox if benchmark else {}), **(load_tools(tools) if tools else {})}
    chat = make_metered_model(models.names, journal=Journal.memory(), ledger=Ledger())
    with open_library(home, create=False) as library:
        team = run_sync(library.load(workflow))
        fields = {**describe_router(team.method).config, **parse_config_fields(config or [])}
        method = make_method(team.method, model=chat, toolbox=toolbox, embedder=embeds, config=fields)
        asked = Question(id=fingerprint(question), input=question)
        done = run_sync(method.solve(team, asked, scope=Scope(run="selection", seed=seed, phase="run")))
        decisions = read_decisions(done)
        if not decisions:
            raise TaskError(f"the run ended before anything was chosen: {done.error}; try again")
        found: Mapping[str, Sequence[Selection]] = {f"{workflow}: {question}": collect_selections(decisions)}
        if training:
            found = run_sync(_probe_versions(method, library, workflow.partition("@")[0], decisions))
    rows = {title: [one.model_dump(mode="json") for one in some] for title, some in found.items()}
    add_result(selection=rows)
    output.make_console().print(draw_selection(found))
    if is_untrained(method, team):
        typer.echo(UNTRAINED, err=True)
    if svg:
        write_svg(found, svg)
    if data:
        output.write_text(data, json.dumps(rows, indent=1) + "\n", "the probabilities")


async def _probe_versions(
    method: Method, library: WorkflowLibrary, name: str, decisions: Sequence[Decision]
) -> dict[str, Sequence[Selection]]:
    router, found = describe_router(method.name), dict[str, Sequence[Selection]]()
    for version in (await library.history(name)).versions:
        workflow = await library.load(version.ref)
        plan = router.plan(method, workflow)
        found[version.version] = await probe_router(workflow, decisions, plan.config, plan.embedder)
    return found
