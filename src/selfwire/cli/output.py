"""Printed output of commands: tables, teams, costs, links."""

import os
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from selfwire.cli.json_output import add_result, print_text
from selfwire.cli.versions import PARENT_SCORE, explain_version, format_outcome, format_score, format_time
from selfwire.core import topology
from selfwire.core.edits import format_rewiring
from selfwire.core.errors import ConfigError
from selfwire.core.own_tool import OwnTool
from selfwire.core.plugins import is_graph
from selfwire.core.team import Team, TeamDiff
from selfwire.core.text import COMPARED, compare_lines
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import format_count, format_value, mask_controls, to_plain_json
from selfwire.evals.table import ResultTable
from selfwire.runs.estimates import CostEstimate
from selfwire.runs.record import STUDIES, OpenRun, is_finished, read_evolutions
from selfwire.store.files import refuse_existing
from selfwire.store.journal import Journal
from selfwire.store.journal_file import JournalReader
from selfwire.store.library import Version, format_home_option

PIPED_WIDTH = 200
"""Columns when the output is no terminal, so that tables are not cut to 80."""


class MaskingConsole(Console):
    """A console that shows control characters of texts, which models may have written, as escapes."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Make a text ready to print."""
        return super().render_str(mask_controls(text), **options)

    def on_broken_pipe(self) -> None:
        """Raise the error, which the command line handles."""
        raise BrokenPipeError


def make_console() -> Console:
    """Make the console of commands; texts are shown without markup, and control characters as escapes."""
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return MaskingConsole(markup=False, highlight=False, emoji=False, width=width, soft_wrap=True)


def get_command_line() -> str:
    """The command line of this process."""
    return shlex.join(["selfwire", *sys.argv[1:]])


