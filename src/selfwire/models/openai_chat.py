"""OpenAI's chat models at half of LangChain's CPU time, usable without the rest of the package."""

import asyncio
import json
import os
import ssl
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from importlib import import_module
from itertools import chain
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models import base
from langchain_openai.chat_models.base import BaseChatOpenAI
from openai import APIError, BadRequestError, DefaultAsyncHttpxClient, DefaultHttpxClient
from openai._constants import RAW_RESPONSE_HEADER
from openai.resources.chat import AsyncCompletions

from selfwire.core.errors import ModelError
from selfwire.core.text import mask_json
from selfwire.models.tracing import QuietChat

_http: Any = import_module(DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])
"""The HTTP library of `openai`: httpx before openai 3."""
LARGEST_BODY = 2**25
"""Most bytes of a reply after unpacking."""
CODINGS = ("gzip", "deflate")
"""Packed forms of a body that are read, as the HTTP library unpacks them piece by piece."""
CONNECTIONS = 8
"""Most simultaneous requests of a client. Before each request the HTTP library searches all connections of the client,
which with 64 requests at once took half as much CPU as the call itself."""
IDLE = 5.0
"""Seconds after which a client without requests is closed; its connections have expired by then."""
_Pools = tuple["_ClientPool", AsyncGenerator[None]]
_pools: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[_Pools]] = {}
"""The task that makes the clients of each loop and proxy, shared by all models, and the generator that closes them."""


def load_certificates() -> ssl.SSLContext:
    """Load the HTTP library's default certificates; they are read once for each setting of the environment."""
    return _load_certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache
def _load_certificates(*_named: str | None) -> ssl.SSLContext:
    loaded: ssl.SSLContext = _http.create_ssl_context()
    return loaded


def make_client() -> DefaultHttpxClient:
    """Make a client for synchronous calls, which follows no redirect."""
    return DefaultHttpxClient(verify=load_certificates(), follow_redirects=False)


def serve_every_loop(model: BaseChatModel) -> BaseChatModel:
    """Replace the HTTP client of a `langchain-openai` model by `ClientPerLoop`; other models stay unchanged.

    A model with a user's own HTTP client or a patched client stays unchanged too.
    """
    if not isinstance(model, BaseChatOpenAI) or (model.http_async_client is not None and not model.openai_proxy):
        return model
    root, completions = model.root_async_client, model.async_client
    if type(completions) is not AsyncCompletions or "create" in vars(completions):
        return model
    root = root.with_options(http_client=ClientPerLoop(model.openai_proxy or ""))
    return model.model_copy(update={"root_async_client": root, "async_client": root.chat.completions})


def has_own_clients(model: BaseChatModel) -> bool:
    """Whether a `langchain-openai` model uses an asynchronous HTTP client that a user gave to it.

    As LangChain says, such a client serves asynchronous calls only, and synchronous ones are the synchronous client's.
    """
    if not isinstance(model, BaseChatOpenAI) or model.openai_proxy:  # LangChain makes the clients of a proxy
        return False
    return model.root_client is not None and not isinstance(model.http_async_client, ClientPerLoop | None)


class ClientPerLoop(DefaultAsyncHttpxClient):
    """An HTTP client that sends each request by a client of the running event loop.

    With it, a single model serves several `asyncio.run` in turn.

    A pooled connection belongs to the loop that opened it, and LangChain shares one pool among all models of a
    server: a second loop would use the first one's connections and fail with "Event loop is closed".
    """

    def __init__(self, proxy: str = "") -> None:
        super().__init__(verify=load_certificates())
        self._proxy_address = proxy

    async def send(self, *request: Any, **options: Any) -> Any:
        """Like `httpx.AsyncClient.send`."""
        loop = asyncio.get_running_loop()
        key = loop, self._proxy_address
        if key not in _pools:
            _pools[key] = loop.create_task(_make_pool(*key))
        pool, _ = await asyncio.shield(_pools[key])  # the first caller may be cancelled while others wait
        return await pool.send(*request, **options)


class _BoundedBody(_http.AsyncByteStream):  # type: ignore[misc]
    """The unpacked body of a response, which ends with an error beyond `LARGEST_BODY`."""

    def __init__(self, response: Any) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        size = 0
        async for piece in self._response.aiter_bytes():
            if size:
                await asyncio.sleep(0)  # one packet may hold many pieces, and a timeout acts only between them
            size += len(piece)
            if size > LARGEST_BODY:
                raise ModelError(
                    f"the server sent a reply of more than {LARGEST_BODY // 2**20} MiB; "
                    "ask for shorter replies (max_tokens), or use another server"
                )
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


