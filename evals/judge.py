"""A model as the judge of answers, by a rubric.

Only the judge sees the reference. Agents read its score, never its grounds, which may paraphrase the reference. Its
calls go through the run's model, so they are journalled, budgeted and replayed like all others. A run passes its model
to the benchmark when it opens (`Benchmark.with_model`), since benchmarks are made before runs.
"""

import json
from pathlib import Path
from textwrap import shorten

from pydantic import Field

from selfwire.core.chat import ReplySchema, load_prompts
from selfwire.core.errors import ConfigError, GradingError, ModelError
from selfwire.core.protocols import Model
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.text import excerpt
from selfwire.core.values import read_file_text, to_plain_json
from selfwire.evals.graders import add_measure, contains, get_references
from selfwire.graphs.rollouts import JUDGE_NODE

JUDGE = "judge"
"""Name of this grader."""
SOLVED_AT = 0.8
"""Least score that counts as solved, as judges seldom give a full 1."""
HOLDS, AGREES = "holds reference", "judge agrees"
"""Figures for tasks with a text as reference: whether the answer contains it word for word, and whether the judge's
verdict agrees. Agreement shows how reliable a judge is, best with short references."""
RUBRIC_LENGTH = 1_200
"""Most characters of the rubric in feedback."""
NO_REFERENCE = "(There is none: judge by the rubric alone.)"
ANY_REFERENCE = "Any one of these is a good answer:"
REFERENCE_LENGTH = 20_000
"""Most characters of references that a judge reads: those most like the answer."""


class RubricScore(ReplySchema):
    """What the judge is asked for."""

    grounds: str = Field(description="What decided, point by point of the rubric.")
    score: float = Field(ge=0, le=1, allow_inf_nan=False, description="0 to 1.")


class JudgeEnvironment:
    """A judge: a model scores answers by a rubric, or without one by agreement with the reference."""

    name = JUDGE

    def __init__(self, rubric: str | None = None, model: Model | None = None) -> None:
        self._prompts = load_prompts("evals", "judge")
        self.rubric, self._model = rubric or self._prompts.text("rubric").strip(), model

    def with_model(self, model: Model) -> "JudgeEnvironment":
        """Make a copy of the judge with a model."""
        return JudgeEnvironment(self.rubric, model)

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score an answer; a blank one is scored 0 without a call.

        Raises:
            ConfigError: there is no model yet.
            GradingError: the judge could not be called, or gave no valid score.
            BudgetError, OutageError: as for any call.
        """
        if self._model is None:
            raise ConfigError("a judge needs a model; pass one with Benchmark.with_model(model)")
        score = await self._ask(self._model, task, answer, scope) if answer.strip() else 0.0
        solved = score >= SOLVED_AT
        golds = get_references(task)
        holds = any(contains(answer, gold) for gold in golds)
        details = {HOLDS: float(holds), AGREES: float(holds == solved)} if golds else {}
        verdict = "good" if solved else "not good enough"
        feedback = Feedback(
            score=score,
            solved=solved,
            text=f"The answer is {verdict}.",
            details=details,
        )
        rubric = shorten(self.rubric, RUBRIC_LENGTH, placeholder=" ...")
        return add_measure(feedback, f"a judge who goes by this rubric: {rubric}")

    async def _ask(self, model: Model, task: Task, answer: str, scope: Scope) -> float:
        messages = self._prompts.messages(
            "judge", task=task.input, rubric=self.rubric, reference=_format_reference(task, answer), answer=answer
        )
        place = scope.at(node=JUDGE_NODE)
        try:
            given, _ = await model.generate_structured(
                RubricScore, messages, scope=place, role="judge", temperature=0.0
            )
        except ModelError as error:
            raise GradingError(f"the judge gave no score for task {task.id!r}: {error}") from error
        return given.score


def read_rubric(given: str) -> str:
    """Read a rubric: the text itself, or the content of a file; ConfigError if it is blank or unreadable."""
    text = given
    if given.endswith((".md", ".txt")) and "\n" not in given:
        try:
            text = read_file_text(Path(given))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"rubric {given} cannot be read: {error}; give a text, or a .md or .txt file") from None
    if not text.strip():
        raise ConfigError("the rubric is blank; say what a good answer is")
    return text.strip()


def _format_reference(task: Task, answer: str) -> str:
    reference, golds = to_plain_json(task.reference), get_references(task)
    if reference is None:
        return NO_REFERENCE
    if isinstance(reference, list) and len(reference) == len(golds) > 1:
        found = excerpt("\n".join(f"- {gold}" for gold in golds), REFERENCE_LENGTH, answer)
        return f"{ANY_REFERENCE}\n{found}"
    text = reference if isinstance(reference, str) else json.dumps(reference, ensure_ascii=False)
    return excerpt(text, REFERENCE_LENGTH, answer)
