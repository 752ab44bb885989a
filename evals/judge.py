"""A model as the judge of answers, by a rubric.

The judge alone sees the reference, inside this environment: what agents are told of its judgement is the score,
never its grounds, for those may say the reference in other words. Its calls go through the run's model, so they
are journalled, budgeted and replayed like all others; the model is lent to the benchmark when a run is opened
(`Benchmark.with_model`), since a benchmark is made before there is a run.
"""

import json
from pathlib import Path

from pydantic import Field

from selfwire.core.errors import ConfigError, GradingError, ModelError
from selfwire.core.protocols import Model
from selfwire.core.reply_schema import ReplySchema
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.graders import contains, get_references
from selfwire.graphs.prompts import load_prompts

JUDGE = "judge"
"""Name of this grader."""
PLACE = "environment.judge"
"""The node at which a run's journal has its calls."""
SOLVED_AT = 0.8
"""Least score that counts as solved: judges seldom give a whole 1."""
HOLDS, AGREES = "holds reference", "judge agrees"
"""Figures where a task has a text as its reference: whether the answer holds it, word for word, and whether the judge's
verdict is the same. Agreement says how far a judge can be trusted, and more so the shorter references are."""
NO_REFERENCE = "(There is none: judge by the rubric alone.)"


class RubricScore(ReplySchema):
    """What the judge is asked for."""

    grounds: str = Field(description="What decided, point by point of the rubric.")
    score: float = Field(ge=0, le=1, allow_inf_nan=False, description="0 to 1.")


class JudgeEnvironment:
    """Asks a model for a score.

    Args:
        rubric: what a good answer is; None for agreement with the reference.
        model: plays the role "judge"; None until a run lends its own.
    """

    name = JUDGE

    def __init__(self, rubric: str | None = None, model: Model | None = None) -> None:
        self._prompts = load_prompts("evals", "judge")
        self.rubric, self._model = rubric or self._prompts.text("rubric").strip(), model

    def with_model(self, model: Model) -> "JudgeEnvironment":
        """The same judge with a model."""
        return JudgeEnvironment(self.rubric, model)

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score an answer.

        Raises:
            ConfigError: no run has lent a model.
            GradingError: the judge could not be asked, or gave no valid score.
            BudgetError, OutageError: as any call.
        """
        if self._model is None:
            raise ConfigError("a judge needs a model; lend one with Benchmark.with_model(model)")
        messages = self._prompts.messages(
            "judge", task=task.input, rubric=self.rubric, reference=_told(task), answer=answer
        )
        place = scope.at(node=PLACE)
        try:
            given, _ = await self._model.generate_structured(
                RubricScore, messages, scope=place, role="judge", temperature=0.0
            )
        except ModelError as error:
            raise GradingError(f"the judge gave no score for task {task.id!r}: {error}") from error
        solved = given.score >= SOLVED_AT
        golds = get_references(task)
        held = any(contains(answer, gold) for gold in golds)
        told = {HOLDS: float(held), AGREES: float(held == solved)} if golds else {}
        verdict = "good" if solved else "not good enough"
        return Feedback(
            score=given.score,
            solved=solved,
            text=f"The answer is {verdict}: it scores {given.score:.2f} of 1.",
            details=told,
        )


def read_rubric(given: str) -> str:
    """A rubric: the text itself, or what stands in the file of that name.

    Raises:
        ConfigError: it is blank, or the file cannot be read.
    """
    text = given
    if given.endswith((".md", ".txt")) and "\n" not in given:
        try:
            text = Path(given).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"rubric {given} cannot be read: {error}; give a text, or a .md or .txt file") from None
    if not text.strip():
        raise ConfigError("the rubric is blank; say what a good answer is")
    return text.strip()


def _told(task: Task) -> str:
    """The reference for the judge."""
    found = to_plain_json(task.reference)
    if found is None:
        return NO_REFERENCE
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
