"""The command that finds out what systems are worth with the user's model: prove."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from selfwire.cli import options, output
from selfwire.cli.compare import CALLS, Evolutions, parse_systems
from selfwire.cli.evaluate import AGAIN, exit_on_errors, parse_request, run_part
from selfwire.cli.json_output import add_result
from selfwire.core.errors import ConfigError
from selfwire.core.usage import Usage
from selfwire.core.values import format_count
from selfwire.evals.table import SystemSummary, list_kept_lines
from selfwire.evals.tasks import is_own_data
from selfwire.runs.estimates import estimate_proof
from selfwire.runs.evaluation import RESULTS
from selfwire.runs.proof import (
    ALWAYS,
    DIRECT,
    KEPT,
    PAGE,
    VOTER,
    ProofHead,
    choose_benchmarks,
    choose_systems,
    describe_visible_gains,
    format_page,
    make_entries,
    name_proof,
    name_run,
    read_proof,
    summarise_proof,
    write_rows,
)
from selfwire.runs.record import get_run_folder
from selfwire.runs.spec import EvaluateSpec, SystemSpec
from selfwire.runs.votes import make_votes_request
from selfwire.store.library import to_local_folder

TASKS, SEEDS = 100, 3
"""The usual sizes: tasks of a seed, and seeds."""


@dataclass(frozen=True)
class ProofSizes:
    """Options of the sizes of a proof."""

    tasks: Annotated[
        int | None, typer.Option(min=1, help="Tasks per seed.", show_default=f"{TASKS}, or what there are")
    ] = None
    seed: options.Seed = 0
    seeds: Annotated[
        int, typer.Option(min=1, max=options.MOST_SEEDS, help="Seeds, each with evolutions and tasks of its own.")
    ] = SEEDS
    calls_per_task: Annotated[int, typer.Option(min=1, help="Most model calls for a task, for every system.")] = CALLS


def prove(
    ctx: typer.Context,
    *,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(
            help="A benchmark, or a file of your own tasks; may be given again.",
            show_default="HotpotQA with its paragraphs, and gsm8k",
        ),
    ] = None,
    systems: Annotated[
        str,
        typer.Option(
            help="Methods, baselines, saved teams and graphs of your own (module:graph), with commas; NAME=TARGET "
            "gives one a name.",
            show_default="the methods, self-refine, centralised, gepa",
        ),
    ] = "",
    sizes: ProofSizes,
    evolutions: Evolutions,
    without: Annotated[list[str] | None, typer.Option(help="Switch a part off, as NAME.part.")] = None,
    config: options.ConfigFields = None,
    models: options.ModelOptions,
    grading: options.GradingOptions,
    measuring: options.MeasuringOptions,
    workers: options.WorkerChoice,
    limits: options.BudgetOptions,
    dry_run: options.DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before money is spent.")] = False,
    out: Annotated[Path, typer.Option(help=f"Folder for the page {PAGE} and its rows {KEPT}.")] = Path(),
    home: options.Home = None,
) -> None:
    """Find out what systems are worth with your model: at equal price, over seeds, with verdicts that hold together.

    Beside a single call, and beside as many votes as a system's answers cost. Methods that learn are evolved first.
    The same command goes on with what is unfinished.
    """
    folder = to_local_folder(home)
    named, notes = choose_systems(systems)
    entries = make_entries(parse_systems(named, options.parse_config_fields(config or []), without or []))
    chosen, which = (tuple(benchmark), "") if benchmark else choose_benchmarks()
    remarks = tuple(filter(None, (notes, which)))
    shared = {"evolving": evolutions.among(entries), "against": DIRECT, "tasks": sizes.tasks or TASKS}
    requests = _parse_requests(ctx, entries, chosen, shared)
    for remark in remarks:
        typer.echo(remark, err=True)
    cost = estimate_proof(requests, folder, sizes.seeds)
    gains = list(describe_visible_gains(requests, sizes.seeds))
    output.show_estimate(cost)
    typer.echo("\n".join(gains))
    add_result(dry_run=dry_run, visible=gains)
    if dry_run:
        return
    _refuse_unwritable(out)
    if not (yes or requests[0].models.calls_no_server):
        _ask_before_spending()
    head = ProofHead(
        proof=name_proof(requests),
        systems=tuple(entry.name for entry in entries if entry.name != DIRECT),
        seeds=tuple(range(sizes.seed, sizes.seed + sizes.seeds)),
        command=output.get_command_line(),
        notes=(*remarks, *gains),
    )
    _run_parts(head, requests, folder, {**ctx.params, **PLAIN}, out)


BUILT_IN = vars(options.GradingOptions())
"""Options of own tasks as benchmarks with their own rule take them."""

PLAIN = {"split": "test", "langsmith": False, "upload_references": False, "resume": None, "markdown": None}
"""Options of comparisons that a proof does not have."""


def _parse_requests(
    ctx: typer.Context, entries: tuple[SystemSpec, ...], benchmarks: Sequence[str], shared: Mapping[str, Any]
) -> list[EvaluateSpec]:
    """Make the request for each benchmark; options of own tasks are refused where no tasks are the user's own."""
    if not any(map(is_own_data, benchmarks)):
        options.refuse_unused(ctx, BUILT_IN, "they are for tasks of your own, and every benchmark here has its rule")
    given = {**ctx.params, **PLAIN}
    asked = [{**given, **({} if is_own_data(name) else BUILT_IN), "benchmark": name} for name in benchmarks]
    return [parse_request(fields, entries, "compare", **shared) for fields in asked]


