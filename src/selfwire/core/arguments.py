"""Arguments of the functions of `import selfwire`: checks of their names and kinds."""

from collections.abc import Callable, Mapping
from inspect import signature
from numbers import Integral, Real
from pathlib import PurePath

from selfwire.core.errors import ConfigError
from selfwire.core.text import suggest_name


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
        fits = isinstance(value, types) and (types is bool or not isinstance(value, bool))
        if not fits or (isinstance(value, Mapping) and not all(isinstance(key, str) for key in value)):
            raise ConfigError(f"{name} must be {described}{' or None' if optional else ''}, not {value!r}")
