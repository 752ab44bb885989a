from abc import ABC, abstractmethod
from string import Template
from typing import Any, ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

REGISTRY: dict[str, type["BaseAgent"]] = {}


def register(cls):
    REGISTRY[cls.key] = cls
    return cls


class BaseAgent(ABC):
    key: ClassVar[str]
    role: ClassVar[str] = "You help in an artist's studio."
    template: ClassVar[Template]

    def __init__(self, llm: BaseChatModel, *, extra: str = ""):
        self.llm = llm
        self.extra = extra

    def system(self) -> str:
        return f"{self.role}\n{self.extra}".strip()

    @abstractmethod
    def variables(self, state: dict) -> dict[str, Any]: ...

    @abstractmethod
    def update(self, state: dict, text: str) -> dict: ...

    def __call__(self, state: dict) -> dict:
        prompt = self.template.substitute(self.variables(state))
        reply = self.llm.invoke([SystemMessage(self.system()), HumanMessage(prompt)])
        return self.update(state, reply.text)
