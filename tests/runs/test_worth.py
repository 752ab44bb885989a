"""What an evolution says of its worth: the evolved team beside the best of those that may make as many calls."""

import re
from pathlib import Path

import pytest

from selfwire.core.usage import Usage, UsageAccumulator
from selfwire.evals.table import SystemInfo, SystemSummary
from selfwire.extras.pages.reading import read_report
from selfwire.runs.results import describe_worth
from tests.commands import call


def line(name: str, scores: list[float], calls: int) -> SystemSummary:
    info = SystemInfo(name=name, target=name, method="", workflow="")
    by_task: dict[str, float | None] = {str(at): score for at, score in enumerate(scores)}
    return SystemSummary(info, scores=by_task, _spend=UsageAccumulator(Usage(calls=calls * len(scores))))


SEED = line("seed team", [0.0] * 20 + [1.0] * 20, 3)


def test_it_is_worth_it_only_if_the_best_at_as_many_calls_is_beaten() -> None:
    evolved = line("evolved team", [1.0] * 40, 6)
    weak = line("seed team with votes", [0.0] * 18 + [1.0] * 22, 6)
    strong = line("single agent with votes", [0.0] + [1.0] * 39, 6)
    assert describe_worth(evolved, [SEED, weak]).startswith("worth it: +0.45 [")
    told = describe_worth(evolved, [SEED, weak, strong])
    assert told.startswith("not shown to be worth it: +0.03 [")
    assert told.endswith("over the single agent with votes, at 6.0 calls per task against 6.0")
    assert describe_worth(evolved, [SEED]) == describe_worth(None, [SEED, weak]) == ""


@pytest.mark.slow
def test_the_seed_is_asked_as_often_as_the_evolved_team_and_the_page_says_what_that_shows(tmp_path: Path) -> None:
    sizes = "--iterations 5 --batch 8 --train 40 --gate-size 80 --test 40 --seed 6 --embedder hashing".split()
    done = call(tmp_path, "evolve", "hiva", "--benchmark", "archive", "--name", "first", *sizes)
    table = [re.split(r"\s{2,}", row.strip()) for row in done.stdout.splitlines() if row.startswith(" ")]
    [place] = [cells.index("calls/task") for cells in table if "calls/task" in cells]
    rows = {cells[0]: cells for cells in table}
    seed, voted, evolved = (float(rows[name][place]) for name in ("seed team", "seed team with votes", "evolved team"))
    assert abs(evolved - voted) <= 0.1 < 2 * seed < voted  # calls per task, as the table rounds them
    [told] = [row for row in done.stdout.splitlines() if "worth it: " in row]
    run = done.stdout.split("run ", 1)[1].split(":")[0]
    verdict = read_report(tmp_path, run).verdict
    assert f"{told[0].upper()}{told[1:]}." in verdict