def write_text(path: Path, text: str, what: str) -> None:
    """Write a file.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{what} cannot be written to {path}: {error.strerror}") from None


def print_or_write(file: Path, text: str, what: str, *, kind: str, force: bool) -> bool:
    """Write a text to a file, or print it for `-`; return whether a file was written.

    Args:
        what: in messages, such as "the patch".
        kind: of the file, as `refuse_existing` takes it.

    Raises:
        ConfigError: the file cannot be written, or is the user's and `force` is not given.
    """
    if str(file) == "-":
        print_text(text.removesuffix("\n"))
        return False
    refuse_existing(file, kind, force=force)
    write_text(file, text, what)
    return True


def format_spend(spend: dict[str, Any] | Usage) -> str:
    """Format a spend, which may be JSON, as a short text."""
    return str(Usage.model_validate(spend))


def format_unsettled(calls: int, tokens: int) -> str:
    """Format what calls without a reply may have cost; "" if there are none."""
    return f"{format_count(calls, 'call')} without a reply may have cost up to {tokens:,} tokens" if calls else ""


def list_spend_by_model(journal: Journal) -> list[str]:
    """List the spend of each model of a run in a line, the dearest first, and add it to the result."""
    from selfwire.models.sync import run_sync  # nothing that only reads needs it

    parts = read_evolutions(Path(journal.name), JournalReader.spend_by_model)
    by_model = sum_by_model([run_sync(journal.spend_by_model()), *parts])
    add_result(spend_by_model=by_model)
    return [f"{label}: {format_spend(usage)}" for label, usage in by_model.items()]


def sum_by_model(parts: Iterable[Mapping[str, Usage]]) -> dict[str, Usage]:
    """Sum the spends of journals by model, the dearest first."""
    found: dict[str, list[Usage]] = {}
    for label, usage in chain.from_iterable(part.items() for part in parts):
        found.setdefault(label, []).append(usage)
    sums = {label: sum_usages(usages) for label, usages in found.items()}
    return dict(sorted(sums.items(), key=lambda entry: -(entry[1].dollars or 0.0)))


@contextmanager
def tell_of_finished_run(run: OpenRun) -> Iterator[None]:
    """Print, after what a run does in this context, whether anything was left to do where it was finished before."""
    from selfwire.models.sync import run_sync  # nothing that only reads needs it

    was_finished, before = run_sync(is_finished(run)), run.spent.calls
    yield
    if was_finished and run.spent.calls == before:
        make_console().print(f"run {run.journal.run} was finished already: nothing was run, and this is its report")
    elif was_finished:
        more = format_count(run.spent.calls - before, "call")
        make_console().print(
            f"run {run.journal.run} was finished already: {more} went to tasks that had ended as errors"
        )


def print_summary(run: OpenRun, go_on: str, *, finished: bool) -> None:
    """Print the cost of a run, and how the user goes on unless it is finished."""
    from selfwire.models.metered_chat import list_unusable_replies  # nothing that only reads needs it
    from selfwire.models.sync import run_sync

    inside = read_evolutions(Path(run.journal.name), JournalReader.count_unsettled)
    calls, tokens = map(sum, zip(run.journal.count_unsettled(), *inside, strict=True))
    out, lost = make_console(), format_unsettled(calls, tokens)
    out.print(f"spent: {format_spend(run.spent)}{lost and f'; {lost}'}")
    if run.request.models.are_several:
        for line in list_spend_by_model(run.journal):
            out.print(f"    {line}")
    unusable = run_sync(list_unusable_replies(run.journal))
    for line in unusable:
        out.print(line)
    status = "finished" if finished else "stopped"
    add_result(run=run.journal.run, status=status, spend=run.spent, unusable_replies=unusable)
    if not finished:
        add_result(resume=go_on.removeprefix("go on with: "))
        out.print(go_on)


def format_resume_line(command: str, run: str, home: str | Path | None) -> str:
    """Format the line that says how a run is resumed."""
    if command in STUDIES:
        return f"go on with: the same `selfwire {command}` again"
    return f"go on with: selfwire {command} --resume {run}{format_home_option(home)}"


def show_team(team: Team, version: Version | None, title: str = "", scores: str = "") -> None:
    """Print a team with its drawing, agents and lineage.

    Args:
        title: of a team without a version.
        scores: of the version, by phase.
    """
    out = make_console()
    title = version.ref if version else title or "team"
    out.print(f"{title}  {team.method}  {team.fingerprint}", style="bold")
    if version:
        facts, saved = version.facts, f"saved {format_time(version.saved)}"
        score = f"scores: {scores}" if scores else ""
        parent = facts.get(PARENT_SCORE)
        before = "" if parent is None else f"made from a team with train score {format_score(parent)}"
        known = (saved, score, before, format_outcome(facts), *explain_version(version, None))
        out.print("; ".join(filter(None, known)))
    out.print(f"\n{topology.to_text(team.topology)}\n")
    if is_graph(team.method):
        what = f"prompts of {team.method} in the order of its source"
        out.print(f"{what}; its nodes and edges: selfwire adopt {team.method}\n")
    for agent in team.agents:
        tools = f"  tools: {', '.join(agent.tools)}" if agent.tools else ""
        model = f"  model: {agent.model}" if agent.model else ""
        out.print(f"{agent.id}  ({agent.kind}){tools}{model}", style="bold")
        role = "" if agent.role in agent.prompt else agent.role  # an added agent's is its prompt
        for line in ([role] if role else []) + agent.prompt.splitlines():
            out.print(f"    {line}")
        for note in agent.memory:
            out.print(f"    * {note}")
    for tool in team.tools:
        show_tool(tool)
    if team.memory:
        out.print("\n".join(["\nlearned", *(f"  {line}" for line in describe_memory(team))]))
    show_lineage(team)


def show_tool(tool: OwnTool) -> None:
    """Print a tool of a team: its origin, its record, its examples and its source."""
    out, record = make_console(), tool.record
    out.print(f"tool {tool.name}  version {tool.version}", style="bold")
    made = " ".join(filter(None, (f"by {tool.by}" if tool.by else "", f"because {tool.why}" if tool.why else "")))
    done = ""
    if record.latency is not None and record.success_rate is not None:
        rate = f"{record.success_rate:.0%} without a failure"
        done = f"{format_count(record.calls, 'call')}, {rate}, {record.latency:.2g} s each"
    for line in filter(None, (tool.description, made and f"made {made}", done)):
        out.print(f"    {line}")
    for example in tool.examples:
        out.print(f"    {format_value(example.arguments)} gives {example.result}")
    for line in tool.source.splitlines():
        out.print(f"    | {line}")


def show_lineage(team: Team) -> None:
    """Print parent and rewirings, with their reasons."""
    out = make_console()
    if team.lineage.parent is None:
        out.print("\na seed: no parent")
        return
    out.print(f"\nmade from {team.lineage.parent}{' by' if team.lineage.rewirings else ''}")
    for rewiring in team.lineage.rewirings:
        out.print(f"  {format_rewiring(rewiring)}".replace("\n", "\n      "))


def show_changes(found: TeamDiff, before: Team, after: Team) -> None:
    """Print the differences of two teams, as lines with + and -."""
    if not found:
        make_console().print("no difference")
        return
    for name in ("method", "entry", "sink"):
        if moved := getattr(found, name):
            make_console().print(f"{name}: {moved[0]} -> {moved[1]}")
    _structure(found, before, after)
    for change in found.agents:
        old, new = to_plain_json(change.before), to_plain_json(change.after)
        if change.field == "model":
            make_console().print(f"model of {change.agent}: {old or before.own_model} -> {new or after.own_model}")
        else:
            _show_change(change.agent, change.field, old, new)
    for changed in found.tools:
        _show_change(f"tool {changed.tool}", changed.field, to_plain_json(changed.before), to_plain_json(changed.after))
    for line in describe_memory_changes(found.memory, before, after):
        make_console().print(line)


def _structure(found: TeamDiff, before: Team, after: Team) -> None:
    for sign, agents, nodes, edges, source in (
        ("-", found.removed_agents, found.topology.removed_nodes, found.topology.removed_edges, before),
        ("+", found.added_agents, found.topology.added_nodes, found.topology.added_edges, after),
    ):
        for agent in agents:
            card = source.agents_by_id[agent]
            told = card.kind if card.role in card.prompt else card.role
            _signed(sign, [f"agent {agent}: {told}", *_indent(card.prompt)])
        _signed(sign, [f"node {node.id} ({node.agent})" for node in nodes])
        _signed(sign, [f"edge {edge}" for edge in edges])
    for sign, tools, source in (("-", found.removed_tools, before), ("+", found.added_tools, after)):
        for name in tools:
            tool = source.tools_by_name[name]
            _signed(sign, [f"tool {name}: {tool.description}", *_indent(tool.source)])


def _indent(text: str) -> list[str]:
    cut = [f"    (and {len(text) - COMPARED:,} more characters)"] if len(text) > COMPARED else []
    return [f"    {line}" for line in text[:COMPARED].splitlines()] + cut


def _show_change(name: str, field: str, before: object, after: object) -> None:
    out = make_console()
    if isinstance(before, str) and isinstance(after, str):
        out.print(f"{field} of {name}:")
        for line in compare_lines(before, after):
            if line[0] in "+-":
                _signed(line[0], [line[2:]])
        return
    if field == "tools" and isinstance(before, list) and isinstance(after, list) and set(before) != set(after):
        _signed("-", [f"{name} may not call {tool}" for tool in before if tool not in after])
        _signed("+", [f"{name} may call {tool}" for tool in after if tool not in before])
        return
    out.print(f"{field} of {name}: {format_value(before)} -> {format_value(after)}")


def _signed(sign: str, lines: Iterable[str]) -> None:
    for line in lines:
        make_console().print(f"{sign} {line}", style="green" if sign == "+" else "red")


def print_table(table: ResultTable) -> None:
    """Print a table and its notes."""
    drawn = RichTable(*table.head, box=None)
    for row in table.rows:
        drawn.add_row(*row)
    make_console().print(drawn, *table.notes, sep="\n")


def describe_memory(team: Team) -> Iterator[str]:
    """Describe a team's memory, a line per entry."""
    for name, entry in sorted(to_plain_json(team.memory).items()):
        yield f"{name}: {_join(_measure(entry).items())}"


