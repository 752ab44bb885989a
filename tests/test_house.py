"""The house: what imports what, and how large things are."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOP = ("graphs", "nodes", "evolvers", "tools", "evals")
"""Rooms of the package that lie at the top of the repository; the others lie in src/selfwire."""
BODY = 60
"""Most lines of a function's body."""


def sources() -> list[Path]:
    found = [path for folder in (*TOP, "src/selfwire", "bench") for path in (ROOT / folder).rglob("*.py")]
    return [path for path in found if path.resolve() == path]


def test_every_room_is_linked_into_the_package() -> None:
    links = {path.name: path.resolve() for path in (ROOT / "src" / "selfwire").iterdir() if path.is_symlink()}
    assert links == {room: ROOT / room for room in TOP}


def test_core_needs_no_framework_and_no_torch() -> None:
    paths = (ROOT / "src/selfwire/core").glob("*.py")
    modules = [f"selfwire.core.{path.stem}" for path in paths if path.stem != "__init__"]
    code = f"""
import importlib, sys
for name in {modules!r}: importlib.import_module(name)
print({{name.partition(".")[0] for name in sys.modules}}
      & {{"langgraph", "langchain", "langchain_core", "langsmith", "openai", "torch", "sentence_transformers"}})
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_can_be_read_in_one_go(path: Path) -> None:
    assert {name: lines for name, lines in bodies(ast.parse(path.read_text())) if lines > BODY} == {}


def bodies(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Name and lines of every function's body; signature (a command's options) and docstring apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield node.name, (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
