"""The command that trains a router: train."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from selfwire.cli import options, output
from selfwire.cli.error_handling import print_before_exit
from selfwire.cli.json_output import add_result
from selfwire.cli.options import (
    BudgetOptions,
    ConfigFields,
    GradingOptions,
    Home,
    ModelOptions,
    WorkerChoice,
    list_given_options,
    load_from_anywhere,
    parse_changes,
    parse_config_fields,
    refuse_without_resume,
    to_local_folder,
    to_option,
)
from selfwire.cli.output import show_estimate
from selfwire.core.errors import ConfigError
from selfwire.core.values import format_count, to_plain_json
from selfwire.evals.table import ERRORS, MEAN_SCORE, SOLVED, Column, SystemSummary, build_table
from selfwire.evolvers.router.config import TrainConfig, paper_training
from selfwire.evolvers.router.reinforce import Update
from selfwire.extras.cluster.evolution_workers import choose_place
from selfwire.extras.cluster.executors import WorkerOptions
from selfwire.extras.cluster.worker_budgets import refuse_unusable_cluster
from selfwire.extras.lab.ablation.record import record_study
from selfwire.extras.lab.ablation.subjects import LearningTest
from selfwire.extras.lab.seeds import run_learning_test
from selfwire.extras.lab.study_output import tell, write_page
from selfwire.extras.lab.worlds.errands import ErrandStudy, SeedResult, summarise_results
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.models.sync import run_sync
from selfwire.runs.estimates import estimate_training
from selfwire.runs.evolution import fit_evolution
from selfwire.runs.record import shorten_name
from selfwire.runs.spec import STAMP, EvolveSpec, Sizes
from selfwire.runs.training import OpenTraining, describe_router, resume_training, start_training

COLUMNS = (
    Column[SystemSummary]("held-out tasks", lambda line: line.name),
    SOLVED,
    MEAN_SCORE,
    Column[SystemSummary]("calls", lambda line: f"{line.spend.calls:,}"),
    Column[SystemSummary]("tokens", lambda line: f"{line.spend.tokens:,}"),
    ERRORS,
)
DEFAULTS = TrainConfig()
STUDY = ErrandStudy()
FAMILY = "errands"
STUDY_ONLY = ("seeds", "sparse", "out", "page")
"""Parameters of the learning test only."""
SHARED = ("method", "family", "updates", "batch", "embedder", "workers", "executor", "ray_address", "home")
"""Parameters of both the learning test and a training on a benchmark."""

Updates = Annotated[
    int | None, typer.Option(min=1, help=f"Updates; {DEFAULTS.updates}, with --family {STUDY.updates}.")
]
TrainSize = Annotated[int | None, typer.Option("--train", min=1, help="Train tasks.", show_default=options.FITTED)]
Out = Annotated[
    Path | None, typer.Option(help="With --family: file of results (JSONL); seeds that are in it are not run again.")
]


def train(
    ctx: typer.Context,
    *,
    method: Annotated[str | None, typer.Argument(help="A method with a router; not needed with --resume.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="archive, plancraft, or a file of your own tasks.")] = None,
    family: Annotated[str | None, typer.Option(help="errands: the learning test, without a language model.")] = None,
    resume: options.Resume = None,
    retry_failed: options.RetryFailed = False,
    trust_run: options.TrustRun = False,
    name: options.TeamName = None,
    models: ModelOptions,
    updates: Updates = None,
    batch: Annotated[int, typer.Option(help="Episodes per update.")] = DEFAULTS.batch,
    checkpoint_every: Annotated[
        int, typer.Option(help="Save a version after so many updates.")
    ] = DEFAULTS.checkpoint_every,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = DEFAULTS.device,
    paper: Annotated[bool, typer.Option("--paper", help="Network and REINFORCE as in the paper.")] = False,
    process_reward: Annotated[
        bool, typer.Option("--process-reward", help="Count the evaluator's reward of each stage too.")
    ] = False,
    train_size: TrainSize = None,
    test: options.TestSize = None,
    seed: options.Seed = 0,
    concurrency: Annotated[int, typer.Option(help="Episodes that run at the same time.")] = 8,
    team: options.StartTeam = None,
    grading: GradingOptions,
    config: ConfigFields = None,
    limits: BudgetOptions,
    calls_per_task: options.CallsSetAside = EvolutionConfig.model_fields["calls_per_task"].default,
    dry_run: options.DryRun = False,
    seeds: Annotated[int, typer.Option(min=2, help="Trainings, with --family.")] = 5,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="With --family: make success by chance rare, about 1 %.")
    ] = False,
    workers: WorkerChoice,
    out: Out = None,
    page: Annotated[Path | None, typer.Option("--report", help="With --family: write an HTML page of it.")] = None,
    home: Home = None,
) -> None:
    """Train a router by the rewards of its runs; --resume continues a training that stopped."""
    if family is not None and (family != FAMILY or method is None or not describe_router(method).errands):
        raise ConfigError(f"the learning test is `selfwire train evomas --family {FAMILY}`")
    _refuse_useless_options(ctx, family)
    if family is not None:
        _run_learning_test(ctx.params, workers.options.with_usual(2))
        return
    folder = to_local_folder(home)
    if resume is not None:
        place = choose_place(workers.options, retry_failed=retry_failed)
        with resume_training(resume, folder, place=place, changes=parse_changes(ctx)) as training:
            _run_and_report(training, home)
        return
    refuse_without_resume(ctx)
    request = parse_request(ctx.params, models, grading, limits)
    if dry_run:
        show_estimate(estimate_training(request, TrainConfig.model_validate(request.config["train"]), folder))
        return
    refuse_unusable_cluster(request, workers.options)
    with start_training(request, folder, place=choose_place(workers.options)) as training:
        _run_and_report(training, home)


def _refuse_useless_options(ctx: typer.Context, family: str | None) -> None:
    given = list_given_options(ctx)
    if family is None:
        if idle := [name for name in given if name in STUDY_ONLY]:
            raise ConfigError(f"{_list_options(idle)} belong to --family {FAMILY}; leave them out, or give it")
    elif idle := [name for name in given if name not in (*STUDY_ONLY, *SHARED)]:
        raise ConfigError(
            f"{_list_options(idle)} would change nothing in the learning test; --family goes with "
            f"{_list_options([*STUDY_ONLY, *SHARED[2:]])} alone"
        )


def _list_options(names: Sequence[str]) -> str:
    return ", ".join(map(to_option, names))


def parse_request(
    given: dict[str, Any], models: ModelOptions, grading: GradingOptions, limits: BudgetOptions
) -> EvolveSpec:
    """Make a request of the command's options.

    Raises:
        ConfigError: method or benchmark is missing, or the method has no router.
        ValueError: an option is out of bounds.
    """
    method, benchmark = given["method"], given["benchmark"]
    if method is None or benchmark is None:
        raise ConfigError("train needs a method and --benchmark, such as `selfwire train evomas --benchmark archive`")
    request = EvolveSpec(
        method=method,
        benchmark=load_from_anywhere(benchmark),
        models=models.names,
        sizes=Sizes(gate=0),
        evolution=EvolutionConfig(
            name=given["name"] or f"{method}-{shorten_name(benchmark)}",
            iterations=0,
            gate="off",
            seed=given["seed"],
            concurrency=given["concurrency"],
            calls_per_task=given["calls_per_task"],
        ),
        config=_config(method, given),
        budget=limits.budget,
        seed_team=given["team"],
        baselines=False,
        **grading.fields,
    )
    return options.tell(fit_evolution(request, options.list_sizes(given, gate=False)))


def _config(method: str, given: dict[str, Any]) -> dict[str, Any]:
    router = describe_router(method)
    names = ("updates", "batch", "checkpoint_every", "device")
    training = TrainConfig(**{name: given[name] for name in names if given[name] is not None})
    training = paper_training(training) if given["paper"] else training
    found: dict[str, Any] = {**router.config, "train": training.model_dump(mode="json")}
    for option in ("paper", "process_reward"):
        if given[option] and option not in router.options:
            raise ConfigError(f"{to_option(option)} would change nothing in the router of {method}; leave it out")
    for option, fields in router.options.items():
        off = {name: False for name, value in fields.items() if value is True}
        found |= to_plain_json(fields) if given[option] else off
    for name, value in parse_config_fields(given["config"] or []).items():
        known = found.get(name)
        found[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return found


def _run_and_report(training: OpenTraining, home: str | None) -> None:
    out, run = output.make_console(), training.run
    for notice in training.notices:
        out.print(notice)
    out.print(f"run {run.run}: the router of {run.method.name} on {run.benchmark.name}")
    with print_before_exit(partial(_print_summary, training, home)):
        trained = run_sync(training.execute(lambda update: _print_update(update, training.plan.train.updates)))
        if run.splits.test:
            tested = run_sync(training.tested(trained))
            add_result(systems=[line.to_json() for line in tested])
            output.print_table(build_table(COLUMNS, tested))


def _print_update(update: Update, updates: int) -> None:
    reward = "-" if update.reward is None else f"{update.reward:.3f}"
    skipped = ", skipped: all returns are equal" if update.skipped else ""
    errors = f", {format_count(update.errors, 'error')}" if update.errors else ""
    output.make_console().print(
        f"update {update.number}/{updates}: reward {reward}, entropy {update.entropy:.3f}, "
        f"gradient {update.gradient_norm:.3f}, {update.episodes} episodes{errors}{skipped}"
    )


def _print_summary(training: OpenTraining, home: str | None, finished: bool) -> None:
    out, run = output.make_console(), training.run
    output.print_summary(run, home, finished=finished)
    add_result(name=run.config.name, method=run.method.name, benchmark=run.request.benchmark)
    if finished:
        out.print(f"the trained team is {run.config.name!r} in {run.library.where}")
    if run.request.models.is_offline:
        out.print(STAMP)


def _run_learning_test(given: dict[str, Any], workers: WorkerOptions) -> None:
    embedder = "minilm" if given["embedder"] == "auto" else given["embedder"]
    study = ErrandStudy(
        embedder=embedder,
        sparse=given["sparse"],
        length=4 if given["sparse"] else 2,
        updates=given["updates"] or STUDY.updates,
        batch=given["batch"],
    )

    about, out = LearningTest(method=given["method"], errands=study), given["out"]
    record = partial(record_study, to_local_folder(given["home"]), out)
    results = run_learning_test(about, given["seeds"], workers, out, tell, record)
    add_result(results=results)
    output.make_console().print(format_learning_test(study, results, output.get_command_line()))
    write_page(about, results, out, given["page"])


def format_learning_test(study: ErrandStudy, results: Sequence[SeedResult], command: str) -> str:
    """Format the learning test as Markdown."""
    positive = sum(result.positive for result in results) / len(results)
    lines = [
        f"Held-out errands, worded as no task for learning is: {study.tasks} per seed, {len(results)} seeds,",
        f"{study.updates} updates of {study.batch} episodes, embedder {study.embedder}; "
        f"{positive:.1%} of runs by chance are rewarded.",
        "",
        "| way to route | solved [95 % over seeds] | trained − this, paired |",
        "|---|---|---|",
        *(f"| {name} | {solved} | {gain or ''} |" for name, solved, gain in summarise_results(results)),
        "",
        f"`{command}`",
    ]
    return "\n".join(lines)
