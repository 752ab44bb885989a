"""The HTTP clients of models that speak OpenAI's protocol. They share certificates, as reading these takes 30 ms."""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncGenerator
from functools import lru_cache
from importlib import import_module
from typing import Any

from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

CONNECTIONS = 8
"""Requests that one client has under way: before each, the HTTP library looks at all connections that a client keeps,
which with those of 64 requests at once took half as much CPU as the call itself."""
IDLE = 5.0
"""Seconds after which a client without requests is closed; its connections are not used again by then."""
_Pools = tuple["_ClientPool", AsyncGenerator[None]]
_pools: dict[asyncio.AbstractEventLoop, asyncio.Task[_Pools]] = {}
"""The task that makes each loop's clients, which all models share, and the generator that closes them."""


def load_certificates() -> ssl.SSLContext:
    """What the HTTP library trusts by default; it is read once, unless the environment names other certificates."""
    return _load_certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache
def _load_certificates(*_named: str | None) -> ssl.SSLContext:
    library = import_module(DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])  # httpx before openai 3
    loaded: ssl.SSLContext = library.create_ssl_context()
    return loaded


def make_client() -> DefaultHttpxClient:
    """A client for calls that are not awaited."""
    return DefaultHttpxClient(verify=load_certificates())


class ClientPerLoop(DefaultAsyncHttpxClient):
    """Sends requests by a client of the running event loop, so that one model serves several `asyncio.run` in turn.

    A pooled connection belongs to the loop that opened it, and LangChain shares one pool among all models of a
    server: a second loop would use the first one's connections and fail with "Event loop is closed".
    """

    def __init__(self) -> None:
        super().__init__(verify=load_certificates())

    async def send(self, *request: Any, **options: Any) -> Any:
        """Like `httpx.AsyncClient.send`."""
        loop = asyncio.get_running_loop()
        if loop not in _pools:
            _pools[loop] = loop.create_task(_make_pool(loop))
        pool, _ = await asyncio.shield(_pools[loop])  # the first caller may be cancelled while others wait
        return await pool.send(*request, **options)


class _ClientPool:
    """The clients of one loop: a request goes to the first one that has room, else to a new one.

    Streams go to the first, which stays, as the end of one is not seen here.
    """

    def __init__(self, certificates: ssl.SSLContext) -> None:
        self._certificates = certificates
        self._first = self._make_client()
        self._busy = {self._first: 0}
        self._used: dict[DefaultAsyncHttpxClient, float] = {}

    def _make_client(self) -> DefaultAsyncHttpxClient:
        return DefaultAsyncHttpxClient(verify=self._certificates)

    async def send(self, *request: Any, **options: Any) -> Any:
        """Like `httpx.AsyncClient.send`."""
        if options.get("stream"):
            return await self._first.send(*request, **options)
        client = next((one for one, busy in self._busy.items() if busy < CONNECTIONS), None) or self._make_client()
        self._busy[client] = self._busy.get(client, 0) + 1
        try:
            return await client.send(*request, **options)
        finally:
            self._busy[client] -= 1
            self._used[client] = time.monotonic()
            await self._close_idle()

    async def _close_idle(self) -> None:
        since, others = time.monotonic() - IDLE, [*self._used]
        idle = [one for one in others if not self._busy[one] and self._used[one] < since and one is not self._first]
        for client in idle:  # before another task can give one of them a request
            del self._busy[client], self._used[client]
        for client in idle:
            await client.aclose()

    async def aclose(self) -> None:
        """Close all clients."""
        for client in self._busy:
            await client.aclose()


async def _make_pool(loop: asyncio.AbstractEventLoop) -> _Pools:
    """Make a loop's clients; certificates are read in a thread."""
    try:
        pool = _ClientPool(await asyncio.to_thread(load_certificates))
        closing = _until_end(loop, pool)
        await anext(closing)
    except BaseException:
        del _pools[loop]
        raise
    return pool, closing


async def _until_end(loop: asyncio.AbstractEventLoop, pool: _ClientPool) -> AsyncGenerator[None]:
    """Close the clients at the end: a loop closes its generators before it ends."""
    try:
        yield
    finally:
        del _pools[loop]
        await pool.aclose()
