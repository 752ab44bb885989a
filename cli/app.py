"""The command line's one entry: its commands, and their faults."""

from collections.abc import Callable
from typing import Annotated

import typer

from selfwire.cli import (
    ablate,
    compare,
    evaluate,
    evolve,
    insights,
    measures,
    recall,
    results,
    run,
    runs,
    selection,
    train,
    workflows,
)
from selfwire.cli.error_handling import GuardedGroup
from selfwire.cli.option_groups import expand_option_groups
from selfwire.evals.langsmith.connection import silence_tracing
from selfwire.runs.run_record import get_version


def show_version() -> None:
    """Print the version."""
    typer.echo(f"selfwire {get_version()}")


COMMANDS: dict[str, Callable[..., None]] = {
    "evolve": evolve.evolve,
    "train": train.train,
    "selection": selection.selection,
    "run": run.run,
    "eval": evaluate.evaluate,
    "compare": compare.compare,
    "ablate": ablate.ablate,
    "show": workflows.show,
    "diff": workflows.diff,
    "history": workflows.history,
    "rollback": workflows.rollback,
    "export": workflows.export,
    "runs": runs.runs,
    "clean": runs.clean,
    "measures": measures.measures,
    "results": results.results,
    "recall": recall.recall,
    "version": show_version,
}
"""Commands by name, in the order of the help text."""


def build() -> typer.Typer:
    """The application with every command."""
    app = typer.Typer(
        cls=GuardedGroup,
        name="selfwire",
        help="LangGraph teams of LLM agents that rewire themselves.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for name, command in COMMANDS.items():
        app.command(name)(expand_option_groups(command))
    app.add_typer(insights.build(), name="insights")
    return app


def _options(
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error was raised.")] = False,
) -> None:
    """Hold the options before a command, for `GuardedGroup`; switch tracing off without a LangSmith address or key."""
    if silence_tracing():
        typer.echo("nothing is traced: there is neither LANGSMITH_API_KEY nor LANGSMITH_ENDPOINT", err=True)
