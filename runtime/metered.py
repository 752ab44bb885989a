"""The one wrapper around every model call: journal, budget, limits, timeout, retries, usage and tags."""

import asyncio
import copy
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from pydantic import BaseModel

from selfwire.core.budget import get_error_cost
from selfwire.core.chat import ChatMessage, Reply, ToolSpec
from selfwire.core.errors import CallError, ConfigError, ModelError, OutageError, ReplyError
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import replace_surrogates
from selfwire.runtime.call_settings import CallSettings
from selfwire.runtime.context_window import estimate_tokens, truncate_messages
from selfwire.runtime.direct_calls import invoke_without_callbacks
from selfwire.runtime.journal import Journal
from selfwire.runtime.journal_rows import CallResult
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.messages import salvage_calls, to_langchain, to_reply
from selfwire.runtime.model_request import ModelRequest, RoleModel, advise_on_refusal, make_options, make_request_key
from selfwire.runtime.models import MAX_TOKENS, get_identity
from selfwire.runtime.prices import Prices
from selfwire.runtime.provider_errors import Caught, format_provider_error, is_refusal, is_transient, retry_after
from selfwire.runtime.recorder import Recorder
from selfwire.runtime.structured import list_faults, make_retry_messages, parse_reply, schema_fingerprint
from selfwire.runtime.structured_counts import ASKED, note_invalid
from selfwire.runtime.structured_modes import MODE_NOTE, Mode, ModeSearch, get_known_mode
from selfwire.runtime.throttle import Throttle, get_throttle
from selfwire.runtime.tracing import make_trace_config

Schema = TypeVar("Schema", bound=BaseModel)
_log = logging.getLogger(__name__)

ABSURD = 10**9
"""No call sends or receives so many tokens; a provider that says so, or fewer than none, has counted nothing."""
PROBE = ChatMessage.user("Reply with the one word: ready")


