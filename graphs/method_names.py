"""Names of the installed methods, found without importing any of them."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

GROUP = "selfwire.methods"
"""Entry points of this group name a method's class each: `prune = "prune_method:Prune"`."""
PACKAGE = "selfwire.graphs"
CONTESTANTS = {
    "aflow": "selfwire.extras.contestants.aflow.method:Aflow",
    "gepa": "selfwire.extras.contestants.gepa.method:Gepa",
}
"""Methods of others to compare with, by their class.

They are looked up as an entry point is, since they are made of baselines, in a room above this one.
"""
LIBRARIES = ("gepa",)
"""Contestants that are a library by themselves, of the same name."""
DEFAULT_METHOD = "hiva"
"""The method of requests and studies that name none."""

GIVEN: dict[str, Any] = {}
"""Classes of methods that this process was given as values, by name; see `methods.add_method`."""


def method_names() -> tuple[str, ...]:
    """All names, those of this package first."""
    return (*own_methods(), *CONTESTANTS, *sorted(outside_methods().keys() | GIVEN.keys()))


def own_methods() -> tuple[str, ...]:
    """Methods of this package, in `graphs/<name>.py`."""
    return ("dytopo", "evomas", "hera", "hiva", "tacomas")


@cache
def outside_methods() -> dict[str, tuple[EntryPoint, ...]]:
    """Entry points of other packages by name; one with the name of a method here is left out."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        if point.name not in own_methods() and point.name not in CONTESTANTS:
            found[point.name] = (*found.get(point.name, ()), point)
    return found
