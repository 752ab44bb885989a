"""The command line's one entry: its commands, and their faults."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "evolve": ("evolve:evolve", "Evolve a team on a benchmark."),
    "train": ("train:train", "Train a router by the rewards of its runs."),
    "selection": ("selection:selection", "Run a question and show whom the trained router selects."),
    "run": ("run:run", "Put one question to a team and print its answer."),
    "eval": ("evaluate:evaluate", "Measure a method, a baseline or a saved workflow."),
    "compare": ("compare:compare", "Measure several systems on the same tasks."),
    "ablate": ("ablate:ablate", "Compare a method with its ablations and controls."),
    "show": ("workflows:show", "Show a workflow, or the tasks of a run."),
    "diff": ("workflows:diff", "Show what changed from one workflow to another."),
    "history": ("workflows:history", "List the versions of a workflow."),
    "rollback": ("workflows:rollback", "Make an older version of a workflow the current one."),
    "export": ("workflows:export", "Write a workflow to a JSON file."),
    "report": ("report:report", "Make an HTML page of a run and its team."),
    "runs": ("runs:runs", "List runs: what they did, how they stand, what they spent."),
    "clean": ("runs:clean", "Remove runs, and with --library the saved workflows."),
    "measures": ("measures:measures", "Show how a run's training changed its topologies."),
    "results": ("results:results", "Compute the tables of pages from the rows that are kept."),
    "recall": ("recall:recall", "Show how often the search finds what questions need."),
    "insights": ("insights:build", "List, export or import what a workflow has learned."),
    "init": ("init:init", "Write a config file with every option."),
    "version": ("version:version", "Print the version."),
}
"""Commands by name, in the order of the help text: the function (or that of a group) in this room, and one line."""
GROUPS = {"insights"}
FILE = "selfwire.toml"
"""The config file that is read from the working directory, where it exists."""


class LazyCommand(TyperCommand):
    """A command whose module is imported when it is called; its name and one line are known before."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """As of the command that it stands for."""
        return load_command(str(self.name)).make_context(*args, **options)


class GuardedGroup(TyperGroup):
    """Runs commands; an error of ours becomes one line and exit code 2, Ctrl-C becomes 130."""

    def __init__(self, *, commands: dict[str, Any], **attrs: Any) -> None:
        lazy = {name: LazyCommand(name, short_help=line) for name, (_, line) in COMMANDS.items()}
        super().__init__(commands={**lazy, **commands}, **attrs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the context names."""
        try:
            return super().invoke(ctx)
        except BaseException as error:
            from selfwire.cli.error_handling import exit_on

            exit_on(error, traceback=bool(ctx.params.get("traceback")))
            raise


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
    return app


def load_command(name: str) -> Any:
    """Import a command."""
    from selfwire.cli.json_output import add_json_option
    from selfwire.cli.option_groups import expand_option_groups

    module, _, function = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"{__package__}.{module}"), function)
    holder = typer.Typer(rich_markup_mode=None)
    if name in GROUPS:
        holder.add_typer(found(), name=name)
    else:
        holder.command(name)(add_json_option(name, expand_option_groups(found)))
    return typer.main.get_group(holder).commands[name]


def _print_version(wanted: bool) -> None:
    if wanted:
        from selfwire.cli.version import version

        version()
        raise typer.Exit


def _options(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help=f"File of options, as `selfwire init` writes it; ./{FILE} if there is one.")
    ] = None,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error was raised.")] = False,
) -> None:
    """Hold the options before a command, for `GuardedGroup`; read the config file; switch idle tracing off."""
    if ctx.invoked_subcommand != "init" and (config is not None or Path(FILE).is_file()):
        from selfwire.cli.config_file import load_defaults

        ctx.default_map = load_defaults(ctx, config or Path(FILE))
    from selfwire.evals.langsmith.connection import silence_tracing

    if silence_tracing():
        typer.echo("nothing is traced: there is neither LANGSMITH_API_KEY nor LANGSMITH_ENDPOINT", err=True)
