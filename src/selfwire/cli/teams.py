"""Commands that read and move saved teams: show, diff, history, rollback, export."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from selfwire.cli import output
from selfwire.cli.branch import find_known_texts, format_page, list_changes, load_ancestors, name_change, write_branch
from selfwire.cli.json_output import add_result, print_text
from selfwire.cli.options import Home, Ref, refuse_unused, with_library
from selfwire.cli.trajectories import is_run, show_run, suggest_run
from selfwire.cli.versions import explain_version, format_outcome, format_scores, format_time, read_test_scores
from selfwire.core import topology
from selfwire.core.errors import ConfigError, JournalError, LibraryError
from selfwire.core.plugins import is_graph, load_plugin
from selfwire.core.team import Team, diff_teams
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import format_count, mask_controls
from selfwire.evals.table import Column, ResultTable, build_table, format_dollars
from selfwire.evolvers.trajectory_text import shorten
from selfwire.graphs.insertions import list_graph_edits
from selfwire.graphs.own_graph import find_changed, name_models, read_texts
from selfwire.graphs.pruning import OWN_CALLS, PartWorth, PruningRecord, list_parts
from selfwire.models.providers import parse_models
from selfwire.models.text_layer import LayerText
from selfwire.runs.front import FrontLine, read_front
from selfwire.runs.inputs import describe_clashes, find_kind, load_saved
from selfwire.runs.record import summarise_run
from selfwire.runs.systems import make_seed_team
from selfwire.store.files import find_blob_references, refuse_existing, write_team
from selfwire.store.library import History, Library, Version, format_home_option

LONGEST_PART = 80
"""Most characters of a part's name in a table."""


def show(
    ctx: typer.Context,
    ref: Annotated[
        str,
        typer.Argument(help="A run, a saved team (name, name@version, team:name, fingerprint, .json), or a method."),
    ],
    worth: Annotated[
        bool, typer.Option("--worth", help="Print what each part of a pruned team is worth, and costs.")
    ] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print only a Mermaid flowchart.")] = False,
    task: Annotated[str | None, typer.Option(help="Of a run: this task's messages and routing.")] = None,
    at: Annotated[
        str | None, typer.Option(help="Of a run: the phase or system to look in, such as 2/gate/candidate or single.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Trust the code of the graph that a team of another user names.")
    ] = False,
    home: Home = None,
) -> None:
    """Show a saved team, or the seed team of a method, or the tasks of a run, or one task of a run."""
    if is_run(home, ref):
        refuse_unused(ctx, ["mermaid", "worth", "trust"], f"{ref} is a run; name a team")
        show_run(home, ref, task, at)
        return
    refuse_unused(ctx, ["task", "at"], f"{ref} is no run; name one, as `selfwire runs` lists them")
    title, version = "", None
    if kind := find_kind(ref):
        for line in describe_clashes([ref], with_library(home, lambda library: library.names())):
            typer.echo(line, err=True)
        team, title = make_seed_team(ref), f"{kind} {ref}, its seed team"
    else:
        with suggest_run(home, ref):
            team, version = with_library(home, lambda library: load_saved(ref, library))
    if trust:
        _trust_graph(ref, team, version, home)
    add_result(version=version, team=team)
    if worth:
        table = build_worth_table(team, f"{shlex.quote(ref)} --benchmark B{format_home_option(home)}")
        add_result(worth=PruningRecord.of(team).parts, costs=PruningRecord.of(team).costs)
        output.print_table(table)
        return
    if mermaid:
        print_text(topology.to_mermaid(team.topology))
        return
    scores = ""
    if version:
        saved = with_library(home, lambda library: library.history(version.name))
        scores = format_scores(saved, read_test_scores(saved, home)).get(version.version, "")
    output.show_team(team, version, title, scores)


def _trust_graph(ref: str, team: Team, version: Version | None, home: str | None) -> None:
    """Keep the user's consent to the code of the graph of a saved team.

    Raises:
        ConfigError: the team names no code, or the consent cannot be kept.
    """
    if version is None or not is_graph(team.method):
        raise ConfigError(f"{ref} is no saved team of a graph of your own, and names no code; leave --trust out")

    async def agree(library: Library) -> None:
        library.refuse_foreign_graph(team, version, ask=lambda question: True)

    with_library(home, agree)
    typer.echo(f"the code of the graph {team.method} is imported where {version.name} is asked", err=True)


