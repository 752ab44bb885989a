"""The commands that evolve a team and take parts out of it: evolve and prune."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer

from selfwire.cli import options, output
from selfwire.cli.error_handling import ExplainedInterrupt, print_before_exit
from selfwire.cli.json_output import add_result
from selfwire.cli.memory import TRAIN
from selfwire.cli.progress import EvolutionProgress
from selfwire.cli.trajectories import print_broken_tools, read_trajectories
from selfwire.cli.versions import explain_drafts
from selfwire.core import topology
from selfwire.core.errors import ConfigError
from selfwire.core.plugins import is_graph, method_names
from selfwire.core.team import Team
from selfwire.core.text import MASK
from selfwire.core.trajectory import sum_decisions
from selfwire.core.usage import Objective
from selfwire.core.values import format_count, mask_controls
from selfwire.evals.table import TRIVIAL, format_difference
from selfwire.evals.topology_metrics import build_metrics_table, compute_run_metrics
from selfwire.evolvers.copies import list_task_sentences
from selfwire.graphs.evolve import (
    OBJECTIVE,
    EvolutionConfig,
    EvolutionState,
    count_failed_tests,
    count_groups,
    deal_questions,
    find_question,
    get_structure,
)
from selfwire.graphs.insertions import list_routes
from selfwire.graphs.method import find_method
from selfwire.graphs.pruning import PruningConfig
from selfwire.models.providers import ADDRESS, is_offline
from selfwire.models.sync import run_sync
from selfwire.runs.estimates import estimate_evolution
from selfwire.runs.evolution import (
    OpenEvolution,
    describe_run_pruning,
    fit_evolution,
    read_result,
    refuse_method_that_learns_nothing,
    resume_evolution,
    start_evolution,
)
from selfwire.runs.inputs import choose_graph_method, find_kind, find_team, load_to_ask, to_team_reference
from selfwire.runs.record import ResumeChanges, shorten_method, shorten_name
from selfwire.runs.results import Evolution, describe_payback
from selfwire.runs.spec import STAMP, TRAIN_TASKS, EvolveSpec, Sizes
from selfwire.runs.systems import switch_off
from selfwire.store.library import format_home_option, to_local_folder

if TYPE_CHECKING:
    from selfwire.graphs.approval import ApprovalQuestion

Opened = AbstractContextManager[OpenEvolution]
Method = Annotated[
    str | None,
    typer.Argument(
        help=f"{', '.join(method_names())}, a saved team to go on from, or a graph of your own (my_app.graph:graph); "
        "not with --resume."
    ),
]


@dataclass(frozen=True)
class GateOptions:
    """Options of what has to be shown before a change is kept, and whether parts have to show it too."""

    gate: Annotated[
        str,
        typer.Option(
            help="better: accept a gain that is proved on gate tasks, its further calls paid for; no-worse: that, or "
            "fewer calls at a loss that is ruled out; mean: accept what does no worse in the mean, chance included; "
            "off: accept everything, as in the papers."
        ),
    ] = "better"
    gate_tasks: Annotated[int, typer.Option(help="Gate tasks per look of a proof, and per comparison of mean.")] = 20
    margin: Annotated[
        float | None,
        typer.Option(help="Least gain; of --gate no-worse the loss that does not count. By default 0, and 0.02."),
    ] = None
    error: Annotated[float, typer.Option(help="Chance that a run of better or no-worse accepts mere chance.")] = 0.05
    objective: Annotated[
        str,
        typer.Option(
            help="What better and no-worse go by: the score less the price of a task's calls, tokens, dollars or "
            "seconds, such as 'score' or 'score - 0.0001*tokens'; or cheapest: fewest calls at a loss of at most "
            "--margin (0.02)."
        ),
    ] = OBJECTIVE
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway", help="Run although there are too few gate tasks for any proof before the last iteration."
        ),
    ] = False
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="At the end take out agents, edges, tools and sentences of prompts that the team does no worse "
            "without, as the command prune does; the last 240 gate tasks are kept for that.",
        ),
    ] = False

    def refuse_idle(self, ctx: typer.Context, method: str | None) -> None:
        """Raise a ConfigError for options that do nothing under this gate."""
        if self.prune:  # which proves and compares by itself
            return
        if self.gate in ("off", "mean"):
            options.refuse_unused(ctx, ["error", "objective", "anyway"], f"--gate {self.gate} proves nothing")
        if self.gate == "off" and not (method and find_method(method).fits_held_out):
            options.refuse_unused(ctx, ["gate_tasks"], "with --gate off nothing is compared")


@dataclass(frozen=True)
class SayOptions:
    """Options by which a person has a say in what changes."""

    approve: Annotated[
        str | None, typer.Option(help="edits: ask on the terminal before a change that the gate accepts is kept.")
    ] = None
    freeze: options.Freeze = None
    guide: Annotated[
        str, typer.Option(help='A wish that every critic and rewriter is told, such as "keep the tone formal".')
    ] = ""


def evolve(
    ctx: typer.Context,
    *,
    method: Method = None,
    graph_method: Annotated[
        str | None, typer.Option("--method", help="How a graph of your own evolves: hiva (by default), hera or router.")
    ] = None,
    benchmark: options.Benchmark = None,
    resuming: options.ResumeOptions,
    name: options.TeamName = None,
    models: options.ModelOptions,
    iterations: Annotated[int, typer.Option(help="How often the team is rewritten.")] = 10,
    batch: Annotated[int, typer.Option(help="Train tasks per iteration.")] = 10,
    gating: GateOptions,
    sizes: options.SplitSizes,
    seed: options.Seed = 0,
    concurrency: Annotated[int, typer.Option(help="Teams that run at the same time.")] = 8,
    workers: options.WorkerChoice,
    team: options.StartTeam = None,
    say: SayOptions,
    grading: options.GradingOptions,
    config: options.ConfigFields = None,
    router: options.RouterName = None,
    without: options.Without = None,
    limits: options.BudgetOptions,
    calls_per_task: options.CallsSetAside = 60,
    dry_run: options.DryRun = False,
    details: Annotated[
        bool, typer.Option("--details", help="Show at the end how the teams' topologies changed in training.")
    ] = False,
    baselines: Annotated[bool, typer.Option(help="Measure baselines on the test tasks too.")] = True,
    home: options.Home = None,
) -> None:
    """Evolve a team on a benchmark; stops at budgets and Ctrl-C in a state that --resume goes on from."""
    folder = to_local_folder(home)

    def reopen(run: str, changes: ResumeChanges = ResumeChanges()) -> Opened:
        place = workers.choose_place(retry_failed=changes.retry_failed)
        return resume_evolution(run, folder, place=place, changes=changes)

    if resuming.resume is not None:
        _run_with_answers(reopen(resuming.resume, options.parse_changes(ctx)), home, details, reopen)
        return
    options.refuse_without_resume(ctx)
    method, team = find_start(method, team, folder)
    gating.refuse_idle(ctx, method)
    request = parse_request({**ctx.params, "method": method, "team": team}, models, grading, limits)
    if dry_run:
        output.show_estimate(estimate_evolution(request, folder))
        return
    _refuse_without_terminal(request)
    place = workers.choose_place(request)
    _run_with_answers(start_evolution(request, folder, place=place), home, details, reopen)


def find_start(method: str | None, team: str | None, home: Path | None) -> tuple[str | None, str | None]:
    """Find the method, and the saved team to start from, which may be named in the method's place.

    Raises:
        ConfigError: both name a saved team.
        LibraryError: there is no such method or team.
    """
    if method is None or find_kind(method):
        return method, team
    if team is not None:
        raise ConfigError(f"{method!r} names a saved team, and --team {team} another; leave one out")
    return find_team(method, home).method, method


@dataclass(frozen=True)
class PruningOptions:
    """Options of what is left out of a team, on how many tasks, and of the proof."""

    iterations: Annotated[int, typer.Option(help="Most times that parts are taken out.")] = 6
    batch: Annotated[int, typer.Option(help="Train tasks on which every part is left out once.")] = 20
    checks: Annotated[
        int, typer.Option(help="Further train tasks, on which those that are to go are left out together.")
    ] = 40
    sentences: Annotated[
        int, typer.Option(help="Most sentences of prompts that are left out, the longest first; 0 leaves prompts.")
    ] = 8
    gate_tasks: Annotated[int, typer.Option(help="Gate tasks per look of a proof.")] = 20
    margin: Annotated[float, typer.Option(help="Loss of score that does not count.")] = 0.05
    error: Annotated[float, typer.Option(help="Chance that a run takes out what is worth more.")] = 0.05


def prune(
    *,
    name: options.Ref,
    benchmark: options.Benchmark = None,
    models: options.ModelOptions,
    pruning: PruningOptions,
    gate_size: options.GateSize = None,
    test: options.TestSize = None,
    seed: options.Seed = 0,
    concurrency: Annotated[int, typer.Option(help="Teams that run at the same time.")] = 8,
    freeze: options.Freeze = None,
    grading: options.GradingOptions,
    config: options.ConfigFields = None,
    limits: options.BudgetOptions,
    calls_per_task: options.CallsSetAside = 60,
    dry_run: options.DryRun = False,
    home: options.Home = None,
) -> None:
    """Take out what a saved team does not need: agents, edges, tools and sentences of prompts that add nothing.

    Each is left out once on train tasks. What is worth nothing there, and together on further ones, goes if held-out
    tasks prove that the smaller team loses at most the margin. `show NAME` has the worth of every part. A stopped run
    goes on by `evolve --resume`.
    """
    folder = to_local_folder(home)
    if benchmark is None:
        raise ConfigError("prune needs --benchmark, with tasks of the kind that the team works on")
    team, version = options.with_library(home, lambda library: load_to_ask(name, library))
    request = EvolveSpec(
        method=team.method,
        benchmark=options.load_from_anywhere(benchmark),
        models=models.find_names([name], home, evolves=True),
        sizes=Sizes(train=pruning.batch + pruning.checks, gate=240),
        evolution=EvolutionConfig(
            name=version.name if version else f"{team.method}-{shorten_name(benchmark)}",
            iterations=0,
            pruning=PruningConfig.model_validate(
                {name: value for name, value in vars(pruning).items() if name in PruningConfig.model_fields}
            ),
            gate_tasks=pruning.gate_tasks,
            error=pruning.error,
            freeze=freeze or (),
            concurrency=concurrency,
            seed=seed,
            calls_per_task=calls_per_task,
        ),
        config=options.parse_config_fields(config or [], None),
        budget=limits.budget,
        seed_team=name,
        baselines=False,
        **grading.fields,
    )
    sizes = {TRAIN_TASKS: None, "--gate-size": gate_size, "--test": test}
    request = options.tell(fit_evolution(request, sizes))
    if dry_run:
        output.show_estimate(estimate_evolution(request, folder))
        return
    with start_evolution(request, folder) as run:
        _run_and_report(run, home, details=False)


def parse_request(
    given: Mapping[str, Any],
    models: options.ModelOptions,
    grading: options.GradingOptions,
    limits: options.BudgetOptions,
) -> EvolveSpec:
    """Make a request of the command's options.

    Raises:
        ConfigError: method or benchmark is missing, or the method learns nothing between questions.
        ValueError: an option is out of bounds.
    """
    method, benchmark = given["method"], given["benchmark"]
    if method is None or benchmark is None:
        raise ConfigError("evolve needs a method and --benchmark, such as `selfwire evolve hiva --benchmark archive`")
    if is_graph(given["team"] or "") and not is_graph(method):
        choose_graph_method(given["team"], method)
    refuse_method_that_learns_nothing(method, benchmark)
    names = (
        "iterations", "batch", "gate", "gate_tasks", "margin", "error", "objective", "anyway",
        "seed", "concurrency", "calls_per_task", "guide",
    )  # fmt: skip
    config, usual = options.parse_config_fields(given["config"] or [], given["router"]), Sizes()
    if (graph_method := given["graph_method"]) is not None:
        if not is_graph(method):
            raise ConfigError(f"--method says how a graph of your own evolves, and {method} is none; leave it out")
        config |= choose_graph_method(method, graph_method)
    pruning = PruningConfig() if given["prune"] else None
    request = EvolveSpec(
        method=method,
        benchmark=options.load_from_anywhere(benchmark),
        models=models.find_names([given["team"]], given["home"], evolves=True),
        sizes=usual.replace(gate=usual.gate + (pruning.gate_size if pruning else 0)),
        evolution=EvolutionConfig.model_validate(
            {
                "name": given["name"] or f"{shorten_method(method)}-{shorten_name(benchmark)}",
                **{name: given[name] for name in names},
                "freeze": given["freeze"] or (),
                "approve": given["approve"],
                "pruning": pruning,
            }
        ),
        config=switch_off(method, given["without"] or [], config),
        budget=limits.budget,
        seed_team=given["team"],
        baselines=given["baselines"] and not is_graph(method),
        **grading.fields,
    )
    return options.tell(fit_evolution(request, options.list_given_sizes(given)))


def _refuse_without_terminal(request: EvolveSpec) -> None:
    if request.evolution.approve and not options.has_terminal():
        raise ConfigError(
            "--approve asks a person on a terminal, and there is none here; leave it out, or go on where there is one, "
            "or in Studio (docs/studio.md)"
        )


def _run_with_answers(opened: Opened, home: str | None, details: bool, reopen: "Callable[[str], Opened]") -> None:
    """Run an evolution to its end; while it waits for a person it is closed, as after a stop."""
    answer = None
    while True:
        with opened as run:
            _refuse_without_terminal(run.request)
            question = _run_and_report(run, home, details, answer)
        if question is None:
            return
        from selfwire.cli.approval import ask  # no other evolution needs it

        try:
            answer = ask(question, answer)
        except (typer.Abort, KeyboardInterrupt):
            typer.echo(f"\n{output.format_resume_line(run.command, run.run, home)}", err=True)
            raise ExplainedInterrupt from None
        opened = reopen(run.run)


def _run_and_report(
    run: OpenEvolution, home: str | None, details: bool, answer: Any = None
) -> "ApprovalQuestion | None":
    """Run an evolution and print its result; return the question that it waits with, if it does.

    Args:
        answer: to the question that it has waited with.
    """
    out = output.make_console()
    if answer is None:
        for notice in run.notices:
            out.print(notice)
        of = f"seed {run.config.seed}, {_describe_models(run)}"
        out.print(f"run {run.run}: {run.method.name} on {run.benchmark.name}, {of}")
    result: Evolution | None = None
    question: ApprovalQuestion | None = None

    def print_end(finished: bool) -> None:
        if question is None:
            _print_summary(run, home, result, finished=finished)

    with print_before_exit(print_end):
        progress = EvolutionProgress(run.config.all_iterations, out, tests=bool(run.splits.test))
        with output.tell_of_finished_run(run), progress:
            final = run_sync(run.execute(progress, answer))
        if question := find_question(final):
            from selfwire.cli.approval import show_question  # no other evolution needs it

            before, after = (run_sync(run.load_team(final[side])) for side in ("replaced", "incumbent"))
            add_result(run=run.run, status="stopped", question=question.model_dump(mode="json"))
            show_question(question, before, after)
            return question
        if run.config.pruning:
            pruning = run_sync(describe_run_pruning(run, final))
            add_result(pruning=pruning)
            out.print(f"{pruning}; it ended as {_explain_end(run, final)}")
        if run.splits.test and (run.request.baselines or run.config.pruning or is_graph(run.request.method)):
            result = run_sync(read_result(run, final, baselines=run.request.baselines))
            _add_result(result)
            show_result(result, run)
        show_measures(home, run.run, details=details)
    if failed := count_failed_tests(final):
        out.print(
            f"\n{failed} of {len(run.splits.test)} test tasks ended as errors and count for neither side; "
            f"try these again with: selfwire evolve --resume {run.run}{format_home_option(home)}"
        )
    return None


def _describe_models(run: OpenEvolution) -> str:
    """Name the model of the agents; a graph of the user's own brings its models, and others ask that of the command."""
    models = run.request.models
    if not is_graph(run.request.method):
        return f"model {models.agent}"
    if not run.config.iterations or run.request.config.get("method") == "router":
        return "models of its own"
    return f"models of its own, its critics' model {models.roles['meta']}"


