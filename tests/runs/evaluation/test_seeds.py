"""A comparison with several seeds: the interval counts evolutions, and the same command goes on."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from selfwire.evals.table import SystemInfo, SystemSummary, summarise_seeds
from tests.commands import call

SMALL = (
    "--benchmark",
    "archive",
    "--tasks",
    "6",
    "--evolve",
    "none",
    "--seeds",
    "3",
    "--calls-per-task",
    "3",
    "--json",
)

Scores = Sequence[Sequence[float | None]]


def line(name: str, scores: Sequence[float | None]) -> SystemSummary:
    info = SystemInfo(name=name, target=name, method="", workflow="")
    return SystemSummary(info, scores={str(place): score for place, score in enumerate(scores)})


def summarise(first: Scores, second: Scores) -> tuple[float, ...]:
    rule = line("trivial", [0.0] * 4)
    runs = [(rule, line("a", there), line("b", here)) for there, here in zip(first, second, strict=True)]
    _, _, found = summarise_seeds(runs, "a")
    assert found.score is not None
    assert found.difference is not None
    return tuple(round(end, 4) for of in (found.score, found.difference) for end in (of.value, of.low, of.high))


def test_a_seed_is_one_observation() -> None:
    """Means of 0.5, 0.75 and 1 have a standard error of 0.25 / sqrt(3), and Student's t with 2 degrees is 4.3027."""
    b = [[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    a = [[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    half = 4.302653 * 0.25 / 3**0.5
    assert summarise(a, b) == (0.75, round(0.75 - half, 4), 1.0, 0.5, round(0.5 - half, 4), 1.0)


def test_errors_count_in_no_mean_and_in_no_pair() -> None:
    a: Scores = [[0.0, None, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    b: Scores = [[1.0, 1.0, None, 0.0], [1.0, 0.0, 0.0, 0.0]]
    score, difference = summarise(a, b)[0], summarise(a, b)[3]
    assert score == pytest.approx((2 / 3 + 1 / 4) / 2, abs=1e-4)
    assert difference == pytest.approx((1 / 2 + 0 / 4) / 2)


def test_equal_seeds_have_the_interval_of_their_tasks() -> None:
    a, b = [[0.0, 0.0, 0.0, 0.0]] * 2, [[1.0, 1.0, 0.0, 0.0]] * 2
    score, low, high, difference, least, most = summarise(a, b)
    assert (score, difference) == (0.5, 0.5)
    assert low < 0.3 < 0.7 < high
    assert least < 0.2 < 0.8 < most


def test_where_evolutions_differ_the_interval_covers_the_mean_of_all_of_them() -> None:
    """Scores of an evolution are normal with an sd of 0.144, of its 60 tasks binomial; tasks alone would cover 70 %."""
    random, held, narrow = np.random.default_rng(0), 0, 0
    for _ in range(200):
        rates = np.clip(random.normal(0.6, 0.144, 5), 0, 1)
        scores = [[float(x) for x in random.random(60) < rate] for rate in rates]
        rule, other = line("trivial", [0.0] * 60), line("a", [0.0] * 60)
        found = summarise_seeds([(rule, other, line("b", list(of))) for of in scores], "a")[2].score
        assert found is not None
        held += found.low <= 0.6 <= found.high
        whole = np.concatenate(scores)
        narrow += abs(whole.mean() - 0.6) <= 1.96 * whole.std() / len(whole) ** 0.5
    assert held >= 184
    assert narrow <= 150


def test_the_same_command_goes_on_and_pays_nothing_twice(tmp_path: Path) -> None:
    first = json.loads(call(tmp_path, "compare", "direct", "cot", *SMALL).stdout)
    assert first["seeds"] == [0, 1, 2]
    assert "intervals are over seeds, and over the tasks of all seeds where these are equal" in first["notes"][0]
    assert [len(system["seeds"]) for system in first["systems"]] == [3, 3, 3]
    again = json.loads(call(tmp_path, "compare", "direct", "cot", *SMALL).stdout)
    assert again["spend"]["calls"] == first["spend"]["calls"] > 0
    assert again["systems"] == first["systems"]
    assert len(list((tmp_path / "runs").iterdir())) == 3
    more = json.loads(call(tmp_path, "compare", "direct", "cot", *SMALL, "--seeds", "4").stdout)
    assert more["systems"][1]["seeds"][:3] == first["systems"][1]["seeds"]
    refused = call(tmp_path, "compare", "direct", "cot", *SMALL, "--out", "x.jsonl", code=2)
    assert "seeds, and votes, are runs of their own" in refused.stderr
    stopped = call(tmp_path, "compare", "direct", "cot", *SMALL, "--tasks", "7", "--budget-calls", "10", code=3)
    assert "10 of 10 calls" in stopped.stderr
    later = call(tmp_path, "compare", "direct", "cot", *SMALL, "--tasks", "7", "--budget-calls", "20", code=3).stderr
    assert re.search(r"left of the budget for \S+-s1: 6 calls\n", later)
    assert "6 of 6 calls" in later


def test_what_is_left_of_a_large_budget_is_told_in_whole_numbers(tmp_path: Path) -> None:
    told = call(tmp_path, "compare", "direct", "cot", *SMALL, "--budget-tokens", "9000000").stderr
    assert re.search(r"left of the budget for \S+-s2: 8,99\d,\d{3} tokens\n", told)


def test_a_dry_run_counts_all_seeds(tmp_path: Path) -> None:
    one, three = (
        call(
            tmp_path, "compare", "self-refine", "--benchmark", "archive", "--evolve", "none", "--dry-run", *more
        ).stdout
        for more in ((), ("--seeds", "3"))
    )
    assert "3 seeds" in three
    calls = [int(text.split("about ")[1].split(" ")[0].replace(",", "")) for text in (one, three)]
    assert calls[1] == pytest.approx(3 * calls[0], abs=3)
