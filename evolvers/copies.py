"""Finds what a rewiring copies from train tasks: a reference, or a long run of a task's text. Method-free.

A text is compared by its letters alone, so that case, accents, spaces, signs and digits do not hide a copy, and neither
do letters of Cyrillic or Greek that look like Latin ones, nor invisible ones; and once more with its numbers, for tasks
that differ by these. Each letter of a script without spaces between words, such as Chinese, is a word; a reference of
such letters alone is a name only where it is as long as several words, or a Chinese family name with two letters. A
reference is compared by its words and numbers, however they are spaced, with number words as digits, dates in one order
and units by their signs; three words or more in any order, as a list may be. Names of months and of numbers are read in
English, numerals in Chinese too. What code, pages and addresses write for a sign (`\\n`, `&nbsp;`, `%20`) is read as
the sign. A run is `RUN` letters or more, about eight words. What a tenth of the tasks share, such as the wording of a
benchmark, is no copy, and neither is what the team says already. What is translated, converted or encoded is not found.

A short sentence of a task is no proof of a copy: `list_task_sentences` finds them for a person to read.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple
from urllib.parse import unquote
from zlib import crc32

from selfwire.core.edits import Rewiring
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.values import iterate_texts

RUN, WINDOW = 32, 8
"""Letters that are compared at once, and how far apart those are that are kept of a task."""
SHARED = 0.1
"""Share of the tasks above which what they have in common belongs to none."""
SHOWN = 80
"""Letters of a copied passage that a reason shows."""
JOINED = 6
"""Letters and digits from which a reference of several words is also found where these are run together or split."""
LONGEST = 40
"""Most words of one number."""
SENTENCE = 3
"""Words from which a sentence that stands in a task is listed; two letters of a script without spaces count as one."""
UNSPACED_NAME = 18
"""Letters from which one word of a script without spaces is as good as several words; a Chinese one counts as three."""

_SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_UNITS = {word: number for number, word in enumerate(f"{_SMALL} seventeen eighteen nineteen".split())}
_TENS = {
    word: ten
    for ten, word in zip(
        range(20, 100, 10), "twenty thirty forty fifty sixty seventy eighty ninety".split(), strict=True
    )
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6}
_NUMBER_WORDS = {*_UNITS, *_TENS, *_SCALES}
_ORDINALS = dict(first="one", second="two", third="three", fifth="five", eighth="eight", ninth="nine", twelfth="twelve")
_ORDINALS |= {f"{word}th": word for word in (*_UNITS, *_SCALES)}
_ORDINALS |= {f"{word[:-1]}ieth": word for word in _TENS}
_MONTHS = "january february march april may june july august september october november december".split()
_MONTH_NUMBERS = {name: at % 12 for at, name in enumerate([*_MONTHS, *(month[:3] for month in _MONTHS)], 12)}
_MONTH_NUMBERS |= {"sept": 8}
_COMMON_NAMES = {*_MONTHS, *"monday tuesday wednesday thursday friday saturday sunday true false none".split()}
_ROUND = {"100", "1000"}
_METRIC = re.compile(r"(kilo|centi|milli)?(gram|(?:met|lit)(?:re|er))s?")
_TIMES = {"minute": "min", "minutes": "min", "mins": "min", "hour": "h", "hours": "h", "hr": "h", "hrs": "h"}
_FILLERS = {"and", "an", "the"}
_SIZES = {"word", "token", "character", "sentence", "line", "step"}
_ESCAPE = re.compile(r"\\(?:[nrt]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})")
_UNSPACED = "\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
"""Thai, Korean by its decomposed syllables, Japanese and Chinese."""
_BETWEEN = re.compile(rf"(?<=[{_UNSPACED}]) (?=[{_UNSPACED}])")
_HAN = re.compile("[\u3400-\u9fff\U00020000-\U0003ffff]")
_HAN_NAME = re.compile(
    "[王李张刘陈杨黄赵周吴徐孙马朱胡林郭何高罗郑梁谢宋唐许韩冯邓曹彭曾萧肖田董潘袁于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪范金石廖贾"
    "夏韦付傅方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严武戴莫孔向汤張劉陳楊黃趙吳孫馬鄭謝許韓馮鄧蕭蔣葉蘇魏盧鍾譚陸]"
    "[\u3400-\u9fff]"
    "(?![的地得了着过是为在到去说看做用吗呢吧啊人员工者家师们式性率价表件书路库词型化类量数值度里上下内外前后时间层级页面线点题法证历机器具物品水油酒"
    "头子塔薯错中你我他走天热高低多少大小次种个条张只岸庄会队组部局店馆室区国])[\u3400-\u9fff]"
)
"""A Chinese name of three letters: a common family name, a letter, and one that does not end everyday words."""
_HAN_NUMBER = re.compile("[〇零一二两三四五六七八九十百千万亿]{3,}")
_HAN_DATE = re.compile(r"(\d{4})年(\d\d?)月(\d\d?)日")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_HIDDEN = {"Cf", "Me", "Mn"}
"""Categories of what is not seen by itself: invisible signs, and accents."""
_LOOKALIKES = str.maketrans(
    "авекмнорстухѕіјһԁԛԝѵαβεζηικμνορτυχᴀʙᴄᴅᴇғɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢıɑɡ",
    "abekmhopctyxsijhdqwvabezhikmvoptuxabcdefghijklmnoprstuvwyziag",
)
"""Latin letters for those of Cyrillic and Greek, and small capitals, that look like them."""
_CAPITALS = str.maketrans("\u039d\u03a5", "NY")
"""Latin capitals for the Greek ones whose small letters look like others."""
_WORD = re.compile(r"[^\W_]+")
_LETTER = re.compile(rf"[{_UNSPACED}]")
_SPLIT = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
"""A letter of a script without spaces, or a word."""
_PART = re.compile(rf"[{_UNSPACED}]|[^\W\d_{_UNSPACED}]+|\d+(?:\.\d+)*")
_ARTICLE = re.compile(r"\W*(an?|the)\s+", re.IGNORECASE)
_GROUP = re.compile(r"(?<=\d)[ ,._](?=\d{3}\b)")
_ZEROS = re.compile(r"(?<=\d)[.,]0+\b|(?<=\d)(?:st|nd|rd|th)\b")
_SCALED = re.compile(r"(?<!\d)(\d++(?:\.\d++)?)(?: (hundred|thousand|million)|k)\b")
_COMMA = re.compile(r"(?<=\d),(?=\d)")
_POINT = re.compile(r"(?<=\d) point (?=\d)")
_HYPHENATED = re.compile(r"(?<=[^\W\d_])-\n\s*(?=[^\W\d_])")
_PLACE = re.compile(r"^[ \t]*\d\d?[.)][ \t]+", re.MULTILINE)
_DATE_CALL = re.compile(r"(\bdate(?:time)?)\((\d{4}), ?(\d\d?), ?(\d\d?)\b")
_DATE_SIGNS = re.compile(r"(?<!\d)(?:(\d{4})([-/.])(\d\d?)\2(\d\d?)|(\d\d?)([-/.])(\d\d?)\6(\d{4}))(?!\d)")
_NAMES_OF_MONTHS = "|".join(_MONTH_NUMBERS)
_DATE = re.compile(rf"(?<= )(?:(\d\d?)(?: of)? ({_NAMES_OF_MONTHS})|({_NAMES_OF_MONTHS}) (\d\d?))( \d{{4}})?(?= )")
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+|(?<=[\u3002\uff01\uff1f\uff1b\uff1a])|\n+")


@dataclass(frozen=True)
class TaskTexts:
    """Texts of tasks that must not be copied.

    Attributes:
        runs: runs of letters that few tasks have.
        references: references that nobody writes by chance, in their words.
    """

    runs: frozenset[str]
    references: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> "TaskTexts":
        """Collect the runs and references of tasks."""
        most = max(1, int(SHARED * len(tasks)))
        runs = Counter(run for task in tasks for run in _collect_runs(task))
        mixed = (task.input for task in tasks if not task.input.islower())
        ordinary = {_fold(word) for word in {word for text in mixed for word in _WORD.findall(text) if word.islower()}}
        references = Counter(words for task in tasks for words in {*_list_references(task.reference, ordinary)})
        return cls(
            frozenset(run for run, count in runs.items() if count <= most),
            frozenset(words for words, count in references.items() if count <= most),
        )

    def find_copy(self, text: str, known: str = "") -> str:
        """Find a passage of a text that is copied from a task; "" if none is.

        Args:
            known: what the team says already, which is no copy.
        """
        own = {form: _find_letters(known, form) for form in (True, False)}
        for form in (True, False):
            letters = _find_letters(text, form)
            for at in range(len(letters) - RUN + 1):
                if (run := letters[at : at + RUN]) in self.runs and run not in own[form]:
                    return _show(text, at, form)
        said = _read_words(text)
        if passage := said[0].find_run(self.runs, known):
            return passage
        found = [words for words in self.references if any(form.holds(words) for form in said)]
        found = [words for words in found if _is_proof(words, text)]
        before = _read_words(known) if found else ()
        copied = (words for words in found if not any(form.holds(words) for form in before))
        return unicodedata.normalize("NFC", _BETWEEN.sub("", min(map(" ".join, copied), default="")))


def list_task_sentences(before: Team, after: Team, tasks: Sequence[Task]) -> list[tuple[str, str]]:
    """List the sentences that agents have been given and that stand in a few tasks word by word.

    Returns:
        Pairs of the agent's id and the sentence.
    """
    known, new = {*_split_sentences(list_own_texts(before))}, dict[tuple[str, str], str]()
    for agent in after.agents:
        for sentence in _split_sentences(agent.prompt):
            words = _SPLIT.findall(_fold(sentence))
            unspaced = sum(map(bool, map(_LETTER.match, words)))
            if sentence not in known and len(words) - unspaced + unspaced // 2 >= SENTENCE:
                new[agent.id, sentence] = _pad(words)
    texts = [_pad(_SPLIT.findall(_fold(task.input))) for task in tasks] if new else []
    most = max(1, SHARED * len(tasks))
    return [place for place, sentence in new.items() if 0 < sum(sentence in text for text in texts) <= most]


def _split_sentences(text: str) -> list[str]:
    return [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]


def _pad(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


def find_copies(rewirings: Iterable[Rewiring], team: Team, texts: TaskTexts) -> dict[int, str]:
    """Find the rewirings that copy, by their place, with the passage.

    Args:
        team: before them.
    """
    known, found = list_own_texts(team), {}
    for place, rewiring in enumerate(rewirings):
        said = "\n".join(iterate_texts(rewiring.model_dump(mode="json")["edits"]))
        if passage := texts.find_copy(said, known):
            found[place] = passage
    return found


def list_own_texts(team: Team) -> str:
    """Everything that a team's agents and tools say already."""
    return "\n".join(iterate_texts([part.model_dump(mode="json") for part in (*team.agents, *team.tools)]))


