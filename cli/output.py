"""How values look in a terminal: plain words, tables, and red and green for differences."""

import difflib
import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from selfwire.cli.json_output import add_result
from selfwire.cli.memory_text import describe_memory, describe_memory_changes
from selfwire.cli.version_facts import PARENT_SCORE, format_other_facts, format_outcome, format_reasons, format_time
from selfwire.core import drawing
from selfwire.core.edits import format_rewiring
from selfwire.core.errors import ConfigError
from selfwire.core.usage import Usage
from selfwire.core.values import format_count, format_value, mask_controls, to_plain_json
from selfwire.core.workflow import Workflow
from selfwire.core.workflow_diff import WorkflowDiff
from selfwire.core.workflow_tool import WorkflowTool
from selfwire.evals.evaluation.table import Table
from selfwire.runs.folders import STUDIES
from selfwire.runs.lifecycle import Run
from selfwire.runtime.versions import Version

PIPED_WIDTH = 200
"""Columns when the output is no terminal, so that tables are not cut to 80."""


class MaskingConsole(Console):
    """A console that shows control characters of texts, which models may have written, as escapes."""

    def render_str(self, text: str, **options: Any) -> Text:
        """A text ready to print."""
        return super().render_str(mask_controls(text), **options)

    def on_broken_pipe(self) -> None:
        """Leave it to the command line that nobody reads any more."""
        raise BrokenPipeError


def make_console() -> Console:
    """Where commands write; texts are shown without markup, and as they are but for control characters."""
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return MaskingConsole(markup=False, highlight=False, emoji=False, width=width, soft_wrap=True)


def print_answer(answer: str | None) -> None:
    """Print an answer: as it is for other programs, and with control characters masked in a terminal."""
    typer.echo(mask_controls(answer or "") if sys.stdout.isatty() else answer)


def get_command_line() -> str:
    """The command that runs, as it was typed."""
    return shlex.join(["selfwire", *sys.argv[1:]])


def format_home_option(home: str | Path | None) -> str:
    """The option that makes another command use the same folder; "" where that is the default one."""
    if not home or os.environ.get("SELFWIRE_HOME") == str(home):
        return ""
    return f" --home {shlex.quote(str(home))}"


def write_text(path: Path, text: str, what: str) -> None:
    """Write a file.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{what} cannot be written to {path}: {error.strerror}") from None


def refuse_existing(file: Path, force: bool) -> None:
    """Refuse to replace a file.

    Raises:
        ConfigError: it exists, and `force` is not given.
    """
    if file.exists() and not force:
        raise ConfigError(f"{file} exists already; choose another name or add --force")


def format_spend(spend: dict[str, Any] | Usage) -> str:
    """A spend as short text; less than a cent is not shown as zero."""
    usage = spend if isinstance(spend, Usage) else Usage.model_validate(spend)
    dollars, price = usage.dollars, "price unknown"
    if dollars is not None:
        price = "under $0.01" if 0 < dollars < 0.01 else f"${dollars:,.2f}"
    return f"{usage.calls:,} calls, {usage.tokens:,} tokens, {price}"


def print_summary(run: Run, home: str | Path | None, *, finished: bool) -> None:
    """Print the cost of a run, and the command that resumes it unless it is finished."""
    out, (rows, tokens) = make_console(), run.journal.unknown()
    lost = f"; {rows} calls never settled (at most {tokens:,} tokens)" if rows else ""
    out.print(f"spent: {format_spend(run.spent)}{lost}")
    add_result(run=run.journal.run, status="finished" if finished else "stopped", spend=run.spent)
    if not finished:
        add_result(resume=format_resume_line(run.command, run.journal.run, home).removeprefix("go on with: "))
        out.print(format_resume_line(run.command, run.journal.run, home))


def format_resume_line(command: str, run: str, home: str | Path | None) -> str:
    """How a run is resumed."""
    if command in STUDIES:
        return f"go on with: the same `selfwire {command}` again"
    return f"go on with: selfwire {command} --resume {run}{format_home_option(home)}"


def show_workflow(workflow: Workflow, version: Version | None, title: str = "") -> None:
    """Print a workflow with its drawing, agents, lineage and score; `title` stands above one without a version."""
    out = make_console()
    title = version.ref if version else title or "workflow"
    out.print(f"{title}  {workflow.method}  {workflow.fingerprint}", style="bold")
    if version:
        facts, saved = version.facts, f"saved {format_time(version.saved)}"
        score = f"score {format_value(facts['score'])}" if facts.get("score") is not None else ""
        parent = facts.get(PARENT_SCORE)
        before = "" if parent is None else f"made from one with train score {format_value(parent)}"
        known = (saved, score, before, format_outcome(facts), format_reasons(version), format_other_facts(facts))
        out.print("; ".join(filter(None, known)))
    out.print(f"\n{drawing.to_text(workflow.topology)}\n")
    for agent in workflow.agents:
        tools = f"  tools: {', '.join(agent.tools)}" if agent.tools else ""
        out.print(f"{agent.id}  ({agent.kind}){tools}", style="bold")
        for line in ([agent.role] if agent.role else []) + agent.prompt.splitlines():
            out.print(f"    {line}")
        for note in agent.memory:
            out.print(f"    * {note}")
    for tool in workflow.tools:
        show_tool(tool)
    if workflow.memory:
        out.print("\n".join(["\nlearned", *(f"  {line}" for line in describe_memory(workflow))]))
    show_lineage(workflow)


def show_tool(tool: WorkflowTool) -> None:
    """Print a tool of a workflow: its origin, how it has done, its examples and its source."""
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


def show_lineage(workflow: Workflow) -> None:
    """Print parent and rewirings, with their reasons."""
    out = make_console()
    if workflow.lineage.parent is None:
        out.print("\na seed: no parent")
        return
    out.print(f"\nmade from {workflow.lineage.parent} by")
    for rewiring in workflow.lineage.rewirings:
        out.print(f"  {format_rewiring(rewiring)}".replace("\n", "\n      "))


def show_changes(found: WorkflowDiff, before: Workflow, after: Workflow) -> None:
    """What differs between two workflows, as lines with + and -."""
    if not found:
        make_console().print("no difference")
        return
    for name in ("method", "entry", "sink"):
        if moved := getattr(found, name):
            make_console().print(f"{name}: {moved[0]} -> {moved[1]}")
    _structure(found, before, after)
    for change in found.agents:
        _show_change(change.agent, change.field, to_plain_json(change.before), to_plain_json(change.after))
    for one in found.tools:
        _show_change(f"tool {one.tool}", one.field, to_plain_json(one.before), to_plain_json(one.after))
    for line in describe_memory_changes(found.memory, before, after):
        make_console().print(line)


def _structure(found: WorkflowDiff, before: Workflow, after: Workflow) -> None:
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
    return [f"    {line}" for line in text.splitlines()]


def _show_change(name: str, field: str, before: object, after: object) -> None:
    out = make_console()
    if isinstance(before, str) and isinstance(after, str):
        out.print(f"{field} of {name}:")
        for line in difflib.ndiff(before.splitlines(), after.splitlines()):
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


def print_table(table: Table) -> None:
    """Print a table and its notes."""
    drawn = RichTable(*table.head, box=None)
    for row in table.rows:
        drawn.add_row(*row)
    make_console().print(drawn, *table.notes, sep="\n")
