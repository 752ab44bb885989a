"""Systems in processes of their own: the same numbers, one journal in the end, nothing repeated after a stop."""

import os
import threading
import time
from collections import OrderedDict, deque
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selfwire.core.errors import BudgetError, JournalError, OutageError
from selfwire.core.usage import Budget, Usage
from selfwire.evals.baselines import make_baseline
from selfwire.evals.table import Header, TaskRow, read_results
from selfwire.extras.cluster import evaluation_workers
from selfwire.extras.cluster.child_processes import SAFE_PATH, _leave_out_working_directory
from selfwire.extras.cluster.evaluation_workers import (
    WORKERS,
    choose_worker_count,
    measure_slice,
    run_on_workers,
)
from selfwire.extras.cluster.executors import open_workers
from selfwire.extras.cluster.jobs import Job, JobSettings, run_jobs
from selfwire.extras.cluster.shards import Shard
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import load_plan, resume_evaluation, start_evaluation
from selfwire.runs.evolution import resume_evolution
from selfwire.runs.record import JOURNAL, ResumeChanges
from selfwire.runs.spec import EvaluateSpec, Models, PreEvolutionSpec, WorkerOptions
from selfwire.runs.systems import BLOBS, LoadedTeam, load_noted_teams, note_teams
from selfwire.store import files
from selfwire.store.files import put_blob
from selfwire.store.journal import Journal
from selfwire.store.journal_file import JournalReader, Lease, read_spend
from tests import kills, processes
from tests.commands import call
from tests.extras.cluster.test_child_processes import add
from tests.journals import read_journal
from tests.machines import count_lost_seconds, wait_until
from tests.runs.evaluation.test_evaluation import comparable, request
from tests.wire.server import WireServer, text

EVOLVING = PreEvolutionSpec(names=("hiva",), train=6, gate_size=6, gate="mean", iterations=1, batch=3, gate_tasks=3)
FOUR = ("hiva", "single", "cot", "self-refine")


def asked() -> EvaluateSpec:
    return request(*FOUR, tasks=4, command="compare", calls_per_task=8, evolving=EVOLVING)


def one_after_another(home: Path) -> tuple[Header, tuple[TaskRow, ...], int]:
    with start_evaluation(asked(), home, run="r") as run:
        run.evolve()
        run_sync(run.execute())
        spent = run.ledger.spent.calls
    return (*read_results(home / "runs" / "r" / "results.jsonl"), spent)


@pytest.mark.slow
def test_beside_each_other_or_one_after_another_the_numbers_are_the_same(tmp_path: Path) -> None:
    header, rows, spent = one_after_another(tmp_path / "one")
    home, heard = tmp_path / "two", list[dict[str, Any]]()
    with start_evaluation(asked(), home, run="r") as run:
        lines = run_on_workers(run, home, WorkerOptions(workers=2), heard.append)
        assert run.ledger.spent.calls == spent
    found_header, found = read_results(home / "runs" / "r" / "results.jsonl")
    assert comparable(found) == comparable(rows)
    assert [one.workflow for one in found_header.systems] == [one.workflow for one in header.systems]
    assert lines[1].info.learned
    assert {event["target"] for event in heard} == set(FOUR)
    assert not list((home / "runs" / "r" / "parts").iterdir())
    journals = [read_journal(one / "runs" / "r" / "journal.sqlite") for one in (tmp_path / "one", home)]
    assert journals[0].spend().calls == journals[1].spend().calls
    for journal in journals:
        journal.close()
    with resume_evaluation("r", home) as run:
        assert run_sync(run.execute()) == lines
        assert run.ledger.spent.calls == spent


@pytest.mark.slow
def test_seconds_that_are_over_end_the_calls_of_all_workers_within_one_more(tmp_path: Path) -> None:
    two = WorkerOptions(workers=2)
    with open_workers(two) as executor:  # the next ones are forked at once, however busy the machine is
        assert [one.result for one in run_jobs(deque([Job.of("sum", add, numbers=[1, 2])]), executor)] == [3]
    with WireServer(text("hello"), delay=600) as server:
        models = Models(agent="openai:local", base_url=server.url)
        asked = request("single", "cot", tasks=8, budget=Budget(seconds=12), models=models)
        with start_evaluation(asked, tmp_path) as run, count_lost_seconds() as lost:
            end = time.monotonic() - run.ledger.spent.seconds + 12
            with pytest.raises(BudgetError, match=r"\d+\.\d+ of 12\.00 seconds spent"):
                run_on_workers(run, tmp_path, two)
            wait_until(lambda: not server.active)
            assert 0 <= time.monotonic() - end <= 1 + lost()
        assert server.cancelled == len(server.asked) > 0


