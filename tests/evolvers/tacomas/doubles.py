"""Doubles for TacoMAS's tests: a scripted model, rounds and teams by hand."""

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files

from pydantic import BaseModel

from selfwire.core.chat import ChatMessage, Reply, ToolSpec
from selfwire.core.ports import Schema
from selfwire.core.prompts import Prompts
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step, ToolUse, Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.tacomas.coach import Coach
from selfwire.evolvers.tacomas.seed import seed

PROMPTS = Prompts(
    texts={
        file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
        for file in files("selfwire.evolvers").joinpath("prompts", "tacomas").iterdir()
        if file.name.endswith(".md")
    }
)
QUESTION = Question(id="q1", input="Which bridge is longer?")
ONE_CALL = Usage(calls=1)

Answer = BaseModel | Exception


class ScriptedModel:
    """Answers by the name of the schema; keeps what it was asked."""

    def __init__(self, **script: Answer | Callable[[str, Scope], Answer]) -> None:
        self.script: Mapping[str, Answer | Callable[[str, Scope], Answer]] = script
        self.asked: list[tuple[str, str, Scope, str]] = []

    async def ask(
        self,
        schema: type[Schema],
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "meta",
        temperature: float | None = None,
    ) -> tuple[Schema, Usage]:
        self.asked.append((schema.__name__, messages[-1].content, scope, role))
        answer = self.script[schema.__name__]
        if callable(answer):
            answer = answer(messages[-1].content, scope)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, schema)
        return answer, ONE_CALL

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "agent",
        tools: Sequence[ToolSpec] = (),
        temperature: float | None = None,
    ) -> Reply:
        raise AssertionError("only objects are asked for here")

    def names(self) -> list[str]:
        """Names of the schemas that were asked for, in order."""
        return [name for name, *_ in self.asked]


def coach(**script: Answer | Callable[[str, Scope], Answer]) -> tuple[Coach, ScriptedModel]:
    """A coach over a scripted model."""
    model = ScriptedModel(**script)
    return Coach(model, PROMPTS), model


def team() -> Workflow:
    """The initial team, holding two tools."""
    return seed(PROMPTS, tools=("search", "calculator"))


def step(node: str, output: str = "found it", *, error: str | None = None, tool_fails: bool = False) -> Step:
    """What an agent did, at the node of its name."""
    tools = (ToolUse(name="search", arguments={}, result="boom", error=True),) if tool_fails else ()
    inbox = (Message(source="planner", target=node, text="please"),)
    return Step(node=node, agent=node, output="" if error else output, error=error, tools=tools, inbox=inbox)


def done(*steps: Step, answer: str | None = "the red one") -> Trajectory:
    """A round."""
    error = None if answer is not None else "the sink failed"
    return Trajectory(question=QUESTION, workflow="w", steps=steps, answer=answer, error=error)
