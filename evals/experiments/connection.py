"""LangSmith's client: one that uploads, where a key or an endpoint is set, and one that opens no connection."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langsmith import Client
from langsmith.schemas import Feedback
from langsmith.utils import LangSmithError
from requests import RequestException

from selfwire.core.errors import ConfigError

NOWHERE = "http://127.0.0.1:9"
"""The discard port of this machine, should the local client ever ask for anything."""
VARIABLES = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY", "LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
PATIENCE = 60.0
"""Seconds that feedback on its way may take at the end."""


class Uploads(Client):
    """A client that can be waited for: `aevaluate` hands feedback to threads and forgets them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._arrived, self._change = 0, threading.Condition()

    def create_feedback(self, *args: Any, **options: Any) -> Feedback:
        """As the client's; counted, whether it succeeds or not."""
        try:
            return super().create_feedback(*args, **options)
        finally:
            with self._change:
                self._arrived += 1
                self._change.notify_all()

    def wait_for(self, feedback: int) -> None:
        """Wait until that much feedback has gone out in all, and every run; `PATIENCE` seconds at most. Blocks."""
        with self._change:
            self._change.wait_for(lambda: self._arrived >= feedback, PATIENCE)
        self.flush(PATIENCE)


def uploading() -> Uploads:
    """A client of the LangSmith that the environment names.

    Raises:
        ConfigError: the environment names neither a key nor an endpoint.
    """
    if not any(os.environ.get(name, "").strip() for name in VARIABLES):
        raise ConfigError(
            "there is no LangSmith to upload to: set LANGSMITH_API_KEY, or LANGSMITH_ENDPOINT for a server of your "
            "own; without either, leave --langsmith out: everything is measured here all the same"
        )
    return Uploads()


def local() -> Uploads:
    """A client that nothing leaves: it samples no run, and whoever uses it must upload no results."""
    info = {"instance_flags": {"zstd_compression_enabled": True}}  # else it would ask the server
    return Uploads(api_url=NOWHERE, api_key="none", tracing_sampling_rate=0.0, info=info)


@contextmanager
def reached(client: Client) -> Iterator[None]:
    """Say in our words that LangSmith refused or could not be reached.

    Raises:
        ConfigError: LangSmith answered with an error, or not at all.
    """
    try:
        yield
    except (LangSmithError, RequestException) as error:
        said = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"LangSmith at {client.api_url} refused: {type(error).__name__}: {said}; check LANGSMITH_API_KEY and "
            "LANGSMITH_ENDPOINT, or leave --langsmith out"
        ) from None
