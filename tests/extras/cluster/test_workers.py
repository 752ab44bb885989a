"""Tasks on workers: the same rows however many there are, and nothing lost where they die."""

import os
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from selfwire.cli.commands import STOPPED
from selfwire.core.errors import JournalError, UngradedError, WorkerError
from selfwire.core.usage import Usage
from selfwire.evals.table import TaskRow, read_results
from selfwire.extras.cluster import evaluation_workers, shards
from selfwire.extras.cluster.evaluation_workers import run_on_workers
from selfwire.extras.cluster.jobs import DEATHS, Ended, Event, Job, LocalExecutor
from selfwire.extras.cluster.shards import Shard
from selfwire.models.providers import make_chat_model
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import resume_evaluation, start_evaluation
from selfwire.runs.spec import EvaluateSpec, PreEvolutionSpec, SystemSpec, WorkerOptions
from selfwire.store.journal import Journal
from selfwire.store.journal_file import read_spend
from tests import kills, processes
from tests.extras.cluster.interrupted import APP, InterruptedExecutor
from tests.extras.cluster.test_processes import make_shard, measure
from tests.journals import read_journal
from tests.machines import find_children, is_alive, wait_until
from tests.runs.evaluation.test_evaluation import comparable, evaluated, own, request
from tests.samples import SWEEP
from tests.wire.server import WireServer, served

COUNTS = (1, 5) if SWEEP else (2,)


def on_workers(home: Path, asked: EvaluateSpec, options: WorkerOptions, run: str = "r") -> tuple[TaskRow, ...]:
    with start_evaluation(asked, home, run=run) as evaluation:
        run_on_workers(evaluation, home, options)
    return read_results(home / "runs" / run / "results.jsonl")[1]


def to_bytes(rows: Sequence[TaskRow]) -> bytes:
    """Rows as a file of results has them, without what a clock says."""
    return "\n".join(row.model_dump_json() for row in comparable(rows)).encode()


def test_rows_of_slices_are_those_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SLICES", 4)
    asked = request("hiva", "tacomas", tasks=4, command="compare", calls_per_task=30)
    _, expected = evaluated(tmp_path, asked, "whole")
    assert to_bytes(on_workers(tmp_path, asked, WorkerOptions(workers=1))) == to_bytes(expected)
    spent = []
    for run in ("whole", "r"):
        journal = read_journal(tmp_path / "runs" / run / "journal.sqlite")
        spent.append((journal.spend().replace(seconds=0), len(run_sync(journal.rows()))))
        journal.close()
    assert spent[0] == spent[1]


@pytest.mark.slow
@pytest.mark.parametrize("workers", COUNTS)
def test_rows_are_the_same_however_many_workers_there_are(tmp_path: Path, workers: int) -> None:
    asked = request("hiva", tasks=9)
    _, expected = evaluated(tmp_path, asked, "whole")
    assert to_bytes(on_workers(tmp_path, asked, WorkerOptions(workers=workers))) == to_bytes(expected)


class DyingExecutor(LocalExecutor):
    """Dies at every job that holds a task."""

    def __init__(self, deadly: str) -> None:
        super().__init__()
        self.deadly, self.died = deadly, list[str]()

    def wait(self) -> Sequence[Event | Ended]:
        job = self._todo[-1]
        if self.deadly not in self.get_tasks(job):
            return super().wait()
        self._todo.pop()
        self.died.append(job.name)
        return [Ended(job, died=True)]

    def get_tasks(self, job: Job) -> Sequence[str]:
        tasks: Sequence[str] = job.arguments["tasks"]
        return tasks


def test_a_task_at_which_workers_die_becomes_an_error_and_the_others_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request("single", tasks=5)
    _, expected = evaluated(tmp_path, asked, "whole")
    deadly = expected[-2].task
    executor = DyingExecutor(deadly)
    monkeypatch.setattr(shards, "SLICES", 2)
    monkeypatch.setattr(evaluation_workers, "open_workers", lambda options: nullcontext(executor))
    found = on_workers(tmp_path, asked, WorkerOptions(workers=1))
    [lost] = [row for row in found if row.error]
    assert (lost.target, lost.task, lost.score, lost.solved) == ("single", deadly, None, None)
    assert lost.error == f"WorkerError: {DEATHS} workers in a row have died at this task, so it is not tried again"
    assert len(executor.died) == DEATHS
    others = [row for row in found if row is not lost]
    assert to_bytes(others) == to_bytes([row for row in expected if (row.target, row.task) != ("single", deadly)])


