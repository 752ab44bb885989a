"""The HTTP client of models that speak OpenAI's protocol."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from openai import DefaultAsyncHttpxClient

_LoopClient = tuple[DefaultAsyncHttpxClient, AsyncGenerator[None]]
_clients: dict[asyncio.AbstractEventLoop, asyncio.Task[_LoopClient]] = {}
"""The task that makes each loop's client, which all models share, and the generator that closes it."""


class ClientPerLoop(DefaultAsyncHttpxClient):
    """Sends requests by a client of the running event loop, so that one model serves several `asyncio.run` in turn.

    A pooled connection belongs to the loop that opened it, and LangChain shares one pool among all models of a
    server: a second loop would use the first one's connections and fail with "Event loop is closed".
    """

    async def send(self, *request: Any, **options: Any) -> Any:
        """Like `httpx.AsyncClient.send`."""
        loop = asyncio.get_running_loop()
        if loop not in _clients:
            _clients[loop] = loop.create_task(_make_client(loop))
        client, _ = await asyncio.shield(_clients[loop])  # the first caller may be cancelled while others wait
        return await client.send(*request, **options)


async def _make_client(loop: asyncio.AbstractEventLoop) -> _LoopClient:
    """Make a client in a thread, as it reads certificates: 30 ms of CPU."""
    try:
        client = await asyncio.to_thread(DefaultAsyncHttpxClient)
        closing = _until_end(loop, client)
        await anext(closing)
    except BaseException:
        del _clients[loop]
        raise
    return client, closing


async def _until_end(loop: asyncio.AbstractEventLoop, client: DefaultAsyncHttpxClient) -> AsyncGenerator[None]:
    """Close the client at the end: a loop closes its generators before it ends."""
    try:
        yield
    finally:
        del _clients[loop]
        await client.aclose()