def _explain_end(run: OpenEvolution, final: EvolutionState) -> str:
    if final.get("finished"):
        return "no other part can be expected to pass a proof"
    assert run.config.pruning is not None
    if final["iteration"] - final["pruned_from"] >= run.config.pruning.iterations:
        return f"parts were tried {format_count(run.config.pruning.iterations, 'time')}, the most that they may be"
    tasks = count_groups(deal_questions(run.config, run.splits.gate)[1])
    return f"after the rejections {tasks} are too few to prove anything more; give --gate-size"


def _add_result(result: Evolution) -> None:
    add_result(
        before=result.seed.fingerprint,
        after=result.team.fingerprint,
        systems=[line.to_json() for line in result.systems],
        gain=result.gain,
        over_single=result.over_single,
        worth=result.worth,
    )


def show_result(result: Evolution, run: OpenEvolution) -> None:
    """Print the team before and after, and the table of tested systems."""
    out = output.make_console()
    for title, team in (("before", result.seed), ("after", result.team)):
        out.print(f"\nteam {title} ({team.fingerprint})\n{topology.to_text(team.topology)}")
    out.print()
    has_trivial = any(line.info.name == TRIVIAL for line in result.systems)
    notes = (run.benchmark.baseline.note,) if has_trivial else ()
    output.print_table(result.table._replace(notes=notes))
    for what, estimate in (("evolved - seed", result.gain), ("evolved - single agent", result.over_single)):
        if estimate is not None:
            out.print(f"{what}, paired over {estimate.n} tasks: {format_difference(estimate)}")
    payback = describe_payback(result, Objective.parse(run.config.objective))
    add_result(payback=payback)
    for line in filter(None, (result.worth, payback)):
        out.print(line)
    agreed, judged = result.critic
    if judged:
        out.print(f"the team's opinion of its own answers was the environment's in {agreed} of {judged} cases")
    if run.request.models.is_offline and not is_graph(run.request.method):
        out.print(STAMP)