def describe_memory_changes(names: tuple[str, ...], before: Team, after: Team) -> Iterator[str]:
    """Describe the differences of two memories, a line per entry: sizes that changed, and other changes."""
    old, new = to_plain_json(before.memory), to_plain_json(after.memory)
    for name in names:
        yield f"memory {name}: {_join(_compare(old.get(name), new.get(name)))}"


def _measure(entry: Any) -> dict[str, str]:
    """Sizes of an entry's collections and its plain values, by name."""
    if not isinstance(entry, Mapping):
        return {"entries": _size(entry)}
    return {str(name): _size(value) for name, value in entry.items()}


def _size(value: Any) -> str:
    return str(len(value)) if isinstance(value, Mapping | list) else format_value(value)


def _compare(before: Any, after: Any) -> Iterator[tuple[str, str]]:
    old, new = _measure(before), _measure(after)
    if before is None or after is None:
        yield ("removed", "") if after is None else ("new", _join(new.items()))
        return
    for name in sorted({**old, **new}):
        there, here = old.get(name, "0"), new.get(name, "0")
        if there != here:
            yield name, f"{there} -> {here}"
        elif not isinstance(before, Mapping) or before.get(name) != after.get(name):
            yield name, "changed"


def _join(parts: Any) -> str:
    return "; ".join(f"{name} {size}".rstrip() for name, size in parts) or "nothing"


