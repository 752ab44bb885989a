"""The judge with a rubric: it compares the words of answer and reference, and does not read the rubric."""

import re
from collections import Counter
from typing import Any

from selfwire.extras.offline.critic_input import CriticInput

_NO_REFERENCE = re.compile(r"\(There is none\b")


def rubric_score(brief: CriticInput) -> dict[str, Any]:
    """The share of the reference's words in the answer; without a reference, whether there is an answer."""
    answer, wanted = _words(brief["answer"]), _words(brief["reference"])
    if _NO_REFERENCE.match(brief["reference"]) or not wanted:
        score = 0.5 if answer else 0.0
    else:
        score = round(sum((answer & wanted).values()) / sum(wanted.values()), 2)
    if brief.errs("score"):
        score = round(1 - score, 2)
    return {"grounds": "By the words that answer and reference share.", "score": score}


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))