def _collect_runs(task: Task) -> set[str]:
    """Collect runs of a task's text and of a long reference: of their letters, and of their words where a number is."""
    runs = set[str]()
    for text in (task.input, *iterate_texts(task.reference)):
        runs.update(_choose_runs(_find_letters(text)))
        runs.update(run for run in _choose_runs("".join(_list_words(text)).replace(".", "")) if re.search(r"\d", run))
    return runs


def _decode(text: str) -> str:
    """Put the signs into a text for the escapes of code, pages and addresses."""
    text = html.unescape(unquote(text))
    return _ESCAPE.sub(lambda found: chr(int(found[0][2:], 16)) if found[0][1] in "ux" else " ", text)


def _fold(text: str) -> str:
    """A text in small letters without accents and what is not seen, in Latin letters where they look like them."""
    folded = _WORD.sub(_show_capitals, _decode(text)).casefold()
    if folded.isascii():
        return folded
    letters = unicodedata.normalize("NFKD", folded).casefold()
    return "".join(letter for letter in letters if unicodedata.category(letter) not in _HIDDEN).translate(_LOOKALIKES)


def _show_capitals(word: re.Match[str]) -> str:
    """A word with Latin capitals for Greek ones, if it has Latin letters beside them."""
    return word[0].translate(_CAPITALS) if re.search("[A-Za-z]", word[0]) else word[0]


