"""Graders by name, the form of an answer, and the measures of a score.

Every search is linear in the length of the text: a model that repeats itself up to its last token must not delay the
grading of others.

F1 and em follow SQuAD (Rajpurkar et al., 2016): lower case, without punctuation and articles, compared as bags of
words; with HotpotQA's rule that yes, no and noanswer match only themselves. Beyond SQuAD, punctuation is that of every
script (O\u2019Neill is O'Neill), and so are digits.
"""

import asyncio
import inspect
import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from itertools import accumulate, takewhile
from operator import itemgetter
from typing import SupportsFloat

from selfwire.core.errors import ConfigError, GradingError, SelfwireError, format_error, format_place
from selfwire.core.plugins import import_user_object
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.text import suggest_name
from selfwire.core.values import format_object, iterate_texts, to_plain_json
from selfwire.models.providers import ErrorCatcher
from selfwire.models.sync import (
    CallTimeoutError,
    LoopBlockedError,
    get_own_loop,
    get_shared_loop,
    run_in_thread,
    run_on_foreign_loop,
)

_SIGNS_BEFORE = r"""(?:[^\w\n!"$%&'(),./:;<=?@\[\\\]^{|}~]|_)*"""
OPENING = rf"^{_SIGNS_BEFORE}(?:\d{{1,2}}[.)]{_SIGNS_BEFORE})?"
"""Pattern of what may stand before a mark on its line, such as a bullet, bold or a number of a list; re.MULTILINE.

Quotes, brackets and signs of code and formulas may not: {"answer": 5} has no label.
"""

_ANSWER_ELSEWHERE = "|".join(
    (
        r"(?:(?:finale|endg\u00fcltige)[\s-]+|end)?antwort",  # German
        r"r\u00e9ponse(?:[\s-]+finale)?",  # French
        r"res(?:pues|pos)ta(?:[\s-]+final)?",  # Spanish, Portuguese
        r"risposta(?:[\s-]+finale)?",  # Italian
        r"antwoord|svar|vastaus",  # Dutch, the Scandinavian languages, Finnish
        r"odpowied\u017a|odpov\u011b\u010f|v\u00e1lasz",  # Polish, Czech, Hungarian
        r"\u043e\u0442\u0432\u0435\u0442|\u0432\u0456\u0434\u043f\u043e\u0432\u0456\u0434\u044c",  # Russian, Ukrainian
        r"cevap|jawaban|\u03b1\u03c0\u03ac\u03bd\u03c4\u03b7\u03c3\u03b7",  # Turkish, Indonesian, Greek
        r"(?:\u6700\u7d42)?(?:\u7b54\u3048|\u56de\u7b54|\u89e3\u7b54)",  # Japanese
        r"(?:\u6700\u7ec8)?(?:\u7b54\u6848|\u56de\u7b54)",  # Chinese
        r"(?:\ucd5c\uc885 ?)?(?:\uc815\ub2f5|\ub2f5\ubcc0|\ub2f5)",  # Korean
        r"\u0627\u0644\u0625\u062c\u0627\u0628\u0629|\u0627\u0644\u062c\u0648\u0627\u0628",  # Arabic
        r"\u0909\u0924\u094d\u0924\u0930(?![\u0900-\u0963])",  # Hindi; with a sign behind it, it is another word
    )
)
"""Pattern of the word for an answer in the languages that tasks are mostly written in, besides English."""
_EDGES = " \t\r\n\f\v\u00a0*_"
_LINE = re.compile(OPENING + r"answer\W*:", re.IGNORECASE | re.MULTILINE)
_NUMERAL = re.compile(r"####[\s*_]*\$?\s*([-\u2212]?)\$?([0-9.,]+)")
_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[{}]|[{}]")
_NAME = rf"(?:(?:final[\s-]+)?answer|{_ANSWER_ELSEWHERE})"
_COLON = r"(?:[:\uff1a]|[-=]>|[\u2192\u21d2])"
"""A colon, or an arrow in its place."""
_QUOTE = rf"""(?:["'](?=[^"'\n]*{_COLON}))?"""
"""A quote around the whole line; the one around a key of JSON is closed before the colon."""
_LABEL = re.compile(
    rf"{OPENING}{_QUOTE}(?:(?:{_NAME}[\W_]*{_COLON}(?:[^\S\n]|[*_])*)+|{_NAME}[*_`]*[^\S\n]*$)",
    re.IGNORECASE | re.MULTILINE,
)
_RULE_OF_TABLE = re.compile(r"(?=[^-]*-)\s*\|[\s:|-]*")
_TAG = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_BALLOT = re.compile(rf"{_LABEL.pattern}|{OPENING}calls[\s*_]*:", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"```[^\S\n]*(?:\w+[^\S\n]*)?\n(.*?)```", re.DOTALL)
_FORMULA = re.compile(r"\\\[(.*?)\\\]|\$\$(.*?)\$\$", re.DOTALL)
_FIRST = re.compile(r"(?:\\\[.*?\\\]|\$\$.*?\$\$)?[^\n]*", re.DOTALL)
"""The first line of a text, or of a formula to the end of its line."""
_RULES = re.compile(r"(?:[-=]{3,}[^\S\n]*\n\s*)*")
"""Lines that a heading is underlined with, or that stand between it and the text below it."""
_WRAPPED = re.compile(
    r"(?:\$\$?|\\[(\[])?\s*\\(?:boxed|fbox|text|textbf|mathrm)\s*\{(.*)\}\s*(?:\$\$?|\\[)\]])?", re.DOTALL
)
"""A text that is a box or a text of LaTeX, with the marks of a formula around it."""


