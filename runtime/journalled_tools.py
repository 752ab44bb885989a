"""Tools whose calls are recorded in the journal."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ToolError
from selfwire.core.protocols import TimedTool, Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.values import to_plain_json
from selfwire.core.workflow_tool import ToolOutcome
from selfwire.runtime.journal import Journal
from selfwire.runtime.journal_rows import CallResult


@dataclass(frozen=True)
class JournalledTool:
    """A tool that runs once per (scope, arguments) of a run, and is replayed after that."""

    tool: Tool
    journal: Journal

    @property
    def spec(self) -> ToolSpec:
        """The spec of the tool."""
        return self.tool.spec

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Run the tool or replay its result; a ToolError is recorded and not replayed."""

        async def call() -> CallResult:
            return CallResult(json.dumps(await self.tool.run(arguments, scope=scope)))

        request = {"tool": self.tool.spec.name, "arguments": to_plain_json(arguments)}
        result = await self.journal.call_once("tool", scope, request, call)
        return str(result.parse(json.loads))


@dataclass(frozen=True)
class JournalledTimedTool:
    """A tool of a workflow whose outcomes are replayed, failures of its function and seconds included."""

    tool: TimedTool
    journal: Journal

    @property
    def spec(self) -> ToolSpec:
        """The spec of the tool."""
        return self.tool.spec

    @property
    def identity(self) -> str:
        """That of the tool."""
        return self.tool.identity

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """As `measure`; a failure of the function is a ToolError."""
        outcome = await self.measure(arguments, scope=scope)
        if outcome.failed:
            raise ToolError(outcome.result)
        return outcome.result

    async def measure(self, arguments: Mapping[str, Any], *, scope: Scope) -> ToolOutcome:
        """Run the tool or replay its outcome; a ToolError is recorded and not replayed."""

        async def call() -> CallResult:
            return CallResult((await self.tool.measure(arguments, scope=scope)).model_dump_json())

        request = {"tool": self.spec.name, "arguments": to_plain_json(arguments), "source": self.identity}
        result = await self.journal.call_once("tool", scope, request, call)
        return result.parse(ToolOutcome.model_validate_json)


class JournalledTools(dict[str, Tool]):
    """Tools whose calls are recorded in a journal, except those that rebuild their state when they run again."""

    def __init__(self, tools: Toolbox, journal: Journal) -> None:
        super().__init__((name, _add_journal(tool, journal)) for name, tool in tools.items())
        self.journal = journal


def _add_journal(tool: Tool, journal: Journal) -> Tool:
    if getattr(tool, "rebuilds", False):
        return tool
    return JournalledTimedTool(tool, journal) if isinstance(tool, TimedTool) else JournalledTool(tool, journal)
