"""What a run of a method's graph starts with: workflow, question, scope, and who grades and saves."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.config import get_config

from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.usage import Usage
from selfwire.core.values import fingerprint
from selfwire.core.workflow import Workflow
from selfwire.graphs.run_context import RunContext
from selfwire.graphs.typed_state import State
from selfwire.graphs.version_saver import Saver
from selfwire.runtime.ledger import Ledger

AnswerGrader = Callable[[Question, str, Scope], Awaitable[Feedback]]
"""An environment that knows the reference by the question; the reference itself is nowhere in the state."""

ChooseWorkflow = Callable[[Any, Workflow | None], Awaitable[Workflow]]
"""Finds the workflow of a question from the run's context and the thread's workflow, if the thread has one."""


@dataclass(frozen=True)
class RunStart:
    """What a run starts with.

    Attributes:
        initial_workflow: the workflow that is drawn, and that questions start with.
        choose: finds the workflow of a run; by default the thread's, else the initial one.
        context: class of what can be chosen per run.
        scope: of the run; None takes the thread's id as run.
        question: with its id and kind; None makes one of the input's text.
    """

    initial_workflow: Workflow
    choose: ChooseWorkflow | None = None
    context: type[RunContext] = RunContext
    scope: Scope | None = None
    question: Question | None = None
    grader: AnswerGrader | None = None
    save: Saver | None = None

    async def choose_workflow(self, context: RunContext, thread_workflow: Workflow | None = None) -> Workflow:
        """The workflow that the question starts with; `thread_workflow` is the thread's, for methods that keep it."""
        return await self.choose(context, thread_workflow) if self.choose else thread_workflow or self.initial_workflow

    def get_question(self, state: State) -> Question:
        """The question of the run.

        Raises:
            ConfigError: there is none, or it is blank.
        """
        return self.question or new_question(state.channels)

    def make_scope(self, question: Question, context: RunContext) -> Scope:
        """Scope of the question's run."""
        return (self.scope or Scope(run=get_run_name(), seed=context.seed)).at(task=question.id)


def new_question(channels: Mapping[str, Any]) -> Question:
    """The question of an input; its text's fingerprint is its id.

    Raises:
        ConfigError: there is none, or it is blank.
    """
    text = channels.get("question")
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(
            'the input is {"question": "..."} or {"messages": [{"role": "user", "content": "..."}]} with a text that '
            f"is not blank, not {text!r}"
        )
    return Question(id=fingerprint(text), input=text)


def get_run_name() -> str:
    """The running graph's thread as the name of a run; without one, a name that nobody else has."""
    return str(get_config().get("configurable", {}).get("thread_id") or secrets.token_hex(8))


def add_usage(before: Usage, more: Usage, ledger: Ledger | None) -> Usage:
    """Cost of a question so far: the state lacks failed asks, the ledger, if there is one, calls before a resume."""
    known = before + more
    return max(ledger.spent if ledger else known, known, key=lambda one: one.calls)
