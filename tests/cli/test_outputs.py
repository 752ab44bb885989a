"""Files that options name: one that selfwire has not written is refused before a call, and stays as it is."""

import json
import os
from pathlib import Path

import pytest

from selfwire.cli.commands import STOPPED, WRONG
from selfwire.evals.table import read_results
from selfwire.runs.record import list_run_names
from tests.commands import call
from tests.processes import start_selfwire, wait_for

TASKS = "".join(f'{{"input": "What is {n} + {n}?", "reference": "{2 * n}"}}\n' for n in range(4))
MEASURE = ("--benchmark", "TASKS", "--tasks", "1")
STUDY = ("ablate", "dytopo", "--benchmark", "archive", "--seeds", "2", "--test", "1", "--out", "NEW")


@pytest.mark.parametrize(
    "words",
    [
        ("eval", "single", *MEASURE, "--out", "TASKS"),
        ("compare", "single", "cot", *MEASURE, "--out", "TASKS"),
        ("compare", "single", "cot", *MEASURE, "--markdown", "TASKS"),
        ("compare", "single", "cot", *MEASURE, "--seeds", "2", "--markdown", "TASKS"),
        ("run", "hiva", "Who?", "--report", "TASKS"),
        ("selection", "nobody", "Who?", "--svg", "TASKS"),
        (*STUDY, "--keep", "TASKS"),
        (*STUDY, "--report", "TASKS"),
        ("init", "TASKS"),
    ],
    ids=lambda words: f"{words[0]} {words[-2]}",
)
def test_a_file_of_the_users_is_never_replaced(tmp_path: Path, words: tuple[str, ...]) -> None:
    places = {"TASKS": str(tmp_path / "my.jsonl"), "NEW": str(tmp_path / "new.jsonl")}
    (tmp_path / "my.jsonl").write_text(TASKS)
    refused = call(tmp_path / "home", *(places.get(word, word) for word in words), code=WRONG)
    assert f"{places['TASKS']} exists already" in refused.stderr
    assert "choose another name or move it away" in refused.stderr
    assert refused.stdout == ""
    assert (tmp_path / "my.jsonl").read_text() == TASKS
    assert list_run_names(tmp_path / "home") == ()
    assert not (tmp_path / "new.jsonl").exists()


@pytest.mark.parametrize("name", ["prove.md", "prove.jsonl"])
def test_prove_replaces_no_file_of_the_users(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TASKS)
    words = ("prove", "--systems", "single", "--benchmark", "archive", "--tasks", "1", "--seeds", "1", "--yes")
    refused = call(tmp_path / "home", *words, "--out", str(tmp_path), code=WRONG)
    assert f"{tmp_path / name} exists already, and holds no" in refused.stderr
    assert (tmp_path / name).read_text() == TASKS
    assert list_run_names(tmp_path / "home") == ()


def test_what_selfwire_wrote_is_replaced_by_the_same_command(tmp_path: Path) -> None:
    (tmp_path / "my.jsonl").write_text(TASKS)
    out, table, page = (str(tmp_path / name) for name in ("out.jsonl", "table.md", "page.html"))
    for command in (
        ("eval", "single", "--benchmark", str(tmp_path / "my.jsonl"), "--tasks", "1", "--out", out),
        ("compare", "direct", "cot", "--benchmark", str(tmp_path / "my.jsonl"), "--tasks", "1", "--markdown", table),
        ("run", "hiva", "Who?", "--report", page),
    ):
        call(tmp_path / "home", *command)
        call(tmp_path / "home", *command)
    runs = list_run_names(tmp_path / "home")
    assert read_results(Path(out))[0].run in runs
    call(tmp_path / "home", "report", runs[0], "--out", page)
    assert runs[0] in Path(page).read_text()
    for wrong in (out, table):
        kept = Path(wrong).read_text()
        assert (
            "exists already, and holds no page"
            in call(tmp_path / "home", "report", runs[0], "--out", wrong, code=WRONG).stderr
        )
        assert Path(wrong).read_text() == kept


