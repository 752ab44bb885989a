"""Methods by name."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from selfwire.core.errors import ConfigError, format_validation_error
from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.core.values import FrozenMap, FrozenModel, to_plain_json
from selfwire.graphs.method_protocol import Method

UNKNOWN = "extra_forbidden"
"""Pydantic's word for a knob that there is not."""

Config = TypeVar("Config", bound=FrozenModel)


class Maker(Protocol):
    """Wires one method; imports it only when it is wanted."""

    def __call__(self, model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Method:
        """The method with these knobs."""
        ...


def _hiva(model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Method:
    from selfwire.evolvers.hiva.config import HivaConfig
    from selfwire.graphs.hiva.method import Hiva

    return Hiva(model=model, toolbox=toolbox, embedder=embedder, config=parse_config("hiva", HivaConfig, config))


def _hera(model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Method:
    from selfwire.evolvers.hera.config import HeraConfig
    from selfwire.graphs.hera.method import Hera

    return Hera(model=model, toolbox=toolbox, embedder=embedder, config=parse_config("hera", HeraConfig, config))


def _tacomas(model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Method:
    from selfwire.evolvers.tacomas.config import TacomasConfig
    from selfwire.graphs.tacomas.method import Tacomas

    return Tacomas(model=model, toolbox=toolbox, config=parse_config("tacomas", TacomasConfig, config))


def _dytopo(model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Method:
    from selfwire.evolvers.dytopo.config import DytopoConfig
    from selfwire.graphs.dytopo.method import Dytopo

    return Dytopo(model=model, toolbox=toolbox, embedder=embedder, config=parse_config("dytopo", DytopoConfig, config))


def _evomas(model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Method:
    from selfwire.evolvers.evomas.config import EvomasConfig
    from selfwire.graphs.evomas.method import Evomas

    return Evomas(model=model, toolbox=toolbox, embedder=embedder, config=parse_config("evomas", EvomasConfig, config))


METHOD_REGISTRY: Mapping[str, Maker] = {
    "hiva": _hiva,
    "hera": _hera,
    "tacomas": _tacomas,
    "dytopo": _dytopo,
    "evomas": _evomas,
}
"""All methods: each can be asked, served and evolved."""


def make_method(
    name: str, *, model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any] = FrozenMap()
) -> Method:
    """A method, wired.

    Args:
        name: one of `METHODS`.
        model: plays all roles.
        toolbox: every tool that agents may hold.
        embedder: for what is compared by meaning.
        config: the method's knobs by name, those of a nested config as a mapping; those that are missing have their
            defaults.

    Raises:
        ConfigError: there is no such method, or a knob is unknown or out of bounds.
    """
    if name not in METHOD_REGISTRY:
        raise ConfigError(f"unknown method {name!r}; methods are {', '.join(METHOD_REGISTRY)}")
    return METHOD_REGISTRY[name](model, toolbox, embedder, config)


def parse_config(name: str, schema: type[Config], config: Mapping[str, Any]) -> Config:
    """A method's config from knobs by name.

    Raises:
        ConfigError: a knob is unknown or out of bounds.
    """
    try:
        return schema.model_validate(to_plain_json(config))
    except ValidationError as error:
        faults = error.errors()
        told = "; ".join(map(format_validation_error, faults))
        known = f"; knobs are {', '.join(_names(schema))}" if any(one["type"] == UNKNOWN for one in faults) else ""
        raise ConfigError(f"config of {name}: {told}{known}") from None


def _names(schema: type[BaseModel], within: str = "") -> Iterator[str]:
    """Names of knobs, those of a nested config with a dot."""
    for name, field in schema.model_fields.items():
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            yield from _names(nested, f"{within}{name}.")
        else:
            yield within + name
