import json
import runpy
from pathlib import Path

import pytest

from tests.golden.runs import FOLDER, list_cases, list_differences, record

QUICK = ("hiva-archive", "dytopo-archive")


def case(name: str) -> object:
    return pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)


@pytest.mark.parametrize("name", [case(name) for name in list_cases()])
def test_a_run_leaves_on_disk_what_it_left_when_it_was_recorded(name: str, tmp_path: Path) -> None:
    """After a change of behaviour that is meant: `python -m tests.golden record NAME`, in a commit with the reason."""
    found = record(name, tmp_path)
    lines = list_differences(json.loads((FOLDER / f"{name}.json").read_text()), found)
    assert not lines, "\n".join(lines[:20])


def test_a_difference_is_found_and_located() -> None:
    expected = {"calls": {"0/rollout/model": [2, "aa"]}, "trajectories": {"t": {"task": "x"}}}
    found = {"calls": {"0/rollout/model": [2, "ab"]}, "trajectories": {"t": {}}}
    assert list_differences(expected, found) == [
        "/calls/0/rollout/model/1: aa -> ab",
        "/trajectories/t/task: x -> None",
    ]


@pytest.mark.parametrize("name", ["hiva", ""])
def test_a_case_that_there_is_not_is_told_with_those_that_there_are(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["golden", "check", name])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_module("tests.golden", run_name="__main__")
    told = capsys.readouterr().err.splitlines()[-1]
    assert f"there is no case {name!r}; cases are hiva-archive, " in told
