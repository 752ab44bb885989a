"""Python for agents: a program in the sandbox, with what it wrote as the result."""

from collections.abc import Mapping
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import SandboxError, ToolError
from selfwire.core.execution import Execution, Limits
from selfwire.core.protocols import Sandbox
from selfwire.core.scope import Scope

SHOWN = 4000
"""Characters of each stream that an agent is shown; the end of errors, where their reason stands."""


class PythonTool:
    """Runs a Python program; nothing is kept from one run to the next.

    Args:
        sandbox: where programs run.
        limits: of one run.
    """

    spec = ToolSpec(
        name="python",
        description=(
            "Run a Python 3 program with the standard library and return what it printed; it has no network and no "
            "files, and nothing is kept between runs."
        ),
        parameters={
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The whole program; print what you want to see."}},
            "required": ["code"],
        },
    )

    def __init__(self, sandbox: Sandbox, limits: Limits = Limits()) -> None:
        self.sandbox, self.limits = sandbox, limits

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """What the program printed, and how it ended if it did not end well.

        Raises:
            ToolError: there is no program in the input, or the sandbox failed.
        """
        code = arguments.get("code")
        if not isinstance(code, str) or not code.strip():
            raise ToolError('python needs an object {"code": "..."} with a program that is not empty')
        try:
            return _told(await self.sandbox.run(code, limits=self.limits), self.limits)
        except SandboxError as error:
            raise ToolError(f"the program could not be run: {error}") from error


def _told(done: Execution, limits: Limits) -> str:
    said = [done.stdout[:SHOWN] + ("\n[cut off]" if len(done.stdout) > SHOWN else "")] if done.stdout.strip() else []
    if done.stderr.strip():
        said.append(f"stderr:\n{done.stderr[-SHOWN:]}")
    if done.timed_out:
        said.append(f"The program was stopped after {limits.seconds:g} seconds.")
    if done.truncated:
        said.append("The program was stopped for writing too much.")
    if done.exit_status:
        said.append(f"The program ended with status {done.exit_status}.")
    return "\n".join(part.rstrip() for part in said) or "The program printed nothing."
