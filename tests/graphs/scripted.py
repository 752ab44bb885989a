"""A chat model that follows a script: agents answer with a count, critics and evolvers by the schema asked for."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Node, TopologyLimits, make_chain
from selfwire.graphs import hiva
from selfwire.graphs.machine import Graph
from tests.request_parts import read_instructions

SCRIPT: dict[str, dict[str, Any]] = {
    "TaskProfile": {
        "main_concept": "riddle", "broader": [], "concepts": [], "required_tools": [], "parallelizability": 0.0,
    },
    "GlobalGradient": {"feedback": "nobody checked the answer", "sentiment": "critical"},
    "AgentGradient": {
        "system_prompt_feedback": "be exact", "tool_feedback": "", "overall_feedback": "add a checker",
        "concerns": "both", "sentiment": "critical",
    },
    "PromptRewrite": {"prompt": "You work exactly."},
    "TopologyDecision": {"operation": "ADD_SERIAL", "description": "You check what others found.", "reason": "doubt"},
    "SelfCriticism": {"criticism": "it may be wrong", "sentiment": "critical", "good_enough": False},
    "Instruction": {"instruction": "Check this."},
}  # fmt: skip


class ScriptedChat(BaseChatModel):
    """Answers by script.

    Args:
        script: fields of the object for every schema; a text is the error with which it fails.
        failing: how often an agent fails yet, by the beginning of its instructions.
        calls_tool: tool that an agent who holds tools calls once, with its arguments.
    """

    script: dict[str, Any] = SCRIPT
    failing: dict[str, int] = Field(default_factory=dict)
    calls_tool: tuple[str, dict[str, Any]] | None = None
    spoken: list[str] = Field(default_factory=list)
    """Instructions of the agents that answered or failed, in order."""
    heard: list[str] = Field(default_factory=list)
    """Results of tools."""
    objects: list[str] = Field(default_factory=list)
    """Titles of the objects that were asked for."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=tools)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        said = self._object(messages[-1].text) or self._answer(messages, kwargs.get("tools"))
        return ChatResult(generations=[ChatGeneration(message=said)])

    def _object(self, wish: str) -> AIMessage | None:
        if "Reply with one JSON object" not in wish:
            return None
        title = json.loads(wish.splitlines()[-1])["title"]
        self.objects.append(title)
        said = self.script[title]
        if isinstance(said, str):
            raise RuntimeError(said)  # not worth a retry
        return AIMessage(json.dumps(said))

    def _answer(self, messages: list[BaseMessage], tools: Any) -> AIMessage:
        instructions, last = read_instructions(messages[0].text, messages[1].text), messages[-1]
        if isinstance(last, ToolMessage):
            self.heard.append(last.text)
        elif tools and self.calls_tool:
            name, arguments = self.calls_tool
            return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "1"}])
        self.spoken.append(instructions)
        for beginning, times in self.failing.items():
            if instructions.startswith(beginning) and times:
                self.failing[beginning] -= 1
                raise RuntimeError("the provider is down")  # not worth a retry
        return AIMessage(f"answer {len(self.spoken)}")


class TurnsChat(ScriptedChat):
    """Answers by script, and before that by what is left of the turns.

    Args:
        turns: for some schemas, an object per call.
    """

    turns: dict[str, list[Any]] = Field(default_factory=dict)

    def _object(self, wish: str) -> AIMessage | None:
        title = json.loads(wish.splitlines()[-1])["title"] if "Reply with one JSON object" in wish else ""
        if queue := self.turns.get(title):
            self.script = {**self.script, title: queue.pop(0)}
        return super()._object(wish)


def built(model: ScriptedChat, **options: Any) -> Graph:
    """HiVA's graph with an embedder that needs no weights."""
    return hiva.build(model, embedder="hashing", **options)


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


async def run(form: str, graph: Any, given: Any, config: Any = None, **options: Any) -> Any:
    """Invoke a graph in one of the `FORMS`."""
    if form == "sync":
        return graph.invoke(given, config, **options)
    return await graph.ainvoke(given, config, **options)


FORMS = pytest.mark.parametrize("form", ["sync", "async"])


ASKED = {"question": "What am I?"}
EVOLVE = {"evolve": True}
SOURCE = "You are a member of a team"
AGGREGATOR = "You give the team's final answer"


def trio() -> Team:
    """source -> checker -> aggregator."""
    names = ("source", "checker", "aggregator")
    return Team(
        method="hiva",
        agents=tuple(Agent(id=name, prompt=f"You are the {name}.") for name in names),
        topology=make_chain(*names, caps=TopologyLimits(nodes=12, successors=5)),  # those of HivaConfig()
    )


def fork() -> Team:
    """source -> checker and doubter -> aggregator."""
    names = ("source", "checker", "doubter", "aggregator")
    middle = [Edge(source=a, target=b) for one in names[1:3] for a, b in (("source", one), (one, "aggregator"))]
    topology = trio().topology.replace(nodes=[Node(id=name, agent=name) for name in names], edges=middle)
    return trio().replace(agents=[Agent(id=name, prompt=f"You are the {name}.") for name in names], topology=topology)
