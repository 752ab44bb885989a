"""Names of a program: what each is bound to in its file, function or class.

It gets parsed files, and hands values with the surroundings in which their names are looked up to `source`.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.extras.adopt.syntax import Function, get_docstring, is_main_guard, list_additions, list_positional


class Outside(NamedTuple):
    """A name of another package, of the standard library or of Python, with dots."""

    name: str


class Element(NamedTuple):
    """A value taken from another, by a loop or by unpacking.

    Attributes:
        source: the loop's iterable, or the value that is unpacked.
        path: indices into the elements.
        loop: whether `source` is iterated over.
    """

    source: ast.expr
    path: tuple[int, ...]
    loop: bool


class Argument(NamedTuple):
    """A parameter of a function, whose value its callers know."""

    function: Function
    name: str
    annotation: ast.expr | None
    default: ast.expr | None


class BoundMethod(NamedTuple):
    """A method with the class or the object that it is called on."""

    function: ast.FunctionDef | ast.AsyncFunctionDef
    owner: "Traced"


class Instance(NamedTuple):
    """An object of a class of the program; `call` makes it, if the source shows it."""

    of: ast.ClassDef
    call: ast.Call | None
    made_in: "Surroundings | None" = None


class Imported(NamedTuple):
    """A file of the program that was imported as a module."""

    file: "SourceFile"


class Followed(NamedTuple):
    """A file of the program that an import reaches, and the name in it; "" for the file itself."""

    file: "SourceFile"
    name: str


class Import(NamedTuple):
    """A name bound by an import statement: the module's name, the name in it, and the level of a relative import."""

    module: str
    name: str
    level: int


class Traced(NamedTuple):
    """An expression, or what stands for one, with its surroundings.

    Attributes:
        node: an expression, a definition, or one of the tuples above.
        at: where its names are looked up.
        call: the call that passed it as an argument, if it was.
    """

    node: Any
    at: "Surroundings"
    call: ast.AST | None = None

    @property
    def function(self) -> Any:
        """The function of a method; any other expression itself."""
        return self.node.function if isinstance(self.node, BoundMethod) else self.node


