from abc import ABC, abstractmethod
from typing import ClassVar

from langchain_core.messages import SystemMessage
from langchain_openai import ChatOpenAI

REGISTRY: dict[str, type["BaseAgent"]] = {}


class BaseAgent(ABC):
    """Base of all agents."""

    name: ClassVar[str]
    preamble = "You belong to the kitchen team."

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        REGISTRY[cls.name] = cls

    def __init__(self):
        self.llm = ChatOpenAI(model="gpt-5-mini")

    @property
    @abstractmethod
    def task(self) -> str:
        """The task of the agent."""

    def __call__(self, state):
        reply = self.llm.invoke([SystemMessage(f"{self.preamble}\n{self.task}"), *state["messages"]])
        return {"messages": [reply]}
