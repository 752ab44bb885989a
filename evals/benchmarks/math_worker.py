"""A worker process that compares mathematical expressions with math-verify; run as a module, never imported.

A request {"gold", "answer"} gets {"read", "right"}: whether the answer could be read as mathematics, and whether it
equals the gold answer.
"""

from typing import Any

from math_verify import parse, verify

from selfwire.tools.worker_loop import serve


def compare(request: dict[str, Any]) -> dict[str, Any]:
    """Compare two expressions in LaTeX."""
    gold, answer = (parse(f"\\boxed{{{request[name]}}}", parsing_timeout=None) for name in ("gold", "answer"))
    return {"read": bool(answer), "right": verify(gold, answer, timeout_seconds=None)}


serve(compare)
