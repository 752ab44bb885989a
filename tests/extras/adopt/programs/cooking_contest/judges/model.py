from __future__ import annotations

from functools import cache
from typing import Protocol

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_openai import ChatOpenAI


class Chat(Protocol):
    async def complete(self, system: str, user: str) -> str: ...


class LangChainChat:
    """An adapter, so that the rest of the program knows no LangChain."""

    def __init__(self, model: BaseChatModel) -> None:
        self._model = model

    async def complete(self, system: str, user: str) -> str:
        reply = await self._model.ainvoke([("system", system), ("user", user)])
        return reply.text


@cache
def get_chat(name: str = "gpt-4o-mini") -> Chat:
    return LangChainChat(ChatOpenAI(model=name))
