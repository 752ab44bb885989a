"""A workflow's own tools beside those that a run lends: in one sandbox, and in the run's journal."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import TimedTool, Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.workflow import Workflow
from selfwire.core.workflow_tool import ToolOutcome, WorkflowTool
from selfwire.runtime.journalled_tools import JournalledTimedTool, JournalledTools
from selfwire.runtime.sandbox import find_sandbox
from selfwire.tools.sandboxed import SandboxedTool


def add_own_tools(toolbox: Toolbox, workflow: Workflow) -> Toolbox:
    """The tools that a run lends, and the workflow's own.

    Raises:
        ConfigError: as `refuse_unusable_tools`.
    """
    if not workflow.tools:
        return toolbox
    refuse_unusable_tools(workflow, toolbox)
    sandbox = find_sandbox()
    own: dict[str, Tool] = {tool.name: SandboxedTool(tool, sandbox) for tool in workflow.tools}
    return {**toolbox, **(JournalledTools(own, toolbox.journal) if isinstance(toolbox, JournalledTools) else own)}


@dataclass(frozen=True)
class ToolTrial:
    """Runs tools that are not part of a workflow yet, in the journal of the tools that the run lends."""

    toolbox: Toolbox

    async def find_problem(self) -> str:
        """Why no tool can be run here; "" if it can."""
        try:
            await asyncio.to_thread(find_sandbox)  # the first search blocks
        except ConfigError as error:
            return str(error)
        return ""

    async def run(self, tool: WorkflowTool, arguments: Mapping[str, Any], *, scope: Scope) -> ToolOutcome:
        """Call a tool once; raises ToolError if the arguments do not fit or the sandbox failed."""
        called: TimedTool = SandboxedTool(tool, find_sandbox())
        if isinstance(self.toolbox, JournalledTools):
            called = JournalledTimedTool(called, self.toolbox.journal)
        return await called.measure(arguments, scope=scope)


def give_tools(workflow: Workflow, tools: Sequence[WorkflowTool]) -> Workflow:
    """An initial workflow with tools of its own, which all agents but the one that answers hold."""
    sink = workflow.agent_at(workflow.topology.sink).id
    names = tuple(tool.name for tool in tools)
    alone = len(workflow.agents) == 1
    agents = [a.replace(tools=(*a.tools, *names)) if alone or a.id != sink else a for a in workflow.agents]
    return workflow.replace(agents=tuple(agents), tools=tuple(tools)) if tools else workflow


def find_missing_tools(workflow: Workflow, lent: Collection[str]) -> list[str]:
    """Tools that agents hold, and that neither the run lends nor the workflow has; sorted."""
    held = {tool for agent in workflow.agents for tool in agent.tools}
    return sorted(held.difference(lent, workflow.tools_by_name))


def refuse_missing_tools(workflow: Workflow, lent: Collection[str]) -> None:
    """Check that a run has all tools that a workflow's agents hold.

    Raises:
        ConfigError: it lacks one.
    """
    if missing := find_missing_tools(workflow, lent):
        raise ConfigError(
            f"the team's agents hold {', '.join(missing)}, and the tools that are given are "
            f"{', '.join(sorted(lent)) or 'none'}; pass the missing ones in tools"
        )


def refuse_unusable_tools(workflow: Workflow, lent: Collection[str]) -> None:
    """Check that a workflow's own tools can be called beside the tools that a run lends.

    Raises:
        ConfigError: two share a name, or no sandbox works here.
    """
    if twice := sorted(set(lent).intersection(workflow.tools_by_name)):
        raise ConfigError(
            f"the workflow has a tool {twice[0]!r} of its own, and the run lends another of that name; lend it under "
            "another name, or remove the workflow's own"
        )
    if workflow.tools:
        find_sandbox()
