"""The command line: commands by name, imported when they are called."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from selfwire.cli.commands import COMMANDS, FILE, FOUND, READING, load_command

GIVEN = "selfwire.given"
"""Key of a context under which the words of the command line are kept."""


class LazyCommand(TyperCommand):
    """A command whose module is imported when it is called; its name and help line are known before."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **options: Any) -> Any:
        """Make the context of the command; meanwhile its worker processes begin to import."""
        if "--workers" in args[:-1] and "ray" not in args:
            from selfwire.extras.cluster.child_processes import MODULES, import_for_workers

            number = args[args.index("--workers") + 1]
            if number.isdecimal() and int(number) > 1:
                import_for_workers(MODULES)
        command = load_command(str(self.name))
        for leaf in getattr(command, "commands", {"": command}).values():
            _check_file_first(leaf)
        return command.make_context(info_name, args, *more, **options)


def _check_file_first(command: Any) -> None:
    """Let a command refuse, before it begins, what a config file gives that the user has not agreed to."""
    invoke = command.invoke

    def invoke_if_agreed(ctx: typer.Context) -> Any:
        if FOUND in ctx.meta:
            from selfwire.cli.config_file import refuse_unagreed

            refuse_unagreed(ctx)
        return invoke(ctx)

    command.invoke = invoke_if_agreed


class GuardedGroup(TyperGroup):
    """Runs commands; an error of ours becomes one line and exit code 2, Ctrl-C becomes 130."""

    def __init__(self, *, commands: dict[str, Any], **attrs: Any) -> None:
        lazy = {name: LazyCommand(name, short_help=line) for name, (_, line) in COMMANDS.items()}
        super().__init__(commands={**lazy, **commands}, **attrs)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the command's name, and keep the words for errors."""
        ctx.meta[GIVEN] = list(args)
        with self._handle_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the context names."""
        with self._handle_errors(ctx):
            return super().invoke(ctx)

    @contextmanager
    def _handle_errors(self, ctx: Any) -> Iterator[None]:
        try:
            yield
        except typer.Exit:
            raise
        except BaseException as error:
            from selfwire.cli.error_handling import exit_on

            exit_on(error, ctx.meta[GIVEN], traceback=bool(ctx.params.get("traceback")))
            raise


def build() -> typer.Typer:
    """Make the application with every command."""
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


def _print_version(wanted: bool) -> None:
    if wanted:
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

        ctx.default_map = load_defaults(ctx, config or Path(FILE), found_here=config is None)
        typer.echo(f"options are read from {config or Path(FILE).resolve()}", err=True)
    if ctx.invoked_subcommand in READING:
        return
    from selfwire.models.tracing import silence_tracing

    if silence_tracing():
        typer.echo("nothing is traced: there is neither LANGSMITH_API_KEY nor LANGSMITH_ENDPOINT", err=True)


def version() -> None:
    """Print the version, with the hash of the code."""
    from selfwire.cli.json_output import add_result
    from selfwire.core.plugins import compute_code_hash, get_version

    add_result(version=get_version(), code=compute_code_hash())
    typer.echo(f"selfwire {get_version()} (code {compute_code_hash()})")
