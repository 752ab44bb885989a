"""Methods by name; a method's package is imported when the method is wanted."""

import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import isclass
from types import ModuleType
from typing import Any

from selfwire.core.errors import ConfigError, format_error
from selfwire.core.plugins import (
    CONTESTANTS,
    GIVEN,
    GROUP,
    LIBRARIES,
    PACKAGE,
    is_graph,
    method_names,
    outside_methods,
    own_methods,
)
from selfwire.core.team import Team
from selfwire.core.values import FrozenMap, FrozenModel, is_id
from selfwire.graphs.machine import RunContext
from selfwire.graphs.method import FULL, OPTIONS, CallEstimate, Method, parse_config

MethodType = type[Method[Any]]


def find_method(name: str) -> MethodType:
    """The class of a method; that of a graph of the user's own rewrites the prompts of the graph.

    Raises:
        ConfigError: there is no such method, or its package or its declaration cannot be used.
    """
    if is_graph(name):
        return _find_class(import_module(f"{PACKAGE}.own_graph"))
    if name in own_methods():
        return _find_class(import_module(f"{PACKAGE}.{name}"))
    if name in CONTESTANTS:
        return _load_contestant(name)
    if name in GIVEN:
        given: MethodType = GIVEN[name]
        return given
    if name in outside_methods():
        return _load_outside(name)
    near = get_close_matches(name, method_names(), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(f"unknown method {name!r}; {hint}methods are {', '.join(method_names())}")


@cache
def installed_methods() -> tuple[MethodType, ...]:
    """All methods; an outside package that cannot be used is left out with a warning, a missing extra without."""
    found = []
    for name in method_names():
        if name in LIBRARIES and find_spec(name) is None:
            continue
        try:
            found.append(find_method(name))
        except ConfigError as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
    return tuple(found)


def add_method(method: Method[Any]) -> None:
    """Make the class of a method known under its name in this process, in place of another class of this name.

    Raises:
        ConfigError: its declaration cannot be used, or a method of selfwire has its name.
    """
    given = check_declaration(type(method))
    if not is_id(given.name):
        raise ConfigError(f"{given.__name__}.name is a text of up to 64 letters, digits, _ and -")
    if given.name not in own_methods() and given.name not in CONTESTANTS:
        GIVEN[given.name] = given
        installed_methods.cache_clear()
    elif find_method(given.name) is not given:
        raise ConfigError(f"selfwire has a method {given.name!r}; give class {given.__name__} another name")


def make_method(name: str, config: Mapping[str, Any] = FrozenMap()) -> Method[Any]:
    """Make a method by its name, or by that of a graph of the user's own.

    Args:
        config: config fields by name, those of a nested config as a mapping; the others have their defaults.

    Raises:
        ConfigError: there is no such method, a config field is unknown or out of bounds, or no graph can be imported.
    """
    method: Any = find_method(name)
    given = (name, config) if is_graph(name) else (parse_config(name, method.config_type, config),)
    made: Method[Any] = method(*given)
    return made


def estimate_calls(
    name: str, config: Mapping[str, Any], team: Team, batch: int = 0, added_agents: float = 0.0
) -> CallEstimate:
    """Estimate the calls of a method by its name, as `Method.estimate_calls`.

    Raises:
        ConfigError: there is no such method, a config field cannot be used, or the estimate fails.
    """
    method = find_method(name)
    parsed = parse_config(name, method.config_type, config)
    try:
        return method.estimate_calls(parsed, team, batch, added_agents)
    except Exception as error:  # an outside package may raise anything
        raise ConfigError(
            f"the calls of method {name} cannot be estimated: its estimate_calls raised {format_error(error)}; "
            "mend it, or run without --dry-run"
        ) from error


def check_declaration(method: MethodType) -> MethodType:
    """Return the class of a method whose declaration the rest of the package can use.

    Raises:
        ConfigError: a part of it cannot be used.
    """
    name, config = method.name, method.config_type
    if FULL not in method.variants or not method.build_options <= OPTIONS:
        raise ConfigError(
            f"method {name}: variants need {FULL!r}, and build_options are of {', '.join(sorted(OPTIONS))}"
        )
    if not (issubclass(config, FrozenModel) and issubclass(method.choices, RunContext)):
        raise ConfigError(f"method {name}: config_type is a subclass of FrozenModel, choices one of RunContext")
    if needed := [field for field, known in config.model_fields.items() if known.is_required()]:
        raise ConfigError(f"method {name}: its config needs defaults for {', '.join(needed)}")
    if method.rounds and method.rounds not in config.model_fields:
        raise ConfigError(f"method {name}: rounds names no field of its config: {method.rounds}")
    for title, variant in method.variants.items():
        parse_config(f"{name}'s variant {title}", config, variant.config)
    return method


def _load_contestant(name: str) -> MethodType:
    if name in LIBRARIES and find_spec(name) is None:
        raise ConfigError(f"method {name!r} needs the package {name}: pip install 'selfwire[{name}]'")
    module, _, found = CONTESTANTS[name].partition(":")
    return _find_class(getattr(import_module(module), found))


def _find_class(found: Any) -> MethodType:
    """The class of a method, or the only one that a module defines.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(found, ModuleType):
        classes = [item for item in vars(found).values() if isclass(item) and item.__module__ == found.__name__]
        methods = [item for item in classes if issubclass(item, Method)]
        found = methods[0] if len(methods) == 1 else found
    if not (isclass(found) and issubclass(found, Method)):
        raise TypeError(f"a {type(found).__name__}, no class of a method")
    return found


@cache
def _load_outside(name: str) -> MethodType:
    points = outside_methods()[name]
    values = sorted({point.value for point in points})
    if len(values) > 1:
        raise ConfigError(f"{' and '.join(values)} are both called method {name!r}; uninstall one of the packages")
    where = f"method {name!r} ({points[0].value} of {points[0].dist.name if points[0].dist else 'a package'})"
    if not is_id(name):
        raise ConfigError(f"{where}: a method's name has up to 64 letters, digits, _ and -")
    try:
        found = points[0].load()
    except (Exception, SystemExit) as error:  # an outside package may raise anything at import
        raise ConfigError(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
    try:
        method = check_declaration(_find_class(found))
    except TypeError as error:
        raise ConfigError(f"{where} is {error}; name a subclass of selfwire.Method in group {GROUP}") from error
    if method.name != name:
        raise ConfigError(f"{where} calls itself {method.name!r}; give entry point and class the same name")
    return method
