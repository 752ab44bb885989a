"""Methods by name; a method's package is imported when the method is wanted."""

import warnings
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.core.values import FrozenMap, is_id
from selfwire.graphs.configs import parse_config
from selfwire.graphs.descriptor import MethodDescriptor
from selfwire.graphs.method_names import (
    CONTESTANTS,
    GROUP,
    LIBRARIES,
    PACKAGE,
    method_names,
    outside_methods,
    own_methods,
)
from selfwire.graphs.method_protocol import Method

Descriptor = MethodDescriptor[Any, Any]


def describe_method(name: str) -> Descriptor:
    """A method's descriptor.

    Raises:
        ConfigError: there is no such method, or its package cannot be used.
    """
    if name in own_methods():
        found: Descriptor = import_module(f"{PACKAGE}.{name}.descriptor").DESCRIPTOR
        return found
    if name in CONTESTANTS:
        return _load_contestant(name)
    if name in outside_methods():
        return _load_outside(name)
    raise ConfigError(f"unknown method {name!r}; methods are {', '.join(method_names())}")


@cache
def installed_methods() -> tuple[Descriptor, ...]:
    """All descriptors; an outside package that cannot be used is left out with a warning, a missing extra without."""
    found = []
    for name in method_names():
        if name in LIBRARIES and find_spec(name) is None:
            continue
        try:
            found.append(describe_method(name))
        except ConfigError as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
    return tuple(found)


def make_method(
    name: str, *, model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any] = FrozenMap()
) -> Method:
    """A method with its models, tools and config.

    Args:
        config: config fields by name, those of a nested config as a mapping; the others have their defaults.

    Raises:
        ConfigError: there is no such method, it cannot be made, or a config field is unknown or out of bounds.
    """
    described = describe_method(name)
    parsed = parse_config(name, described.config, config)
    try:
        made = described.make(model, toolbox, embedder, parsed)
    except TypeError as error:
        raise ConfigError(f"method {name!r} cannot be made of model, tools, embedder and config: {error}") from error
    if not isinstance(made, Method):
        raise ConfigError(f"what makes method {name!r} gives a {type(made).__name__}, which is no Method")
    if made.name != name:
        raise ConfigError(f"method {name!r} calls itself {made.name!r}; give class and descriptor one name")
    return made


def _load_contestant(name: str) -> Descriptor:
    if name in LIBRARIES and find_spec(name) is None:
        raise ConfigError(f"method {name!r} needs the package {name}: pip install 'selfwire[{name}]'")
    found: Descriptor = import_module(CONTESTANTS[name]).DESCRIPTOR
    return found


@cache
def _load_outside(name: str) -> Descriptor:
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
    if not isinstance(found, MethodDescriptor):
        raise ConfigError(f"{where} is a {type(found).__name__}, no MethodDescriptor; name one in group {GROUP}")
    if found.name != name:
        raise ConfigError(
            f"{where} is the descriptor of {found.name!r}; give its entry point in group {GROUP} the same name"
        )
    return found
