"""Files of a program, read when they are imported, and an index of what stands in them.

It gets folders and the names of modules, and hands the files and the index to `source`, whose `Program` is made of it.
"""

import ast
import sys
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.extras.adopt.names import Followed, Import, MethodNames, SourceFile, Surroundings, Traced, find_method
from selfwire.extras.adopt.syntax import (
    NAMED,
    Function,
    get_last_name,
    is_classmethod,
    is_main_guard,
    is_namespace,
    is_only_read,
    is_text,
    list_additions,
    list_assignments,
    list_changed,
    list_children,
    list_nodes,
    list_positional,
    show_path,
)

FOREIGN = ("site-packages", "dist-packages")
"""Folders of installed packages, which are never read."""


SCOPES = (*Function.__args__, ast.ClassDef)
INDEXED = (ast.stmt, ast.Call, ast.Attribute, ast.Subscript)


class ProgramFiles:
    """The files of a program, read when they are imported, and an index of what stands in them.

    Args:
        roots: folders in which modules are looked for.
        project: the topmost folder; files outside it belong to others.

    Attributes:
        parents: the node around each node.
        classes: those of the program.
        decorated: functions and classes by the names of their decorators, each with the decorator.
        additions: what functions add to collections outside them, by the collection's name.
        registered: what they add to attributes, by the attribute's name, each with the attribute's owner.
        reassigned: what functions assign to names that their `global` and `nonlocal` statements list.
        rebound: names that `global` and `nonlocal` statements list; None if code changes `globals()`.
        replaced: attributes that are set by other code than methods of their class; None if that code computes which.
        loaded: names that are read somewhere; `handed` are those that are not called there, with what stands around.
        passed_texts: texts that calls pass, which may be names, as in `getattr(module, "load")`.
        shared: names that are imported, or read by more than a loop, so that other code may change their values.
        changing: expressions whose items code adds, replaces or removes.
        described: expressions to whose `description` or `__doc__` code assigns, with what it assigns.
        added: collections to which code adds something, with what it adds.
        unread: files whose imports are not read yet.
    """

    def __init__(self, roots: Sequence[Path], project: Path) -> None:
        self.roots, self.project = tuple(dict.fromkeys(roots)), project
        self.files: dict[Path, SourceFile] = {}
        self.unread: list[SourceFile] = []
        self.calls: dict[str, list[Traced]] = {}
        self.reassigned: dict[str, list[Traced]] = {}
        self.inner: dict[tuple[Any, Any], Surroundings] = {}
        self.parents: dict[Any, Any] = {}
        self.classes: list[Traced] = []
        self.decorated: dict[str, list[tuple[Traced, ast.expr]]] = {}
        self.additions: dict[str, list[Traced]] = {}
        self.registered: dict[str, list[tuple[ast.expr, Traced]]] = {}
        self.rebound: set[str | None] = set()
        self.replaced: set[str | None] = set()
        self.loaded: set[str] = set()
        self.handed: dict[str, list[Traced]] = {}
        self.passed_texts: set[str] = set()
        self.shared: set[str] = set()
        self.changing: list[Traced] = []
        self.described: list[tuple[Traced, Traced]] = []
        self.added: list[tuple[Traced, Traced]] = []
        self.found: dict[tuple[str, str], SourceFile | None] = {}
        self.keys: dict[Any, int] = {}

    def read_file(self, path: Path, name: str) -> SourceFile:
        """Read a file; `read_imported` reads what it imports.

        Raises:
            ConfigError: it cannot be read or is no valid Python.
        """
        path = path.resolve()
        if path in self.files:
            return self.files[path]
        try:
            with tokenize.open(path) as stream:
                text = stream.read()
            tree = ast.parse(text, str(path))
        except (SyntaxError, ValueError, LookupError, MemoryError) as error:  # of encodings, and of signs in a row
            line = getattr(error, "lineno", None) or 1
            reason = getattr(error, "msg", None) or str(error) or "it is nested too deeply"
            raise ConfigError(
                f"{show_path(path)}:{line} is no valid Python {sys.version_info[0]}.{sys.version_info[1]}: {reason}; "
                "mend that line, or run selfwire with the Python that the program needs"
            ) from None
        except OSError as error:
            raise ConfigError(f"{show_path(path)} cannot be read: {error.strerror}; check the path") from None
        nodes = list_nodes(tree)
        if (methods := MethodNames(nodes)).called:
            methods.visit(tree)
            nodes = list_nodes(tree)
        file = self.files[path] = SourceFile(path, name, text, tree, nodes, self.keys)
        self._index(file)
        self.unread.append(file)
        return file

    def read_imported(self) -> None:
        """Read all files of the program that those which were read import, directly or not.

        Raises:
            ConfigError: one is missing, cannot be read or is no valid Python.
        """
        while self.unread:
            file = self.unread.pop(0)
            for statement in file.nodes:
                if isinstance(statement, ast.Import):
                    for alias in statement.names:
                        self.find_module(alias.name)
                elif isinstance(statement, ast.ImportFrom):
                    self._read_imported(file, statement)

    def _read_imported(self, file: SourceFile, statement: ast.ImportFrom) -> None:
        for alias in statement.names:
            found = self.follow_import(file, Import(statement.module or "", alias.name, statement.level))
            if found is None and statement.level and not self._is_optional(statement):
                module = "." * statement.level + (statement.module or alias.name)
                raise ConfigError(
                    f"{show_path(file.path)}:{statement.lineno} imports {module!r}, which has no file beside it; add "
                    "the file, or correct the import"
                )

    def _is_optional(self, node: ast.AST) -> bool:
        """Whether a statement stands in `try` or `if`, so that the program may work without it."""
        while (node := self.parents.get(node)) is not None:  # type: ignore[assignment]
            if isinstance(node, ast.Try | ast.If):
                return True
        return False

    def _index(self, file: SourceFile) -> None:
        """Note the parent of every node, and the calls by the name of what they call."""
        pending: list[tuple[ast.AST, Surroundings]] = [(file.tree, file.top)]
        imports = [node for node in file.nodes if isinstance(node, ast.ImportFrom)]
        other_names = {alias.asname: alias.name for node in imports for alias in node.names if alias.asname}
        self.shared.update(alias.name for node in imports for alias in node.names)
        while pending:
            node, at = pending.pop()
            if isinstance(node, ast.If) and at is file.top and is_main_guard(node):
                continue
            inner = self.enter(node, at) if isinstance(node, SCOPES) else at
            for child in list_children(node):
                self.parents[child] = node
                pending.append((child, inner))
            if isinstance(node, INDEXED):
                self._index_definition(Traced(node, at))
                self._index_replaced(node, at)
            if isinstance(node, NAMED) and isinstance(node.ctx, ast.Load):
                self.loaded.add(get_last_name(node))
                parent = self.parents.get(node)
                if not is_only_read(node, self.parents):
                    self.shared.add(get_last_name(node))
                is_base = isinstance(parent, ast.ClassDef) and node in parent.bases
                if not is_base and not (isinstance(parent, ast.Call) and parent.func is node):
                    name = other_names.get(get_last_name(node), get_last_name(node))
                    self.handed.setdefault(name, []).append(Traced(parent, at))
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name) and node.func.id in other_names:
                    node.func.imported_as = other_names[node.func.id]  # type: ignore[attr-defined]
                self.calls.setdefault(get_last_name(node.func), []).append(Traced(node, at))
                self.passed_texts.update(part.value for part in node.args if is_text(part))

    def _index_definition(self, found: Traced) -> None:
        """Note a class, what is decorated, and what a function adds to a collection outside it."""
        node, at = found.node, found.at
        if isinstance(node, ast.ClassDef):
            self.classes.append(found)
        for decorator in getattr(node, "decorator_list", ()):
            name = get_last_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
            self.decorated.setdefault(name, []).append((found, decorator))
        self.changing += [Traced(target, at) for target in list_changed(node)]
        for target, value in list_assignments(node):
            if isinstance(target, ast.Attribute):
                self.added.append((Traced(target.value, at), Traced(value, at)))
        for target, value in list_additions(node):
            self.added.append((Traced(target, at), Traced(value, at)))
            if not isinstance(at.owner, Function):
                continue
            if isinstance(target, ast.Name) and target.id not in at.names.bound:
                self.additions.setdefault(target.id, []).append(Traced(value, at))
            elif isinstance(target, ast.Attribute):
                self.registered.setdefault(target.attr, []).append((target.value, Traced(value, at)))

    def _index_replaced(self, node: ast.AST, at: Surroundings) -> None:
        """Note a name or an attribute whose value is replaced elsewhere than where it is bound."""
        if isinstance(node, ast.Global | ast.Nonlocal):
            self.rebound.update(node.names)
            assigned = (pair for part in ast.walk(at.owner) for pair in list_assignments(part))
            named = ((get_last_name(target), value) for target, value in assigned)
            for name, value in ((name, value) for name, value in named if name in node.names):
                self.reassigned.setdefault(name, []).append(Traced(value, at))
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            method, parent = find_method(at), self.parents[node]
            if node.attr in ("description", "__doc__") and isinstance(parent, ast.Assign | ast.AugAssign):
                self.described.append((Traced(node.value, at), Traced(parent.value, at)))
            me = [] if method is None or is_classmethod(method.owner) else list_positional(method.owner)[:1]
            is_listed = isinstance(parent, ast.Tuple) and isinstance(
                getattr(self.parents[parent], "value", 0), ast.Tuple
            )
            parent = self.parents[parent] if is_listed else parent  # as in `self.name, self.text = name, text`
            is_own = isinstance(node.value, ast.Name) and node.value.id in me
            if not is_own or not isinstance(parent, ast.Assign | ast.AnnAssign | ast.AugAssign):
                self.replaced.add(node.attr)
        elif isinstance(node, ast.Call) and get_last_name(node.func) in ("setattr", "__setattr__"):
            self.added += [(Traced(node.args[0], at), Traced(part, at)) for part in node.args[2:]]
            self.replaced.update(part.value if is_text(part) else None for part in node.args[-2:-1])
        elif isinstance(node, ast.Subscript) and is_namespace(node.value) and is_text(node.slice):
            self.shared.add(node.slice.value)
        for target in [*list_changed(node), *([node.value] if isinstance(node, ast.Assign) else [])]:
            if is_namespace(target):
                is_of_module = get_last_name(getattr(target, "func", None)) == "globals"
                (self.rebound if is_of_module else self.replaced).add(None)

    def find_surroundings(self, node: Any, top: Surroundings) -> Surroundings:
        """Find the surroundings of a node of a file."""
        around = self.parents.get(node)
        if around is None:
            return top
        at = self.find_surroundings(around, top)
        return self.enter(around, at) if isinstance(around, Function | ast.ClassDef) else at

    def enter(self, owner: Any, at: Surroundings) -> Surroundings:
        """Return the surroundings inside a class or function."""
        key = (owner, at)
        if key not in self.inner:
            self.inner[key] = Surroundings(at.file, owner, at)
        return self.inner[key]

    def find_module(self, name: str, root: Path | None = None) -> SourceFile | None:
        """Find a module of the program by its name; None if it belongs to others."""
        key = (name, str(root or ""))
        if key not in self.found:
            self.found[key] = None
            parts = name.split(".")
            for folder in [root] if root else self.roots:
                path = find_module_file(folder, parts)
                if path is not None and not set(FOREIGN) & set(path.parts):
                    self.found[key] = self.read_file(path, name)
                    break
        return self.found[key]

    def follow_import(self, file: SourceFile, bound: Import) -> Followed | None:
        """Find what an import binds: a file of the program, or a name in one; None if it belongs to others."""
        if bound.level:
            folder = file.path.parent
            for _ in range(bound.level - 1):
                folder = folder.parent
            module = self.find_module(bound.module, folder) if bound.module else self._read_package(folder)
            below = folder.joinpath(*bound.module.split("."))
        else:
            module = self.find_module(bound.module)
            below = module.path.parent if module else Path()
        if module is not None and (not bound.name or bound.name == "*" or bound.name in module.top.names.bound):
            return Followed(module, bound.name)
        if module is not None and module.path.name != "__init__.py":
            return Followed(module, bound.name)
        if bound.level or module is not None:
            sub = self.find_module(bound.name, below)
        else:
            sub = self.find_module(f"{bound.module}.{bound.name}") if bound.name else None
        if sub is not None:
            return Followed(sub, "")
        return Followed(module, bound.name) if module else None

    def _read_package(self, folder: Path) -> SourceFile | None:
        path = folder / "__init__.py"
        return self.read_file(path, folder.name) if path.is_file() else None


def find_module_file(folder: Path, parts: Sequence[str]) -> Path | None:
    """Find the file of a module below a folder."""
    if not all(parts):
        return None
    path = folder.joinpath(*parts)
    for file in (path / "__init__.py", path.with_suffix(".py") if path.name else path):
        if file.is_file():
            return file
    return None
