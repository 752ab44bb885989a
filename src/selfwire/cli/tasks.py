"""Commands that make tasks from traces: `tasks from-langsmith`, `tasks from-jsonl`."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any

import typer

from selfwire.cli import output
from selfwire.cli.commands import expand_option_groups
from selfwire.cli.json_output import add_json_option, add_result
from selfwire.core.errors import ConfigError
from selfwire.core.values import replace_surrogates
from selfwire.evals.readers import read_json_lines
from selfwire.evals.traces import APPROVED, MOST, TraceRules, make_tasks, read_project
from selfwire.store.files import refuse_existing


@dataclass(frozen=True)
class TraceOptions:
    """Options of which traces become tasks, and of the file that gets these."""

    feedback: Annotated[str, typer.Option(help="Key of the feedback that counts; any key by default.")] = ""
    least: Annotated[float, typer.Option(help="Least score that approves an answer.")] = APPROVED
    unrated: Annotated[
        bool, typer.Option("--unrated", help="Keep traces without a verdict too, as tasks without a reference.")
    ] = False
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False

    @property
    def rules(self) -> TraceRules:
        """Which traces become tasks; raises ConfigError for a value that cannot be used."""
        return TraceRules(feedback=self.feedback, least=self.least, unrated=self.unrated)

    def refuse_unusable(self, out: Path) -> None:
        """Check the rules, and that a file may get the tasks.

        Raises:
            ConfigError: a rule has a wrong value; the file exists, or its name is not that of a file of tasks as they
                are written here.
        """
        _ = self.rules
        if out.suffix.lower() != ".jsonl" and (out.is_file() or not out.exists()):  # /dev/stdout may have them
            raise ConfigError(f"{out} would get JSON lines, a task in each; give it a name that ends in .jsonl")
        refuse_existing(out, "tasks", force=self.force)

    def write_tasks(self, traces: Iterable[Mapping[str, Any]], out: Path) -> None:
        """Make tasks and write them. Raises as `make_tasks`."""
        found = make_tasks(traces, self.rules)
        lines = [replace_surrogates(json.dumps(task, ensure_ascii=False)) for task in found.tasks]
        output.write_text(out, "\n".join(lines) + "\n", "the tasks")
        add_result(file=str(out), tasks=len(lines), kept=dict(found.kept), left_out=dict(found.left_out))
        typer.echo(f"wrote {found.describe()}\n{out}: selfwire check --benchmark {out}")


LONGEST = 300
"""Characters of the names of fields in an error."""
Out = Annotated[Path, typer.Argument(help="A .jsonl file for the tasks.")]


def build() -> typer.Typer:
    """Make the group of commands."""
    group = typer.Typer(no_args_is_help=True, help="Make tasks from the traces of an application.")
    for name, command in (("from-langsmith", make_from_langsmith), ("from-jsonl", make_from_jsonl)):
        group.command(name)(add_json_option(f"tasks {name}", expand_option_groups(command)))
    return group


def make_from_langsmith(
    project: Annotated[str, typer.Argument(help="A project of the LangSmith that the environment names.")],
    out: Out,
    limit: Annotated[int, typer.Option(min=1, help="Most traces that are read, newest first.")] = MOST,
    *,
    traces: TraceOptions,
) -> None:
    """Make tasks from a LangSmith project: of each trace whose answer is approved or corrected."""
    traces.refuse_unusable(out)
    traces.write_tasks(read_project(project, limit), out)


def make_from_jsonl(
    file: Annotated[Path, typer.Argument(help="A file with a trace per line: inputs, outputs, error, feedback.")],
    out: Out,
    *,
    traces: TraceOptions,
) -> None:
    """Make tasks from a file of traces: of each trace whose answer is approved or corrected."""
    traces.refuse_unusable(out)
    rows = list(read_json_lines(file))
    if not rows:
        raise ConfigError(f"{file} has no line with a trace; docs/tasks.md shows the form of one")
    if not any("inputs" in row.values for row in rows):
        fields = shorten(", ".join(map(repr, rows[0].values)), LONGEST, placeholder=" ...")
        raise ConfigError(
            f"{file} has no traces: no line has the field 'inputs', the first has {fields}; a file of tasks is given "
            "to --benchmark as it is"
        )
    traces.write_tasks((row.values for row in rows), out)
