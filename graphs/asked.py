"""What is put to a method's graph: the question of its state, the run that its thread is, who assesses answers."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langgraph.config import get_config

from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.values import fingerprint

Assess = Callable[[Question, str, Scope], Awaitable[Feedback]]
"""An environment that knows the reference by the question; the reference itself is nowhere in the state."""


def new_question(state: Mapping[str, Any]) -> Question:
    """The question that is put in, known by its text.

    Raises:
        ConfigError: there is none, or it is blank.
    """
    text = state.get("question")
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f'the input is {{"question": "..."}} with a text that is not blank, not {text!r}')
    return Question(id=fingerprint(text), input=text)


def thread() -> str:
    """The running graph's thread as the name of a run; without one, a name that nobody else has."""
    return str(get_config().get("configurable", {}).get("thread_id") or secrets.token_hex(8))
