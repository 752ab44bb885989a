import textwrap
from string import Template
from types import SimpleNamespace
from typing import Final, NamedTuple

P = SimpleNamespace(plan="Plan the lesson in three parts.", quiz="Write a quiz with %d questions about %s.")


class Homework(NamedTuple):
    intro: str = "Set homework for the class."
    outro: str = "Keep it under an hour."


HOMEWORK = Homework()
GRADE: Final[str] = textwrap.dedent(
    """
    Grade this homework.

    Use marks from 1 to 6.
    """
).strip()
PRAISE = Template("Praise $pupil for the homework.")
PARENTS = "Write to the parents of {pupil}. " + "Mention the mark {mark}."
LINES = "\n".join(
    [
        "You are a teacher.",
        "You teach history.",
    ]
)
