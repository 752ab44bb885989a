"""Meter of chat models that other code calls, by the callbacks of LangChain.

What an earlier process was answered at the same place is in the journal. Such a call is not sent again: LangChain gets
the recorded reply from the model, so that its callbacks, parsers and streams see a call like any other.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, wraps
from threading import Thread, current_thread
from typing import Any, NamedTuple
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import _format_for_tracing
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage, message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult
from langchain_core.runnables.config import RunnableConfig, ensure_config
from langchain_core.utils.uuid import uuid7

from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.errors import BudgetError, JournalError, ModelError, OutageError, SelfwireError, TaskError
from selfwire.core.scope import Scope
from selfwire.core.text import mask_keys
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.core.values import FrozenMap, replace_surrogates
from selfwire.models.budget import Ledger, Prices, Reservation
from selfwire.models.metered_chat import (
    MESSAGE,
    NAMED,
    count_tokens,
    describe_call,
    drop_odd_counts,
    estimate_tokens,
    to_chunk,
    write_message,
)
from selfwire.models.providers import MAX_TOKENS, NO_SERVER, Identity, is_fault_outside, is_unsent, redact_error
from selfwire.models.structured import describe_message
from selfwire.models.sync import RequestsInFlight, find_running_loop, is_at_work
from selfwire.models.text_layer import OFFERING, install
from selfwire.models.tracing import TRACER_OPTIONS
from selfwire.store.journal import Recorder, make_key
from selfwire.store.journal_file import CallResult

LAST_REPLIES = 60.0
"""Seconds within which calls of threads end that are under way when another one is refused."""
POLL = 0.01
PATIENCE = 5
"""Times the seconds for one request: a model's own client repeats it, and a model that thinks is silent for minutes."""
LONGEST_SLEEP = 3600.0
"""Seconds; an event loop cannot sleep for ever."""


def _is_loud(record: logging.LogRecord) -> bool:
    """Whether a warning is not LangChain's of a refusal, which is raised too."""
    return "CallMeter." not in record.getMessage()


logging.getLogger("langchain_core.callbacks.manager").addFilter(_is_loud)


@dataclass(frozen=True)
class MeteredCall:
    """A call that was answered.

    Attributes:
        node: of the graph, in which it was made; the model's name outside a graph.
        texts: that it carried, by their names, each with what the program put in it.
        tool_calls: those of the reply.
        model: that answered, as "provider:name".
    """

    node: str
    reply: str
    usage: Usage
    texts: Mapping[str, Sequence[str]] = FrozenMap()
    tool_calls: tuple[ToolCall, ...] = ()
    model: str = ""


class FailedCall(NamedTuple):
    """A call of a model, "provider:name", that raised an error."""

    model: str
    error: BaseException


class CallUnderWay(NamedTuple):
    """A call that was sent, or is answered by a recorded reply.

    Attributes:
        key: its node, and the journal's hash of what it sends.
        sent: its number of tokens by estimate.
        reservation: of its cost; None for a recorded reply.
        request: what it sends, for the journal.
        thread: that waits for it, or reads its stream; None where an event loop does.
        since: when it was sent, on the monotonic clock.
    """

    key: tuple[str, str]
    model: str
    sent: int
    reservation: Reservation | None
    texts: Mapping[str, Sequence[str]]
    request: Mapping[str, Any]
    thread: Thread | None
    since: float
    recorded: Reply | None = None