def _triple_han(text: str) -> str:
    """A text with each Chinese letter three times, as it says about as much as three of others."""
    return _HAN.sub(lambda found: found[0] * 3, text)


def _find_letters(text: str, without_numbers: bool = True) -> str:
    """The letters of a text in a row, without digits and, as `without_numbers` says, without words for numbers."""
    words = _WORD.findall(_triple_han(_fold(text)))
    kept = (word for word in words if not without_numbers or word not in _NUMBER_WORDS)
    return "".join("".join(filter(str.isalpha, word)) for word in kept)


def _choose_runs(letters: str) -> Iterator[str]:
    """Runs of a task, the least by its hash of each few, so that equal passages of two tasks give equal runs."""
    runs = [letters[at : at + RUN] for at in range(len(letters) - RUN + 1)]
    order = [crc32(run.encode()) for run in runs]
    for at in range(max(len(runs) - WINDOW + 1, min(len(runs), 1))):
        least = min(range(at, min(at + WINDOW, len(runs))), key=order.__getitem__)
        yield runs[least]


def _show(text: str, at: int, without_numbers: bool) -> str:
    """The words of a text around a run of its letters."""
    size, places = 0, list[int]()
    for word in re.finditer(r"\S{1,20}", text):
        before = size
        size += len(_find_letters(word[0], without_numbers))
        if size > at and before < at + RUN:
            places += word.span()
    return " ".join(text[min(places, default=0) : max(places, default=0)].split())[:SHOWN]


