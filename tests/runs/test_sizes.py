"""Sizes of splits that fit the tasks."""

from collections.abc import Callable, Mapping

import pytest

from selfwire.core.errors import ConfigError
from selfwire.evals.benchmarks.benchmark import TooFewTasksError
from selfwire.runs.spec import fit_sizes

USUAL = {"--train": 60, "--gate-size": 60, "--test": 60}


def holding(tasks: int) -> Callable[[Mapping[str, int]], None]:
    def deal(sizes: Mapping[str, int]) -> None:
        if sum(sizes.values()) > tasks:
            raise TooFewTasksError(f"{tasks} tasks are not enough")

    return deal


def fit(tasks: int, *sizes: int | None) -> tuple[list[int], str]:
    found, note = fit_sizes("my.csv", dict(zip(USUAL, sizes, strict=True)), USUAL, holding(tasks))
    return list(found.values()), note


@pytest.mark.parametrize(
    ("tasks", "given", "sizes"),
    [
        (180, (None, None, None), [60, 60, 60]),
        (30, (None, None, None), [10, 10, 10]),
        (100, (None, None, None), [33, 33, 33]),
        (30, (None, None, 20), [5, 5, 20]),
        (150, (None, 0, None), [60, 0, 60]),
        (30, (1, 2, 3), [1, 2, 3]),
        (12, (None, None, None), [4, 4, 4]),
        (200, (100, None, None), [100, 50, 50]),
    ],
)
def test_what_is_not_given_shrinks(tasks: int, given: tuple[int | None, ...], sizes: list[int]) -> None:
    found, note = fit(tasks, *given)
    assert found == sizes
    assert bool(note) == any(size is None and one < 60 for size, one in zip(given, sizes, strict=True))


def test_the_note_says_sizes_and_how_wide_intervals_are() -> None:
    assert fit(30, None, None, 20)[1] == (
        "there are fewer tasks than usual: --train 5 (not 60), --gate-size 5 (not 60); intervals will be wide: "
        "10 of 20 tasks solved is 0.50 [0.30, 0.70]"
    )
    assert fit(30, None, None, 0)[1] == "there are fewer tasks than usual: --train 15 (not 60), --gate-size 15 (not 60)"


@pytest.mark.parametrize(
    ("tasks", "given", "message"),
    [
        (
            30,
            (200, None, None),
            "--train 200: there are not so many tasks; it can be 22 at most beside --gate-size 4, --",
        ),
        (30, (None, None, 29), "--test 29: there are not so many tasks; it can be 22 at most beside --train 4, --gate"),
        (
            30,
            (20, 8, 4),
            "--train 20: there are not so many tasks; it can be 18 at most beside --gate-size 8, --test 4",
        ),
        (
            11,
            (None, None, None),
            "a run needs at least --train 4, --gate-size 4, --test 4; 11 tasks are not enough",
        ),
        (5, (1, None, None), "a run needs at least --train 1, --gate-size 4, --test 4; 5 tasks are not enough"),
    ],
)
def test_what_cannot_be_had_names_the_option(tasks: int, given: tuple[int | None, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fit(tasks, *given)


def test_another_fault_is_no_lack_of_tasks() -> None:
    def deal(sizes: Mapping[str, int]) -> None:
        raise ConfigError("no such file")

    with pytest.raises(ConfigError, match="no such file"):
        fit_sizes("my.csv", {"--tasks": None}, {"--tasks": 60}, deal)
