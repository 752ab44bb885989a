"""The critic that rewrites tools: it tries single changes of the code that it is shown on the calls that it is shown.

It knows no more than its prompt: where several changes fit the known calls it takes any of them, and at its error rate
one that need not fit.
"""

import ast
import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from selfwire.extras.offline.critic_input import CriticInput
from selfwire.tools.tool_mutations import list_mutations

STATED = re.compile(r"\b(?P<tool>\w+) with (?P<arguments>(?:\w+ = -?\d+(?:, )?)+) is (?P<result>-?\d+)")
"""How an environment states the right result of a call, such as `parking_fee with minutes = 95 is 6`."""
OWN = re.compile(r"^(\w+) \(the team's own\)", re.MULTILINE)
_ECHO = "def tool_function(input_data: str, **kwargs):\n    return input_data\n"
_STEPS = 10_000
_LARGEST = 10**12


def find_tool_fault(brief: CriticInput) -> str:
    """Words of the environment on a tool of its own that an agent called; "" if there are none."""
    for stated in STATED.finditer(brief["feedback"]):
        name = stated["tool"]
        if name in OWN.findall(brief["tools"]) and f"tool {name}(" in brief["output"]:
            return f"{name} should give {stated['result']} with {stated['arguments']}."
    return ""


def tool_decision(brief: CriticInput) -> dict[str, Any]:
    """Rewrite the tool that the feedback names, with the calls that the environment states."""
    held = re.findall(r"^(\w+)\(", brief["own_tools"], re.MULTILINE)
    named = [name for name in held if re.search(rf"\b{name}\b", brief["gradients"])]
    decision = {"operation": "NO_CHANGE", "tool": "", "description": "", "examples": [], "reason": "The tools will do."}
    if not named or "REWRITE_TOOL" not in brief["operations"] or brief.errs("tool decision"):
        return decision
    stated = [case for case in STATED.finditer(brief["feedback"]) if case["tool"] == named[0]]
    examples = [
        {"arguments": json.dumps(_read_arguments(case["arguments"])), "result": case["result"]} for case in stated[:5]
    ]
    why = f"{named[0]} gives other results than it should."
    return {**decision, "operation": "REWRITE_TOOL", "tool": named[0], "examples": examples, "reason": why}


def tool_source(brief: CriticInput) -> dict[str, Any]:
    """A changed code that gives what the known calls say, if a single change does."""
    code, earlier = brief["tool_code"], brief["earlier_code"]
    try:
        changed = [mutation for mutation in list_mutations(code) if mutation.strip() != earlier.strip()]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        changed = []
    if not changed:
        return {"source": code or _ECHO, "calls": [_make_call(code or _ECHO)]}
    calls = [(json.loads(call), result) for call, result in re.findall(r"^(\{.*\}) -> (.*)$", brief["examples"], re.M)]
    fitting = [code for code in changed if all(_gives(code, arguments, result) for arguments, result in calls)]
    careless = brief.errs("repair") or not calls
    return {
        "source": brief.pick("repair", changed if careless or not fitting else fitting),
        "calls": [_make_call(code)],
    }


def _make_call(code: str) -> str:
    """A call with 1 for each parameter."""
    return json.dumps(dict.fromkeys(re.findall(r"(\w+):", code.partition(")")[0]), 1))


def _read_arguments(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"(\w+) = (-?\d+)", text)}


def _gives(source: str, arguments: Mapping[str, Any], result: str) -> bool:
    [function] = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    try:
        return str(_Evaluator(arguments).run(function)) == result.strip()
    except (_UnknownValueError, ArithmeticError, TypeError, ValueError, LookupError):
        return False


class _UnknownValueError(Exception):
    """A part of Python that the evaluator does not know, or a run that is too long."""


class _ReturnError(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_CALLS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs, "int": int, "round": round}


class _Evaluator:
    """Runs functions of assignments, conditions and arithmetic on numbers, and nothing else."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.names, self.steps = dict(arguments), 0

    def run(self, function: ast.FunctionDef) -> Any:
        """Run the function and return its result."""
        named = [*function.args.args, *function.args.kwonlyargs]
        defaults = [*function.args.defaults, *function.args.kw_defaults]
        for argument, default in zip(named[len(named) - len(defaults) :], defaults, strict=True):
            if default is not None:
                self.names.setdefault(argument.arg, self.value(default))
        try:
            self.block(function.body)
        except _ReturnError as done:
            return done.value
        return None

    def block(self, body: list[ast.stmt]) -> None:
        """Run statements."""
        for statement in body:
            match statement:
                case ast.Return(value=ast.expr() as value):
                    raise _ReturnError(self.value(value))
                case ast.If(test=test, body=then, orelse=otherwise):
                    self.block(then if self.value(test) else otherwise)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names[name] = self.value(value)
                case ast.AugAssign(target=ast.Name(id=name), op=used, value=value):
                    self.names[name] = self.combine(used, self.names[name], self.value(value))
                case ast.Expr(value=ast.Constant()):
                    pass
                case _:
                    raise _UnknownValueError

    def value(self, node: ast.expr) -> Any:
        """The value of an expression."""
        self.steps += 1
        if self.steps > _STEPS:
            raise _UnknownValueError
        match node:
            case ast.Constant(value=found):
                return found
            case ast.Name(id=name):
                return self.names[name]
            case ast.BinOp(left=left, op=used, right=right):
                return self.combine(used, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=one):
                return -self.value(one)
            case ast.Compare(left=left, ops=[used], comparators=[right]) if type(used) in _COMPARE:
                return _COMPARE[type(used)](self.value(left), self.value(right))
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                return self.value(then if self.value(test) else otherwise)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
                return _CALLS[name](*(self.value(argument) for argument in args))
        raise _UnknownValueError

    def combine(self, used: ast.operator, left: Any, right: Any) -> Any:
        """The result of an operator on two numbers."""
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not numbers or type(used) not in _BINARY or max(abs(left), abs(right)) > _LARGEST:
            raise _UnknownValueError
        return _BINARY[type(used)](left, right)
