"""Cuts a long text to the sentences that matter for a subject; none of them is cut."""

import re
from collections import Counter
from itertools import pairwise
from math import log, sqrt

GAP = "[...]"
"""Stands where sentences were left out."""

_SENTENCE = re.compile(r"\S.*?(?:[.!?][\"')\]]*(?=\s)|(?=\n)|$)\s*", re.DOTALL)
_WORD = re.compile(r"\w{3,}|\d+")
_END_BONUS = 0.5
"""What the last sentence is worth beside its words: texts end with what they come to."""


def excerpt(text: str, length: int, about: str = "") -> str:
    """The text as it is if it has at most `length` characters; else its most relevant sentences, in their order.

    A sentence counts more the more rare words it shares with `about`; without any shared word the first ones count.
    Only where not one sentence fits is a sentence cut, at its end and between two words.
    """
    if len(text) <= length:
        return text
    sentences = [found[0] for found in _SENTENCE.finditer(text)]
    kept: list[int] = []
    for place in _rank(sentences, about):
        if len(_join(sentences, sorted([*kept, place]))) <= length:
            kept.append(place)
    return _join(sentences, sorted(kept)) if kept else _cut(text, length)


def _rank(sentences: list[str], about: str) -> list[int]:
    """Places of the sentences, the most relevant first."""
    words = [_words(one) for one in sentences]
    wanted, counts = _words(about), Counter(word for one in words for word in one)

    def relevance(place: int) -> float:
        shared = sum(log(1 + len(sentences) / counts[word]) for word in words[place] & wanted)
        return shared / sqrt(1 + len(words[place])) + _END_BONUS * (place == len(sentences) - 1)

    return sorted(range(len(sentences)), key=lambda place: (-relevance(place), place))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _join(sentences: list[str], places: list[int]) -> str:
    parts = [f"{GAP} " if places[0] else "", sentences[places[0]]]
    for before, place in pairwise(places):
        parts += [sentences[place]] if place == before + 1 else [f"{GAP} ", sentences[place]]
    return "".join(parts).rstrip() + (f" {GAP}" if places[-1] < len(sentences) - 1 else "")


def _cut(text: str, length: int) -> str:
    kept = text[: max(0, length - len(GAP) - 1)]
    whole = kept.rpartition(" ")[0] or kept
    return f"{whole.rstrip()} {GAP}"[:length]
