"""Modules of a user's own, such as graders and tools, which lie beside the tasks in the working directory."""

import importlib
import sys
from pathlib import Path
from types import ModuleType


def import_own_module(name: str) -> ModuleType:
    """Import a module by name, from the working directory too, as `python` does for its scripts."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(name)
