"""A system with a judge of its own is held to the truth, wherever labels are known."""

import re
from pathlib import Path
from statistics import fmean, stdev

import pytest

from selfwire.evals.table import read_results
from selfwire.evolvers.tacomas.pictures import END_REASONS
from tests.commands import call


@pytest.mark.parametrize("method", ["tacomas", "dytopo"])
def test_how_often_the_judge_was_right_is_in_rows_and_table(method: str, tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    given = f"eval {method} --benchmark archive --tasks 4 --set rounds=2 --out {out}"
    result = call(tmp_path / "home", *given.split())
    _, rows = read_results(out)
    judged = [(row.judged, row.solved) for row in rows if row.target == method and row.judged is not None]
    assert bool(judged) == ("own judge was right" in result.output) == (method == "tacomas")
    if judged:
        right = sum(said == solved for said, solved in judged)
        assert re.search(rf"{right} of {len(judged)}\b", result.output)
        run = re.findall(r"run (\S+):", result.output)[0]
        shown = call(tmp_path / "home", "show", run, "--task", rows[0].task, "--at", method)
        assert "the team's own judge" in shown.output


def test_how_runs_went_and_ended_is_in_rows_and_table(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    given = f"eval tacomas --benchmark archive --tasks 4 --set rounds=3 --out {out}"
    result = call(tmp_path / "home", *given.split())
    rows = [row for row in read_results(out)[1] if row.target == "tacomas"]
    ends = [row.ended for row in rows]
    assert set(ends) <= {"threshold", "rounds", "stop"}
    assert f"{ends.count(ends[0])} ({END_REASONS[ends[0]]})" in " ".join(result.output.split())
    updates = [row.measures["slow updates"] for row in rows]
    error = stdev(updates) / 4**0.5
    said = f"slow updates {fmean(updates):.2f}" + (f" (s.e. {error:.2f})" if error else ", ")
    assert said in " ".join(result.output.split())
