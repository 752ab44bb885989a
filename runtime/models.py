"""Chat models by name."""

import os
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from selfwire.core.errors import ConfigError
from selfwire.core.secrets import mask_address, register_secret
from selfwire.runtime.model_names import is_offline, refuse_unknown_model
from selfwire.runtime.provider_errors import redact_error

TIMEOUT = 120.0
MAX_TOKENS = 2048
REFUSED_FORM = "(This model does not support|Invalid schema for) OpenAI's structured output"
"""Begin LangChain's warnings about a refused form, after which `MeteredModel` takes another one and says so."""
ADDRESSES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
"""Environment variables with the address of a server."""
OPENAI_HOSTS = (".openai.com", ".openai.azure.com")
"""Servers that want the limit of a reply as `max_completion_tokens`."""
LOCAL_KEY = "none"
"""The key that a user's own server gets if none is set."""


def make_chat_model(name_or_model: str | BaseChatModel, **options: Any) -> BaseChatModel:
    """Make a chat model that does not retry, as `MeteredModel` does.

    Args:
        name_or_model: "offline" ("offline:system" and "offline:user" hear those messages only); "openai:gpt-4o-mini",
            with `base_url` for any compatible server; any "provider:model" of LangChain's `init_chat_model`; or a
            ready model, which is returned as it is.
        options: passed to the model, such as base_url, api_key, temperature, max_tokens (2048) or timeout (120 s).

    Raises:
        ConfigError: the name, its provider's package, its key or an option is missing or wrong.
    """
    if isinstance(name_or_model, BaseChatModel):
        return name_or_model
    _register_secrets(options)
    name = name_or_model
    provider, _, model = name.partition(":")
    if is_offline(name):
        return _make_offline(name, model or "all", options)
    refuse_unknown_model(name)
    given = {"timeout": TIMEOUT, "max_tokens": MAX_TOKENS, **options, "max_retries": 0}
    return _make_hosted(name, _openai_options(given) if provider == "openai" else given)


def _make_offline(name: str, voice: str, options: Mapping[str, Any]) -> BaseChatModel:
    from selfwire.runtime.offline.instructions import VOICES
    from selfwire.runtime.offline.model import OfflineChat

    if voice not in VOICES:
        raise ConfigError(f"unknown model {name!r}; the offline model's voices are {', '.join(VOICES)}")
    return OfflineChat(voice=voice, **options)


def _register_secrets(options: Mapping[str, Any]) -> None:
    """Keep the key and what an address holds of secrets out of all texts."""
    key = options.get("api_key")
    register_secret(key.get_secret_value() if isinstance(key, SecretStr) else str(key or ""))
    for address in (options.get("base_url"), *(os.environ.get(name) for name in ADDRESSES)):
        mask_address(str(address or ""))


def _openai_options(options: dict[str, Any]) -> dict[str, Any]:
    own_server = _find_own_server(options)
    if not (options.get("api_key") or os.environ.get("OPENAI_API_KEY")):
        if not own_server:
            raise ConfigError(
                "model openai: needs a key; set OPENAI_API_KEY, name a server of yours (--base-url; in Python "
                "make_chat_model(name, base_url=...)), or use model 'offline'"
            )
        options = {**options, "api_key": LOCAL_KEY}
    if query := urlsplit(options.get("base_url") or "").query:  # the client would put its paths behind it
        bare = options["base_url"].partition("?")[0]
        options = {**options, "base_url": bare, "default_query": dict(parse_qsl(query))}
    if not {"http_async_client", "openai_proxy"} & {*options}:
        from selfwire.runtime.openai_client import ClientPerLoop, make_client

        options = {"http_client": make_client(), **options, "http_async_client": ClientPerLoop()}
    warnings.filterwarnings("ignore", message=REFUSED_FORM)
    return {"stream_usage": True, **options}  # with a base URL, streaming would lose the usage otherwise


def _find_own_server(options: Mapping[str, Any]) -> str | None:
    return options.get("base_url") or next(filter(None, map(os.environ.get, ADDRESSES)), None)


def _make_hosted(name: str, options: dict[str, Any]) -> BaseChatModel:
    from langchain.chat_models import init_chat_model
    from openai import OpenAIError

    provider, _, model_name = name.partition(":")
    server = _find_own_server(options) if provider == "openai" else None
    try:
        if server and not str(urlsplit(server).hostname).endswith(OPENAI_HOSTS):
            from selfwire.runtime.compatible_chat import CompatibleChatOpenAI

            return CompatibleChatOpenAI(model=model_name, **options)
        model: BaseChatModel = init_chat_model(name, **options)
    except ImportError as error:
        raise ConfigError(f"model {name!r} needs a package that is not installed: {error}") from None
    except (ValueError, TypeError, KeyError, OpenAIError) as error:
        why = redact_error(error)
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
        """The name for errors, with the host of a user's own server; its path and user may hold a key."""
        parts = urlsplit(self.server)
        host = parts.netloc.rpartition("@")[2]
        return f"{self.name} at {parts.scheme}://{host}" if host else self.name


def get_identity(model: BaseChatModel) -> Identity:
    """The identity that a model states."""
    parameters = model._get_ls_params()
    server = getattr(model, "openai_api_base", None) or getattr(model, "base_url", None) or ""
    return Identity(parameters.get("ls_provider", "unknown"), parameters.get("ls_model_name") or "", str(server))
