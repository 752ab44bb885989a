"""What the docs name exists."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from selfwire.graphs.method_names import GROUP

DOCS = Path(__file__).parents[1] / "docs"
NAMED = re.compile(r"(?<![\w/])selfwire(?:\.[A-Za-z_]\w*)+")
IMPORTED = re.compile(r"^\s*from (selfwire[\w.]*) import ([\w, ]+)", re.MULTILINE)


def names(page: str) -> Iterator[str]:
    """Dotted names of ours on a page, those of import lines included."""
    text = (DOCS / page).read_text()
    yield from NAMED.findall(text)
    for module, imported in IMPORTED.findall(text):
        yield from (f"{module}.{name.split(' as ')[0].strip()}" for name in imported.split(","))


def find(name: str) -> object:
    """The module or attribute of a dotted name."""
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(find(module), attribute)


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_every_name_of_ours_can_be_imported(page: str) -> None:
    for name in sorted(set(names(page)) - {GROUP}):
        assert find(name) is not None, name
