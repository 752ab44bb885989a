"""The HTTP clients of models that speak OpenAI's protocol. They share certificates, as reading these takes 30 ms."""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator
from functools import lru_cache
from importlib import import_module
from typing import Any

from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

_LoopClient = tuple[DefaultAsyncHttpxClient, AsyncGenerator[None]]
_clients: dict[asyncio.AbstractEventLoop, asyncio.Task[_LoopClient]] = {}
"""The task that makes each loop's client, which all models share, and the generator that closes it."""


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
        if loop not in _clients:
            _clients[loop] = loop.create_task(_make_client(loop))
        client, _ = await asyncio.shield(_clients[loop])  # the first caller may be cancelled while others wait
        return await client.send(*request, **options)


async def _make_client(loop: asyncio.AbstractEventLoop) -> _LoopClient:
    """Make a client; certificates are read in a thread."""
    try:
        client = DefaultAsyncHttpxClient(verify=await asyncio.to_thread(load_certificates))
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