class _BoundedClient(DefaultAsyncHttpxClient):
    """An HTTP client that follows no redirect and reads at most `LARGEST_BODY` bytes of a reply."""

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Like `httpx.AsyncClient.send`; raises ModelError for a redirect, an unknown coding or a long body."""
        request.headers["Accept-Encoding"] = ", ".join(CODINGS)
        response = await super().send(request, stream=True, **{**options, "follow_redirects": False})
        try:
            _refuse_redirect(response)
            _refuse_coding(response)
            kept = [
                (name, value)
                for name, value in response.headers.multi_items()
                if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
            ]
            bounded = _http.Response(
                response.status_code,
                headers=kept,
                stream=_BoundedBody(response),
                request=response.request,
                extensions=response.extensions,
            )
            if not stream:
                await bounded.aread()
        except BaseException:
            await response.aclose()
            raise
        return bounded


def _refuse_redirect(response: Any) -> None:
    if response.has_redirect_location:
        raise ModelError(
            f"the server answered {response.status_code} and redirects to {_find_host(response)}, "
            "which is not followed; name the address of the server that answers (--base-url)"
        )


def _find_host(response: Any) -> str:
    """Find the host of a redirect, without path and user, which may be secret."""
    try:
        return str(response.url.join(response.headers["location"]).host)
    except Exception:  # noqa: BLE001 - the server may send anything
        return "an address that cannot be read"


def _refuse_coding(response: Any) -> None:
    packed = [name.strip().lower() for name in response.headers.get("content-encoding", "").split(",")]
    if unknown := [name for name in packed if name not in ("", "identity", *CODINGS)]:
        asked = " or ".join(CODINGS)
        raise ModelError(f"the server sent a body packed by {unknown[0][:40]!r}, where {asked} was asked for")
    if len([name for name in packed if name in CODINGS]) > 1:
        raise ModelError("the server sent a body that is packed more than once; use another server")


class _ClientPool:
    """The clients of an event loop: a request goes to the first client with room, else to a new client.

    Streams go to the first client, which is never closed before the loop ends, since the pool does not notice the end
    of a stream.
    """

    def __init__(self, certificates: ssl.SSLContext, proxy: str) -> None:
        self._certificates, self._proxy = certificates, proxy
        self._first = self._make_client()
        self._busy = {self._first: 0}
        self._used: dict[DefaultAsyncHttpxClient, float] = {}

    def _make_client(self) -> DefaultAsyncHttpxClient:
        return _BoundedClient(verify=self._certificates, proxy=self._proxy or None)

    async def send(self, *request: Any, **options: Any) -> Any:
        """Like `httpx.AsyncClient.send`."""
        if options.get("stream"):
            return await self._first.send(*request, **options)
        free = (client for client, busy in self._busy.items() if busy < CONNECTIONS)
        client = next(free, None) or self._make_client()
        self._busy[client] = self._busy.get(client, 0) + 1
        try:
            return await client.send(*request, **options)
        finally:
            self._busy[client] -= 1
            self._used[client] = time.monotonic()
            since, closable = time.monotonic() - IDLE, [client for client in self._used if client is not self._first]
            idle = [client for client in closable if not self._busy[client] and self._used[client] < since]
            for client in idle:  # before another task can use an idle client
                del self._busy[client], self._used[client]
            for client in idle:
                await client.aclose()

    async def aclose(self) -> None:
        """Close all clients."""
        for client in self._busy:
            await client.aclose()


async def _make_pool(loop: asyncio.AbstractEventLoop, proxy: str) -> _Pools:
    """Make the clients of a loop and proxy; certificates are read in a thread."""
    try:
        pool = _ClientPool(await asyncio.to_thread(load_certificates), proxy)
        closing = _close_at_end(loop, proxy, pool)
        await anext(closing)
    except BaseException:
        del _pools[loop, proxy]
        raise
    return pool, closing


async def _close_at_end(loop: asyncio.AbstractEventLoop, proxy: str, pool: _ClientPool) -> AsyncGenerator[None]:
    """Close the clients when the loop ends, as a loop closes its generators first."""
    try:
        yield
    finally:
        del _pools[loop, proxy]
        await pool.aclose()


OPENAI_HOSTS = (".openai.com", ".openai.azure.com")
"""Hosts that read the limit of a reply from `max_completion_tokens`."""
FIRST_FIELDS = ("model", "stream", "service_tier", "messages")
"""Fields that the client sends first, in its order; the others follow by name."""
POST_OPTIONS = {"timeout": "timeout", "extra_headers": "headers", "extra_query": "params"}
"""Parts of a payload outside the body, with their names for the client's `post`."""
PRIVATE_FUNCTIONS = ("_handle_openai_bad_request", "_handle_openai_api_error", "_add_gateway_metadata")
HAS_PRIVATE_FUNCTIONS = all(hasattr(base, name) for name in PRIVATE_FUNCTIONS)
"""Whether this release of LangChain has the private functions in `PRIVATE_FUNCTIONS`."""


