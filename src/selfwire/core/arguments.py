"""Arguments of the functions of `import selfwire`: checks of their kinds, and their names in messages."""

import re
from collections.abc import Callable, Collection, Mapping
from inspect import signature
from numbers import Integral, Real
from pathlib import PurePath

from selfwire.core.errors import ConfigError, SelfwireError
from selfwire.core.text import suggest_name

ARGUMENTS = {
    "--train": "trainset",
    "--gate-size": "valset",
    "--test": "testset",
    "--tasks": "limit",
    "--meta-model": "meta",
    "--judge-model": "judge",
    "--budget-calls": 'budget={"calls": ...}',
    "--budget-tokens": 'budget={"tokens": ...}',
    "--budget-usd": 'budget={"dollars": ...}',
    "--budget-seconds": 'budget={"seconds": ...}',
    "--anyway": "anyway=True",
    "--prune": "prune=True",
    "--gate mean": 'gate="mean"',
    "--gate off": 'gate="off"',
    "--grader judge": 'grader="judge"',
    "--method hera": 'method="hera"',
    "--method router": 'method="router"',
}
"""Arguments of Python by option of the command line, where they are called or written in another way."""
_OPTION = re.compile(rf"`[^`]*`|{'|'.join(option for option in ARGUMENTS if ' ' in option)}|--[a-z]+(?:-[a-z]+)*")


def name_arguments(error: Exception, names: Collection[str]) -> None:
    """Put the arguments of a function in place of the options that an error names.

    Options without an argument stay, and so do commands in backticks.

    Args:
        names: of the function's arguments.
    """

    def write(found: re.Match[str]) -> str:
        argument = ARGUMENTS.get(found[0], found[0].removeprefix("--").replace("-", "_"))
        return argument if argument.partition("=")[0] in names else found[0]

    if isinstance(error, SelfwireError | ValueError) and error.args and isinstance(error.args[0], str):
        error.args = (_OPTION.sub(write, error.args[0]), *error.args[1:])


def require_arguments(call: Callable[..., object], args: tuple[object, ...], given: Mapping[str, object]) -> None:
    """Check that a function takes the arguments of a call.

    Raises:
        TypeError: one is missing or unknown; the message has the name of the function.
    """
    try:
        signature(call).bind(*args, **given)
    except TypeError as error:
        known = signature(call).parameters
        hints = [suggest_name(name, known, "; did you mean {}?") for name in given if name not in known]
        raise TypeError(f"{call.__name__}: {error}{''.join(hints)}") from None


_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "bool": (bool, "True or False"),
    "str": (str, "a text"),
    "str | Path": ((str, PurePath), "a path"),
    "Sequence[str]": ((list, tuple), "a list of texts"),
    "RunnableConfig": (Mapping, 'a mapping such as {"tags": ["mine"]}'),
    "Callable[[Event], None]": (Callable, "a function"),  # type: ignore[dict-item]
}
"""Types of values by annotation, and their names in messages."""


def require_kinds(annotations: Mapping[str, object], given: Mapping[str, object]) -> None:
    """Check the arguments of a function that are numbers, texts, paths or functions by its annotations.

    Args:
        annotations: as text, by the argument's name.
        given: values by the argument's name.

    Raises:
        ConfigError: one of them is a value of another kind.
    """
    for name, value in given.items():
        kind, optional, _ = str(annotations.get(name, "")).partition(" | None")
        if kind not in _KINDS or (optional and value is None):
            continue
        types, described = _KINDS[kind]
        if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            raise ConfigError(f"{name} must be {described}{' or None' if optional else ''}, not {value!r}")
