"""The command that measures one system: eval."""

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from selfwire.cli import options, output
from selfwire.cli.commands import FAILED
from selfwire.cli.error_handling import print_before_exit
from selfwire.cli.json_output import add_result, keep_results
from selfwire.cli.progress import ContestProgress, EvaluationProgress, EvolutionProgress
from selfwire.cli.trajectories import print_broken_tools
from selfwire.core.errors import ConfigError
from selfwire.core.plugins import compute_code_hash
from selfwire.core.usage import Usage
from selfwire.core.values import fingerprint, format_count, is_id
from selfwire.evals.langsmith import get_langsmith_address
from selfwire.evals.table import (
    ResultTable,
    SystemSummary,
    build_table,
    choose_comparison,
    compute_difference,
    list_seed_columns,
    summarise_seeds,
)
from selfwire.evolvers.router.config import ROUTER
from selfwire.extras.cluster.evaluation_workers import choose_worker_count, run_on_workers
from selfwire.extras.cluster.executors import prepare_workers
from selfwire.extras.cluster.worker_budgets import refuse_unusable_cluster
from selfwire.models.sync import run_sync
from selfwire.runs.comparison import USUAL, build_results_table, describe_models
from selfwire.runs.estimates import estimate_evaluation
from selfwire.runs.evaluation import (
    OpenEvaluation,
    fit_evaluation,
    resume_evaluation,
    start_evaluation,
    start_or_resume,
)
from selfwire.runs.inputs import Given, find_kind, refuse_other_method, require_saved
from selfwire.runs.langsmith import upload_if_requested
from selfwire.runs.pre_evolution import PreEvolution, compute_left
from selfwire.runs.record import compute_config_hash, shorten_name
from selfwire.runs.spec import EvaluateSpec, SystemSpec, WorkerOptions
from selfwire.runs.systems import switch_off
from selfwire.runs.training import describe_router
from selfwire.runs.votes import ONE, build_votes_table, list_lone, make_votes_request
from selfwire.store.library import format_home_option, to_local_folder

SPLITS = {"train": "train", "val": "gate", "gate": "gate", "test": "test"}


def evaluate(
    ctx: typer.Context,
    *,
    target: options.Target = None,
    benchmark: options.Benchmark = None,
    resuming: options.ResumeOptions,
    tasks: options.MeasuredTasks,
    calls_per_task: options.Cap = None,
    without: options.Without = None,
    config: options.ConfigFields = None,
    router: options.RouterName = None,
    team: Annotated[
        str | None, typer.Option(help="Saved team of the method that is measured with the router that it has learned.")
    ] = None,
    models: options.ModelOptions,
    grading: options.GradingOptions,
    measuring: options.MeasuringOptions,
    workers: options.WorkerChoice,
    limits: options.BudgetOptions,
    results: options.ResultOptions,
    home: options.Home = None,
) -> None:
    """Measure a method, a baseline or a saved team on a benchmark, beside the benchmark's trivial baseline."""
    if resuming.resume is None and target is None:
        raise ConfigError("eval needs a target and --benchmark, such as `selfwire eval hiva --benchmark archive`")
    if resuming.resume is None and benchmark is None:
        raise ConfigError(f"eval needs --benchmark, on which {target} is measured, such as --benchmark archive")
    given, off = options.parse_config_fields(config or [], router), without or []
    if target is not None and team is not None:
        target, given, off = team, get_router_config(target, team, given, off, home), []
    run_command(ctx, () if target is None else (parse_entry(target, given, off),), "eval")


def get_router_config(
    method: str, ref: str, config: Mapping[str, Any], without: list[str], home: str | None
) -> dict[str, Any]:
    """Make the config fields under which a method asks the router that a saved team was trained with.

    Raises:
        ConfigError: the method has no router to train, or the team is another method's or has no trained router.
        LibraryError: there is no such team.
    """
    if find_kind(method) == "baseline":
        raise ConfigError(f"--team {ref} is for a method with a router, and {method!r} is a baseline; leave it out")
    router = describe_router(method)
    found = options.with_library(home, lambda library: library.load(require_saved(ref)))
    refuse_other_method(found, method, f"team {ref!r}")
    if ROUTER not in found.memory:
        raise ConfigError(f"team {ref!r} has no trained router; `selfwire train {method}` makes one")
    return switch_off(method, without, {**router.config, **config})


