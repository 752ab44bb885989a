"""Tags and metadata of traces, whether anybody listens to a call, and calls that are never traced."""

import asyncio
import math
import os
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config, merge_configs, set_config_context, var_child_runnable_config
from langsmith import configure, tracing_context
from langsmith.run_trees import get_cached_client
from langsmith.utils import tracing_is_enabled
from pydantic import SecretStr
from requests import ConnectionError, PreparedRequest, Response, Session, TooManyRedirects

from selfwire.core.scope import Scope
from selfwire.core.text import mask_address, mask_json, register_secret
from selfwire.core.values import FrozenMap

T = TypeVar("T")

TAGGED = tuple((name, f"selfwire_{name}") for name in ("method", "workflow", "iteration", "phase", "agent"))
"""Labels that become both tags and metadata, with their names in the metadata."""
COORDINATES = tuple((name, f"selfwire_{name}") for name in Scope.__pydantic_fields__)
"""Fields of a scope, with their names in the metadata."""


KEYS = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
ENDPOINTS = ("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
ASKED_FOR = tuple(f"{space}_{name}" for space in ("LANGSMITH", "LANGCHAIN") for name in ("TRACING", "TRACING_V2"))
ELSEWHERE = (
    "LANGSMITH_RUNS_ENDPOINTS", "LANGSMITH_TRACING_MODE", "LANGSMITH_OTEL_ENABLED", "LANGSMITH_OTEL_ONLY",
    "LANGSMITH_PROFILE", "LANGSMITH_CONFIG_FILE",
)  # fmt: skip
"""Other settings that say where traces go."""


def silence_tracing() -> bool:
    """Turn off tracing that is requested without a key or endpoint, for child processes too; return whether it was.

    LangChain would still send its traces to the hosted service, which refuses them.
    """
    requested = any(os.environ.get(name, "").strip().lower() == "true" for name in ASKED_FOR)
    home = Path(os.path.expanduser("~"))
    profile = home.is_absolute() and (home / ".langsmith" / "config.json").exists()  # else the user has no home
    if not requested or is_set(*KEYS, *ENDPOINTS, *ELSEWHERE) or profile:
        return False
    configure(enabled=False)
    os.environ.update({name: "false" for name in ASKED_FOR if name in os.environ})  # for child processes
    return True


def is_set(*variables: str) -> bool:
    """Whether one of some variables of the environment has a value."""
    return any(os.environ.get(name, "").strip() for name in variables)


def make_trace_config(
    scope: Scope, labels: Mapping[str, str] = FrozenMap(), *, around: Mapping[str, Any] = FrozenMap()
) -> RunnableConfig:
    """Make the tags and metadata of a scope and further labels, which all runs below inherit.

    Labels and agent in the metadata of the run `around` have priority: a team knows its team, and a node its agent.
    The label `agent` is the node without turn and call (`solve` for `solve#1.0`).
    """
    all_labels = {"agent": scope.node.partition("#")[0].partition(">")[0], **labels}
    metadata = {key: value for name, key in COORDINATES if (value := getattr(scope, name)) != ""}
    for name, value in all_labels.items():
        if value != "" and (key := f"selfwire_{name}") not in around:
            metadata[key] = value
    return {"tags": [f"{name}:{metadata[key]}" for name, key in TAGGED if key in metadata], "metadata": metadata}


def mask_traces(model: BaseChatModel) -> None:
    """Mask a model's keys and the secrets of its address in all texts, and in what LangSmith shows.

    A user's own client of LangSmith with an anonymizer stays unchanged.
    """
    for name in type(model).model_fields:
        value = getattr(model, name, None)
        if isinstance(value, SecretStr):
            register_secret(value.get_secret_value())
    for name in ("openai_api_base", "base_url"):
        mask_address(str(getattr(model, name, None) or ""))
    if tracing_is_enabled():
        vars(model)["_serialized"] = mask_json(model._serialized)  # a cached property
        client = get_cached_client(anonymizer=mask_json, session=BoundedSession())
        if getattr(client, "_anonymizer", mask_json) is None:
            client._anonymizer = mask_json
        client.session.max_redirects = 0  # also of a client that was made before


LONGEST_REQUEST = 120.0
"""Most seconds of a request to LangSmith, with all that its client repeats and all pauses that the server asks for."""
LARGEST_REPLY = 2**26
"""Most bytes of a reply of LangSmith after unpacking."""
LAST_UPLOADS = 60.0
"""Most seconds in which requests to LangSmith may still begin when the process ends, for traces that are not sent."""
_PIECE = 2**16


class BoundedSession(Session):
    """A session that follows no redirect, which would carry a key and texts to another host, and whose requests end.

    A client of LangSmith asks by it from the moment it is made.
    """

    _end = math.inf
    """Time from which none of them asks any more."""

    @classmethod
    def end_soon(cls) -> None:
        """Ask no more after `LAST_UPLOADS`: threads of LangSmith's client keep a process until all traces are tried."""
        cls._end = time.monotonic() + LAST_UPLOADS

    def send(self, request: PreparedRequest, **options: Any) -> Response:
        """Like `requests.Session.send`.

        Raises:
            TooManyRedirects: the server redirects.
            requests.ConnectionError: the reply is not whole after `LONGEST_REQUEST`, or longer than `LARGEST_REPLY`; or
                the process is ending.
        """
        if time.monotonic() > self._end:
            raise ConnectionError(f"not sent within {LAST_UPLOADS:g} seconds after the end", request=request)
        done: Future[Response] = Future()

        def ask() -> None:
            try:
                done.set_result(self._send_bounded(request, **options))
            except BaseException as error:  # noqa: BLE001 - who waits gets it
                done.set_exception(error)

        threading.Thread(target=ask, name="langsmith request", daemon=True).start()
        if not wait([done], LONGEST_REQUEST).done:  # a server that sends a byte a second passes all other time limits
            raise ConnectionError(f"no whole reply within {LONGEST_REQUEST:g} seconds", request=request)
        return done.result()

    def _send_bounded(self, request: PreparedRequest, **options: Any) -> Response:
        response = super().send(request, **{**options, "stream": True, "allow_redirects": False})
        try:
            if response.is_redirect:
                raise TooManyRedirects("a redirect is not followed", response=response)
            body = bytearray()
            for piece in response.iter_content(_PIECE):
                body += piece
                if len(body) > LARGEST_REPLY:
                    raise ConnectionError(f"a reply of more than {LARGEST_REPLY // 2**20} MiB", request=request)
        finally:
            response.close()
        response._content = bytes(body)
        return response


threading._register_atexit(BoundedSession.end_soon)  # type: ignore[attr-defined]  # before its threads are waited for


def get_scope(config: RunnableConfig | None, default: Scope) -> Scope:
    """Read the scope in the metadata of the run around the call; missing coordinates are those of the default."""
    metadata = ensure_config(config).get("metadata") or {}
    return default.at(**{name: metadata[key] for name, key in COORDINATES if key in metadata})


def has_listeners(config: RunnableConfig | None = None) -> bool:
    """Whether a callback, a tracer or a graph that streams messages would observe a call from here."""
    around, own = var_child_runnable_config.get() or {}, (config or {}).get("callbacks")
    callbacks = around.get("callbacks")
    if getattr(callbacks, "handlers", callbacks):
        return True
    return bool(AsyncCallbackManager.configure(None, own).handlers)  # a manager without handlers would be copied


async def trace_step(
    name: str,
    step: Callable[[], Awaitable[T]],
    config: RunnableConfig,
    *,
    given: Callable[[], Any],
    summarize: Callable[[T], Any],
) -> T:
    """Run a step as a run of its own in traces, with input `given()` and output `summarize(result)`.

    The run is a root even inside a node of a graph, so that a graph below is no subgraph. If nothing listens, only tags
    and metadata are passed down.
    """
    around = (var_child_runnable_config.get() or RunnableConfig()).copy()
    around.pop("configurable", None)
    if not has_listeners(config):
        with _set_config(merge_configs(around, config)):
            return await step()
    found: list[T] = []

    async def shown(_: Any) -> Any:
        found.append(await step())
        return summarize(found[0])

    with _set_config(around):
        await RunnableLambda(shown, name=name).ainvoke(given(), config)
    return found[0]


@contextmanager
def _set_config(config: RunnableConfig) -> Iterator[None]:
    before = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(before)


async def run_untraced(call: Coroutine[Any, Any, T]) -> T:
    """Await a call that no trace may show, such as a grader, which reads references.

    The call gets no callbacks, tags or parents of the running graph, and LangSmith records nothing below it.
    """
    with tracing_context(enabled=False, parent=False), set_config_context(RunnableConfig()) as context:
        return await asyncio.create_task(call, context=context)


TRACER_OPTIONS = ("ls_structured_output_format", "structured_output_format")
"""Options of a call that only tracers read."""


class QuietChat(BaseChatModel):
    """A chat model whose `ainvoke` calls `_agenerate` directly if nothing observes or intercepts the call.

    Requests and answers do not differ. With a callback, a tracer, a graph that streams messages, a cache, a rate
    limiter, image blocks or another output version, LangChain's own `ainvoke` is called.
    """

    async def ainvoke(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Answer as `BaseChatModel.ainvoke` does."""
        messages = self._convert_input(input).to_messages()
        texts = all(type(message.content) is str for message in messages)
        if not texts or not self._is_plain() or "stream" in kwargs or has_listeners(config):
            return await super().ainvoke(input, config, stop=stop, **kwargs)
        for name in TRACER_OPTIONS:
            kwargs.pop(name, None)
        result = await self._agenerate(messages, stop=stop, **kwargs)
        first, only = result.generations[0], len(result.generations) == 1
        reply = first.message
        assert isinstance(reply, AIMessage)
        more = (result.llm_output or {}) if only else {}
        reply.response_metadata = {**more, **(first.generation_info or {}), **reply.response_metadata}
        reply.id = reply.id or f"lc_run--{uuid.uuid4()}-0"
        return reply

    def _is_plain(self) -> bool:
        """Whether the model itself has nothing that observes or intercepts a call."""
        if self.callbacks or self.verbose or self.rate_limiter or getattr(self, "streaming", None):
            return False
        return not (self.cache or (self.cache is None and get_llm_cache()) or self.output_version == "v1")
