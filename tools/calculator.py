"""Arithmetic on expressions, which are parsed and never executed; numbers are bounded."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ToolError
from selfwire.core.scope import Scope
from selfwire.tools.search import get_text, make_text_schema

Number = int | float

LONGEST = 200
"""Most characters of an expression."""

LARGEST = 10**15
"""Largest absolute value of any intermediate number."""

DIGITS = 15
"""Most places for `round`, before or after the point: more would build numbers of that many digits."""

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}

_SYNTAX = "numbers without units or thousands separators, + - * / // % **, brackets, abs, round, min, max, sqrt"


def _round(value: Number, digits: Number = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > DIGITS:
        raise ToolError(f"round takes a whole number of digits from -{DIGITS} to {DIGITS}, not {digits}")
    return round(value, digits) if digits else round(value)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "round": _round,
    "min": lambda *values: min(values),
    "max": lambda *values: max(values),
    "sqrt": math.sqrt,
}


class CalculatorTool:
    """A tool that evaluates + - * / // % ** with brackets, and abs, round, min, max, sqrt."""

    spec = ToolSpec(
        name="calculator",
        description="Evaluate an arithmetic expression such as (3 + 4) * 2; knows abs, round, min, max, sqrt.",
        parameters=make_text_schema("expression", "The expression."),
    )

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Return the value as text; ToolError if it is too large, or the expression is missing, too long or invalid."""
        return str(calculate(get_text(arguments, "expression", "calculator")))


def calculate(expression: str) -> Number:
    """Evaluate an expression; raises ToolError as `CalculatorTool.run` does."""
    if len(expression) > LONGEST:
        raise ToolError(f"the expression has {len(expression)} characters; at most {LONGEST} are read")
    try:
        return _evaluate(ast.parse(expression.strip(), mode="eval").body)
    except SyntaxError as error:
        raise ToolError(f"{expression!r} cannot be read: {error.msg}; use {_SYNTAX}") from None
    except (ValueError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ToolError(f"{expression!r} cannot be calculated: {error}") from None


def _evaluate(node: ast.expr) -> Number:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _check_bounds(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        operand = _evaluate(node.operand)
        return -operand if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _evaluate(node.left), _evaluate(node.right)
        if isinstance(node.op, ast.Pow) and abs(left) > 1 and right * math.log10(abs(left)) > math.log10(LARGEST):
            raise ToolError(f"{left} ** {right} is too large; values stay below {LARGEST:.0e}")
        return _check_bounds(_BINARY[type(node.op)](left, right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        if node.keywords:
            raise ToolError(f"{node.func.id} takes plain arguments only")
        return _check_bounds(_FUNCTIONS[node.func.id](*map(_evaluate, node.args)))
    raise ToolError(f"{ast.unparse(node)!r} is not arithmetic; use {_SYNTAX}")


def _check_bounds(value: Any) -> Number:
    if not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ToolError(f"a value on the way is not a real number below {LARGEST:.0e}")
    return value