def _list_references(reference: Any, ordinary: Set[str]) -> Iterator[tuple[str, ...]]:
    """Unmistakable references, in words: a name, a date, several words, or a number of three digits or more.

    Args:
        ordinary: words that tasks write small, which are no names.
    """
    for text in iterate_texts(f"{reference}" if isinstance(reference, int | float) else reference):
        article = _ARTICLE.match(text)
        bare = text[article.end() :] if article else text
        letters = sum(map(str.isalpha, text))
        for words in {tuple(_list_words(reading)) for reading in _list_readings(bare)}:
            digits = [re.sub(r"\D", "", word).lstrip("0") for word in words]
            has_number = any(len(number) > 2 and number not in _ROUND for number in digits)
            has_capital = any(map(str.isupper, bare)) and not {*words} & ordinary
            is_size = _is_count(words) and words[-1].removesuffix("s") in _SIZES
            is_several = len(words) > 1 and not _is_short_word(bare, words)
            is_name = letters > 3 and (is_several or has_capital) and " ".join(words) not in _COMMON_NAMES
            is_name = is_name or bool(_HAN_NAME.fullmatch("".join(words)))
            if has_number or (words and is_name and not is_size):
                yield (article[1].lower(), *words) if article and len(words) == 1 and not has_number else words
                if len(words) == 2 and bare.istitle() and all(map(str.isalpha, words)):
                    yield words[::-1]  # the last name first


def _is_short_word(text: str, letters: Sequence[str]) -> bool:
    """Whether a text is one word of a script without spaces, and no longer than words of everyday speech."""
    if len(_WORD.findall(_fold(text))) > 1 or not any(map(_LETTER.match, letters)):
        return False
    return len(_triple_han("".join(letters))) < UNSPACED_NAME


def _list_readings(text: str) -> set[str]:
    """A text with each reading of its dates in digits, whose day and month may be changed about."""
    return {
        _DATE_SIGNS.sub(lambda found: _list_dates(found)[0], text),
        _DATE_SIGNS.sub(lambda found: _list_dates(found)[-1], text),
    }


def _is_round(word: str) -> bool:
    """Whether a word is a number such as 20, 200 or 1500, which examples of one's own have too."""
    return word.isdigit() and len(word) < 5 and len(word.rstrip("0")) < 3


def _is_count(words: Sequence[str]) -> bool:
    """Whether a reference is a number such as 20 or 1500 of something."""
    return len(words) == 2 and _is_round(words[0]) and words[1] not in _MONTHS


