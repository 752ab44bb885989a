"""The command that evolves a team: evolve."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from selfwire.cli import option_groups, options, output
from selfwire.cli.error_handling import print_before_exit
from selfwire.cli.json_output import add_result
from selfwire.cli.limits import Limits, parse_changes, refuse_without_resume
from selfwire.cli.measures import TRAIN
from selfwire.cli.options import load_from_anywhere, parse_config_fields, refuse_unused, to_local_folder
from selfwire.cli.progress import EvolutionProgress
from selfwire.cli.results_output import show_estimate
from selfwire.cli.trajectories import read_trajectories
from selfwire.core import drawing
from selfwire.core.errors import ConfigError
from selfwire.core.secrets import MASK
from selfwire.core.trajectory import sum_decisions
from selfwire.evals.evaluation.table import (
    CALLS,
    DECISIONS,
    DOLLARS,
    ERRORS,
    SOLVED,
    TOKENS,
    Column,
    SystemSummary,
    build_table,
    format_difference,
)
from selfwire.evals.studies.variants import switch_off
from selfwire.evals.topology_metrics import compute_run_metrics, format_metrics
from selfwire.graphs.evolution.config import EvolutionConfig
from selfwire.graphs.evolution.graph import count_failed_tests
from selfwire.graphs.evolution.nodes import get_structure
from selfwire.graphs.method_names import format_identifier, format_import, method_names
from selfwire.graphs.method_registry import describe_method
from selfwire.runs.estimates import estimate_evolution
from selfwire.runs.evaluation.standings import describe_trivial_baseline
from selfwire.runs.evolution import EvolutionRun, resume_evolution, start_evolution
from selfwire.runs.evolution_workers import choose_place
from selfwire.runs.report import EVOLVED, SINGLE, STAMP, Report, make_report
from selfwire.runs.requests import EvolveRequest
from selfwire.runs.run_record import shorten_name
from selfwire.runs.sizes import fit_evolution
from selfwire.runs.targets import to_team_reference
from selfwire.runs.worker_budgets import refuse_unusable_cluster
from selfwire.runtime.addresses import ADDRESS
from selfwire.runtime.model_names import is_offline
from selfwire.runtime.sync import run_sync

COLUMNS = (
    Column[SystemSummary]("held-out tasks", lambda line: line.name),
    SOLVED,
    Column[SystemSummary]("mean score", lambda line: "-" if line.score is None else f"{line.score:.2f}"),
    CALLS,
    TOKENS,
    DOLLARS,
    DECISIONS,
    ERRORS,
)
Method = Annotated[str | None, typer.Argument(help=f"{', '.join(method_names())}; not needed with --resume.")]


def evolve(
    ctx: typer.Context,
    *,
    method: Method = None,
    benchmark: options.Benchmark = None,
    resume: options.Resume = None,
    retry_failed: options.RetryFailed = False,
    name: Annotated[
        str | None, typer.Option(help="Name that the team is saved under; by default METHOD-BENCHMARK.")
    ] = None,
    models: option_groups.Models,
    iterations: Annotated[int, typer.Option(help="How often the team is rewritten.")] = 10,
    batch: Annotated[int, typer.Option(help="Train tasks per iteration.")] = 10,
    gate: Annotated[
        str,
        typer.Option(help="paired: accept what does no worse on gate tasks; off: accept everything, as in the papers."),
    ] = "paired",
    gate_tasks: Annotated[int, typer.Option(help="Gate tasks per comparison, drawn anew each time.")] = 20,
    train: options.TrainSize = None,
    gate_size: options.GateSize = None,
    test: options.TestSize = None,
    seed: options.Seed = 0,
    concurrency: Annotated[int, typer.Option(help="Teams that run at the same time.")] = 8,
    workers: option_groups.Workers,
    seed_team: Annotated[str | None, typer.Option(help="Saved team or .json file to start from.")] = None,
    grading: option_groups.Grading,
    config: options.ConfigFields = None,
    router: options.RouterName = None,
    without: options.Without = None,
    limits: Limits,
    calls_per_task: options.CallsSetAside = 60,
    dry_run: options.DryRun = False,
    baselines: Annotated[bool, typer.Option(help="Measure baselines on the test tasks too.")] = True,
    home: options.Home = None,
) -> None:
    """Evolve a team on a benchmark; stops at budgets and Ctrl-C in a state that --resume goes on from."""
    folder = to_local_folder(home)
    if resume is not None:
        place = choose_place(workers.options, retry_failed=retry_failed)
        with resume_evolution(resume, folder, place=place, **parse_changes(ctx)) as run:
            _run_and_report(run, home)
        return
    refuse_without_resume(ctx)
    if gate == "off" and not (method and describe_method(method).fits_held_out):
        refuse_unused(ctx, ["gate_tasks"], "with --gate off nothing is compared")
    request = parse_request(ctx.params, models, grading, limits)
    if dry_run:
        show_estimate(estimate_evolution(request, folder))
        return
    refuse_unusable_cluster(request, workers.options)
    with start_evolution(request, folder, place=choose_place(workers.options)) as run:
        _run_and_report(run, home)


def parse_request(
    given: Mapping[str, Any], models: option_groups.Models, grading: option_groups.Grading, limits: Limits
) -> EvolveRequest:
    """A request out of the command's options.

    Raises:
        ConfigError: method or benchmark is missing.
        ValueError: an option is out of bounds.
    """
    method, benchmark = given["method"], given["benchmark"]
    if method is None or benchmark is None:
        raise ConfigError("evolve needs a method and --benchmark, such as `selfwire evolve hiva --benchmark archive`")
    names = ("iterations", "batch", "gate", "gate_tasks", "seed", "concurrency", "calls_per_task")
    config = parse_config_fields(given["config"] or [], given["router"])
    request = EvolveRequest(
        method=method,
        benchmark=load_from_anywhere(benchmark),
        models=models.names,
        evolution=EvolutionConfig.model_validate(
            {"name": given["name"] or f"{method}-{shorten_name(benchmark)}", **{name: given[name] for name in names}}
        ),
        config=switch_off(method, given["without"] or [], config),
        budget=limits.budget,
        seed_team=given["seed_team"],
        baselines=given["baselines"],
        **grading.fields,
    )
    return options.tell(fit_evolution(request, options.list_sizes(given)))


def _run_and_report(run: EvolutionRun, home: str | None) -> None:
    out, context = output.make_console(), run.context
    for notice in run.notices:
        out.print(notice)
    of = f"seed {context.config.seed}, model {run.request.models.agent}"
    out.print(f"run {context.run}: {context.method.name} on {run.benchmark.name}, {of}")
    with print_before_exit(partial(_print_summary, run, home)):
        with EvolutionProgress(context.config.iterations, out, tests=bool(context.splits.test)) as progress:
            final = run_sync(run.execute(progress))
        if context.splits.test and run.request.baselines:
            report = run_sync(make_report(run, final))
            _add_report(report)
            show_report(report, run)
        show_measures(home, context.run)
    if failed := count_failed_tests(final):
        out.print(
            f"\n{failed} of {len(context.splits.test)} test tasks ended as errors and count for neither side; "
            f"try these again with: selfwire evolve --resume {context.run}{output.format_home_option(home)}"
        )


def _add_report(report: Report) -> None:
    add_result(
        before=report.before.fingerprint,
        after=report.after.fingerprint,
        systems=[line.to_json() for line in report.lines],
        gain=report.gain,
        over_single=report.over_single,
    )


def show_report(report: Report, run: EvolutionRun) -> None:
    """The team before and after, and the table of contestants."""
    out = output.make_console()
    for title, workflow in (("before", report.before), ("after", report.after)):
        out.print(f"\nteam {title} ({workflow.fingerprint})\n{drawing.to_text(workflow.topology)}")
    out.print()
    output.print_table(build_table(COLUMNS, report.lines, [describe_trivial_baseline(run.benchmark.baseline)]))
    for what, estimate in (("evolved - seed", report.gain), ("evolved - single agent", report.over_single)):
        if estimate is not None:
            out.print(f"{what}, paired over {estimate.n} tasks: {format_difference(estimate)}")
    if report.over_single is not None and report.over_single.low <= 0:
        evolved, single = (_calls_per_task(report, name) for name in (EVOLVED, SINGLE))
        out.print(
            f"the evolved team, at {evolved} calls per task, "
            f"is not shown to beat a single agent with votes, at {single}"
        )
    agreed, judged = report.critic
    if judged:
        out.print(f"the team's opinion of its own answers was the environment's in {agreed} of {judged} cases")
    if run.request.models.is_offline:
        out.print(STAMP)


def _calls_per_task(report: Report, name: str) -> str:
    line = next(one for one in report.lines if one.name == name)
    return f"{line.spend.calls / max(line.tasks, 1):.1f}"


def show_measures(home: str | None, run: str) -> None:
    """Free decisions of the run's router, and how teams changed in training; nothing for methods without."""
    out, places = output.make_console(), list(read_trajectories(home, run))
    if decided := sum_decisions(done.decisions for _, done in places):
        out.print(f"\nfree decisions of the router in the whole run: {decided}")
    found = [done for place, done in places if place.endswith(TRAIN)]
    if any("topology" in done.notes for done in found):
        out.print("\n".join(["\nteams in training", *format_metrics(compute_run_metrics(found))]))


