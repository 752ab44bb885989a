"""`selfwire.toml`: options of commands from a file; and the command that writes one: init.

There is a table per command and one, `shared`, for every command that has them. The command line comes first,
then the environment, then the command's table, then `shared`. A file of the working directory may be anybody's: what
could run code, send, write or remove something is taken from it only with the user's consent. `--config` is consent.
"""

import hashlib
import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from selfwire.cli import output
from selfwire.cli.commands import COMMANDS, FILE, FOUND, load_command
from selfwire.cli.json_output import add_result
from selfwire.cli.options import ask_on_terminal
from selfwire.core.errors import ConfigError
from selfwire.core.plugins import is_graph
from selfwire.core.text import suggest_name
from selfwire.core.values import is_large_file
from selfwire.store.files import refuse_existing
from selfwire.store.trust import is_agreed
from selfwire.tools.ready import find_foreign_tools

SHARED = "shared"
"""The table for all commands."""
NOT_IN_FILE = ("help", "resume", "retry-failed", "trust-run", "confirm", "call-tools", "adopt --name", "show --trust")
"""Options that are meant for one call; with a command's name before them those of that command alone."""
ASKED_FOR = {
    "base-url", "ray-address", "host", "token", "home", "out", "report", "markdown", "svg", "keep", "write",
    "force", "yes", "all", "library", "langsmith", "upload-references", "grader", "tools", "mcp",
    "guide", "systems",
}  # fmt: skip
"""Options that a file found in the working directory gives only with the user's consent: addresses, homes, outputs,
answers to questions, code, and texts for prompts."""
READ_WHOLE = ("corpus", "prices", "rubric", "team")
"""Options whose files are read whole: a large one fills the memory, and needs consent too."""


class Option(NamedTuple):
    """An option of a command.

    Attributes:
        flag: as it is typed, without dashes; the key in the file.
        name: of the parameter.
        parameter: click's.
    """

    flag: str
    name: str
    parameter: Any


class FoundFile(NamedTuple):
    """A config file that was found in the working directory.

    Attributes:
        path: the file.
        digest: SHA-256 of its bytes.
        asked_for: what it sets that needs consent, in any of its tables, as `key = value`.
    """

    path: Path
    digest: str
    asked_for: tuple[str, ...]


Commands = Mapping[str, Mapping[str, Option]]
"""Options by flag, by command; a command of a group is called `insights list`."""


def list_commands() -> dict[str, dict[str, Option]]:
    """List all commands, in their order."""
    found: dict[str, dict[str, Option]] = {}
    for name in COMMANDS:
        command = load_command(name)
        for inner, subcommand in getattr(command, "commands", {"": command}).items():
            found[f"{name} {inner}".strip()] = {option.flag: option for option in _list_options(subcommand)}
    return found


def _list_options(command: Any) -> Iterator[Option]:
    for parameter in command.params:
        flags = [flag.removeprefix("--") for flag in parameter.opts if flag.startswith("--")]
        if flags and not {flags[0], f"{command.name} --{flags[0]}"} & {*NOT_IN_FILE}:
            yield Option(flags[0], parameter.name, parameter)


def load_defaults(ctx: typer.Context, path: Path, *, found_here: bool) -> dict[str, Any]:
    """Read the options of a file, in the form of click's `default_map`.

    Args:
        found_here: whether the file lies in the working directory and nobody has named it; see `refuse_unagreed`.

    Raises:
        ConfigError: the file cannot be read, a table or key is unknown, or a value cannot be used.
    """
    data = _read(path)
    tables, commands = _parse(data, path), list_commands()
    given = dict(_flatten(tables, commands))
    _check_tables(given, commands, path, ctx)
    if found_here:
        sets = [item for table in given.values() for item in table.items() if _needs_consent(*item)]
        asked_for = dict.fromkeys(_format_setting(flag, value) for flag, value in sets)
        ctx.meta[FOUND] = FoundFile(path.resolve(), hashlib.sha256(data).hexdigest(), tuple(asked_for))
    found: dict[str, Any] = {}
    for command, options in commands.items():
        values = {flag: value for flag, value in given.get(SHARED, {}).items() if flag in options} | given.get(
            command, {}
        )
        place = found
        *groups, last = command.split()
        for group in groups:
            place = place.setdefault(group, {})
        unset = {flag for flag, value in values.items() if value == "" and options[flag].parameter.default is None}
        place[last] = {options[flag].name: value for flag, value in values.items() if flag not in unset}
    return found


def refuse_unagreed(ctx: typer.Context) -> None:
    """Refuse a command that takes settings in `ASKED_FOR` from a file that was only found, unless the user agrees.

    Raises:
        ConfigError: the user has not agreed.
    """
    found: FoundFile | None = ctx.meta.get(FOUND)
    if found is None:
        return
    taken = [
        _format_setting(option.flag, ctx.params[option.name])
        for option in _list_options(ctx.command)
        if (source := ctx.get_parameter_source(option.name)) is not None
        and source.name == "DEFAULT_MAP"
        and _needs_consent(option.flag, ctx.params[option.name])
    ]
    origin = f"{found.path}, which is read because you are in its folder,"
    question = f"{origin} sets {', '.join(found.asked_for)}. Do you trust it?"
    if taken and not is_agreed(found.path, found.digest, question, ask_on_terminal):
        raise ConfigError(
            f"{origin} sets {', '.join(taken)}, which needs your consent; "
            f"if you trust it, name it: selfwire --config {FILE} {ctx.info_name} ...; or give these options yourself"
        )


