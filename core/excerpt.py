"""Cuts a long text to the passages that matter for a subject; none of them is cut."""

import re
from collections import Counter
from itertools import pairwise
from math import fsum, log, sqrt

GAP = "[...]"
"""Stands where something was left out."""

_PARAGRAPH = re.compile(r"\S.*?(?:\n[ \t]*\n|$)\s*", re.DOTALL)
_SENTENCE = re.compile(r"\S.*?(?:[.!?][\"')\]]*(?=\s)|(?=\n)|$)\s*", re.DOTALL)
_WORD = re.compile(r"\w{3,}|\d+")
_END_BONUS = 0.5
"""What the last passage is worth beside its words: texts end with what they come to."""


def excerpt(text: str, length: int, about: str = "") -> str:
    """The text as it is if it has at most `length` characters; else its most relevant passages, in their order.

    A passage is a paragraph, or a sentence of one that is longer than a third of `length`. It counts more the more rare
    words it shares with `about`; without any shared word the first ones count. Only where not one passage fits is a
    passage cut, at its end and between two words.
    """
    if len(text) <= length:
        return text
    passages = [part for found in _PARAGRAPH.finditer(text) for part in _split(found[0], length // 3)]
    kept: list[int] = []
    for place in _rank(passages, about):
        if len(_join(passages, sorted([*kept, place]))) <= length:
            kept.append(place)
    return _join(passages, sorted(kept)) if kept else _cut(text, length)


def _split(paragraph: str, longest: int) -> list[str]:
    if len(paragraph.rstrip()) <= longest:
        return [paragraph]
    return [found[0] for found in _SENTENCE.finditer(paragraph)]


def _rank(passages: list[str], about: str) -> list[int]:
    """Places of the passages, the most relevant first."""
    words = [_words(one) for one in passages]
    wanted, counts = _words(about), Counter(word for one in words for word in one)

    def relevance(place: int) -> float:
        # the exact sum, as the order in a set is another one in every process
        shared = fsum(log(1 + len(passages) / counts[word]) for word in words[place] & wanted)
        return shared / sqrt(1 + len(words[place])) + _END_BONUS * (place == len(passages) - 1)

    return sorted(range(len(passages)), key=lambda place: (-relevance(place), place))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _join(passages: list[str], places: list[int]) -> str:
    parts = [f"{GAP} " if places[0] else "", passages[places[0]]]
    for before, place in pairwise(places):
        parts += (
            [passages[place]] if place == before + 1 else [f"{GAP}{_get_end(passages[place - 1])}", passages[place]]
        )
    return "".join(parts).rstrip() + (f" {GAP}" if places[-1] < len(passages) - 1 else "")


def _get_end(passage: str) -> str:
    """The white space at the end of a passage."""
    return passage[len(passage.rstrip()) :]


def _cut(text: str, length: int) -> str:
    kept = text[: max(0, length - len(GAP) - 1)]
    whole = kept.rpartition(" ")[0] or kept
    return f"{whole.rstrip()} {GAP}"[:length]