def _is_proof(words: Sequence[str], text: str) -> bool:
    """Whether a reference that stands in a text is no number that prompts have of their own too.

    A round number, or a count by one, must be the only number of a sentence: no part of a calculation, of a range or of
    a limit. A year must stand elsewhere than in a date that shows how dates are written.
    """
    if len(words) > 1 and not _is_count(words):
        return True
    sentences = [said for part in _SENTENCE_END.split(text) if words[0] in (said := _list_words(part))]
    if not _is_round(words[0]):
        shown = [
            said for said in sentences if {"dates", "format"} & {*said} and words[0] not in _DATE.sub("", _pad(said))
        ]
        return not sentences or len(shown) < len(sentences)
    for said in sentences:
        numbers = [
            word
            for word, after in zip(said, [*said[1:], ""], strict=True)
            if word[0].isdigit() and (len(words) == 2 or after.removesuffix("s") not in _SIZES)
        ]
        if numbers == [words[0]] and _pad(words) in _pad(said):
            return True
    return False


def _list_words(text: str, as_written: bool = False) -> list[str]:
    """List the words of a text in the usual form; numbers by their digits, dates and units in one way.

    Args:
        as_written: with articles, with names in code as the words that their capitals begin, and with digits in groups
            of three as several numbers; else these are one number, "3k" is 3000 and a word goes on after a hyphen at
            the end of a line.
    """
    words = [word for word in _iterate_words(_prepare(text, as_written)) if as_written or word not in _FILLERS]
    for at in range(1, len(words)):
        if words[at - 1][0].isdigit():
            words[at] = _find_unit(words[at])
    return _DATE.sub(_order_date, _POINT.sub(".", _pad(words))).split()


def _prepare(text: str, as_written: bool) -> str:
    """Fold a text and write its numbers and dates in one way, without numbers of list items."""
    text = _fold(_CAMEL.sub(" ", text) if as_written else text)
    text = _HAN_DATE.sub(r"\1-\2-\3 ", _HAN_NUMBER.sub(_read_han_number, text))
    text = _DATE_CALL.sub(r"\1 \2-\3-\4", _PLACE.sub("", text))
    text = _DATE_SIGNS.sub(lambda found: ", ".join(_list_dates(found)), text)
    if not as_written:
        text = _COMMA.sub(".", _SCALED.sub(_write_scaled, _GROUP.sub("", _HYPHENATED.sub("", text))))
    return _ZEROS.sub("", text)


def _read_han_number(found: re.Match[str]) -> str:
    """Digits of a Chinese number: one by one, or with tens, hundreds and thousands."""
    values = [int(unicodedata.numeric(sign)) for sign in found[0]]
    if max(values) < 10:
        return "".join(map(str, values))
    whole, part, digit = 0, 0, 0
    for value in values:
        if value < 10:
            digit = value
        elif value < 10_000:
            part, digit = part + max(digit, 1) * value, 0
        else:
            whole, part, digit = whole + (part + digit) * value, 0, 0
    return str(whole + part + digit)


def _write_scaled(found: re.Match[str]) -> str:
    return f"{float(found[1]) * _SCALES[found[2] or 'thousand']:.0f}"


def _list_dates(found: re.Match[str]) -> list[str]:
    """List the readings of a date in digits, each with its month's name; the digits themselves if there is none."""
    year, orders = (
        (found[1], [(found[3], found[4])]) if found[1] else (found[8], [(found[5], found[7]), (found[7], found[5])])
    )
    dates = dict.fromkeys(
        f"{int(day)} {_MONTHS[int(month) - 1]} {year}"
        for month, day in orders
        if 0 < int(month) <= 12 and 0 < int(day) <= 31
    )
    return [*dates] or [found[0]]


def _order_date(found: re.Match[str]) -> str:
    """Write a date's day, month and year in this order."""
    month = _MONTHS[_MONTH_NUMBERS[found[2] or found[3]]]
    return f"{int(found[1] or found[4])} {month}{found[5] or ''}"


def _find_unit(word: str) -> str:
    """Find the sign of a unit; any other word stays."""
    if found := _METRIC.fullmatch(word):
        return (found[1] or "")[:1] + found[2][0]
    return _TIMES.get(word, word)


