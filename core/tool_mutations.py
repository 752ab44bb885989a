"""Single changes of a tool's source: an operator, a bound or a number becomes another one."""

import ast
import copy
from collections.abc import Iterator

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
_OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add, ast.FloorDiv),
    ast.FloorDiv: (ast.Mult, ast.Mod),
    ast.Mod: (ast.FloorDiv,),
}
_STEPS = (-10, -1, 1, 10)
_NAMES = {"min": "max", "max": "min"}


def list_mutations(source: str) -> tuple[str, ...]:
    """All sources that differ from a tool's in one place; each change can be undone by another one.

    Raises:
        SyntaxError, RecursionError, ...: as `ast.parse`; a source that `check_tool_source` accepts raises nothing.
    """
    tree = ast.parse(source)
    places = sum(1 for _ in ast.walk(tree))
    found = []
    for place in range(places):
        for number in range(len(_list_changes(_find(tree, place)))):
            changed = copy.deepcopy(tree)
            node = _find(changed, place)
            field, value = _list_changes(node)[number]
            setattr(node, field, value)
            found.append(ast.unparse(ast.fix_missing_locations(changed)) + "\n")
    return tuple(dict.fromkeys(one for one in found if one != ast.unparse(tree) + "\n"))


def _find(tree: ast.AST, place: int) -> ast.AST:
    return next(node for number, node in enumerate(ast.walk(tree)) if number == place)


def _list_changes(node: ast.AST) -> list[tuple[str, object]]:
    return list(_changes(node))


def _changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    match node:
        case ast.Compare(ops=[operator]):
            for other in _COMPARISONS.get(type(operator), ()):
                yield "ops", [other()]
        case ast.BinOp(op=used) | ast.AugAssign(op=used):
            for instead in _OPERATORS.get(type(used), ()):
                yield "op", instead()
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            for step in _STEPS:
                if number + step >= 0:
                    yield "value", number + step
        case ast.Name(id=name) if name in _NAMES:
            yield "id", _NAMES[name]
