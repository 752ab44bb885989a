"""The command that puts one question to a team: run."""

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from selfwire.cli import options
from selfwire.cli.commands import STOPPED
from selfwire.cli.json_output import add_result, print_text
from selfwire.cli.output import format_spend, list_spend_by_model, refuse_unwritable
from selfwire.cli.trajectories import show_notes, show_plan, show_steps
from selfwire.core.errors import ConfigError, LibraryError, ModelError, StoppedError, TaskError
from selfwire.core.plugins import is_graph, load_plugin, method_names
from selfwire.core.protocols import Embedder, Toolbox
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory, describe_broken_tools
from selfwire.core.values import mask_controls
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.graphs.method import CallEstimate, estimate_calls, find_method
from selfwire.models.embeddings import CachedEmbedder
from selfwire.models.sync import run_sync
from selfwire.runs.inputs import (
    OFFLINE,
    FoundTeam,
    describe_other_model,
    find_kind,
    find_team,
    load_models,
    refuse_other_method,
    require_saved,
)
from selfwire.runs.question import OpenQuestion, open_question
from selfwire.runs.spec import STAMP
from selfwire.runs.training import UNTRAINED, is_untrained
from selfwire.store.library import to_local_folder
from selfwire.tools.calculator import CalculatorTool
from selfwire.tools.ready import FORMS, load_tools
from selfwire.tools.search import BROWSE, BrowseTool, SearchTool, make_retriever, read_documents


def run(
    *,
    target: Annotated[
        str,
        typer.Argument(
            help=f"Method ({', '.join(method_names())}), or saved team: name, name@version, team:name, .json."
        ),
    ],
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    team: options.StartTeam = None,
    models: options.ModelOptions,
    benchmark: Annotated[str | None, typer.Option(help="Lend the tools of a benchmark, such as archive.")] = None,
    tools: Annotated[str | None, typer.Option(help=f"Tools that agents may call: {FORMS}.")] = None,
    mcp: options.Mcp = None,
    corpus: Annotated[Path | None, typer.Option(help="Documents to search: JSONL with title and text.")] = None,
    retriever: Annotated[
        str | None, typer.Option(help="How --corpus is searched: bm25, dense or hybrid.", show_default="bm25")
    ] = None,
    seed: options.Seed = 0,
    budget_calls: options.BudgetCalls = None,
    config: options.ConfigFields = None,
    router: options.RouterName = None,
    show: Annotated[bool, typer.Option("--show", help="Show messages, routing scores and reasons.")] = False,
    page: Annotated[
        Path | None, typer.Option("--report", help="Write an HTML page of who worked and what was said.")
    ] = None,
    home: options.Home = None,
) -> None:
    """Put one question to a team and print its answer; nothing evolves and nothing is saved."""
    text = typer.get_text_stream("stdin").read().strip() if question == "-" else question.strip()
    if not text:
        raise ConfigError("the question is empty; write one, or - and give it on standard input")
    if page is not None:
        refuse_unwritable(page, "page", "--report")
    found = _find_team(target, question, team, home)
    names = models.name_models(found.model)
    origin = found.title if is_graph(found.method) else found.title + _describe_model(found, names.agent)
    is_offline = names.is_offline and not is_graph(found.method)  # a graph has models of its own
    loaded = load_models(names, to_local_folder(home), teams=[found])
    toolbox, held = _load_tools(benchmark, options.name_tools(tools, mcp), corpus, retriever, loaded.embedder)
    fields = options.parse_config_fields(config or [], router)
    budget = options.make_budget({"calls": budget_calls})
    asked = open_question(found, loaded, toolbox=toolbox, held=held, budget=budget, config=fields)
    hints = explain_offline(target, text, benchmark) if is_offline and names.calls_no_server and corpus is None else ()
    many = warn_of_many_calls(found.method, fields, asked.team)
    fits = propose_seed(found.method, fields, text) if found.team is None else ()
    add_result(measured=origin, method=found.method, workflow=asked.team.fingerprint)
    for line in (origin, *asked.notices, *hints, *many, *fits):
        typer.echo(mask_controls(line), err=True)
    printing = _Printing(asked, show=show, page=page, is_offline=is_offline, has_several_models=names.are_several)
    try:
        done = run_sync(asked.ask(text, seed=seed))
    except (StoppedError, ModelError) as error:
        printing.print_stop(error)
        raise typer.Exit(STOPPED) from None
    printing.print_answer(done)


def _describe_model(found: FoundTeam, model: str) -> str:
    """Describe the model that answers, beside the one that a team was evolved with."""
    if found.model == model != OFFLINE:
        return f"; {model} answers, with which it was evolved"
    return describe_other_model(found.model, model)


