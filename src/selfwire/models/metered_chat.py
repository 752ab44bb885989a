"""A chat model whose requests are budgeted, journalled and limited.

The steps are equal for `invoke`, `ainvoke`, `stream` and `astream`, with bound tools or structured output. A call that
is settled in the journal is replayed. Otherwise the highest cost is reserved, the call waits for a place at the
provider, is sent, and sent again after a transient error; then the real cost is settled.
"""

import asyncio
import copy
import json
import logging
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableParallel,
    RunnableSequence,
)
from langchain_core.runnables.config import ensure_config
from pydantic import BaseModel, ConfigDict, Field, SkipValidation
from pydantic_core import to_jsonable_python

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Reply, ToolSpec
from selfwire.core.errors import (
    CallError,
    ConfigError,
    ModelError,
    OutageError,
    RefusedError,
    ReplyError,
    get_error_cost,
)
from selfwire.core.protocols import ROLES
from selfwire.core.scope import Scope
from selfwire.core.text import mask_keys
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenMap, fingerprint, format_count, replace_surrogates, to_canonical_json
from selfwire.models.budget import Ledger, Price, Prices
from selfwire.models.limits import CallSettings, Throttle, get_throttle
from selfwire.models.providers import (
    MAX_TOKENS,
    NO_SERVER,
    UNFIT,
    WAYS_OUT,
    ErrorCatcher,
    Identity,
    find_model_error,
    find_refused_word,
    format_provider_error,
    get_identity,
    get_retry_after,
    get_status,
    is_refusal,
    is_transient,
    is_unsent,
    is_wrong_option,
    write_naming_option,
)
from selfwire.models.structured import (
    LONGEST_REPLY,
    MODE_NOTE,
    Bound,
    Mode,
    ModeSearch,
    bind_schema,
    cut_reply,
    describe_message,
    get_finish,
    get_known_mode,
    list_faults,
    make_retry_messages,
    mask_reply,
    measure_reply,
    names_form,
    parse_reply,
    salvage_calls,
    schema_fingerprint,
    to_langchain,
    to_reply,
)
from selfwire.models.sync import RequestsInFlight, is_called_synchronously, run_in_thread, run_sync
from selfwire.models.tracing import TRACER_OPTIONS, get_scope, make_trace_config, mask_traces
from selfwire.store.journal import Journal, Recorder, make_key, mark_unsent
from selfwire.store.journal_file import CallResult


@dataclass(eq=False)
class LangChainCall:
    """A call of `ainvoke` or `astream`: messages and options, sent unchanged, and the queue for a stream's chunks.

    Attributes:
        attempt: number of earlier equal calls at the same place, each of which is another sample.
        streamed: whether a chunk has been passed on, so that the call cannot be sent again.
        loop: of the caller who waits for chunks.
    """

    messages: Sequence[BaseMessage]
    options: Mapping[str, Any]
    config: RunnableConfig | None
    chunks: asyncio.Queue[AIMessageChunk | None] | None = None
    attempt: int = 0
    streamed: bool = False
    loop: asyncio.AbstractEventLoop | None = None


class ModelRequest(NamedTuple):
    """A request to a chat model.

    Attributes:
        again: whether this is the second request for an object, after an invalid reply.
        model: name of a model of the run, as `Agent.model` has it; "" for that of the role.
        call: a call by LangChain's methods, whose messages and options are sent; `messages` then serve for estimates.
    """

    role: str
    scope: Scope
    messages: Sequence[ChatMessage]
    tools: tuple[ToolSpec, ...]
    schema: type[BaseModel] | None
    temperature: float | None
    max_tokens: int | None = None
    again: bool = False
    model: str = ""
    call: LangChainCall | None = None

    @property
    def where(self) -> str:
        """The place in the run, for errors."""
        return "/".join(part for part in (self.scope.phase, self.scope.task, self.scope.node) if part) or "the run"


def make_request_key(identity: Identity, request: ModelRequest) -> dict[str, Any]:
    """Collect everything that determines a reply, the scope apart, for the journal."""
    asked = {"model": identity.name, "role": request.role}  # roles may play the same model with other options
    if request.model:
        asked["named"] = request.model
    if request.call is not None:
        return {**asked, **describe_call(request.call.messages, request.call.options)}
    return {
        **asked,
        "messages": [
            [
                message.role,
                message.content,
                [call.model_dump(mode="json") for call in message.tool_calls],
                message.tool_call_id,
            ]
            for message in request.messages
        ],
        "tools": [tool.model_dump(mode="json") for tool in request.tools],
        "schema": request.schema and schema_fingerprint(request.schema),
        "temperature": request.temperature,
    }


def describe_call(messages: Sequence[BaseMessage], options: Mapping[str, Any]) -> dict[str, Any]:
    """Collect what a call by LangChain's methods sends, as JSON that is equal in every process."""
    sent = {name: value for name, value in options.items() if name not in TRACER_OPTIONS}
    return {
        "messages": [_to_plain(message_chunk_to_message(message)) for message in messages],
        "options": json.loads(json.dumps(sent, default=_describe)),
    }


def _to_plain(message: BaseMessage) -> Any:
    """Convert a message to JSON, without fields that are never sent: ids, costs, artifacts, notes on a reply."""
    notes = {"id", "response_metadata", "usage_metadata", "artifact"}
    plain: dict[str, Any] = _to_json(message.model_dump(exclude=notes, exclude_defaults=True))
    return plain | {"type": message.type}


