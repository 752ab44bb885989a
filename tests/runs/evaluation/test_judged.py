"""A system with a judge of its own is held to the truth, wherever labels are known."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from selfwire.cli.app import build
from selfwire.evals.evaluation.rows import read_results


@pytest.mark.parametrize("method", ["tacomas", "dytopo"])
def test_how_often_the_judge_was_right_is_in_rows_and_table(method: str, tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    given = f"eval {method} --benchmark archive --tasks 4 --set rounds=2 --out {out} --home {tmp_path / 'home'}"
    result = CliRunner().invoke(build(), given.split())
    assert result.exit_code == 0, result.output
    _, rows = read_results(out)
    judged = [(row.judged, row.solved) for row in rows if row.target == method and row.judged is not None]
    assert bool(judged) == ("own judge was right" in result.output) == (method == "tacomas")
    if judged:
        right = sum(said == solved for said, solved in judged)
        assert re.search(rf"{right} of {len(judged)}\b", result.output)
        run = re.findall(r"run (\S+):", result.output)[0]
        show = ["show", run, "--task", rows[0].task, "--at", method, "--home", str(tmp_path / "home")]
        shown = CliRunner().invoke(build(), show)
        assert "the team's own judge" in shown.output
