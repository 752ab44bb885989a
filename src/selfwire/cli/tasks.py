"""Commands that make tasks from traces: `tasks from-langsmith`, `tasks from-jsonl`."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from selfwire.cli import output
from selfwire.cli.json_output import add_json_option, add_result
from selfwire.core.errors import ConfigError
from selfwire.evals.readers import read_json_lines
from selfwire.evals.traces import APPROVED, MOST, TraceRules, make_tasks, read_project

Out = Annotated[Path, typer.Argument(help="A .jsonl file for the tasks.")]
FeedbackKey = Annotated[str, typer.Option("--feedback", help="Key of the feedback that counts; any key by default.")]
Least = Annotated[float, typer.Option(help="Least score that approves an answer.")]
Unrated = Annotated[
    bool, typer.Option("--unrated", help="Keep traces without a verdict too, as tasks without a reference.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


def build() -> typer.Typer:
    """Make the group of commands."""
    group = typer.Typer(no_args_is_help=True, help="Make tasks from the traces of an application.")
    for name, command in (("from-langsmith", make_from_langsmith), ("from-jsonl", make_from_jsonl)):
        group.command(name)(add_json_option(f"tasks {name}", command))
    return group


def make_from_langsmith(
    project: Annotated[str, typer.Argument(help="A project of the LangSmith that the environment names.")],
    out: Out,
    limit: Annotated[int, typer.Option(min=1, help="Most traces that are read, newest first.")] = MOST,
    feedback: FeedbackKey = "",
    least: Least = APPROVED,
    unrated: Unrated = False,
    force: Force = False,
) -> None:
    """Make tasks from a LangSmith project: of each trace whose answer is approved or corrected."""
    output.refuse_existing(out, force)
    _write(read_project(project, limit), TraceRules(feedback=feedback, least=least, unrated=unrated), out)


def make_from_jsonl(
    traces: Annotated[Path, typer.Argument(help="A file with a trace per line: inputs, outputs, error, feedback.")],
    out: Out,
    feedback: FeedbackKey = "",
    least: Least = APPROVED,
    unrated: Unrated = False,
    force: Force = False,
) -> None:
    """Make tasks from a file of traces: of each trace whose answer is approved or corrected."""
    output.refuse_existing(out, force)
    rows = list(read_json_lines(traces))
    if rows and not any("inputs" in row.values for row in rows):
        fields = ", ".join(map(repr, rows[0].values))
        raise ConfigError(
            f"{traces} has no traces: no line has the field 'inputs', the first has {fields}; a file of tasks is given "
            "to --benchmark as it is"
        )
    _write((row.values for row in rows), TraceRules(feedback=feedback, least=least, unrated=unrated), out)


def _write(traces: Iterable[Mapping[str, Any]], rules: TraceRules, out: Path) -> None:
    found = make_tasks(traces, rules)
    lines = [json.dumps(task, ensure_ascii=False) for task in found.tasks]
    output.write_text(out, "\n".join(lines) + "\n", "the tasks")
    add_result(file=str(out), tasks=len(lines), kept=dict(found.kept), left_out=dict(found.left_out))
    typer.echo(f"wrote {found.describe()}\n{out}: selfwire check --benchmark {out}")