@pytest.mark.slow
def test_a_router_that_one_process_has_trained_is_measured_by_all(tmp_path: Path) -> None:
    trained = PreEvolutionSpec(
        names=("evomas",), train=4, gate_size=2, gate="mean", iterations=1, batch=2, gate_tasks=2
    )
    asked = request("evomas", "single", tasks=6, command="compare", calls_per_task=40, evolving=trained)
    with start_evaluation(asked, tmp_path, run="r") as run:
        assert [one.errors for one in run_on_workers(run, tmp_path, WorkerOptions(workers=2))] == [0, 0, 0]


def test_weights_come_with_a_run_s_workflows_unless_they_were_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = put_blob(b"weights")
    team = make_baseline("single").seed(()).replace(memory={"router": reference})
    path = tmp_path / "journal.sqlite"
    with closing(Journal.create(path, run="r")) as journal:
        run_sync(note_teams(journal, {"a": LoadedTeam(workflow=team)}))
        monkeypatch.setattr(files, "_kept", OrderedDict())  # as in another process
        with JournalReader(path) as reader:
            assert load_noted_teams(reader)["a"].workflow == team
        assert files.get_blob(reference) == b"weights"
        monkeypatch.setattr(files, "_kept", OrderedDict())
        run_sync(journal.put_note(f"{BLOBS}/{reference}", run_sync(journal.put_body("AAAA"))))
        with JournalReader(path) as reader, pytest.raises(JournalError, match="is damaged: these are not the bytes"):
            load_noted_teams(reader)


def make_shard(home: Path, name: str, most: int) -> tuple[Shard, list[str]]:
    """A shard of a run, with some of its tasks."""
    shard = Shard("r", name, 0, home, f"r/{name}")
    plan = load_plan(home / "runs" / "r" / JOURNAL, home)
    tasks = plan.tasks[:most]
    part = replace(plan, workflows={name: plan.workflows[name]}, tasks=tasks, is_part=True)
    part.create_journal(shard.own, shard.run).close()
    return shard, [task.id for task in tasks]


def measure(home: Path, shard: Shard, tasks: list[str]) -> None:
    settings = JobSettings(home=home).model_dump(mode="json")
    measure_slice(lambda event: None, str(shard.own), shard.name, tasks, None, settings)


def test_what_a_process_that_was_killed_has_left_is_taken_over_and_not_repeated(tmp_path: Path) -> None:
    plain = request("single", "cot", tasks=4, command="compare", calls_per_task=4)
    with start_evaluation(plain, tmp_path, run="r"):
        pass
    part, tasks = make_shard(tmp_path, "single", 3)
    measure(tmp_path, part, tasks)  # its parent is gone: nobody joins it
    cost = read_spend(part.own).calls
    assert [*part.read_done()] == sorted(tasks)
    assert cost > 0
    begun = part.own.parent.with_name("7-single")  # it was killed while it made this one
    begun.mkdir()
    (begun / ".draft").touch()
    strange = [begun.with_name(".DS_Store"), begun.with_name("1st-draft")]  # of others, who keep them
    strange[0].touch()
    strange[1].mkdir()
    with pytest.raises(JournalError, match="not by `selfwire evolve`"), resume_evolution("r", tmp_path):
        pass
    assert part.own.exists()
    with resume_evaluation("r", tmp_path) as run:
        assert run.ledger.spent.calls == cost
        assert sorted(part.own.parents[1].iterdir()) == strange
        run_sync(run.execute())
    _, found = read_results(tmp_path / "runs" / "r" / "results.jsonl")
    with start_evaluation(plain, tmp_path, run="whole") as run:
        run_sync(run.execute())
        assert run.ledger.spent.calls == sum(row.calls for row in found)
    _, expected = read_results(tmp_path / "runs" / "whole" / "results.jsonl")
    assert comparable(found) == comparable(expected)


def test_a_part_knows_what_its_run_has_done(tmp_path: Path) -> None:
    plain = request("single", "cot", tasks=3, command="compare", calls_per_task=4)
    with start_evaluation(plain, tmp_path, run="r") as run:
        run_sync(run.execute())
        spent = run.ledger.spent.calls
    part, tasks = make_shard(tmp_path, "cot", 3)
    before = part.copy_from_run(tasks)
    assert 0 < before.calls < spent
    measure(tmp_path, part, tasks)
    assert part.merge_into_run(before).calls == 0


