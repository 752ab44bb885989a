"""Worlds: each gives a mechanism of a method something to gain, says how much that is, and runs the method's own code.

A method's worlds are declared in the package of its name beside this file.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TypeVar

from selfwire.core.errors import ConfigError
from selfwire.core.values import FrozenModel
from selfwire.runtime.child_processes import open_process_pool

Result = TypeVar("Result")


class SeedOutcome(FrozenModel):
    """A result of one seed."""

    seed: int


class WorldResult(SeedOutcome):
    """One seed's figures.

    Args:
        figures: numbers by name, of each system; which ones is the world's matter.
    """

    figures: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class World:
    """A world.

    Attributes:
        parameters: everything that its results depend on beside the seed.
        run_seed: all systems in the world of one seed.
        format_tables: results as Markdown.
    """

    parameters: FrozenModel
    run_seed: Callable[[int], WorldResult]
    format_tables: Callable[[Sequence[WorldResult]], str]


def load_world(method: str, name: str) -> World:
    """A method's world.

    Raises:
        ConfigError: it has no such world.
    """
    package = f"{__package__}.{method}"
    known: Mapping[str, World] = import_module(package).WORLDS if method.isidentifier() and find_spec(package) else {}
    if name not in known:
        raise ConfigError(f"{method} has no world {name!r}; it has {', '.join(known) or 'none'}")
    return known[name]


def run_seeds(run: Callable[[int], Result], seeds: Sequence[int], workers: int) -> Generator[Result, None, None]:
    """Run a study for each seed, in processes of one thread; yields results as they come.

    They do not depend on the number of processes, which end where the iteration is left.
    """
    if workers == 1 or len(seeds) < 2:
        yield from map(run, seeds)
        return
    with open_process_pool(workers) as pool:
        for done in as_completed([pool.submit(run, seed) for seed in seeds]):
            yield done.result()