class DyingAfterwards(LocalExecutor):
    """Its worker dies when it has done its first job, and all workers die at it from then on if asked to."""

    def __init__(self, *, always: bool) -> None:
        super().__init__()
        self.always, self.deaths = always, 0

    def wait(self) -> Sequence[Event | Ended]:
        job = self._todo[-1]
        found = super().wait()
        if self.deaths and not self.always:
            return found
        self.deaths += 1
        return [Ended(job, died=True)]


@pytest.mark.parametrize("always", [False, True])
def test_calls_of_workers_that_died_at_an_evolution_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    evolving = PreEvolutionSpec(names=("hiva",), iterations=1, batch=2, train=4, gate_size=4, gate="mean", gate_tasks=2)
    asked = request("hiva", tasks=2, evolving=evolving)
    monkeypatch.setattr(evaluation_workers, "open_workers", lambda options: nullcontext(DyingAfterwards(always=always)))
    with start_evaluation(asked, tmp_path, run="r") as evaluation:
        with pytest.raises(WorkerError) if always else nullcontext():
            run_on_workers(evaluation, tmp_path, WorkerOptions(workers=1))
        [evolution] = evaluation.evolutions
        assert evolution.spent.calls > 0
        measured = read_spend(tmp_path / "runs" / "r" / "journal.sqlite")
        assert evaluation.spent.calls == measured.calls + evolution.spent.calls


@pytest.mark.slow
@pytest.mark.parametrize("workers", COUNTS)
def test_a_budget_stops_any_number_of_workers_and_they_go_on_with_a_higher_one(tmp_path: Path, workers: int) -> None:
    with WireServer(served(make_chat_model("offline"))) as server:
        given = (
            "compare",
            "self-refine",
            "cot",
            "--benchmark",
            "archive",
            "--tasks",
            "10",
            "--concurrency",
            "2",
            *kills.name_model(server),
        )
        kills.call(tmp_path / "whole", *given)
        needed, home = len(server.asked), tmp_path / "stopped"
        limit = needed // 2
        on = ("--budget-calls", str(limit), "--workers", str(workers))
        _, errors = processes.wait_for(kills.start(home, *given, *on), STOPPED)
        assert f"of {limit} calls" in errors
        assert limit // 2 < len(server.asked) - needed <= limit
        higher = ("--resume", kills.run_of(home), *on, "--budget-calls", str(needed))
        processes.wait_for(kills.start(home, "compare", *higher))
        assert len(server.asked) == 2 * needed
    expected, found = (
        read_results(one / "runs" / kills.run_of(one) / "results.jsonl") for one in (tmp_path / "whole", home)
    )
    assert to_bytes(found[1]) == to_bytes(expected[1])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's list of processes")
