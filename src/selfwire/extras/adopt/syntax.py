"""Pieces of Python source: what a statement or an expression says by itself, without the program around it."""

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeGuard

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
LISTS = ("sorted", "list", "tuple", "set", "frozenset", "reversed", "iter", "chain", "deque", "cycle")
"""Functions that make a collection of another."""
READERS = (*LISTS, "enumerate", "zip", "len", "bind_tools", "ToolNode")
"""Functions that leave a collection that they are given as it is."""
CUTTING = ("split", "rsplit", "splitlines", "partition", "rpartition")
"""Methods that cut a text into parts."""
NAMED = (ast.Name, ast.Attribute)
"""Expressions that read or set a name."""
LEAVES = ("ctx", "op")
"""Parts of a node that stand in no file as nodes of their own."""
BLOCKS = ("body", "orelse", "finalbody")
LEAVING = (ast.Continue, ast.Break, ast.Return, ast.Raise)
"""Statements behind which the code of the same block is not run."""
VIEWS = {"items": 0, "keys": 0, "values": 1}
"""Views of a dict, and the part of each pair that they show; `items` shows both."""
REMOVING = ("update", "pop", "popitem", "clear", "remove", "__setitem__", "__delitem__")
"""Methods by which items of a collection are replaced or removed."""


def is_true(node: Any) -> bool:
    """Whether a value is known to be true: a constant, or a collection that has an element."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return any(not isinstance(part, ast.Starred) for part in node.elts)
    if isinstance(node, ast.Dict):
        return any(part is not None for part in node.keys)
    return isinstance(node, ast.Constant) and bool(node.value)


def negate(test: ast.expr) -> ast.expr:
    """Make the test that holds where another does not."""
    return ast.UnaryOp(ast.Not(), test)


def is_main_guard(node: ast.If) -> bool:
    """Whether a statement is `if __name__ == "__main__"`."""
    names = {part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)}
    return "__name__" in names and isinstance(node.test, ast.Compare)


def is_path(node: Any) -> bool:
    """Whether an expression is `Path` of a constant."""
    return (
        isinstance(node, ast.Call)
        and get_last_name(node.func) == "Path"
        and len(node.args) == 1
        and is_text(node.args[0])
    )


def make_default(factory: ast.expr) -> ast.Dict:
    """Make the dict that has what a function makes under any key."""
    return ast.Dict([ast.Name("any key", ast.Load())], [ast.Call(factory, [], [])])


def pick_argument(
    function: Function, name: str, positional: Sequence[ast.expr], keywords: Sequence[ast.keyword], *, skip_first: bool
) -> ast.expr | None:
    """Find the expression that a call passes for an argument; None if it passes none."""
    for keyword in keywords:
        if keyword.arg == name:
            return keyword.value
    named = list_positional(function)[1 if skip_first else 0 :]
    if name in named and named.index(name) < len(positional):
        found = positional[named.index(name)]
        return None if isinstance(found, ast.Starred) else found
    return None


def is_complete(call: ast.Call) -> bool:
    """Whether a call shows all arguments that it passes."""
    return not any(isinstance(part, ast.Starred) for part in call.args) and all(part.arg for part in call.keywords)


def get_default(call: ast.Call) -> ast.expr | None:
    """The default, or the function that makes it, in a call of `field` or `Field`."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    return named.get("default") or named.get("default_factory") or (call.args[0] if call.args else None)


def get_docstring(owner: Any) -> ast.Constant | None:
    """The constant that is the docstring of a function or class."""
    first = owner.body[0] if owner.body else None
    if isinstance(first, ast.Expr) and is_text(first.value):
        return first.value
    return None