def parse_entry(target: str, config: Mapping[str, Any], without: list[str]) -> SystemSpec:
    """Parse a system, `target` or `name=target`, with config fields and with parts of its method switched off."""
    name, equals, ref = target.partition("=")
    ref = ref if equals else target
    if ref.endswith(".json"):
        ref = str(Path(ref).resolve())  # resumed from anywhere
    if not equals:
        name = shorten_name(ref) if not is_id(ref) else ref
    return SystemSpec(name=name, target=ref, config=switch_off(ref, without, config))


def run_command(
    ctx: typer.Context,
    entries: tuple[SystemSpec, ...],
    command: str,
    seeds: int = 1,
    votes: bool = False,
    **more: Any,
) -> None:
    """Start or resume an evaluation, show its progress, and print the table.

    Args:
        votes: whether votes at the price of each system are measured too.
    """
    given = ctx.params
    folder = to_local_folder(given["home"])
    if markdown := given.get("markdown"):
        output.refuse_unwritable(markdown, "table", "--markdown")
    if given["resume"] is not None:
        _run_to_end(resume_evaluation(given["resume"], folder, options.parse_changes(ctx)), folder, given)
        return
    options.refuse_without_resume(ctx)
    request = parse_request(given, entries, command, **more)
    if given["dry_run"]:
        output.show_estimate(estimate_evaluation(request, folder, seeds, votes=votes))
        return
    if request.langsmith != "off":
        get_langsmith_address()  # there must be one before anything is written
    _choose_workers(request, given)  # refused before anything is written
    if seeds > 1 or votes:
        why = "seeds, and votes, are runs of their own, with results in their folders"
        options.refuse_unused(ctx, ("out", "langsmith"), why)
        _compare_seeds(request, seeds, folder, given, votes=votes)
        return
    _run_to_end(start_evaluation(request, folder, out=given["out"]), folder, given)


def _run_to_end(opened: AbstractContextManager[OpenEvaluation], home: Path | None, given: Mapping[str, Any]) -> None:
    """Run one evaluation; exit with code 1 if too many of its tasks ended as errors."""
    with opened as run:
        go_on = output.format_resume_line(run.command, run.run, home)
        lines = run_and_report(run, home, given, go_on)
    exit_on_errors(lines[1:], given["max_errors"], go_on)  # after the trivial baseline


def _compare_seeds(
    request: EvaluateSpec, seeds: int, folder: Path | None, given: Mapping[str, Any], *, votes: bool
) -> None:
    """Run a comparison with one or several seeds, and print the table over all of them, and that of votes.

    The names of the runs are made of request and code, so that the same command goes on with those that have begun.
    """
    same = fingerprint([compute_config_hash(request), compute_code_hash()])
    name = f"{request.command}-{shorten_name(request.benchmark)}-{same[:6]}"
    spent, found, priced = Usage(), list[tuple[SystemSummary, ...]](), list[dict[str, SystemSummary]]()
    plain = {**given, "markdown": None}
    for seed in range(request.seed, request.seed + seeds):
        seeded = request.replace(seed=seed)
        systems, compared, spent = run_part(seeded, f"{name}-s{seed}", folder, plain, spent)
        found.append(systems)
        if votes:
            lines = {line.info.name: line for line in systems}
            asked = make_votes_request(seeded, lines, ONE, list_lone(seeded.entries))
            with keep_results():  # what `--json` prints is of the comparison
                if asked:
                    more, _, spent = run_part(asked, f"{name}-s{seed}-votes", folder, plain, spent)
                    lines = {**{line.info.name: line for line in more}, **lines}
            priced.append(lines)
    tables = [_describe_seeds(request, found, spent)] if seeds > 1 else []
    if votes:
        tables.append(build_votes_table(priced))
        add_result(votes=[{name: line.to_json() for name, line in lines.items()} for lines in priced], spend=spent)
    for table in tables:
        output.show_standings(table)
    if given["markdown"]:
        output.write_markdown(tables if seeds > 1 else [compared, *tables], given["markdown"])
    exit_on_errors([line for lines in found for line in lines[1:]], given["max_errors"], AGAIN)


