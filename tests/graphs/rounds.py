"""Doubles for teams that work in rounds: a model that speaks by script, and the chat model that does so too."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.errors import ModelError
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from tests.request_parts import read_instructions

Script = Mapping[str, Sequence[dict[str, Any] | str]]
"""What each member says by round, the last line over and over; a text is the error with which it fails."""

MATH: Script = {
    "ProblemParser": [{"public": "Given: 3 and 4.", "private": "plan: add", "query": "the task",
                       "key": "problem analysis and solving plan"}],
    "Solver": [
        {"public": "I wait for the plan.", "query": "problem analysis and solving plan", "key": "nothing yet"},
        {"public": "3 + 4 = 7", "private": "3 + 4 = 7", "answer": "7",
         "query": "", "key": "detailed solution to verify"},
    ],
    "Verifier": [
        {"public": "Nothing to check.", "query": "detailed solution to verify", "key": "", "verdict": "open"},
        {"public": "Nothing to check.", "query": "detailed solution to verify", "key": "", "verdict": "open"},
        {"public": "It holds.", "query": "", "key": "verification", "verdict": "pass"},
    ],
    "Manager": [
        {"is_complete": False, "next_goal": "Solve it.", "public": "begun"},
        {"is_complete": True, "next_goal": "Verify it.", "public": "solved"},
        {"is_complete": True, "next_goal": "", "public": "verified"},
    ],
}  # fmt: skip


class SpokenModel:
    """Answers asks by script; keeps what it was shown, and how many were at it at once."""

    def __init__(self, script: Script = MATH) -> None:
        self.script = script
        self.asked: list[tuple[str, int, str]] = []
        self.systems: dict[tuple[str, int], str] = {}
        self.temperatures: set[float | None] = set()
        self.schemas: dict[str, str] = {}
        self.busy = self.peak = 0

    async def generate_structured(
        self,
        schema: type[Schema],
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        temperature: float | None = None,
        **_: Any,
    ) -> tuple[Schema, Usage]:
        self.asked.append((scope.node, scope.visit, messages[-1].content))
        self.systems[scope.node, scope.visit] = read_instructions(messages[0].content, messages[1].content)
        self.temperatures.add(temperature)
        self.schemas[scope.node] = schema.__name__
        self.busy += 1
        self.peak = max(self.peak, self.busy)
        await asyncio.sleep(0)
        self.busy -= 1
        line = said_by(self.script, scope.node, scope.visit)
        if isinstance(line, str):
            failure = ModelError(line)
            failure.cost = Usage(calls=1) if line == "billed" else None
            raise failure
        return schema.model_validate(line), Usage(calls=1, input_tokens=10, output_tokens=2)

    async def generate(self, *_: Any, **__: Any) -> Reply:
        raise AssertionError("members of a round are asked for objects only")

    def shown(self, node: str, visit: int) -> str:
        return next(text for name, at, text in self.asked if (name, at) == (node, visit))


class SpokenChat(BaseChatModel):
    """The script as a chat model; who is asked follows from the roles' own prompts, the round from a count."""

    script: Script = Field(default_factory=lambda: MATH)
    who: dict[str, str] = Field(
        default_factory=lambda: {
            "You are the problem parser": "ProblemParser",
            "You are the solver": "Solver",
            "You are the verifier": "Verifier",
            "You lead a team": "Manager",
        }
    )
    spoken: list[str] = Field(default_factory=list)
    before: Callable[[str, int], None] | None = None

    @property
    def _llm_type(self) -> str:
        return "spoken"

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        asked = "\n".join(message.text for message in messages)
        name = next(name for beginning, name in self.who.items() if beginning in asked)
        visit = self.spoken.count(name)
        if self.before:
            self.before(name, visit)
        line = said_by(self.script, name, visit)
        self.spoken.append(name)
        if isinstance(line, str):
            raise RuntimeError(line)  # not worth a retry
        return ChatResult(generations=[ChatGeneration(message=AIMessage(json.dumps(line)))])


def said_by(script: Script, name: str, visit: int) -> dict[str, Any] | str:
    lines = script[name]
    return lines[min(visit, len(lines) - 1)]
