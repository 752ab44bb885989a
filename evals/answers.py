"""What an answer comes to, apart from its reasoning: the marks behind which benchmarks ask for it.

Every search here is linear in the answer's length: a model that repeats itself to the end of its tokens must not
hold up everybody else's grading.
"""

import re
from decimal import Decimal, InvalidOperation

OPENING = r"^(?:[^\S\n]|[*_#>`-])*"
"""How a line with a mark may begin; a pattern for use with re.MULTILINE."""

_EDGES = " \t\r\n\f\v\u00a0*_"
_LINE = re.compile(OPENING + r"answer\W*:", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(r"####[\s*_]*\$?\s*([-\u2212]?)\$?([0-9.,]+)")
_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[{}]|[{}]")
_BALLOT = re.compile(OPENING + r"(?:(?:final )?answer\W*|calls[\s*_]*):", re.IGNORECASE | re.MULTILINE)


def find_final_answer(text: str) -> str | None:
    """What stands behind the last "Answer:" that opens a line; None if there is nothing."""
    *before, last = _LINE.split(text)
    line = last.lstrip(_EDGES).partition("\n")[0].rstrip(_EDGES)
    return line if before and line else None


def find_marked_number(answer: str) -> Decimal | None:
    """The number behind the last "####"; None if there is none."""
    found = _NUMBER.findall(answer)
    if not found:
        return None
    sign, digits = found[-1]
    return parse_number(("-" if sign else "") + digits)


def parse_number(text: str) -> Decimal | None:
    """A number, thousands separators apart; None if it is none."""
    try:
        return Decimal(text.replace(",", "").rstrip("."))
    except InvalidOperation:
        return None


def find_boxed(answer: str) -> str | None:
    """What stands in the last box that is closed; None if there is none, or nothing is in it.

    Only the last one counts: with several, a grader that takes any of them would reward a guess in each.
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
    """What an answer says, for counting: without its reasoning where it marks its end, without case and spacing.

    Its marks are those that the benchmarks ask for: a box, else what follows the last "Answer:" or "Calls:", and of
    that the number behind "####".
    """
    if (box := find_boxed(answer)) is not None:
        return _plain(box)
    last = _BALLOT.split(answer)[-1]
    if (marked := find_marked_number(last)) is not None:
        return f"{marked.normalize():f}"
    return _plain(last.strip(_EDGES) or answer)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
