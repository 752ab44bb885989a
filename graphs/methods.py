"""Methods by name."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from selfwire.core.errors import ConfigError
from selfwire.core.ports import Embedder, Model, Toolbox
from selfwire.core.values import thawed
from selfwire.graphs.method import Method, Solver

NAMES = ("hiva",)
"""Methods that the outer evolution serves."""
SOLVERS = ("hiva", "tacomas", "dytopo")
"""Methods that a question can be put to."""


def solver(name: str, *, model: Model, toolbox: Toolbox, embedder: Embedder) -> Solver:
    """A method with its default knobs, to put questions to.

    Args:
        name: one of `SOLVERS`.
        model, toolbox, embedder: as for `method`.

    Raises:
        ConfigError: there is no such method.
    """
    if name == "tacomas":
        from selfwire.graphs.tacomas.method import Tacomas

        return Tacomas(model=model, toolbox=toolbox)
    if name == "dytopo":
        from selfwire.graphs.dytopo.method import Dytopo

        return Dytopo(model=model, toolbox=toolbox, embedder=embedder)
    if name not in SOLVERS:
        raise ConfigError(f"unknown method {name!r}; methods are {', '.join(SOLVERS)}")
    return method(name, model=model, toolbox=toolbox, embedder=embedder, config={})


def method(name: str, *, model: Model, toolbox: Toolbox, embedder: Embedder, config: Mapping[str, Any]) -> Method:
    """A method, wired.

    Args:
        name: one of `NAMES`.
        model: plays all roles.
        toolbox: every tool that agents may hold.
        embedder: for what is compared by meaning.
        config: the method's knobs by name; those that are missing have their defaults.

    Raises:
        ConfigError: there is no such method, or a knob is unknown or out of bounds.
    """
    if name != "hiva":
        raise ConfigError(f"unknown method {name!r}; methods are {', '.join(NAMES)}")
    from selfwire.evolvers.hiva.config import HivaConfig
    from selfwire.graphs.hiva.method import Hiva

    try:
        knobs = HivaConfig.model_validate(thawed(config))
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ConfigError(f"config of {name}: {told}; knobs are {', '.join(HivaConfig.model_fields)}") from None
    return Hiva(model=model, toolbox=toolbox, embedder=embedder, config=knobs)
