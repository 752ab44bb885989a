"""Worlds: each gives a mechanism of a method something to gain, says how much that is, and runs the method's own code.

A method's worlds are modules of the package of its name beside this file, each with its `WORLD`; the package names them
in `WORLDS`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.values import FrozenModel
from selfwire.evals.table import Column, build_table
from selfwire.extras.lab.worlds.gains import SYSTEM, Claim, Scale, WorldResult, format_gains


@dataclass(frozen=True)
class World:
    """A world.

    Attributes:
        parameters: everything that its results depend on beside the seed.
        run: all systems in the world of these parameters and a seed, as a coroutine where it asks a model.
        scale: on which its systems are compared.
        claims: what its mechanisms are worth, by which systems.
        tables: results as Markdown, where it has tables of its own.
        columns: of a further table of its systems, the best first.
    """

    parameters: FrozenModel
    run: Callable[[Any, int], WorldResult | Coroutine[Any, Any, WorldResult]]
    scale: Scale
    claims: tuple[Claim, ...]
    tables: Callable[[Sequence[WorldResult]], str] | None = None
    columns: Callable[[Sequence[WorldResult]], Sequence[Column[str]]] | None = None

    def run_seed(self, seed: int) -> WorldResult:
        """All systems in the world of one seed."""
        found = self.run(self.parameters, seed)
        return found if isinstance(found, WorldResult) else asyncio.run(found)

    def format_tables(self, results: Sequence[WorldResult]) -> str:
        """Results of at least two seeds as Markdown."""
        if self.tables:
            return self.tables(results)
        shown = format_gains(results, self.scale, self.claims)
        if self.columns is None:
            return shown
        return f"{shown}\n\n{build_table((SYSTEM, *self.columns(results)), self.scale.rank(results)).markdown}"


def list_worlds() -> dict[str, tuple[str, ...]]:
    """The names of all worlds, by method."""
    folder = Path(__file__).parent
    return {path.name: _find_names(path.name) for path in sorted(folder.iterdir()) if (path / "__init__.py").exists()}


def load_world(method: str, name: str) -> World:
    """A method's world.

    Raises:
        ConfigError: it has no such world.
    """
    known = _find_names(method)
    if name not in known:
        raise ConfigError(f"{method} has no world {name!r}; it has {', '.join(known) or 'none'}")
    world: World = import_module(f"{__package__}.{method}.{name}").WORLD
    return world


def _find_names(method: str) -> tuple[str, ...]:
    package = f"{__package__}.{method}"
    found: tuple[str, ...] = import_module(package).WORLDS if method.isidentifier() and find_spec(package) else ()
    return found
