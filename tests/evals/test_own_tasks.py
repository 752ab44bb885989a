"""Evolutions on the user's own tasks, graded by a named grader or by a function of the user's."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import Result

from selfwire.graphs.rollouts import get_trajectories_note
from selfwire.runs.pre_evolution import make_evolutions
from selfwire.runs.record import JOURNAL
from selfwire.runs.spec import EvaluateSpec, PreEvolutionSpec, SystemSpec
from tests import kills
from tests.commands import call
from tests.journals import read_journal

GRADERS = '''
"""Graders of one's own."""

import math


def lenient(task, answer):
    return 0.5 if answer.strip() else 0.0


def moody(task, answer):
    if task.id.endswith("3"):
        raise LookupError("no such row")
    return math.nan if task.id.endswith("7") else lenient(task, answer)


def broken(task, answer):
    raise OSError("the disk is full")
'''
SMALL = tuple("--gate mean --iterations 1 --batch 5 --train 5 --gate-size 5 --gate-tasks 5 --test 10".split())


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sums of mine.jsonl"
    lines = [{"id": f"t{n}", "input": f"What is {n} + {n}?", "reference": 2 * n} for n in range(20)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "graders_of_mine.py").write_text(GRADERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return path


def evolve(home: Path, tasks: Path, grader: str, code: int = 0) -> Result:
    return call(home, "evolve", "hiva", "--benchmark", str(tasks), "--grader", grader, *SMALL, code=code)


def errors(home: Path, side: str) -> dict[str, str | None]:
    async def read() -> dict[str, str | None]:
        journal = read_journal(home / "runs" / kills.run_of(home) / JOURNAL)
        try:
            bodies = await journal.get_note(get_trajectories_note(0, "test", side))
            return {task: (await journal.get_body(body))["error"] for task, body in bodies.items()}
        finally:
            journal.close()

    return asyncio.run(read())


@pytest.mark.parametrize("grader", ["exact", "em", "f1", "contains", "numeric", "graders_of_mine:lenient"])
def test_own_tasks_with_every_kind_of_grader(tmp_path: Path, tasks: Path, grader: str) -> None:
    evolve(tmp_path / "home", tasks, grader)
    assert kills.run_of(tmp_path / "home").startswith("hiva-sums-of-mine-")
    assert set(errors(tmp_path / "home", "after").values()) == {None}


def test_tasks_that_a_grader_cannot_grade_are_errors_apart(tmp_path: Path, tasks: Path) -> None:
    called = evolve(tmp_path / "home", tasks, "graders_of_mine:moody")
    found = {task: told for task, told in errors(tmp_path / "home", "after").items() if told}
    lost = [task for task in errors(tmp_path / "home", "after") if task.endswith(("3", "7"))]
    assert lost  # the split holds such tasks, or this test says nothing
    assert sorted(found) == sorted(lost)
    for task, told in found.items():
        assert ("LookupError('no such row')" if task.endswith("3") else "returned nan") in told
    [row] = [line for line in called.stdout.splitlines() if line.startswith(" evolved team")]
    assert row.split()[-1] == str(len(lost))


def test_a_grader_that_grades_nothing_stops_the_run(tmp_path: Path, tasks: Path) -> None:
    called = evolve(tmp_path / "home", tasks, "graders_of_mine:broken", code=3)
    assert "OSError('the disk is full')" in called.stderr
    assert f"go on with: selfwire evolve --resume {kills.run_of(tmp_path / 'home')}" in called.stdout


def test_a_few_tasks_are_enough_and_what_cannot_be_had_is_said(tmp_path: Path, tasks: Path) -> None:
    given = [
        "evolve",
        "hiva",
        "--benchmark",
        str(tasks),
        "--grader",
        "numeric",
        "--iterations",
        "1",
        "--gate",
        "mean",
        "--no-baselines",
    ]
    called = call(tmp_path / "home", *given)
    assert "there are fewer tasks than usual: --train 6 (not 60), --gate-size 6 (not 60), --test 6" in called.stderr
    assert len(errors(tmp_path / "home", "after")) == 6
    refused = call(tmp_path / "home", *given, "--test", "15", code=2)
    assert "--test 15: there are not so many tasks; it can be 12 at most beside --train 4, --gate" in refused.stderr


def test_fields_are_named_on_the_command_line(tmp_path: Path, tasks: Path) -> None:
    rows = [json.loads(line) for line in tasks.read_text().splitlines()]
    named = tmp_path / "sums.csv"
    named.write_text(
        "".join(f"{one['input']},{one['reference']}\n" for one in [{"input": "q", "reference": "a"}, *rows])
    )
    given = ["eval", "single", "--benchmark", str(named), "--grader", "numeric"]
    called = call(tmp_path, *given, "--input-field", "q", "--reference-field", "a")
    assert "sums.csv: question from 'q', reference from 'a'" in called.stdout
    refused = call(tmp_path, *given, code=2)
    assert "sums.csv, line 2: no field has a usual name for a question" in refused.stderr
    refused = call(tmp_path, "eval", "single", "--benchmark", "archive", "--input-field", "q", code=2)
    assert "--input-field, --reference-field and --data-split are for tasks of your own" in refused.stderr


def test_an_evolution_in_a_comparison_has_the_rubric_and_the_tools(tmp_path: Path, tasks: Path) -> None:
    request = EvaluateSpec(
        benchmark=str(tasks),
        grader="judge",
        rubric="A right sum.",
        tools="calculator",
        entries=(SystemSpec(name="hiva", target="hiva"),),
        evolving=PreEvolutionSpec(names=("hiva",), train=5, gate_size=5, gate="mean"),
        tasks=5,
    )
    [evolution] = make_evolutions(request, tmp_path, None)
    asked = evolution.evolve_request
    assert (asked.rubric, asked.tools, asked.own_data) == ("A right sum.", "calculator", request.own_data)


def test_an_ablation_takes_a_grader_and_fields_too(
    tmp_path: Path, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = tmp_path / "sums.csv"
    named.write_text("q,a\n" + "".join(f"{n} + {n}?,{2 * n}\n" for n in range(20)))
    given = ["ablate", "dytopo", "--benchmark", str(named), "--input-field", "q", "--grader", "graders_of_mine:lenient"]
    small = ["--variants", "single-turn", "--seeds", "1", "--test", "2", "--workers", "1"]
    called = call(tmp_path, *given, *small)
    assert (
        "question from 'q', no reference (--reference-field names one); guessed, --reference-field says"
        in called.stderr
    )
    assert "| single turn | 0.500" in called.stdout
