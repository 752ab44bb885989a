"""Chat models by name, the addresses of their providers, and what their errors mean."""

import asyncio
import json
import os
import re
import warnings
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from socket import gaierror
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from selfwire.core.errors import ConfigError, ModelError, format_error
from selfwire.core.plugins import load_plugin
from selfwire.core.text import MASK, is_secret_name, mask_address, mask_secrets, register_secret, suggest_name
from selfwire.core.values import is_id, replace_surrogates


def is_offline(name: str) -> bool:
    """Whether a name means the offline model: `offline`, `offline:system` or `offline:user`."""
    return name.partition(":")[0] == "offline"


def is_model_name(name: str) -> bool:
    """Whether a name may mean a model: `offline`, or of the form `provider:model`."""
    provider, _, model = name.partition(":")
    return is_offline(name) or bool(provider and model)


def refuse_unknown_model(name: str) -> None:
    """Refuse a name that means no model.

    Raises:
        ConfigError: the name is neither `offline` nor of the form `provider:model`.
    """
    if not is_model_name(name):
        raise ConfigError(f"unknown model {name!r}; write 'offline' or 'provider:model', such as openai:gpt-4o-mini")


def write_naming_option(model: str) -> str:
    """Write the option that names a model as an agent has it: a name, or "provider:model"."""
    return f"--models NAME={model}" if ":" in model else f"--models {model}=PROVIDER:MODEL"


def parse_models(text: str) -> dict[str, str]:
    """Parse names of models for agents, such as "cheap=openai:gpt-4o-mini,strong=openai:gpt-4.1".

    Raises:
        ConfigError: a part is no NAME=PROVIDER:MODEL, a name stands twice, or it means no model.
    """
    found = dict[str, str]()
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, model = (piece.strip() for piece in part.partition("="))
        if not (equals and is_id(name)) or is_offline(name) or name in found:
            fault = "gives a name a second model" if name in found else "names no model"
            raise ConfigError(
                f"{part!r} {fault}; write NAME=PROVIDER:MODEL, several between commas, such as "
                "cheap=openai:gpt-4o-mini,strong=openai:gpt-4.1"
            )
        refuse_unknown_model(model)
        found[name] = model
    return found


ADDRESS = "SELFWIRE_BASE_URL"
"""Environment variable with the whole address of a server, for runs whose address had secrets."""

_whole: dict[str, str] = {}


def keep_address(address: str) -> str:
    """Mask an address for storage, and remember the whole address in this process."""
    masked = mask_address(address)
    if masked != address:
        _whole[masked] = address
    return masked


def find_address(stored: str) -> str:
    """Find the whole address of a stored, masked address.

    Raises:
        ConfigError: the address had secrets that neither this process nor the environment knows.
    """
    if MASK not in stored or stored in _whole:
        return _whole.get(stored, stored)
    given = os.environ.get(ADDRESS, "")
    if mask_address(given) == stored:
        return given
    what = f"; {mask_address(given)} is another one" if given else ""
    raise ConfigError(f"the secrets of the address {stored} are not stored{what}; set {ADDRESS} to the whole address")


TRANSIENT_STATUS = {408, 409, 425, 429}
TRANSIENT_NAMES = ("Timeout", "Connection", "Connect", "Transport", "RemoteProtocol", "ReadError", "WriteError")
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, AssertionError)
"""Errors of clients for a body that violates the protocol, such as a truncated body."""
KEY_PATTERN = re.compile(r"\b(?:(?:sk|pk)[-_ ]|(?:key|Bearer)[-_ ](?=[^\s,;]*[0-9*]|[^\s,;]{20}))[A-Za-z0-9*._-]{6,}")
"""Texts that look like keys; a word after "key" or "Bearer" does if it is long, or has a digit or a mask in it."""


class ErrorCatcher:
    """A context manager that catches and stores any error of a client, whatever its type.

    A cancellation of this task passes through; a cancellation inside the client is caught.
    """

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            own = task is None or not task.cancelling()
        else:
            own = isinstance(error, Exception)
        self.error = error if own else None
        return own


