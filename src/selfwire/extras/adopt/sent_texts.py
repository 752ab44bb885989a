"""Finds the texts of an inventory in requests, and what else a request says."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from selfwire.extras.adopt.inventory import ProgramText
from selfwire.extras.adopt.layer import split_description
from selfwire.models.text_layer import count_blocks

WORD = re.compile(r"[^\W\d_]{2,}")
LEAST_WORDS = 3
"""Words of a text that is in no inventory from which on it is told."""
TAKEN = "\0"
"""Stands in place of what a longer text has matched."""
WRITTEN = ("system", "human", "developer", "schema")
"""Roles of messages that a program writes."""


class RequestTexts:
    """Finds the texts of an inventory in requests."""

    def __init__(self, texts: Sequence[ProgramText]) -> None:
        numbers = defaultdict[tuple[str, ...], list[int]](list)
        for number, text in enumerate(texts):
            pieces = (split_description(text.pieces[0])[0],) if text.kind == "docstring" else text.pieces
            depths = count_blocks(text.holes)
            outer = [piece for piece, depth in zip(pieces, depths, strict=False) if not depth]
            if not WORD.search("".join(outer)):
                outer, depths = [*pieces], []
            if WORD.search("".join(outer)):
                numbers[tuple(" ".join(piece.split()) for piece in outer if piece.strip())].append(number)
            for piece, depth in zip(pieces, depths, strict=False):  # a block may be left out, or sent several times
                if depth and WORD.search(piece):
                    numbers.setdefault((" ".join(piece.split()),), [])
        # the longest comes first, so that no text is taken for a part of it
        ordered = sorted(numbers, key=lambda pieces: -sum(map(len, pieces)))
        self._patterns = [(numbers[pieces], _compile(pieces)) for pieces in ordered]

    def find(self, texts: Iterable[str]) -> tuple[set[int], list[str]]:
        """Find the numbers of the inventory's texts in others, and what is left of these without them."""
        found, rest = set[int](), list[str]()
        for text in texts:
            static = left = text
            for numbers, pattern in self._patterns:
                if pattern.search(static):
                    found.update(numbers)
                    static, left = pattern.sub(_take_pieces, static), pattern.sub(TAKEN, left)
            rest.append(left.replace(TAKEN, " ").strip())
        return found, rest


def _compile(pieces: Sequence[str]) -> re.Pattern[str]:
    """A pattern of a text: its pieces as groups, with any white space between words, and holes between them."""
    groups = ["(" + r"\s+".join(map(re.escape, piece.split())) + ")" for piece in pieces]
    first = r"(?<!\w)" if re.match(r"\w", pieces[0]) else ""
    last = r"(?!\w)" if re.search(r"\w$", pieces[-1]) else ""
    return re.compile(first + ".*?".join(groups) + last, re.DOTALL)


def _take_pieces(match: re.Match[str]) -> str:
    """Take the pieces of a text out of another, and leave what fills its holes."""
    parts, end = list[str](), match.start()
    for number in range(1, match.re.groups + 1):
        parts += [match.string[end : match.start(number)], TAKEN]
        end = match.end(number)
    return "".join(parts)


def list_unknown(rest: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """List what is left of a request without the inventory's texts, if it has words that no run brought in."""
    ordered = sorted(known, key=len, reverse=True)
    said = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, ordered)) or '(?!)'})(?!\w)")
    for left in (said.sub(" ", text) for text in rest):
        if len(WORD.findall(left)) >= LEAST_WORDS:
            yield " ".join(left.split())
