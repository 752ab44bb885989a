"""Code from outside a room: entry points, methods by name, and the user's modules in the working directory.

Groups are `selfwire.commands`, `selfwire.controls`, `selfwire.methods`, `selfwire.models` and `selfwire.pages`.
"""

import hashlib
import importlib
import importlib.util
import re
import sys
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points, version
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.text import suggest_name


def get_version() -> str:
    """Get the version of the installed distribution; "unknown" if it is not installed."""
    try:
        return version("selfwire")
    except PackageNotFoundError:  # pragma: no cover - the tests run on an installed distribution
        return "unknown"


ROOMS = ("cli", "core", "evals", "evolvers", "extras", "graphs", "models", "nodes", "runs", "store", "tools")


@cache
def compute_code_hash() -> str:
    """Compute a short SHA-256 of selfwire's own sources and prompts, once per process."""
    digest = hashlib.sha256()
    for room in ROOMS:
        root = Path(str(files(f"selfwire.{room}")))
        for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".md", ".json", ".toml")):
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def find_plugin(group: str, name: str) -> EntryPoint | None:
    """Find the entry point of a name; None if no package has it."""
    try:
        own = distribution("selfwire").entry_points.select(group=group, name=name)
    except PackageNotFoundError:
        own = ()  # type: ignore[assignment]
    return next(iter(own or entry_points(group=group, name=name)), None)


def load_plugin(group: str, name: str) -> Any:
    """Import the object that an entry point names; those of this package stand in `pyproject.toml`.

    Raises:
        ConfigError: there is none of that name, or it cannot be imported.
    """
    found = find_plugin(group, name)
    if found is None:
        raise ConfigError(f"there is no {name!r} in group {group}; reinstall selfwire (pip install .)")
    return found.load()


def import_user_module(name: str) -> ModuleType:
    """Import a module by name, or a file that ends in .py; the working directory, then its `src`, are searched too."""
    if name.endswith(".py"):
        return import_user_file(Path(name))
    sys.path[:] = _make_search_path()
    return importlib.import_module(name)


def _make_search_path() -> list[str]:
    here, source, found = str(Path.cwd()), Path.cwd() / "src", [*sys.path]
    if here not in found:
        found.insert(0, here)
    if source.is_dir() and str(source) not in found:
        found.insert(found.index(here) + 1, str(source))
    return found


def find_user_file(module: str) -> str:
    """Find the file that `import_user_module` would import, of a package its top; "" if there is none.

    Nothing is imported.
    """
    if module.endswith(".py"):
        return str(Path(module).resolve())
    try:
        spec = PathFinder.find_spec(module.partition(".")[0], _make_search_path())
    except (ImportError, ValueError):
        return ""
    if spec is None:
        return ""
    files = [spec.origin] if spec.origin else [*(spec.submodule_search_locations or ())]
    return str(Path(files[0]).resolve()) if files else ""


MOST_LISTED = 12
"""Most attributes of a module that an error lists."""


def import_user_object(module: str, name: str, what: str) -> Any:
    """Import an attribute of a module; see `import_user_module`.

    Args:
        what: the object in the message, such as "grader 'mine.py:grade'".

    Raises:
        ConfigError: the module has no such attribute; the message names those that it has.
    """
    found = import_user_module(module)
    try:
        return attrgetter(name)(found)
    except AttributeError as error:
        if "__getattr__" in vars(found):  # the module makes its attributes, and says itself which there are
            raise ConfigError(f"{what}: {error}") from None
        known = [other for other, value in vars(found).items() if _is_defined_in(found, other, value)]
        hint = suggest_name(name, known, "did you mean {}? ")
        there = f"it has {', '.join(known[:MOST_LISTED])}" if known else "it has nothing that could be named"
        raise ConfigError(f"{what}: {module} has no {name!r}; {hint}{there}") from None


def _is_defined_in(module: ModuleType, name: str, value: object) -> bool:
    """Whether an attribute is the module's own, and neither private, nor a constant, nor imported."""
    is_imported = isinstance(value, ModuleType) or (
        isinstance(value, FunctionType | type) and value.__module__ != module.__name__
    )
    return not (name.startswith("_") or name.isupper() or is_imported)


def import_user_file(path: Path) -> ModuleType:
    """Import a file as a module, once in this process.

    A file of a package is that package's module, so that its relative imports work. The folder of the package, or of
    the file, is searched for what it imports, and at last those above it in the working directory.
    """
    path = path.resolve()
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        parts, folder = [folder.name, *parts], folder.parent
    above = [str(outer) for outer in folder.parents if outer.is_relative_to(Path.cwd())]
    sys.path[:] = dict.fromkeys([str(folder), *sys.path, *above])
    if len(parts) > 1:
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        if module.__file__ is None or Path(module.__file__).resolve() != path:
            raise ImportError(f"{path} is module {module.__name__}, which this process has imported from another file")
        return module
    name = f"selfwire_file_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # half a module
        raise
    return module


GROUP = "selfwire.methods"
"""Entry points of this group name a method's class each: `sparsify = "sparsify_method:Sparsify"`."""
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
"""Classes of methods that this process was given as values, by name; see `method.add_method`."""


GRAPH_NAME = re.compile(r"(?!team:)(?P<module>[\w./\\-]+|[\w ./\\-]+\.py):(?P<name>[A-Za-z_][\w.]*)")
"""A graph of the user's own by name: `my_app.graph:graph`, or `my_app/graph.py:graph` as langgraph.json has it."""
GRAPHS: dict[str, Any] = {}
"""Graphs that this process was given as values, by the name that stands for them; see `own_graph.give_graph`."""


def is_graph(name: str) -> bool:
    """Whether a name is that of a graph of the user's own."""
    return name in GRAPHS or (GRAPH_NAME.fullmatch(name) is not None and not name.endswith(".json"))


def find_graph_file(name: str) -> str:
    """Find the file whose code a graph's name means here; "" if there is none. Nothing is imported."""
    parts = GRAPH_NAME.fullmatch(name)
    return find_user_file(parts["module"]) if parts else ""


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