def get_status(error: BaseException | None) -> int | None:
    """Find the HTTP status of an error, or of the one that it was raised from; None if it has none."""
    while error is not None:
        for holder in (error, getattr(error, "response", None)):
            for name in ("status_code", "http_status", "status", "code"):
                value = getattr(holder, name, None)
                if isinstance(value, int) and 100 <= value < 600:
                    return value
        error = error.__cause__
    return None


def find_model_error(error: BaseException | None) -> ModelError | None:
    """Find the error of our HTTP client that a provider's client has wrapped in its own."""
    while error is not None and not isinstance(error, ModelError):
        error = error.__cause__
    return error


def is_transient(error: BaseException) -> bool:
    """Whether a retry may succeed: after 429, 5xx, timeouts, lost connections or truncated bodies."""
    if (code := get_status(error)) is not None and code >= 300:
        return code in TRANSIENT_STATUS or code >= 500
    if str(error) == "Event loop is closed":
        return True  # a pooled connection of an earlier `asyncio.run`; the failure took it out of the pool
    names = " ".join(kind.__name__ for kind in type(error).__mro__)
    return isinstance(error, (OSError, *MALFORMED)) or any(name in names for name in TRANSIENT_NAMES)


def is_refusal(error: BaseException) -> bool:
    """Whether a provider refused a request without working on it, so that nothing is billed: 4xx except 408."""
    return (code := get_status(error)) is not None and 400 <= code < 500 and code != 408


def is_wrong_option(error: BaseException) -> bool:
    """Whether a provider refused the key, the model's name or the address, which no waiting can mend."""
    return get_status(error) in (401, 403, 404)


def find_refused_word(error: BaseException, words: Collection[str]) -> str:
    """Find the word that a provider names first as it refuses a request; "" if it names none of them.

    Those behind it may be options that it takes, or the rest of a request that it shows.
    """
    said = re.findall(r"\w+", format_status_error(error)) if get_status(error) in (400, 422) else ()
    return next((word for word in said if word in words), "")


SHOWN_BODY = 300
"""Most characters of a body that are shown of an error."""


def format_status_error(error: BaseException) -> str:
    """Format an error as `format_error` does, with the provider's body where `openai`'s client leaves its text out."""
    text, body = format_error(error), getattr(error, "body", None)
    if not body or not text.endswith(f"Error code: {get_status(error)}"):
        return text
    said = body if isinstance(body, str) else json.dumps(body, default=repr, ensure_ascii=False)
    return f"{text} - {mask_secrets(replace_surrogates(said))[:SHOWN_BODY]}"


NO_SERVER = "check the address and that a server runs there, then resume"
"""What to do where no connection was made."""
TOO_MANY = (
    "wait, or ask less at once (--requests-at-once, --requests-per-minute, --tokens-per-minute), or raise a quota that "
    "is used up, then resume"
)
"""What to do where a provider says that it is asked too much."""
UNFIT = "change what the message names, such as the text that a filter or the model's length refuses, then resume"
"""What to do where a provider refuses a request for what stands in it."""
WAYS_OUT = {400: UNFIT, 413: UNFIT, 422: UNFIT, 429: TOO_MANY}
"""What to do by the HTTP status of an error."""