def test_kills_of_a_worker_and_of_the_driver_repeat_no_more_than_was_in_flight(tmp_path: Path) -> None:
    at_once, workers = 2, 2
    with WireServer(served(make_chat_model("offline"))) as server:
        given = (
            "eval",
            "self-refine",
            "--benchmark",
            "archive",
            "--tasks",
            "24",
            "--concurrency",
            str(at_once),
            *kills.name_model(server),
        )
        whole, home = tmp_path / "whole", tmp_path / "killed"
        processes.wait_for(kills.start(whole, *given))
        needed, before = len(server.asked), server.replied
        process = kills.start(home, *given, "--workers", str(workers))
        wait_until(lambda: server.replied >= before + needed // 4)
        os.kill(find_children(process.pid)[0], signal.SIGKILL)
        wait_until(lambda: server.replied >= before + needed // 2)
        wait_until(lambda: len(find_children(process.pid)) == workers, process)  # another takes the place
        left = find_children(process.pid)
        process.kill()
        process.communicate()
        wait_until(lambda: not any(map(is_alive, left)))
        processes.wait_for(kills.start(home, "eval", "--resume", kills.run_of(home), "--workers", str(workers)))
        extra = len(server.asked) - 2 * needed
    assert 0 <= extra <= at_once * (1 + workers)
    expected, found = (read_results(one / "runs" / kills.run_of(one) / "results.jsonl") for one in (whole, home))
    assert found[0].complete
    assert to_bytes(found[1]) == to_bytes(expected[1])


def use_own_graph(folder: Path, monkeypatch: pytest.MonkeyPatch) -> EvaluateSpec:
    """A graph of one's own in a folder, whose runs are lines of asked.txt, as no journal replays them."""
    monkeypatch.chdir(folder)
    Path("app.py").write_text(APP, encoding="utf-8")
    return request(tasks=4, entries=(SystemSpec(name="mine", target="app.py:graph"),))


def read_asked(folder: Path) -> list[str]:
    return (folder / "asked.txt").read_text(encoding="utf-8").splitlines()


def test_tasks_of_a_worker_whose_run_was_killed_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, home = use_own_graph(tmp_path, monkeypatch), tmp_path / "home"
    with start_evaluation(asked, home, run="r"):
        pass
    shard, tasks = make_shard(home, "mine", 3)
    measure(home, shard, tasks)  # the run was killed: it does not read the end
    assert len(read_asked(tmp_path)) == 3
    with resume_evaluation("r", home) as run:
        run_sync(run.execute())
    assert len(read_asked(tmp_path)) == len({*read_asked(tmp_path)}) == 4
    _, found = read_results(home / "runs" / "r" / "results.jsonl")
    _, expected = evaluated(home, asked, "whole")
    assert to_bytes(found) == to_bytes(expected)


def test_tasks_that_were_measured_before_ctrl_c_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, home = use_own_graph(tmp_path, monkeypatch), tmp_path / "home"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts tests may ignore Ctrl-C
    try:
        with monkeypatch.context() as patched:
            patched.setattr(shards, "SLICES", 1)
            patched.setattr(evaluation_workers, "open_workers", lambda options: nullcontext(InterruptedExecutor()))
            with start_evaluation(asked, home, run="r") as run, pytest.raises(KeyboardInterrupt):
                run_on_workers(run, home, WorkerOptions(workers=1))
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(read_asked(tmp_path)) == 4
    with resume_evaluation("r", home) as run:
        assert len(run_sync(run.execute())[-1].scores) == 4
    assert len(read_asked(tmp_path)) == 4


def test_a_shard_that_another_process_holds_is_merged_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge, refused = Shard.merge_into_run, list[Shard]()

    def refuse_once(shard: Shard, before: Usage, journal: Journal, *, keeps_done: bool) -> Usage:
        if not refused:
            refused.append(shard)
            raise JournalError("it is held by another process")
        return merge(shard, before, journal, keeps_done=keeps_done)

    monkeypatch.setattr(Shard, "merge_into_run", refuse_once)
    with start_evaluation(request("single", tasks=3), tmp_path, run="r") as run:
        with pytest.raises(JournalError, match="it is held by another process"):
            run_on_workers(run, tmp_path, WorkerOptions(workers=1))
        assert run.spent.calls == read_spend(tmp_path / "runs" / "r" / "journal.sqlite").calls > 0
    assert not refused[0].own.exists()


def test_a_grader_that_fails_on_the_first_slices_stops_the_run_before_all_tasks_are_paid_for(tmp_path: Path) -> None:
    asked = own(tmp_path, *["raise"] * 24)  # slices of 8 and of fewer tasks
    for workers, most in ((1, 16), (3, 18)):
        executor = LocalExecutor()
        executor.workers = workers
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(evaluation_workers, "open_workers", lambda options, e=executor: nullcontext(e))
            with start_evaluation(asked, tmp_path, run=f"r{workers}") as run:
                with pytest.raises(UngradedError, match="failed on all of the first"):
                    run_on_workers(run, tmp_path, WorkerOptions(workers=1))
                assert 8 <= run.spent.calls <= most
