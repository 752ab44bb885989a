"""Words of the house: names and docstrings that a reader must not read twice. The counts may only fall."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("graphs", "nodes", "evolvers", "tools", "evals", "src/selfwire", "bench")

NAMED_ONE, RIDDLES, NAMED_TWICE = 0, 32, 0
"""Loops whose variable is called `one`, first lines that hide the thing, class names that stand for two things."""

HEAD = re.compile(r"^(what|who|whom|whose|the same|of|as|those|that which|it|one)\b", re.IGNORECASE)
HIDING = re.compile(
    r"\b(whoever|whom|nobody|somebody|everybody|lends?|lent|as it is|as they are|in the place of|comes? to)\b"
)


@cache
def read_trees() -> dict[Path, ast.Module]:
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path: ast.parse(path.read_text()) for path in found if path.resolve() == path}


KINDS = (ast.mod, ast.stmt, ast.comprehension, ast.Lambda)
"""Of nodes that the rules below ask for."""


@cache
def walk_trees() -> list[tuple[Path, ast.AST]]:
    return [(path, node) for path, tree in read_trees().items() for node in ast.walk(tree) if isinstance(node, KINDS)]


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    assert all(issubclass(kind, KINDS) for kind in kinds), "add what is missing to KINDS"
    for path, node in walk_trees():
        if isinstance(node, kinds):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", node


def loop_variables(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Lambda):
        return {argument.arg for argument in node.args.args}
    target = getattr(node, "target", None)
    return {name.id for name in ast.walk(target) if isinstance(name, ast.Name)} if target else set()


def first_line(node: ast.AST) -> str:
    assert isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    return (ast.get_docstring(node) or "").partition("\n")[0]


def test_loop_variables_name_their_thing() -> None:
    loops = nodes(ast.For, ast.AsyncFor, ast.comprehension, ast.Lambda)
    found = [place for place, node in loops if "one" in loop_variables(node)]
    assert len(found) <= NAMED_ONE, "\n".join(found)


def test_first_lines_of_docstrings_name_the_thing() -> None:
    documented = nodes(ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    lines = [(place, first_line(node)) for place, node in documented]
    found = [f"{place} {line}" for place, line in lines if HEAD.search(line) or HIDING.search(line)]
    assert len(found) <= RIDDLES, "\n".join(found)


def test_a_class_name_stands_for_one_thing() -> None:
    found = Counter(node.name.lstrip("_") for _, node in nodes(ast.ClassDef) if isinstance(node, ast.ClassDef))
    twice = sorted(name for name, count in found.items() if count > 1)
    assert len(twice) <= NAMED_TWICE, twice


def arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {argument.arg for argument in named if argument}


def documented_names(doc: str, head: str) -> Iterator[str]:
    """Names under a head such as `Args:`, which stand before a colon at the section's first indent."""
    section = re.search(rf"^{head}:\n((?:(?: .*)?\n?)*)", doc, re.MULTILINE)
    for names in re.findall(r"^    (\w+(?:, \w+)*):", section.group(1) if section else "", re.MULTILINE):
        yield from names.split(", ")


def test_attributes_in_docstrings_exist() -> None:
    wrong = []
    found = [(place, node) for place, node in nodes(ast.ClassDef) if isinstance(node, ast.ClassDef)]
    own = {
        node.name: set(re.findall(r"\w+", "\n".join(ast.unparse(part) for part in node.body[1:]))) for _, node in found
    }
    for place, node in found:
        bases = re.findall(r"\w+", " ".join(map(ast.unparse, node.bases)))
        known = own[node.name].union(*(own.get(base, set()) for base in bases))
        named = documented_names(ast.get_docstring(node) or "", "Attributes")
        wrong += [f"{place} {name}" for name in named if name not in known]
    assert not wrong, "\n".join(wrong)


def test_arguments_in_docstrings_exist() -> None:
    wrong = []
    for place, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        known = arguments(node)
        named = documented_names(ast.get_docstring(node) or "", "Args")
        wrong += [f"{place} {name}" for name in named if name not in known]
    assert not wrong, "\n".join(wrong)


def test_a_contestant_is_a_method_of_others() -> None:
    """Whatever a table measures is a system; a contestant is an optimiser by other people, such as AFlow and GEPA."""
    own = ("src/selfwire/extras/contestants", "src/selfwire/extras/offline", "src/selfwire/core/plugins.py")
    allowed = (
        *own,
        "src/selfwire/extras/__init__.py",
        "graphs/method.py",
        "evals/table.py",
        "src/selfwire/cli/compare.py",
    )
    files = [path for path, tree in read_trees().items() if "contestant" in path.read_text().lower()]
    found = [name for path in files if not (name := path.relative_to(ROOT).as_posix()).startswith(allowed)]
    assert not found, found
