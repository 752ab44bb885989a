"""Extracts final answers from texts, by the marks that benchmarks ask for.

Every search is linear in the length of the text: a model that repeats itself up to its last token must not delay the
grading of others.
"""

import re
from decimal import Decimal, InvalidOperation

OPENING = r"^(?:[^\S\n]|[*_#>`-])*"
"""What may stand before a mark on its line; a pattern for re.MULTILINE."""

_EDGES = " \t\r\n\f\v\u00a0*_"
_LINE = re.compile(OPENING + r"answer\W*:", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(r"####[\s*_]*\$?\s*([-\u2212]?)\$?([0-9.,]+)")
_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[{}]|[{}]")
_BALLOT = re.compile(OPENING + r"(?:(?:final )?answer\W*|calls[\s*_]*):", re.IGNORECASE | re.MULTILINE)


def find_final_answer(text: str) -> str | None:
    """The text after the last "Answer:" that opens a line; None if there is none."""
    *before, last = _LINE.split(text)
    line = last.lstrip(_EDGES).partition("\n")[0].rstrip(_EDGES)
    return line if before and line else None


def find_marked_number(answer: str) -> Decimal | None:
    """The number after the last "####"; None if there is none."""
    found = _NUMBER.findall(answer)
    if not found:
        return None
    sign, digits = found[-1]
    return parse_number(("-" if sign else "") + digits)


def parse_number(text: str) -> Decimal | None:
    """A number with or without thousands separators; None if the text is no number."""
    try:
        return Decimal(text.replace(",", "").rstrip("."))
    except InvalidOperation:
        return None


def find_boxed(answer: str) -> str | None:
    """The content of the last closed box; None if there is none or it is empty.

    Only the last box counts, or an answer could guess once per box.
    """
    braces: list[re.Match[str]] = []
    last, found = -1, ""
    for brace in _BRACE.finditer(answer):
        if brace[0] == "}" and braces:
            opened = braces.pop()
            if len(opened[0]) > 1 and opened.start() > last:
                last, found = opened.start(), answer[opened.end() : brace.start()].strip()
        elif brace[0].endswith("{") and brace[0] != "\\{":
            braces.append(brace)
    return found or None


def to_ballot(answer: str) -> str:
    """An answer in the form in which votes are counted: without reasoning, case and spacing.

    The final answer is the content of a box, else the text after the last "Answer:" or "Calls:", and in that the number
    after "####".
    """
    if (box := find_boxed(answer)) is not None:
        return _normalise(box)
    last = _BALLOT.split(answer)[-1]
    if (marked := find_marked_number(last)) is not None:
        return f"{marked.normalize():f}"
    return _normalise(last.strip(_EDGES) or answer)


def _normalise(text: str) -> str:
    return " ".join(text.split()).casefold()
