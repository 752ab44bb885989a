"""A model that answers by the schema that is asked for, as a test's script says."""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from pydantic import BaseModel

from selfwire.core.chat import ChatMessage, Prompts, Reply
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage

ONE_CALL = Usage(calls=1)

Answer = BaseModel | Exception
Script = Mapping[str, Answer | Callable[[str, Scope], Answer]]


class ScriptedModel:
    """Answers by the name of the schema; keeps what it was asked: schema, user message, scope, role."""

    def __init__(self, **script: Answer | Callable[[str, Scope], Answer]) -> None:
        self.script: Script = script
        self.asked: list[tuple[str, str, Scope, str]] = []

    async def generate_structured(
        self, schema: type[Schema], messages: Sequence[ChatMessage], *, scope: Scope, role: str = "meta", **_: Any
    ) -> tuple[Schema, Usage]:
        self.asked.append((schema.__name__, messages[-1].content, scope, role))
        answer = self.script[schema.__name__]
        if callable(answer):
            answer = answer(messages[-1].content, scope)
        if isinstance(answer, Exception):
            raise answer
        assert issubclass(schema, type(answer))
        return schema.model_validate(answer.model_dump()), ONE_CALL

    async def generate(self, *_: Any, **__: Any) -> Reply:
        raise AssertionError("only objects are asked for here")

    def names(self) -> list[str]:
        """Names of the schemas that were asked for, in order."""
        return [name for name, *_ in self.asked]

    def shown(self, schema: str) -> list[str]:
        """The user messages of the asks for a schema."""
        return [text for name, text, *_ in self.asked if name == schema]


def section(text: str, name: str) -> str:
    """A section of a prompt; empty if there is none."""
    found = re.search(rf"<{name}>\n(.*)\n</{name}>", text, re.DOTALL)
    return found[1] if found else ""


def prompts(method: str) -> Prompts:
    """The evolver prompts of a method."""
    return Prompts(
        texts={
            file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
            for file in files("selfwire.evolvers").joinpath("prompts", method).iterdir()
            if file.name.endswith(".md")
        }
    )