class BoundNames(ast.NodeVisitor):
    """The names that a module, class or function binds, its return values and what is added to its lists.

    Attributes:
        bound: what each name is bound to.
        added: lists, dicts and texts that are added to what a name is bound to.
        returned: the return values; of a generator, what it yields, as a list.
        annotated: types by name.
        stars: imports of all names of a module that stand in a branch, beside which others may bind a name.
        loops: the loops that are statements of the owner itself.
    """

    def __init__(self, owner: Any) -> None:
        self.bound: dict[str, list[Any]] = {}
        self.added: dict[str, list[ast.expr]] = {}
        self.returned: list[ast.expr] = []
        self.yielded: list[ast.expr] = []
        self.annotated: dict[str, ast.expr] = {}
        self.stars: list[Import] = []
        body = [] if isinstance(owner, ast.Lambda) else owner.body
        self.loops = [statement for statement in body if isinstance(statement, ast.For)]
        if isinstance(owner, Function):
            self._add_arguments(owner)
        elif isinstance(owner, ast.Module) and (doc := get_docstring(owner)) is not None:
            self._bind("__doc__", doc)
        if isinstance(owner, ast.Lambda):
            self.returned.append(owner.body)
            self.visit(owner.body)
        else:
            for statement in body:
                self.visit(statement)
        if self.yielded:
            self.returned = [ast.copy_location(ast.List(self.yielded, ast.Load()), owner)]

    def _add_arguments(self, function: Function) -> None:
        given = function.args
        named = [*given.posonlyargs, *given.args]
        defaults: list[ast.expr | None] = [*[None] * (len(named) - len(given.defaults)), *given.defaults]
        pairs = [*zip(named, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
        for argument, default in pairs:
            self._bind(argument.arg, Argument(function, argument.arg, argument.annotation, default))
        for rest in filter(None, (given.vararg, given.kwarg)):
            self._bind(rest.arg, Argument(function, rest.arg, None, None))

    def _bind(self, name: str, value: Any) -> None:
        self.bound.setdefault(name, []).append(value)

    def _bind_target(self, target: ast.expr, value: ast.expr, path: tuple[int, ...] = (), loop: bool = False) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, Element(value, path, loop) if path or loop else value)
        elif isinstance(target, ast.Tuple | ast.List):
            starred = next((n for n, part in enumerate(target.elts) if isinstance(part, ast.Starred)), None)
            for index, part in enumerate(target.elts):
                if starred is None or index < starred or path or loop:
                    self._bind_target(part, value, (*path, index), loop)
                else:
                    self._bind_behind_star(part, value, index, index + 1 - len(target.elts))

    def _bind_behind_star(self, target: ast.expr, value: ast.expr, index: int, end: int) -> None:
        """Bind the rest, or an element behind it, of `first, *rest, last = value`; `end` counts from the last."""
        if isinstance(target, ast.Starred):
            part: ast.expr = ast.Slice(ast.Constant(index), ast.Constant(end) if end else None)
            target = target.value
        else:
            part = ast.Constant(end - 1)
        self._bind_target(target, ast.copy_location(ast.Subscript(value, part, ast.Load()), value))

    def _add(self, node: ast.AST) -> None:
        for target, value in list_additions(node):
            if isinstance(target, ast.Name):
                self.added.setdefault(target.id, []).append(value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        """Bind a function or a class; its body has names of its own."""
        self._bind(node.name, node)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # noqa: N815 - names of `ast`

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Leave a lambda out; its body has names of its own."""

    def visit_If(self, node: ast.If) -> None:
        """Look into both branches, but not into `if __name__ == "__main__"`."""
        if not is_main_guard(node):
            before = len(self.bound.get("*", ()))
            self.generic_visit(node)
            self.stars += self.bound.get("*", [])[before:]

    def visit_Import(self, node: ast.Import) -> None:
        """Bind modules."""
        for alias in node.names:
            first = alias.name.partition(".")[0]
            self._bind(alias.asname or first, Import(alias.name if alias.asname else first, "", 0))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Bind names of a module."""
        for alias in node.names:
            self._bind(alias.asname or alias.name, Import(node.module or "", alias.name, node.level))

    def visit_Assign(self, node: ast.Assign) -> None:
        """Bind the targets."""
        for target in node.targets:
            self._bind_target(target, node.value)
        self._add(node)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Bind the target, or note its type alone."""
        if isinstance(node.target, ast.Name):
            self.annotated[node.target.id] = node.annotation
        if node.value is not None:
            self._bind_target(node.target, node.value)
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Add what `+=` appends, and bind the target to what `%=` makes of it."""
        if isinstance(node.op, ast.Mod) and isinstance(node.target, ast.Name):
            filled = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
            self._bind(node.target.id, ast.copy_location(filled, node))
        else:
            self._add(node)
        self.visit(node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Bind the target of `:=`."""
        self._bind_target(node.target, node.value)
        self.visit(node.value)

    def visit_For(self, node: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        """Bind the variables of a loop or a comprehension."""
        self._bind_target(node.target, node.iter, loop=True)
        self.generic_visit(node)

    visit_AsyncFor = visit_comprehension = visit_For  # noqa: N815 - names of `ast`

    def visit_withitem(self, node: ast.withitem) -> None:
        """Bind the name after `as`."""
        if node.optional_vars is not None:
            self._bind_target(node.optional_vars, node.context_expr)
        self.visit(node.context_expr)

    def visit_ExceptHandler(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        """Note that a name stands for more than what binds it where it is the name of an error or in a pattern."""
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name is not None:
            self.added.setdefault(name, [])
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = visit_MatchMapping = visit_ExceptHandler  # noqa: N815 - names of `ast`

    def visit_Return(self, node: ast.Return) -> None:
        """Note a return value."""
        if node.value is not None:
            self.returned.append(node.value)
            self.visit(node.value)

    def visit_Yield(self, node: ast.Yield) -> None:
        """Note what a generator yields."""
        if node.value is not None:
            self.yielded.append(node.value)
            self.visit(node.value)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        """Note what a generator yields of another."""
        self.yielded.append(ast.copy_location(ast.Starred(node.value, ast.Load()), node.value))
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """Note what `append`, `insert`, `extend` and `update` add to a list or a dict."""
        self._add(node)
        self.generic_visit(node)


class MethodNames(ast.NodeVisitor):
    """Names that stand for a method, as `add` after `add = rules.append`; calls of one become calls of the method.

    Attributes:
        called: those that an assignment may bind and that are called.
        scopes: the module and the functions around what is visited, each with what its names are bound to.
    """

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        calls = (node.func for node in nodes if isinstance(node, ast.Call))
        names = {func.id for func in calls if isinstance(func, ast.Name)}
        self.replaced = {n.attr for n in nodes if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)}
        self.shared = {name for n in nodes if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
        self.called = {
            target.id
            for node in nodes
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute | ast.Tuple)
            for part in node.targets
            for target in (part.elts if isinstance(part, ast.Tuple) else [part])
            if isinstance(target, ast.Name) and target.id in names
        } - self.shared
        self.scopes: list[tuple[Any, dict[str, list[Any]]]] = []

    def generic_visit(self, node: ast.AST) -> None:
        """Visit all that a node has, inside the names of a module, class or function."""
        is_scope = isinstance(node, ast.Module | ast.ClassDef | Function)
        self.scopes += [(node, BoundNames(node).bound)] if is_scope else []
        super().generic_visit(node)
        del self.scopes[len(self.scopes) - is_scope :]

    def visit_Call(self, node: ast.Call) -> None:
        """Put the method in the place of its name."""
        if isinstance(node.func, ast.Name) and node.func.id in self.called:
            method = self._find_method(node.func.id)
            if method is not None:
                value = ast.copy_location(ast.Name(method.value.id, ast.Load()), node.func)  # type: ignore[attr-defined]
                node.func = ast.copy_location(ast.Attribute(value, method.attr, ast.Load()), node.func)
        self.generic_visit(node)

    def _find_method(self, name: str) -> ast.Attribute | None:
        """Find the method that a name is bound to, once, as is the object that has it."""
        depth, value = self._find_only(name, len(self.scopes))
        if isinstance(value, Element) and isinstance(value.source, ast.Tuple) and not value.loop:
            value = dict(enumerate(value.source.elts)).get(value.path[0])
        if not isinstance(value, ast.Attribute) or not isinstance(value.value, ast.Name) or value.attr in self.replaced:
            return None
        owners = {self._find_only(value.value.id, seen)[0] for seen in (depth + 1, len(self.scopes))}
        return value if len(owners) == 1 and min(owners) >= 0 else None

    def _find_only(self, name: str, depth: int) -> tuple[int, Any]:
        """Find the scope that binds a name, of those down to a depth, and its only value; -1 if there is none."""
        for number in reversed(range(depth)):
            owner, bound = self.scopes[number]
            if name in bound and (number == len(self.scopes) - 1 or not isinstance(owner, ast.ClassDef)):
                is_sure = len(bound[name]) == 1 and name not in self.shared
                return (number, bound[name][0]) if is_sure else (-1, None)
        return -1, None


@dataclass(eq=False)
class SourceFile:
    """A file of the program.

    Attributes:
        name: of the module, with dots; the stem alone for a file outside packages.
        tree: the parsed source.
        nodes: all nodes of the tree.
        keys: numbers of surroundings, shared by all files of a program.
    """

    path: Path
    name: str
    text: str
    tree: ast.Module
    nodes: Sequence[ast.AST]
    keys: dict[Any, int]
    names: dict[Any, BoundNames] = field(default_factory=dict)

    @cached_property
    def top(self) -> "Surroundings":
        """The surroundings of the module's statements."""
        return Surroundings(self, self.tree, None)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the source, as Python's parser counts them."""
        return self.text.split("\n")

    def read_names(self, owner: Any) -> BoundNames:
        """Collect the names that a module, class or function of this file binds."""
        if owner not in self.names:
            self.names[owner] = BoundNames(owner)
        return self.names[owner]


@dataclass(eq=False)
class Surroundings:
    """A module, class or function in which names are looked up, inside others.

    Attributes:
        given: arguments by name, where a certain call is followed.
    """

    file: SourceFile
    owner: Any
    outer: "Surroundings | None"
    given: dict[str, list[Traced]] = field(default_factory=dict)

    @property
    def names(self) -> BoundNames:
        """The names that are bound here."""
        return self.file.read_names(self.owner)

    @cached_property
    def key(self) -> int:
        """A number for the owner and the arguments given here and around; equal surroundings have the same."""
        given = tuple((name, *((value.node, value.at.key) for value in values)) for name, values in self.given.items())
        whole = (self.owner, given, self.outer.key if self.outer else -1)
        return self.file.keys.setdefault(whole, len(self.file.keys))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Surroundings) and self.key == other.key

    def __hash__(self) -> int:
        return self.key

    @cached_property
    def depth(self) -> int:
        """How many calls inside calls the given arguments come from."""
        given = [value for values in self.given.values() for value in values]
        makers = [value.node.made_in for value in given if isinstance(value.node, Instance)]
        inside = [at.depth for at in (*(value.at for value in given), *makers) if at is not None]
        return max([self.outer.depth if self.outer else 0, *(depth + 1 for depth in inside)])


def make_tuple(parts: Sequence[Traced]) -> ast.Tuple:
    """Make a tuple of values."""
    return ast.Tuple([part.node for part in parts], ast.Load())


def make_pair(parts: tuple[Any, ...]) -> Traced:
    """Make a tuple of what a loop takes at once, such as an item of a dict; a part may be such a tuple itself."""
    made = [part if isinstance(part, Traced) else make_pair(part) for part in parts]
    return Traced(make_tuple(made), made[-1].at)


def list_defaults(names: BoundNames, at: Surroundings) -> dict[str, list[Traced]]:
    """List the defaults of a function's arguments."""
    found = [values[0] for values in names.bound.values() if isinstance(values[0], Argument)]
    return {part.name: [Traced(part.default, at)] for part in found if part.default is not None}


def list_carried(loop: ast.For, at: Surroundings) -> list[tuple[str, ast.Assign]]:
    """List the names that a loop assigns anew and that were assigned before it, such as `previous = node`."""
    return [
        (statement.targets[0].id, statement)
        for statement in loop.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and len(at.names.bound.get(statement.targets[0].id, ())) > 1
    ]


def list_outer(at: Surroundings | None) -> Iterator[Surroundings]:
    """List the surroundings of a function, a class or a file, and those around them."""
    while at is not None:
        yield at
        at = at.outer


def find_method(at: Surroundings) -> Surroundings | None:
    """Find the surroundings inside the method in which code stands; None outside methods."""
    inside = (here for here in list_outer(at) if here.outer and isinstance(here.outer.owner, ast.ClassDef))
    found = next(inside, None)
    return found if found is not None and isinstance(found.owner, Function) else None


def give_first(function: Function, value: Traced) -> dict[str, list[Traced]]:
    """The value of a function's first parameter by its name; empty if the function has none."""
    return {name: [value] for name in list_positional(function)[:1]}


def is_first_argument(argument: Argument) -> bool:
    """Whether an argument is the first of its function."""
    return list_positional(argument.function)[:1] == [argument.name]
