"""The rehearsal of `prove`: its truth, its count, and small rehearsals over HTTP whose effects are certain."""

import pytest

from bench import rehearse
from bench.rehearse import (
    CHANCES,
    DECKS,
    LEARNING,
    NULL,
    Chances,
    get_effect,
    is_right,
    list_scores,
    list_verdicts,
    summarise,
)

KEYS = [(deck, "hiva", kind) for deck in CHANCES for kind in ("a single call", "votes")]
CERTAIN = {"good": Chances(1, 1, 0), "mediocre": Chances(0, 1, 0), "bad": Chances(0, 0, 1)}


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
def test_effects_that_are_certain_are_found_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearse, "CHANCES", CERTAIN)
    found = list_verdicts(rehearse.rehearse(1000, tasks=16, seeds=1, systems=("self-refine", "centralised", "own")))
    assert len(found) == 21
    assert {key: says for key, says in found.items() if not is_right(key, says)} == {}


@pytest.mark.slow
@pytest.mark.parametrize("system", ["self-refine", *LEARNING, *NULL])
def test_a_system_scores_what_is_planted(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearse, "CHANCES", CERTAIN)
    scores = list_scores(rehearse.rehearse(1001, tasks=2, seeds=1, systems=(system,)))
    planted = {deck: CERTAIN[deck].plain + get_effect(deck, system) for deck in DECKS}
    assert {deck: set(scores[deck, system]) for deck in DECKS} == {deck: {planted[deck]} for deck in DECKS}
    assert {deck: set(scores[deck, "direct"]) for deck in DECKS} == {deck: {CERTAIN[deck].plain} for deck in DECKS}
