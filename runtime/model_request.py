"""One request to a chat model, and the model that answers it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from selfwire.core.chat import ChatMessage, ToolSpec
from selfwire.core.scope import Scope
from selfwire.runtime.models import Identity
from selfwire.runtime.structured import Bound, bind_schema, schema_fingerprint
from selfwire.runtime.structured_modes import Mode, ModeSearch, names_form

SEED_STRIDE = 7919
"""Lies between the seeds of two samples, for models that know seeds but no samples."""


class ModelRequest(NamedTuple):
    """What is asked for; `again` says that a reply was no valid object."""

    role: str
    scope: Scope
    messages: Sequence[ChatMessage]
    tools: tuple[ToolSpec, ...]
    schema: type[BaseModel] | None
    temperature: float | None
    max_tokens: int | None = None
    again: bool = False

    @property
    def where(self) -> str:
        """The place in the run, for errors."""
        return "/".join(part for part in (self.scope.phase, self.scope.task, self.scope.node) if part) or "the run"


class RoleModel(NamedTuple):
    """The model of a role; `longest` is the most tokens that a reply may have."""

    model: BaseChatModel
    who: Identity
    longest: int
    bounds: dict[Any, Bound]

    def bind(self, request: ModelRequest, mode: Mode) -> Bound:
        """The model with a request's tools or schema."""
        key = (request.tools, request.schema, mode)
        if key not in self.bounds:
            self.bounds[key] = bind_schema(self.model, request.tools, request.schema, mode)
        return self.bounds[key]

    def is_deterministic(self, request: ModelRequest) -> bool:
        """Whether the request is made at temperature 0, so that one reply will do wherever a run makes it again."""
        own = getattr(self.model, "temperature", None)
        return (own if request.temperature is None else request.temperature) == 0


def make_request_key(who: Identity, request: ModelRequest) -> dict[str, Any]:
    """Everything that a reply depends on beside its scope, for the journal."""
    return {
        "model": who.name,
        "role": request.role,  # roles may play the same model with other options
        "messages": [
            [one.role, one.content, [call.model_dump(mode="json") for call in one.tool_calls], one.tool_call_id]
            for one in request.messages
        ],
        "tools": [tool.model_dump(mode="json") for tool in request.tools],
        "schema": request.schema and schema_fingerprint(request.schema),
        "temperature": request.temperature,
    }


def make_options(player: RoleModel, request: ModelRequest, timeout: float) -> dict[str, Any]:
    """Options of one call, as far as the model knows them."""
    scope, fields = request.scope, type(player.model).model_fields
    options: dict[str, Any] = {} if request.temperature is None else {"temperature": request.temperature}
    if request.max_tokens and "max_tokens" in fields:
        options["max_tokens"] = min(request.max_tokens, player.longest)
    if "request_timeout" in fields:
        options["timeout"] = timeout  # the client may have been made with a shorter one
    if player.who.provider == "offline":
        options |= {"seed": scope.seed, "sample": scope.sample}
    elif "seed" in fields and not getattr(player.model, "use_responses_api", None):
        options["seed"] = (scope.seed + SEED_STRIDE * scope.sample) % 2**31
    return options


def advise_on_refusal(error: BaseException, request: ModelRequest, search: ModeSearch | None) -> str:
    """What to do about an error if it says that the server takes no such requests; empty if it says something else."""
    if search and search.is_refused(error):
        return f"it takes no requests in mode {search.mode!r}: let the mode be found out by --structured auto"
    if request.tools and names_form(error, tools=True):
        return "it takes no tools: start the server with tools, use another model, or agents without tools"
    return ""
