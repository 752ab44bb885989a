import asyncio
from functools import wraps
from typing import Awaitable, Callable, ParamSpec, TypeVar

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from app.core import llm_factory, settings

P = ParamSpec("P")
T = TypeVar("T")


def with_fallback(message: str):
    """Return a fixed update if the node fails."""

    def deco(fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @wraps(fn)
        async def inner(*args, **kwargs):
            try:
                return await asyncio.wait_for(fn(*args, **kwargs), 60)
            except asyncio.TimeoutError:
                return {"report": message}

        return inner

    return deco


def chat(system: str, *human: str) -> list[BaseMessage]:
    return [SystemMessage(content=system)] + [HumanMessage(content=h) for h in human]


async def ask(system: str, *human: str) -> str:
    llm = llm_factory(settings.model)
    return (await llm.ainvoke(chat(system, *human))).text
