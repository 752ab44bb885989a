"""Names of the installed methods, found without importing any of them."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files

GROUP = "selfwire.methods"
"""Entry points of this group name a `MethodDescriptor` each: `prune = "prune_method:DESCRIPTOR"`."""
PACKAGE = "selfwire.graphs"
CONTESTANTS = {"aflow": "selfwire.evals.baselines.aflow.method", "gepa": "selfwire.evals.baselines.gepa.method"}
"""Methods of others to compare with, by the module of their descriptor.

They are looked up as an entry point is, since they are made of baselines, in a room above this one.
"""
LIBRARIES = ("gepa",)
"""Contestants that are a library by themselves, of the same name."""
DEFAULT_METHOD = "hiva"
"""The method of requests and studies that name none."""


@cache
def method_names() -> tuple[str, ...]:
    """All names, those of this package first."""
    return (*own_methods(), *CONTESTANTS, *sorted(outside_methods()))


def format_import(name: str) -> str:
    """The line that imports a method as `format_identifier(name)`, to call its `build`."""
    if name in own_methods():
        return f"from {PACKAGE} import {name}"
    if name in CONTESTANTS:
        return f"from {CONTESTANTS[name]} import DESCRIPTOR as {format_identifier(name)}"
    point = outside_methods()[name][0]
    return f"from {point.module} import {point.attr} as {format_identifier(name)}"


def format_identifier(name: str) -> str:
    """A method's name as Python can spell it."""
    return name.replace("-", "_") if name[0].isalpha() else f"method_{name.replace('-', '_')}"


@cache
def own_methods() -> tuple[str, ...]:
    """Packages beside this file that hold a `descriptor.py`."""
    folders = (one for one in files(PACKAGE).iterdir() if one.is_dir() and one.joinpath("descriptor.py").is_file())
    return tuple(sorted(one.name for one in folders))


@cache
def outside_methods() -> dict[str, tuple[EntryPoint, ...]]:
    """Entry points of other packages by name; one with the name of a method here is left out."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        if point.name not in own_methods() and point.name not in CONTESTANTS:
            found[point.name] = (*found.get(point.name, ()), point)
    return found
