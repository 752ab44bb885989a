"""The command that compares a method with its ablations and controls: ablate."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from selfwire.cli import options, output
from selfwire.cli.json_output import add_result
from selfwire.cli.output import show_estimate
from selfwire.core.errors import ConfigError
from selfwire.core.plugins import method_names
from selfwire.evals.readers import PREFIX, pin_commit
from selfwire.evals.tasks import is_own_data, read_tasks
from selfwire.extras.cluster.executors import WorkerOptions
from selfwire.extras.lab.ablation.files import keep_study
from selfwire.extras.lab.ablation.plan import Study, fit_study
from selfwire.extras.lab.ablation.record import record_study
from selfwire.extras.lab.ablation.run import run_ablation
from selfwire.extras.lab.ablation.subjects import WorldStudy
from selfwire.extras.lab.ablation.table import build_table
from selfwire.extras.lab.result_pages import keep_world
from selfwire.extras.lab.seeds import run_world
from selfwire.extras.lab.study_output import tell, write_page
from selfwire.extras.lab.worlds.catalogue import list_worlds, load_world
from selfwire.runs.estimates import estimate_ablation

DEFAULTS = Study()
WORLD_SEEDS = 20
WORKERS = 2
"""Processes by default."""
OF_WORLDS = ("method", "world", "seeds", "workers", "executor", "ray_address", "out", "keep", "page", "home")
"""Parameters that go with a world."""


def format_worlds() -> str:
    """All worlds, such as `kabb (hiva)`."""
    return ", ".join(f"{name} ({method})" for method, names in list_worlds().items() for name in names)


def ablate(
    ctx: typer.Context,
    *,
    method: Annotated[str, typer.Argument(help=f"Method: {', '.join(method_names())}.")] = DEFAULTS.method,
    benchmark: Annotated[
        str, typer.Option(help="A benchmark by name, or a file of your own tasks.")
    ] = DEFAULTS.benchmark,
    variants: Annotated[str, typer.Option(help="Which variants, such as full,no-tev; by default all.")] = "",
    seeds: Annotated[
        int | None, typer.Option(min=1, help=f"Runs per variant; {DEFAULTS.seeds}, with --world {WORLD_SEEDS}.")
    ] = None,
    iterations: Annotated[int, typer.Option(min=1, help="How often the team is rewritten.")] = DEFAULTS.iterations,
    batch: Annotated[int, typer.Option(min=1, help="Train tasks per iteration.")] = DEFAULTS.batch,
    gate_tasks: Annotated[int, typer.Option(min=1, help="Gate tasks per comparison.")] = DEFAULTS.gate_tasks,
    train: Annotated[
        int | None, typer.Option(min=1, help="Train tasks.", show_default=f"{DEFAULTS.sizes.train}, or what there are")
    ] = None,
    gate_size: Annotated[
        int | None, typer.Option(min=1, help="Gate tasks.", show_default=f"{DEFAULTS.sizes.gate}, or what there are")
    ] = None,
    test: Annotated[
        int | None, typer.Option(min=1, help="Test tasks.", show_default=f"{DEFAULTS.sizes.test}, or what there are")
    ] = None,
    world: Annotated[
        str | None,
        typer.Option(help=f"A simulated world instead of a benchmark, without a language model: {format_worlds()}."),
    ] = None,
    models: options.ModelOptions,
    grading: options.GradingOptions,
    workers: options.WorkerChoice,
    dry_run: options.DryRun = False,
    out: Annotated[
        Path | None, typer.Option(help="File of results (JSONL); runs that are in it are not run again.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="File for the rows that `selfwire results` computes tables from.")
    ] = None,
    page: Annotated[Path | None, typer.Option("--report", help="Write an HTML page of the comparison.")] = None,
    home: options.Home = None,
) -> None:
    """Compare a method with its ablations and controls, over seeds; prints a table in Markdown."""
    if world is not None:
        idle = set(options.list_given_options(ctx)) - set(OF_WORLDS)
        options.refuse_unused(ctx, idle, f"the world {world!r} has tasks, sizes and systems of its own")
        about, options_of_workers = WorldStudy(method=method, world=world), workers.options.with_usual(WORKERS)
        _run_world(about, seeds or WORLD_SEEDS, options_of_workers, out, keep, page, home)
        return
    study = Study(
        method=method,
        benchmark=pin_commit(benchmark) if benchmark.startswith(PREFIX) else benchmark,
        models=models.names,
        variants=tuple(name.strip() for name in variants.split(",") if name.strip()),
        seeds=seeds or DEFAULTS.seeds,
        iterations=iterations,
        batch=batch,
        gate_tasks=gate_tasks,
        **grading.fields,
    )
    if not study.evolves:
        options.refuse_unused(ctx, options.OF_EVOLUTIONS, f"{method} is measured as it is, and not evolved first")
    study = options.tell(fit_study(study, options.list_sizes(ctx.params)))
    if is_own_data(study.benchmark):
        typer.echo("\n".join(read_tasks(study.benchmark, study.own_data).notes), err=True)
    if dry_run:
        show_estimate(estimate_ablation(study))
        return
    rows_file = out or Path(f"ablate-{method}-{Path(benchmark).stem}.jsonl")
    record = partial(record_study, options.to_local_folder(home), rows_file)
    rows = run_ablation(study, rows_file, workers.options.with_usual(WORKERS), tell, record)
    add_result(method=method, benchmark=benchmark, rows=rows, file=str(rows_file))
    output.make_console().print(build_table(study, rows, output.get_command_line()))
    if keep is not None:
        keep_study(study, rows, keep)
    typer.echo(f"results are in {rows_file}; `selfwire report {rows_file}` makes a page of them", err=True)
    write_page(study, rows, rows_file, page)


def _run_world(
    about: WorldStudy,
    seeds: int,
    workers: WorkerOptions,
    out: Path | None,
    keep: Path | None,
    page: Path | None,
    home: str | None,
) -> None:
    found = load_world(about.method, about.world)
    if seeds < 2:
        raise ConfigError(f"an interval over seeds needs two of them, not {seeds}; give --seeds 2 or more")
    record = partial(record_study, options.to_local_folder(home), out)
    results = run_world(about, seeds, workers, out, tell, record)
    if keep is not None:
        keep_world(results, keep)
    add_result(method=about.method, world=about.world, rows=results)
    output.make_console().print(f"{found.format_tables(results)}\n\n`{output.get_command_line()}`")
    write_page(about, results, out, page)
