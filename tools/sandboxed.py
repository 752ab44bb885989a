"""Tools of a workflow as agents call them: their function runs in a sandbox."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import SandboxError, ToolError
from selfwire.core.execution import Execution, Limits
from selfwire.core.protocols import Sandbox
from selfwire.core.scope import Scope
from selfwire.core.values import fingerprint
from selfwire.core.workflow_tool import ToolOutcome, WorkflowTool

TRIES, WAIT = 3, 0.5
"""Tries of a call where the sandbox fails, and seconds before the second one; each further wait is twice as long."""
LIMITS = Limits(seconds=30)
SHOWN = 4000
"""Most characters of a result that an agent reads."""


@dataclass(frozen=True)
class SandboxedTool:
    """A workflow's tool in a sandbox, within 30 seconds a call."""

    tool: WorkflowTool
    sandbox: Sandbox
    limits: Limits = LIMITS

    @property
    def spec(self) -> ToolSpec:
        """The tool as models see it."""
        return self.tool.spec

    @cached_property
    def identity(self) -> str:
        """Equal exactly for equal source."""
        return fingerprint(self.tool.source)

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """What the function returned; ToolError as `measure`, or with what it raised."""
        outcome = await self.measure(arguments, scope=scope)
        if outcome.failed:
            raise ToolError(outcome.result)
        return outcome.result

    async def measure(self, arguments: Mapping[str, Any], *, scope: Scope) -> ToolOutcome:
        """Call the function; what it raises is an outcome.

        Raises:
            ToolError: the arguments do not fit, or the sandbox failed in every try, which is no fault of the tool.
        """
        self._check(arguments)
        began = time.monotonic()
        done = await self._call(arguments)
        failed = done.result is None
        result = describe_failure(done, self.limits) if done.result is None else _cut(done.result)
        return ToolOutcome(result=result, failed=failed, seconds=round(time.monotonic() - began, 3))

    def _check(self, arguments: Mapping[str, Any]) -> None:
        schema = self.tool.parameters
        known, required = ", ".join(schema["properties"]), schema["required"]
        if missing := [name for name in required if name not in arguments]:
            raise ToolError(f"{self.tool.name} needs {', '.join(missing)}; its parameters are {known}")
        unknown = [name for name in arguments if name not in schema["properties"]]
        if unknown and not schema["additionalProperties"]:
            raise ToolError(f"{self.tool.name} takes no {', '.join(unknown)}; its parameters are {known}")

    async def _call(self, arguments: Mapping[str, Any]) -> Execution:
        for number in range(TRIES):
            try:
                return await self.sandbox.call(self.tool.source, arguments, limits=self.limits)
            except SandboxError as error:
                if number == TRIES - 1:
                    raise ToolError(f"{self.tool.name} could not be run in {TRIES} tries: {error}") from error
                await asyncio.sleep(WAIT * 2**number)
        raise AssertionError  # pragma: no cover - the last try returns or raises


def describe_failure(done: Execution, limits: Limits) -> str:
    """Why a call gave no result."""
    if done.timed_out:
        return f"it was stopped after {limits.seconds:g} seconds"
    if done.truncated:
        return "it was stopped because it wrote or returned too much"
    return done.stderr.strip()[-SHOWN:] or f"it ended with status {done.exit_status}"


def _cut(result: str) -> str:
    return result[:SHOWN] + ("\n[cut off]" if len(result) > SHOWN else "")
