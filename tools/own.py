"""A team's own tools beside the run's: in one sandbox, and in the run's journal."""

import asyncio
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ConfigError, SandboxError, ToolError
from selfwire.core.own_tool import OwnTool, ToolOutcome, ToolRecord
from selfwire.core.protocols import Execution, Limits, Sandbox, Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.trajectory import ToolUse, Trajectory
from selfwire.core.values import fingerprint, to_plain_json
from selfwire.store.journal import Journal
from selfwire.store.journal_file import CallResult

TRIES, WAIT = 3, 0.5
"""Tries of a call while the sandbox fails, and seconds before the second try; each later wait is twice as long."""
LIMITS = Limits(seconds=30)
SHOWN = 4000
"""Most characters of a result that an agent reads."""


def find_sandbox() -> Sandbox:
    """Find the sandbox of this machine; its programs are imported only where a team has tools of its own.

    Raises:
        ConfigError: there is none.
    """
    from selfwire.tools.sandbox import sandbox

    return sandbox.find_sandbox()


@dataclass(frozen=True)
class SandboxedTool:
    """A team's own tool in a sandbox, by default within 30 seconds a call; its calls are timed and counted.

    Attributes:
        journal: replays outcomes, failures of the function and seconds among them; None records nothing.
    """

    tool: OwnTool
    sandbox: Sandbox
    limits: Limits = LIMITS
    journal: Journal | None = None

    @property
    def spec(self) -> ToolSpec:
        """The tool as models see it."""
        return self.tool.spec

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Call the function and return its result; ToolError as `measure` raises it, or if the function failed."""
        outcome = await self.measure(arguments, scope=scope)
        if outcome.failed:
            raise ToolError(outcome.result)
        return outcome.result

    async def measure(self, arguments: Mapping[str, Any], *, scope: Scope) -> ToolOutcome:
        """Call the function, or replay its outcome; its failure is returned as an outcome.

        Raises:
            ToolError: the arguments do not fit, or the sandbox failed in every try; it is recorded and not replayed.
        """
        if self.journal is None:
            return await self._measure(arguments)

        async def call() -> CallResult:
            return CallResult((await self._measure(arguments)).model_dump_json())

        source = fingerprint(self.tool.source)
        request = {"tool": self.tool.name, "arguments": to_plain_json(arguments), "source": source}
        result = await self.journal.call_once("tool", scope, request, call)
        return result.parse(ToolOutcome.model_validate_json)

    async def _measure(self, arguments: Mapping[str, Any]) -> ToolOutcome:
        self._check(arguments)
        began = time.monotonic()
        done = await self._call(arguments)
        failed = done.result is None
        result = describe_failure(done, self.limits) if done.result is None else cut_result(done.result)
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
    """Describe why a call gave no result."""
    if done.timed_out:
        return f"it was stopped after {limits.seconds:g} seconds"
    if done.truncated:
        return "it was stopped because it wrote or returned too much"
    return done.stderr.strip()[-SHOWN:] or f"it ended with status {done.exit_status}"


def cut_result(result: str) -> str:
    """Cut a result to what an agent reads."""
    return result[:SHOWN] + ("\n[cut off]" if len(result) > SHOWN else "")


@dataclass(frozen=True)
class JournalledTool:
    """A wrapper of a tool: equal calls (scope, arguments) of a run are made once, and then replayed."""

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


class JournalledTools(dict[str, Tool]):
    """A toolbox whose calls are recorded in a journal, except calls of tools that rebuild their state by running."""

    def __init__(self, tools: Toolbox, journal: Journal) -> None:
        super().__init__((name, _add_journal(tool, journal)) for name, tool in tools.items())
        self.journal = journal


def _add_journal(tool: Tool, journal: Journal) -> Tool:
    if getattr(tool, "rebuilds", False):
        return tool
    return replace(tool, journal=journal) if isinstance(tool, SandboxedTool) else JournalledTool(tool, journal)


def add_own_tools(toolbox: Toolbox, team: Team) -> Toolbox:
    """The tools of a run, and those of a team that has some of its own.

    Raises:
        ConfigError: as `refuse_unusable_tools`, or no sandbox works here.
    """
    refuse_unusable_tools(team, toolbox)
    sandbox = find_sandbox()
    own: dict[str, Tool] = {tool.name: SandboxedTool(tool, sandbox) for tool in team.tools}
    return {**toolbox, **(JournalledTools(own, toolbox.journal) if isinstance(toolbox, JournalledTools) else own)}


@dataclass(frozen=True)
class ToolTrial:
    """Runs tools that are not part of a team yet, in the journal of the run's tools."""

    toolbox: Toolbox

    async def find_problem(self) -> str:
        """Why no tool can be run here; "" if it can."""
        try:
            await asyncio.to_thread(find_sandbox)  # the first search blocks
        except ConfigError as error:
            return str(error)
        return ""

    async def run(self, tool: OwnTool, arguments: Mapping[str, Any], *, scope: Scope) -> ToolOutcome:
        """Call a tool once; raises ToolError if the arguments do not fit or the sandbox failed."""
        journal = self.toolbox.journal if isinstance(self.toolbox, JournalledTools) else None
        return await SandboxedTool(tool, find_sandbox(), journal=journal).measure(arguments, scope=scope)


