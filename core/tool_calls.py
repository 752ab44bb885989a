"""How a tool is called wherever an agent calls one."""

from collections.abc import Mapping, Sequence
from typing import Any

from selfwire.core.protocols import TimedTool, Tool
from selfwire.core.scope import Scope
from selfwire.core.trajectory import ToolUse, Trajectory
from selfwire.core.workflow import Workflow
from selfwire.core.workflow_tool import ToolRecord


async def call_tool(tool: Tool, arguments: Mapping[str, Any], *, scope: Scope) -> ToolUse:
    """A call and its result; what the function of a workflow's own tool raised is a result that is an error.

    Raises:
        ToolError: the input is refused or the tool failed.
    """
    name = tool.spec.name
    if not isinstance(tool, TimedTool):
        return ToolUse(name=name, arguments=arguments, result=await tool.run(arguments, scope=scope))
    outcome = await tool.measure(arguments, scope=scope)
    result = f"error: {outcome.result}" if outcome.failed else outcome.result
    return ToolUse(name=name, arguments=arguments, result=result, error=outcome.failed, seconds=outcome.seconds)


def record_tool_calls(workflow: Workflow, trajectories: Sequence[Trajectory]) -> Workflow:
    """The workflow with its tools' calls in runs of it added to their records; its lineage stays."""
    uses = [use for done in trajectories for step in done.steps for use in step.tools if use.seconds is not None]
    tools = []
    for tool in workflow.tools:
        mine = [use for use in uses if use.name == tool.name]
        calls = (ToolRecord(calls=1, failures=use.error, seconds=use.seconds) for use in mine)
        tools.append(tool.replace(record=sum(calls, tool.record)) if mine else tool)
    return workflow.replace(tools=tools) if uses else workflow
