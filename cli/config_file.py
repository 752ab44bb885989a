"""`selfwire.toml`: options of the commands, in a table per command and one, `shared`, for every command that has them.

What stands on the command line comes first, then the environment, then the command's table, then `shared`.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import typer

from selfwire.cli.commands import COMMANDS, load_command
from selfwire.core.errors import ConfigError

SHARED = "shared"
"""The table for all commands."""
NOT_IN_FILE = ("help", "resume", "retry-failed")
"""Options that are meant for one call."""


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


Commands = Mapping[str, Mapping[str, Option]]
"""Options by flag, by command; a command of a group is called `insights list`."""


def list_commands() -> dict[str, dict[str, Option]]:
    """All commands, in their order."""
    found: dict[str, dict[str, Option]] = {}
    for name in COMMANDS:
        command = load_command(name)
        for inner, one in getattr(command, "commands", {"": command}).items():
            found[f"{name} {inner}".strip()] = {option.flag: option for option in _list_options(one)}
    return found


def _list_options(command: Any) -> Iterator[Option]:
    for parameter in command.params:
        flags = [flag.removeprefix("--") for flag in parameter.opts if flag.startswith("--")]
        if flags and flags[0] not in NOT_IN_FILE:
            yield Option(flags[0], parameter.name, parameter)


def load_defaults(ctx: typer.Context, path: Path) -> dict[str, Any]:
    """The options of a file, as click takes them for `default_map`.

    Raises:
        ConfigError: the file cannot be read, a table or key is unknown, or a value cannot be used.
    """
    tables, commands = _read(path), list_commands()
    given = dict(_flatten(tables, commands))
    _check_tables(given, commands, path, ctx)
    found: dict[str, Any] = {}
    for command, options in commands.items():
        values = {flag: one for flag, one in given.get(SHARED, {}).items() if flag in options} | given.get(command, {})
        place = found
        *groups, last = command.split()
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = {options[flag].name: value for flag, value in values.items()}
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the config file {path} cannot be read: {error.strerror}; choose another --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the config file {path} is no TOML: {error}") from None


def _check_tables(given: Mapping[str, Any], commands: Commands, path: Path, ctx: typer.Context) -> None:
    everywhere = {flag: one for options in commands.values() for flag, one in options.items()}
    for table, values in given.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"{path}: {table!r} stands in no table; put it below [{SHARED}] or a command's name")
        if table != SHARED and table not in commands:
            raise ConfigError(f"{path}: unknown table [{table}]; {_suggest(table, [SHARED, *commands])}")
        known = everywhere if table == SHARED else commands[table]
        for flag, value in values.items():
            if flag not in known:
                raise ConfigError(f"{path}: [{table}] has an unknown key {flag!r}; {_suggest(flag, list(known))}")
            _check_value(known[flag].parameter, value, f"{path}: [{table}] {flag} = {value!r}", ctx)


def _flatten(tables: Mapping[str, Any], commands: Commands, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Tables by command: `[insights.list]` is the table of `insights list`."""
    groups = {command.rpartition(" ")[0] for command in commands} - {""}
    for name, table in tables.items():
        if prefix + name in groups and isinstance(table, Mapping):
            yield from _flatten(table, commands, f"{prefix}{name} ")
        else:
            yield prefix + name, table


def _suggest(word: str, known: list[str]) -> str:
    near = get_close_matches(word.replace("_", "-"), known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"choose among {', '.join(known)}"


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
    """A config file that names every option with its help and default, all of them commented out."""
    commands = list_commands()
    shared = {one.flag: one for options in commands.values() for one in options.values() if _is_alike(one, commands)}
    lines = [
        "# Options of the selfwire commands; read from the working directory, or from the file that",
        "# `selfwire --config FILE COMMAND` names. Take away the # before a line that you want.",
        "# Flags of the command line win over this file, and a command's own table over [shared].",
        "",
        f"[{SHARED}]",
        *(line for one in shared.values() for line in _describe(one, ctx)),
    ]
    for command, options in commands.items():
        own = [one for flag, one in options.items() if flag not in shared]
        if own:
            lines += ["", f"[{command.replace(' ', '.')}]", *(line for one in own for line in _describe(one, ctx))]
    return "\n".join(lines) + "\n"


def _is_alike(option: Option, commands: Commands) -> bool:
    """Whether several commands have an option, with one help and one default."""
    same = [options[option.flag].parameter for options in commands.values() if option.flag in options]
    return len(same) > 1 and len({(one.help, str(one.default)) for one in same}) == 1


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
    if default is None and isinstance(parameter.process_value(ctx, "2"), int | float):
        usual = parameter.show_default if isinstance(parameter.show_default, str) else "none"
        return f"{usual.split()[0].strip(',') if usual[0].isdigit() else 2}  # by default {usual}"
    return json.dumps(default or "")