def find_final_answer(text: str) -> str | None:
    """Find the text after the last "Answer:" at the start of a line; None if there is none."""
    *before, last = _LINE.split(text)
    line = last.lstrip(_EDGES).partition("\n")[0].rstrip(_EDGES)
    return line if before and line else None


def find_marked_number(answer: str) -> Decimal | None:
    """Find the number after the last "####"; None if there is none."""
    found = _NUMERAL.findall(answer)
    if not found:
        return None
    sign, digits = found[-1]
    return parse_number(("-" if sign else "") + digits)


def parse_number(text: str) -> Decimal | None:
    """Parse a number with or without thousands separators; None if the text is no number."""
    try:
        return Decimal(text.replace(",", "").rstrip("."))
    except InvalidOperation:
        return None


def find_boxed(answer: str) -> str | None:
    """Find the content of the last closed box; None if it is empty or missing. An answer cannot guess once per box."""
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
    """Reduce an answer to the form that votes are counted in: without reasoning, case and spacing.

    The final answer is the content of a box, else the text after the last "Answer:", or that word in another language,
    or "Calls:", and in that the number after "####".
    """
    decided = _cut_thoughts(answer)
    if (box := find_boxed(decided)) is not None:
        return _normalise(_strip_around(box))
    last = _BALLOT.split(decided)[-1]
    if (marked := find_marked_number(last)) is not None:
        return f"{marked.normalize():f}"
    return _normalise(_strip_around(last) or answer)


def _cut_thoughts(answer: str) -> str:
    """Cut off what a reasoning model thought before its answer, where its server sends that too.

    A tag that no other opens is a part of an answer that begins with a label, unless a label stands behind the tag too.
    """
    before, _, after = answer.rpartition("</think>")
    is_said = "<think>" not in before and _LABEL.match(before.lstrip()) and not _LABEL.search(after)
    return answer if is_said else after


def _normalise(text: str) -> str:
    return " ".join(_write_digits(text).split()).casefold()


BY_LABEL = "the last line 'Answer:' or 'Final Answer:' decides where there is one, and two that differ score 0"
"""The rule of all named graders, as their measures say it."""

MEASURES: Mapping[str, str] = {
    "exact": (
        "the answer must be the expected text and nothing else, character by character, apart from quotes, emphasis, a "
        f"bullet, a box, a block of code and a full stop around it; {BY_LABEL}"
    ),
    "em": f"exact match with the expected answer, apart from case, punctuation and articles; {BY_LABEL}",
    "final_em": "exact match of the line 'Answer:' with the expected answer, apart from case, punctuation and articles",
    "f1": (
        "word overlap (F1) of the answer with the expected one, apart from case, punctuation and articles; missing and "
        f"surplus words both lower it, and a list of options scores 0; {BY_LABEL}"
    ),
    "final_f1": (
        "word overlap (F1) of the line 'Answer:' with the expected answer; missing and surplus words both lower it"
    ),
    "contains": (
        "the answer must contain the expected one word for word; further words cost nothing, but a list of options "
        f"scores 0; {BY_LABEL}"
    ),
    "numeric": (
        "the last number in the answer must equal the expected one to six digits, and a list of numbers scores 0; "
        f"{BY_LABEL}"
    ),
    "marked_number": "the number behind '####' must equal the expected one",
    "mathematics": "what is in \\boxed{} must be mathematically equal to the expected answer",
    "normal_form": (
        "exact match of the line 'Answer:' with the expected letter, word, number or text, apart from case and spaces"
    ),
    "unit_tests": "all hidden unit tests of the program must pass; a part of them counts nothing",
    "goal": "the simulator must reach the goal; a part of the way counts nothing",
    "tables": "the calls must leave the tables exactly as the request wants them",
}
"""Sentences by name of the measure; they reveal nothing of a task's reference."""