def run_part(
    request: EvaluateSpec, name: str, folder: Path | None, given: Mapping[str, Any], spent: Usage
) -> tuple[tuple[SystemSummary, ...], ResultTable, Usage]:
    """Start or resume a run that shares its budget with others; return its lines, its table and the cost of all.

    Args:
        spent: by the others.
    """
    left = compute_left(request.budget, spent, Usage())
    if left != request.budget:
        limited = left.model_dump(exclude_none=True)
        limits = ", ".join(f"{round(amount, 4):,} {what}" for what, amount in limited.items())
        typer.echo(f"left of the budget for {name}: {limits}", err=True)
    with start_or_resume(request.replace(budget=left), folder, name, Given()) as opened:
        lines = run_and_report(opened, folder, given, AGAIN)
        return lines, build_results_table(opened, lines), spent + opened.spent


def _describe_seeds(request: EvaluateSpec, found: Sequence[tuple[SystemSummary, ...]], spent: Usage) -> ResultTable:
    """Make the table over seeds, and add it to the object that `--json` prints."""
    over, seeds = summarise_seeds(found, request.against), range(request.seed, request.seed + len(found))
    note = (
        f"{request.benchmark}, seeds {seeds[0]} to {seeds[-1]}, {format_count(request.tasks, 'task')} each; a seed has "
        f"tasks and evolutions of its own; differences are from {over[0].others[0].name}; intervals are over seeds, "
        "and over the tasks of all seeds where these are equal"
    )
    table = build_table(list_seed_columns(), over, (note,))
    systems = [summary.to_json() for summary in over]
    add_result(seed=None, seeds=[*seeds], systems=systems, notes=table.notes, spend=spent)
    return table


def parse_request(given: Mapping[str, Any], entries: tuple[SystemSpec, ...], command: str, **more: Any) -> EvaluateSpec:
    """Make a request of a command's options.

    Raises:
        ConfigError: there is no such split.
        ValueError: an option is out of bounds.
    """
    if given["split"] not in SPLITS:
        raise ConfigError(f"there is no split {given['split']!r}; splits are train, val and test")
    request = EvaluateSpec.model_validate(
        {
            "command": command,
            "benchmark": options.load_from_anywhere(given["benchmark"]),
            "entries": entries,
            "split": SPLITS[given["split"]],
            "models": options.select_group(options.ModelOptions, given).find_names(
                (entry.target for entry in entries), given["home"]
            ),
            "budget": options.select_group(options.BudgetOptions, given).budget,
            "tasks": USUAL[command] if given["tasks"] is None else given["tasks"],
            **{name: given[name] for name in ("seed", "concurrency", "calls_per_task", "grading_timeout")},
            **options.select_group(options.GradingOptions, given).fields,
            "langsmith": options.select_group(options.ResultOptions, given).langsmith_setting,
            **more,
        }
    )
    sizes = {"--train": given.get("train"), "--gate-size": given.get("gate_size"), "--tasks": given["tasks"]}
    return options.tell(fit_evaluation(request, sizes))


def run_and_report(
    run: OpenEvaluation, home: Path | None, given: Mapping[str, Any], go_on: str
) -> tuple[SystemSummary, ...]:
    """Run an open evaluation, print its progress and its table, and return the lines.

    Args:
        go_on: how the user goes on where it stops.
    """
    out, asked = output.make_console(), run.request
    workers, markdown = _choose_workers(asked, given), given.get("markdown")
    names = ", ".join(asked.targets)
    add_result(
        benchmark=asked.benchmark, split=asked.split, seed=asked.seed, tasks=len(run.tasks), measured=run.origins
    )
    tasks, models = format_count(len(run.tasks), "task"), describe_models(run)
    out.print(f"run {run.run}: {names} on {run.benchmark.name}, {tasks}, seed {asked.seed}, {models}")
    with print_before_exit(partial(_print_end, run, home, go_on), on_any_error=True), upload_if_requested(run):
        for line in (*run.origins, *run.notices):
            out.print(line)
        if (evolving := asked.evolving) and evolving.names:
            out.print(
                f"evolved first, on other tasks: {', '.join(evolving.names)}; "
                f"{format_count(evolving.iterations, 'iteration')} of {format_count(evolving.batch, 'task')}; "
                "--evolve none measures their seed teams"
            )
        with output.tell_of_finished_run(run):
            lines = _measure(run, home, workers)
        found = build_results_table(run, lines)
        _add_results(run, lines, found)
        output.show_standings(found)
        if markdown:
            output.write_markdown([found], markdown)
    return lines