def take_apart(node: ast.expr, parts: dict[str, ast.expr]) -> ast.expr:
    """Copy a text that is put together, with names for what is no literal; `parts` gets what the names stand for."""
    if isinstance(node, ast.Constant):
        return node
    made: ast.expr
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        made = ast.BinOp(take_apart(node.left, parts), node.op, take_apart(node.right, parts))
    elif isinstance(node, ast.JoinedStr):
        made = ast.JoinedStr([take_apart(part, parts) for part in node.values])
    elif isinstance(node, ast.FormattedValue):
        made = ast.FormattedValue(take_apart(node.value, parts), node.conversion, node.format_spec)
    elif isinstance(node, ast.Starred):
        made = ast.Starred(take_apart(node.value, parts), ast.Load())
    elif isinstance(node, ast.Tuple | ast.List):
        made = ast.List([take_apart(part, parts) for part in node.elts], ast.Load())
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and hasattr(str, node.func.attr):
        func = ast.copy_location(ast.Attribute(take_apart(node.func.value, parts), node.func.attr, ast.Load()), node)
        named = [ast.keyword(part.arg, take_apart(part.value, parts)) for part in node.keywords]
        made = ast.Call(func, [take_apart(part, parts) for part in node.args], named)
    else:
        made = ast.Name(ast.unparse(node), ast.Load())
        parts[made.id] = node
    return ast.copy_location(made, node)


def list_assignments(statement: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Find the targets and values of an assignment."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            parts = target.elts if isinstance(target, ast.Tuple | ast.List) else ()
            values = statement.value.elts if isinstance(statement.value, ast.Tuple | ast.List) else ()
            yield from (
                zip(parts, values, strict=True) if parts and len(parts) == len(values) else [(target, statement.value)]
            )
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target, statement.value


def read_key(node: ast.expr) -> Any:
    """The constant key or index in a subscript, from the end too; None if it is computed."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = read_key(node.operand)
        return -inner if isinstance(inner, int) else None
    return node.value if isinstance(node, ast.Constant) else None


def get_last_name(node: Any) -> str:
    """The last identifier of a name with dots; "" for another expression.

    What is called by the name of an import, `import f as g`, has its own name, `f`.
    """
    return str(getattr(node, "imported_as", getattr(node, "attr", getattr(node, "id", ""))))


class TextConstant(ast.Constant):
    """A constant whose value is a text; `ast` makes none, type checkers see it after `is_text`."""

    value: str


def is_text(node: Any) -> TypeGuard[TextConstant]:
    """Whether an expression is a constant text."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_none(node: Any) -> bool:
    """Whether an expression is None."""
    return isinstance(node, ast.Constant) and node.value is None


def list_items(node: ast.Dict) -> list[tuple[str, ast.expr]]:
    """The items of a literal dict whose keys are constant texts."""
    return [(key.value, value) for key, value in zip(node.keys, node.values, strict=True) if is_text(key)]


def get_keywords(call: ast.Call) -> dict[str, ast.expr]:
    """The keyword arguments of a call by name."""
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}


def get_argument(call: ast.Call, place: int, *names: str) -> ast.expr | None:
    """Get what a call passes by one of some names, else at a place; None if it passes neither."""
    named = get_keywords(call)
    given = [*(named[name] for name in names if name in named), *call.args[place : place + 1]]
    return given[0] if given else None


def is_field(statement: ast.stmt) -> bool:
    """Whether a statement of a class is a field with a type."""
    return isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)


def read_own_assignments(owner: ast.ClassDef) -> dict[str, list[tuple[Any, ast.expr]]]:
    """Read what the methods of a class assign or add to attributes of `self`: methods and values by attribute."""
    found: dict[str, list[tuple[Any, ast.expr]]] = {}
    for method in owner.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            me, parts = {*list_positional(method)[:1]}, [*ast.walk(method)]
            if method.name == "__new__":  # the object is what it returns, and what that stands for
                me |= {ast.unparse(part.value) for part in parts if isinstance(part, ast.Return) and part.value}
                for part in (part for part in parts if isinstance(part, ast.Assign)):
                    same = [each for each in (*part.targets, part.value) if isinstance(each, ast.Name | ast.Attribute)]
                    names = {ast.unparse(each) for each in same}
                    me |= names if names & me else set()
            for statement in parts:
                for target, value in [*list_assignments(statement), *list_additions(statement)]:
                    if isinstance(target, ast.Attribute) and ast.unparse(target.value) in me:
                        found.setdefault(target.attr, []).append((method, value))
    return found


