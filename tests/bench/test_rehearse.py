"""The rehearsal of `prove`: its truth, its count, and small rehearsals over HTTP whose effects are certain."""

from collections.abc import Sequence

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
from selfwire.runs.proof import Proof

KEYS = [(deck, "hiva", kind) for deck in CHANCES for kind in ("a single call", "votes")]
COMPARED = ("self-refine", "centralised", "own")
SMALL = "--iterations 1 --batch 2 --train 2 --gate mean --gate-tasks 2 --gate-size 2".split()
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


def check_scores(proof: Proof, systems: Sequence[str]) -> None:
    """Scores of single calls and of these systems are those that are planted."""
    scores = list_scores(proof)
    for deck in DECKS:
        assert set(scores[deck, "direct"]) == {CERTAIN[deck].plain}
        for system in systems:
            assert set(scores[deck, system]) == {CERTAIN[deck].plain + get_effect(deck, system)}, (deck, system)


@pytest.mark.slow
def test_effects_that_are_certain_are_found_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearse, "CHANCES", CERTAIN)
    proof = rehearse.rehearse(1000, tasks=16, seeds=1, systems=COMPARED)
    found = list_verdicts(proof)
    assert len(found) == 21
    assert {key: says for key, says in found.items() if not is_right(key, says)} == {}
    check_scores(proof, COMPARED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "systems", [LEARNING, tuple(name for name in NULL if name not in COMPARED)], ids=["learning", "changing nothing"]
)
def test_systems_score_what_is_planted(systems: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearse, "CHANCES", CERTAIN)
    monkeypatch.setattr(rehearse, "SIZES", SMALL)
    check_scores(rehearse.rehearse(1001, tasks=2, seeds=1, systems=systems), systems)