def is_fault_outside(error: BaseException | None) -> bool:
    """Whether a server or the network has failed, by an error or one that it came from."""
    while error is not None:
        names = " ".join(kind.__name__ for kind in type(error).__mro__)
        if (get_status(error) or 0) >= 300 or any(name in names for name in TRANSIENT_NAMES) or is_unsent(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_unsent(error: BaseException | None) -> bool:
    """Whether no connection was made, so that nothing was sent and nothing is billed."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError | gaierror) or type(error).__name__ == "ConnectError":
            return True
        error = error.__cause__ or error.__context__
    return False


RETRY_DELAY = re.compile(r"""retryDelay["']: ?["'](\d+(?:\.\d+)?)s""")
"""Seconds in the body of an error of Google, which sends no header."""


def get_retry_after(error: BaseException) -> float | None:
    """Read the seconds that the provider asks to wait; None if it does not ask."""
    holder = error if getattr(error, "response", None) is not None else error.__cause__
    headers: Mapping[str, str] = getattr(getattr(holder, "response", None), "headers", None) or {}
    value = headers.get("retry-after")
    if value is None:
        found = RETRY_DELAY.search(str(error))
        return float(found[1]) if found else None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


LONGEST = 1_000
"""Most characters of an error message; a provider may send a whole page."""


def format_provider_error(error: BaseException, model: BaseChatModel) -> str:
    """Format an error in one line, without known secrets and the model's own keys."""
    for name in type(model).model_fields:
        value = getattr(model, name, None)
        if isinstance(value, SecretStr):
            register_secret(value.get_secret_value())
        elif isinstance(value, str) and is_secret_name(name):
            register_secret(value)
    text = redact_error(error)
    if isinstance(error, MALFORMED) and get_status(error) is None:
        said = text.partition(": ")[2]
        if said == "No generation chunks were returned":  # LangChain's words
            said = "the server sent no stream; if it cannot, give the model disable_streaming=True"
        return f"a reply that is no answer: {said}"
    return text


def redact_error(error: BaseException) -> str:
    """Format an error in one line of at most `LONGEST` characters, without known secrets and texts like keys."""
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    text = " ".join(KEY_PATTERN.sub(MASK, format_status_error(error)).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


TIMEOUT = 120.0
MAX_TOKENS = 2048
REFUSED_FORM = "(This model does not support|Invalid schema for) OpenAI's structured output"
"""Beginning of LangChain's warnings about a refused form, for which `MeteredModel` reports its own fallback."""
ADDRESSES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
"""Environment variables with the address of a server."""
LOCAL_KEY = "none"
"""Key that is sent to a user's own server if no key is set."""


def make_chat_model(name_or_model: str | BaseChatModel, **options: Any) -> BaseChatModel:
    """Make a chat model that does not retry, as `MeteredModel` does.

    Args:
        name_or_model: "offline" ("offline:system" and "offline:user" read those messages only); "openai:gpt-4o-mini",
            with `base_url` for any compatible server; any "provider:model" of LangChain's `init_chat_model`; or a
            chat model, which is returned unchanged.
        options: passed to the model, such as base_url, api_key, temperature, max_tokens (2048) or timeout (120 s).

    Raises:
        ConfigError: the name, its provider's package, its key or an option is missing or wrong.
    """
    if isinstance(name_or_model, BaseChatModel):
        return name_or_model
    if not isinstance(name_or_model, str):
        raise ConfigError(
            f"a model is a name, such as 'offline' or 'openai:gpt-4o-mini', or a LangChain chat model, not "
            f"{name_or_model!r}"
        )
    _register_secrets(options)
    name = name_or_model
    provider, _, model = name.partition(":")
    if is_offline(name):
        return _make_offline(name, model or "all", options)
    refuse_unknown_model(name)
    given = {"timeout": TIMEOUT, "max_tokens": MAX_TOKENS, **options, "max_retries": 0}
    if provider == "ollama":  # its class ignores other names
        given = {"num_predict": given.pop("max_tokens"), **given}
    return _make_hosted(name, _openai_options(name, given) if provider == "openai" else given)


def _make_offline(name: str, voice: str, options: Mapping[str, Any]) -> BaseChatModel:
    offline = load_plugin("selfwire.models", "offline")
    if voice not in offline.voices:
        raise ConfigError(f"unknown model {name!r}; the offline model's voices are {', '.join(offline.voices)}")
    model: BaseChatModel = offline(voice=voice, **options)
    return model


def _register_secrets(options: Mapping[str, Any]) -> None:
    """Mask the key and the secrets of addresses in all texts."""
    key = options.get("api_key")
    register_secret(key.get_secret_value() if isinstance(key, SecretStr) else str(key or ""))
    for address in (options.get("base_url"), *(os.environ.get(name) for name in ADDRESSES)):
        mask_address(str(address or ""))


def _openai_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    own_server = options.get("base_url") or next(filter(None, map(os.environ.get, ADDRESSES)), None)
    if not (options.get("api_key") or os.environ.get("OPENAI_API_KEY")):
        if not own_server:
            raise ConfigError(
                f"model {name} needs a key; set OPENAI_API_KEY, name a server of yours (--base-url; in Python "
                "make_chat_model(name, base_url=...)), or use model 'offline'"
            )
        options = {**options, "api_key": LOCAL_KEY}
    if query := urlsplit(options.get("base_url") or "").query:  # the client would put its paths behind it
        bare = options["base_url"].partition("?")[0]
        options = {**options, "base_url": bare, "default_query": dict(parse_qsl(query))}
    warnings.filterwarnings("ignore", message=REFUSED_FORM)
    return {"stream_usage": True, **options}  # with a base URL, streaming would lose the usage otherwise


def _make_hosted(name: str, options: dict[str, Any]) -> BaseChatModel:
    from langchain.chat_models import init_chat_model
    from openai import OpenAIError

    from selfwire.models.openai_chat import OpenAIChat

    provider, _, model_name = name.partition(":")
    try:
        if provider == "openai":
            return OpenAIChat(model=model_name, **options)
        model: BaseChatModel = init_chat_model(name, **options)
    except ImportError as error:
        raise ConfigError(f"model {name!r} needs a package that is not installed: {error}") from None
    except (ValueError, TypeError, KeyError, OpenAIError) as error:
        why = redact_error(error)
        providers = re.findall(r"\w+", why.partition("Supported providers:")[2].partition(" For help")[0])
        if providers and provider not in providers:
            hint = suggest_name(provider, providers, f"did you mean {{}}:{model_name}? ")
            raise ConfigError(
                f"model {name!r} cannot be used: there is no provider {provider!r}; {hint}providers are "
                f"{', '.join(providers)}; a server of yours is asked as openai:MODEL with --base-url"
            ) from None
        raise ConfigError(f"model {name!r} cannot be used: {why}; check provider, key and options") from None
    return model


class Identity(NamedTuple):
    """The provider, the model's name, and the server if it is not the provider's own."""

    provider: str
    model: str
    server: str = ""

    @property
    def name(self) -> str:
        """The name in prices and requests: "provider:model", or "offline"."""
        return "offline" if self.provider == "offline" else f"{self.provider}:{self.model}"

    @property
    def label(self) -> str:
        """The name for errors, with the address of a user's own server."""
        return self.name if self.address == self.provider else f"{self.name} at {self.address}"

    @property
    def address(self) -> str:
        """Scheme and host of a user's own server, without path and user, which may be a key; else the provider."""
        parts = urlsplit(self.server)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}" if host else self.provider


def get_identity(model: BaseChatModel) -> Identity:
    """Read the identity that a model declares."""
    parameters = model._get_ls_params()
    server = getattr(model, "openai_api_base", None) or getattr(model, "base_url", None) or ""
    return Identity(parameters.get("ls_provider", "unknown"), parameters.get("ls_model_name") or "", str(server))


def rename_model(model: BaseChatModel, name: str) -> BaseChatModel:
    """Copy a chat model with the name of another model of its provider; all its other settings stay.

    Args:
        name: of the other one, as "provider:model".

    Raises:
        ConfigError: it is of another provider, or the class does not say by one field alone which model it asks.
    """
    known, kind = get_identity(model), type(model)
    provider, _, other = name.partition(":")
    if provider != known.provider:
        raise ConfigError(
            f"the program asks {known.name}, and a copy of its {kind.__name__} cannot ask {name}, which is of another "
            f"provider; name a model of {known.provider}, as in --models cheap={known.provider}:MODEL"
        )
    field = next((field for field in ("model_name", "model") if field in kind.model_fields), "")
    made = model.model_copy(update={field: other} if field else {})
    vars(made).pop("_serialized", None)  # a cached property, which has the name too
    if get_identity(made).name != name or getattr(model, "deployment_name", None):
        raise ConfigError(
            f"the program asks {known.name} by {kind.__name__}, which has no field that chooses the model; take the "
            'prompt\'s model away with SetModel(PROMPT, ""), and choose it in the code'
        )
    word = re.compile(rf"(?<![\w-]){re.escape(known.model)}(?![\w-])")
    held = {**vars(made), **(made.__pydantic_private__ or {})}
    texts = {key: value for key, value in held.items() if isinstance(value, str) and key not in (field, "name")}
    if derived := next((key for key, value in texts.items() if word.search(urlsplit(value).path)), ""):  # no host
        raise ConfigError(
            f"the program asks {known.name} by {kind.__name__}, which has the name in its {derived!r} too; take the "
            'prompt\'s model away with SetModel(PROMPT, ""), and choose it in the code'
        )
    return made
