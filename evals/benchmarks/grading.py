"""What the rules of benchmarks share: a function as an environment, its usual feedback, and references as text."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable

from selfwire.core.errors import GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.evals.measures import add_measure

Rule = Callable[[Task, str], Feedback | Awaitable[Feedback]]
"""Grades an answer to a task; raises GradingError where the task has not the reference that it needs."""

RIGHT = Feedback(score=1.0, solved=True, text="The answer is right.")
NO_ANSWER_LINE = "Format fault: there is no line that starts with 'Answer:' and gives an answer."


@dataclass
class RuleEnvironment:
    """A rule as an environment; `measure` is a name of `evals.measures`, or says what is rewarded."""

    name: str
    rule: Rule
    measure: str

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Grade by the rule; GradingError if the task has not the reference that it needs, or the grading failed."""
        feedback = self.rule(task, answer)
        return add_measure(await feedback if isawaitable(feedback) else feedback, self.measure)


def reject(text: str) -> Feedback:
    """Score 0 with an explanation."""
    return Feedback(score=0.0, solved=False, text=text)


def get_text_reference(task: Task, benchmark: str) -> str:
    """A reference that must be a text, else GradingError."""
    if not isinstance(task.reference, str):
        raise GradingError(f"{benchmark} task {task.id!r} has no text as reference: {task.reference!r}")
    return task.reference