@dataclass(eq=False)
class CallMeter(BaseCallbackHandler):
    """Counts, journals and refuses the calls of a run by callbacks; a call over the budget is never sent.

    A reply is in the journal before the code that asked gets it. An equal call of the same node gets it after a kill;
    of several, each gets the next.

    Attributes:
        scope: place of the run, for the ledger's task and the journal's rows.
        find_texts: lists the texts that a call carries, by its messages and the tools that it offers.
        named: names that the run has for models, by the texts whose requests ask them.
        calls: those that were answered, in the order in which they ended.
        failed: the others.
        results: what tools returned to models, by the id of the tool call.
        timeout: seconds for one request, > 0; calls are given up when nothing comes for `PATIENCE` times as long.
        refusal: the first refusal or failure of the journal, which the code that made the call may have caught.
        gave_up: the error about calls that were given up; the code that made them makes no more.
    """

    ledger: Ledger
    journal: Recorder
    prices: Prices
    scope: Scope
    find_texts: Callable[[Sequence[BaseMessage], Any], Mapping[str, Sequence[str]]] = lambda messages, offered: {}
    named: Mapping[str, str] = FrozenMap()
    timeout: float = math.inf
    calls: list[MeteredCall] = field(default_factory=list)
    failed: list[FailedCall] = field(default_factory=list)
    results: dict[str, ToolMessage] = field(default_factory=dict)
    refusal: BudgetError | JournalError | None = None
    gave_up: ModelError | None = None
    raise_error = True
    run_inline = True

    def __post_init__(self) -> None:
        self._under_way = dict[UUID, CallUnderWay]()
        self._ending = set[UUID]()
        self._replies = list[tuple[tuple[str, str], Reply]]()  # by node and hash of the request, in order
        self._has_sent = False
        self._left = dict[tuple[str, str], deque[Reply]]()
        self._replayable = set[UUID]()
        self._unread = set[UUID]()  # streams whose next part nobody waits for
        self._heard = time.monotonic()

    async def recall(self) -> None:
        """Read the replies that the journal has of this place."""
        for node, digest, text in await self.journal.list_replies(self.scope):
            reply = CallResult(text).parse(Reply.model_validate_json)
            if MESSAGE in reply.metadata:
                self._replies.append(((node, digest), reply))
        _install()

    async def retry(self) -> bool:
        """Forget the replies of an earlier process if they alone led to an error that may be retried.

        Returns:
            False where a call was sent, and without `Journal.retry_failed`.
        """
        return not self._has_sent and await self.journal.retry_replies(self.scope)

    def begin(self) -> None:
        """Begin an attempt, whose calls get the replies so far, in their order, before any is sent."""
        self.calls.clear()
        self._left.clear()
        for key, reply in self._replies:
            self._left.setdefault(key, deque()).append(reply)

    def on_chat_model_start(
        self, serialized: dict[str, Any] | None, messages: list[list[BaseMessage]], **given: Any
    ) -> None:
        """Reserve the most that a call may cost; raises BudgetError if it does not fit, so that it is not sent."""
        self.results.update({said.tool_call_id: said for said in messages[0] if isinstance(said, ToolMessage)})
        params = given.get("invocation_params") or {}
        found = self.find_texts(messages[0], [params[name] for name in OFFERING if name in params])
        request = describe_call(messages[0], params)
        self._begin([describe_message(message) for message in messages[0]], found, request, **given)

    def on_llm_start(self, serialized: dict[str, Any] | None, prompts: list[str], **given: Any) -> None:
        """Reserve as `on_chat_model_start` does; the reply is recorded, and never given to another call."""
        self._begin(prompts, {}, {"run": str(given["run_id"])}, **given)

    def on_llm_new_token(self, *_: Any, **__: Any) -> None:
        """Note that a model has sent a part of a reply."""
        self._heard = time.monotonic()

    on_stream_event = on_llm_new_token

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Settle a call at its cost, and record it."""
        self._heard = time.monotonic()
        self._ending.add(run_id)
        try:
            if call := self._under_way.pop(run_id, None):
                self._end(call, response)
        finally:
            self._ending.discard(run_id)

    def _end(self, call: CallUnderWay, response: LLMResult) -> None:
        given = response.generations[0] if response.generations else []
        text = mask_keys(replace_surrogates(given[0].text if given else ""))
        message = getattr(given[0], "message", None) if given else None
        answer = message if isinstance(message, AIMessage) else AIMessage(text)
        drop_odd_counts(answer)
        if call.recorded is None:
            usage = self._price(call.model, *count_tokens(answer, lambda: call.sent))
            usage = usage.replace(seconds=time.monotonic() - call.since)
            self._record(call, text, usage, answer if answer is message and len(given) == 1 else None)
        else:
            usage = call.recorded.usage
        uses = tuple(mask_keys(answer.tool_calls))
        self.calls.append(MeteredCall(call.key[0], text, usage, call.texts, uses, call.model))

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Give back what a failed call has reserved, and note the call."""
        self._heard = time.monotonic()
        if call := self._under_way.pop(run_id, None):
            _settle(call, ZERO_USAGE)
            self.failed.append(FailedCall(call.model, error))

    def announce(self, run_id: UUID) -> None:
        """Tell that the model takes a recorded reply in place of the call of this id, if there is one."""
        self._replayable.add(run_id)

    def has_reply(self, messages: Sequence[BaseMessage], params: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
        """Whether a recorded reply is left for a call; the arguments are those of its callback."""
        return bool(self._left) and bool(self._left.get(_identify(describe_call(messages, params), known)[0]))

    def find_reply(self, run_id: UUID) -> AIMessage | None:
        """Find the recorded reply to a call that has begun."""
        call = self._under_way.get(run_id)
        if call is None or call.recorded is None:
            return None
        return AIMessage.model_validate_json(call.recorded.metadata[MESSAGE])

    def explain(self, error: Exception) -> Exception:
        """Name model and address in the error of a failed call.

        Returns:
            Another error as it is; an OutageError where a server cannot be reached and the whole run has had no answer
            yet; else a ModelError.
        """
        model = next((call.model for call in self.failed if call.error is error), None)
        if model is None:
            return error
        address, fault = _find_address(error), redact_error(error)
        if is_unsent(error):
            kind = ModelError if self.ledger.spent.calls else OutageError
            return kind(f"{address or model} does not answer: no connection ({model}, {fault}); {NO_SERVER}")
        return ModelError(f"{fault} ({model}{address and f' at {address}'} failed)")

    def is_own(self, error: Exception) -> bool:
        """Whether the code that asks models raised an error by itself: no model failed, nor a server of its own."""
        is_ours = isinstance(error, SelfwireError) and not isinstance(error, TaskError)
        return not (is_ours or self.failed or is_fault_outside(error))

    @contextmanager
    def leave_unread(self, run_id: UUID) -> Iterator[None]:
        """Leave the time in the block out of a stream's silence, as nobody waits for its next part."""
        self._unread.add(run_id)
        yield
        self._heard = time.monotonic()
        self._unread.discard(run_id)

    @asynccontextmanager
    async def limit_silence(self) -> AsyncIterator[None]:
        """End the block where no model sends anything for `PATIENCE * timeout` seconds, and one is waited for.

        Raises:
            ModelError: so it was; a thread, which nobody can cancel, may go on, and makes no further call.
        """
        silence = PATIENCE * self.timeout

        async def watch() -> None:
            while (left := self._heard + silence - time.monotonic()) > 0 or not (model := self._find_awaited()):  # noqa: ASYNC110 - threads
                await asyncio.sleep(min(left if left > 0 else silence, LONGEST_SLEEP))
            self.gave_up = ModelError(
                f"no answer within {silence:g} seconds, which is {PATIENCE} times --timeout ({model} failed)"
            )
            timer.reschedule(asyncio.get_running_loop().time())

        watcher = asyncio.create_task(watch())
        try:
            async with asyncio.timeout(None) as timer:
                yield
        except TimeoutError:
            if not timer.expired() or self.gave_up is None:
                raise
            raise self.gave_up from None
        finally:
            watcher.cancel()

    def _find_awaited(self) -> str | None:
        """Find the model of a call whose reply, or its next part, is waited for."""
        for run_id, call in [*self._under_way.items()]:
            if call.recorded is None and run_id not in self._unread:
                return call.model
        return None

    async def close(self) -> None:
        """Give back what calls without an end have reserved.

        Where a call was refused, calls of threads, which nobody can cancel, end first, so that they are recorded; but
        for a stream that was left open by a thread that has ended or is idle.
        """
        until = time.monotonic() + LAST_REPLIES
        while self.refusal and self._is_awaited() and time.monotonic() < until:  # noqa: ASYNC110 - threads end them
            await asyncio.sleep(POLL)
        for call in self._under_way.values():
            _settle(call, ZERO_USAGE)
        self._under_way.clear()

    def _is_awaited(self) -> bool:
        return bool(self._ending) or any(
            call.thread and is_at_work(call.thread) for call in [*self._under_way.values()]
        )

    def _begin(
        self,
        texts: Sequence[str],
        found: Mapping[str, Sequence[str]],
        request: Mapping[str, Any],
        *,
        run_id: UUID,
        metadata: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        known, sent = metadata or {}, estimate_tokens([ChatMessage.user(replace_surrogates(text)) for text in texts])
        key, request = _identify(request, known)
        thread = current_thread() if find_running_loop() is None else None
        call = CallUnderWay(key, request["model"], sent, None, found, request, thread, time.monotonic())
        if run_id in self._replayable:
            self._replayable.discard(run_id)
            with suppress(KeyError, IndexError):
                self._under_way[run_id] = call._replace(recorded=self._left[key].popleft())
                return
        if isinstance(stop := self.gave_up or self.refusal, ModelError | JournalError):
            raise stop
        where = "/".join(part for part in (self.scope.phase, self.scope.task) if part)
        try:
            at_most = self._price(call.model, sent, int(known.get("ls_max_tokens") or MAX_TOKENS))
            reservation = self.ledger.get_task_ledger(self.scope).reserve(at_most, where)
        except BudgetError as error:
            self.refusal = self.refusal or error
            raise
        self._heard = time.monotonic()
        self._has_sent, self._under_way[run_id] = True, call._replace(reservation=reservation)

    def _record(self, call: CallUnderWay, text: str, usage: Usage, message: AIMessage | None) -> None:
        """Pay for a call and record its reply, with the message if another call may get it."""
        _settle(call, usage)
        named = self.named.get(next(iter(call.texts), ""))
        notes = {NAMED: named} if named else {}
        if message is not None:
            whole = message_chunk_to_message(message)
            assert isinstance(whole, AIMessage), "it was one"
            if not _has_bytes(whole.model_dump()):  # a record has only texts
                notes[MESSAGE] = mask_keys(write_message(whole))
        reply = Reply(content=text, usage=usage, model=call.model.partition(":")[2] or call.model, metadata=notes)
        if MESSAGE in notes:
            self._replies.append((call.key, reply))
        place, result = self.scope.at(node=call.key[0]), CallResult(reply.model_dump_json(), usage)
        try:
            self.journal.record("model", place, call.request, result)
        except JournalError as error:
            self.refusal = self.refusal or error
            raise

    def _price(self, model: str, sent: int, received: int, cached: int = 0) -> Usage:
        dollars = self.prices.cost(model, sent, received, cached)
        return Usage(calls=1, input_tokens=sent, output_tokens=received, dollars=dollars)


def _has_bytes(value: object) -> bool:
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple | set) else ()
    return isinstance(value, bytes | bytearray) or any(map(_has_bytes, parts))


def _settle(call: CallUnderWay, usage: Usage) -> None:
    if call.reservation is not None:
        call.reservation.settle(usage)


def _identify(request: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[tuple[str, str], Mapping[str, Any]]:
    """Make the key of a call from what it sends and its metadata, and what it sends with its model, "provider:name".

    Keys of models are masked there: where a reply on record has repeated one, the next call is found all the same.
    """
    name, provider = str(known.get("ls_model_name") or "model"), str(known.get("ls_provider") or "")
    whole = mask_keys({"model": f"{provider}:{name}" if provider else name, **request})
    return (str(known.get("langgraph_node") or name), make_key("model", Scope(), whole)[1]), whole


def _find_address(error: BaseException) -> str:
    """Find the scheme and host of the server to which a request was made; "" where that is not known."""
    with suppress(RuntimeError):  # httpx's, of an error without a request
        return Identity("", "", str(getattr(getattr(error, "request", None), "url", ""))).address
    return ""


def _find_meter(callbacks: Any) -> CallMeter | None:
    """Find the meter among callbacks, which are a list of handlers or what manages them."""
    handlers = getattr(callbacks, "handlers", callbacks) or ()
    return next((handler for handler in handlers if isinstance(handler, CallMeter)), None)


def _takes_replies(model: BaseChatModel) -> bool:
    """Whether a model asks for its replies where recorded ones are given, and not past LangChain's cache."""
    names = ("_generate_with_cache", "_agenerate_with_cache")
    return all(getattr(type(model), name) is getattr(BaseChatModel, name) for name in names)


def _wrap_prompt(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Make chat models choose the id of a call beforehand, so that its meter knows that it takes a recorded reply."""

    @wraps(ask)
    def announce(self: BaseChatModel, prompts: Any, stop: Any = None, callbacks: Any = None, **given: Any) -> Any:
        if (meter := _find_meter(callbacks)) and _takes_replies(self):
            given["run_id"] = given.get("run_id") or uuid7()
            meter.announce(given["run_id"])
        return ask(self, prompts, stop, callbacks, **given)

    return announce


def _find_result(manager: Any) -> ChatResult | None:
    meter = _find_meter(manager)
    reply = meter.find_reply(manager.run_id) if meter else None
    return ChatResult(generations=[ChatGeneration(message=reply)]) if reply else None


def _find_requests(manager: Any) -> RequestsInFlight:
    """Find the requests among which a call counts; one without a meter counts where the call around it does."""
    return RequestsInFlight.find() if _find_meter(manager) else RequestsInFlight()


def _wrap_generate(ask: Callable[..., ChatResult]) -> Callable[..., ChatResult]:
    """Make chat models give a recorded reply to a call as one of LangChain's cache; a call without one is sent."""

    @wraps(ask)
    def answer(
        self: BaseChatModel, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any
    ) -> ChatResult:
        if (found := _find_result(run_manager)) is None:
            with _find_requests(run_manager).send_in_thread():
                return ask(self, messages, stop, run_manager, **given)
        self._replay_v2_events_for_cache_hit(found.generations, run_manager=run_manager, **given)
        return found

    return answer


def _wrap_agenerate(ask: Callable[..., Awaitable[ChatResult]]) -> Callable[..., Awaitable[ChatResult]]:
    @wraps(ask)
    async def answer(
        self: BaseChatModel, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any
    ) -> ChatResult:
        if (found := _find_result(run_manager)) is None:
            async with _find_requests(run_manager).send():
                return await ask(self, messages, stop, run_manager, **given)
        await self._areplay_v2_events_for_cache_hit(found.generations, run_manager=run_manager, **given)
        return found

    return answer


def _name_run(config: RunnableConfig | None) -> tuple[RunnableConfig, UUID]:
    """Choose the id of a call beforehand, unless its config has one; returns the config that has it too."""
    run_id = ensure_config(config).get("run_id") or uuid7()
    return {**(config or {}), "run_id": run_id}, run_id


def _has_reply(
    model: BaseChatModel,
    meter: CallMeter,
    input: LanguageModelInput,
    config: RunnableConfig | None,
    stop: Any,
    given: Mapping[str, Any],
) -> bool:
    """Whether a recorded reply is left for a call that streams."""
    if not _takes_replies(model):
        return False
    config = ensure_config(config)
    options = {name: value for name, value in given.items() if name not in TRACER_OPTIONS}
    messages = _format_for_tracing(model._convert_input(input).to_messages())
    known = {**(config.get("metadata") or {}), **model._get_ls_params(stop=stop, **options)}
    return meter.has_reply(messages, model._get_invocation_params(stop=stop, **options), known)


def _wrap_stream(stream: Callable[..., Generator[Any, None, None]]) -> Callable[..., Iterator[Any]]:
    """Make the streaming of chat models give a recorded reply in one chunk, as that of a model that does not stream.

    Of another its meter is told when the next chunk is waited for.
    """

    @wraps(stream)
    def ask(self: BaseChatModel, input: Any, config: Any = None, *, stop: Any = None, **given: Any) -> Iterator[Any]:
        if (meter := _find_meter(ensure_config(config).get("callbacks"))) is None:
            yield from stream(self, input, config, stop=stop, **given)
        elif _has_reply(self, meter, input, config, stop, given):
            yield to_chunk(self.invoke(input, config, stop=stop, **given))
        else:
            config, run_id = _name_run(config)
            parts = stream(self, input, config, stop=stop, **given)
            with RequestsInFlight.find().send_in_thread(), closing(parts):
                for part in parts:
                    with meter.leave_unread(run_id):
                        yield part

    return ask


def _wrap_astream(stream: Callable[..., AsyncGenerator[Any, None]]) -> Callable[..., AsyncIterator[Any]]:
    async def give(
        model: BaseChatModel, meter: CallMeter, input: Any, config: Any, stop: Any, given: Mapping[str, Any]
    ) -> AsyncIterator[Any]:
        if _has_reply(model, meter, input, config, stop, given):
            yield to_chunk(await model.ainvoke(input, config, stop=stop, **given))
            return
        config, run_id = _name_run(config)
        parts = stream(model, input, config, stop=stop, **given)
        async with RequestsInFlight.find().send(), aclosing(parts):
            async for part in parts:
                with meter.leave_unread(run_id):
                    yield part

    @wraps(stream)
    def ask(
        self: BaseChatModel, input: Any, config: Any = None, *, stop: Any = None, **given: Any
    ) -> AsyncIterator[Any]:
        meter = _find_meter(ensure_config(config).get("callbacks"))
        if meter is None:
            return stream(self, input, config, stop=stop, **given)
        return give(self, meter, input, config, stop, given)

    return ask


@cache
def _install() -> None:
    """Let all chat models of this process take recorded replies; it does nothing for a call without a meter."""
    install(stream=_wrap_stream, astream=_wrap_astream)  # below the layer, which decides what a call sends
    for name, wrap in {
        "generate_prompt": _wrap_prompt,
        "agenerate_prompt": _wrap_prompt,
        "_generate_with_cache": _wrap_generate,
        "_agenerate_with_cache": _wrap_agenerate,
    }.items():
        setattr(BaseChatModel, name, wrap(getattr(BaseChatModel, name)))
