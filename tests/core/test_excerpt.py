"""Excerpts: what is kept is relevant, whole and in order, and never longer than allowed."""

import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.text import (
    GAP,
    REPEATED,
    compare_lines,
    excerpt,
    find_code_blocks,
    mark_earlier,
    mark_repeats,
    split_sentences,
)

FILLER = "The weather was mild on that day and nobody had anything to report. "
DECISIVE = "The Severin Bridge is 691 m long (Dr. Lohmer, 1959)."
LONG = f"{FILLER * 20}{DECISIVE} {FILLER * 20}The end is near."


def test_a_text_that_fits_is_left_alone() -> None:
    assert excerpt("  a\n\nb ", 7) == "  a\n\nb "


def test_the_decisive_sentence_is_kept_whole_wherever_it_stands() -> None:
    made = excerpt(LONG, 300, "How long is the Severin Bridge?")
    assert f"{GAP} The Severin Bridge is 691 m long (Dr. Lohmer, 1959). {GAP}" in made
    assert made.endswith("The end is near.")
    assert len(made) > 250


def test_what_is_kept_stands_in_its_order_with_gaps() -> None:
    text = "Alpha is one. Beta is two. Gamma is three. Alpha again is four. Delta is five."
    assert excerpt(text, 60, "alpha") == "Alpha is one. [...] Alpha again is four. Delta is five."


def test_without_a_subject_the_beginning_and_the_last_sentence_are_kept() -> None:
    assert excerpt("One is here. Two is here. Three is here. Four is here.", 40) == "One is here. [...] Four is here."


def test_lines_are_sentences_too() -> None:
    text = "\n".join(f"- row {number}: value {number * 7}" for number in range(50))
    assert "- row 31: value 217\n" in excerpt(text, 120, "What is row 31?") + "\n"


def test_one_sentence_that_is_too_long_is_cut_between_words() -> None:
    assert excerpt("supercalifragilistic words without an end " * 9, 40) == "supercalifragilistic words [...]"


@given(st.text(max_size=400), st.integers(1, 200), st.text(max_size=40))
def test_an_excerpt_is_never_too_long_and_invents_nothing(text: str, length: int, about: str) -> None:
    made = excerpt(text, length, about)
    assert len(made) <= length or made == text
    if GAP not in text and length > 2 * len(GAP):
        assert all(part.strip() in text for part in made.split(GAP))


def test_paragraphs_stay_whole() -> None:
    passages = [f"Town {number}\nThe town has a mill. It has {number} inns." for number in range(30)]
    made = excerpt("\n\n".join(passages), 200, "How many inns does town 17 have?")
    assert passages[17] in made
    assert all(part in (GAP, *passages) for part in made.replace(f"{GAP} ", "").split("\n\n") if part.strip() != GAP)


def test_every_process_keeps_the_same_passages() -> None:
    """All passages are worth the same; words are held in sets, whose order changes with the seed of Python's hashes."""
    code = (
        "from selfwire.core.text import excerpt\n"
        "half = lambda number, step: number // step % 2\n"
        "parts = [f'only{n} all some{half(n, 1)} other{half(n, 2)} more{half(n, 4)}00 end' for n in range(64)]\n"
        "print(excerpt('\\n\\n'.join(parts), 800, ' '.join(parts)))\n"
    )
    kept = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3", "4")
    }
    assert len(kept) == 1


def test_texts_are_compared_line_by_line_within_a_bounded_time() -> None:
    assert list(compare_lines("a\nb\nc", "a\nx\nc")) == ["  a", "- b", "+ x", "  c"]
    long = "\n".join(f"line {n}" for n in range(3000))
    changed = long.replace("line 1500\n", "another\n")
    assert [line for line in compare_lines(long, changed) if line[0] in "+-"] == ["- line 1500", "+ another"]
    since = time.process_time()
    [before, after] = compare_lines("x" * 50_000_000, "y\n" * 25_000_000)
    assert before == "- (a text of 50,000,000 characters, too long to be compared line by line)"
    assert after.startswith("+ (a text of 50,000,000")
    assert time.process_time() - since < 2


def test_a_sentence_ends_neither_behind_an_abbreviation_nor_behind_the_number_of_an_item() -> None:
    text = "Check all, e.g. dates in another calendar. Be brief.\n1. Read it.\n2) Say why, i.e. name a line.\n"
    assert [part.strip() for part in split_sentences(text)] == [
        "Check all, e.g. dates in another calendar.",
        "Be brief.",
        "1. Read it.",
        "2) Say why, i.e. name a line.",
    ]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("```\na = 1\n```", ("a = 1",)),
        ("```py\na\n```\nand\n```python3 \nb\n```", ("a", "b")),
        ("```python\n    \n```", ()),
        ("no `code` here", ()),
        ("```python\ncut off", ()),
    ],
)
def test_code_stands_in_fences(text: str, blocks: tuple[str, ...]) -> None:
    assert find_code_blocks(text) == blocks


@pytest.mark.parametrize("language", ["", "python", "c++", "objective-c", "python title=a.py"])
def test_a_mark_stands_for_a_code_block_whatever_its_language(language: str) -> None:
    program = "total = add(total, 1)\n" * REPEATED
    shown = f"See:\n```{language}\n{program}```\nDone."
    assert mark_repeats(shown, f"```text\n{program}```", "(above)") == "See:\n(above)\nDone."


PROGRAM = "```python\n" + "\n".join(f"def add_{n}(number):\n    return number + {n}" for n in range(3)) + "\n```"


def test_what_is_cut_from_an_earlier_text_stands_whole_in_a_later_one() -> None:
    work = f"{'Of no matter. ' * 100}\n{PROGRAM}\n{'Nor is this. ' * 100}"
    cut = excerpt(work, 300)
    assert PROGRAM not in cut
    assert mark_earlier([("(as in 1)", cut, [work]), ("(as in 2)", PROGRAM, [PROGRAM])]) == [cut, PROGRAM]


def test_a_text_that_adds_to_an_earlier_one_is_marked_whole_where_it_comes_again() -> None:
    more = f"{PROGRAM}\n\nIt adds three numbers, one after the other."
    texts = [PROGRAM, more, more, f"{PROGRAM} Right."]
    shown = mark_earlier((f"(as in {n})", text, [text]) for n, text in enumerate(texts, 1))
    assert shown == [PROGRAM, more.replace(PROGRAM, "(as in 1)"), "(as in 2)", "(as in 1) Right."]


@pytest.mark.parametrize("more", [" years", ".5", "0", " or 34"])
def test_an_answer_that_goes_on_where_an_earlier_one_ends_is_another_answer(more: str) -> None:
    answer = "It opened in 1884 and was closed for repairs in 1917, as the third passage says of it.\nAnswer: 33"
    shown = mark_earlier((f"(as in {n})", text, [text]) for n, text in enumerate((answer, answer + more, answer), 1))
    assert shown == [answer, answer + more, "(as in 1)"]


def test_a_full_stop_in_a_number_ends_no_text() -> None:
    answer = "It opened in 1884 and was closed for repairs in 1917, as the third passage says. It has 3."
    assert mark_repeats(f"{answer}5 miles.", answer, "(above)") == f"{answer}5 miles."
    assert mark_repeats(f"{answer} Or 4.", answer, "(above)") == "(above) Or 4."


def test_long_texts_are_marked_within_a_bounded_time() -> None:
    texts = [f"{number} is the number. " * 5_000 for number in range(10)]
    since = time.process_time()
    assert [mark_repeats(text, text, "(above)") for text in texts] == ["(above) "] * 10
    assert time.process_time() - since < 1
