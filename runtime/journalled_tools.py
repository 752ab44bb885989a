"""Tools whose calls are recorded in the journal."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.protocols import Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.values import to_plain_json
from selfwire.runtime.journal import CallResult, Journal


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


def add_journal(toolbox: Toolbox, journal: Journal) -> Toolbox:
    """Journal all tools of a toolbox except those that rebuild their state when they run again."""
    return {
        name: tool if getattr(tool, "rebuilds", False) else JournalledTool(tool, journal)
        for name, tool in toolbox.items()
    }
