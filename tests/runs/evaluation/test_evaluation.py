"""Evaluations end to end with the offline stand-in: rows, table, errors, caps, resuming."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from selfwire.core.errors import BudgetError, ConfigError, JournalError, LibraryError
from selfwire.core.task import Question, Task
from selfwire.core.usage import Budget
from selfwire.evals.table import Header, TaskRow, read_results
from selfwire.graphs.evolve import ELAPSED
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import Event, load_request_tasks, resume_evaluation, start_evaluation
from selfwire.runs.record import ContaminatedTasks
from selfwire.runs.spec import EvaluateSpec, SystemSpec
from selfwire.runs.systems import TEAM_DIGESTS
from selfwire.runs.testing import make_system_under_test
from selfwire.store.library import open_library
from tests.commands import call
from tests.graphs.scripted import trio
from tests.journals import read_journal
from tests.runs.evaluation import graders

WHIMS = ("fine", "raise", "fine", "hang", "nan", "leave", "fine", "fine")


def request(*targets: str, **changes: Any) -> EvaluateSpec:
    entries = tuple(SystemSpec(name=target, target=target) for target in targets or ("single",))
    return EvaluateSpec(**{"benchmark": "archive", "tasks": 6, "entries": entries, **changes})


def own(folder: Path, *whims: str, grader: str = "capricious") -> EvaluateSpec:
    """Tasks whose grader does what the reference says."""
    lines = [json.dumps({"id": f"t{n}", "input": f"What is {n}?", "reference": whim}) for n, whim in enumerate(whims)]
    (folder / "own.jsonl").write_text("\n".join(lines))
    grader = f"tests.runs.evaluation.graders:{grader}"
    return request(benchmark=str(folder / "own.jsonl"), grader=grader, tasks=len(whims), grading_timeout=0.3)


def evaluated(home: Path, asked: EvaluateSpec, run: str = "r") -> tuple[Header, tuple[TaskRow, ...]]:
    with start_evaluation(asked, home, run=run) as evaluation:
        run_sync(evaluation.execute())
    return read_results(home / "runs" / run / "results.jsonl")


def comparable(rows: Sequence[TaskRow]) -> list[TaskRow]:
    """Without what a clock says."""
    return [row.replace(seconds=0, trajectory="") for row in rows]


def test_the_header_says_what_was_measured_and_every_task_has_a_row_beside_the_trivial_baseline(tmp_path: Path) -> None:
    header, rows = evaluated(tmp_path, request("hiva", seed=3))
    assert (header.benchmark, header.split, header.seed, header.tasks) == ("archive", "test", 3, 6)
    assert header.models == {"agent": "offline", "meta": "offline", "judge": "offline"}
    assert (header.stand_in, header.oracle, header.complete) == (True, False, True)
    trivial, hiva = header.systems
    assert (trivial.name, trivial.target) == ("trivial", "first option")
    assert (hiva.method, hiva.learned) == ("hiva", False)
    assert len(hiva.workflow) == 16
    assert len(header.code) == 16
    assert [row.target for row in rows] == ["trivial"] * 6 + ["hiva"] * 6
    assert [row.task for row in rows[:6]] == [row.task for row in rows[6:]]
    assert all(row.calls == 0 for row in rows[:6])
    assert all(row.calls > 0 and row.input_tokens > 0 and row.dollars == 0 for row in rows[6:])


@pytest.mark.parametrize("target", ["hiva", "tacomas", "dytopo", "single"])
def test_two_runs_with_one_seed_have_the_same_numbers_at_whatever_concurrency(target: str, tmp_path: Path) -> None:
    _, first = evaluated(tmp_path, request(target, concurrency=1), "first")
    _, again = evaluated(tmp_path, request(target, concurrency=6), "again")
    assert comparable(first) == comparable(again)


def test_graders_that_raise_hang_or_return_nonsense_cost_their_own_tasks_only(tmp_path: Path) -> None:
    _, rows = evaluated(tmp_path, own(tmp_path, *WHIMS))
    found = {row.task: row for row in rows if row.target == "single"}
    assert {task: row.score for task, row in found.items()} == {
        f"t{n}": 1.0 if whim == "fine" else None for n, whim in enumerate(WHIMS)
    }
    told = {WHIMS[int(task[1:])]: row.error for task, row in found.items() if row.error}
    assert "KeyError" in (told["raise"] or "")
    assert "did not grade task 't3' within 0.3 s" in (told["hang"] or "")
    assert "nan" in (told["nan"] or "")
    assert "SystemExit" in (told["leave"] or "")
    assert all(row.calls for row in found.values())


@pytest.mark.parametrize("concurrency", [1, 10])
def test_async_graders_that_hang_cost_their_own_tasks_only_even_if_they_never_yield(
    concurrency: int, tmp_path: Path
) -> None:
    whims = ("fine", "wait", "fine", "block", "fine", "cancel", "nan", "block", "fine")
    asked = own(tmp_path, *whims, grader="capricious_async")
    _, rows = evaluated(tmp_path, asked.replace(concurrency=concurrency, grading_timeout=1.0))
    found = {row.task: row for row in rows if row.target == "single"}
    assert {task: row.score for task, row in found.items()} == {
        f"t{n}": 1.0 if whim == "fine" else None for n, whim in enumerate(whims)
    }
    assert "did not grade task 't3' within 1 s" in (found["t3"].error or "")
    assert "CancelledError" in (found["t5"].error or "")


def test_async_graders_that_hold_each_other_up_are_each_given_their_time(tmp_path: Path) -> None:
    asked = own(tmp_path, *["dawdle"] * 10, grader="capricious_async")
    _, rows = evaluated(tmp_path, asked.replace(concurrency=10, grading_timeout=1.0))
    assert [row.error for row in rows] == [None] * 20


def test_a_cap_of_calls_binds_every_task_and_is_no_error(tmp_path: Path) -> None:
    _, rows = evaluated(tmp_path, request("tacomas", "single", calls_per_task=6))
    slow, quick = ([row for row in rows if row.target == name] for name in ("tacomas", "single"))
    assert all(row.calls <= 6 and row.error is None for row in (*slow, *quick))
    assert any(row.capped and (row.score, row.solved) == (0.0, False) for row in slow)
    assert not any(row.capped for row in quick)
    listed = call(tmp_path, "show", "r").stdout
    assert listed.count("over cap") == sum(row.capped for row in slow)
    assert "error" not in listed
    cut = next(row.task for row in slow if row.capped)
    assert "over the cap of calls" in call(tmp_path, "show", "r", "--task", cut, "--at", "tacomas").stdout
    assert min(row.calls for row in quick) > 2  # what one answer leaves is spent on further samples


def test_what_to_type_next_names_the_home_unless_it_is_the_usual_one(tmp_path: Path) -> None:
    given = ("eval", "single", "--benchmark", "archive", "--tasks", "2")
    usual = call(tmp_path / "usual", *given)
    assert "selfwire show eval-archive-" in usual.stdout
    assert "--home" not in usual.stdout
    home = tmp_path / "another home"
    stopped = call(
        tmp_path / "usual", *given, "--budget-calls", "1", "--calls-per-task", "1", "--home", str(home), code=3
    )
    (run,) = (home / "runs").iterdir()
    assert f"go on with: selfwire eval --resume {run.name} --home '{home}'\n" in stopped.stdout
    assert f"`selfwire show {run.name} --home '{home}'`" in stopped.stdout


def test_a_budget_stops_it_and_resumed_it_ends_like_one_that_was_not_stopped(tmp_path: Path) -> None:
    _, expected = evaluated(tmp_path, request("hiva"), "whole")
    stopped = call(
        tmp_path, "eval", "hiva", "--benchmark", "archive", "--tasks", "6", "--budget-calls", "12",
        "--concurrency", "2", "--out", str(tmp_path / "mine.jsonl"), "--calls-per-task", "6", code=3,
    )  # fmt: skip
    assert "of 12 calls spent" in stopped.stderr
    header, partial = read_results(tmp_path / "mine.jsonl")
    assert not header.complete
    assert set(comparable(partial)) < {*comparable(expected)}
    run = header.run
    assert f"go on with: selfwire eval --resume {run}" in stopped.stdout
    refused = call(tmp_path, "eval", "--resume", run, "--tasks", "9", code=2)
    assert "--tasks cannot be given" in refused.stderr
    call(tmp_path, "eval", "--resume", run, "--budget-calls", "500")
    header, rows = read_results(tmp_path / "mine.jsonl")
    assert header.complete
    assert comparable(rows) == comparable(expected)


@pytest.mark.parametrize(("calls", "uptime"), [(12, 1e6), (500, 1e6), (500, 60.0)])
def test_the_last_event_tells_of_every_row_whether_it_was_stopped_or_not(
    calls: int, uptime: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("selfwire.runs.evaluation.TOLD_EVERY", 3600.0)
    monkeypatch.setattr("selfwire.runs.evaluation.time", SimpleNamespace(monotonic=lambda: uptime))
    asked, heard = request("hiva", budget=Budget(calls=calls), calls_per_task=6, concurrency=2), list[Event]()
    with start_evaluation(asked, tmp_path) as evaluation:
        with contextlib.suppress(BudgetError):
            run_sync(evaluation.execute(heard.append))
        run_sync(evaluation.write_results(complete=False))
        _, rows = read_results(evaluation.out)
    theirs = [event["done"] for event in heard if event["target"] == "hiva"]
    assert theirs == [1, sum(row.target == "hiva" for row in rows)]


def test_the_time_is_noted_on_a_machine_that_has_just_started(tmp_path: Path) -> None:
    with start_evaluation(request(), tmp_path) as evaluation:
        run_sync(evaluation._note_time(0.01))
        assert run_sync(evaluation.journal.get_note(ELAPSED)) is not None


def test_rows_that_stand_are_not_run_again_and_errors_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = own(tmp_path, "fine", "raise")
    _, rows = evaluated(tmp_path, asked)
    journal = read_journal(tmp_path / "runs" / "r" / "journal.sqlite")
    before = journal.spend().calls
    journal.close()
    monkeypatch.setattr(graders, "MENDED", {"raise"})
    with resume_evaluation("r", tmp_path) as evaluation:
        run_sync(evaluation.execute())
        assert evaluation.journal.spend().calls == before
    _, after = read_results(tmp_path / "runs" / "r" / "results.jsonl")
    assert {row.task: row.score for row in rows if row.target == "single"} == {"t0": 1.0, "t1": None}
    assert {row.task: row.score for row in after if row.target == "single"} == {"t0": 1.0, "t1": 1.0}


def test_an_unknown_price_is_unknown_and_not_nothing(tmp_path: Path) -> None:
    from tests.wire.server import WireServer, text

    with WireServer(text("Answer: 4")) as server:
        given = ("eval", "single", "--benchmark", "archive", "--tasks", "2", "--base-url", server.url)
        unknown = call(tmp_path, *given, "--model", "openai:mine")
        assert "unknown" in next(line for line in unknown.stdout.splitlines() if line.startswith("single  "))
        (tmp_path / "prices.json").write_text('{"openai:mine": {"input": 1000, "output": 1000}}')
        priced = call(tmp_path, *given, "--model", "openai:mine")
        assert "unknown" not in next(line for line in priced.stdout.splitlines() if line.startswith("single  "))
        other = tmp_path / "other.json"
        other.write_text('{"openai:mine": {"input": 0, "output": 0}}')
        free = call(tmp_path, *given, "--model", "openai:mine", "--prices", str(other))
        assert "0.0000" in next(line for line in free.stdout.splitlines() if line.startswith("single  "))


def test_a_run_is_listed_shown_and_removed(tmp_path: Path) -> None:
    evaluated(tmp_path, request("single"), "mine")
    assert "finished" in call(tmp_path, "runs").output
    listing = call(tmp_path, "show", "mine").output
    assert "trivial" in listing
    assert "single" in listing
    task = read_results(tmp_path / "runs" / "mine" / "results.jsonl")[1][-1].task
    shown = call(tmp_path, "show", "mine", "--task", task, "--at", "single").output
    assert "feedback: " in shown
    assert "search(" in shown
    call(tmp_path, "clean", "mine", "--yes")
    assert "there are no runs" in call(tmp_path, "runs").output


def test_a_saved_workflow_is_solved_by_its_own_method_and_says_what_its_evolution_cost(tmp_path: Path) -> None:
    sizes = ("--gate", "mean", "--train", "4", "--gate-size", "4", "--gate-tasks", "4", "--batch", "4", "--test", "0")
    evolve = ("evolve", "hiva", "--benchmark", "archive", "--name", "mine", "--iterations", "1", "--no-baselines")
    call(tmp_path, *evolve, *sizes)
    header, _ = evaluated(tmp_path, request("mine"))
    mine = header.systems[1]
    assert (mine.target, mine.method, mine.learned) == ("mine", "hiva", True)
    assert mine.evolution is not None
    assert mine.evolution.calls > 0


def test_parts_are_switched_off_by_name(tmp_path: Path) -> None:
    given = ("eval", "hiva", "--benchmark", "archive", "--tasks", "2")
    call(tmp_path, *given, "--without", "kabb", "--out", str(tmp_path / "o.jsonl"))
    assert read_results(tmp_path / "o.jsonl")[0].systems[1].config == {"kabb": False}
    wrong = call(tmp_path, *given, "--without", "magic", code=2)
    assert "hiva has no part 'magic' to do without; it has tev" in wrong.stderr


def test_a_dry_run_estimates_and_writes_nothing(tmp_path: Path) -> None:
    result = call(tmp_path / "home", "eval", "hiva", "--benchmark", "archive", "--tasks", "10", "--dry-run")
    assert "calls:   about 25 (10 to 62)" in result.output
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("arguments", "calls"),
    [
        ("eval single", "10 to 30"),
        ("eval single --calls-per-task 30", "300 to 300"),
        ("eval self-consistency", "50 to 50"),
        ("eval cot --set samples=3 --calls-per-task 30", "30 to 30"),
    ],
)
def test_a_dry_run_knows_that_single_agents_spend_their_cap_on_samples(
    arguments: str, calls: str, tmp_path: Path
) -> None:
    given = (*arguments.split(), "--benchmark", "archive", "--tasks", "10", "--dry-run")
    assert f" ({calls})\ntokens:" in call(tmp_path / "home", *given).output


def test_a_dry_run_counts_judges_and_evolutions(tmp_path: Path) -> None:
    tasks = tmp_path / "own.jsonl"
    tasks.write_text("".join(f'{{"input": "What is {n}?", "reference": "{n}"}}\n' for n in range(10)))
    given = ("eval", "direct", "--benchmark", str(tasks), "--tasks", "10", "--dry-run")
    assert "calls:   about 10 (10 to 10)\n" in call(tmp_path / "home", *given).output
    assert "calls:   about 20 (20 to 20)\n" in call(tmp_path / "home", *given, "--grader", "judge").output
    given = ("compare", "hiva", "--benchmark", "archive", "--tasks", "10", "--dry-run")
    alone, evolved = (
        int(call(tmp_path / "home", *given, *more).output.split("calls:   about ")[1].split()[0].replace(",", ""))
        for more in (("--evolve", "none"), ("--iterations", "2", "--batch", "5"))
    )
    assert evolved > alone + 2 * 5


def test_a_dry_run_of_an_evolution_takes_the_prices_of_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text('{"openai:mine": {"input": 1, "output": 1}}')
    given = ("evolve", "hiva", "--benchmark", "archive", "--model", "openai:mine", "--dry-run")
    result = call(tmp_path, *given, "--base-url", "http://127.0.0.1:9/v1")
    assert "dollars: about $" in result.output, result.output


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"entries": (SystemSpec(name="a", target="nobody"),)}, "there is no team 'nobody'"),
        ({"entries": (SystemSpec(name="trivial", target="hiva"),)}, "is the name of the trivial baseline"),
        ({"entries": (SystemSpec(name="a", target="hiva", config={"magic": 1}),)}, "config of hiva: magic"),
        ({"benchmark": "plancraft", "tasks": 9999}, "has 580 tasks"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_written(
    changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=told), start_evaluation(request(**changes), tmp_path / "home"):
        raise AssertionError("it was started")
    assert not (tmp_path / "home").exists()


def test_names_stand_once_and_an_evolution_is_not_resumed_as_an_evaluation(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'a' stands twice"):
        request(entries=(SystemSpec(name="a", target="hiva"), SystemSpec(name="a", target="dytopo")))
    call(tmp_path, "evolve", "hiva", "--benchmark", "archive", "--iterations", "0", "--test", "0", "--no-baselines")
    run = next((tmp_path / "runs").iterdir()).name
    told = "was begun by `selfwire evolve`, not by `selfwire eval`"
    with pytest.raises(JournalError, match=told), resume_evaluation(run, tmp_path):
        raise AssertionError("it was resumed")
    with pytest.raises(ConfigError, match="there is no run"), resume_evaluation("none", tmp_path):
        raise AssertionError("it was resumed")


def test_a_run_that_ended_before_its_workflows_were_kept_is_not_resumed(tmp_path: Path) -> None:
    with start_evaluation(request(), tmp_path, run="r") as evaluation:
        run_sync(evaluation.journal._write(("DELETE FROM notes WHERE name = ?", (TEAM_DIGESTS,))))
    with pytest.raises(JournalError, match="'r' ended before it had begun"), resume_evaluation("r", tmp_path):
        raise AssertionError("it was resumed")


def test_seconds_are_a_budget_too(tmp_path: Path) -> None:
    asked = request(budget=Budget(seconds=0.0))
    with start_evaluation(asked, tmp_path) as evaluation, pytest.raises(BudgetError, match="seconds"):
        run_sync(evaluation.execute())


def test_a_version_that_a_saved_workflow_lacks_is_not_taken_for_a_method(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        run_sync(library.save("mine", trio(), run="r", step=1))
    entries = (SystemSpec(name="mine", target="mine@r.7"),)
    with pytest.raises(LibraryError) as caught, start_evaluation(request(entries=entries), tmp_path, run="r"):
        pytest.fail("it started")
    assert "r.7" in str(caught.value)
    assert "baselines are" not in str(caught.value)


def test_where_a_system_has_learned_from_every_task_there_is_nothing_to_evaluate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ContaminatedTasks, "has_task", lambda self, task, benchmark: True)
    with pytest.raises(ConfigError, match="a system has learned from all 6 tasks; choose another --seed or --split"):
        load_request_tasks(request("cot"), ContaminatedTasks())


def test_a_test_of_ones_own_asks_questions_of_its_benchmark_only(tmp_path: Path) -> None:
    under_test = make_system_under_test("cot", benchmark="archive", tasks=1, home=tmp_path)
    with pytest.raises(ConfigError, match="there is no question 'other'; ask one of `questions`"):
        under_test.answer(Question(id="other", input="What is this?"))


def test_fewer_tasks_than_there_are_leave_out_those_that_a_system_has_learned_from(tmp_path: Path) -> None:
    asked = own(tmp_path, *["fine"] * 12).replace(tasks=3)
    _, everything = load_request_tasks(asked.replace(tasks=12), ContaminatedTasks())
    learned = ContaminatedTasks.of(everything[:8], asked.benchmark)
    twice = learned._replace(tasks=2 * learned.tasks)  # by two runs on the same tasks
    _, found = load_request_tasks(asked, twice)
    assert found == everything[8:11]


def test_a_task_of_a_group_that_a_system_has_learned_from_is_known() -> None:
    tasks = [Task(id=f"{at}", input=f"{at}?", group="page 1" * (at < 2)) for at in range(4)]
    learned = ContaminatedTasks.of([tasks[0], tasks[2]], "mine")
    assert [learned.has_task(task, "mine") for task in tasks] == [True, True, True, False]
    assert not learned.has_task(tasks[1], "another")
