"""Rules of the house that `make check` enforces beside ruff, mypy and import-linter."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import networkx
from vulture import Vulture

from selfwire.evals.benchmarks.catalogue import PLACES

ROOT = Path(__file__).parents[1]
FOLDERS = ("graphs", "nodes", "evolvers", "tools", "evals", "src/selfwire", "bench")
"""Where the code lies; what `src/selfwire` has as links to the first five counts once."""
HOOKS = {
    "on_chain_start": "LangChain's callbacks",
    "on_chain_end": "LangChain's callbacks",
    "on_chat_model_start": "LangChain's callbacks",
    "on_llm_start": "LangChain's callbacks",
    "on_llm_new_token": "LangChain's callbacks",
    "on_stream_event": "LangChain's callbacks",
    "on_llm_end": "LangChain's callbacks",
    "on_llm_error": "LangChain's callbacks",
    "on_tool_start": "LangChain's callbacks",
    "__getattr__": "Python's modules",
    "__dir__": "Python's modules",
    "_repr_markdown_": "IPython",
    "_": "singledispatch",
    "do_GET": "the standard library's servers",
    "do_POST": "the standard library's servers",
    "visit_AnnAssign": "the standard library's visitors",
    "visit_NamedExpr": "the standard library's visitors",
    "visit_withitem": "the standard library's visitors",
    "send_error": "the standard library's servers",
    "version_string": "the standard library's servers",
    "log_message": "the standard library's servers",
    "server_bind": "the standard library's servers",
    "on_broken_pipe": "rich",
    "handle_error": "the standard library's servers",
    "_llm_type": "LangChain's chat models",
    "_identifying_params": "LangChain's chat models",
    "_stream": "LangChain's chat models",
    "_astream": "LangChain's chat models",
    "make_reflective_dataset": "GEPA's adapters",
    "aget_tuple": "LangGraph's checkpointers",
    "aput": "LangGraph's checkpointers",
    "aput_writes": "LangGraph's checkpointers",
    "adelete_thread": "LangGraph's checkpointers",
    "alist": "LangGraph's checkpointers",
    "add_item_to_slot": "Plancraft's tables",
    "remove_item_from_slot": "Plancraft's tables",
}
"""Names that only a library calls, and which."""


IMPORTERS = ("import_module", "__import__")
CODE = re.compile(r"```.*?```|`[^`]+`", re.DOTALL)


def sources() -> list[Path]:
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if path.resolve() == path]


@cache
def read_trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sources()}


def test_no_files_import_each_other() -> None:
    house = grimp.build_graph("selfwire")
    imports = networkx.DiGraph((a, b) for a in house.modules for b in house.find_modules_directly_imported_by(a))
    circles = [sorted(circle) for circle in networkx.strongly_connected_components(imports) if len(circle) > 1]
    assert not circles, "\n".join(map(str, circles))


def test_no_room_is_imported_by_a_string() -> None:
    """Such an import is hidden from the checks for circles and directions."""
    hidden = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in read_trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in IMPORTERS
        if any(isinstance(one, ast.Constant) and str(one.value).startswith("selfwire") for one in ast.walk(node))
    ]
    assert not hidden, "\n".join(hidden)


def uses(node: ast.AST) -> Iterator[str]:
    """Every name that a piece of code uses, inside short strings too, such as fields of tables and annotations."""
    for one in ast.walk(node):
        match one:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) | ast.keyword(arg=str(name)):
                yield name.rpartition(".")[2]
            case ast.Constant(value=str(text)) if re.fullmatch(r"[\w.:\[\], |]+", text):
                yield from re.findall(r"\w+", text)


def definitions(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement of a module defines."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def find_unused_definitions() -> Iterator[str]:
    """Functions, classes and constants of modules that nothing uses but their own definition and `__all__`."""
    statements = [(path, one, Counter(uses(one))) for path, tree in read_trees().items() for one in tree.body]
    statements = [one for one in statements if "__all__" not in definitions(one[1])]
    used = Counter[str]()
    for _, _, own in statements:
        used.update(own)
    for path, statement, own in statements:
        for name in definitions(statement):
            if not name.startswith("__") and used[name] == own[name] and name not in HOOKS:
                yield f"{path.relative_to(ROOT)}:{statement.lineno} {name}"


def find_unused_members() -> Iterator[str]:
    """Vulture's finds: methods, properties, imports, and functions inside functions."""
    hooks = ["@field_validator*", "@model_validator*", "@field_serializer*", "@computed_field*"]
    vulture = Vulture(ignore_decorators=hooks)
    vulture.scavenge([str(path) for path in sources()])
    for one in vulture.get_unused_code(min_confidence=60):
        if one.typ in ("function", "class", "method", "property", "import") and one.name not in HOOKS:
            yield f"{Path(one.filename).relative_to(ROOT)}:{one.first_lineno} {one.name}"


def test_nothing_is_unused() -> None:
    """A name that is used nowhere is an entry point, or stands as code in the docs, or goes."""
    pages = [path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]]
    documented = {name for page in pages for code in CODE.findall(page) for name in re.findall(r"\w+", code)}
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    documented |= {target.rpartition(":")[2] for group in points.values() for target in group.values()}
    documented |= {place.rpartition(":")[2] for place in PLACES.values()}
    found = {*find_unused_definitions(), *find_unused_members()}
    unused = sorted(one for one in found if one.rpartition(" ")[2] not in documented)
    assert not unused, "\n".join(unused)