def add_measure(feedback: Feedback, measure: str) -> Feedback:
    """Add to the feedback what its measure rewards, unless the task is solved."""
    if feedback.solved:
        return feedback
    return feedback.replace(text=f"{feedback.text} Measured by: {MEASURES.get(measure, measure).rstrip('.')}.")


Graded = float | tuple[float, str] | Feedback
Grader = Callable[[Task, str], Graded | Awaitable[Graded]]
"""Takes a task and an answer; returns, at once or awaited, a score in [0, 1] or True or False, the score with what was
wrong with the answer, which methods learn from, or a Feedback."""

GIVEN_UP_AFTER = 60.0
"""Seconds per answer for a grader of the user's own."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = ("yes", "no", "noanswer")
_NUMBER = re.compile(
    r"""(?:(?<![\w)])-)?                                    # a minus sign, but not the one of 3-4
        (?:(?<![\d/])(?:\d{1,3}[ ])?(?P<over>\d+)/(?!(?P=over)(?!\d)|(?:1[5-9]|20)\d\d(?!\d))
            [1-9]\d*(?![\d/]|\.\d)                           # 3/4 or 1 3/4, but not 12/12 and no date
        |(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)  # 1,234.5 or 12 or .5
        (?:[eE][-+]?\d+)?)""",
    re.ASCII | re.VERBOSE,
)
_DATE = re.compile(
    r"(?<![\w/.-])(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d\d))(?![\w/-]|\.\d)", re.ASCII
)
"""A date in numbers, such as 2021-03-14 or 14.3.2021."""
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013"), "-")
"""Hyphens, and the dashes between the parts of a date."""
_DASH = "\u2010"
"""Joins the parts of a date in a normal form, which has no other punctuation."""
_OTHER_DIGIT = re.compile(r"[^\D0-9]")
_POWER = re.compile(
    r"""(?:(?P<factor>(?<=\d)\s*(?:[\u00d7\u00b7\u22c5*x]|\\times|\\cdot)\s*)|(?<![\w.,^/]))10
        (?:\s*(?:\^|\*\*)\s*\{?(?P<raised>[-+]?\d{1,3})\b\}?|(?P<high>[\u207a\u207b]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]{1,3}))""",
    re.ASCII | re.VERBOSE,
)
_FRAC = re.compile(r"\\[dt]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}", re.ASCII)
_WHOLE = re.compile(r"(?<=\d)(?=\\[dt]?frac)")
"""The place between the whole and the fraction of a mixed number."""
_THOUSANDS = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))", re.ASCII)
_SIGNS = str.maketrans("\u2212\u2013\u00a0\u2009\u202f\u066b\u066c", "--   .,")
"""Signs that stand for a minus, without which -5 becomes 5, narrow spaces that are not between thousands, and Arabic
separators."""
_HIGH = str.maketrans("\u207a\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079", "+-0123456789")
OWN = "module:function or file.py:function"
"""Names of graders of the user's own."""
_IMPORT_FAULTS = (
    ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError, LookupError, OSError, RuntimeError,
    ArithmeticError, AssertionError, SystemExit,
)  # fmt: skip
MOST_REFERENCES = 10_000
"""Most references of a task with which a named grader compares an answer, about 0.1 ms each."""
_LEAST_SECRET = 4
"""Least characters of a secret reference; shorter ones occur in any text by chance."""


def normalise(text: str) -> str:
    """SQuAD's normal form: lower case, no punctuation, no articles, single spaces, digits 0 to 9; dates in parts."""
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", _strip_punctuation(text)).split())


def _strip_punctuation(text: str) -> str:
    bare = _DATE.sub(_join_date, _write_digits(text.lower()).translate(_DASHES)).translate(_PUNCTUATION)
    if not bare.isascii():
        bare = "".join(char for char in bare if char == _DASH or unicodedata.category(char)[0] != "P")
    return bare.strip()


def _write_digits(text: str) -> str:
    """Write the digits of every script as 0 to 9."""
    return text if text.isascii() else _OTHER_DIGIT.sub(lambda digit: str(int(digit[0])), text)


def _join_date(date: re.Match[str]) -> str:
    return _DASH.join(part.lstrip("0") for part in re.split(r"\D", date[0]))