NARROW = 8
"""Most characters of a column's name that are never broken into lines."""


def show_standings(found: ResultTable) -> None:
    """Print the table, narrow enough for 120 columns, and its notes."""
    out, table = make_console(), RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for at, name in enumerate(found.head):
        wide = max(NARROW, *(len(row[at]) for row in found.rows))
        table.add_column(textwrap.fill(name.replace("/", " per "), wide, break_long_words=False), no_wrap=True)
    for row in found.rows:
        table.add_row(*row)
    out.print()
    out.print(table)
    out.print("\n".join(found.notes))


def show_estimate(found: CostEstimate) -> None:
    """Print a dry run."""
    for notice in found.notices:
        typer.echo(notice, err=True)
    ends = {"low": found.low, "likely": found.likely, "high": found.high}
    if found.unpriced:  # the whole is unknown
        ends = {name: usage.replace(dollars=None) for name, usage in ends.items()}
    add_result(dry_run=True, **ends, notices=found.notices)
    typer.echo(found.text)


def refuse_unwritable(path: Path, what: str, option: str) -> None:
    """Refuse, before anything is paid for, a file that cannot be written, or that is the user's.

    Args:
        what: what is to be written, as `refuse_existing` takes it.
        option: that names the file.

    Raises:
        ConfigError: it is a folder, lies in none that can be written to, or is another file.
    """
    if path.is_dir():
        raise ConfigError(f"the {what} cannot be written to {path}: it is a folder; name a file with {option}")
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(
            f"the {what} cannot be written to {path}: {path.parent} is no folder that can be written to; make it, or "
            f"name another with {option}"
        )
    refuse_existing(path, what)


def write_markdown(tables: Sequence[ResultTable], path: Path) -> None:
    """Write tables as Markdown, below the command that made them.

    Raises:
        ConfigError: the file cannot be written.
    """
    shown = [f"{found.markdown}\n\n" + "".join(f"- {note}\n" for note in found.notes) for found in tables]
    write_text(path, "\n".join((f"`{get_command_line()}`\n", *shown)), "the table")
