"""The HTTP client of models that speak OpenAI's protocol."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from openai import DefaultAsyncHttpxClient

_LoopClient = tuple[DefaultAsyncHttpxClient, AsyncGenerator[None]]
_lent: dict[asyncio.AbstractEventLoop, asyncio.Task[_LoopClient]] = {}
"""What makes the client of each loop, for all models, and what closes it."""


class ClientPerLoop(DefaultAsyncHttpxClient):
    """Sends by a client of the event loop that runs, so that one model serves one `asyncio.run` after another.

    A pooled connection belongs to the loop that opened it, and LangChain shares one pool between all models of a
    server: a second loop would take up the first one's connections and fail with "Event loop is closed".
    """

    async def send(self, *request: Any, **options: Any) -> Any:
        """Like `httpx.AsyncClient.send`."""
        loop = asyncio.get_running_loop()
        if loop not in _lent:
            _lent[loop] = loop.create_task(_made(loop))
        client, _ = await asyncio.shield(_lent[loop])  # whoever asked first may give up; others wait for it too
        return await client.send(*request, **options)


async def _made(loop: asyncio.AbstractEventLoop) -> _LoopClient:
    """A client, in a thread, as it reads certificates: 30 ms of CPU."""
    try:
        client = await asyncio.to_thread(DefaultAsyncHttpxClient)
        closing = _until_end(loop, client)
        await anext(closing)
    except BaseException:
        del _lent[loop]
        raise
    return client, closing


async def _until_end(loop: asyncio.AbstractEventLoop, client: DefaultAsyncHttpxClient) -> AsyncGenerator[None]:
    """A generator, for these are what a loop closes before it ends."""
    try:
        yield
    finally:
        del _lent[loop]
        await client.aclose()
