"""LangSmith clients: one that uploads, if a key or an endpoint is set, and one that opens no connection."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langsmith import Client, configure
from langsmith.utils import LangSmithError

from selfwire.core.errors import ConfigError

LOGGER = logging.getLogger(__name__)
NOWHERE = "http://127.0.0.1:9"
"""The discard port of this machine, in case the local client ever sends a request."""
HOSTED = "https://api.smith.langchain.com"
KEYS = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
ENDPOINTS = ("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
ASKED_FOR = tuple(f"{space}_{name}" for space in ("LANGSMITH", "LANGCHAIN") for name in ("TRACING", "TRACING_V2"))
ELSEWHERE = (
    "LANGSMITH_RUNS_ENDPOINTS", "LANGSMITH_TRACING_MODE", "LANGSMITH_OTEL_ENABLED", "LANGSMITH_OTEL_ONLY",
    "LANGSMITH_PROFILE", "LANGSMITH_CONFIG_FILE",
)  # fmt: skip
"""Other settings that say where traces go."""
PATIENCE = 60.0
"""Seconds to wait for feedback at the end."""


class Uploads(Client):
    """A client that waits for its uploads and survives a lost connection.

    `aevaluate` sends feedback from threads without waiting for them, and fails if the end of an experiment cannot be
    reported.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._pending, self._change, self._lost = 0, threading.Condition(), False

    def expect(self, feedback: int) -> None:
        """Count feedback that `aevaluate` is going to send."""
        with self._change:
            self._pending += feedback

    def create_feedback(self, *args: Any, **options: Any) -> Any:
        """As the client's; does nothing after the connection was lost."""
        try:
            return self._send(super().create_feedback, *args, **options)
        finally:
            with self._change:
                self._pending -= 1
                self._change.notify_all()

    def update_project(self, *args: Any, **options: Any) -> Any:
        """As the client's; does nothing after the connection was lost."""
        return self._send(super().update_project, *args, **options)

    def wait_for_uploads(self) -> None:
        """Wait until all feedback and runs are sent, at most `PATIENCE` seconds each. Blocks."""
        with self._change:
            self._change.wait_for(lambda: self._pending <= 0, PATIENCE)
        self.flush(PATIENCE)

    def _send(self, send: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if self._lost:
            return None
        try:
            return send(*args, **options)
        except LangSmithError as error:
            with self._change:
                first, self._lost = not self._lost, True
            if first:
                LOGGER.warning("LangSmith at %s takes no more: %s; what is measured here goes on", self.api_url, error)
            return None


def get_langsmith_address() -> str:
    """The address of LangSmith in the environment.

    Raises:
        ConfigError: the environment names neither a key nor an endpoint.
    """
    if not _is_set(*KEYS, *ENDPOINTS):
        raise ConfigError(
            "there is no LangSmith to upload to: set LANGSMITH_API_KEY, or LANGSMITH_ENDPOINT for a server of your "
            "own; without either, leave --langsmith out: everything is measured here all the same"
        )
    return next((found for name in ENDPOINTS if (found := os.environ.get(name, "").strip())), HOSTED)


def silence_tracing() -> bool:
    """Turn tracing off in this process and its children if it is requested without a key or endpoint.

    LangChain would still send its traces to the hosted service, which refuses them.

    Returns:
        Whether tracing was turned off.
    """
    requested = any(os.environ.get(name, "").strip().lower() == "true" for name in ASKED_FOR)
    profile = Path.home() / ".langsmith" / "config.json"
    if not requested or _is_set(*KEYS, *ENDPOINTS, *ELSEWHERE) or profile.exists():
        return False
    configure(enabled=False)
    os.environ.update({name: "false" for name in ASKED_FOR if name in os.environ})  # for child processes
    return True


def _is_set(*variables: str) -> bool:
    return any(os.environ.get(name, "").strip() for name in variables)


@contextmanager
def open_uploads() -> Iterator[Uploads]:
    """A client of the LangSmith in the environment; at the end it waits for its uploads.

    Raises:
        ConfigError: the environment names neither a key nor an endpoint.
    """
    get_langsmith_address()
    client = Uploads()
    try:
        yield client
        client.wait_for_uploads()
    finally:
        client.close(timeout=PATIENCE)


@contextmanager
def open_local_client() -> Iterator[Uploads]:
    """A client that sends nothing: it samples no run, and its user must upload no results."""
    info = {"instance_flags": {"zstd_compression_enabled": True}}  # otherwise it would ask the server
    client = Uploads(api_url=NOWHERE, api_key="none", tracing_sampling_rate=0.0, info=info)
    try:
        yield client
    finally:
        client.close(timeout=0)


@contextmanager
def translate_errors(client: Client) -> Iterator[None]:
    """Turn LangSmith's errors into ours.

    Raises:
        ConfigError: LangSmith answered with an error, or not at all.
    """
    try:
        yield
    except LangSmithError as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"LangSmith at {client.api_url} refused: {type(error).__name__}: {reason}; check LANGSMITH_API_KEY and "
            "LANGSMITH_ENDPOINT, or leave --langsmith out"
        ) from None