def _print_summary(run: EvolutionRun, home: str | None, finished: bool) -> None:
    out, context, there = output.make_console(), run.context, output.format_home_option(home)
    output.print_summary(run, home, finished=finished)
    where, name = Path(context.library.where), context.config.name
    add_result(name=name, method=context.method.name, benchmark=run.request.benchmark)
    evolved = run_sync(run.find_evolved())
    add_result(version=evolved and evolved.ref)
    if evolved is None:
        out.print("\nnothing was evolved: no candidate has replaced the team that the run began with")
        return
    look = f"look at it with `selfwire show {to_team_reference(name)}{there}`"
    team = run_sync(context.library.load(evolved.ref))
    if get_structure(team) == get_structure(context.seed_workflow):
        best = f"agents, tools and topology are as they were; what was learned beside them is in {name!r}, in {where}"
    else:
        best = f"the best workflow is {name!r} in {where}"
    out.print(f"\n{best}; {look}, use it so:")
    out.print(_snippet(run, where.parent.resolve(), name))


def _snippet(run: EvolutionRun, home: Path, name: str) -> str:
    lending, tools = _tools(run)
    models, method = run.request.models, run.context.method.name
    model, first, imported, called = f'"{models.agent}"', "", "", format_identifier(method)
    if models.base_url and not is_offline(models.agent):
        secret = MASK in models.base_url
        address = f'os.environ["{ADDRESS}"]' if secret else f'"{models.base_url}"'
        model = f"make_chat_model({model}, base_url={address})"
        imported = "    from selfwire.runtime.models import make_chat_model\n"
        first = "    import os\n\n" if secret else ""
    return (
        f"{first}{lending}    {format_import(method)}\n"
        f"    from selfwire.runtime.workflow_library import open_library\n{imported}\n"
        f'    library = open_library("{home}")\n'
        f"    tools = {tools}\n"
        f'    graph = {called}.build({model}, name="{name}", library=library, tools=tools).compile()\n'
        '    print(graph.invoke({"question": "..."})["answer"])'
    )


def _tools(run: EvolutionRun) -> tuple[str, str]:
    """An import, and the expression that makes the run's tools with it."""
    request = run.request
    if request.tools is not None:
        return (
            "    from selfwire.graphs.ready_tools import load_tools\n",
            f"[*load_tools({json.dumps(request.tools)}).values()]",
        )
    if run.benchmark.tools:
        wanted = f"[*load_benchmark({json.dumps(request.benchmark)}).toolbox.values()]"
        return "    from selfwire.evals.benchmarks.catalogue import load_benchmark\n", wanted
    return "", "[]"
