"""The one place where models are asked."""

import asyncio
from functools import lru_cache
from importlib import resources

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI

from office import texts


@lru_cache
def load(name: str) -> str:
    return resources.read_text(texts, f"{name}.txt")


class Client:
    def __init__(self, model: str = "gpt-4o"):
        self.chat = ChatOpenAI(model=model)

    async def complete(self, *parts: str, rules: tuple[str, ...] = ("Be exact.",), **values: str) -> str:
        messages = [SystemMessage(rule) for rule in rules]
        messages.append(HumanMessage("\n".join(parts).format(**values)))
        return (await asyncio.to_thread(self.chat.invoke, messages)).text

    async def race(self, system: str, user: str) -> str:
        both = [
            asyncio.to_thread(self.chat.invoke, [("system", system), ("human", user)]),
            asyncio.to_thread(self.chat.invoke, f"In one line: {user}"),
        ]
        done = await asyncio.gather(*both)
        return done[0].text


client = Client()
