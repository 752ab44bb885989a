"""Calls of operations as text: formatting, and parsing without evaluation."""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass

from selfwire.core.errors import ToolError
from selfwire.tools.workbench.operations import OPERATIONS
from selfwire.tools.workbench.tables import Tables

LONGEST = 10_000
"""Most characters of a call."""


@dataclass(frozen=True)
class OperationCall:
    """An operation with its arguments."""

    name: str
    arguments: Mapping[str, str]

    def __str__(self) -> str:
        """Format the call as `parse_call` reads it."""
        arguments = ", ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in self.arguments.items()
        )
        return f"{self.name}({arguments})"

    def run(self, tables: Tables) -> str:
        """Run the call; see `Operation.run`."""
        return OPERATIONS[self.name].run(tables, self.arguments)


def make_call(name: str, arguments: Mapping[str, object]) -> OperationCall:
    """Make a call, with arguments as texts in the order of the parameters; empty arguments are left out.

    Raises:
        ToolError: there is no such operation or parameter, or an argument is neither text nor number.
    """
    if name not in OPERATIONS:
        raise ToolError(f"there is no operation {name!r}")
    known = OPERATIONS[name].parameters
    for parameter, value in arguments.items():
        if parameter not in known:
            raise ToolError(f"{name} has no parameter {parameter!r}; it has {', '.join(known)}")
        if value is not None and (not isinstance(value, str | int) or isinstance(value, bool)):
            raise ToolError(f"{parameter} of {name} must be a text, not {value!r}")
    given = {parameter: str(arguments[parameter]) for parameter in known if arguments.get(parameter) not in (None, "")}
    return OperationCall(name, given)


def parse_call(text: str) -> OperationCall:
    """Parse a call such as `calendar.delete_event(event_id="00000256")`; the dot may be written as `_`.

    Raises:
        ToolError: the text is no call of a known operation with texts as arguments.
    """
    if len(text) > LONGEST:
        raise ToolError(f"a call has at most {LONGEST} characters, not {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ToolError(f"{text[:80]!r} is no call") from None
    if not isinstance(tree, ast.Call):
        raise ToolError(f"{text[:80]!r} is no call")
    name = _read_name(tree.func)
    parameters = list(OPERATIONS[name].parameters) if name in OPERATIONS else []
    if len(tree.args) > len(parameters) or any(word.arg is None for word in tree.keywords):
        raise ToolError(f"{text[:80]!r} is no call of a known operation with its parameters")
    given = {**dict(zip(parameters, tree.args, strict=False)), **{str(word.arg): word.value for word in tree.keywords}}
    return make_call(name, {parameter: _read_constant(node, text) for parameter, node in given.items()})


def _read_name(node: ast.expr) -> str:
    """Join a dotted name by `_`, without the `.func` that WorkBench appends."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return "_".join(reversed(parts)).removesuffix("_func")


def _read_constant(node: ast.expr, text: str) -> object:
    if not isinstance(node, ast.Constant):
        raise ToolError(f"arguments are texts in quotes; there is another in {text[:80]!r}")
    return node.value