def exact(answer: str, reference: str) -> float:
    """1 if the texts are equal, apart from space around them."""
    return float(answer.strip() == reference.strip())


def em(answer: str, reference: str) -> float:
    """SQuAD's exact match: 1 if the normal forms are equal."""
    return float(normalise(answer) == normalise(reference))


def f1(answer: str, reference: str) -> float:
    """SQuAD's F1 over words of the normal forms; yes, no and noanswer match only themselves."""
    given, gold = normalise(answer), normalise(reference)
    if given == gold:
        return 1.0
    if given in _CLOSED or gold in _CLOSED:
        return 0.0
    common = sum((Counter(given.split()) & Counter(gold.split())).values())
    return 2 * common / (len(given.split()) + len(gold.split())) if common else 0.0


def contains(answer: str, reference: str) -> float:
    """1 if the answer's normal form contains the reference's, as whole words."""
    gold = normalise(reference)
    return float(bool(gold) and f" {gold} " in f" {normalise(answer)} ")


def numeric(answer: str, reference: str) -> float:
    """1 if the last number of the answer equals the reference's last one, to six digits; if that is a date, dates."""
    if _ends_with_date(reference):
        given_date, gold_date = ([*_DATE.finditer(text)][-1:] for text in (answer, reference))
        return float([*map(_join_date, given_date)] == [*map(_join_date, gold_date)])
    given, gold = _find_last_number(answer), _find_last_number(reference)
    if gold is None:
        raise GradingError(f"grader 'numeric' needs a reference with a number, not {reference!r}")
    return float(given is not None and abs(given - gold) <= 1e-6 * max(1.0, abs(gold)))


NAMED: dict[str, Callable[[str, str], float]] = {grade.__name__: grade for grade in (exact, em, f1, contains, numeric)}

_AROUND = " \t\r\n\f\v\u00a0\u200b\ufeff*_`\"'\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb\u300c\u300d\u2022"
_MARK = r"(?:[-*+\u2022]|\(?\d{1,2}[.)]|\(?[A-Za-z][.)])"
_LIST_MARK = re.compile(rf"{_MARK}$")
_MARKED = re.compile(rf"\s*{_MARK}\s+\S")
"""A line that begins with the mark of a list."""
_JOINED = re.compile(r"(?<=[^\W\d])[/,;](?=[^\W\d])|(?<=\d)(?:;|,(?!\d{3}(?!\d)))(?=\d)")
"""Separators without a space behind them, apart from those inside numbers."""
_TOKEN = re.compile(r"\n|[^\s|&]+|[|&]")
_CHOICES = {"or": "or", "/": "or", "|": "or", "and": "and", "&": "and"}
_STOPS = {",": ",", "/": "or", ";": "or", ".": ".", "!": ".", "?": ".", ":": "."}
_RANK = ("", ",", ".", "and", "or")
_SURPLUS = 2
"""Most words by which an entry of a list may be longer than the expected answer."""


def find_graded_text(answer: str, reference: str) -> str | None:
    """Find the part of an answer that a named grader compares with a reference; None if its labelled lines differ.

    It is the last line that begins with "Answer:" or "Final Answer:", or with that word in another language, and the
    whole text where there is none. A heading with the label alone needs no colon if one line or block is all that
    follows; where that is a sentence with the last labelled line in it, that line decides. Where the reference has
    several lines, the part is all that stands behind the label. Without any label, a cell of a table beside or below
    "Answer" has one.
    """
    if answer.strip() == reference.strip():
        return _strip_around(answer)
    text = _TAG.sub(r"\nAnswer: \1\n", _cut_thoughts(answer))
    text = text if _LABEL.search(text) else _label_cells(text)
    labels, found = [*_LABEL.finditer(text)], list[tuple[str, bool]]()
    ends = [label.start() for label in labels[1:]] + [len(text)]
    for label, end in zip(labels, ends[: len(labels)], strict=True):
        line, rest = _find_labelled(text[label.end() : end], reference)
        has_colon = label[0].rstrip(_EDGES)[-1] in ":\uff1a>\u2192\u21d2"
        if has_colon or (end == len(text) and line and not rest.strip(_EDGES + "-=")):
            found.append((line, has_colon))
    if not found:
        return _strip_around(text)
    if len(found) > 1 and not found[-1][1] and contains(found[-1][0], found[-2][0]):
        found.pop()
    given = [line for line, _ in found]
    said = [line for line in given[:-1] if line] + given[-1:]
    return given[-1] if len({_reduce(line) for line in said}) == 1 else None