def show_measures(home: str | None, run: str, *, details: bool) -> None:
    """Print the free decisions of the run's router, if it had any, and how teams changed in training."""
    out, places = output.make_console(), list(read_trajectories(home, run))
    if (decided := sum_decisions(done.decisions for _, done in places)) and not decided.is_vacuous:
        out.print(f"\nfree decisions of the router in the whole run: {decided}; in the others it had no choice")
        if regret := decided.format_regret():
            best = "; it always took what it believes best" if decided.mean_regret == 0 else ""
            out.print(f"regret of these by its own beliefs: {regret}{best}")
    found = [done for place, done in places if place.endswith(TRAIN)]
    if not any("topology" in done.notes for done in found):
        return
    if details:
        out.print("\nteams in training")
        output.print_table(build_metrics_table(compute_run_metrics(found)))
    else:
        out.print(f"\nhow the teams changed in training: selfwire measures {run}{format_home_option(home)}")


def _print_summary(run: OpenEvolution, home: str | None, result: Evolution | None, *, finished: bool) -> None:
    """Print the cost of a run and how its team is used.

    Args:
        result: with the tests; None if the run has not come so far, or has none.
    """
    out, there = output.make_console(), format_home_option(home)
    output.print_summary(run, output.format_resume_line(run.command, run.run, home), finished=finished)
    print_broken_tools(run.journal, home)
    where, name = Path(run.library.where), run.config.name
    add_result(name=name, method=run.method.name, benchmark=run.request.benchmark)
    evolved = run_sync(run.find_evolved())
    add_result(version=evolved and evolved.ref)
    if evolved is None:
        out.print("\nnothing was evolved: no candidate has replaced the team that the run began with")
        is_saved = name in run_sync(run.library.names())  # a run that has stopped early may have saved nothing
        if is_saved and (drafts := explain_drafts(run_sync(run.library.history(name)), run.run)):
            out.print(drafts)
        return
    head = run_sync(run.library.head(name))
    if head.version != evolved.version:
        name = evolved.ref
        moved = "a rollback has put" if head.run == run.run else f"run {head.run!r} has saved"
        out.print(f"\n{moved} {head.ref!r} under this name since; this run's own is {name!r}")
    look = f"look at it with `selfwire show {to_team_reference(name)}{there}`"
    team = run_sync(run.library.load(evolved.ref))
    _print_what_to_read(run, team)
    if get_structure(team) == get_structure(run.seed_team):
        best = f"agents, tools and topology are as they were; what was learned beside them is in {name!r}, in {where}"
    elif not finished:
        best = f"the run has stopped before its end; the team so far is {name!r} in {where}"
    elif run.config.pruning and not run.config.iterations:
        best = f"the smaller team is {name!r} in {where}; `selfwire show {name} --worth{there}` has what is worth what"
    elif result and result.gain and result.gain.value <= 0:
        best = f"the evolved team, which has gained nothing on the test tasks, is {name!r} in {where}"
    else:
        best = f"the best team is {name!r} in {where}"
    if is_graph(run.request.method):
        if list_routes(team):  # which no source can have
            out.print(f"\n{best}; {look}, and ask it with `selfwire run {to_team_reference(name)}{there}`")
            return
        write = f"`selfwire export {to_team_reference(name)} {shorten_name(name)}.patch{there}`"
        out.print(f"\n{best}; {look}, and write its changes into your source with {write}")
        return
    out.print(f"\n{best}; {look}, use it so:")
    out.print(_snippet(run, where.parent.resolve(), name, team))


