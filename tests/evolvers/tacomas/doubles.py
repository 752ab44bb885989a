"""Doubles for TacoMAS's tests: a scripted model, rounds and teams by hand."""

from collections.abc import Callable

from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Message, Step, ToolUse, Trajectory
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.tacomas.initial_team import make_initial_team
from tests.scripted import Answer, ScriptedModel, prompts

PROMPTS = prompts("tacomas")
QUESTION = Question(id="q1", input="Which bridge is longer?")


def meta_model(**script: Answer | Callable[[str, Scope], Answer]) -> tuple[PromptedModel, ScriptedModel]:
    model = ScriptedModel(**script)
    return PromptedModel(model, PROMPTS), model


def team() -> Team:
    return make_initial_team(PROMPTS, tools=("search", "calculator"))


def step(node: str, output: str = "found it", *, error: str | None = None, tool_fails: bool = False) -> Step:
    tools = (ToolUse(name="search", arguments={}, result="boom", error=True),) if tool_fails else ()
    inbox = (Message(source="planner", target=node, text="please"),)
    return Step(node=node, agent=node, output="" if error else output, error=error, tools=tools, inbox=inbox)


def done(*steps: Step, answer: str | None = "the red one") -> Trajectory:
    error = None if answer is not None else "the sink failed"
    return Trajectory(question=QUESTION, workflow="w", steps=steps, answer=answer, error=error)
