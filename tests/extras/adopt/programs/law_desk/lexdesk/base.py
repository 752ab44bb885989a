from __future__ import annotations

from abc import ABC, abstractmethod
from textwrap import dedent
from typing import ClassVar

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI

from .settings import settings
from .state import Matter


class Lawyer(ABC):
    """A lawyer reads a matter and gives a first opinion."""

    name: ClassVar[str]
    model_name: ClassVar[str] = settings.default_model
    persona: ClassVar[str] = "You are a careful lawyer who never promises an outcome."
    closing: ClassVar[str] = "End with the sentence: This is not legal advice."

    def __init__(self) -> None:
        self.llm = ChatOpenAI(model=self.model_name, timeout=settings.timeout)

    @property
    @abstractmethod
    def field(self) -> str:
        """The field of law this lawyer works in."""

    def instructions(self, matter: Matter) -> list[str]:
        return [f"Your field is {self.field}.", dedent(
            """\
            Structure the opinion like this:
              1. facts that matter
              2. the law in one paragraph
              3. what the client should do this week"""
        )]

    def prompt(self, matter: Matter) -> list[BaseMessage]:
        head = "\n\n".join([self.persona, *self.instructions(matter), self.closing])
        return [SystemMessage(content=head), HumanMessage(content=self.describe(matter))]

    def describe(self, matter: Matter) -> str:
        return f"Client: {matter.client}\nStory: {matter.story}"

    def __call__(self, matter: Matter) -> dict:
        return {"opinions": {self.name: self.llm.invoke(self.prompt(matter)).text}}


class DeadlineMixin:
    limit_days: ClassVar[int] = 21

    def instructions(self, matter: Matter) -> list[str]:
        return super().instructions(matter) + [
            f"Check whether the limitation period of {self.limit_days} days has already run out, and say so first."
        ]


class PlainLanguageMixin:
    closing = "End with a summary that a twelve year old understands."

    def describe(self, matter: Matter) -> str:
        text = super().describe(matter)
        return text + "\n(The client has asked for plain language.)"
