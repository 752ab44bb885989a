"""The stand-in as a judge with a rubric: it compares the answer's words with the reference's and reads no rubric."""

import re
from collections import Counter
from typing import Any

from selfwire.runtime.offline.critic_input import CriticInput

_NO_REFERENCE = re.compile(r"\(There is none\b")


def rubric_score(brief: CriticInput) -> dict[str, Any]:
    """The share of the reference's words that the answer has; without a reference, whether there is an answer.

    At the error rate it says the opposite.
    """
    said, wanted = _words(brief["answer"]), _words(brief["reference"])
    if _NO_REFERENCE.match(brief["reference"]) or not wanted:
        score = 0.5 if said else 0.0
    else:
        score = round(sum((said & wanted).values()) / sum(wanted.values()), 2)
    if brief.errs("score"):
        score = round(1 - score, 2)
    return {"grounds": "By the words that answer and reference share.", "score": score}


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))
