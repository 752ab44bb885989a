"""A team's tool as agents call it: results, what its function raises, wrong input, and a sandbox that fails."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from selfwire.core.errors import SandboxError, ToolError
from selfwire.core.own_tool import OwnTool
from selfwire.core.protocols import Execution, Limits
from selfwire.core.scope import Scope
from selfwire.tools.own import SHOWN, SandboxedTool
from selfwire.tools.sandbox.sandbox import find_sandbox
from tests.core.generators import make_tool
from tests.sandboxed import needs_sandbox

SCOPE = Scope(run="r", seed=0, phase="run", node="a")


def tool(body: str, signature: str = "n: int, word: str = 'x'") -> OwnTool:
    return make_tool(source=f"def tool_function({signature}):\n    {body}\n")


class FailingSandbox:
    """Fails some times, then returns."""

    name = "failing"

    def __init__(self, failures: int) -> None:
        self.failures, self.calls = failures, 0

    async def run(self, code: str, stdin: str = "", *, limits: Limits = Limits()) -> Execution:
        raise NotImplementedError

    async def call(self, source: str, arguments: Mapping[str, Any], *, limits: Limits = Limits()) -> Execution:
        self.calls += 1
        if self.calls <= self.failures:
            raise SandboxError("too busy")
        return Execution(exit_status=0, result=f"{arguments['n']} within {limits.seconds:g} s")


@needs_sandbox
@pytest.mark.parametrize(
    ("body", "failed", "result"),
    [
        ("return word * n", False, "xxx"),
        ("return {'n': n}", False, '{"n": 3}'),
        ("return 1 / (n - 3)", True, "ZeroDivisionError: division by zero"),
        ("while True: pass\n    return 1", True, "it was stopped after 1 seconds"),
        (f"return 'y' * {SHOWN + 1}", False, "y" * SHOWN + "\n[cut off]"),
        ("return 'y' * (1 << 21)", True, "it was stopped because it wrote or returned too much"),
    ],
)
async def test_an_outcome_is_what_the_function_returned_or_why_it_did_not(body: str, failed: bool, result: str) -> None:
    called = SandboxedTool(tool(body), find_sandbox(), Limits(seconds=1))
    outcome = await called.measure({"n": 3}, scope=SCOPE)
    assert (outcome.failed, result in outcome.result) == (failed, True), outcome
    assert outcome.seconds > 0
    if failed:
        with pytest.raises(ToolError, match=result[:20]):
            await called.run({"n": 3}, scope=SCOPE)
    else:
        assert await called.run({"n": 3}, scope=SCOPE) == outcome.result == result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "add needs n; its parameters are n, word"),
        ({"n": 1, "m": 2}, "add takes no m; its parameters are n, word"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_before_anything_runs(
    arguments: dict[str, Any], message: str
) -> None:
    sandbox = FailingSandbox(0)
    with pytest.raises(ToolError, match=message):
        await SandboxedTool(tool("return n"), sandbox).measure(arguments, scope=SCOPE)
    assert sandbox.calls == 0
    free = SandboxedTool(tool("return n", "n: int, **more"), sandbox)
    assert (await free.measure({"n": 1, "m": 2}, scope=SCOPE)).result == "1 within 30 s"


@pytest.mark.parametrize("done", [Execution(exit_status=1), Execution(exit_status=None, timed_out=True)])
async def test_what_the_function_does_is_no_fault_of_the_sandbox_and_is_not_tried_again(done: Execution) -> None:
    class Counting(FailingSandbox):
        async def call(self, source: str, arguments: Mapping[str, Any], *, limits: Limits = Limits()) -> Execution:
            self.calls += 1
            return done

    sandbox = Counting(0)
    assert (await SandboxedTool(tool("return n"), sandbox).measure({"n": 1}, scope=SCOPE)).failed
    assert sandbox.calls == 1


async def test_a_sandbox_that_fails_is_tried_three_times_with_growing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert (await SandboxedTool(tool("return n"), FailingSandbox(2)).run({"n": 7}, scope=SCOPE)) == "7 within 30 s"
    assert waits == [0.5, 1.0]
    broken = FailingSandbox(9)
    with pytest.raises(ToolError, match="add could not be run in 3 tries: too busy"):
        await SandboxedTool(tool("return n"), broken).measure({"n": 7}, scope=SCOPE)
    assert broken.calls == 3
