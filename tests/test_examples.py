"""Every example runs, in a copy of its folder.

The cells of the notebook are executed in this process; nbclient would start a kernel in another one to do the same.
"""

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfwire.cli.app import build

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples"
RUN_HERE = {
    "README.md", "archive_team.json", "evolve.ipynb", "handbook.md", "own_grader.py", "own_model.py", "own_tool.py",
    "tasks.jsonl", "test_team.py", "use_team.py",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    copy = Path(shutil.copytree(FOLDER, tmp_path / "examples"))
    monkeypatch.chdir(copy)
    monkeypatch.syspath_prepend(str(copy))
    before = set(sys.modules)
    yield copy
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(copy)):
            del sys.modules[name]


def test_each_file_is_run_below_and_told_in_the_guide() -> None:
    files = {path.name for path in FOLDER.iterdir() if path.is_file()}
    assert files == RUN_HERE
    assert not (ROOT / "src" / "selfwire" / FOLDER.name).exists()  # what is linked there is installed
    guide = (FOLDER / "README.md").read_text()
    assert not [name for name in files - {"README.md", "archive_team.json", "handbook.md"} if f"]({name})" not in guide]


def test_the_command_of_the_guide_evolves_a_team(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one not in ("", str(folder))])  # as `selfwire` has it
    guide = (folder / "README.md").read_text()
    command = guide.partition("`selfwire evolve ")[2].partition("`")[0].split()
    called = CliRunner().invoke(build(), ["evolve", *command, "--iterations", "1"], catch_exceptions=False)
    assert called.exit_code == 0, called.output
    assert "fewer tasks than usual: --train 10 (not 60), --gate-size 10 (not 60), --test 10" in called.stderr
    assert "the evolved team answers as the team before, so it is not asked again: mean score 1.00" in called.stdout
    assert (folder / ".selfwire" / "library.sqlite").exists()


def test_a_model_of_ones_own_answers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("own_model").main()
    answer, requests = capsys.readouterr().out.strip().rsplit("\n", 1)
    assert answer.endswith("The warranty on frames lasts 10 years.")
    assert requests.startswith("3 requests of ")


def test_an_evolved_team_answers_in_python(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("use_team").main()
    text, _, reference = capsys.readouterr().out.strip().rpartition("\n\nreference: ")
    assert text.endswith(f"Answer: {reference}")


def test_an_evolved_team_passes_its_test(folder: Path) -> None:
    module: Any = importlib.import_module("test_team")
    [test] = [value for name, value in vars(module).items() if name.startswith("test_")]
    test()


def test_the_grader_takes_a_right_answer_and_no_other(folder: Path) -> None:
    from selfwire.core.task import Task

    grade = importlib.import_module("own_grader").grade
    task = Task(id="a", input="How many years?", reference="10")
    answers = ("It lasts 10 years.", "10\nunknown", "It lasts 100 years.", "", "10" + " years" * 30)
    assert [grade(task, answer).score for answer in answers] == [1, 0, 0, 0, 0.5]


def test_the_notebook_runs_from_top_to_bottom(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads((folder / "evolve.ipynb").read_text())
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), "commit the notebook without its outputs"
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    shown = capsys.readouterr().out
    assert "question from 'question', reference from 'answer'; guessed" in shown
    assert shown.strip().endswith("Bicycles are delivered by the carrier Velotrans.")
