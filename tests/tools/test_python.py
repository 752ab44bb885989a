import pytest

from selfwire.core.errors import SandboxError, ToolError
from selfwire.core.protocols import Execution, Limits
from selfwire.core.scope import Scope
from selfwire.tools.python import SHOWN, PythonTool
from selfwire.tools.sandbox.sandbox import find_sandbox
from tests.sandboxed import CallsNothing, needs_sandbox


class Fixed(CallsNothing):
    def __init__(self, done: Execution | None) -> None:
        self.done = done

    async def run(self, code: str, stdin: str = "", *, limits: Limits = Limits()) -> Execution:
        if self.done is None:
            raise SandboxError("it broke")
        return self.done


async def told(**done: object) -> str:
    return await PythonTool(Fixed(Execution.model_validate({"exit_status": 0, **done}))).run(
        {"code": "x"}, scope=Scope()
    )


async def test_what_a_program_printed_is_the_result() -> None:
    assert await told(stdout="4\n") == "4"
    assert await told() == "The program printed nothing."
    assert await told(stderr="Traceback\nKeyError: 1\n", exit_status=1) == (
        "stderr:\nTraceback\nKeyError: 1\nThe program ended with status 1."
    )
    assert "stopped after 30 seconds" in await told(exit_status=None, timed_out=True)
    assert "writing too much" in await told(exit_status=None, truncated=True)
    assert (await told(stdout="x" * 9999)) == "x" * SHOWN + "\n[cut off]"


@pytest.mark.parametrize("arguments", [{}, {"code": ""}, {"code": 3}, {"program": "print(1)"}])
async def test_an_input_without_a_program_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ToolError, match="with a program"):
        await PythonTool(Fixed(None)).run(arguments, scope=Scope())


async def test_a_sandbox_that_fails_is_told_to_the_agent() -> None:
    with pytest.raises(ToolError, match="could not be run: it broke"):
        await PythonTool(Fixed(None)).run({"code": "x"}, scope=Scope())


@needs_sandbox
async def test_it_runs_in_the_sandbox() -> None:
    assert await PythonTool(find_sandbox(full=True)).run({"code": "print(sum(range(5)))"}, scope=Scope()) == "10"
