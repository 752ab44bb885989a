"""Python for agents: runs a program in the sandbox and returns its output."""

from collections.abc import Mapping
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import SandboxError, ToolError
from selfwire.core.protocols import Execution, Limits, Sandbox
from selfwire.core.scope import Scope
from selfwire.tools.search import get_text, make_text_schema

SHOWN = 4000
"""Most characters of a stream that an agent reads: the beginning of stdout, and the end of stderr with the reason."""


LIMITS = Limits()


class PythonTool:
    """A tool that runs a Python program in a sandbox; each run starts afresh."""

    spec = ToolSpec(
        name="python",
        description=(
            "Run a Python 3 program with the standard library and return what it printed; it has no network and no "
            "files, and nothing is kept between runs."
        ),
        parameters=make_text_schema("code", "The whole program; print what you want to see."),
    )

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Run a program and return its output, and the reason of a failure; ToolError if the sandbox itself fails."""
        code = get_text(arguments, "code", "python", "program")
        try:
            return _format_output(await self.sandbox.run(code, limits=LIMITS))
        except SandboxError as error:
            raise ToolError(f"the program could not be run: {error}") from error


def _format_output(done: Execution) -> str:
    parts = [done.stdout[:SHOWN] + ("\n[cut off]" if len(done.stdout) > SHOWN else "")] if done.stdout.strip() else []
    if done.stderr.strip():
        parts.append(f"stderr:\n{done.stderr[-SHOWN:]}")
    if done.timed_out:
        parts.append(f"The program was stopped after {LIMITS.seconds:g} seconds.")
    if done.truncated:
        parts.append("The program was stopped for writing too much.")
    if done.exit_status:
        parts.append(f"The program ended with status {done.exit_status}.")
    return "\n".join(part.rstrip() for part in parts) or "The program printed nothing."
