"""A check of tasks and grader before the first model call.

An evolution follows its grader, wherever that leads. So the grader is given answers of which it is known what they are
worth: the reference in several forms, and texts that answer nothing.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from selfwire.core.errors import GradingError
from selfwire.core.protocols import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Splits, Task
from selfwire.evals.benchmarks.benchmark import NeedsModel

LEAST, MOST = 0.9, 0.2
"""The mean score that right answers should reach, and that texts which answer nothing should not exceed."""


class Anchor(NamedTuple):
    """An answer of known worth.

    Attributes:
        right: whether it should get the full score.
        write: writes it for a task, from the reference and that of another task.
    """

    name: str
    right: bool
    write: Callable[[Task, str, str], str]


ANCHORS = (
    Anchor("the reference itself", True, lambda task, reference, other: reference),
    Anchor("the reference below a thought", True, lambda task, reference, other: f"It follows.\n\nAnswer: {reference}"),
    Anchor("the reference in small letters", True, lambda task, reference, other: reference.lower()),
    Anchor("an empty answer", False, lambda task, reference, other: ""),
    Anchor("'I do not know.'", False, lambda task, reference, other: "I do not know."),
    Anchor("the task's own words", False, lambda task, reference, other: task.input),
    Anchor("the reference of another task", False, lambda task, reference, other: other),
)


class AnchorScore(NamedTuple):
    """How a grader scores an anchor.

    Attributes:
        score: mean over the tasks; None if none could be graded.
        example: id of the task with the score that is farthest from what it should be.
        fault: the first error of the grader, "" if there is none.
    """

    anchor: Anchor
    score: float | None
    tasks: int
    example: str = ""
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.anchor.name} scores {'nothing' if self.score is None else format(self.score, '.2f')}"


def judge_grader(found: Sequence[AnchorScore]) -> tuple[list[str], list[str]]:
    """Say what is wrong with a grader, and what to know of it, by its scores of all anchors."""
    faults = dict.fromkeys(score.fault for score in found if score.fault)
    failing = {fault: [score.anchor.name for score in found if score.fault == fault] for fault in faults}
    problems = [
        f"the grader fails on {'every answer' if len(names) == len(found) else '; '.join(names)}: {fault}"
        for fault, names in failing.items()
    ]
    right = [score for score in found if score.anchor.right and score.score is not None]
    low = [score for score in right if (score.score or 0.0) < LEAST]
    said = [f"{score} (see task {score.example})" for score in low]
    notes = [f"{text}; say in the tasks which form an answer has" for text in said] if len(low) < len(right) else []
    problems += [] if len(low) < len(right) else [f"{text}: right answers count as wrong" for text in said]
    problems += [
        f"{score}, and an evolution finds what scores without an answer (see task {score.example})"
        for score in found
        if not score.anchor.right and (score.score or 0.0) > MOST
    ]
    return problems, notes


def get_reference_text(task: Task) -> str:
    """Write the reference as an answer; "" if it is no text, number or list of these."""
    found: Any = task.reference
    if isinstance(found, Sequence) and not isinstance(found, str) and found:
        found = found[0]
    return str(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else ""


async def score_anchors(environment: Environment, tasks: Sequence[Task]) -> list[AnchorScore]:
    """Grade every anchor on the tasks that have a reference in words; none for a grader that is a model."""
    known = [task for task in tasks if get_reference_text(task)]
    if isinstance(environment, NeedsModel) or not known:
        return []
    others = [get_reference_text(task) for task in (*known[1:], known[0])]
    return [await _score(environment, anchor, known, others) for anchor in ANCHORS]


async def _score(environment: Environment, anchor: Anchor, tasks: Sequence[Task], others: Sequence[str]) -> AnchorScore:
    scores, fault = dict[str, float](), ""
    for task, other in zip(tasks, others, strict=True):
        reference = get_reference_text(task)
        if not anchor.right and anchor.write(task, reference, other) == reference:
            continue  # two tasks with one reference
        try:
            graded = await environment.grade(task, anchor.write(task, reference, other), scope=Scope(task=task.id))
            scores[task.id] = graded.score
        except GradingError as error:
            fault = fault or str(error)
    if not scores:
        return AnchorScore(anchor, None, 0, fault=fault)
    worst = min if anchor.right else max
    example = worst(scores, key=lambda task: scores[task])
    return AnchorScore(anchor, math.fsum(scores.values()) / len(scores), len(scores), example, fault)


def find_faults_of_tasks(splits: Splits) -> list[str]:
    """Faults of the tasks themselves: texts and references that make scores mean something else."""
    tasks, found = [*splits.train, *splits.gate, *splits.test], list[str]()
    again = [text for text, count in Counter(task.input.strip() for task in tasks).items() for _ in range(count - 1)]
    if again:
        found.append(f"tasks that repeat the text of another: {len(again)}, such as {again[0][:60]!r}")
    empty = [task.id for task in tasks if task.reference in (None, "")]
    if empty:
        found.append(f"tasks without a reference: {len(empty)}, such as {empty[0]}")
    answers = Counter(filter(None, map(get_reference_text, tasks)))
    for answer, count in answers.most_common(1):
        if count > max(0.5 * len(tasks), 1):
            found.append(
                f"{count} of {len(tasks)} tasks have the reference {answer[:40]!r}: always saying so scores well"
            )
    return found