def _needs_consent(flag: str, value: object) -> bool:
    """Whether a setting of a found file needs the user's consent."""
    if flag == "grader":
        return ":" in str(value)
    if flag == "systems":
        return any(is_graph(system.rpartition("=")[2].strip()) for system in str(value).split(","))
    if flag == "tools":
        return bool(find_foreign_tools(str(value)))
    if flag in READ_WHOLE:
        return is_large_file(Path(str(value)))
    return flag in ASKED_FOR and value not in (False, "")


def _format_setting(flag: str, value: object) -> str:
    return flag if flag == "token" or value is True else f"{flag} = {value}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the config file {path} cannot be read: {error.strerror}; choose another --config") from None


def _parse(data: bytes, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the config file {path} is no TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"the config file {path} is nested too deeply to be read; write it flatter") from None
    except ValueError:  # Python reads no number of more than 4,300 digits
        raise ConfigError(
            f"the config file {path} has a number that is too long to be read; write a smaller one"
        ) from None


def _check_tables(given: Mapping[str, Any], commands: Commands, path: Path, ctx: typer.Context) -> None:
    everywhere = {flag: option for options in commands.values() for flag, option in options.items()}
    for table, values in given.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"{path}: {table!r} stands in no table; put it below [{SHARED}] or a command's name")
        if table != SHARED and table not in commands:
            raise ConfigError(f"{path}: unknown table [{table}]; {_suggest(table, [SHARED, *commands])}")
        known = everywhere if table == SHARED else commands[table]
        for flag, value in values.items():
            if flag not in known:
                raise ConfigError(f"{path}: [{table}] has an unknown key {flag!r}; {_suggest(flag, known)}")
            _check_value(known[flag].parameter, value, f"{path}: [{table}] {flag} = {value!r}", ctx)


def _flatten(tables: Mapping[str, Any], commands: Commands, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Find the tables by command: `[insights.list]` is the table of `insights list`."""
    groups = {command.rpartition(" ")[0] for command in commands} - {""}
    for name, table in tables.items():
        if prefix + name in groups and isinstance(table, Mapping):
            yield from _flatten(table, commands, f"{prefix}{name} ")
        else:
            yield prefix + name, table


def _suggest(word: str, known: Collection[str]) -> str:
    return suggest_name(word, known, "did you mean {}?") or f"choose among {', '.join(known)}"


def _check_value(parameter: Any, value: Any, where: str, ctx: typer.Context) -> None:
    """Refuse a value that the option does not take.

    Raises:
        ConfigError: it is of another kind, or out of bounds.
    """
    if parameter.is_flag != isinstance(value, bool):
        raise ConfigError(f"{where}: {'write true or false' if parameter.is_flag else 'give a value; it is no switch'}")
    if parameter.multiple != isinstance(value, list):
        raise ConfigError(f"{where}: {'write a list' if parameter.multiple else 'give one value'}")
    try:
        parameter.process_value(ctx, value)
    except typer.BadParameter as error:
        raise ConfigError(f"{where}: {error.message}") from None


def write_template(ctx: typer.Context) -> str:
    """Write the text of a config file: every option with its help and default, all commented out."""
    commands = list_commands()
    shared = {
        option.flag: option
        for options in commands.values()
        for option in options.values()
        if _is_alike(option, commands)
    }
    lines = [
        "# Options of the selfwire commands; read from the working directory, or from the file that",
        "# `selfwire --config FILE COMMAND` names. Take away the # before a line that you want.",
        "# In the working directory, you are asked once before code, addresses, homes, outputs and answers are taken.",
        "# Flags of the command line win over this file, and a command's own table over [shared].",
        "",
        f"[{SHARED}]",
        *(line for option in shared.values() for line in _describe(option, ctx)),
    ]
    for command, options in commands.items():
        own = [option for flag, option in options.items() if flag not in shared]
        if own:
            lines += [
                "",
                f"[{command.replace(' ', '.')}]",
                *(line for option in own for line in _describe(option, ctx)),
            ]
    return "\n".join(lines) + "\n"


def _is_alike(option: Option, commands: Commands) -> bool:
    """Whether several commands have an option, with one help and one default."""
    same = [options[option.flag].parameter for options in commands.values() if option.flag in options]
    return len(same) > 1 and len({(option.help, str(option.default)) for option in same}) == 1


def _describe(option: Option, ctx: typer.Context) -> list[str]:
    parameter = option.parameter
    return ["", f"# {' '.join((parameter.help or '').split())}", f"# {option.flag} = {_format_default(parameter, ctx)}"]


def _format_default(parameter: Any, ctx: typer.Context) -> str:
    default = parameter.default
    if parameter.multiple:
        return "[]"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, int | float):
        return str(default)
    usual = parameter.show_default if isinstance(parameter.show_default, str) else ""
    if default is None and isinstance(parameter.process_value(ctx, "2"), int | float):
        return f"{usual.split()[0].strip(',') if usual[:1].isdigit() else 2}  # by default {usual or 'none'}"
    return json.dumps(str(default or "")) + (f"  # by default {usual}" if usual else "")


def init(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path(FILE),
) -> None:
    """Write a config file with every option, its help and its default, all commented out."""
    refuse_existing(file, "config file")
    output.write_text(file, write_template(ctx), "the config file")
    add_result(file=str(file))
    typer.echo(f"wrote {file}; take away the # before the options that you want to keep there")
