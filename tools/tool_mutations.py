"""Small mutations of a tool's source: an operator, a bound or a number is replaced by another."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

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


class SourceMutation(NamedTuple):
    """A changed field of a node in the tree of a source; the new source is built on demand."""

    tree: ast.Module
    node: ast.AST
    field: str
    value: object

    def make_source(self) -> str:
        """Write the whole source with this change."""
        before = getattr(self.node, self.field)
        setattr(self.node, self.field, self.value)
        try:
            return ast.unparse(self.tree) + "\n"
        finally:
            setattr(self.node, self.field, before)


def find_mutations(source: str) -> tuple[SourceMutation, ...]:
    """Find all changes of a tool's source in a single place; each can be undone by another change.

    Raises:
        SyntaxError, RecursionError, ...: as `ast.parse`; a source that `check_tool_source` accepts raises nothing.
    """
    tree = ast.parse(source)
    return tuple(SourceMutation(tree, node, *change) for node in ast.walk(tree) for change in _list_changes(node))


def list_mutations(source: str) -> tuple[str, ...]:
    """List all sources that differ from a tool's source in a single place; raises as `find_mutations` does."""
    return tuple(mutation.make_source() for mutation in find_mutations(source))


def _list_changes(node: ast.AST) -> Iterator[tuple[str, object]]:
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