def _print_what_to_read(run: OpenEvolution, team: Team) -> None:
    """Print what a person should read before the team is used: new programs and tools, and sentences of train tasks."""
    powers = list_new_powers(run.seed_team, team)
    sentences = list_task_sentences(run.seed_team, team, run.splits.train)
    add_result(new_tools=powers, task_sentences=[sentence for _, sentence in sentences])
    shown = [mask_controls(f"{agent}: {shorten(sentence, 200)}") for agent, sentence in sentences]
    for title, lines in (
        ("beyond the team that the run began with:", powers),
        ("sentences that stand in train tasks word by word; read them before use:", shown),
    ):
        if lines:
            output.make_console().print("\n".join([f"\n{title}", *lines]))


def list_new_powers(before: Team, after: Team) -> list[str]:
    """List the programs that models have written or changed, and the tools that agents hold and did not hold before."""
    known = {tool.name: tool.source for tool in before.tools}
    found = [
        f"{'a changed' if tool.name in known else 'a new'} program, {tool.name}: {shorten(tool.description, 100)}"
        for tool in after.tools
        if tool.source != known.get(tool.name)
    ]
    for agent in after.agents:
        held = before.agents_by_id[agent.id].tools if agent.id in before.agents_by_id else ()
        if more := sorted({*agent.tools} - {*held}):
            found.append(f"{agent.id} holds {', '.join(more)}")
    return [mask_controls(line) for line in found]


