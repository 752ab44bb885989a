"""Meter of chat models that other code calls, by the callbacks of LangChain."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import LLMResult

from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.errors import BudgetError, ModelError, OutageError, SelfwireError, TaskError
from selfwire.core.scope import Scope
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.core.values import FrozenMap, replace_surrogates
from selfwire.models.budget import Ledger, Prices, Reservation
from selfwire.models.metered_chat import NAMED, count_tokens, estimate_tokens
from selfwire.models.providers import MAX_TOKENS, NO_SERVER, Identity, is_fault_outside, is_unsent, redact_error
from selfwire.models.structured import describe_message
from selfwire.models.text_layer import OFFERING
from selfwire.store.journal import Recorder
from selfwire.store.journal_file import CallResult


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
    """A call that was sent; `sent` is its number of tokens by estimate."""

    node: str
    model: str
    sent: int
    reservation: Reservation
    texts: Mapping[str, Sequence[str]]


@dataclass(eq=False)
class CallMeter(BaseCallbackHandler):
    """Counts, journals and refuses the calls of a run by callbacks; a call over the budget is never sent.

    Attributes:
        scope: place of the run, for the ledger's task and the journal's rows.
        loop: on which the journal is written.
        find_texts: lists the texts that a call carries, by its messages and the tools that it offers.
        named: names that the run has for models, by the texts whose requests ask them.
        calls: those that were answered, in the order in which they ended.
        failed: the others.
        results: what tools returned to models, by the id of the tool call.
        refusal: the first refusal, which the code that made the call may have caught.
    """

    ledger: Ledger
    journal: Recorder
    prices: Prices
    scope: Scope
    loop: asyncio.AbstractEventLoop
    find_texts: Callable[[Sequence[BaseMessage], Any], Mapping[str, Sequence[str]]] = lambda messages, offered: {}
    named: Mapping[str, str] = FrozenMap()
    calls: list[MeteredCall] = field(default_factory=list)
    failed: list[FailedCall] = field(default_factory=list)
    results: dict[str, ToolMessage] = field(default_factory=dict)
    refusal: BudgetError | None = None
    raise_error = True
    run_inline = True

    def __post_init__(self) -> None:
        self._under_way: dict[UUID, CallUnderWay] = {}
        self._recorded: list[Future[Any]] = []

    def on_chat_model_start(
        self, serialized: dict[str, Any] | None, messages: list[list[BaseMessage]], **given: Any
    ) -> None:
        """Reserve the most that a call may cost; raises BudgetError if it does not fit, so that it is not sent."""
        self.results.update({said.tool_call_id: said for said in messages[0] if isinstance(said, ToolMessage)})
        params = given.get("invocation_params") or {}
        found = self.find_texts(messages[0], [params[name] for name in OFFERING if name in params])
        self._begin([describe_message(message) for message in messages[0]], found, **given)

    def on_llm_start(self, serialized: dict[str, Any] | None, prompts: list[str], **given: Any) -> None:
        """Reserve as `on_chat_model_start` does."""
        self._begin(prompts, {}, **given)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Settle a call at its cost, and record it."""
        call = self._under_way.pop(run_id, None)
        if call is None:
            return
        found = response.generations[0][0] if response.generations and response.generations[0] else None
        text = replace_surrogates(found.text if found else "")
        message = getattr(found, "message", None)
        answer = message if isinstance(message, AIMessage) else AIMessage(text)
        usage = self._price(call.model, *count_tokens(answer, lambda: call.sent))
        call.reservation.settle(usage)
        self.calls.append(MeteredCall(call.node, text, usage, call.texts, tuple(answer.tool_calls), call.model))
        named = self.named.get(next(iter(call.texts), ""))
        notes = {NAMED: named} if named else {}
        reply = Reply(
            content=text, usage=usage, model=call.model.partition(":")[2] or call.model, metadata=notes
        ).model_dump_json()

        async def give() -> CallResult:
            return CallResult(reply, usage)

        row = self.journal.call_once("model", self.scope.at(node=call.node), [call.model, str(run_id)], give, usage)
        self._recorded.append(asyncio.run_coroutine_threadsafe(row, self.loop))

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Give back what a failed call has reserved, and note the call."""
        if call := self._under_way.pop(run_id, None):
            call.reservation.settle(ZERO_USAGE)
            self.failed.append(FailedCall(call.model, error))

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

    async def close(self) -> None:
        """Give back what calls without an end have reserved, and wait until all others are recorded."""
        for call in self._under_way.values():
            call.reservation.settle(ZERO_USAGE)
        self._under_way.clear()
        await asyncio.gather(*map(asyncio.wrap_future, self._recorded))

    def _begin(
        self,
        texts: Sequence[str],
        found: Mapping[str, Sequence[str]],
        *,
        run_id: UUID,
        metadata: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        known = metadata or {}
        name, provider = str(known.get("ls_model_name") or "model"), str(known.get("ls_provider") or "")
        model, sent = f"{provider}:{name}" if provider else name, _estimate(texts)
        where = "/".join(part for part in (self.scope.phase, self.scope.task) if part)
        try:
            at_most = self._price(model, sent, int(known.get("ls_max_tokens") or MAX_TOKENS))
            reservation = self.ledger.get_task_ledger(self.scope).reserve(at_most, where)
        except BudgetError as error:
            self.refusal = self.refusal or error
            raise
        node = str(known.get("langgraph_node") or name)
        self._under_way[run_id] = CallUnderWay(node, model, sent, reservation, found)

    def _price(self, model: str, sent: int, received: int) -> Usage:
        dollars = self.prices.cost(model, sent, received)
        return Usage(calls=1, input_tokens=sent, output_tokens=received, dollars=dollars)


def _find_address(error: BaseException) -> str:
    """Find the scheme and host of the server to which a request was made; "" where that is not known."""
    with suppress(RuntimeError):  # httpx's, of an error without a request
        return Identity("", "", str(getattr(getattr(error, "request", None), "url", ""))).address
    return ""


def _estimate(texts: Sequence[str]) -> int:
    return estimate_tokens([ChatMessage.user(replace_surrogates(text)) for text in texts])
