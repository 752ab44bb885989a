"""Trajectories as a journal stores them, with the fields that a page shows; read at once from their JSON texts."""

from typing import Any

from pydantic import ConfigDict

from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.core.values import FrozenModel


class _Stored(FrozenModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class StoredMessage(_Stored):
    """A text from one node to another."""

    source: str
    target: str
    text: str


class StoredTool(_Stored):
    """A tool call."""

    name: str
    arguments: Any = None
    result: str
    error: bool = False


class StoredRouting(_Stored):
    """A choice of successors."""

    chosen: tuple[str, ...]
    scores: Any = None
    why: str = ""


class StoredStep(_Stored):
    """A call of an agent."""

    node: str
    agent: str
    visit: int = 0
    inbox: tuple[StoredMessage, ...] = ()
    output: str = ""
    error: str | None = None
    tools: tuple[StoredTool, ...] = ()
    routing: StoredRouting | None = None
    sent: tuple[StoredMessage, ...] = ()
    usage: Usage = ZERO_USAGE
    skills: tuple[str, ...] = ()


class StoredFeedback(_Stored):
    """Judgement of the environment on an answer."""

    score: float
    solved: bool
    text: str = ""


class StoredQuestion(_Stored):
    """A question."""

    id: str
    input: str


class StoredTrajectory(_Stored):
    """A run of a team on a question."""

    question: StoredQuestion
    steps: tuple[StoredStep, ...] = ()
    answer: str | None = None
    error: str | None = None
    feedback: StoredFeedback | None = None
    sample: int = 0
    overhead: Usage = ZERO_USAGE
    notes: Any = None
