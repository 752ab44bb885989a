"""The worker process for symbolic mathematics with sympy; run as a module, never imported.

Expressions are parsed by Python's parser and built from their parts, so that no text is ever evaluated. A request has
the fields of `AlgebraTool`; the reply is {"text"} or {"error"}.
"""

import ast
import operator
from collections.abc import Callable
from typing import Any

import sympy

from selfwire.tools.worker_loop import serve

LONGEST = 4000
"""Most characters of a result."""

_CONSTANTS = {"pi": sympy.pi, "E": sympy.E, "e": sympy.E, "I": sympy.I, "oo": sympy.oo, "inf": sympy.oo}
_FUNCTIONS = (
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sqrt"),
    *("exp", "log", "factorial", "binomial", "gamma", "erf", "floor", "ceiling", "sign", "gcd", "lcm", "isprime"),
    *("cbrt", "sec", "csc", "cot", "Min", "Max", "Mod", "totient"),
)
_CALLS = {
    **{name: getattr(sympy, name) for name in _FUNCTIONS},
    **{"ln": sympy.log, "abs": sympy.Abs, "Abs": sympy.Abs, "min": sympy.Min, "max": sympy.Max},
}
_OPERATORS: dict[type[ast.operator], Callable[[sympy.Expr, sympy.Expr], sympy.Expr]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul},
    **{ast.Div: operator.truediv, ast.Pow: operator.pow},
}


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """Compute the result of an operation as text."""
    try:
        text = str(_compute(request))
    except SyntaxError as error:
        return {"error": f"the expression cannot be read: {error.msg}"}
    except Exception as error:  # noqa: BLE001  # sympy raises many kinds, none of which must end the worker
        return {"error": f"it cannot be computed: {str(error)[:300] or type(error).__name__}"}
    return {"text": text if len(text) <= LONGEST else f"{text[:LONGEST]} [cut off]"}


def _compute(request: dict[str, Any]) -> object:
    operation, text = request["operation"], request["expression"]
    left, equals, right = text.replace("==", "=").partition("=")
    if equals and operation != "solve":
        raise ValueError(f"{operation} takes an expression, not an equation")
    expression = read(left) - read(right) if equals else read(left)
    match operation:
        case "simplify" | "expand" | "factor":
            return getattr(sympy, operation)(expression)
        case "evaluate":
            return expression.evalf(15) if isinstance(expression, sympy.Expr) else expression
        case "solve":
            return sympy.solve(expression, _find_variable(request, expression))
        case "differentiate":
            return sympy.diff(expression, _find_variable(request, expression))
        case "integrate":
            variable = _find_variable(request, expression)
            bounds = [read(request[name]) for name in ("lower", "upper") if request.get(name)]
            if len(bounds) == 1:
                raise ValueError("a definite integral needs both bounds")
            return sympy.integrate(expression, (variable, *bounds) if bounds else variable)
        case "limit":
            if not request.get("point"):
                raise ValueError("limit needs a point")
            return sympy.limit(expression, _find_variable(request, expression), read(request["point"]))
    raise ValueError(f"unknown operation {operation!r}")


def _find_variable(request: dict[str, Any], expression: sympy.Expr) -> sympy.Symbol:
    if name := request.get("variable"):
        if not name.isidentifier() or name in _CONSTANTS:
            raise ValueError(f"{name!r} is no variable")
        return sympy.Symbol(name)
    names = sorted(map(str, expression.free_symbols))
    if len(names) != 1:
        raise ValueError(f"name the variable; there are {', '.join(names) or 'none'}")
    return sympy.Symbol(names[0])


def read(text: str) -> sympy.Expr:
    """Parse an expression of sympy; ValueError or SyntaxError if the text is no expression."""
    return _build(ast.parse(text.strip().replace("^", "**"), mode="eval").body)


def _build(node: ast.expr) -> sympy.Expr:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return sympy.Integer(value) if isinstance(value, int) else sympy.Float(repr(value))
        case ast.Name(id=name):
            return _CONSTANTS.get(name) or sympy.Symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_build(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _build(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_build(left), _build(right))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _CALLS:
            return sympy.sympify(_CALLS[name](*map(_build, arguments)))
    raise ValueError(f"{ast.unparse(node)!r} is not understood; use + - * / **, names and {', '.join(sorted(_CALLS))}")


serve(reply)
