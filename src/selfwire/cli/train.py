"""The command that trains a router: train."""

from functools import partial
from typing import Annotated, Any

import typer

from selfwire.cli import options, output
from selfwire.cli.error_handling import print_before_exit
from selfwire.cli.json_output import add_result
from selfwire.cli.trajectories import print_broken_tools
from selfwire.core.errors import ConfigError
from selfwire.core.values import format_count, to_plain_json
from selfwire.evals.table import ERRORS, MEAN_SCORE, SOLVED, Column, SystemSummary, build_table
from selfwire.evolvers.router.config import TrainConfig, paper_training
from selfwire.evolvers.router.reinforce import Update
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.models.sync import run_sync
from selfwire.runs.estimates import estimate_training
from selfwire.runs.evolution import fit_evolution
from selfwire.runs.record import shorten_name
from selfwire.runs.spec import STAMP, EvolveSpec, Sizes
from selfwire.runs.training import OpenTraining, describe_router, resume_training, start_training
from selfwire.store.library import to_local_folder

COLUMNS = (
    Column[SystemSummary]("held-out tasks", lambda line: line.name),
    SOLVED,
    MEAN_SCORE,
    Column[SystemSummary]("calls", lambda line: f"{line.spend.calls:,}"),
    Column[SystemSummary]("tokens", lambda line: f"{line.spend.tokens:,}"),
    ERRORS,
)
DEFAULTS = TrainConfig()
TrainSize = Annotated[int | None, typer.Option("--train", min=1, help="Train tasks.", show_default=options.FITTED)]


def train(
    ctx: typer.Context,
    *,
    method: Annotated[str | None, typer.Argument(help="A method with a router; not needed with --resume.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="archive, plancraft, or a file of your own tasks.")] = None,
    resuming: options.ResumeOptions,
    name: options.TeamName = None,
    models: options.ModelOptions,
    updates: Annotated[int, typer.Option(min=1, help="Updates.")] = DEFAULTS.updates,
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
    grading: options.GradingOptions,
    config: options.ConfigFields = None,
    limits: options.BudgetOptions,
    calls_per_task: options.CallsSetAside = EvolutionConfig.model_fields["calls_per_task"].default,
    dry_run: options.DryRun = False,
    workers: options.WorkerChoice,
    home: options.Home = None,
) -> None:
    """Train a router by the rewards of its runs; --resume continues a training that stopped."""
    folder = to_local_folder(home)
    if resuming.resume is not None:
        place = workers.choose_place(retry_failed=resuming.retry_failed)
        with resume_training(resuming.resume, folder, place=place, changes=options.parse_changes(ctx)) as training:
            _run_and_report(training, home)
        return
    options.refuse_without_resume(ctx)
    request = parse_request(ctx.params, models, grading, limits)
    if dry_run:
        output.show_estimate(estimate_training(request, TrainConfig.model_validate(request.config["train"]), folder))
        return
    with start_training(request, folder, place=workers.choose_place(request)) as training:
        _run_and_report(training, home)


def parse_request(
    given: dict[str, Any], models: options.ModelOptions, grading: options.GradingOptions, limits: options.BudgetOptions
) -> EvolveSpec:
    """Make a request of the command's options.

    Raises:
        ConfigError: method or benchmark is missing, or the method has no router.
        ValueError: an option is out of bounds.
    """
    method, benchmark = given["method"], given["benchmark"]
    if method is None or benchmark is None:
        raise ConfigError("train needs a method and --benchmark, such as `selfwire train evomas --benchmark archive`")
    router = describe_router(method)
    names = ("updates", "batch", "checkpoint_every", "device")
    training = TrainConfig(**{name: given[name] for name in names})
    training = paper_training(training) if given["paper"] else training
    config: dict[str, Any] = {**router.config, "train": training.model_dump(mode="json")}
    for option in ("paper", "process_reward"):
        if given[option] and option not in router.options:
            raise ConfigError(
                f"{options.to_option(option)} would change nothing in the router of {method}; leave it out"
            )
    for option, fields in router.options.items():
        off = {name: False for name, value in fields.items() if value is True}
        config |= to_plain_json(fields) if given[option] else off
    for name, value in options.parse_config_fields(given["config"] or []).items():
        known = config.get(name)
        config[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    request = EvolveSpec(
        method=method,
        benchmark=options.load_from_anywhere(benchmark),
        models=models.find_names([given["team"]], given["home"], evolves=True),
        sizes=Sizes(gate=0),
        evolution=EvolutionConfig(
            name=given["name"] or f"{method}-{shorten_name(benchmark)}",
            iterations=0,
            gate="off",
            **{name: given[name] for name in ("seed", "concurrency", "calls_per_task")},
        ),
        config=config,
        budget=limits.budget,
        seed_team=given["team"],
        baselines=False,
        **grading.fields,
    )
    return options.tell(fit_evolution(request, options.list_given_sizes(given, gate=False)))


def _run_and_report(training: OpenTraining, home: str | None) -> None:
    out, run = output.make_console(), training.run
    for notice in training.notices:
        out.print(notice)
    out.print(f"run {run.run}: the router of {run.method.name} on {run.benchmark.name}")
    with print_before_exit(partial(_print_summary, training, home)):
        with output.tell_of_finished_run(run):
            trained = run_sync(training.execute(lambda update: _print_update(update, training.plan.train.updates)))
            tested = run_sync(training.tested(trained)) if run.splits.test else []
        if run.splits.test:
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
    output.print_summary(run, output.format_resume_line(run.command, run.run, home), finished=finished)
    print_broken_tools(run.journal, home)
    add_result(name=run.config.name, method=run.method.name, benchmark=run.request.benchmark)
    if finished:
        out.print(f"the trained team is {run.config.name!r} in {run.library.where}")
    if run.request.models.is_offline:
        out.print(STAMP)