def _to_json(dumped: Mapping[str, Any]) -> Any:
    """Convert the fields of a message to JSON; bytes, which need be no text, become base64."""
    return to_jsonable_python(dumped, bytes_mode="base64", inf_nan_mode="null", fallback=_describe)


ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Place of an object in memory, as Python writes it."""


def _describe(value: object) -> object:
    is_schema = isinstance(value, type) and issubclass(value, BaseModel)
    return schema_fingerprint(value) if is_schema else ADDRESS.sub("", repr(value))


def advise_on_refusal(error: BaseException, request: ModelRequest, search: ModeSearch | None) -> str:
    """Advise the user if an error means that the server refuses this form of request; "" for other errors."""
    if search and search.is_refused(error):
        return f"it takes no requests in mode {search.mode!r}: let the mode be found out by --structured auto"
    if request.tools and names_form(error, tools=True):
        return "it takes no tools: start the server with tools, use another model, or agents without tools"
    return ""


BYTES_PER_TOKEN = 3
"""Below the usual 4, so that estimates are rather too high."""
CHARACTERS_PER_TOKEN = 8
"""Above what replies have on average; a provider that counts fewer tokens for a reply counts wrongly."""
MESSAGE_TOKENS = 8


def estimate_tokens(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> int:
    """Estimate the tokens of a request by its bytes, rather too high than too low."""
    texts = sum(_estimate_size(message) + MESSAGE_TOKENS for message in messages)
    return texts + sum(len(to_canonical_json(tool).encode()) // BYTES_PER_TOKEN + MESSAGE_TOKENS for tool in tools)


def _estimate_size(message: ChatMessage) -> int:
    calls = sum(len(to_canonical_json(call).encode()) for call in message.tool_calls)
    return (len(message.content.encode()) + calls) // BYTES_PER_TOKEN


ASKED = "asked"
"""Key in a reply's metadata for structured requests; the value says whether it was the second request."""
NAMED = "named"
"""Key in a reply's metadata of the name by which an agent asked for its model."""
INVALID_NOTE = "invalid reply "
"""Prefix of journal notes on the faults of a reply; "once" or "again" and a hash follow."""


class ObjectCounts(NamedTuple):
    """Numbers of structured requests in a run, by outcome.

    Attributes:
        at_once: the first reply was valid.
        again: the second reply was valid.
        invalid: the second reply was invalid too; a fallback or an error replaced it.
        unanswered: the second reply never arrived.
    """

    at_once: int = 0
    again: int = 0
    invalid: int = 0
    unanswered: int = 0

    @classmethod
    def from_replies(cls, replies: Iterable[Any], *, doubted: int, invalid: int) -> "ObjectCounts":
        """Count by the replies of a run, and by its notes: how many first and second replies were invalid."""
        asked = [reply["metadata"].get(ASKED) for reply in replies]
        first, again = ([note for note in asked if note and note["again"] is kind] for kind in (False, True))
        return cls(len(first) - doubted, len(again) - invalid, invalid, doubted - len(again))

    def __add__(self, other: object) -> "ObjectCounts":
        """Add the counts of another run."""
        return ObjectCounts(*map(sum, zip(self, other, strict=True))) if isinstance(other, ObjectCounts) else self


async def note_invalid(journal: Recorder, request: ModelRequest, error: ValueError) -> None:
    """Note the faults of an invalid reply."""
    ask = fingerprint([request.scope.key, *(message.content for message in request.messages)])
    name = f"{INVALID_NOTE}{'again' if request.again else 'once'} {ask}"
    await journal.put_note(name, f"{request.where}: {list_faults(error)}")


async def count_invalid_replies(journal: Journal) -> int:
    """Count the structured requests of a run whose second reply was invalid too."""
    return len(await journal.list_note_names(f"{INVALID_NOTE}again"))


async def count_objects(journal: Journal) -> ObjectCounts:
    """Count the structured requests of a run by outcome."""
    replies = [row.reply for row in await journal.rows(kind="model", state="settled")]
    doubted, invalid = len(await journal.list_note_names(f"{INVALID_NOTE}once")), await count_invalid_replies(journal)
    return ObjectCounts.from_replies(replies, doubted=doubted, invalid=invalid)


async def list_unusable_replies(journal: Journal) -> tuple[str, ...]:
    """List, in a line, how many structured requests had no valid reply, and what to do where most had none."""
    if not await count_invalid_replies(journal):
        return ()
    counts = await count_objects(journal)
    total = sum(counts)
    told = f"{counts.invalid} of {format_count(total, 'structured request')} had no valid reply, also when asked again"
    if 2 * counts.invalid < total:
        return (told,)
    return (f"{told}: this model cannot serve as critic or judge; take another --model, or try --structured prompt",)


_log = logging.getLogger(__name__)

IMPOSSIBLE_TOKENS = 10**9
"""A count of tokens that no call reaches; a provider's count is ignored if it is higher or negative."""


def drop_odd_counts(answer: AIMessage) -> None:
    """Drop a reply's counts of tokens that are no whole numbers; LangChain takes them unchecked of a server."""
    counts = answer.usage_metadata
    if counts and not all(isinstance(counts.get(name), int) for name in UsageMetadata.__required_keys__):
        answer.usage_metadata = None
    elif counts and not all(isinstance(count, int) for count in counts.get("input_token_details", {}).values()):
        del counts["input_token_details"]