def _iterate_words(text: str) -> Iterator[str]:
    """Iterate over the words of a text; numbers by their digits, whether these or words are written."""
    pending, end = list[str](), 0
    for found in _PART.finditer(text):
        written, gap, end = found[0], text[end : found.start()], found.end()
        if pending and (gap.strip(" \n\t-") not in ("", "," * (pending[-1] in _SCALES)) or len(pending) == LONGEST):
            yield from _to_digits(pending)
            pending = []
        word = _ORDINALS.get(written, written)
        if word in _NUMBER_WORDS or (word in ("and", "oh") and pending):
            pending.append(word)
            if word == written:
                continue
            yield from _to_digits(pending)  # an ordinal ends a number
            pending = []
            continue
        yield from _to_digits(pending)
        yield word
        pending = []
    yield from _to_digits(pending)


def _to_digits(words: Sequence[str]) -> Iterator[str]:
    """Digits of number words: in scales ("one thousand two"), in groups ("eighteen forty-two") or one by one."""
    words = ["zero" if word == "oh" else word for word in words if word != "and"]
    if not words:
        return
    if any(word in _SCALES for word in words):
        whole, part = 0, 0
        for word in words:
            if word in _SCALES:
                part = max(part, 1) * _SCALES[word]
                whole, part = (whole + part, 0) if _SCALES[word] > 100 else (whole, part)
            else:
                part += _UNITS.get(word, _TENS.get(word, 0))
        yield str(whole + part)
        return
    groups, tens = list[str](), 0
    for word in words:
        if word in _TENS:
            groups += [str(tens)] if tens else []
            tens = _TENS[word]
        elif tens and 0 < _UNITS[word] < 10:
            groups.append(str(tens + _UNITS[word]))
            tens = 0
        else:
            groups += [str(tens)] if tens else []
            groups.append(str(_UNITS[word]))
            tens = 0
    yield "".join([*groups, *([str(tens)] if tens else [])])


class _Words(NamedTuple):
    """Words of a text in the usual form, joined for searches.

    Attributes:
        spaced: with a space before and after each.
        joined: run together.
        ends: where each begins and ends in `joined`.
    """

    spaced: str
    joined: str
    ends: Sequence[int]

    def find_run(self, runs: Collection[str], known: str) -> str:
        """Find the words of the first run that stands in them and not in a known text; "" if none does."""
        joined = self.joined.replace(".", "")  # a comma between two numbers may have no space behind it
        hits = [at for at in range(len(joined) - RUN + 1) if joined[at : at + RUN] in runs]
        own = "".join(_list_words(known)).replace(".", "") if hits else ""
        for at in hits:
            if joined[at : at + RUN] not in own:
                words = self.spaced.split()
                ends = [0, *accumulate(len(word.replace(".", "")) for word in words)]
                places = zip(words, ends, ends[1:], strict=False)
                return " ".join(word for word, start, end in places if end > at and start < at + RUN)[:SHOWN]
        return ""

    def holds(self, wanted: Sequence[str]) -> bool:
        """Whether others stand in a row among them, run together or split too where chance does not make them so."""
        if _pad(wanted) in self.spaced or self._holds_list(wanted):
            return True
        sought = "".join(wanted)
        if len(sought) < JOINED or len(wanted) == 1 or sought.isdigit() or sought not in self.joined:
            return False
        starts = (end - len(sought) for end in self.ends)
        return any(start in self.ends and self.joined.startswith(sought, start) for start in starts)

    def _holds_list(self, wanted: Sequence[str]) -> bool:
        """Whether others, three words or more, stand in a row among them in any order."""
        long = [word for word in wanted if len(word) > 2 and word.isalpha()]
        if len(long) < 3 or any(f" {word} " not in self.spaced for word in wanted):
            return False
        words, sought = ([word for word in some if word != "a"] for some in (self.spaced.split(), sorted(wanted)))
        rows = (words[at : at + len(sought)] for at, word in enumerate(words) if word in sought)
        return any(sorted(row) == sought for row in rows)


def _read_words(text: str) -> tuple[_Words, ...]:
    """Read the words of a text, in the usual form and as written."""
    forms = (_list_words(text, as_written) for as_written in (False, True))
    return tuple(_Words(_pad(words), "".join(words), [0, *accumulate(map(len, words))]) for words in forms)
