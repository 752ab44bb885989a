"""Votes at a system's price: how many, which request they need, and the table beside the systems."""

import pytest

from selfwire.core.usage import Usage
from selfwire.evals.table import SystemInfo, SystemSummary, TaskRow
from selfwire.runs.spec import EvaluateSpec, PreEvolutionSpec, SystemSpec
from selfwire.runs.votes import ONE, build_votes_table, count_samples, get_votes, make_votes_request


def summary(tokens: int, dollars: float | None, name: str = "x", score: float = 1.0, calls: int = 1) -> SystemSummary:
    found = SystemSummary(SystemInfo(name=name, target=name, method="", workflow=""))
    for task in ("t1", "t2"):
        spent = Usage(calls=calls, input_tokens=tokens, dollars=dollars)
        found.add(TaskRow(target=name, task=task, score=score, solved=bool(score), **spent.model_dump(include=COSTS)))
    return found


COSTS = {"calls", "input_tokens", "output_tokens", "dollars", "seconds"}


@pytest.mark.parametrize(
    ("system", "voter", "samples"),
    [
        ((250, 0.0), (100, 0.0), 3),
        ((300, 0.0), (100, 0.0), 3),
        ((250, 0.7), (100, 0.1), 7),
        ((250, None), (100, 0.1), 3),
        ((50, 0.0), (100, 0.0), 1),
        ((0, 0.0), (0, 0.0), 1),
        ((9_000_000, 0.0), (1, 0.0), 1000),
    ],
)
def test_votes_cost_as_much_as_the_system_in_dollars_else_in_tokens(
    system: tuple[int, float | None], voter: tuple[int, float | None], samples: int
) -> None:
    assert count_samples(summary(*system), summary(*voter)) == samples


def test_votes_are_of_the_same_tasks_and_fit_below_the_cap() -> None:
    entries = tuple(SystemSpec(name=name, target=name) for name in ("direct", "cot", "hiva"))
    request = EvaluateSpec(
        benchmark="archive", entries=entries, evolving=PreEvolutionSpec(names=("hiva",)), calls_per_task=2
    )
    lines = {"cot": summary(100, 0.0), "hiva": summary(450, 0.0), "direct": summary(900, 0.0)}
    votes = make_votes_request(request, lines, "cot", ("cot", "direct"))
    assert votes is not None
    assert [(entry.name, entry.config["samples"]) for entry in votes.entries] == [("best-of-5", 5)]
    assert votes.calls_per_task == 10
    assert votes.evolving is not None
    assert (votes.evolving.names, votes.evolving.train) == ((), 60)
    assert make_votes_request(request, {**lines, "hiva": summary(100, 0.0)}, "cot", ("direct",)) is None


def test_a_table_has_each_system_beside_the_votes_at_its_price_of_each_seed() -> None:
    first = {
        "trivial": summary(0, 0.0, "trivial", 0.0, calls=0),
        "team": summary(250, 0.0, "team", 1.0, calls=9),
        "cheap": summary(90, 0.0, "cheap", 0.0, calls=1),
        ONE: summary(100, 0.0, ONE, 0.0),
        "best-of-3": summary(210, 0.0, "best-of-3", 0.0, calls=2),
    }
    second = {**first, "team": summary(390, 0.0, "team"), "best-of-4": summary(400, 0.0, "best-of-4", 1.0, calls=4)}
    assert get_votes(first, "cheap") is first[ONE]
    table = build_votes_table([first, second])
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    assert [*rows] == ["team", "cheap"]
    assert (rows["team"]["best of"], rows["cheap"]["best of"]) == ("3, 4", "1, 1")
    assert (rows["team"]["calls/task"], rows["team"]["calls of votes"]) == ("5.0", "3.0")
    assert rows["team"]["votes [95 %]"].startswith("0.50 [")
    assert rows["team"]["difference from votes"].startswith("+0.50 [")
    with pytest.raises(KeyError, match="best-of-3"):
        build_votes_table([{name: line for name, line in first.items() if name != "best-of-3"}])
