"""The command that puts one question to a team: run."""

from pathlib import Path
from typing import Annotated

import typer

from selfwire.cli import options
from selfwire.cli.exit_codes import STOPPED
from selfwire.cli.first_question import explain_offline, warn_of_many_calls
from selfwire.cli.json_output import add_result
from selfwire.cli.option_groups import Models
from selfwire.cli.options import ConfigFields, Home, RouterName, parse_config_fields
from selfwire.cli.output import format_spend, print_answer
from selfwire.cli.run_details import show_notes, show_plan
from selfwire.cli.trajectories import show_steps
from selfwire.core.budget import Budget
from selfwire.core.errors import ConfigError, ModelError, StoppedError, TaskError
from selfwire.core.protocols import Embedder, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import fingerprint
from selfwire.core.workflow import Workflow
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.graphs.method_names import method_names
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.method_registry import make_method
from selfwire.graphs.ready_tools import FORMS, load_tools
from selfwire.runs.models import load_models_embedder, make_metered_model
from selfwire.runs.report import STAMP
from selfwire.runs.targets import describe_clashes, describe_other_model, find_kind, load_saved, require_saved
from selfwire.runs.training import UNTRAINED, is_untrained
from selfwire.runs.workflow_checks import refuse_missing_tools, refuse_other_method, refuse_unreadable_memory
from selfwire.runtime.embedding_cache import CachedEmbedder
from selfwire.runtime.journal import Journal
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.sync import run_sync
from selfwire.runtime.workflow_library import open_library
from selfwire.tools.browse import BROWSE, BrowseTool
from selfwire.tools.calculator import CalculatorTool
from selfwire.tools.search import SearchTool, make_retriever, read_documents


def run(
    *,
    target: Annotated[
        str,
        typer.Argument(
            help=f"Method ({', '.join(method_names())}), or saved team: name, name@version, team:name, .json."
        ),
    ],
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    workflow: Annotated[str | None, typer.Option(help="Saved team or .json file; else the method's seed.")] = None,
    models: Models,
    benchmark: Annotated[str | None, typer.Option(help="Lend the tools of a benchmark, such as archive.")] = None,
    tools: Annotated[str | None, typer.Option(help=f"Tools that agents may call: {FORMS}.")] = None,
    corpus: Annotated[Path | None, typer.Option(help="Documents to search: JSONL with title and text.")] = None,
    retriever: Annotated[
        str | None, typer.Option(help="How --corpus is searched: bm25, dense or hybrid.", show_default="bm25")
    ] = None,
    seed: options.Seed = 0,
    budget_calls: options.BudgetCalls = None,
    config: ConfigFields = None,
    router: RouterName = None,
    show: Annotated[bool, typer.Option("--show", help="Show messages, routing scores and reasons.")] = False,
    page: Annotated[
        Path | None, typer.Option("--report", help="Write an HTML page of who worked and what was said.")
    ] = None,
    home: Home = None,
) -> None:
    """Put one question to a team and print its answer; nothing evolves and nothing is saved."""
    text = typer.get_text_stream("stdin").read().strip() if question == "-" else question.strip()
    if not text:
        raise ConfigError("the question is empty; write one, or - and give it on standard input")
    names = models.names
    method, saved, origin = _find_team(target, workflow, home, names.agent)
    embeds, notices = load_models_embedder(names)
    toolbox, held = _lend_tools(benchmark, tools, corpus, retriever, embeds)
    ledger = Ledger(Budget(calls=budget_calls))
    chat = make_metered_model(names, journal=Journal.memory(), ledger=ledger, probe=True).with_labels(method=method)
    fields = parse_config_fields(config or [], router)
    solver = make_method(method, model=chat, toolbox=toolbox, embedder=embeds, config=fields)
    team = _check_team(solver, saved, toolbox, origin) if saved else solver.make_initial_workflow(held)
    hints = explain_offline(target, text, benchmark) if names.calls_no_server and corpus is None else ()
    add_result(measured=origin, method=method, workflow=team.fingerprint)
    for line in (origin, *notices, *hints, *warn_of_many_calls(method, fields, team)):
        typer.echo(line, err=True)
    asked = Question(id=fingerprint(text), input=text)
    _print_answer(solver, team, asked, Scope(run="run", seed=seed, phase="run"), ledger, show, page, names.is_offline)