def _label_cells(text: str) -> str:
    """Write each cell of a table that stands beside a cell "Answer", or below it in a table with a head, as a line.

    A text with several such cells that differ stays.
    """
    lines, written, column, found = text.split("\n"), list[str](), -1, set[str]()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        cells = [cell.strip(_EDGES + ":`") for cell in line.strip().strip("|").split("|")] if "|" in line[:2] else []
        names = [number for number, cell in enumerate(cells) if re.fullmatch(_NAME, cell, re.IGNORECASE)]
        if _RULE_OF_TABLE.fullmatch(below):
            column = names[0] if names else -1
        elif cells and not _RULE_OF_TABLE.fullmatch(line):
            place = column if column >= 0 else 1 if names == [0] and len(cells) == 2 else len(cells)
            if place < len(cells):
                found.add(cells[place])
                line = f"Answer: {cells[place]}"
        elif not cells:
            column = -1
        written.append(line)
    return "\n".join(written) if len(found) == 1 else text


def _find_labelled(behind: str, reference: str) -> tuple[str, str]:
    """Split the text behind a label into the answer and the rest.

    The answer is a formula, a list of options below the label, or a line; or all lines, if the reference has several.
    """
    part, rest = behind.strip(_EDGES), ""
    if "\n" in reference.strip():
        return _strip_around(part), ""
    part = _RULES.sub("", part, count=1)
    if fence := _FENCE.match(part):
        part, rest = fence[1].strip(_EDGES), part[fence.end() :]
    line = next(_FIRST.finditer(part))[0]
    label_alone = not behind.partition("\n")[0].strip(_EDGES)
    entries = _find_list(part, reference) if label_alone else ""
    return _strip_around(entries or line), part[len(line) :] + rest