class MeteredModel:
    """Implements `core.protocols.Model` over LangChain chat models.

    Args:
        models: one model for all roles, or a model per role; roles without one use "agent"'s.
        journal: records and replays calls; a memory journal by default; `NullRecorder` keeps nothing.
        prices: dollars per token; the shipped list by default.
        labels: tags of the run for tracing, such as method and workflow fingerprint.
    """

    def __init__(
        self,
        models: BaseChatModel | Mapping[str, BaseChatModel],
        *,
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
        self.policy = policy
        self.prices = prices or Prices.load()
        self.labels = dict(labels or {})
        self._players = {
            role: RoleModel(model, get_identity(model), getattr(model, "max_tokens", None) or MAX_TOKENS, {})
            for role, model in roles.items()
        }
        self._refuse_unpriced()

    def with_labels(self, **labels: str) -> "MeteredModel":
        """Return the same models, journal and ledger with further labels, such as the workflow that runs now."""
        other = copy.copy(self)
        other.labels = {**self.labels, **labels}
        return other

    def with_ledger(self, ledger: Ledger) -> "MeteredModel":
        """Return the same models with another ledger."""
        other = copy.copy(self)
        other.ledger = ledger
        other._refuse_unpriced()
        return other

    async def generate(
        self,
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "agent",
        tools: Sequence[ToolSpec] = (),
        temperature: float | None = None,
    ) -> Reply:
        """Ask the model that plays `role`; see `core.protocols.Model.generate`."""
        return await self._send(ModelRequest(role, scope, messages, tuple(tools), None, temperature))

    async def generate_structured(
        self,
        schema: type[Schema],
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "meta",
        temperature: float | None = None,
    ) -> tuple[Schema, Usage]:
        """Ask for a validated object; see `core.protocols.Model.generate_structured`."""
        request = ModelRequest(role, scope, messages, (), schema, temperature, getattr(schema, "MAX_TOKENS", None))
        first = await self._send(request)
        try:
            return await parse_reply(schema, first), first.usage
        except ValueError as error:
            await note_invalid(self.journal, request, error)
            room = None if first.finish == "length" else request.max_tokens
            retry = make_retry_messages(messages, first, error)
            reasked = request._replace(messages=retry, max_tokens=room, again=True)
        try:
            second = await self._send(reasked)
        except ModelError as failed:
            failed.cost = first.usage + get_error_cost(failed)
            raise
        usage = first.usage + second.usage
        try:
            return await parse_reply(schema, second), usage
        except ValueError as error:
            if await self._reopen(request, reasked):
                return await self.generate_structured(schema, messages, scope=scope, role=role, temperature=temperature)
            await note_invalid(self.journal, reasked, error)
            player = self._player(role)
            search = self._search_mode(player, request)
            other_mode = ", or --structured prompt" if search and search.mode != "prompt" else ""
            resume = "; resuming the run with --retry-failed asks again" if self.journal.can_resume else ""
            invalid = ReplyError(
                f"{player.who.name} gave no valid {schema.__name__} at {reasked.where}, nor when asked again: "
                f"{list_faults(error)}; try another model for role {role!r}{other_mode}{resume}"
            )
            invalid.cost = usage
            raise invalid from None

    async def _reopen(self, *requests: ModelRequest) -> bool:
        """Have calls on record made again if failed ones shall be retried; whether any will be."""
        found = False
        for one in requests:
            player = self._player(one.role)
            key, anywhere = make_request_key(player.who, one), player.is_deterministic(one)
            found |= await self.journal.reopen("model", one.scope, key, anywhere=anywhere)
        return found

    async def _send(self, request: ModelRequest) -> Reply:
        player = self._player(request.role)
        messages, cuts = truncate_messages(request.messages, request.tools, self.policy.max_input_tokens)
        at_most = self._estimate_most(player, messages, request)
        made: list[Reply] = []
        ledger = self.ledger.get_task_ledger(request.scope)

        async def call() -> CallResult:
            billed: list[Usage] = []
            with await tracked.reserve(at_most, request.where) as reservation:
                try:
                    extend = partial(reservation.extend, at_most, request.where)
                    sent = request._replace(messages=messages)
                    reply = await self._send_with_retries(player, sent, at_most.tokens, billed, extend)
                except CallError as error:
                    error.cost = sum_usages(billed)
                    raise
                finally:
                    reservation.settle(sum_usages(billed))
            if cuts:
                trimmed = [cut._asdict() for cut in cuts]
                reply = reply.replace(metadata={**reply.metadata, "trimmed": trimmed})
            if request.schema:
                reply = reply.replace(metadata={**reply.metadata, ASKED: {"again": request.again}})
            made.append(reply)
            return CallResult(reply.model_dump_json(), reply.usage)

        asked = make_request_key(player.who, request)
        with ledger.track_call() as tracked:
            result = await self.journal.call_once(
                "model", request.scope, asked, call, at_most, anywhere=player.is_deterministic(request)
            )
        return made[0] if made else result.parse(Reply.model_validate_json)

    async def _send_with_retries(
        self, player: RoleModel, request: ModelRequest, tokens: int, billed: list[Usage], extend: Callable[[], bool]
    ) -> Reply:
        """Try until an attempt succeeds or another one makes no sense; an OutageError needs `policy.probe`.

        `extend` reserves another call after one that was billed; it gives False where the budget does not allow it.
        """
        throttle = get_throttle(f"{player.who.provider} {player.who.server}", self.policy, self.ledger.pool)
        since, search = time.monotonic(), self._search_mode(player, request)
        attempt, empty, refusals_only = 0, 0, True
        while True:
            async with throttle.take_place(tokens) as start:
                sent = time.monotonic()
                answer = await self._send_once(player, request, search.mode if search else "native")
            if isinstance(answer, AIMessage):
                throttle.answered = max(throttle.answered, sent)
                is_reply = bool(answer.text or answer.tool_calls or answer.invalid_tool_calls)
                took = time.monotonic() - since if is_reply else 0.0
                billed.append(self._usage(player, request, answer, took))
                throttle.correct(billed[-1].tokens - tokens, start)
                if is_reply:
                    await self._note_mode(player, request, search, answer)
                    return to_reply(answer, sum_usages(billed))
                empty += 1
                fault, can_retry, wait = "an empty reply", empty == 1 and extend(), None
            else:
                if is_refusal(answer):
                    throttle.correct(-tokens, start)
                else:
                    refusals_only = False
                if search and search.step_down(answer, is_last=attempt == self.policy.retries):
                    continue
                fault = format_provider_error(answer, player.model)
                can_retry = is_transient(answer) and not advise_on_refusal(answer, request, search)
                wait = retry_after(answer)
            if not can_retry or attempt == self.policy.retries or (wait or 0) > self.policy.patience:
                break
            if wait is not None:
                throttle.pause(wait)  # for all workers, this one included
            else:
                await asyncio.sleep(self.policy.backoff * 2**attempt * random.uniform(0.5, 1.0))
            attempt += 1
        asked = f", which asks to wait {wait:,.0f} s" if wait else ""
        what = f"{player.who.label} failed at {request.where} after {attempt + 1} attempt(s): {fault}{asked}"
        way_out = "check the address, the key, the model's name and the provider's state, then resume"
        refused = "" if isinstance(answer, AIMessage) else advise_on_refusal(answer, request, search)
        failed: CallError = ModelError(f"{what}; {refused or way_out}")
        doubted = self.policy.probe and not refused and not isinstance(answer, AIMessage)
        if doubted and extend() and not await self._probe(player, request, throttle, billed):
            failed = OutageError(f"{what}; it does not answer anything else either: {way_out}")
        failed.is_cost_known = refusals_only
        raise failed

    def _search_mode(self, player: RoleModel, request: ModelRequest) -> ModeSearch | None:
        if request.schema is None:
            return None
        wanted = "native" if player.who.provider == "offline" else self.policy.structured
        return ModeSearch(get_known_mode(player.who.label), schema_fingerprint(request.schema), wanted)

    async def _note_mode(
        self, player: RoleModel, request: ModelRequest, search: ModeSearch | None, answer: AIMessage
    ) -> None:
        """Remember the mode of an answered request, and tell the user if it is news."""
        if search and search.end(answer, in_words=request.again):
            _log.warning(
                "%s is asked for objects in mode %r from now on, as it does not take others; "
                "--structured %s (in Python CallSettings(structured=%r)) does so from the start",
                player.who.label, search.mode, search.mode, search.mode,
            )  # fmt: skip
            await self.journal.put_note(f"{MODE_NOTE}{player.who.label}", search.mode)

    async def _probe(self, player: RoleModel, request: ModelRequest, throttle: Throttle, billed: list[Usage]) -> bool:
        """Whether the provider answers at all: a probe of this worker, or another request in the meantime."""
        since, probe = time.monotonic(), request._replace(messages=[PROBE], tools=(), schema=None)
        tokens = self._estimate_most(player, probe.messages, probe).tokens
        for pause in (self.policy.backoff, 0.0):
            async with throttle.take_place(tokens) as start:
                answer = await self._send_once(player, probe)
            if isinstance(answer, AIMessage):
                billed.append(self._usage(player, probe, answer))
                throttle.correct(billed[-1].tokens - tokens, start)
                return True
            if is_refusal(answer):
                throttle.correct(-tokens, start)
            await asyncio.sleep(pause)
        return throttle.answered >= since

    async def _send_once(
        self, player: RoleModel, request: ModelRequest, mode: Mode = "native"
    ) -> AIMessage | BaseException:
        """Send one request; an error of the provider comes back as a value, whatever its type."""
        bound, options = player.bind(request, mode), make_options(player, request, self.policy.timeout)
        runnable, chat = bound.runnable, to_langchain(bound.add_schema(request.messages, again=request.again))
        with Caught() as caught:
            async with asyncio.timeout(self.policy.timeout):
                answer = await invoke_without_callbacks(runnable, chat, options)
                return answer or await runnable.ainvoke(chat, self._make_config(request), **options)
        error = caught.error or TimeoutError()
        return salvage_calls(error) or error

    def _make_config(self, request: ModelRequest) -> RunnableConfig:
        current = ensure_config()
        around = current.get("metadata") or {}
        here = make_trace_config(request.scope, {**self.labels, "role": request.role}, around=around)
        return {
            **current,
            "tags": [*(current.get("tags") or ()), *here["tags"]],
            "metadata": {**around, **here["metadata"]},
        }

    def _usage(self, player: RoleModel, request: ModelRequest, answer: AIMessage, seconds: float = 0.0) -> Usage:
        """What the provider counted, or an estimate where it counts nothing."""
        counted = answer.usage_metadata
        if counted and all(0 <= counted[name] < ABSURD for name in ("input_tokens", "output_tokens")):
            sent, received = counted["input_tokens"], counted["output_tokens"]
        else:
            sent = estimate_tokens(request.messages, request.tools)
            received = estimate_tokens([ChatMessage(role="assistant", content=replace_surrogates(answer.text))])
        dollars = self.prices.cost(player.who.name, sent, received)
        return Usage(calls=1, input_tokens=sent, output_tokens=received, dollars=dollars, seconds=seconds)

    def _estimate_most(self, player: RoleModel, messages: Sequence[ChatMessage], request: ModelRequest) -> Usage:
        longest = min(request.max_tokens or player.longest, player.longest)
        sent = estimate_tokens(messages, request.tools)
        dollars = self.prices.cost(player.who.name, sent, longest)
        return Usage(calls=1, input_tokens=sent, output_tokens=longest, dollars=dollars)

    def _player(self, role: str) -> RoleModel:
        return self._players.get(role) or self._players["agent"]

    def _refuse_unpriced(self) -> None:
        for player in self._players.values():
            if self.ledger.counts_dollars:
                self.prices.require(player.who.name)
