"""The model of a run: chat models by role, replies as text or as objects, under one budget and one journal."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from selfwire.core.budget import get_error_cost
from selfwire.core.chat import ChatMessage, Reply, ToolSpec
from selfwire.core.errors import ConfigError, ModelError, ReplyError
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.models.budget import Ledger
from selfwire.models.limits import CallSettings
from selfwire.models.metered_chat import MeteredChat, ModelRequest, note_invalid
from selfwire.models.prices import Prices
from selfwire.models.structured import list_faults, make_retry_messages, parse_reply
from selfwire.store.journal import Journal, Recorder

Schema = TypeVar("Schema", bound=BaseModel)
ROLES = ("agent", "meta", "judge")


class MeteredModel:
    """The models of a run by role, over LangChain chat models; implements `core.protocols.Model`.

    Args:
        models: a model for all roles, or a model per role; roles without a model use that of "agent".
        journal: records and replays calls; a memory journal by default; `NullRecorder` records nothing.
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
        settings = {"ledger": self.ledger, "policy": policy, "prices": prices or Prices.load(), "labels": labels or {}}
        self.chats = {
            role: MeteredChat(roles.get(role, roles["agent"]), journal=self.journal, role=role, **settings)
            for role in {*ROLES, *roles}
        }

    def with_labels(self, **labels: str) -> "MeteredModel":
        """Return the same models, journal and ledger with further labels, such as the current workflow."""
        return self._copy(lambda chat: {"labels": {**chat.labels, **labels}})

    def with_ledger(self, ledger: Ledger) -> "MeteredModel":
        """Return the same models with another ledger."""
        other = self._copy(lambda _: {"ledger": ledger})
        other.ledger = ledger
        for chat in other.chats.values():
            chat.refuse_unpriced()
        return other

    def _copy(self, change: Callable[[MeteredChat], dict[str, Any]]) -> "MeteredModel":
        other = copy.copy(self)
        other.chats = {role: chat.model_copy(update=change(chat)) for role, chat in self.chats.items()}
        return other

    def chat(self, role: str = "agent") -> MeteredChat:
        """Return the chat model of a role; that of "agent" for a role without a model."""
        return self.chats.get(role) or self.chats["agent"]

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
        return await self.chat(role).complete(ModelRequest(role, scope, messages, tuple(tools), None, temperature))

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
        chat = self.chat(role)
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
                return await self.generate_structured(schema, messages, scope=scope, role=role, temperature=temperature)
            await note_invalid(self.journal, reasked, error)
            search = chat.search_mode(request)
            other_mode = ", or --structured prompt" if search and search.mode != "prompt" else ""
            resume = "; resuming the run with --retry-failed asks again" if self.journal.can_resume else ""
            invalid = ReplyError(
                f"{chat.identity.name} gave no valid {schema.__name__} at {reasked.where}, nor when asked again: "
                f"{list_faults(error)}; try another model for role {role!r}{other_mode}{resume}"
            )
            invalid.cost = usage
            raise invalid from None