def _find_list(text: str, option: str) -> str:
    """Find the list that a text begins with and that names an option beside others; empty if there is none.

    Its lines have marks, maybe with empty lines between them, or all of them begin alike and are not longer than the
    option.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and _MARKED.match(lines[0]):
        lines = [*takewhile(_MARKED.match, lines)]
    else:
        lines, most = text.partition("\n\n")[0].split("\n"), _count_words(option)
        signs = {line.lstrip(_AROUND)[:1] for line in lines}
        alike = len({sign.isalnum() or sign for sign in signs}) == 1
        if not alike or any(_MARKED.match(line) or _count_words(line) > most for line in lines):
            return ""
    entries = "\n".join(lines)
    return entries if lists_options(entries, option) else ""


def _count_words(text: str) -> int:
    return sum(len(words) for words, _ in _split_entries(text))


def _reduce(text: str) -> tuple[str, ...]:
    """Reduce a line to what must be equal in two labelled lines; the normal form has no signs and decimal points."""
    return (normalise(text) or text, *(str(_read_number(number)) for number in _find_numbers(text)))


def _strip_around(text: str) -> str:
    """Cut a block of code, a box, quotes, emphasis and a full stop off both ends; a text of nothing else stays."""
    fence = _FENCE.fullmatch(text.strip())
    bare = _strip_quotes(fence[1] if fence else text)
    if formula := _FORMULA.fullmatch(bare):
        bare = _strip_quotes(formula[1] or formula[2] or "") or bare
    for _ in range(2):  # a box, and a text in the box
        if (wrapped := _WRAPPED.fullmatch(bare)) and _is_balanced(wrapped[1]):
            bare = _strip_quotes(wrapped[1])
    return bare or text.strip()


def _is_balanced(text: str) -> bool:
    """Whether no brace closes that the text has not opened."""
    return min(accumulate((sign == "{") - (sign == "}") for sign in text), default=0) >= 0


def _strip_quotes(text: str) -> str:
    bare = text.strip(_AROUND)
    if "\n" not in bare:
        bare = re.sub(r"^(?:- |(?:[-=]>|[\u2192\u21d2])\s*(?=[-+\w$\\]))", "", bare)
        bare = bare[1:-1].strip(_AROUND) if re.fullmatch(r"\|\s[^|]+\s\|", bare) else bare
    if bare.endswith((".", "\u3002")) and not bare.endswith(".."):
        bare = bare[:-1].rstrip(_AROUND)
    return bare


def compare(name: str, answer: str, reference: str) -> float:
    """Score an answer by a named grader, under the rule that all of them share."""
    given, gold = find_graded_text(answer, reference), _strip_around(reference)
    if given is None:
        return 0.0
    if name != "exact" and not normalise(gold):  # such as the option A, which is an article elsewhere, or []
        bare = _strip_punctuation(gold)
        return float(_strip_punctuation(given) == bare if bare else given == gold)
    score = NAMED[name](given, gold)
    if score and name == "numeric" and not _ends_with_date(gold):
        single = len(_find_numbers(gold)) == 1
        return 0.0 if single and lists_options(_write_plainly(given), _find_numbers(given)[-1]) else score
    return 0.0 if score and name in ("f1", "contains", "numeric") and lists_options(given, gold) else score


def lists_options(text: str, option: str) -> bool:
    """Whether a text names an option as an entry of a list, beside others.

    A list has two entries with "or", "and", a slash or a list mark between them, or three short ones with commas or
    line ends. Its first entry may have words before it, its last one words behind it.
    """
    entries, wanted = _split_entries(text), [word for words, _ in _split_entries(option) for word in words]
    words = [word for entry, _ in entries for word in entry]
    places = _find_places(words, wanted)
    return bool(places) and any(_is_list(chain, wanted) for chain in _make_chains(entries, places, wanted))


def _split_entries(text: str) -> list[tuple[list[str], str]]:
    """Split a text into runs of words, each with what separates it from the next; every word is a run of its own."""
    found: list[tuple[list[str], str]] = []

    def separate(by: str) -> None:
        if found and (_RANK.index(by) > _RANK.index(found[-1][1]) or (by, found[-1][1]) == (",", ".")):
            found[-1] = (found[-1][0], by)

    raw = _TOKEN.findall(_JOINED.sub(r"\g<0> ", text))
    for number, token in enumerate(raw):
        opens = number == 0 or raw[number - 1] == "\n"
        alone = number + 1 == len(raw) or raw[number + 1] == "\n"
        if token == "\n":
            separate(",")
        elif opens and not alone and _LIST_MARK.match(token):
            separate("or")
        elif (choice := _CHOICES.get(token.lower().rstrip("/,"))) is not None:
            separate(choice)
        else:
            found += [([word], "") for word in normalise(token).split()]
            separate(_STOPS.get(token.rstrip("*_`\"')]}\u201d\u2019")[-1:], ""))
    return found


def _find_places(words: list[str], wanted: list[str]) -> list[int]:
    """List the places where a sequence of words begins, without overlaps."""
    if not wanted:
        return []
    text, sought, places = f" {' '.join(words)} ", f" {' '.join(wanted)} ", list[int]()
    at, counted, before = text.find(sought), 0, 0
    while at >= 0:
        before += text.count(" ", counted, at)
        places.append(before)
        counted, at = at, text.find(sought, at + len(sought) - 1)
    return places


_Entry = tuple[list[str], str]


def _make_chains(entries: list[_Entry], places: list[int], wanted: list[str]) -> Iterator[list[_Entry]]:
    """Join words to entries, and entries to chains that end with a sentence; the wanted words are a single word."""
    starts, mark, chain, words, number = {*places}, " ".join(wanted), list[_Entry](), list[str](), 0
    while number < len(entries):
        size = len(wanted) if number in starts else 1
        words.append(mark if number in starts else entries[number][0][0])
        number += size
        separator = entries[number - 1][1]
        if separator or number == len(entries):
            chain.append((words, separator))
            words = []
        if separator == "." or number == len(entries):
            yield chain
            chain = []


def _is_list(chain: list[_Entry], wanted: list[str]) -> bool:
    mark, last, separators = " ".join(wanted), len(chain) - 1, {separator for _, separator in chain[:-1]}
    here = [
        number
        for number, (words, _) in enumerate(chain)
        if words == [mark] or (number == 0 and words[-1] == mark) or (number == last and words[0] == mark)
    ]
    others = [words for words, _ in chain if mark not in words]
    if not here or not others:
        return False
    if len(chain) == 2:
        second, most = chain[1][0], len(wanted) + (_SURPLUS if "or" in separators else 0)
        return separators != {","} and (mark in second or len(second) <= most)
    short = chain if separators == {","} else [entry for entry in chain[1:] if mark not in entry[0]]
    return all(len(words) <= len(wanted) + _SURPLUS for words, _ in short)


class GradedEnvironment:
    """A grader as an environment.

    Args:
        seconds: time limit per answer; None for our own graders, which always end.
    """

    def __init__(self, name: str, grader: Grader, *, seconds: float | None = GIVEN_UP_AFTER) -> None:
        self.name, self._grader, self._seconds = name, grader, seconds
        self._coroutine = grader if inspect.iscoroutinefunction(grader) else None

    def with_timeout(self, seconds: float) -> "GradedEnvironment":
        """Make a copy with another time limit, if there is a limit."""
        return self if self._seconds is None else GradedEnvironment(self.name, self._grader, seconds=seconds)

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score an answer.

        Raises:
            GradingError: the grader raised, took too long, returned no score in [0, 1], or revealed the reference in
                its feedback.
        """
        result, said = await self._call(task, answer), ""
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], str):
            result, said = result
        feedback = result if isinstance(result, Feedback) else self._make_feedback(task, result, said)
        if (said or feedback is result) and self._seconds is not None:
            self._refuse_leak(task, answer, "\n".join((feedback.text, *iterate_texts(feedback.details))))
        return feedback

    async def _call(self, task: Task, answer: str) -> object:
        with ErrorCatcher() as caught:  # a grader is foreign code
            return await self._call_in_time(task, answer)
        if isinstance(caught.error, SelfwireError):
            raise caught.error
        where = format_place(caught.error) if caught.error else ""
        raise GradingError(
            f"grader {self.name!r} failed on task {task.id!r}{where}: {caught.error!r}"
        ) from caught.error

    async def _call_in_time(self, task: Task, answer: str) -> object:
        if self._seconds is None and self._coroutine:
            return await self._coroutine(task, answer)
        try:
            try:
                return await self._call_foreign(task, answer, get_shared_loop())
            except LoopBlockedError:
                with get_own_loop() as loop:
                    return await self._call_foreign(task, answer, loop)
        except (CallTimeoutError, LoopBlockedError):
            raise GradingError(
                f"{self.name} did not grade task {task.id!r} within {self._seconds:g} s; "
                "mend it or raise --grading-timeout"
            ) from None

    async def _call_foreign(self, task: Task, answer: str, loop: asyncio.AbstractEventLoop) -> object:
        if self._coroutine:
            return await run_on_foreign_loop(loop, self._seconds, self._coroutine, task, answer)
        try:
            async with asyncio.timeout(self._seconds) as timer:
                result = await run_in_thread(self._grader, task, answer)
        except TimeoutError:
            if timer.expired():
                raise CallTimeoutError from None
            raise
        if inspect.isawaitable(result):
            return await run_on_foreign_loop(loop, self._seconds, _await, result)
        return result

    def _make_feedback(self, task: Task, result: object, said: str) -> Feedback:
        try:
            score = float(result) if isinstance(result, SupportsFloat) else -1.0
        except (TypeError, ValueError):  # of an array
            score = -1.0
        if not 0 <= score <= 1:  # NaN compares false
            raise GradingError(
                f"grader {self.name!r} returned {format_object(result)} for task {task.id!r}; return a score in "
                "[0, 1], (score, text) or a Feedback"
            )
        solved = score == 1
        text = f"The answer is {'right' if solved else 'partly right' if score else 'not right'}."
        if said and not (solved and self._seconds is None):
            text = said
        feedback = Feedback(score=score, solved=solved, text=text)
        return add_measure(feedback, self.name) if self.name in NAMED else feedback

    def _refuse_leak(self, task: Task, answer: str, text: str) -> None:
        public = f"{task.input}\n{answer}".lower()
        for secret in get_references(task):
            if len(secret) >= _LEAST_SECRET and secret.lower() in text.lower() and secret.lower() not in public:
                raise GradingError(
                    f"grader {self.name!r} put the reference of task {task.id!r} into its feedback, which agents read; "
                    "say what is wrong with the answer instead"
                )