def build_worth_table(team: Team, prune: str = "NAME --benchmark B") -> ResultTable:
    """Make the table of what each part of a team was worth and cost when it was last pruned.

    Args:
        prune: how `selfwire prune` is called for it.

    Raises:
        ConfigError: it never was.
    """
    record = PruningRecord.of(team)
    if not record.runs:
        raise ConfigError(
            f"nothing is known of what the parts of this team are worth; `selfwire prune {prune}` measures it"
        )
    worth, costs = {part.name: part for part in record.parts}, {n: c for n, c in record.costs.items() if c.calls}
    there = {agent.id for agent in team.agents} | list_parts(team).keys() | {OWN_CALLS}
    there |= {part.name for part in record.parts if part.kind == "model"}  # which says what was compared

    whole = sum_usages(costs.values())
    priced = any(cost.dollars for cost in costs.values())
    head = ("part", "worth", "calls/task", "tokens/task", *["$/task"] * priced)

    def format_costs(cost: Usage | None) -> tuple[str, ...]:
        if cost is None:
            return ("",) * (len(head) - 2)
        told = (
            f"{cost.calls / record.runs:.1f}",
            f"{cost.tokens / record.runs:,.0f}",
            format_dollars(cost.dollars, record.runs),
        )
        return told[: len(head) - 2]

    def format_value(part: PartWorth | None) -> str:
        return "" if part is None or part.value is None else f"{part.value:+.2f} ± {part.deviation or 0:.2f}"

    rows = [
        (
            shorten(name, LONGEST_PART) if name in there else f"{shorten(name, LONGEST_PART)} (taken out)",
            format_value(worth.get(name)),
            *format_costs(costs.get(name)),
        )
        for name in dict.fromkeys([*costs, *worth])
    ]
    rows.append(("all together", "", *format_costs(whole)))
    tasks = max((part.tasks for part in record.parts), default=0)
    over = f"over at most {format_count(tasks, 'train task')}, ± standard error"
    measured = f"worth: mean score with a part minus without it, {over}" if tasks else "no part was left out"
    stay = "entry and sink stay"
    if is_graph(team.method):
        stay = "of the program's nodes only those can be left out to which edges alone lead, and from which one leads"
    return ResultTable(head, tuple(rows), (measured, stay))


def diff(before: Ref, after: Ref, home: Home = None) -> None:
    """Show what changed from one team to another."""

    async def both(library: Library) -> tuple[Team, Team]:
        return await library.load(before), await library.load(after)

    old, new = with_library(home, both)
    found = diff_teams(old, new)
    add_result(before=old.fingerprint, after=new.fingerprint, changes=found)
    output.show_changes(found, old, new)


def history(
    name: Annotated[str | None, typer.Argument(help="Name of a team; without it, all names.")] = None,
    home: Home = None,
) -> None:
    """List the versions of a team, from old to new; * marks the one that its name means, which is served too."""
    if name is None:
        names = with_library(home, lambda library: library.names())
        add_result(names=names)
        typer.echo("\n".join(names) if names else "nothing has been saved yet")
        return
    found = load_history(name, home)
    tested = read_test_scores(found, home)
    add_result(history=found, tested=tested)
    show_history(found, tested)


def load_history(name: str, home: str | None) -> History:
    """Load the versions of a team.

    Raises:
        LibraryError: there is none of this name; the message says what else the name means.
    """
    try:
        return with_library(home, lambda library: library.history(name))
    except LibraryError as error:
        raise LibraryError(f"{error}{_describe_name(name, home)}") from None


def _describe_name(name: str, home: str | None) -> str:
    """Describe what a name of no team means; "" where it means nothing."""
    if is_run(home, name):
        team = summarise_run(home, name).summary.get("name")
        has_team = team and team in with_library(home, lambda library: library.names())
        return f"; {name!r} is a run{f', whose team is {team!r}' if has_team else ', which has saved no team'}"
    kind = find_kind(name)
    return f"; {name!r} is a {kind}, and has no versions" if kind else ""


def front(
    name: Annotated[str, typer.Argument(help="Name of a team.")],
    price: Annotated[str, typer.Option(help="What is dear: calls, tokens, dollars or seconds of a task.")] = "calls",
    home: Home = None,
) -> None:
    """List the versions of a team by score and price, from cheap to dear, and which of them nothing beats.

    Scores and prices are of the held-out tasks of the runs that made them; the baselines that these runs measured stand
    beside them. No model is asked.
    """
    found = load_history(name, home)
    lines, notes = read_front(found, home, price)
    add_result(front=lines, price=price, head=found.head)
    output.print_table(build_front_table(found, lines, price, notes, home))


