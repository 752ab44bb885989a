"""A grader of your own: a function of a task and an answer. `--grader own_grader:grade` scores answers with it."""

import re

from selfwire.core.task import Feedback, Task

MOST_WORDS = 25


def grade(task: Task, answer: str) -> Feedback:
    """1 if the last line has the reference as a whole word, half of it if that line is long.

    The text is what critics learn from. It must not contain the reference.
    """
    last = answer.strip().splitlines()[-1] if answer.strip() else ""
    if not re.search(rf"\b{re.escape(str(task.reference))}\b", last, re.IGNORECASE):
        return Feedback(score=0, solved=False, text="The last line does not have what the handbook says.")
    if len(last.split()) > MOST_WORDS:
        return Feedback(score=0.5, solved=False, text=f"Right, but the last line has more than {MOST_WORDS} words.")
    return Feedback(score=1, solved=True, text="Right.")
