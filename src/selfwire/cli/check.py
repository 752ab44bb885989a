"""The command that checks tasks and grader before a call is made: check."""

from typing import Annotated

import typer

from selfwire.cli import options, output
from selfwire.cli.commands import FAILED
from selfwire.cli.evolve import find_start
from selfwire.cli.json_output import add_result
from selfwire.core.errors import ConfigError
from selfwire.core.plugins import DEFAULT_METHOD, is_graph, method_names
from selfwire.evals.benchmarks.benchmark import Benchmark, TooFewTasksError
from selfwire.evals.benchmarks.catalogue import GENERATED
from selfwire.evals.table import ResultTable
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.graphs.method import make_method
from selfwire.graphs.own_graph import OwnGraph
from selfwire.models.sync import run_sync
from selfwire.runs.checking import AnchorScore, find_faults_of_tasks, judge_grader, score_anchors
from selfwire.runs.estimates import CostEstimate, estimate_evolution
from selfwire.runs.evolution import describe_gate, fit_evolution, load_tasks, refuse_hopeless_gate
from selfwire.runs.spec import EvolveSpec
from selfwire.store.library import to_local_folder

TRIED = 20
"""Tasks whose grader is tried."""


def check(
    *,
    benchmark: options.Benchmark = None,
    method: Annotated[
        str,
        typer.Option(
            help=f"What is planned to evolve: {', '.join(method_names())}, a graph of your own or a saved team."
        ),
    ] = DEFAULT_METHOD,
    config: options.ConfigFields = None,
    models: options.ModelOptions,
    iterations: Annotated[int, typer.Option(help="How often the team would be rewritten.")] = 10,
    gate: Annotated[str, typer.Option(help="Of the planned evolution: better, no-worse, mean or off.")] = "better",
    sizes: options.SplitSizes,
    seed: options.Seed = 0,
    grading: options.GradingOptions,
    home: options.Home = None,
) -> None:
    """Check tasks and grader before a call is made: what can be told apart with them, and what the grader rewards.

    The grader is given the reference in several forms, and texts that answer nothing; of a graph of your own it is said
    where the question goes and where the answer is. Exit code 1 for a problem.
    """
    evolved, team = find_start(method, None, to_local_folder(home))
    if evolved is None or not (evolved in method_names() or is_graph(evolved)):
        raise ConfigError(f"there is no method {method!r}; methods are {', '.join(method_names())}")
    if benchmark is None:
        raise ConfigError("check needs --benchmark, such as --benchmark my.jsonl")
    request = EvolveSpec(
        method=evolved,
        config=options.parse_config_fields(config or [], None),
        seed_team=team,
        benchmark=options.load_from_anywhere(benchmark),
        models=models.find_names([team], home, evolves=True),
        evolution=EvolutionConfig(name="check", iterations=iterations, gate=gate, seed=seed),
        **grading.fields,
    )
    request, note = fit_evolution(request, options.list_given_sizes(vars(sizes)))
    bench, tasks = load_tasks(request)
    problems, out = find_faults_of_tasks(tasks), output.make_console()
    counts = f"{len(tasks.train)} to learn from, {len(tasks.gate)} to decide by, {len(tasks.test)} to test with"
    wider = _describe_larger_gate(request, bench) if sizes.gate_size is None else ""
    notes = (note, *bench.notes, *describe_gate(request, tasks.gate), wider)
    out.print("\n".join([f"tasks of {bench.name}: {counts}", *filter(None, notes)]))
    try:
        refuse_hopeless_gate(request, tasks.gate)
    except ConfigError as error:
        problems.append(str(error))
    tried = (*tasks.train, *tasks.gate, *tasks.test)[:TRIED]
    anchors = run_sync(score_anchors(bench.environment, tried))
    wrong, remarks = judge_grader(anchors)
    problems += wrong
    if anchors:
        out.print(f"\nthe grader, on {len(tried)} tasks")
        output.print_table(_make_table(anchors, remarks))
    else:
        out.print("\nthe grader is a model, or references are no texts: it is not tried here")
    cost = _show_plan(request, home)
    scores = {found.anchor.name: found.score for found in anchors}
    add_result(problems=problems, anchors=scores, sizes=request.sizes, cost=cost)
    if problems:
        out.print("\n".join(["", *(f"problem: {problem}" for problem in problems)]))
        raise typer.Exit(FAILED)
    out.print("\nno problem was found; what can be proved with so many tasks is said above")


def _describe_larger_gate(request: EvolveSpec, bench: Benchmark) -> str:
    """Describe what can be told apart where the gate has the tasks that would be left over; "" if few would."""
    found, sizes = "", request.sizes
    for gate in (more * sizes.gate for more in (2, 4, 8, 16) if request.benchmark not in GENERATED):
        try:
            splits = bench.splits(request.evolution.seed, train=sizes.train, gate=gate, test=sizes.test)
        except TooFewTasksError:
            break
        told = describe_gate(request, splits.gate)
        found = f"there are tasks for --gate-size {gate}: {told[0]}" if told else ""
    return found


def _show_plan(request: EvolveSpec, home: str | None) -> CostEstimate:
    """Show where the question of a graph of the user's own goes, and what the evolution costs."""
    out, team = output.make_console(), request.seed_team
    if isinstance(found := make_method(request.method, request.config), OwnGraph):
        asked = options.with_library(home, lambda library: library.load(team)) if team else found.seed()
        out.print(f"\n{found.describe_asking(asked)}")
    planned = request.replace(evolution=request.evolution.replace(anyway=True))
    cost = estimate_evolution(planned, to_local_folder(home))
    free = "\nthe offline model costs nothing; name yours with --model" if request.models.is_offline else ""
    out.print(f"\n{cost.text}{free}")
    return cost


def _make_table(anchors: list[AnchorScore], remarks: list[str]) -> ResultTable:
    rows = [
        (found.anchor.name, "-" if found.score is None else f"{found.score:.2f}", "1" if found.anchor.right else "0")
        for found in anchors
    ]
    return ResultTable(("answer", "mean score", "should be"), tuple(rows), tuple(f"note: {text}" for text in remarks))
