"""How a server lets itself be asked for objects: the structured mode of a server and model, found out and remembered.

The modes are tried in the order of `MODES`. A request whose form is refused is sent again in the next mode; the first
mode that gets an answer is the one for all later requests to that server and model. Other errors say nothing about
the form, so the request is retried in the same mode; some servers, however, answer status 500 to a form that they do
not know, so the next mode is tried if that is still the answer when no retries are left.
"""

import math
import threading
import time
from typing import Literal, get_args

from langchain_core.messages import AIMessage

from selfwire.core.errors import format_error
from selfwire.runtime.journal import Journal
from selfwire.runtime.provider_errors import status

Mode = Literal["native", "tool", "json", "prompt"]
"""A JSON schema as response format (or the provider's own way), a forced tool call, any JSON object, words only."""
MODES: tuple[Mode, ...] = get_args(Mode)
Structured = Literal["auto", "native", "tool", "json", "prompt"]
"""A mode, or the first one that the server takes."""

MODE_NOTE = "structured mode of "
"""Notes of a journal with a mode that was found out begin with this; a server and model follow."""
NEVER_FORM = {401, 402, 403, 408, 409, 413, 425, 429, 502, 503, 504}
"""Statuses that speak of keys, limits or load, whatever the message says."""
REFUSED = {400, 415, 422, 501}
"""Statuses of requests that a server cannot take, without a word about why."""
FORM_WORDS = (
    "response_format",
    "response format",
    "json_schema",
    "json_object",
    "json schema",
    "json mode",
    "structured output",
    "output_config",
    "invalid schema",
    "guided",
    "grammar",
)
TOOL_WORDS = ("tool_choice", "tool choice", "tools", "tool use", "tool call", "function call", "parallel_tool_calls")


def names_form(error: BaseException, *, tools: bool = False) -> bool:
    """Whether an error says that the form of a request is refused: its response format, schema or tools.

    Args:
        tools: whether only words about tools count.
    """
    code = status(error)
    if code is None or code < 400 or code in NEVER_FORM:
        return False
    text = format_error(error).lower()
    return any(word in text for word in (TOOL_WORDS if tools else FORM_WORDS + TOOL_WORDS))


class KnownMode:
    """The mode of one server and model, as far as it is known in this process."""

    def __init__(self) -> None:
        self.mode: Mode = "native"
        self.proven = False
        """Whether a server has answered in this mode, in the form that was asked for."""
        self._of_schema: dict[str, Mode] = {}
        self._doubted = math.inf
        self._told = False
        self._lock = threading.Lock()

    def get(self, schema: str) -> Mode:
        """The mode for a schema, by its fingerprint."""
        return self._of_schema.get(schema, self.mode)

    def recall(self, mode: Mode) -> None:
        """Begin with a mode that was found out earlier; what this process has found out itself stays."""
        with self._lock:
            if not (self.proven or self._told):
                self.mode, self.proven, self._told = mode, True, True

    def settle(self, mode: Mode, schema: str, *, since: float, sure: bool) -> bool:
        """Note that a request was answered in a mode; whether that is news for the user.

        Args:
            since: when the request was first sent, by the monotonic clock.
            sure: whether the modes before it were refused, and not just out of order; else a later request must
                find the same, as the server may have been out of order for a moment.
        """
        with self._lock:
            if mode != self.get(schema):
                if not sure and since <= self._doubted:
                    self._doubted = min(self._doubted, time.monotonic())
                    return False
                if self.proven:  # the server takes the form, but not with this schema
                    self._of_schema[schema] = mode
                    return False
                self.mode = mode
            if mode == self.mode:
                self.proven, self._doubted = True, math.inf
            news = self.mode != "native" and not self._told
            self._told = self._told or news
            return news

    def ignore(self, mode: Mode) -> None:
        """Note that a request was answered in prose: a server that has never heeded the form will not do so later."""
        with self._lock:
            if not self.proven and mode != "prompt" and MODES.index(mode) >= MODES.index(self.mode):
                self.mode = MODES[MODES.index(mode) + 1]


class ModeSearch:
    """The mode of one request, which steps down where the server refuses it."""

    def __init__(self, known: KnownMode, schema: str, wanted: Structured) -> None:
        self._known, self._schema, self._free = known, schema, wanted == "auto"
        self.mode: Mode = known.get(schema) if wanted == "auto" else wanted
        self._since, self._sure, self._failures = time.monotonic(), True, 0

    def is_refused(self, error: BaseException) -> bool:
        """Whether the server refuses the mode, for which another try makes no sense."""
        unproven = self._free and not self._known.proven and status(error) in REFUSED
        return self.mode != "prompt" and (unproven or names_form(error))

    def step_down(self, error: BaseException, *, is_last: bool) -> bool:
        """Go on to the next mode if an error may come from the mode; whether it has done so.

        Args:
            is_last: whether no retries in the same mode are left.
        """
        if not self._free or self.mode == "prompt":
            return False
        if not self.is_refused(error):
            if status(error) != 500 or self._known.proven:
                return False
            self._failures += 1
            if self._failures < 2 or not is_last:
                return False
            self._sure = False
        settled = self._known.get(self._schema)
        self.mode = MODES[max(MODES.index(self.mode) + 1, MODES.index(settled))]
        return True

    def end(self, answer: AIMessage, *, in_words: bool) -> bool:
        """Note that the request was answered; whether the mode is news for the user.

        Args:
            in_words: whether the prompt held the schema, and not the form alone.
        """
        heeded = self.mode == "prompt" or _heeds_form(answer, in_words=in_words and self.mode != "json")
        if not self._free or heeded is None:
            return False
        if heeded:
            return self._known.settle(self.mode, self._schema, since=self._since, sure=self._sure)
        self._known.ignore(self.mode)
        return False


def _heeds_form(answer: AIMessage, *, in_words: bool) -> bool | None:
    """Whether a server has heeded the form of a request, to judge by the answer; None if that cannot be said."""
    if answer.tool_calls or answer.invalid_tool_calls:
        return True
    if answer.text.lstrip().startswith("{"):
        return None if in_words else True
    whole = answer.response_metadata.get("finish_reason") != "length"
    return False if whole and "{" not in answer.text else None


_known: dict[str, KnownMode] = {}


def get_known_mode(label: str) -> KnownMode:
    """What this process knows about the server and model of a label."""
    return _known.setdefault(label, KnownMode())


async def recall_modes(journal: Journal) -> None:
    """Begin with the structured modes that a run has found out before it was resumed."""
    for name in await journal.note_names(MODE_NOTE):
        get_known_mode(name.removeprefix(MODE_NOTE)).recall(await journal.get_note(name))
