"""The models and the embedder that a request names, wired to a run's journal and budget."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder
from selfwire.runs.requests import ModelNames
from selfwire.runtime.addresses import find_address
from selfwire.runtime.call_settings import CallSettings
from selfwire.runtime.embeddings import load_embedder
from selfwire.runtime.journal import Journal
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.metered import MeteredModel
from selfwire.runtime.model_names import is_offline
from selfwire.runtime.models import make_chat_model
from selfwire.runtime.prices import Prices
from selfwire.runtime.storage import home_folder
from selfwire.runtime.structured_modes import recall_modes
from selfwire.runtime.sync import run_sync

REQUESTS = 32
"""Least number of requests at once per provider, where the request names none."""
PRICES = "prices.json"
"""Name of the file in the home folder that overrides the shipped list prices."""


def make_metered_model(
    names: ModelNames,
    *,
    journal: Journal,
    ledger: Ledger,
    at_once: int = 1,
    probe: bool = False,
    home: Path | None = None,
) -> MeteredModel:
    """The models of a request behind one wrapper.

    Args:
        probe: whether a provider that is down raises an OutageError, for runs that can be resumed.

    Raises:
        ConfigError: a model or a file of prices cannot be used, a base URL is given but no model uses it, or a
            dollar budget meets a model without a price.
    """
    refuse_useless_address(names)
    limits = {"max_tokens": names.max_tokens} if names.max_tokens else {}
    options: dict[str, Any] = {"timeout": names.timeout}
    if names.base_url:
        options["base_url"] = find_address(names.base_url)
    made = {
        name: make_chat_model(name, **limits, **({} if is_offline(name) else options))
        for name in set(names.roles.values())
    }
    policy = CallSettings(
        timeout=names.timeout,
        retries=names.retries,
        probe=probe,
        concurrency=names.requests_at_once or max(REQUESTS, at_once),
        together=names.requests_at_once is not None,
        requests_per_minute=names.requests_per_minute,
        tokens_per_minute=names.tokens_per_minute,
        structured=names.structured,
    )
    roles = {role: made[name] for role, name in names.roles.items()}
    run_sync(recall_modes(journal))
    return MeteredModel(roles, journal=journal, ledger=ledger, policy=policy, prices=load_prices(names, home))


def refuse_useless_address(names: ModelNames) -> None:
    """Refuse a base URL that no model uses, or that is no address.

    Raises:
        ConfigError: it is one of these.
    """
    if names.base_url and names.calls_no_server:
        raise ConfigError(
            f"--base-url {names.base_url} is an address of models, and the offline model calls no server; give the "
            "model's name too, such as --model openai:NAME, or leave the address out"
        )
    if names.base_url is not None:
        _refuse_no_address(names.base_url)


def _refuse_no_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of a port that is no number, or too high
        usable = False
    if not usable:
        raise ConfigError(f"--base-url {url!r} is no address of a server; write it as http://HOST:PORT/v1")


def load_prices(names: ModelNames, home: Path | None) -> Prices:
    """The shipped list prices under those of the request's file, or of the home folder's.

    Raises:
        ConfigError: the file cannot be used.
    """
    return Prices.load(find_price_file(names, home))


def find_price_file(names: ModelNames, home: Path | None) -> Path | None:
    """The file of prices that the user has given or laid into the home folder; None if there is none."""
    own = home_folder(home) / PRICES
    return Path(names.prices) if names.prices else own if own.exists() else None


def load_models_embedder(names: ModelNames) -> tuple[Embedder, tuple[str, ...]]:
    """The embedder of a request, and notices for the user; `auto` is hashing with the offline model."""
    embedder, notice = load_embedder("hashing" if names.embedder == "auto" and names.is_offline else names.embedder)
    return embedder, tuple(filter(None, (notice, _doubt_address(names.base_url))))


def _doubt_address(url: str | None) -> str:
    """A notice for the address of a server without a path, as most servers answer below /v1; "" for others."""
    if url is None or urlsplit(url).path.strip("/"):
        return ""
    return f"--base-url {url} has no path; most servers answer at {url.rstrip('/')}/v1"
