"""Texts cut to their relevant passages, and secrets masked in them."""

import base64
import difflib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from math import fsum, log, sqrt
from typing import Any
from urllib.parse import quote, unquote

GAP = "[...]"
"""Marks a place where passages were left out."""

_PARAGRAPH = re.compile(r"\S.*?(?:\n[ \t]*\n|$)\s*", re.DOTALL)
_SENTENCE = re.compile(
    r"(?:\d{1,2}[.)][ \t]+)?"  # the number of an item of a list
    r"\S.*?(?:(?<!e\.g)(?<!i\.e)(?<!\betc)(?<!\bvs)[.!?][\"')\]]*(?=\s)|(?=\n)|$)\s*",
    re.DOTALL,
)
_WORD = re.compile(r"\w{3,}|\d+")
_END_BONUS = 0.5
"""Bonus for the last passage, where texts state their conclusion."""


def excerpt(text: str, length: int, about: str = "") -> str:
    """Cut a text to at most `length` characters: the passages most relevant to `about`, in their order.

    A shorter text is returned unchanged. A passage is a paragraph, or a sentence of a paragraph longer than a third of
    `length`. Passages rank by the rare words that they share with `about`, then by position. If no passage fits, the
    first is cut between two words.
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
    return split_sentences(paragraph)


def split_sentences(text: str) -> list[str]:
    """Split a text into its sentences and lines, each with the white space behind it; `e.g.` and its like end none."""
    return [found[0] for found in _SENTENCE.finditer(text)]


def _rank(passages: list[str], about: str) -> list[int]:
    """Rank the indices of passages, the most relevant first."""
    words = [_find_words(passage) for passage in passages]
    wanted, counts = _find_words(about), Counter(word for in_passage in words for word in in_passage)

    def relevance(place: int) -> float:
        # the exact sum, as the order of a set differs between processes
        shared = fsum(log(1 + len(passages) / counts[word]) for word in words[place] & wanted)
        return shared / sqrt(1 + len(words[place])) + _END_BONUS * (place == len(passages) - 1)

    return sorted(range(len(passages)), key=lambda place: (-relevance(place), place))


def _find_words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _join(passages: list[str], places: list[int]) -> str:
    parts = [f"{GAP} " if places[0] else "", passages[places[0]]]
    for before, place in pairwise(places):
        parts += (
            [passages[place]] if place == before + 1 else [f"{GAP}{_get_end(passages[place - 1])}", passages[place]]
        )
    return "".join(parts).rstrip() + (f" {GAP}" if places[-1] < len(passages) - 1 else "")


def _get_end(passage: str) -> str:
    """Return the white space at the end of a passage."""
    return passage[len(passage.rstrip()) :]


def _cut(text: str, length: int) -> str:
    kept = text[: max(0, length - len(GAP) - 1)]
    whole = kept.rpartition(" ")[0] or kept
    return f"{whole.rstrip()} {GAP}"[:length]


REPEATED = 80
"""Least characters of a text that is marked where it is repeated; a shorter one may be a part of a sentence."""
_CODE_BLOCK = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_TABLE = re.compile(r"^\|.*\|(?:\n\|.*\|)+", re.MULTILINE)


def find_code_blocks(text: str) -> tuple[str, ...]:
    """Find the fenced code blocks of a text, without their fences."""
    return tuple(block.strip("\n") for block in _CODE_BLOCK.findall(text) if block.strip())


def find_works(text: str) -> tuple[str, ...]:
    """Find what a text has in one piece: its fenced code blocks, without their fences, and its tables."""
    return (*find_code_blocks(text), *_TABLE.findall(text))


def mark_repeats(text: str, known: str, mark: str) -> str:
    """Put a mark in place of a long text, of its fenced code or of its tables, in a text that is shown beside it.

    A text whose last line goes on in the other, such as "Answer: 33" in "Answer: 33 years", stays.
    """
    for piece in (known.strip(), *find_works(known)):
        if len(piece) >= REPEATED:
            goes_on = re.compile(r"\w" if piece.endswith((".", "!", "?")) else r"[^\n]*\w")
            first, *rest = text.split(piece)
            text = first + "".join((piece if goes_on.match(after) else mark) + after for after in rest)
    return re.sub(rf"```[^\n`]*\n{re.escape(mark)}\n?```", lambda _: mark, text)


def mark_earlier(texts: Iterable[tuple[str, str, Iterable[str]]]) -> list[str]:
    """Mark in texts, shown one after the other, what an earlier one shows.

    Args:
        texts: of each the mark that stands in later ones for what it shows, such as "(the same as in trajectory 1)",
            the text, and the works that may be in it and come again, such as outputs and an answer.
    """
    shown, marks = list[str](), dict[str, str]()
    for mark, text, works in texts:
        marked = text
        for piece in sorted(marks, key=len, reverse=True):
            if piece in marked:
                marked = mark_repeats(marked, piece, marks[piece])
        for work in works:
            for piece in (work.strip(), *find_works(work)):
                if len(piece) >= REPEATED and piece in text:  # else it was cut, and nobody could read it there
                    marks.setdefault(piece, mark)
        shown.append(marked)
    return shown


def say_once(texts: Iterable[str]) -> list[str]:
    """The texts of a list, with "as above" in place of one that is the same as the one before it."""
    given = list(texts)
    return ["as above" if text and text == before else text for before, text in zip(["", *given], given, strict=False)]


COMPARED = 100_000
"""Most characters of two texts that are compared line by line."""
COMPARED_LINES = 400
"""Most lines of two texts whose similar lines are paired, which takes the cube of their number."""


def suggest_name(name: str, known: Iterable[str], form: str) -> str:
    """Suggest the known name that another was meant to be, in a form with {} for it; "" where none is near."""
    written = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), list(written), n=1)
    return form.replace("{}", written[near[0]], 1) if near else ""


def compare_lines(before: str, after: str) -> Iterator[str]:
    """Compare two texts line by line: lines begin with `- `, `+ `, or two blanks where both have them.

    Of texts of more than `COMPARED` characters only the sizes are told.
    """
    if len(before) + len(after) > COMPARED:
        for sign, text in (("-", before), ("+", after)):
            yield f"{sign} (a text of {len(text):,} characters, too long to be compared line by line)"
        return
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) <= COMPARED_LINES:
        yield from difflib.ndiff(old, new)
        return
    for _, old_begin, old_end, new_begin, new_end in difflib.SequenceMatcher(None, old, new).get_opcodes():
        same = old[old_begin:old_end] == new[new_begin:new_end]
        if same:
            yield from (f"  {line}" for line in old[old_begin:old_end])
        else:
            yield from (f"- {line}" for line in old[old_begin:old_end])
            yield from (f"+ {line}" for line in new[new_begin:new_end])


SHORTEST = 8
"""Least characters of a secret; shorter keys are placeholders for local servers."""
SHORTEST_IN_ADDRESS = 4
MASK = "***"

_SCHEME = re.compile(r"[\w+]+(?=://)")
_USER = re.compile(r"(?<=//)[^/?#\s]+(?=@)")
_SECRET_NAMES = "key|token|secret|passw|pwd|sig|auth|credential"
_QUERY = re.compile(rf"([?&;][^=&;#\s]*(?:{_SECRET_NAMES})[^=&;#\s]*=)([^&;#\s]+)", re.IGNORECASE)
_VARIABLE = re.compile(r"(_|^)(API_?KEY|TOKEN|SECRET|PASSWORD|ACCESS_KEY)(_|$)", re.IGNORECASE)

_known: set[str] = set()


def register_secret(value: str, least: int = SHORTEST) -> None:
    """Mask a value in all later texts, unless it is shorter than `least` characters."""
    if len(value) >= least:
        _known.add(value)


def mask_user(address: str) -> str:
    """Mask user, password and secret parameters of an address."""
    return _QUERY.sub(rf"\1{MASK}", _USER.sub(MASK, address))


def mask_address(address: str) -> str:
    """Mask user, password and secret parameters of an address, here and in all later texts.

    A word that the scheme begins with, such as "postgres", is masked here only, as all later addresses have it.
    """
    scheme = _SCHEME.match(address)
    for secret in _list_secrets(address):
        if not scheme or not scheme[0].startswith(secret):
            register_secret(secret, SHORTEST_IN_ADDRESS)
            register_secret(unquote(secret), SHORTEST_IN_ADDRESS)
    return mask_user(address)


def _list_secrets(address: str) -> Iterator[str]:
    for user in _USER.findall(address):
        yield user
        yield user.partition(":")[2] or user
    for _, value in _QUERY.findall(address):
        yield value


def mask_secrets(text: str) -> str:
    """Mask all known secrets in a text: those registered, those in environment variables, and their encoded forms."""
    for secret in _find_secrets():
        text = _mask(text, secret)
    return text


def mask_json(value: Any) -> Any:
    """Copy a JSON value with all known secrets masked in its texts, as `mask_secrets` does."""
    return _mask_json(value, _find_secrets())


def mask_keys(value: Any) -> Any:
    """Copy a JSON value with all known secrets masked that no text holds by chance, for replies of models.

    Such a secret has `LONGEST_WORD` characters or more, with letters and digits if it has fewer than twice as many; a
    password that is a word, or a short number, may be a part of an answer.
    """
    secrets = [secret for secret in _find_secrets() if _is_key(secret)]
    return _mask_json(value, secrets) if secrets else value


LONGEST_WORD = 12
"""Least characters of a secret that is masked in replies."""


def _is_key(secret: str) -> bool:
    is_mixed = any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))
    return len(secret) >= LONGEST_WORD and (is_mixed or len(secret) >= 2 * LONGEST_WORD)


def _find_secrets() -> list[str]:
    """List the known secrets, the longest first."""
    variables = (value for name, value in os.environ.items() if is_secret_name(name))
    return sorted(_known.union(value for value in variables if len(value) >= SHORTEST), key=len, reverse=True)


@cache
def is_secret_name(name: str) -> bool:
    """Whether a variable or a field is called like a key."""
    return _VARIABLE.search(name) is not None


def _mask_json(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = _mask(value, secret)
        return value
    if isinstance(value, Mapping):
        return {_mask_json(name, secrets): _mask_json(item, secrets) for name, item in value.items()}
    return [_mask_json(item, secrets) for item in value] if isinstance(value, list | tuple) else value


def _mask(text: str, secret: str) -> str:
    if secret in text:
        edge = r"(?<![A-Za-z0-9])" if len(secret) < SHORTEST else ""
        text = re.sub(edge + re.escape(secret) + edge.replace("<", ""), MASK, text)
    for encoded in _list_encodings(secret):
        text = text.replace(encoded, MASK)
    return text


@lru_cache(maxsize=1024)
def _list_encodings(secret: str) -> tuple[str, ...]:
    """List a secret as it looks in percent, hexadecimal and base64 encodings.

    In base64 a text looks different after zero, one or two other bytes; the characters that depend on bytes before and
    after it are left out.
    """
    data = secret.encode(errors="replace")
    found = [quote(secret, safe=""), data.hex(), data.hex().upper()]
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data).decode()
        inner = whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        found += [inner, inner.translate(str.maketrans("+/", "-_"))]
    return tuple(dict.fromkeys(text for text in found if text != secret and len(text) >= SHORTEST))
