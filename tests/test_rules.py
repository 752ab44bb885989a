"""Rules of the house that `make check` enforces beside ruff, mypy and import-linter."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grimp
import networkx
import pytest
from vulture import Vulture

ROOT = Path(__file__).parents[1]
ROOMS = tuple(sorted(path.name for path in (ROOT / "src" / "selfwire").iterdir()))
METHODS = tuple(sorted(path.name for path in (ROOT / "evolvers").iterdir() if (ROOT / "graphs" / path.name).is_dir()))
SHARED = ("trained_router",)
"""Packages that stand in both rooms and belong to no method."""
NAMED = re.compile(rf"(?<![a-z])({'|'.join(name for name in METHODS if name not in SHARED)})(?![a-z])")
CONCRETE = ("cli/demo.py", "graphs/method_names.py")
"""Files that name a method on purpose: the demo's, and the default."""
HOOKS = {
    "_": "singledispatch",
    "_llm_type": "LangChain's chat models",
    "_identifying_params": "LangChain's chat models",
    "_stream": "LangChain's chat models",
    "_astream": "LangChain's chat models",
    "aget_tuple": "LangGraph's checkpointers",
    "aput": "LangGraph's checkpointers",
    "aput_writes": "LangGraph's checkpointers",
    "adelete_thread": "LangGraph's checkpointers",
    "alist": "LangGraph's checkpointers",
    "add_item_to_slot": "Plancraft's tables",
    "remove_item_from_slot": "Plancraft's tables",
}
"""Names that only a library calls, and which."""


def sources(*rooms: str) -> Iterator[Path]:
    for room in rooms or ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


def test_no_files_import_each_other() -> None:
    house = grimp.build_graph("selfwire")
    imports = networkx.DiGraph((a, b) for a in house.modules for b in house.find_modules_directly_imported_by(a))
    assert [sorted(circle) for circle in networkx.strongly_connected_components(imports) if len(circle) > 1] == []


def test_nothing_is_unused() -> None:
    """A name that is used nowhere in the rooms is documented for users, or goes."""
    documented = "\n".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    hooks = ["@field_validator*", "@model_validator*", "@field_serializer*", "@computed_field*"]
    vulture = Vulture(ignore_decorators=hooks)
    vulture.scavenge([str(ROOT / room) for room in ROOMS])
    unused = [
        f"{Path(one.filename).relative_to(ROOT)}:{one.first_lineno} {one.name}"
        for one in vulture.get_unused_code(min_confidence=60)
        if one.typ in ("function", "class", "method", "property", "import")
        and one.name not in HOOKS
        and not re.search(rf"\b{one.name}\b", documented)
    ]
    assert unused == []


def names(path: Path) -> Iterator[tuple[int, str]]:
    """Everything in a module's code that could name a method: imports, definitions and whole strings, no prose."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, f"{node.module} {' '.join(alias.name for alias in node.names)}"
        elif isinstance(node, ast.Import):
            yield node.lineno, " ".join(alias.name for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            yield node.lineno, node.value


@pytest.mark.parametrize("room", ROOMS)
def test_methods_are_named_in_their_own_packages_only(room: str) -> None:
    named = [
        f"{path.relative_to(ROOT)}:{line} {text}"
        for path in sources(room)
        if not set(path.relative_to(ROOT).parts) & set(METHODS) and str(path.relative_to(ROOT)) not in CONCRETE
        for line, text in names(path)
        if NAMED.search(re.sub(r"([a-z])([A-Z])", r"\1_\2", text).lower().replace("_", " "))
    ]
    assert named == []