def build_front_table(
    history: History, lines: Sequence[FrontLine], price: str, notes: Sequence[str], home: str | None = None
) -> ResultTable:
    """Make the table of a front; * marks the head."""
    there = format_home_option(home)
    head = next(version.fingerprint for version in history.versions if version.version == history.head)

    def format_name(line: FrontLine) -> str:
        also = f" (also {', '.join(line.also)})" if line.also else ""
        return f"{'* ' if line.fingerprint == head else ''}{line.name}{also}"

    def format_tasks(line: FrontLine) -> str:
        counts = {"gate": line.gate, "test": line.test}
        return ", ".join(f"{count} {split}" for split, count in counts.items() if count)

    def format_seconds(line: FrontLine) -> str:
        return (f"{line.seconds:.1f}" if line.score else "-") if price == "seconds" else ""

    columns = (
        Column[FrontLine]("version", format_name),
        Column[FrontLine]("score [95 %]", lambda line: str(line.score or "-")),
        Column[FrontLine]("tasks", format_tasks, silent=""),
        Column[FrontLine]("calls/task", lambda line: f"{line.calls:.1f}" if line.score else "-"),
        Column[FrontLine]("tokens/task", lambda line: f"{line.tokens:,.0f}" if line.score else "-"),
        Column[FrontLine]("$/task", lambda line: format_dollars(line.dollars) if line.dollars else "", silent=""),
        Column[FrontLine]("s/task", format_seconds, silent=""),
        Column[FrontLine]("", lambda line: line.describe(price)),
    )
    best = next((line.name for line in reversed(lines) if line.on_front and line.ref), f"{history.name}@VERSION")
    step = best.partition("@")[2]
    explained = (
        f"on the front: nothing else scores as much for fewer {price}, or more for as many; two are compared on the "
        "tasks that both were asked, where these are two or more",
        "scores on gate tasks lean upwards, as these tasks chose what was kept; test tasks chose nothing",
        f'ask one with `selfwire run {best} "..."{there}`; `selfwire rollback {history.name} {step}{there}` makes it '
        f"the team that {history.name!r} means, where it is served too",
    )
    return build_table(columns, lines, (*(explained if any(line.score for line in lines) else ()), *notes))


def rollback(
    name: Annotated[str, typer.Argument(help="Name of a team.")],
    version: Annotated[str, typer.Argument(help="A version as `selfwire history` lists it, a step or a tag.")],
    home: Home = None,
) -> None:
    """Make an older version of a team the one that its name means; nothing is deleted."""

    async def moved(library: Library) -> tuple[Version, Version]:
        return await library.head(name), await library.rollback(name, version)

    before, now = with_library(home, moved)
    add_result(before=before.ref, now=now.ref)
    if before.ref == now.ref:
        typer.echo(f"{name} is {now.ref} ({now.fingerprint}) already")
        return
    typer.echo(f"{name} is now {now.ref} ({now.fingerprint}); it was {before.ref} ({before.fingerprint})")


ENDINGS = {".json": "json", ".patch": "patch", ".diff": "patch", ".py": "langgraph"}
"""Forms of an exported team by the ending of its file."""
FORMS = ("json", "langgraph", "patch", "context", "pr")
"""All forms of an exported team; the last three are of a graph of the user's own."""