async def _await(result: Awaitable[Graded]) -> Graded:
    return await result


def load_grader(name: str) -> GradedEnvironment:
    """Load a named grader, or a function at `module:function`, as an environment; ConfigError without one."""
    if name in NAMED:
        return GradedEnvironment(name, _compare_with_references(name), seconds=None)
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        hint = suggest_name(name.lower(), (*NAMED, "judge"), "did you mean {}? ")
        raise ConfigError(
            f"there is no grader {name!r}; {hint}graders are {', '.join(NAMED)}, judge, or your own as {OWN}"
        )
    return GradedEnvironment(name, _import_grader(name, module, function))


def get_grader_name(grader: Grader) -> str:
    """Name a grader that is an object, such as a function of a notebook."""
    name = str(getattr(grader, "__qualname__", type(grader).__qualname__)).replace("<locals>.", "")
    return "lambda" if name.endswith("<lambda>") else name


def get_references(task: Task) -> tuple[str, ...]:
    """List the references as texts: a text, or each entry of a list; empty for anything else."""
    reference = to_plain_json(task.reference)
    entries = reference if isinstance(reference, list) else [reference]
    return tuple(_to_text(entry) for entry in entries if isinstance(entry, str | int | float))


def _to_text(entry: str | float) -> str:
    return ("yes" if entry else "no") if isinstance(entry, bool) else str(entry)


