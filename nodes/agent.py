"""The runner of agents that call tools until they answer."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from selfwire.core.agent import Agent
from selfwire.core.chat import SHARED_SYSTEM, ChatMessage, Reply, ToolCall, quote_tags
from selfwire.core.errors import ConfigError, ModelError, ToolError, get_error_cost
from selfwire.core.protocols import AgentRunner, Model, Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step, ToolUse
from selfwire.core.usage import sum_usages
from selfwire.core.values import to_plain_json
from selfwire.tools.own import call_tool

MAX_TURNS = 8
"""Replies in which an agent may call tools, before it must answer without tools."""
MOST_CALLS = 32
"""Tool calls of a reply that are run, as no budget counts them; the agent reads an error as the others' result."""
TAGS, SENT = "<task> <messages>", "What others sent you:"
CLOSING = "Do your part, as your instructions say."
"""Stands below what others sent, so that an agent reads last what to do."""
_REQUEST = re.compile(
    r"<task>\n(?P<task>.*?)\n</task>\n\n(?P<instructions>.*?)"
    rf"(?:\n\n{SENT}\n<messages>\n(?P<sent>.*)\n</messages>\n\n{CLOSING})?",
    re.DOTALL,
)


def make_agent_runner(
    model: Model, toolbox: Toolbox, *, max_turns: int = MAX_TURNS, temperature: float | None = None
) -> AgentRunner:
    """Make the runner of agents that call tools until they answer; after `max_turns` replies they get no tools.

    The runner raises ConfigError if an agent has a tool that the toolbox lacks.

    Args:
        temperature: for agents without a temperature of their own.
    """

    async def act(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        tools_by_name = _get_tools(agent, toolbox)
        agent_temperature = temperature if agent.temperature is None else agent.temperature
        texts = ((message.source, message.text) for message in inbox)
        request = render_request(question.input, _render_instructions(agent), texts)
        messages = [ChatMessage.system(SHARED_SYSTEM), ChatMessage.user(request)]
        replies: list[Reply] = []
        uses: list[ToolUse] = []
        while True:
            turn = len(replies)
            tools = tuple(tool.spec for tool in tools_by_name.values()) if turn < max_turns else ()
            try:
                reply = await model.generate(
                    messages,
                    scope=_make_turn_scope(scope, turn),
                    model=agent.model,
                    tools=tools,
                    temperature=agent_temperature,
                )
            except ModelError as error:
                error.cost = sum_usages([*(earlier.usage for earlier in replies), get_error_cost(error)])
                raise
            replies.append(reply)
            if not (tools and reply.tool_calls):
                return _make_step(agent, inbox, scope, replies, uses)
            messages.append(reply.message)
            for index, call in enumerate(reply.tool_calls):
                if index < MOST_CALLS:
                    use = await _use_tool(call, tools_by_name, _make_turn_scope(scope, turn, index))
                else:
                    use = _refuse_call(call)
                uses.append(use)
                messages.append(ChatMessage.tool(call, use.result))

    return act


def render_request(task: str, instructions: str, inbox: Iterable[tuple[str, str]]) -> str:
    """Render a task, an agent's instructions, and the texts that others sent it, each with its source.

    Neither the task nor a text can forge the tags between which they stand.
    """
    texts = "\n\n".join(f"From {source}:\n{text}" for source, text in inbox)
    request = f"<task>\n{quote_tags(task, TAGS).strip()}\n</task>\n\n{instructions.strip()}"
    if not texts:
        return request
    return f"{request}\n\n{SENT}\n<messages>\n{quote_tags(texts, TAGS).strip()}\n</messages>\n\n{CLOSING}"


class AgentRequest(NamedTuple):
    """The parts of an agent's request: the task, its instructions, and what others sent it."""

    task: str
    instructions: str
    sent: str


def split_request(text: str) -> AgentRequest | None:
    """Split what `render_request` has rendered; None for other texts."""
    found = _REQUEST.fullmatch(text)
    return AgentRequest(found["task"], found["instructions"], found["sent"] or "") if found else None


def _render_instructions(agent: Agent) -> str:
    if not agent.memory:
        return agent.prompt
    return agent.prompt + "\n\nNotes from earlier work:" + "".join(f"\n- {note}" for note in agent.memory)


def _make_turn_scope(scope: Scope, turn: int, call: int | None = None) -> Scope:
    """Make the scope of a call inside the loop: `solve`, its tool calls `solve#0.0`, `solve#0.1`, then `solve#1`."""
    if call is not None:
        return scope.at(node=f"{scope.node}#{turn}.{call}")
    return scope.at(node=f"{scope.node}#{turn}") if turn else scope


def _get_tools(agent: Agent, toolbox: Toolbox) -> dict[str, Tool]:
    missing = [name for name in agent.tools if name not in toolbox]
    if missing:
        there = ", ".join(sorted(toolbox)) or "none"
        raise ConfigError(f"agent {agent.id!r} holds tool {missing[0]!r}, which this run lacks; its tools are {there}")
    return {name: toolbox[name] for name in agent.tools}


async def _use_tool(call: ToolCall, tools_by_name: Mapping[str, Tool], scope: Scope) -> ToolUse:
    try:
        if call.name not in tools_by_name:
            raise ToolError(f"there is no tool {call.name!r}; your tools are {', '.join(tools_by_name)}")
        if not isinstance(call.arguments, Mapping):
            raise ToolError(f"arguments must be a JSON object, not {call.arguments!r}")
        return await call_tool(tools_by_name[call.name], to_plain_json(call.arguments), scope=scope)
    except ToolError as complaint:
        return ToolUse(name=call.name, arguments=call.arguments, result=f"error: {complaint}", error=True)


def _refuse_call(call: ToolCall) -> ToolUse:
    result = f"error: not run, as a reply may call at most {MOST_CALLS} tools; call those that you still need again"
    return ToolUse(name=call.name, arguments=call.arguments, result=result, error=True)


def _make_step(
    agent: Agent, inbox: Sequence[Message], scope: Scope, replies: Sequence[Reply], uses: Sequence[ToolUse]
) -> Step:
    skills = dict.fromkeys(str(skill) for reply in replies for skill in reply.metadata.get("skills", ()))
    return Step(
        node=scope.node,
        agent=agent.id,
        visit=scope.visit,
        inbox=tuple(inbox),
        output=replies[-1].content,
        tools=tuple(uses),
        usage=replies[0].usage if len(replies) == 1 else sum_usages(reply.usage for reply in replies),
        skills=tuple(skills),
    )