def _snippet(run: OpenEvolution, home: Path, name: str, team: Team) -> str:
    """Write Python that asks the evolved team, and that makes a graph of it."""
    asked, imported = run.request.models, ""
    if asked.base_url:
        secret = MASK in asked.base_url
        address = f'os.environ["{ADDRESS}"]' if secret else json.dumps(asked.base_url)
        imported = "    from selfwire.models.providers import make_chat_model\n"
        imported = f"    import os\n\n{imported}" if secret else imported

    def write(model: str) -> str:
        plain = json.dumps(model)
        return f"make_chat_model({plain}, base_url={address})" if asked.base_url and not is_offline(model) else plain

    model = write(asked.agent)
    used = {agent.model for agent in team.agents} & asked.named.keys()
    named = ", ".join(f"{json.dumps(name)}: {write(asked.named[name])}" for name in sorted(used))
    models = f", models={{{named}}}" if named else ""
    tools = f", tools={json.dumps(run.facts['tools'])}" if "tools" in run.facts else ""
    return (
        f"{imported}    import selfwire\n\n"
        f'    team = selfwire.load("{to_team_reference(name)}", home="{home}")\n'
        f'    print(selfwire.run(team, "...", model={model}{models}{tools}).answer)\n'
        f"    graph = team.graph({model}{models}{tools})  # a compiled LangGraph"
    )
