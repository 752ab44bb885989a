"""What the rules of benchmarks share: a function as an environment, its usual feedback, and references as text."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable

from selfwire.core.errors import GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task

Rule = Callable[[Task, str], Feedback | Awaitable[Feedback]]
"""Grades an answer to a task; raises GradingError where the task has not the reference that it needs."""

RIGHT = Feedback(score=1.0, solved=True, text="The answer is right.")
NO_ANSWER_LINE = "Format fault: there is no line that starts with 'Answer:' and gives an answer."


@dataclass
class RuleEnvironment:
    """A rule as an environment.

    Attributes:
        name: of the benchmark.
        rule: grades answers.
    """

    name: str
    rule: Rule

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Grade by the rule.

        Raises:
            GradingError: the task has not the reference that the rule needs, or the grading failed.
        """
        feedback = self.rule(task, answer)
        return await feedback if isawaitable(feedback) else feedback


def reject(text: str) -> Feedback:
    """Score 0 with an explanation."""
    return Feedback(score=0.0, solved=False, text=text)


def get_text_reference(task: Task, benchmark: str) -> str:
    """A reference that must be a text.

    Raises:
        GradingError: it is not.
    """
    if not isinstance(task.reference, str):
        raise GradingError(f"{benchmark} task {task.id!r} has no text as reference: {task.reference!r}")
    return task.reference