@pytest.mark.slow
def test_killed_beside_each_other_it_goes_on_and_ends_with_the_same_numbers(tmp_path: Path) -> None:
    sizes = ("--benchmark", "archive", "--tasks", "10", "--calls-per-task", "30", "--workers", "2")
    given = ("compare", *FOUR, "--evolve", "none", *sizes)
    home = tmp_path / "killed"
    process = kills.start(home, *given)
    parts = "runs/*/parts/*/journal.sqlite-wal"

    def is_at_work() -> bool:
        with suppress(FileNotFoundError):  # a part that has just been merged
            return any(one.stat().st_size > 100_000 for one in home.glob(parts))
        return False

    processes.kill_when(process, is_at_work)
    errors = held = "is held by another process"
    while held in errors:  # its workers end soon after it
        resumed = kills.start(home, "compare", "--resume", kills.run_of(home), "--workers", "2")
        _, errors = resumed.communicate()
    assert resumed.returncode == 0, errors
    whole = tmp_path / "whole"
    kills.call(whole, *given[:-1], "1")
    expected, found = (read_results(one / "runs" / kills.run_of(one) / "results.jsonl") for one in (whole, home))
    assert comparable(found[1]) == comparable(expected[1])


@pytest.mark.parametrize("changes", [{"langsmith": "questions"}, {"budget": Budget(calls=9)}])
def test_with_a_budget_or_langsmith_more_than_one_process_must_be_asked_for(changes: dict[str, object]) -> None:
    bound = request(*FOUR, **changes)
    assert choose_worker_count(bound, None) == 1
    assert choose_worker_count(bound, 2) == 2


@pytest.mark.slow
def test_workers_share_a_budget_and_go_on_with_a_higher_one(tmp_path: Path) -> None:
    _, expected, needed = one_after_another(tmp_path / "one")
    home, limit = tmp_path / "two", needed // 2
    bound = asked().replace(budget=Budget(calls=limit))
    with start_evaluation(bound, home, run="r") as run, pytest.raises(BudgetError, match=f"of {limit} calls spent"):
        run_on_workers(run, home, WorkerOptions(workers=2))
    with resume_evaluation("r", home, changes=ResumeChanges({"calls": needed})) as run:
        assert limit // 2 < run.ledger.spent.calls <= limit
        run_on_workers(run, home, WorkerOptions(workers=2))
        assert run.ledger.spent.calls == needed
    _, found = read_results(home / "runs" / "r" / "results.jsonl")
    assert comparable(found) == comparable(expected)
    assert not list(home.glob("runs/r/budget*"))


def test_few_systems_are_not_worth_a_process_each() -> None:
    assert choose_worker_count(request(*FOUR[:3]), None) == 1
    assert choose_worker_count(request(*FOUR), None) <= WORKERS
    assert choose_worker_count(request(*FOUR), 3) == 3
    served = request(*FOUR, models=Models(judge="openai:gpt-4o-mini"))
    assert choose_worker_count(served, None) == 1
    assert choose_worker_count(served, 2) == 2


def fail(*given: object, **more: object) -> None:
    raise OutageError("the provider is down")


def test_after_a_fault_in_a_process_the_run_says_that_it_stopped_and_can_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = request("single", "cot", tasks=2, command="compare", calls_per_task=4)
    with start_evaluation(plain, tmp_path, run="r") as run, monkeypatch.context() as patched:
        patched.setattr(evaluation_workers, "make_plan", fail)
        with pytest.raises(OutageError, match="the provider is down"):
            run_on_workers(run, tmp_path, WorkerOptions(workers=1))
    assert "stopped" in call(tmp_path, "runs").output
    with resume_evaluation("r", tmp_path) as run:
        assert run_sync(run.execute())[-1].scores


def test_a_worker_of_a_killed_run_finds_no_part_of_the_resumed_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, old, leases, copy = list[Path](), list[Path](), list[Lease](), Shard.copy_from_run

    def note(shard: Shard, tasks: list[str]) -> Usage:
        made.append(shard.own)
        leases.extend(Lease(path) for path in old if path.exists())  # as a worker does that was told of an old part
        return copy(shard, tasks)

    monkeypatch.setattr(Shard, "copy_from_run", note)
    plain = request("single", tasks=2, calls_per_task=4)
    with start_evaluation(plain, tmp_path, run="r") as run, monkeypatch.context() as patched:
        patched.setattr(evaluation_workers, "make_plan", fail)
        with pytest.raises(OutageError, match="the provider is down"):
            run_on_workers(run, tmp_path, WorkerOptions(workers=1))
    old += made
    with resume_evaluation("r", tmp_path) as run:
        assert run_on_workers(run, tmp_path, WorkerOptions(workers=1))[-1].scores
    assert len(made) > len(old) > 0
    assert leases == []


def test_two_threads_that_start_processes_leave_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SAFE_PATH, raising=False)
    inside, leave = threading.Event(), threading.Event()

    def start() -> None:
        with _leave_out_working_directory():
            inside.set()
            leave.wait(10)

    second = threading.Thread(target=start)
    with _leave_out_working_directory():
        second.start()
        inside.wait(0.2)
    inside.wait(10)
    assert os.environ[SAFE_PATH] == "1"
    leave.set()
    second.join()
    assert SAFE_PATH not in os.environ
