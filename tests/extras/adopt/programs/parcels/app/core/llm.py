from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class LLMFactory:
    _instances: dict[str, "BaseChatModel"] = {}

    def __call__(self, name: str) -> "BaseChatModel":
        from langchain_openai import ChatOpenAI

        if name not in self._instances:
            self._instances[name] = ChatOpenAI(model=name)
        return self._instances[name]


llm_factory = LLMFactory()
