"""The house: what is packaged, what imports what, and how large things are."""

import ast
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("core", "runtime", "nodes", "evolvers", "tools", "graphs", "evals", "runs", "cli", "bench")
LINES, BODY = 350, 50


def sources() -> list[Path]:
    return [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]


def test_every_room_is_linked_into_the_package() -> None:
    links = {path.name: path.resolve() for path in (ROOT / "src" / "selfwire").iterdir()}
    assert links == {room: ROOT / room for room in ROOMS}


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_every_room(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=ignored)
    shutil.copytree(ROOT / "src" / "selfwire", tmp_path / "src" / "selfwire", symlinks=True)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    build = "from setuptools import build_meta; build_meta.build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("selfwire/")}
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*") if path.is_file()]
    wanted = {f"selfwire/{path.relative_to(ROOT)}" for path in files if "__pycache__" not in path.parts}
    assert wanted == inside
    assert {f"selfwire/{room}/py.typed" for room in ROOMS} <= inside


def test_core_needs_no_framework_and_no_torch() -> None:
    modules = [f"selfwire.core.{path.stem}" for path in (ROOT / "core").glob("*.py") if path.stem != "__init__"]
    code = f"""
import importlib, sys
for name in {modules!r}: importlib.import_module(name)
print({{name.partition(".")[0] for name in sys.modules}}
      & {{"langgraph", "langchain", "langchain_core", "langsmith", "openai", "torch", "sentence_transformers"}})
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_can_be_read_in_one_go(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LINES
    assert {name: lines for name, lines in bodies(ast.parse(text)) if lines > BODY} == {}


def bodies(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Name and lines of every function's body; signature (a command's options) and docstring apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield node.name, (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