def count_tokens(answer: AIMessage, estimate_sent: Callable[[], int]) -> tuple[int, int, int]:
    """Count the tokens sent and received by the provider's count, or by an estimate without a possible one.

    No request has 0 tokens. A count of the reply that its length contradicts is raised. The third number is the part of
    the tokens sent that the provider had in its cache.
    """
    counted, cached = answer.usage_metadata, 0
    if counted and 0 < counted["input_tokens"] < IMPOSSIBLE_TOKENS > counted["output_tokens"] >= 0:
        sent, received = counted["input_tokens"], counted["output_tokens"]
        cached = counted.get("input_token_details", {}).get("cache_read", 0)
    else:
        sent = estimate_sent()
        received = estimate_tokens([ChatMessage(role="assistant", content=replace_surrogates(answer.text))])
        if counted and counted["output_tokens"] < IMPOSSIBLE_TOKENS:
            received = max(received, counted["output_tokens"])
    return sent, max(received, measure_reply(answer) // CHARACTERS_PER_TOKEN), cached if 0 < cached <= sent else 0


def name_empty_reply(answer: AIMessage) -> str:
    """Name the reason why a reply has neither text nor calls: a refusal, a filter, or the limit of a reply."""
    if said := answer.additional_kwargs.get("refusal"):
        return f"a refusal: {' '.join(mask_keys(str(said)).split()):.200}"
    why = {"content_filter": ": the provider's filter took its text", "length": ": its tokens ended before the text"}
    return f"an empty reply{why.get(get_finish(answer), '')}"


EMPTY_REPLY = "take a model that answers, or give it more tokens for a reply (--max-tokens), then resume"
"""What to do where a model gives no text and calls no tool, and is paid."""
PROBE = ChatMessage.user("Reply with the one word: ready")
OPTIONS = {"temperature": "temperature", "seed": "seed", "max_completion_tokens": "max_tokens"}
"""Options without which a request can be sent, by the word with which an error names each as refused."""
NO_KEYWORD = re.compile(r"unexpected keyword argument '(\w+)'")
"""The error of a provider's client for an option that only a field of its LangChain model can set."""
LIMITS = ("max_tokens", "max_output_tokens", "num_predict")
"""Names that LangChain's models have for the limit of a reply."""
_refused: dict[str, set[str]] = {}
"""Options that the models of each label refuse, as known to this process."""
SEED_STRIDE = 7919
"""Distance between the seeds of two samples, for models that take a seed but no sample number."""
MESSAGE = "message"
"""Key in a reply's metadata of the whole message as JSON text, for callers of LangChain's methods."""


class MeteredChat(BaseChatModel):
    """A wrapper of a chat model that meters every call.

    LangChain's methods read the place of a call (node, task, iteration) from the metadata of the run around it. Equal
    calls at the same place are further samples, except at temperature 0.

    Args:
        inner: any chat model.
        journal: records and replays calls; a memory journal by default; `NullRecorder` records nothing.
        ledger: budget that pays for calls; without limits by default.
        policy: timeouts, retries and limits.
        prices: dollars per token; the shipped list by default.
        labels: tags of the run for tracing, such as method and team fingerprint.
        role: role of calls by LangChain's methods: agent, meta or judge.
        scope: the place of calls outside a run.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    inner: SkipValidation[BaseChatModel]
    journal: SkipValidation[Recorder] = Field(default_factory=Journal.memory, repr=False)
    ledger: SkipValidation[Ledger] = Field(default_factory=Ledger, repr=False)
    policy: CallSettings = CallSettings()
    prices: Prices = Field(default_factory=Prices.load, repr=False)
    labels: Mapping[str, str] = Field(default_factory=dict)
    role: str = "agent"
    scope: Scope = Scope()
    bounds: dict[Any, Bound] = Field(default_factory=dict, repr=False)
    """Cache of the inner model bound to tools or a schema."""
    repeats: dict[str, int] = Field(default_factory=dict, repr=False)
    """Number of equal calls at the same place, by their key."""
    no_keywords: set[str] = Field(default_factory=set, repr=False)
    """Options that a call of the inner model does not take; they are set on a copy of it."""

    is_bound_to_loop: bool = False
    """Whether the inner model has an asynchronous client of the user's, so that synchronous calls use the other one."""

    def __init__(self, inner: BaseChatModel, **settings: Any) -> None:
        if any(kind.__name__ == "BaseChatOpenAI" for kind in type(inner).__mro__):  # its import takes a second
            from selfwire.models.openai_chat import has_own_clients, serve_every_loop

            inner = serve_every_loop(inner)
            settings["is_bound_to_loop"] = has_own_clients(inner)
        mask_traces(inner)
        super().__init__(inner=inner, **settings)
        self.refuse_unpriced()

    def refuse_unpriced(self) -> None:
        """Raise ConfigError if there is a budget in dollars and the model's price is not known."""
        if self.ledger.counts_dollars:
            self.prices.require(self.identity.name)

    @cached_property
    def identity(self) -> Identity:
        """Provider, name and server of the inner model."""
        return get_identity(self.inner)

    @cached_property
    def max_reply_tokens(self) -> int:
        """The most tokens that a reply may have."""
        return next((limit for name in LIMITS if (limit := getattr(self.inner, name, None) or 0) > 0), MAX_TOKENS)

    @property
    def _llm_type(self) -> str:
        return f"metered-{self.inner._llm_type}"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return self.inner._get_ls_params(stop=stop, **kwargs)

    # LangChain's methods: the inner model opens the run that traces show, so these open none

    async def ainvoke(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Send a call; raises ModelError if it failed after its retries, and BudgetError if a budget forbids it."""
        return await self._answer(self._read_call(input, config, stop, kwargs))

    def invoke(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Send a call as `ainvoke` does, and wait for the answer."""
        return run_sync(self.ainvoke(input, config, stop=stop, **kwargs))

    async def astream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[AIMessageChunk]:
        """Send a call as `ainvoke` does, and yield the inner model's chunks; a replayed reply is a single chunk."""
        request, chunks = self._read_call(input, config, stop, kwargs), asyncio.Queue[AIMessageChunk | None]()
        assert request.call is not None
        request.call.chunks, request.call.loop = chunks, asyncio.get_running_loop()
        answer = asyncio.create_task(self._answer(request))
        answer.add_done_callback(lambda _: chunks.put_nowait(None))
        try:
            while (chunk := await chunks.get()) is not None:
                yield chunk
            message = await answer
            if not request.call.streamed:
                yield to_chunk(message)
        finally:
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)

    def stream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Iterator[AIMessageChunk]:
        """Send a call as `astream` does, and wait for each chunk."""
        chunks: Any = self.astream(input, config, stop=stop, **kwargs)

        async def step() -> AIMessageChunk | None:
            chunk: AIMessageChunk | None = await anext(chunks, None)
            return chunk

        async def close() -> None:
            await chunks.aclose()

        try:
            while (chunk := run_sync(step())) is not None:
                yield chunk
        finally:
            run_sync(close())

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools like the inner model does; calls are metered."""
        bound: Runnable[LanguageModelInput, AIMessage] = self._stand_in(self.inner.bind_tools(tools, **kwargs))
        return bound

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[LanguageModelInput, Any]:
        """Bind an output schema like the inner model does; calls are metered."""
        asking: Runnable[LanguageModelInput, Any]
        asking = self._stand_in(self.inner.with_structured_output(schema, **kwargs))
        return asking

    def _stand_in(self, runnable: Runnable[Any, Any]) -> Any:
        """Rebuild a chain that begins with the inner model, so that it begins with this model."""
        if runnable is self.inner:
            return self
        if isinstance(runnable, RunnableBinding):
            return runnable.model_copy(update={"bound": self._stand_in(runnable.bound)})
        if isinstance(runnable, RunnableSequence):
            first, *others = runnable.steps
            return RunnableSequence(self._stand_in(first), *others)
        if isinstance(runnable, RunnableParallel):
            return RunnableParallel({name: self._stand_in(step) for name, step in runnable.steps__.items()})
        kind = type(self.inner).__name__
        raise ConfigError(
            f"{kind} makes a {type(runnable).__name__} of itself, which cannot be metered; bind it before"
        )

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return run_sync(self._agenerate(messages, *args, **kwargs))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        """Answer `agenerate`, which opens a run in traces itself."""
        message = await self.ainvoke(messages, {"callbacks": []}, stop=stop, **kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _read_call(
        self, input: LanguageModelInput, config: RunnableConfig | None, stop: list[str] | None, options: dict[str, Any]
    ) -> ModelRequest:
        if stop is not None:
            options = {**options, "stop": stop}
        call = LangChainCall(self.inner._convert_input(input).to_messages(), options, config)
        size = [ChatMessage.user(describe_message(message)) for message in call.messages]
        if "tools" in options:
            size.append(ChatMessage.system(replace_surrogates(json.dumps(options["tools"], default=repr))))
        limit, scope = options.get("max_tokens") or options.get("max_completion_tokens"), get_scope(config, self.scope)
        request = ModelRequest(self.role, scope, size, (), None, options.get("temperature"), limit, call=call)
        if not self.is_deterministic(request):
            key, _ = make_key("model", scope, make_request_key(self.identity, request))
            call.attempt = self.repeats.get(key, 0)
            self.repeats[key] = call.attempt + 1
        return request

    async def _answer(self, request: ModelRequest) -> AIMessage:
        return AIMessage.model_validate_json((await self.complete(request)).metadata[MESSAGE])

    # a single call, made by selfwire or by a caller of LangChain's methods

    async def complete(self, request: ModelRequest) -> Reply:
        """Send a request, or take its reply from the journal.

        Raises:
            ModelError: the call failed after its retries.
            BudgetError: it would exceed a budget.
        """
        at_most = self._estimate_most(request)
        made: list[Reply] = []
        ledger = self.ledger.get_task_ledger(request.scope)

        async def send() -> CallResult:
            billed: list[Usage] = []
            with await tracked.reserve(at_most, request.where) as reservation:
                try:
                    extend = partial(reservation.extend, at_most, request.where)
                    answer = await self._send_with_retries(request, at_most.tokens, billed, extend)
                except CallError as error:
                    error.cost = sum_usages(billed)
                    raise
                finally:
                    reservation.settle(sum_usages(billed))
            notes: dict[str, Any] = {}
            if request.model:
                notes[NAMED] = request.model
            if request.schema:
                notes[ASKED] = {"again": request.again}
            if request.call:
                notes[MESSAGE] = write_message(answer)
            reply = to_reply(answer, sum_usages(billed), notes)
            made.append(reply)
            return CallResult(reply.model_dump_json(), reply.usage)

        asked, attempt = make_request_key(self.identity, request), request.call.attempt if request.call else 0
        with ledger.track_call() as tracked:
            result = await self.journal.call_once(
                "model", request.scope, asked, send, at_most, attempt=attempt, share=self.is_deterministic(request)
            )
        return made[0] if made else result.parse(Reply.model_validate_json)

    def is_deterministic(self, request: ModelRequest) -> bool:
        """Whether the request has temperature 0, so that a run may reuse the reply for every equal request."""
        own = getattr(self.inner, "temperature", None)
        return (own if request.temperature is None else request.temperature) == 0

    async def retry_call(self, request: ModelRequest) -> bool:
        """Forget the recorded reply to a request if failed calls may be retried; return whether it was forgotten."""
        key, share = make_request_key(self.identity, request), self.is_deterministic(request)
        return await self.journal.retry_call("model", request.scope, key, share=share)

    async def _send_with_retries(
        self, request: ModelRequest, tokens: int, billed: list[Usage], extend: Callable[[], bool]
    ) -> AIMessage:
        """Try until an attempt succeeds or another attempt makes no sense; an OutageError needs `policy.probe`.

        Args:
            tokens: the most tokens of request and reply.
            billed: list to which the cost of each billed attempt is appended.
            extend: reserves the budget of another call, after a billed attempt; False if the budget forbids it.
        """
        throttle = get_throttle(f"{self.identity.provider} {self.identity.server}", self.policy, self.ledger.pool)
        since, search = time.monotonic(), self.search_mode(request)
        left_out = {*_refused.get(self.identity.label, ())}
        attempt, empty, refusals_only = 0, 0, True
        while True:
            async with self._take_place(throttle, tokens, unsent=refusals_only and not billed) as start:
                sent = time.monotonic()
                answer = await self._send_once(request, search.mode if search else "native", left_out)
            if isinstance(answer, AIMessage):
                throttle.answered = max(throttle.answered, sent)
                is_reply = bool(answer.text or answer.tool_calls or answer.invalid_tool_calls)
                took = time.monotonic() - since if is_reply else 0.0
                billed.append(self._usage(request, answer, took))
                throttle.correct(billed[-1].tokens - tokens, start)
                if is_reply:
                    self._note_refused(left_out)
                    await self._note_mode(request, search, answer)
                    return mask_reply(cut_reply(answer))
                empty += 1
                fault, can_retry, wait = name_empty_reply(answer), empty == 1 and extend(), None
            else:
                if is_refusal(answer) or is_unsent(answer):
                    throttle.correct(-tokens, start)
                else:
                    refusals_only = False
                if self._change_form(answer, request, left_out, search, is_last=attempt == self.policy.retries):
                    continue
                fault = format_provider_error(answer, self.inner)
                can_retry = is_transient(answer) and not advise_on_refusal(answer, request, search)
                can_retry = can_retry and not (request.call and request.call.streamed)
                wait = get_retry_after(answer)
            if not can_retry or attempt == self.policy.retries or (wait or 0) > self.policy.patience:
                break
            with mark_unsent(refusals_only and not billed):
                if wait is not None:
                    throttle.pause(wait)  # pauses all workers, including this one
                else:
                    await asyncio.sleep(self.policy.backoff * 2**attempt * random.uniform(0.5, 1.0))
            attempt += 1
        unsent, attempts = refusals_only and not billed, format_count(attempt + 1, "attempt")
        asked = f", which asks to wait {wait:,.0f} s" if wait else ""
        what = f"{fault}{asked} ({self.identity.label} failed at {request.where} after {attempts})"
        check = self._name_checks()
        way_out = WAYS_OUT.get((isinstance(answer, BaseException) and get_status(answer)) or 0, check)
        silent = f"{what}; it does not answer anything else either"
        if not isinstance(answer, AIMessage) and is_unsent(answer):
            unpaid = ", and nothing was paid" if unsent else ""
            what = f"{self.identity.address} does not answer: no connection after {attempts}{unpaid} ({fault})"
            silent, way_out = what, NO_SERVER
        refused = EMPTY_REPLY if isinstance(answer, AIMessage) else advise_on_refusal(answer, request, search)
        failed: CallError = ModelError(f"{what}; {refused or way_out}")
        doubted = self.policy.probe and not refused
        if doubted and extend() and not await self._probe(request, left_out, throttle, billed, unsent=unsent):
            outage = RefusedError if not isinstance(answer, AIMessage) and is_wrong_option(answer) else OutageError
            failed = outage(f"{silent}: {check if way_out == UNFIT else way_out}")  # a probe has nothing unfit
        failed.is_cost_known = refusals_only
        raise failed

    @asynccontextmanager
    async def _take_place(self, throttle: Throttle, tokens: int, *, unsent: bool) -> AsyncIterator[float]:
        """Take a place at the provider for a request, unless the run is interrupted; yields its start.

        Args:
            unsent: whether nothing of the call was sent before, or all of it refused.
        """
        async with AsyncExitStack() as held:
            with mark_unsent(unsent):
                start = await held.enter_async_context(throttle.take_place(tokens))
                await held.enter_async_context(RequestsInFlight.find().send())
            yield start

    def _name_checks(self) -> str:
        """Name what to check where a model answers nothing."""
        is_short = self.identity.provider == "openai" and self.identity.server and "/v1" not in self.identity.server
        address = "the address (of most servers it ends in /v1)" if is_short else "the address"
        return f"check {address}, the key, the model's name and the provider's state, then resume"

    def search_mode(self, request: ModelRequest) -> ModeSearch | None:
        """Start the search for the mode of a structured request; None for a request without a schema."""
        if request.schema is None:
            return None
        wanted = "native" if self.identity.provider == "offline" else self.policy.structured
        return ModeSearch(get_known_mode(self.identity.label), schema_fingerprint(request.schema), wanted)

    async def _note_mode(self, request: ModelRequest, search: ModeSearch | None, answer: AIMessage) -> None:
        """Remember the mode of an answered request, and tell the user about a change."""
        if search and search.end(answer, in_words=request.again):
            _log.warning(
                "%s is asked for objects in mode %r from now on, as it does not take others; "
                "--structured %s (in Python CallSettings(structured=%r)) does so from the start",
                self.identity.label, search.mode, search.mode, search.mode,
            )  # fmt: skip
            await self.journal.put_note(f"{MODE_NOTE}{self.identity.label}", search.mode)

    def _change_form(
        self,
        error: BaseException,
        request: ModelRequest,
        left_out: set[str],
        search: ModeSearch | None,
        *,
        is_last: bool,
    ) -> bool:
        """Leave out an option that is refused, or go to the next mode; return whether the form changed.

        Args:
            left_out: options that are not sent; those of a caller of LangChain's methods stay.
            is_last: whether no retries in the same form are left.
        """
        own = request.call.options if request.call else ()
        sent = {"max_tokens", *self._make_options(request, left_out)} - left_out - {*own}
        if word := find_refused_word(error, [word for word, option in OPTIONS.items() if option in sent]):
            left_out.add(OPTIONS[word])
            return True
        if not (search and search.step_down(error, is_last=is_last)):
            return False
        left_out &= _refused.get(self.identity.label, set())  # the mode was refused, with a text that has their names
        return True

    def _note_refused(self, refused: set[str]) -> None:
        """Remember options without which a request was answered, and tell the user about new ones."""
        known = _refused.setdefault(self.identity.label, set())
        for option in sorted(refused - known):
            other = ", but max_completion_tokens" if option == "max_tokens" else ""
            _log.warning("%s takes no %s: it is not sent from now on%s", self.identity.label, option, other)
        known |= refused

    async def _probe(
        self, request: ModelRequest, refused: set[str], throttle: Throttle, billed: list[Usage], *, unsent: bool
    ) -> bool:
        """Whether the provider answers at all, either a probe or another worker's request in the meantime.

        Args:
            refused: options that are not sent.
            unsent: whether nothing of the request was sent, or all of it refused.
        """
        since, probe = time.monotonic(), request._replace(messages=[PROBE], tools=(), schema=None, call=None)
        tokens = self._estimate_most(probe).tokens
        for pause in (self.policy.backoff, 0.0):
            async with self._take_place(throttle, tokens, unsent=unsent) as start:
                answer = await self._send_once(probe, refused=refused)
            if isinstance(answer, AIMessage):
                billed.append(self._usage(probe, answer))
                throttle.correct(billed[-1].tokens - tokens, start)
                return True
            unsent = unsent and is_unsent(answer)
            if is_refusal(answer) or is_unsent(answer):
                throttle.correct(-tokens, start)
            with mark_unsent(unsent):
                await asyncio.sleep(pause)
        return throttle.answered >= since

    async def _send_once(
        self, request: ModelRequest, mode: Mode = "native", refused: Collection[str] = ()
    ) -> AIMessage | BaseException:
        """Send a request once, without refused options; an error of the provider is returned, whatever its type."""
        options, call = self._make_options(request, refused), request.call
        inner = self._copy_with({name: options.pop(name) for name in self.no_keywords & {*options}})
        runnable: Runnable[Any, AIMessage] = inner
        ours = options.keys() - (call.options if call else ())
        if call:
            chat, options = [*call.messages], {**options, **call.options}
        else:
            bound = self._bind(request, mode, inner)
            runnable = bound.runnable
            chat = [*map(to_langchain, bound.add_schema(request.messages, again=request.again))]
        with ErrorCatcher() as caught:
            async with asyncio.timeout(self.policy.timeout):
                config = self._make_config(request)
                if self.is_bound_to_loop and is_called_synchronously():
                    answer = await run_in_thread(_call_synchronously, runnable, chat, config, options, call)
                elif call and call.chunks:
                    answer = await _stream(runnable.astream(chat, config, **options), call)
                else:
                    answer = await runnable.ainvoke(chat, config, **options)
            if not isinstance(answer, AIMessage):  # a model of the user's own may return anything
                raise TypeError(f"{answer!r:.80} in place of an AIMessage")
            drop_odd_counts(answer)
            return answer
        error = caught.error or TimeoutError()
        if isinstance(error, TypeError) and (found := NO_KEYWORD.search(str(error))) and found[1] in ours:
            self.no_keywords.add(found[1])
            self._note_refused(({found[1]} & {*OPTIONS.values()}) - {*type(self.inner).model_fields})
            return await self._send_once(request, mode, refused)
        if isinstance(error, TimeoutError) and not str(error):
            error = TimeoutError(f"no answer within {self.policy.timeout:g} seconds, which --timeout sets")
        return salvage_calls(error) or find_model_error(error) or error

    def _copy_with(self, options: Mapping[str, Any]) -> BaseChatModel:
        """Copy the inner model with options as its fields; the model itself if there are none."""
        known = {name: value for name, value in options.items() if name in type(self.inner).model_fields}
        return self.inner.model_copy(update=known) if known else self.inner

    def _bind(self, request: ModelRequest, mode: Mode, inner: BaseChatModel) -> Bound:
        """Bind the inner model, or a copy of it, to a request's tools or schema."""
        if inner is not self.inner:
            return bind_schema(inner, request.tools, request.schema, mode)
        key = (request.tools, request.schema, mode)
        if key not in self.bounds:
            self.bounds[key] = bind_schema(self.inner, request.tools, request.schema, mode)
        return self.bounds[key]

    def _make_options(self, request: ModelRequest, refused: Collection[str] = ()) -> dict[str, Any]:
        """Collect the options of a call that the inner model knows, without refused ones."""
        scope, fields = request.scope, type(self.inner).model_fields
        options: dict[str, Any] = {} if request.temperature is None else {"temperature": request.temperature}
        if request.max_tokens and "max_tokens" in fields:
            options["max_tokens"] = min(request.max_tokens, self.max_reply_tokens)
        if "request_timeout" in fields:
            options["timeout"] = self.policy.timeout  # the client may have been made with a shorter one
        if self.identity.provider == "offline":
            options |= {"seed": scope.seed, "sample": scope.sample}
        elif "seed" in fields and not getattr(self.inner, "use_responses_api", None):
            options["seed"] = (scope.seed + SEED_STRIDE * scope.sample) % 2**31
        if "max_tokens" in refused:
            options["max_completion_tokens"] = options.get("max_tokens", self.max_reply_tokens)
        return {name: value for name, value in options.items() if name not in refused}

    def _make_config(self, request: ModelRequest) -> RunnableConfig:
        current = ensure_config(request.call.config if request.call else None)
        around = current.get("metadata") or {}
        labels = {**self.labels, "role": request.role, **({NAMED: request.model} if request.model else {})}
        here = make_trace_config(request.scope, labels, around=around)
        return {
            **current,
            "tags": [*(current.get("tags") or ()), *here["tags"]],
            "metadata": {**around, **here["metadata"]},
        }

    def _usage(self, request: ModelRequest, answer: AIMessage, seconds: float = 0.0) -> Usage:
        """Compute the cost of an answer by `count_tokens`."""
        sent, received, cached = count_tokens(answer, lambda: estimate_tokens(request.messages, request.tools))
        dollars = self.prices.cost(self.identity.name, sent, received, cached)
        return Usage(calls=1, input_tokens=sent, output_tokens=received, dollars=dollars, seconds=seconds)

    def _estimate_most(self, request: ModelRequest) -> Usage:
        longest = min(request.max_tokens or self.max_reply_tokens, self.max_reply_tokens)
        sent = estimate_tokens(request.messages, request.tools)
        dollars = self.prices.cost(self.identity.name, sent, longest)
        return Usage(calls=1, input_tokens=sent, output_tokens=longest, dollars=dollars)


def write_message(message: AIMessage) -> str:
    """Write a message as JSON text, for `MESSAGE`."""
    return replace_surrogates(json.dumps(_to_json(message.model_dump()), ensure_ascii=False))


async def _stream(chunks: Any, call: LangChainCall) -> AIMessage:
    """Pass chunks on as they arrive, until there are more than is kept of a reply, and return the whole message."""
    whole: AIMessageChunk | None = None
    async with aclosing(chunks):
        async for chunk in chunks:
            drop_odd_counts(chunk)
            whole = chunk if whole is None else whole + chunk
            if call.chunks:
                call.streamed = True
                call.chunks.put_nowait(chunk)
            if measure_reply(whole) > LONGEST_REPLY:
                break
    return _to_message(whole)


def _call_synchronously(
    runnable: Runnable[Any, Any],
    chat: Sequence[BaseMessage],
    config: RunnableConfig,
    options: dict[str, Any],
    call: LangChainCall | None,
) -> AIMessage:
    """Send a call by the model's synchronous client, and pass chunks on to the loop that waits for them."""
    if not (call and call.chunks and call.loop):
        answer: AIMessage = runnable.invoke(chat, config, **options)
        return answer
    whole: AIMessageChunk | None = None
    for chunk in runnable.stream(chat, config, **options):
        drop_odd_counts(chunk)
        whole = chunk if whole is None else whole + chunk
        call.streamed = True
        call.loop.call_soon_threadsafe(call.chunks.put_nowait, chunk)
        if measure_reply(whole) > LONGEST_REPLY:
            break
    return _to_message(whole)


def to_chunk(message: AIMessage) -> AIMessageChunk:
    """Convert a whole message to the only chunk of a stream."""
    fields = message.model_dump(exclude={"type", "tool_calls", "invalid_tool_calls"})
    calls = [
        {**call, "args": json.dumps(call["args"]), "index": index, "type": "tool_call_chunk"}
        for index, call in enumerate(message.tool_calls)
    ]
    return AIMessageChunk(**fields, tool_call_chunks=calls, chunk_position="last")


def _to_message(whole: AIMessageChunk | None) -> AIMessage:
    message = message_chunk_to_message(whole or AIMessageChunk(content=""))
    assert isinstance(message, AIMessage)
    return message


Schema = TypeVar("Schema", bound=BaseModel)


class MeteredModel:
    """The models of a run by role, over LangChain chat models; implements `core.protocols.Model`.

    Args:
        models: a model for all roles, or a model per role; roles without a model use that of "agent".
        named: models that agents may ask instead, by the names that `Agent.model` has for them.
        journal: records and replays calls; a memory journal by default; `NullRecorder` records nothing.
        prices: dollars per token; the shipped list by default.
        labels: tags of the run for tracing, such as method and team fingerprint.
    """

    def __init__(
        self,
        models: BaseChatModel | Mapping[str, BaseChatModel],
        *,
        named: Mapping[str, BaseChatModel] = FrozenMap(),
        journal: Recorder | None = None,
        ledger: Ledger | None = None,
        policy: CallSettings = CallSettings(),
        prices: Prices | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        roles = {"agent": models} if isinstance(models, BaseChatModel) else dict(models)
        if "agent" not in roles:
            raise ConfigError(f"no model for role 'agent', only for {', '.join(roles) or 'none'}; name one")
        self.journal: Recorder = journal or Journal.memory()
        self.ledger = ledger or Ledger()
        settings = {"ledger": self.ledger, "policy": policy, "prices": prices or Prices.load(), "labels": labels or {}}
        self.chats = {
            role: MeteredChat(roles.get(role, roles["agent"]), journal=self.journal, role=role, **settings)
            for role in {*ROLES, *roles}
        }
        self.named = {
            name: MeteredChat(chat, journal=self.journal, role="agent", **settings) for name, chat in named.items()
        }

    @property
    def names(self) -> frozenset[str]:
        """Names of the models as "provider:model", by which their prices are found."""
        return frozenset(chat.identity.name for chat in self._list_chats())

    def _list_chats(self) -> list[MeteredChat]:
        return [*self.named.values(), *self.chats.values()]

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Names of the models whose price is not known, as "provider:model"."""
        return tuple(name for name in sorted(self.names) if self.chat().prices.find(name) is None)

    def list_prices(self) -> dict[str, Price]:
        """List the known prices of the models that agents may ask, by name; "" is the agents' own."""
        chats = {"": self.chat(), **self.named}
        found = {name: chat.prices.find(chat.identity.name) for name, chat in chats.items()}
        return {name: price for name, price in found.items() if price is not None}

    def refuse_unnamed(self, agents: Iterable[Agent]) -> None:
        """Refuse agents whose model the user has not named for the run, as those of a foreign team may be.

        Raises:
            ConfigError: there is one; the message says how to name the model.
        """
        for agent in agents:
            self._find_named(agent.model, f"agent {agent.id!r} asks")

    def with_labels(self, **labels: str) -> "MeteredModel":
        """Return the same models, journal and ledger with further labels, such as the current team."""
        return self._copy(lambda chat: {"labels": {**chat.labels, **labels}})

    def with_ledger(self, ledger: Ledger) -> "MeteredModel":
        """Return the same models with another ledger."""
        other = self._copy(lambda _: {"ledger": ledger})
        other.ledger = ledger
        for chat in other._list_chats():
            chat.refuse_unpriced()
        return other

    def _copy(self, change: Callable[[MeteredChat], dict[str, Any]]) -> "MeteredModel":
        other = copy.copy(self)
        for chats in ("chats", "named"):
            copied = {name: chat.model_copy(update=change(chat)) for name, chat in getattr(self, chats).items()}
            setattr(other, chats, copied)
        return other

    def chat(self, role: str = "agent", model: str = "") -> MeteredChat:
        """Return the model of a name, else that of a role; that of "agent" for a role without a model.

        Raises:
            ConfigError: the run names no such model.
        """
        return self._find_named(model, "a request is for") or self.chats.get(role) or self.chats["agent"]

    def _find_named(self, model: str, asks: str) -> MeteredChat | None:
        """Find a model by a name of `named`, or as "provider:model" of a model that the run asks anyway.

        Args:
            asks: who asks, for the error.
        """
        if not model or model in self.named:
            return self.named.get(model)
        for chat in self._list_chats():
            if chat.identity.name == model:
                return chat
        known = ", ".join(f"{name} ({chat.identity.name})" for name, chat in self.named.items()) or "none"
        raise ConfigError(
            f"{asks} model {model!r}, and this run names no such model, but {known}; name it with "
            f"{write_naming_option(model)} (in Python "
            'models={...}), or have the agent ask the model of the run by the edit SetModel(AGENT, "")'
        )

    async def generate(
        self,
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "agent",
        model: str = "",
        tools: Sequence[ToolSpec] = (),
        temperature: float | None = None,
    ) -> Reply:
        """Ask the model that plays `role`, or that of a name; see `core.protocols.Model.generate`."""
        request = ModelRequest(role, scope, messages, tuple(tools), None, temperature, model=model)
        return await self.chat(role, model).complete(request)

    async def generate_structured(
        self,
        schema: type[Schema],
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "meta",
        model: str = "",
        temperature: float | None = None,
    ) -> tuple[Schema, Usage]:
        """Ask for a validated object; see `core.protocols.Model.generate_structured`."""
        most = getattr(schema, "MAX_TOKENS", None)
        request = ModelRequest(role, scope, messages, (), schema, temperature, most, model=model)
        chat = self.chat(role, model)
        first = await chat.complete(request)
        try:
            return await parse_reply(schema, first), first.usage
        except ValueError as error:
            await note_invalid(self.journal, request, error)
            room = None if first.finish == "length" else request.max_tokens
            retry = make_retry_messages(messages, first, error)
            reasked = request._replace(messages=retry, max_tokens=room, again=True)
        try:
            second = await chat.complete(reasked)
        except ModelError as failed:
            failed.cost = first.usage + get_error_cost(failed)
            raise
        usage = first.usage + second.usage
        try:
            return await parse_reply(schema, second), usage
        except ValueError as error:
            if [asked for asked in (request, reasked) if await chat.retry_call(asked)]:
                return await self.generate_structured(
                    schema, messages, scope=scope, role=role, model=model, temperature=temperature
                )
            await note_invalid(self.journal, reasked, error)
            search = chat.search_mode(request)
            other_mode = ", or --structured prompt" if search and search.mode != "prompt" else ""
            resume = "; resuming the run with --retry-failed asks again" if self.journal.can_resume else ""
            player = f"the name {model!r}" if model else f"role {role!r}"
            invalid = ReplyError(
                f"{chat.identity.name} gave no valid {schema.__name__} at {reasked.where}, nor when asked again: "
                f"{list_faults(error)}; try another model for {player}{other_mode}{resume}"
            )
            invalid.cost = usage
            raise invalid from None