def _refuse_unwritable(folder: Path) -> None:
    """Make the folder of the page and its rows; raise a ConfigError where they cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the page cannot be written to {folder}: {error.strerror}; name a folder with --out"
        ) from None
    output.refuse_unwritable(folder / KEPT, "rows", "--out")
    output.refuse_unwritable(folder / PAGE, "proof", "--out")


def _ask_before_spending() -> None:
    """Ask whether to go on.

    Raises:
        ConfigError: nobody can be asked.
    """
    if not options.has_terminal():
        raise ConfigError("prove asks before it spends money, and there is no terminal here; --yes goes on without it")
    if not options.ask_on_terminal("go on?"):
        raise typer.Abort


def _run_parts(
    head: ProofHead, requests: Sequence[EvaluateSpec], folder: Path | None, given: Mapping[str, Any], out: Path
) -> None:
    """Run what is not finished, seed by seed; write rows and page of what is, also where a run stops."""
    spent, kept, summaries = Usage(), list[Sequence[str]](), list[SystemSummary]()

    def run(request: EvaluateSpec, name: str) -> dict[str, SystemSummary]:
        nonlocal spent
        lines, _, spent = run_part(request, name, folder, given, spent)
        summaries.extend(lines[1:])
        return {line.info.name: line for line in lines}

    try:
        for seed in head.seeds:
            for number, request in enumerate(requests, 1):
                seeded = request.replace(seed=seed)
                names = [name_run(head.proof, seeded, number)]
                lines = run(seeded, names[0])
                if votes := make_votes_request(seeded, lines, VOTER, ALWAYS):
                    names.append(name_run(head.proof, seeded, number, votes=True))
                    run(votes, names[-1])
                kept += [list_kept_lines(get_run_folder(folder, name) / RESULTS) for name in names]
    finally:
        if kept:
            write_rows(head, kept, out / KEPT)
            proof = read_proof(out / KEPT)
            output.write_text(out / PAGE, format_page(proof), "the page")
            add_result(proof=head.proof, verdicts=summarise_proof(proof), page=str(out / PAGE), spend=spent)
            parts = format_count(len(proof.parts), "part")
            output.make_console().print(f"\n{parts} of {len(head.seeds) * len(requests)} are on the page {out / PAGE}")
    exit_on_errors(summaries, given["max_errors"], AGAIN)