@dataclass(frozen=True)
class _Printing:
    """The output of a question: the answer of a team, its steps and its cost."""

    asked: OpenQuestion
    show: bool
    page: Path | None
    is_offline: bool
    has_several_models: bool

    def print_answer(self, done: Trajectory) -> None:
        """Print an answer; raises a TaskError if there is none."""
        add_result(
            status="finished", answer=done.answer, error=done.error, spend=self.asked.ledger.spent, trajectory=done
        )
        self._show_details(done)
        if done.answer is not None:
            print_text(done.answer)
        self._print_spend()
        for line in describe_broken_tools([done]):
            typer.echo(mask_controls(line), err=True)
        self._write_page(done)
        if done.answer is None:
            why = (done.error or "there is no answer").replace(", then resume", "")
            raise TaskError(f"{why}; look at the steps with --show, then try again")

    def print_stop(self, error: StoppedError | ModelError) -> None:
        """Print why the team was stopped, and the best answer until then."""
        reached, spent = error.partial_result if isinstance(error, StoppedError) else None, self.asked.ledger.spent
        add_result(status="stopped", answer=reached.answer if reached else None, error=str(error), spend=spent)
        if reached is not None:
            self._show_details(reached)
            print_text(reached.answer or "")
        best = "; the answer is the best until then" if reached else ", before there was any answer"
        why = str(error).replace(", then resume", ", then try again")
        typer.echo(f"stopped{best}: {why}", err=True)
        self._print_spend()
        if reached is not None:
            self._write_page(reached)

    def _print_spend(self) -> None:
        stamp = f"; {STAMP}" if self.is_offline else ""
        typer.echo(f"{format_spend(self.asked.ledger.spent)}{stamp}", err=True)
        for line in list_spend_by_model(self.asked.journal) if self.has_several_models else ():
            typer.echo(f"    {line}", err=True)

    def _show_details(self, done: Trajectory) -> None:
        if self.show:
            show_plan(done)
            show_steps(done)
            show_notes(self.asked.method.name, done)
            if is_untrained(self.asked.method, self.asked.team):
                typer.echo(f"{UNTRAINED}\n")

    def _write_page(self, done: Trajectory) -> None:
        """Write the page last: one that fails hides no answer that is paid for."""
        if self.page is not None:
            load_plugin("selfwire.pages", "question")(self.asked.team, done, self.page, offline=self.is_offline)
            typer.echo(f"its page is {self.page.resolve()}", err=True)


def _find_team(target: str, question: str, team: str | None, home: str | None) -> FoundTeam:
    """Find the saved team of a name, or the method whose first team is meant.

    Raises:
        ConfigError: both name a saved team, or the team belongs to another method.
        LibraryError: there is no such method or team.
    """
    if team is None:
        try:
            return find_team(target, home)
        except LibraryError:
            if any(mark in target for mark in " ?") and _is_team(question, home):
                raise ConfigError(
                    f"the team stands before the question: selfwire run {question} {shlex.quote(target)}"
                ) from None
            raise
    if not find_kind(target):
        raise ConfigError(f"{target!r} names a saved team, and --team {team} another; leave one out")
    found = find_team(require_saved(team), home, agreed=target)
    if found.team is not None:
        refuse_other_method(found.team, target, f"team {team!r}")
    return found


def _is_team(name: str, home: str | None) -> bool:
    """Whether a name means a team."""
    with suppress(ConfigError, LibraryError):
        return bool(find_team(name, home))
    return False


def _load_tools(
    benchmark: str | None, names: str | None, corpus: Path | None, retriever: str | None, embeds: Embedder
) -> tuple[Toolbox, tuple[str, ...]]:
    """Load the tools of a run; return them with the names of the tools that an initial team has."""
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


KNOWN = ("Who founded Klumeileth Works?", "archive")
"""A question that the offline model can answer, and the benchmark whose tools it needs."""
MODEL = "openai:gpt-4o-mini"
"""A real model, as an example."""
MANY = 20
"""Expected calls for a question from which on the user is warned."""


def explain_offline(target: str, question: str, benchmark: str | None) -> tuple[str, ...]:
    """Say, for a question that the offline model cannot answer, how to ask a real model, and what it can answer."""
    if benchmark is not None and load_plugin("selfwire.models", "offline").knows(question):
        return ()
    known, lends = KNOWN
    ask = f"selfwire run {shlex.quote(target)}"
    return (
        f'the offline model answers only the tasks of generated benchmarks: {ask} "{known}" --benchmark {lends}',
        f"a real model answers this one: {ask} {shlex.quote(question)} --model {MODEL}"
        " (needs OPENAI_API_KEY; --base-url ADDRESS for a server of your own)",
    )


def propose_seed(method: str, config: Mapping[str, Any], question: str) -> tuple[str, ...]:
    """Propose another initial team of the method, where the question's wording asks for it and the user has not."""
    seeds = find_method(method).seeds if method in method_names() else None
    if seeds is None or seeds.setting in config or not (name := seeds.propose(question)):
        return ()
    return (f"the question asks for {name}: --set {seeds.setting}={name} has a team for that, which checks its work",)


def warn_of_many_calls(method: str, config: Mapping[str, Any], team: Team) -> tuple[str, ...]:
    """Warn of a method that makes many model calls for a question."""
    found = estimate_calls(method, config, team) if method in method_names() else CallEstimate({})
    usual, most = (sum(calls.values()) for calls in (found.question, found.most))
    if max(usual, most) <= MANY:
        return ()
    rounds = f", and about {most:.0f} where it takes all its rounds" if most > usual else ""
    return (
        f"{method} makes about {usual:.0f} model calls for one question{rounds}; --budget-calls N stops it earlier",
    )