def export(
    ref: Ref,
    file: Annotated[
        Path,
        typer.Argument(
            help="A .json file; a .py file of its LangGraph; of a graph of your own a .patch, or with --as pr a new "
            "branch; `-` is the output."
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="json, langgraph; of a graph of your own patch, context, pr; by default as FILE ends, json for `-`.",
        ),
    ] = None,
    tools: Annotated[
        str | None, typer.Option("--tools", help="For a LangGraph: tools that its agents hold, as my_tools:search.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            "--models", help="For a LangGraph: models that its agents ask by name, as cheap=openai:gpt-4o-mini."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    home: Home = None,
) -> None:
    """Write a team to a JSON file that every command takes, or to Python that builds its LangGraph.

    Texts of a graph of your own are written as a patch, as values of its context, or as a branch for a pull request.
    """
    team, version = with_library(home, lambda library: load_saved(ref, library))
    wanted = form or ("json" if str(file) == "-" else ENDINGS.get(file.suffix))
    if wanted not in FORMS:
        raise ConfigError(
            f"export to a file that ends in .json, .py or .patch, not to {file}"
            if form is None
            else f"--as {form}: a team is exported as {', '.join(FORMS[:-1])} or {FORMS[-1]}"
        )
    if tools and wanted != "langgraph":
        raise ConfigError("--tools names tools for a LangGraph; export to a .py file, or leave it out")
    if models and wanted == "json":
        raise ConfigError("--models says which models are written, and a .json file has their names; leave it out")
    named = {**parse_models(str(version.facts.get("models", "")) if version else ""), **parse_models(models or "")}
    _Export(ref, team, version, file, tools, named, force, home).write(wanted)


@dataclass(frozen=True)
class _Export:
    """A team that is exported: its reference, its version unless a file has it, and the options of the command."""

    ref: str
    team: Team
    version: Version | None
    file: Path
    tools: str | None
    models: Mapping[str, str]
    force: bool
    home: str | None

    def write(self, form: str) -> None:
        """Write the team in one of `FORMS`.

        Raises:
            ConfigError: the file cannot be written, the team has no such form, or a model is not named.
        """
        write = {
            "json": self._write_json,
            "langgraph": self._write_langgraph,
            "patch": self._write_patch,
            "context": self._write_context,
            "pr": self._write_branch,
        }
        write[form]()

    def _write_json(self) -> None:
        team, file = self.team, self.file
        if str(file) == "-":
            add_result(team=team, fingerprint=team.fingerprint)
            print_text(team.model_dump_json(indent=2))
            if find_blob_references(team.memory):
                typer.echo("its router's weights are not in this; export to a file to have them beside it", err=True)
            return
        if file.suffix != ".json":
            raise ConfigError(f"export to a file that ends in .json, not to {file}, so that commands take it for one")
        refuse_existing(file, "team", force=self.force)
        beside = write_team(team, file)
        add_result(files=[str(written) for written in (file, *beside)], fingerprint=team.fingerprint)
        typer.echo(f"wrote {self.ref} ({team.fingerprint}) to {', with '.join(map(str, (file, *beside)))}")

    def _write_langgraph(self) -> None:
        """Write a team as a file of Python that builds its LangGraph without this package.

        Raises:
            ConfigError: its way to work is no graph of its agents, or an agent holds a tool or asks a model that is not
                given.
        """
        team, file = self.team, self.file
        if str(file) != "-":
            refuse_existing(file, "team", force=self.force)
        facts = self.version.facts if self.version else {}
        name, model = self.version.ref if self.version else team.method, str(facts.get("model", ""))
        make = load_plugin("selfwire.programs", "langgraph")
        source = make(team, name, tools=self.tools, model=model, models=self.models)
        add_result(fingerprint=team.fingerprint)
        if not self._print_or_write(source, "the team"):
            add_result(source=source)
            return
        add_result(files=[str(file)])
        ask = f'python {shlex.quote(str(file))} "your question"'
        typer.echo(f"wrote {self.ref} ({team.fingerprint}) to {file}; ask it with: {ask}")

    def _write_patch(self) -> None:
        """Write what of a graph has changed as a patch, which `extras.adopt.patch` makes: texts, models, agents.

        Raises:
            ConfigError: as `_find_changed_texts`, a model is not named, or a change cannot be written.
        """
        team, file = self.team, self.file
        _, changed, saved = self._find_changed_texts()
        edits, asked = list_graph_edits(team), name_models(team, self.models)
        names = sorted([*changed, *edits.names, *(f"model of {name}" for name in asked)])
        reasons = _find_reasons(saved, names)
        written = load_plugin("selfwire.programs", "patch")(team.method, changed, reasons, edits, asked)
        add_result(patch=written, changed=names)
        if self._print_or_write(written, "the patch"):
            typer.echo(f"wrote {', '.join(names)} of {self.ref} to {file}; apply it with: git apply {file}")

    def _write_context(self) -> None:
        """Write the texts and models of a graph that have changed as the values of its context, in JSON.

        Raises:
            ConfigError: as `_find_changed_texts`, a model is not named, or a text or a model is no field of the
                context.
        """
        team, file = self.team, self.file
        _, changed, _ = self._find_changed_texts()
        if names := list_graph_edits(team).names:
            raise ConfigError(f"no context can insert or take out {names[0]!r}; export a patch")
        values = load_plugin("selfwire.programs", "context")(team.method, changed, name_models(team, self.models))
        add_result(context=values)
        if self._print_or_write(f"{json.dumps(values, ensure_ascii=False, indent=2)}\n", "the context"):
            typer.echo(
                f"wrote {', '.join(values)} of {self.ref} to {file}; pass it as the context of a run or of an "
                f"assistant, as in graph.invoke(..., context=json.load(open({str(file)!r})))"
            )

    def _write_branch(self) -> None:
        """Write what of a graph has changed as a branch with a commit for each change, and print the evidence.

        Raises:
            ConfigError: as `_find_changed_texts`; a model is not named; a change cannot be written; or git refuses.
        """
        team, version, branch = self.team, self.version, str(self.file)
        texts, _, saved = self._find_changed_texts()
        assert version is not None, "a graph's team in a file is refused"
        teams = with_library(self.home, lambda library: load_ancestors(library, saved, version))
        changes = list_changes(texts, teams, self.models)
        commits = write_branch(team.method, changes, branch, force=self.force)
        try:
            lines, notes = read_front(saved, self.home, "calls")
            evidence = build_front_table(saved, lines, "calls", notes)
        except (ConfigError, JournalError):  # no scores are kept here
            evidence = None
        page = format_page(team.method, version, list(zip(commits, changes, strict=True)), evidence)
        add_result(branch=branch, commits=commits, page=page)
        typer.echo(mask_controls(page))
        typer.echo(
            f"wrote {format_count(len(commits), 'commit')} to branch {branch}; look at it: git log -p {branch}",
            err=True,
        )

    def _print_or_write(self, text: str, what: str) -> bool:
        return output.print_or_write(self.file, text, what, kind="team", force=self.force)

    def _find_changed_texts(self) -> tuple[Mapping[str, LayerText], dict[str, str], History]:
        """Find the texts of a graph, those that a team would change, and the history of the team.

        Raises:
            ConfigError: the team is no graph of the user's own, nothing has changed, the source has other texts than
                those that were evolved, or a router chooses.
        """
        ref, team, version = self.ref, self.team, self.version
        if not is_graph(team.method) or version is None:
            raise ConfigError(
                f"{ref} is a team of {team.method}, not a graph of your own; export it to a .json or a .py file"
            )
        if routes := list_graph_edits(team).routes:
            raise ConfigError(
                f"router {routes[0].agent!r} of {ref} chooses by what each question means, and no edges of a source "
                f"can do that; ask it with `selfwire run {ref}`, or export a version from before it (`selfwire "
                f"history {ref}`)"
            )
        texts, _ = read_texts(team.method)
        changed = find_changed(team, texts)
        if not (changed or any(list_graph_edits(team)) or any(agent.model for agent in team.agents)):
            raise ConfigError(
                f"{ref} has the texts that stand in the source of {team.method}: there is nothing to write"
            )
        saved = with_library(self.home, lambda library: library.history(version.name))
        known = with_library(self.home, lambda library: find_known_texts(library, saved))
        if edited := [name for name in changed if name in texts and texts[name].shown not in known.get(name, ())]:
            raise ConfigError(
                f"{texts[edited[0]].place} has another text {edited[0]!r} than the one that was evolved, which would "
                "be lost; evolve the graph anew, or put the old text back"
            )
        return texts, changed, saved


def _find_reasons(saved: History, names: Sequence[str]) -> dict[str, str]:
    """The reason of the last accepted change of each name, with what the gate found of it and those made with it."""
    reasons = dict[str, str]()
    for version in saved.versions:
        gate = version.facts.get("gate") or {}
        applied = version.facts.get("applied", ()) if gate.get("accepted") else ()
        whys = {name: r["why"] for r in applied if (name := name_change(r)) in names}
        beside = f", together with {format_count(len(whys) - 1, 'other change')}" if len(whys) > 1 else ""
        reasons |= {name: f"{why} ({gate['why']}{beside})" for name, why in whys.items()}
    return reasons


def show_history(history: History, tested: Mapping[str, float]) -> None:
    """Format versions from old to new, the head marked and a reason below each, then rollbacks.

    Args:
        tested: held-out scores by version.
    """
    tags: dict[str, list[str]] = {}
    for tag, version in history.tags.items():
        tags.setdefault(version, []).append(tag)
    scores = format_scores(history, tested)
    rows = [("", "version", "saved", "fingerprint", "scores", "outcome")]
    for version in history.versions:
        rows.append(
            (
                "*" if version.version == history.head else "",
                " ".join([version.version, *(f"[{tag}]" for tag in tags.get(version.version, []))]),
                format_time(version.saved),
                version.fingerprint,
                scores.get(version.version, ""),
                format_outcome(version.facts),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    before = [None, *history.versions]
    reasons = [(), *(explain_version(*pair) for pair in zip(history.versions, before, strict=False))]
    out = output.make_console()
    for row, lines in zip(rows, reasons, strict=True):
        out.print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        for line in lines:
            out.print(f"     {line}")
    out.print(
        f"* is the team that {history.name!r} means, where it is asked, loaded or served; a version holds what was "
        "accepted by then, without drafts and rejected changes"
    )
    for move in history.rollbacks:
        out.print(f"rolled back {format_time(move.at)}: {move.source} -> {move.target}")
