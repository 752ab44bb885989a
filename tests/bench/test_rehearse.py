"""The rehearsal of `prove`: its truth, its count, and one small rehearsal over HTTP."""

import pytest

from bench.rehearse import CHANCES, NULL, get_effect, is_right, rehearse, summarise

KEYS = [(deck, "hiva", kind) for deck in CHANCES for kind in ("a single call", "votes")]


def test_effects_are_counted_where_they_are_planted_and_where_not() -> None:
    assert [get_effect(deck, "hiva") for deck in CHANCES] == [0.0, 0.4, 0.0]
    assert get_effect("good", "self-refine") == -0.4
    right = {key: "better" if key[0] == "mediocre" else "not told apart" for key in KEYS}
    assert all(is_right(key, says) for key, says in right.items())
    rows = summarise([right, dict.fromkeys(KEYS, "not told apart"), dict.fromkeys(KEYS, "worse")], 50, 2)
    counts = {row.what: row.value for row in rows[1:]}
    assert counts["mediocre model: hiva beside votes, +0.4 planted: found"] == 1
    assert counts["good model: hiva beside a single call, nothing planted: told apart"] == 1
    assert counts["rehearsals with any verdict where nothing is planted"] == 1


@pytest.mark.slow
def test_a_small_rehearsal_finds_nothing_that_is_not_planted() -> None:
    found = rehearse(1000, tasks=16, seeds=1, systems=("self-refine",))
    assert len(found) == 9
    assert [key for key, says in found.items() if says != "not told apart" and not is_right(key, says)] == []


@pytest.mark.slow
def test_systems_that_change_nothing_take_part_and_none_is_told_apart() -> None:
    found = rehearse(1001, tasks=12, seeds=1, systems=NULL)
    assert {system for _, system, _ in found} == {"cot", *NULL}
    assert {key: says for key, says in found.items() if says != "not told apart"} == {}