def give_tools(team: Team, tools: Sequence[OwnTool]) -> Team:
    """An initial team with tools of its own, which all agents but the one that answers hold."""
    sink = team.agent_at(team.topology.sink).id
    names = tuple(tool.name for tool in tools)
    alone = len(team.agents) == 1
    agents = [a.replace(tools=(*a.tools, *names)) if alone or a.id != sink else a for a in team.agents]
    return team.replace(agents=tuple(agents), tools=tuple(tools)) if tools else team


def find_missing_tools(team: Team, lent: Collection[str]) -> list[str]:
    """Tools that agents hold, and that neither the run nor the team has; sorted."""
    held = {tool for agent in team.agents for tool in agent.tools}
    return sorted(held.difference(lent, team.tools_by_name))


def refuse_missing_tools(team: Team, lent: Collection[str], what: str = "the team", advice: str = "") -> None:
    """Check that a run has all tools that a team's agents hold, and that the team's own can be called here.

    Args:
        what: the team in the message.
        advice: ends the message: what lacks the tools, and what to do; by default for a call from Python.

    Raises:
        ConfigError: it lacks one, or `refuse_unusable_tools` refuses the team's own.
    """
    refuse_unusable_tools(team, lent)
    if missing := find_missing_tools(team, lent):
        given = ", ".join(sorted(lent)) or "none"
        advice = advice or f", and the tools that are given are {given}; pass the missing ones in tools"
        raise ConfigError(f"{what} holds {', '.join(missing)}{advice}")


def refuse_unusable_tools(team: Team, lent: Collection[str]) -> None:
    """Check that a team's own tools can be called beside the tools of the run.

    Raises:
        ConfigError: two share a name, or no sandbox works here.
    """
    if twice := sorted(set(lent).intersection(team.tools_by_name)):
        raise ConfigError(
            f"the team has a tool {twice[0]!r} of its own, and the run lends another of that name; lend it under "
            "another name, or remove the team's own"
        )
    if team.tools:
        find_sandbox()


async def call_tool(tool: Tool, arguments: Mapping[str, Any], *, scope: Scope) -> ToolUse:
    """Call a tool; if the function of a team's own tool fails, its error is the result.

    Raises:
        ToolError: the input is refused or the tool failed.
    """
    name = tool.spec.name
    if not isinstance(tool, SandboxedTool):
        return ToolUse(name=name, arguments=arguments, result=await tool.run(arguments, scope=scope))
    outcome = await tool.measure(arguments, scope=scope)
    result = f"error: {outcome.result}" if outcome.failed else outcome.result
    return ToolUse(name=name, arguments=arguments, result=result, error=outcome.failed, seconds=outcome.seconds)


def record_tool_calls(team: Team, trajectories: Sequence[Trajectory]) -> Team:
    """Add the tool calls of trajectories to the records of a team's own tools; the lineage stays."""
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    uses = [use for step in steps for use in step.tools if use.seconds is not None]
    tools = []
    for tool in team.tools:
        mine = [use for use in uses if use.name == tool.name]
        calls = (ToolRecord(calls=1, failures=use.error, seconds=use.seconds) for use in mine)
        tools.append(tool.replace(record=sum(calls, tool.record)) if mine else tool)
    return team.replace(tools=tools) if uses else team