def _print_answer(
    solver: Method,
    team: Workflow,
    asked: Question,
    scope: Scope,
    ledger: Ledger,
    show: bool,
    page: Path | None,
    offline: bool,
) -> None:
    """Ask the team; print the answer, and the cost whether there is one or not."""
    try:
        done: Trajectory = run_sync(solver.solve(team, asked, scope=scope))
    except (StoppedError, ModelError) as error:
        reached = error.partial_result if isinstance(error, StoppedError) else None
        add_result(status="stopped", answer=reached.answer if reached else None, error=str(error), spend=ledger.spent)
        if reached is not None:
            _show(solver, team, reached, show)
            _write_page(team, reached, page, offline=offline)
            print_answer(reached.answer)
        best = "; the answer is the best until then" if reached else ", before there was any answer"
        why = str(error).replace(" and resume the run", "").replace(", then resume", ", then try again")
        typer.echo(f"stopped{best}: {why}", err=True)
        _print_spend(ledger, offline=offline)
        raise typer.Exit(STOPPED) from None
    add_result(status="finished", answer=done.answer, error=done.error, spend=ledger.spent, trajectory=done)
    _show(solver, team, done, show)
    _write_page(team, done, page, offline=offline)
    if done.answer is not None:
        print_answer(done.answer)
    _print_spend(ledger, offline=offline)
    if done.answer is None:
        why = (done.error or "there is no answer").replace(", then resume", "")
        raise TaskError(f"{why}; look at the steps with --show, then try again")


def _print_spend(ledger: Ledger, *, offline: bool) -> None:
    typer.echo(f"{format_spend(ledger.spent)}{f'; {STAMP}' if offline else ''}", err=True)


def _show(method: Method, team: Workflow, done: Trajectory, wanted: bool) -> None:
    """Show what led to the answer; the answer and the cost are printed below it, once."""
    if not wanted:
        return
    show_plan(done)
    show_steps(done)
    show_notes(method.name, done)
    if is_untrained(method, team):
        typer.echo(f"{UNTRAINED}\n")


def _write_page(team: Workflow, done: Trajectory, page: Path | None, *, offline: bool) -> None:
    if page is not None:
        from selfwire.report.question import write_question_page  # most questions need no page

        write_question_page(team, done, page, offline=offline)
        typer.echo(f"its page is {page.resolve()}", err=True)


def _find_team(target: str, workflow: str | None, home: str | None, model: str) -> tuple[str, Workflow | None, str]:
    """The method's name, its saved team unless the seed is meant, and a line that says which it is.

    Raises:
        ConfigError: both name a saved team, or the team belongs to another method.
        LibraryError: there is no such method or team.
    """
    with open_library(home, create=False) as library:
        kind = find_kind(target)
        if kind and workflow is None:
            clashes = describe_clashes([target], run_sync(library.names()))
            return target, None, "; ".join([f"{kind} {target}, its seed team", *clashes])
        if not kind and workflow is not None:
            raise ConfigError(f"{target!r} names a saved team, and --workflow {workflow} another; leave one out")
        ref = require_saved(workflow or target)
        team, version = run_sync(load_saved(ref, library))
    if kind:
        refuse_other_method(team, target, f"workflow {ref!r}")
    other = describe_other_model(str(version.facts.get("model", "")) if version else "", model)
    return (
        team.method,
        team,
        f"saved team {version.ref if version else ref} of method {team.method} ({team.fingerprint}){other}",
    )


def _check_team(method: Method, team: Workflow, toolbox: Toolbox, what: str) -> Workflow:
    refuse_unreadable_memory(method, team, what)
    refuse_missing_tools(team, toolbox, what, "; lend the tools with --benchmark, --tools or --corpus")
    return team


def _lend_tools(
    benchmark: str | None, names: str | None, corpus: Path | None, retriever: str | None, embeds: Embedder
) -> tuple[Toolbox, tuple[str, ...]]:
    """The tools of a run, and the names of those that the agents of an initial team hold."""
    bench = load_benchmark(benchmark) if benchmark else None
    tools, held = (dict(bench.toolbox), list(bench.tools)) if bench else ({}, [])
    if names is not None:
        lent = load_tools(names)
        tools |= lent
        held += lent
    if corpus is None and retriever is not None:
        raise ConfigError("--retriever ranks the documents of --corpus; give a corpus, or leave it out")
    if corpus is not None:
        documents = read_documents(corpus)
        ranks = make_retriever(retriever or "bm25", documents, CachedEmbedder(embeds))
        tools |= {"search": SearchTool(documents, retriever=ranks), BROWSE: BrowseTool(documents)}
        held.append("search")
    if not tools:
        tools, held = {"calculator": CalculatorTool()}, ["calculator"]
    return tools, tuple(sorted(set(held)))