AGAIN = "go on with: the same command again"


def exit_on_errors(systems: Sequence[SystemSummary], most: int | None, go_on: str) -> None:
    """Exit with code 1 if too many tasks ended as errors.

    Args:
        go_on: how the user goes on, as `output.format_resume_line` says it.
    """
    errors = sum(line.errors for line in systems)
    lost = [line.info.name for line in systems if line.errors and line.errors == line.tasks]
    if most is not None and errors > most:
        typer.echo(f"error: {format_count(errors, 'task')} ended as errors, more than --max-errors {most}", err=True)
        raise typer.Exit(FAILED)
    if most is None and lost:
        kept = "mend the cause; what models have answered is kept, and graded anew"
        typer.echo(f"error: all tasks of {', '.join(lost)} ended as errors; {kept}; {go_on}", err=True)
        raise typer.Exit(FAILED)


def _add_results(run: OpenEvaluation, lines: Sequence[SystemSummary], table: ResultTable) -> None:
    """Add the lines of the table to the object that `--json` prints."""
    against = choose_comparison(lines, run.request.against)
    add_result(
        against=against.info.name,
        systems=[
            {
                **line.to_json(),
                "difference": compute_difference(line, against),
                **line.info.model_dump(mode="json", exclude={"name"}),
            }
            for line in lines
        ],
        notes=table.notes,
    )


def _measure(run: OpenEvaluation, home: Path | None, workers: WorkerOptions) -> tuple[SystemSummary, ...]:
    out = output.make_console()
    if not workers.is_local:
        with ContestProgress(len(run.request.entries), len(run.tasks), out) as contest:
            return run_on_workers(run, home, workers, contest)
    _evolve(run)
    with EvaluationProgress(out) as progress:
        return run_sync(run.execute(progress))


def _choose_workers(request: EvaluateSpec, given: Mapping[str, Any]) -> WorkerOptions:
    chosen = options.select_group(options.WorkerChoice, given).options
    if chosen.executor == "process":
        chosen = chosen.replace(workers=choose_worker_count(request, chosen.workers))
        prepare_workers(chosen)
    refuse_unusable_cluster(request, chosen)
    return chosen


def _evolve(run: OpenEvaluation) -> None:
    out = output.make_console()
    shown: dict[str, EvolutionProgress] = {}
    with contextlib.ExitStack() as stack:

        def tell(evolution: PreEvolution, event: dict[str, Any]) -> None:
            name = evolution.entry.name
            if name not in shown:
                stack.close()  # the bar of the one before
                out.print(f"evolving {name}")
                progress = EvolutionProgress(evolution.evolve_request.evolution.iterations, out)
                shown[name] = stack.enter_context(progress)
            shown[name](event)

        run.evolve(tell)


def _print_end(run: OpenEvaluation, home: Path | None, go_on: str, finished: bool) -> None:
    results = f"results{'' if finished else ' so far'} are in {run.out}; "
    if not finished:
        try:
            run_sync(run.write_results(complete=False))
        except ConfigError as error:
            typer.echo(str(error), err=True)
            results = ""
    output.print_summary(run, go_on, finished=finished)
    print_broken_tools(run.journal, home)
    if results:
        add_result(results=str(run.out))
    look = f"look at a task with `selfwire show {run.run}{format_home_option(home)}`"
    output.make_console().print(f"{results}{look}")