def _compare_with_references(name: str) -> Grader:
    async def grade(task: Task, answer: str) -> Graded:  # async, as these are too fast to be worth a thread
        golds = validate_references(name, task)
        score, gold = max(((compare(name, answer, gold), gold) for gold in golds), key=itemgetter(0))
        if find_graded_text(answer, gold) is None:
            return score, "The answer is not right: its lines that begin with 'Answer:' differ."
        return (score, _describe_overlap(answer, gold)) if name == "f1" and 0 < score < 1 else score

    return grade


def _describe_overlap(answer: str, gold: str) -> str:
    """Say how many words of an answer are right and how many are missing, and none of the words."""
    given = normalise(find_graded_text(answer, gold) or "").split()
    expected = normalise(gold).split()
    common = (Counter(given) & Counter(expected)).total()
    missing = len(expected) - common
    are = "word is" if len(given) == 1 else "words are"
    lost = f"{missing} {'is' if missing == 1 else 'are'}" if missing else "none is"
    return f"The answer is partly right: {common} of your {len(given)} {are} expected, {lost} missing."


def validate_references(name: str, task: Task) -> tuple[str, ...]:
    """List the references of a task for a named grader.

    Raises:
        GradingError: there are none or too many, or one is no number for `numeric`.
    """
    if not (golds := get_references(task)):
        raise GradingError(
            f"grader {name!r} needs a text, a number or a list of them as the reference of task {task.id!r}, "
            f"{'which has none' if task.reference is None else f'not {type(to_plain_json(task.reference)).__name__}'}"
        )
    if len(golds) > MOST_REFERENCES:
        raise GradingError(
            f"grader {name!r} compares an answer with at most {MOST_REFERENCES:,} references, and task {task.id!r} has "
            f"{len(golds):,}; give fewer, or a grader of your own"
        )
    if name == "numeric" and any(_find_last_number(gold) is None for gold in golds):
        raise GradingError(f"grader 'numeric' needs a reference with a number for task {task.id!r}, not {golds!r}")
    return golds


def _import_grader(name: str, module: str, function: str) -> Grader:
    try:
        grader = import_user_object(module, function, f"grader {name!r}")
    except ConfigError:
        raise
    except _IMPORT_FAULTS as error:
        raise ConfigError(
            f"grader {name!r} cannot be imported: {format_error(error)}{format_place(error)}; named ones are "
            f"{', '.join(NAMED)}, judge; name your own as {OWN}"
        ) from error
    return require_grader(name, grader)


def require_grader(name: str, grader: object) -> Grader:
    """Return a grader that takes a task and an answer.

    Raises:
        ConfigError: it is no function, or takes other arguments.
    """
    if not callable(grader):
        raise ConfigError(f"grader {name!r} is {format_object(grader)}, not a function of (task, answer)")
    with suppress(ValueError, TypeError):  # a function written in C may have no signature, and others a wrong one
        signature = inspect.signature(grader, follow_wrapped=False)
        try:
            signature.bind("task", "answer")
        except TypeError as error:
            raise ConfigError(
                f"grader {name!r} takes {signature}, and is called with (task, answer): {error}"
            ) from None
    return grader


def _find_numbers(text: str) -> list[str]:
    return [number[0] for number in _NUMBER.finditer(_write_plainly(text))]


def _write_plainly(text: str) -> str:
    """Write the numbers of a text with ordinary signs: 1,280 for narrow spaces, 2e5 for powers of ten, 3/4."""
    plain = _THOUSANDS.sub(",", _write_digits(text)).translate(_SIGNS)
    return _FRAC.sub(r"\1/\2", _WHOLE.sub(" ", _POWER.sub(_write_power, plain)))


def _write_power(power: re.Match[str]) -> str:
    exponent = power["raised"] or power["high"].translate(_HIGH)
    return f"{'' if power['factor'] else 1}e{exponent}"


def _ends_with_date(text: str) -> bool:
    """Whether the last number of a text is in a date."""
    dates = [*_DATE.finditer(text)]
    return bool(dates) and not _find_numbers(text[dates[-1].end() :])


def _find_last_number(text: str) -> float | None:
    found = _find_numbers(text)
    return _read_number(found[-1]) if found else None


def _read_number(text: str) -> float:
    whole, _, part = text.replace(",", "").rpartition(" ")
    number, _, divisor = part.partition("/")
    value = float(number) / float(divisor or 1)
    return math.copysign(abs(float(whole)) + value, float(whole)) if whole else value
