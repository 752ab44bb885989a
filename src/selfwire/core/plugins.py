"""Code from outside the package: entry points, and the user's modules in the working directory.

Groups are `selfwire.commands`, `selfwire.controls`, `selfwire.methods`, `selfwire.models` and `selfwire.pages`.
"""

import importlib
import sys
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from selfwire.core.errors import ConfigError


@cache
def find_plugin(group: str, name: str) -> EntryPoint | None:
    """Find the entry point of a name; None if no package has it."""
    try:
        own = distribution("selfwire").entry_points.select(group=group, name=name)
    except PackageNotFoundError:
        own = ()  # type: ignore[assignment]
    return next(iter(own or entry_points(group=group, name=name)), None)


def load_plugin(group: str, name: str) -> Any:
    """Import the object that an entry point names.

    Raises:
        ConfigError: there is none of that name, or it cannot be imported.
    """
    found = find_plugin(group, name)
    if found is None:
        raise ConfigError(f"there is no {name!r} in group {group}; reinstall selfwire (pip install .)")
    return found.load()


def import_user_module(name: str) -> ModuleType:
    """Import a module by name; the working directory is searched too, as `python` does for scripts."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(name)