class OpenAIChat(QuietChat, ChatOpenAI):
    """A `ChatOpenAI` that sends requests unchanged, reads replies as JSON, and serves several event loops.

    `openai`'s client searches every message for names to translate, although messages have none, and builds typed
    objects from the reply, which LangChain takes apart again in another thread. This class passes the body to the
    client's `post`, and reads the reply as JSON. Requests are equal to `ChatOpenAI`'s to the byte, except that servers
    other than OpenAI's get `max_tokens`: llama.cpp's Python server, among others, ignores `max_completion_tokens`. A
    call that names `max_completion_tokens` itself sends that.
    Streams, response formats and the Responses API are left to `ChatOpenAI`.
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of `ChatOpenAI`; without an HTTP client or a proxy, use clients that serve every loop."""
        if not {"http_async_client", "openai_proxy"} & {*options} and not os.environ.get("OPENAI_PROXY"):
            options = {"http_client": make_client(), **options, "http_async_client": ClientPerLoop()}
        super().__init__(**options)

    @cached_property
    def _serialized(self) -> dict[str, Any]:
        """The model as tracers show it, without the secrets of its address."""
        shown: dict[str, Any] = mask_json(super()._serialized)
        return shown

    def _get_request_payload(self, *messages: Any, **options: Any) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(*messages, **options)
        if "max_completion_tokens" in payload and not ("max_completion_tokens" in options or self._is_openais()):
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        return payload

    def _is_openais(self) -> bool:
        return str(self.root_async_client.base_url.host).endswith(OPENAI_HOSTS)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        """Generate as `ChatOpenAI` does, with the same errors."""
        payload = self._get_request_payload(messages, stop=stop, **options)
        others = payload.get("stream") or "response_format" in payload or self._use_responses_api(payload)
        if others or self.include_response_headers or not (HAS_PRIVATE_FUNCTIONS and _is_untouched(self.async_client)):
            return await super()._agenerate(messages, stop, run_manager, **options)
        sent = {option: payload.pop(name) for name, option in POST_OPTIONS.items() if name in payload}
        sent["headers"] = {**(sent.get("headers") or {}), RAW_RESPONSE_HEADER: "true"}
        more = payload.pop("extra_body", None) or {}
        first = {name: payload.pop(name) for name in FIRST_FIELDS if name in payload}
        body = {**first, **dict(sorted(payload.items())), **more}
        try:
            response: Any = await self.root_async_client.post(
                "/chat/completions", cast_to=object, body=body, options=sent
            )
        except BadRequestError as error:
            base._handle_openai_bad_request(error)
        except APIError as error:
            base._handle_openai_api_error(error)
        answer = response.parse(to=object)
        if isinstance(answer, dict):
            if answer.get("choices"):
                answer.setdefault("system_fingerprint", None)
                _mark_odd_arguments(answer)
        else:
            answer = response.parse()
        notes: dict[str, Any] = {}
        base._add_gateway_metadata(notes, response)
        return self._create_chat_result(answer, notes)


def _mark_odd_arguments(answer: dict[str, Any]) -> None:
    """Mark arguments of tool calls that are no object as no JSON, since LangChain refuses the whole reply for them.

    It then keeps a broken call with their text, and a reply that is paid for counts.
    """
    with suppress(AttributeError, KeyError, TypeError, RecursionError):  # LangChain says what is wrong with other forms
        for call in chain.from_iterable(choice["message"].get("tool_calls") or () for choice in answer["choices"]):
            given = call["function"]["arguments"]
            text = given if isinstance(given, str) else json.dumps(given)
            with suppress(ValueError, RecursionError):
                if not isinstance(json.loads(text or "{}", strict=False) or {}, dict):
                    text = f"{text} is no JSON object"
            call["function"]["arguments"] = text


def _is_untouched(completions: Any) -> bool:
    """Whether `openai`'s own code sends requests; a user's own or a traced client gets whole requests."""
    return type(completions) is AsyncCompletions and _is_openais_code(AsyncCompletions.create)


@cache
def _is_openais_code(create: Any) -> bool:
    import openai

    code = getattr(create, "__code__", None)
    return code is not None and code.co_filename.startswith(openai.__path__[0])
