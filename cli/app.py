"""The command line's one entry: its commands, each registered by the module of its topic, and its faults."""

from collections.abc import Callable
from typing import Annotated

import typer

from selfwire.cli import (
    ablate,
    about,
    compare,
    evaluate,
    evolve,
    insights,
    measures,
    recall,
    run,
    runs,
    selection,
    train,
    workflows,
)
from selfwire.cli.error_handling import GuardedGroup
from selfwire.evals.langsmith.connection import silence_tracing

TOPICS: tuple[Callable[[typer.Typer], None], ...] = (
    evolve.register,
    train.register,
    selection.register,
    run.register,
    evaluate.register,
    compare.register,
    ablate.register,
    workflows.register,
    insights.register,
    runs.register,
    measures.register,
    recall.register,
    about.register,
)
"""Registers of commands, in the order of the help text."""


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
    for register in TOPICS:
        register(app)
    return app


def _options(
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error was raised.")] = False,
) -> None:
    """Hold the options before a command, for `GuardedGroup`; switch tracing off without a LangSmith address or key."""
    if silence_tracing():
        typer.echo("nothing is traced: there is neither LANGSMITH_API_KEY nor LANGSMITH_ENDPOINT", err=True)
