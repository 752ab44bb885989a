"""Methods by name."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from selfwire.core.errors import ConfigError
from selfwire.core.ports import Embedder, Model, Toolbox
from selfwire.core.values import FrozenMap, Value, thawed
from selfwire.graphs.method import Method, Solver

Config = TypeVar("Config", bound=Value)
Made = TypeVar("Made", bound=Solver, covariant=True)


class Maker(Protocol[Made]):
    """Wires one method; imports it only when it is wanted."""

    def __call__(self, model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Made:
        """The method with these knobs."""
        ...


def _hiva(model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Method:
    from selfwire.evolvers.hiva.config import HivaConfig
    from selfwire.graphs.hiva.method import Hiva

    return Hiva(model=model, toolbox=toolbox, embedder=embedder, config=knobs("hiva", HivaConfig, config))


def _tacomas(model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Method:
    from selfwire.evolvers.tacomas.config import TacomasConfig
    from selfwire.graphs.tacomas.method import Tacomas

    return Tacomas(model=model, toolbox=toolbox, config=knobs("tacomas", TacomasConfig, config))


def _dytopo(model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Solver:
    from selfwire.evolvers.dytopo.config import DytopoConfig
    from selfwire.graphs.dytopo.method import Dytopo

    return Dytopo(model=model, toolbox=toolbox, embedder=embedder, config=knobs("dytopo", DytopoConfig, config))


def _evomas(model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Method:
    from selfwire.evolvers.evomas.config import EvomasConfig
    from selfwire.graphs.evomas.method import Evomas

    return Evomas(model=model, toolbox=toolbox, embedder=embedder, config=knobs("evomas", EvomasConfig, config))


METHODS: Mapping[str, Maker[Method]] = {"hiva": _hiva, "tacomas": _tacomas, "evomas": _evomas}
"""Methods that the outer evolution serves."""
SOLVERS: Mapping[str, Maker[Solver]] = {**METHODS, "dytopo": _dytopo}
"""Methods that a question can be put to."""


def solver(
    name: str, *, model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any] = FrozenMap()
) -> Solver:
    """A method, wired, to put questions to.

    Args:
        name: one of `SOLVERS`.
        model: plays all roles.
        toolbox: every tool that agents may hold.
        embedder: for what is compared by meaning.
        config: the method's knobs by name; those that are missing have their defaults.

    Raises:
        ConfigError: there is no such method, or a knob is unknown or out of bounds.
    """
    return _known(SOLVERS, name)(model, toolbox, embedder, config)


def method(name: str, *, model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Method:
    """A method, wired, as the outer evolution needs it.

    Args:
        name: one of `METHODS`.
        model, toolbox, embedder, config: as for `solver`.

    Raises:
        ConfigError: there is no such method, or a knob is unknown or out of bounds.
    """
    return _known(METHODS, name)(model, toolbox, embedder, config)


def knobs(name: str, schema: type[Config], config: Mapping[str, Any]) -> Config:
    """A method's config from knobs by name.

    Raises:
        ConfigError: a knob is unknown or out of bounds.
    """
    try:
        return schema.model_validate(thawed(config))
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ConfigError(f"config of {name}: {told}; knobs are {', '.join(schema.model_fields)}") from None


def _known(makers: Mapping[str, Maker[Made]], name: str) -> Maker[Made]:
    if name not in makers:
        raise ConfigError(f"unknown method {name!r}; methods are {', '.join(makers)}")
    return makers[name]