def get_line_offset(text: str, line: int) -> int:
    """Get the offset of a line, from 1; only a line feed ends a line, as in Python's parser."""
    return sum(len(before) + 1 for before in text.split("\n")[: line - 1])


def list_additions(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Find the collections that a statement or a call adds to, and what it adds, as a collection."""
    for target, value in _list_direct_additions(node):
        if isinstance(target, ast.Subscript):  # NOTES["walk"].append(text) adds to NOTES
            value, target = ast.Dict([target.slice], [value]), target.value
        yield target, value if hasattr(value, "lineno") else ast.copy_location(value, node)


def _list_direct_additions(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.AugAssign):
        yield node.target, node.value
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                yield target.value, ast.Dict([target.slice], [node.value])
    elif isinstance(node, ast.Call) and get_last_name(node.func) == "print":
        yield from ((part.value, ast.List(node.args, ast.Load())) for part in node.keywords if part.arg == "file")
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _list_put(node, node.func)


def _list_put(node: ast.Call, func: ast.Attribute) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Find the collection to which a method adds something, and what it adds."""
    if func.attr == "update" and node.keywords:
        keys: list[ast.expr | None] = [ast.Constant(part.arg) if part.arg else None for part in node.keywords]
        yield func.value, ast.Dict(keys, [part.value for part in node.keywords])
    if not node.args:
        return
    if func.attr in ("append", "appendleft", "insert", "add", "write"):
        yield func.value, ast.List([node.args[-1]], ast.Load())
    elif func.attr in ("extend", "update", "writelines", "add_documents", "add_texts"):
        yield func.value, node.args[-1]
    elif func.attr == "setdefault" and len(node.args) > 1:
        yield func.value, ast.Dict([node.args[0]], [node.args[1]])


def list_summands(node: ast.expr | None) -> list[ast.expr]:
    """List the parts of a text that is put together by `+` or in an f-string."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*list_summands(node.left), *list_summands(node.right)]
    return node.values if isinstance(node, ast.JoinedStr) else [node] if node is not None else []


def list_children(node: ast.AST) -> list[Any]:
    """List the nodes below a node, but for operators and for whether a name is read or set."""
    children = list[Any]()
    for name in node._fields:
        part = getattr(node, name, None)
        if isinstance(part, list):
            children += [inner for inner in part if isinstance(inner, ast.AST)] if name != "ops" else []
        elif isinstance(part, ast.AST) and name not in LEAVES:
            children.append(part)
    return children


def list_nodes(tree: ast.AST) -> list[Any]:
    """List a node and all below it, level by level, as `list_children`."""
    nodes = [tree]
    for node in nodes:  # it grows
        nodes += list_children(node)
    return nodes


def place_statements(node: ast.AST) -> dict[ast.stmt, tuple[list[ast.If], int]]:
    """Map the statements in the blocks of another to those in the block that may leave it, and how many stand before.

    A statement that may leave its block is an `if` that ends with `return`, `raise`, `break` or `continue`.
    """
    places = dict[ast.stmt, tuple[list[ast.If], int]]()
    for block in (getattr(node, name, None) for name in BLOCKS):
        leaving = list[ast.If]()
        for statement in block if isinstance(block, list) else ():
            places[statement] = (leaving, len(leaving))
            if isinstance(statement, ast.If) and isinstance(statement.body[-1], LEAVING):
                leaving.append(statement)
    return places


def list_changed(node: ast.AST) -> Iterator[ast.expr]:
    """Find the collections whose items a statement or a call adds, replaces or removes."""
    yield from (target for target, _ in list_additions(node))
    if isinstance(node, ast.Delete):
        yield from (target.value for target in node.targets if isinstance(target, ast.Subscript))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in REMOVING:
        yield node.func.value
    elif isinstance(node, ast.Call) and get_last_name(node.func) == "update":
        yield from node.args[:1]


def is_only_read(node: ast.expr, parents: dict[Any, Any]) -> bool:
    """Whether what reads a collection leaves it as it is: a loop, directly or through a call or a view, or a test."""
    parent = parents.get(node)
    if isinstance(parent, ast.Attribute) and parent.attr in VIEWS:
        return isinstance(parents.get(parent), ast.Call) and is_only_read(parents[parent], parents)
    if isinstance(parent, ast.Call):
        return node in parent.args and get_last_name(parent.func) in READERS
    if isinstance(parent, ast.If | ast.IfExp | ast.While) and parent.test is node:
        return True
    return isinstance(parent, ast.For | ast.AsyncFor | ast.comprehension) and parent.iter is node


def is_namespace(node: Any) -> bool:
    """Whether an expression is the dict of the names of an object, a class or a module."""
    name = get_last_name(node.func) if isinstance(node, ast.Call) else ""
    return name in ("globals", "vars") or (isinstance(node, ast.Attribute) and node.attr == "__dict__")


def is_lacking(test: ast.expr, name: str) -> bool:
    """Whether a test is that a name has nothing: `not name`, `name is None`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return getattr(test.operand, "id", "") == name
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Is | ast.Eq):
        return False
    return getattr(test.left, "id", "") == name and is_none(test.comparators[0])


