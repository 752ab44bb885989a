"""The file of results on a disk that is full, or whose place is taken meanwhile."""

import os
from pathlib import Path
from typing import Any

import pytest

from selfwire.core.errors import ConfigError
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.evals.table import Header, ResultsFile, make_task_row, read_results

FULL = Path("/dev/full")
HEADER = Header(
    selfwire="1",
    code="c",
    run="r",
    benchmark="b",
    grader="em",
    split="test",
    seed=0,
    tasks=0,
    models={},
    embedder="",
    calls_per_task=None,
    systems=(),
    oracle=False,
    stand_in=False,
    complete=True,
)


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_rows_that_do_not_fit_on_the_disk_are_an_error_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("selfwire.evals.table.TemporaryFile", lambda *_, **__: FULL.open("w"))
    file = ResultsFile(tmp_path / "results.jsonl")
    with pytest.raises(ConfigError, match=r"results\.jsonl: No space left on device; .*make room and resume"):
        file.add(["x" * 1_000_000])
    file.discard()
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_replaced_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    file = ResultsFile(path)
    path.mkdir()
    with pytest.raises(ConfigError, match="results cannot be written to"):
        file.finish(HEADER)
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_or_a_device_is_refused_and_stays(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "pipe.jsonl")
    with pytest.raises(ConfigError, match=r"pipe\.jsonl: it is a device, a pipe or a socket; start with another --out"):
        ResultsFile(path)
    assert path.is_fifo()


def test_a_file_of_something_else_is_refused_by_name(tmp_path: Path) -> None:
    (path := tmp_path / "notes.jsonl").write_text("not JSON\n")
    with pytest.raises(ConfigError, match=r"notes\.jsonl holds no results"):
        read_results(path)
    path.write_text('{"head": {}, "commit": "46faac54"}\n')
    with pytest.raises(ConfigError, match=r"holds no results: [^;\n]{1,80}; `selfwire eval` writes such files"):
        read_results(path)
    path.write_text("")
    with pytest.raises(ConfigError, match=r"holds no results: it is empty; `selfwire eval` writes such files"):
        read_results(path)


@pytest.mark.parametrize("notes", [{"rounds": 3}, {"figures": "few"}, {"figures": {"judged": "yes"}}])
def test_notes_of_an_authors_method_may_have_the_names_of_ours(notes: dict[str, Any]) -> None:
    done = Trajectory(question=Question(id="t", input="q"), workflow="", answer="a", notes=notes)
    row = make_task_row("mine", done.question, done, done.usage, "")
    assert (row.rounds, row.judged) == (None, None)