def test_a_page_without_a_mark_is_replaced_and_any_other_page_is_not(tmp_path: Path) -> None:
    page, words = tmp_path / "page.html", ("run", "single", "Who?", "--report", str(tmp_path / "page.html"))
    call(tmp_path / "home", *words)
    marked = page.read_text()
    page.write_text(marked.replace("<!-- a page of selfwire -->\n", ""))
    call(tmp_path / "home", *words)
    assert page.read_text().startswith("<!doctype html>\n<!-- a page of selfwire -->\n")
    page.write_text('<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Mine</title>')
    assert "holds no page of selfwire" in call(tmp_path / "home", *words, code=WRONG).stderr


def test_the_page_of_a_question_goes_to_a_standard_output_that_is_a_file() -> None:
    said, errors = wait_for(start_selfwire("run", "single", "Who?", "--report", "/dev/stdout"))
    assert "error" not in errors
    assert said.startswith("<!doctype html>")


def test_a_run_whose_results_have_become_another_file_says_what_can_be_done(tmp_path: Path) -> None:
    (tmp_path / "my.jsonl").write_text(TASKS)
    out, words = tmp_path / "out.jsonl", ("--benchmark", str(tmp_path / "my.jsonl"), "--budget-calls", "1")
    call(tmp_path / "home", "eval", "cot", *words, "--tasks", "2", "--out", str(out), code=STOPPED)
    out.write_text(TASKS)
    [run] = list_run_names(tmp_path / "home")
    resumed = call(tmp_path / "home", "eval", "--resume", run, "--budget-calls", "9", code=WRONG)
    assert f"{out} exists already, and holds no results of selfwire; move it away, then resume" in resumed.stderr
    assert "results so far are in" not in resumed.output
    assert out.read_text() == TASKS
    out.unlink()
    call(tmp_path / "home", "eval", "--resume", run)
    assert read_results(out)[0].complete


@pytest.mark.parametrize("name", ["my.jsonl", 'we"ird.jsonl', f"{'a' * 240}/{'b' * 240}/{'c' * 240}.jsonl"])
def test_kept_rows_are_replaced_by_rows_of_their_kind_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "my.jsonl").write_text(TASKS)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(TASKS)
    out, kept = str(tmp_path / "out.jsonl"), str(tmp_path / "kept.jsonl")
    call(tmp_path / "home", "eval", "cot", "--benchmark", str(tmp_path / name), "--tasks", "1", "--out", out)
    for _ in range(2):
        call(tmp_path / "home", "results", "--keep", out, "--out", kept)
    refused = call(tmp_path / "home", "results", "--keep", out, "--out", str(tmp_path / "my.jsonl"), code=WRONG)
    assert "exists already, and holds no scores" in refused.stderr
    assert (tmp_path / "my.jsonl").read_text() == TASKS


def test_a_study_does_not_cut_off_the_last_line_of_a_file_that_is_not_its_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    for text in (json.dumps({"input": "a"}), TASKS + json.dumps({"input": "a"})):
        mine.write_text(text)
        call(tmp_path / "home", *STUDY[:-1], str(mine), code=WRONG)
        assert mine.read_text() == text


def test_an_empty_file_and_a_device_are_written_to(tmp_path: Path) -> None:
    (tmp_path / "my.jsonl").write_text(TASKS)
    (tmp_path / "empty.md").touch()
    for place in (str(tmp_path / "empty.md"), "/dev/null"):
        words = ("--benchmark", str(tmp_path / "my.jsonl"), "--tasks", "1", "--markdown", place)
        call(tmp_path / "home", "compare", "direct", "cot", *words)
    assert (tmp_path / "empty.md").read_text().startswith("`selfwire ")


def test_results_replace_no_device(tmp_path: Path) -> None:
    (tmp_path / "my.jsonl").write_text(TASKS)
    os.mkfifo(pipe := tmp_path / "pipe")
    refused = call(
        tmp_path / "home",
        "eval",
        "single",
        "--benchmark",
        str(tmp_path / "my.jsonl"),
        "--tasks",
        "1",
        "--out",
        str(pipe),
        code=WRONG,
    )
    assert f"results cannot be written to {pipe}: it is a device, a pipe or a socket" in refused.stderr
    assert pipe.is_fifo()
    assert list_run_names(tmp_path / "home") == ()
