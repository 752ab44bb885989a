"""Instructions of a worker's team, wherever they stand in the messages.

The text of the task, the findings of others and the results of tools are what skills work on; they tell nobody what to
do. A colleague's findings are notes that begin with a dash, or an answer; what it writes above them is addressed to the
reader. The instruction of the moment (a subtask, the goal of a round, a hand-over) comes before the standing one (the
agent's prompt, or a system message).
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Literal, get_args

Voice = Literal["all", "system", "user"]
"""Which instructions a worker follows: all, or for comparison only the standing ones or those of the moment."""
VOICES: tuple[Voice, ...] = get_args(Voice)

PART = re.compile(r"^Your part of the task now\b[^:\n]*: *(.+)$", re.MULTILINE)
_FINDING = re.compile(r"\s*(?:-|\[|$)|\W*(?:final )?answer\W*:|no fault found|nothing is left to do", re.IGNORECASE)
RECORD = "the work so far"
"""The sender of a record of earlier work, of which nothing is addressed to the reader."""


def join_instructions(system: str, moment: str, voice: Voice) -> str:
    """The instructions that a voice lets a worker hear, the most specific first."""
    return {"all": f"{moment}\n{system}", "system": system, "user": moment}[voice]


def find_instructions(head: str, peers: Sequence[tuple[str, str]]) -> str:
    """The instructions in a user's message: its part of the task, and what others tell the reader.

    Args:
        head: the text before the first message of another.
        peers: sender and text of the messages of others.
    """
    found = PART.findall(head)
    for sender, text in peers:
        if sender != RECORD:
            found += takewhile(lambda line: not _FINDING.match(line), text.split("\n"))
    return "\n".join(found)
