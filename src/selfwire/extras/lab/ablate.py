"""The command that compares a method with its ablations and controls: ablate."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from selfwire.cli import options, output
from selfwire.cli.json_output import add_result
from selfwire.core.errors import ConfigError
from selfwire.core.plugins import compute_code_hash, method_names
from selfwire.core.values import FrozenModel, fingerprint
from selfwire.evals.readers import PREFIX, pin_commit
from selfwire.evals.tasks import is_own_data, read_tasks
from selfwire.extras.cluster.executors import open_workers
from selfwire.extras.cluster.jobs import Job, Report, run_jobs
from selfwire.extras.lab.ablation.plan import Study, Subject, WorldStudy, fit_study
from selfwire.extras.lab.ablation.record import Record, RecordedStudy, record_study
from selfwire.extras.lab.ablation.rows import StudyRow, append_row, begin_study, keep_study, read_rows
from selfwire.extras.lab.ablation.run import run_ablation
from selfwire.extras.lab.ablation.table import build_table
from selfwire.extras.lab.result_pages import keep_world
from selfwire.extras.lab.worlds.catalogue import list_worlds, load_world
from selfwire.extras.lab.worlds.gains import WorldResult
from selfwire.runs.estimates import estimate_ablation
from selfwire.runs.spec import WorkerOptions
from selfwire.store.files import refuse_existing
from selfwire.store.library import to_local_folder


class SeedRow(StudyRow):
    """The result of one seed."""

    result: WorldResult


def run_seed(report: Report, method: str, world: str, seed: int) -> Any:
    """All systems in the world of one seed."""
    return load_world(method, world).run_seed(seed)


DEFAULTS = Study()
WORLD_SEEDS = 20
WORKERS = 2
"""Processes by default."""
OF_WORLDS = ("method", "world", "seeds", "workers", "executor", "ray_address", "out", "keep", "page", "home")
"""Parameters that go with a world."""


def format_worlds() -> str:
    """All worlds, such as `kabb (hiva)`."""
    return ", ".join(f"{name} ({method})" for method, names in list_worlds().items() for name in names)


@dataclass(frozen=True)
class StudyOptions:
    """Options of what is compared, and on how much."""

    benchmark: Annotated[str, typer.Option(help="A benchmark by name, or a file of your own tasks.")] = (
        DEFAULTS.benchmark
    )
    variants: Annotated[str, typer.Option(help="Which variants, such as full,no-tev; by default all.")] = ""
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A variant of your own and a config field in which it differs from full, as k1.interval=1; may be "
            "given again.",
        ),
    ] = None
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, max=options.MOST_SEEDS, help=f"Runs per variant; {DEFAULTS.seeds}, with --world {WORLD_SEEDS}."
        ),
    ] = None
    iterations: Annotated[int, typer.Option(min=1, help="How often the team is rewritten.")] = DEFAULTS.iterations
    batch: Annotated[int, typer.Option(min=1, help="Train tasks per iteration.")] = DEFAULTS.batch
    gate_tasks: Annotated[int, typer.Option(min=1, help="Gate tasks per comparison.")] = DEFAULTS.gate_tasks
    train: Annotated[
        int | None, typer.Option(min=1, help="Train tasks.", show_default=f"{DEFAULTS.sizes.train}, or what there are")
    ] = None
    gate_size: Annotated[
        int | None, typer.Option(min=1, help="Gate tasks.", show_default=f"{DEFAULTS.sizes.gate}, or what there are")
    ] = None
    test: Annotated[
        int | None, typer.Option(min=1, help="Test tasks.", show_default=f"{DEFAULTS.sizes.test}, or what there are")
    ] = None
    world: Annotated[
        str | None,
        typer.Option(help=f"A simulated world instead of a benchmark, without a language model: {format_worlds()}."),
    ] = None


@dataclass(frozen=True)
class StudyResults:
    """Options of where results go, unless only the cost is estimated."""

    dry_run: options.DryRun = False
    out: Annotated[
        Path | None, typer.Option(help="File of results (JSONL); runs that are in it are not run again.")
    ] = None
    keep: Annotated[
        Path | None, typer.Option(help="File for the rows that `selfwire results` computes tables from.")
    ] = None
    page: Annotated[Path | None, typer.Option("--report", help="Write an HTML page of the comparison.")] = None
    home: options.Home = None

    def record_in(self, file: Path | None) -> Record:
        """Put a study on record among the runs of the home; `file` has its rows."""
        return partial(record_study, to_local_folder(self.home), file)


def ablate(
    ctx: typer.Context,
    *,
    method: Annotated[str, typer.Argument(help=f"Method: {', '.join(method_names())}.")] = DEFAULTS.method,
    compared: StudyOptions,
    models: options.ModelOptions,
    grading: options.GradingOptions,
    workers: options.WorkerChoice,
    results: StudyResults,
) -> None:
    """Compare a method with its ablations and controls, over seeds; prints a table in Markdown."""
    for kept, what in ((results.keep, "rows"), (results.page, "page")):
        if kept is not None:
            refuse_existing(kept, what)
    if (world := compared.world) is not None:
        idle = set(options.list_given_options(ctx)) - set(OF_WORLDS)
        options.refuse_unused(ctx, idle, f"the world {world!r} has tasks, sizes and systems of its own")
        about, options_of_workers = WorldStudy(method=method, world=world), _choose_workers(workers)
        _run_world(about, compared.seeds or WORLD_SEEDS, options_of_workers, results)
        return
    benchmark = compared.benchmark
    study = Study(
        method=method,
        benchmark=pin_commit(benchmark) if benchmark.startswith(PREFIX) else benchmark,
        models=models.name_models(),
        variants=tuple(name.strip() for name in compared.variants.split(",") if name.strip()),
        settings=options.parse_config_fields(compared.settings or []),
        seeds=compared.seeds or DEFAULTS.seeds,
        iterations=compared.iterations,
        batch=compared.batch,
        gate_tasks=compared.gate_tasks,
        **grading.fields,
    )
    if not study.evolves:
        options.refuse_unused(ctx, options.OF_EVOLUTIONS, f"{method} is measured as it is, and not evolved first")
    study = options.tell(fit_study(study, options.list_given_sizes(ctx.params)))
    if is_own_data(study.benchmark):
        typer.echo("\n".join(read_tasks(study.benchmark, study.own_data).notes), err=True)
    if results.dry_run:
        output.show_estimate(estimate_ablation(study))
        return
    file = results.out or Path(f"ablate-{method}-{Path(benchmark).stem}.jsonl")
    rows = run_ablation(study, file, _choose_workers(workers), _tell, results.record_in(file))
    add_result(method=method, benchmark=benchmark, rows=rows, file=str(file))
    output.make_console().print(build_table(study, rows, output.get_command_line()))
    if results.keep is not None:
        keep_study(study, rows, results.keep)
    typer.echo(f"results are in {file}; `selfwire report {file}` makes a page of them", err=True)
    _write_page(study, rows, file, results.page)


def _choose_workers(given: options.WorkerChoice) -> WorkerOptions:
    """Choose `WORKERS` processes where no number is given."""
    asked = given.options
    return asked.replace(workers=WORKERS) if asked.workers is None and asked.executor == "process" else asked


def _run_world(about: WorldStudy, seeds: int, workers: WorkerOptions, results: StudyResults) -> None:
    """Run a method's world for the seeds that have no row yet, and print its tables."""
    world = load_world(about.method, about.world)
    if seeds < 2:
        raise ConfigError(f"an interval over seeds needs two of them, not {seeds}; give --seeds 2 or more")
    parameters = world.parameters.model_dump(mode="json")
    key = fingerprint({**parameters, "code": compute_code_hash()})
    kept = read_rows(results.out, key, SeedRow) if results.out else []
    if results.out:
        begin_study(about, results.out)
    found = {row.result.seed: row.result for row in kept if row.result.seed < seeds}
    left = [seed for seed in range(seeds) if seed not in found]
    _tell(f"{seeds} seeds, {len(found)} of them done")
    jobs = (Job.of(f"seed {seed}", run_seed, method=about.method, world=about.world, seed=seed) for seed in left)
    record = results.record_in(results.out)
    with record(RecordedStudy(head=about, total=seeds), key) as note, open_workers(workers) as executor:
        for row in kept:
            note(f"{row.result.seed:04}", row)
        for ended in run_jobs(deque(jobs), executor):
            row = SeedRow.model_validate({"study": key, "result": ended.result})
            found[row.result.seed] = row.result
            if results.out:
                append_row(results.out, row)
            note(f"{row.result.seed:04}", row)
            _tell(f"seed {row.result.seed}: {len(row.result.figures)} systems; {seeds - len(found)} seeds left")
    rows = [found[seed] for seed in range(seeds)]
    if results.keep is not None:
        keep_world(about, rows, results.keep)
    add_result(method=about.method, world=about.world, rows=rows)
    output.make_console().print(f"{world.format_tables(rows)}\n\n`{output.get_command_line()}`")
    _write_page(about, rows, results.out, results.page)


def _tell(line: str) -> None:
    """Print a line on how a study goes on."""
    typer.echo(line, err=True)


def _write_page(subject: Subject, rows: Sequence[FrozenModel], file: Path | None, page: Path | None) -> None:
    """Write the page of a study if one is asked for.

    Args:
        file: of its rows, by which the page is named.
    """
    if page is None:
        return
    from selfwire.extras.pages.page import save_page  # most studies need no page
    from selfwire.extras.pages.studies import describe_rows

    name = file.name if file else page.name
    written = save_page(describe_rows(subject, [row.model_dump(mode="json") for row in rows], name), page)
    _tell(f"its page is {written.resolve()}")
