"""Symbolic mathematics: expressions are parsed, never executed, and computed by sympy in a bounded process."""

import asyncio
from collections.abc import Mapping
from functools import cache
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ToolError
from selfwire.core.scope import Scope
from selfwire.tools.search import get_text
from selfwire.tools.worker_pool import WorkerPool, ask_for_agent

LONGEST = 400
"""Most characters of an expression."""

OPERATIONS = ("simplify", "expand", "factor", "solve", "differentiate", "integrate", "limit", "evaluate")


class AlgebraTool:
    """A tool that simplifies, expands, factors, solves, differentiates, integrates, takes limits and evaluates."""

    spec = ToolSpec(
        name="algebra",
        description=(
            "Symbolic mathematics. Expressions use + - * / ** and brackets, names for variables, pi, E, I, oo, and "
            "functions such as sqrt, exp, log, sin, factorial, binomial. solve takes an expression that is to be 0, or "
            "an equation with =."
        ),
        parameters={
            "type": "object",
            "properties": {
                "operation": {"type": "string", "enum": list(OPERATIONS)},
                "expression": {"type": "string", "description": "The expression, such as x**2 - 5*x + 6."},
                "variable": {"type": "string", "description": "The variable; needed where there are several."},
                "lower": {"type": "string", "description": "integrate: lower bound of a definite integral."},
                "upper": {"type": "string", "description": "integrate: upper bound of a definite integral."},
                "point": {"type": "string", "description": "limit: where the variable goes."},
            },
            "required": ["operation", "expression"],
        },
    )

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Compute and return the result as text; ToolError if the expression cannot be read or takes too long."""
        texts = {name: value for name, value in arguments.items() if name in self.spec.parameters["properties"]}
        get_text(arguments, "expression", "algebra", "expression")
        if texts.get("operation") not in OPERATIONS:
            raise ToolError(f"algebra knows no operation {texts.get('operation')!r}; use {', '.join(OPERATIONS)}")
        for name, value in texts.items():
            if not isinstance(value, str) or len(value) > LONGEST:
                raise ToolError(f"algebra needs {name!r} as a text of at most {LONGEST} characters")
        return await asyncio.to_thread(ask_for_agent, _get_pool(), texts, "computation", "try a simpler expression")


@cache
def _get_pool() -> WorkerPool:
    return WorkerPool("selfwire.tools.algebra_worker", seconds=10, patience=60)
