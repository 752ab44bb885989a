import resource
import sys
from io import StringIO

import pytest

from selfwire.core.errors import ToolError
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.tools import algebra
from selfwire.tools.algebra import AlgebraTool
from selfwire.tools.worker_loop import serve
from selfwire.tools.worker_pool import WorkerPool

TOOL: Tool = AlgebraTool()


async def ask(operation: str, expression: str, **more: str) -> str:
    return await TOOL.run({"operation": operation, "expression": expression, **more}, scope=Scope())


async def test_operations() -> None:
    assert await ask("solve", "x^2 - 5*x + 6 = 0") == "[2, 3]"
    assert await ask("solve", "a*x - b", variable="x") == "[b/a]"
    assert await ask("expand", "(x + 1)**2") == "x**2 + 2*x + 1"
    assert await ask("factor", "x**3 - y**3") == "(x - y)*(x**2 + x*y + y**2)"
    assert await ask("simplify", "sin(x)**2 + cos(x)**2") == "1"
    assert await ask("differentiate", "x**2*exp(x)") == "x**2*exp(x) + 2*x*exp(x)"
    assert await ask("integrate", "sin(x)", lower="0", upper="pi") == "2"
    assert await ask("integrate", "1/x") == "log(x)"
    assert await ask("limit", "sin(x)/x", point="0") == "1"
    assert await ask("evaluate", "sqrt(2)") == "1.41421356237310"
    assert await ask("evaluate", "isprime(97)") == "True"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"operation": "cook", "expression": "x"}, "no operation 'cook'; use simplify"),
        ({"operation": "factor"}, "needs an object"),
        ({"operation": "factor", "expression": 3}, "needs an object"),
        ({"operation": "factor", "expression": "x", "variable": 3}, "needs 'variable' as a text"),
        ({"operation": "factor", "expression": "1+" * 300 + "1"}, "at most 400 characters"),
        ({"operation": "factor", "expression": "x +"}, "cannot be read"),
        ({"operation": "factor", "expression": "x\0"}, "cannot be"),
        ({"operation": "factor", "expression": "().__class__"}, "is not understood"),
        ({"operation": "factor", "expression": "__import__('os')"}, "is not understood"),
        ({"operation": "factor", "expression": "x > 1"}, "'x > 1' is not understood"),
        ({"operation": "factor", "expression": "x % 2"}, "'x % 2' is not understood"),
        ({"operation": "factor", "expression": "x = 1"}, "factor takes an expression, not an equation"),
        ({"operation": "factor", "expression": "(" * 200 + ")" * 200}, "cannot be"),
        ({"operation": "factor", "expression": "-" * 399 + "x", "variable": "x"}, None),
        ({"operation": "differentiate", "expression": "x*y"}, "name the variable; there are x, y"),
        ({"operation": "solve", "expression": "x", "variable": "x; import os"}, "is no variable"),
        ({"operation": "integrate", "expression": "x", "lower": "0"}, "needs both bounds"),
        ({"operation": "limit", "expression": "x"}, "needs a point"),
    ],
)
async def test_what_cannot_be_computed_is_refused(given: dict[str, object], message: str | None) -> None:
    if message is None:
        assert await TOOL.run(given, scope=Scope()) == "-x"
        return
    with pytest.raises(ToolError, match=message):
        await TOOL.run(given, scope=Scope())


@pytest.mark.skipif(sys.platform == "win32", reason="processor time is not bounded there")
async def test_what_computes_for_too_long_is_stopped_and_the_next_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool("selfwire.tools.algebra_worker", seconds=1, patience=60)
    monkeypatch.setattr(algebra, "_get_pool", lambda: pool)
    with pytest.raises(ToolError, match="more than 1 seconds to compute"):
        await ask("evaluate", "9**9**9**9")
    assert await ask("evaluate", "2**3") == "8.00000000000000"


def test_a_worker_runs_without_a_limit_of_memory_where_the_system_refuses_it_as_macos_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def limit(kind: int, limits: tuple[int, int]) -> None:
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", limit)
    monkeypatch.setattr("sys.stdin", StringIO('{"seconds": 1}\n'))
    serve(lambda request: {"result": request["seconds"]})
    assert capsys.readouterr().out == '{"result": 1}\n'
