"""What is put to a method's graph: the question of its state, the run that its thread is, who assesses answers.

A machine that also runs as part of something else begins with an `RunStart`, and keeps question, place and cost in its
state.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langgraph.config import get_config

from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.usage import Usage
from selfwire.core.values import fingerprint
from selfwire.core.workflow import Workflow
from selfwire.graphs.run_context import RunContext
from selfwire.runtime.ledger import Ledger

Context = TypeVar("Context", bound=RunContext)

AnswerGrader = Callable[[Question, str, Scope], Awaitable[Feedback]]
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


def get_run_name() -> str:
    """The running graph's thread as the name of a run; without one, a name that nobody else has."""
    return str(get_config().get("configurable", {}).get("thread_id") or secrets.token_hex(8))


@dataclass(frozen=True)
class RunStart(Generic[Context]):
    """What a run begins with.

    Attributes:
        start: the workflow that is drawn, and that questions start with.
        begins: finds the workflow that a run has chosen; by default `start`.
        scope: place of the run; None takes the thread's id as run.
        asked: the question with its id and kind; None makes one of the text that is put in.
    """

    start: Workflow
    begins: Callable[[Context], Awaitable[Workflow]] | None = None
    scope: Scope | None = None
    asked: Question | None = None

    async def workflow(self, context: Context) -> Workflow:
        """What the question starts with, from the run's choices."""
        return await self.begins(context) if self.begins else self.start

    def question(self, state: Mapping[str, Any]) -> Question:
        """What is asked.

        Raises:
            ConfigError: nothing is.
        """
        return self.asked or new_question(state)

    def place(self, question: Question, context: Context) -> Scope:
        """Place of the question's run."""
        return (self.scope or Scope(run=get_run_name(), seed=context.seed)).at(task=question.id)


def get_question(state: Mapping[str, Any]) -> Question:
    """The question that a state keeps."""
    return Question(id=state["id"], input=state["question"], kind=state["kind"])


def get_scope(state: Mapping[str, Any], visit: int) -> Scope:
    """The place of a round or stage of the run that a state keeps."""
    return Scope.model_validate(state["scope"]).at(visit=visit)


def add_usage(before: object, more: Usage, ledger: Ledger | None) -> dict[str, Any]:
    """What a question has cost, as a state keeps it.

    Args:
        before: as the state has it; knows what agents did before a resume, not what asks cost in vain.
        more: what came to it.
        ledger: knows what asks cost in vain, not what was before a resume; None where somebody else counts.
    """
    told = Usage.model_validate(before) + more
    counted = ledger.spent if ledger else told
    return max(counted, told, key=lambda one: one.calls).model_dump(mode="json")
