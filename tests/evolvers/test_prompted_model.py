"""Asks: passages are sent once per prompt."""

from selfwire.evolvers.prompted_model import AS_ABOVE, quote_once

PASSAGE = "The glass bridge of Tarn was built by Mira Holt. " * 5


def test_a_long_line_is_whole_where_it_comes_first_and_cut_to_its_beginning_after_that() -> None:
    given = {"task": f"Who?\n{PASSAGE}", "trace": f"[a] It says:\n- {PASSAGE}\nMira Holt.", "feedback": "Who?"}
    made = quote_once(given)
    assert made["task"] == given["task"]
    lines = made["trace"].split("\n")
    assert (lines[0], lines[2]) == ("[a] It says:", "Mira Holt.")
    assert lines[1] == f"- The glass bridge of Tarn was built by Mira Holt. The {AS_ABOVE}"  # no word is cut
    assert made["feedback"] == "Who?"  # short lines may repeat


def test_within_a_section_too() -> None:
    assert quote_once({"runs": f"{PASSAGE}\n{PASSAGE}"})["runs"].count(PASSAGE) == 1


def test_lines_that_begin_alike_are_cut_behind_the_word_by_which_they_differ() -> None:
    high, low = (
        f"{PASSAGE}The total is {total}" for total in ("115.36, as the limit counts net prices. " * 2, "108.46.")
    )
    made = quote_once({"runs": f"{high}\n{low}\n- {high}\n{low}"})["runs"].split("\n")
    assert made[:2] == [high, low]
    assert made[2].startswith(f"- {PASSAGE}The total is 115.36, ")
    assert made[2].endswith(AS_ABOVE)
    assert made[3] == low  # it differs in its last word