def is_super(node: Any) -> bool:
    """Whether an expression is `super()`."""
    return isinstance(node, ast.Call) and get_last_name(node.func) == "super"


def is_super_method(node: Any) -> bool:
    """Whether an expression is a call of a method of `super()`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_super(node.func.value)


def list_positional(function: Function) -> list[str]:
    """The names of a function's parameters before `*`; a method whose `self` is in `*args` may have none."""
    return [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]


def list_parameters(function: Function) -> list[str]:
    """The names of a function's parameters."""
    return [*list_positional(function), *(argument.arg for argument in function.args.kwonlyargs)]


def list_decorators(function: Any) -> list[str]:
    """The last names of a function's decorators."""
    found = getattr(function, "decorator_list", ())
    return [get_last_name(item.func if isinstance(item, ast.Call) else item) for item in found]


def is_static(function: Any) -> bool:
    """Whether a method has no `self`."""
    return "staticmethod" in list_decorators(function)


def is_classmethod(function: Any) -> bool:
    """Whether a method belongs to its class."""
    return getattr(function, "name", "") == "__init_subclass__" or "classmethod" in list_decorators(function)


def is_property(function: Any) -> bool:
    """Whether a method is read as an attribute."""
    return bool({"property", "cached_property"} & set(list_decorators(function)))


def is_partialmethod(node: Any) -> bool:
    """Whether an expression is `partialmethod(function, ...)`."""
    return isinstance(node, ast.Call) and get_last_name(node.func) == "partialmethod" and bool(node.args)


def is_wrapped(function: Any) -> bool:
    """Whether a decorator makes something else of a function, such as a tool."""
    return bool({"tool", "entrypoint", "contextmanager", "asynccontextmanager"} & set(list_decorators(function)))


def parse_expression(text: str) -> ast.expr | None:
    """Parse the text of an expression; None if it is none."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError):
        return None


def show_path(path: Path) -> str:
    """Format a path: relative to the working directory if it lies there."""
    return _show_path(path, Path.cwd())


@lru_cache
def _show_path(path: Path, here: Path) -> str:
    try:
        return path.resolve().relative_to(here.resolve()).as_posix()
    except ValueError:
        return path.as_posix()
