"""Workers report to one LangSmith experiment per system, as one process does."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar

import pytest

from selfwire.extras.cluster import evaluation_workers, shards
from selfwire.extras.cluster.evaluation_workers import run_on_workers
from selfwire.extras.cluster.jobs import Ended, Event, Job, LocalExecutor
from selfwire.runs.evaluation import resume_evaluation, start_evaluation
from selfwire.runs.langsmith import upload_if_requested
from selfwire.runs.spec import WorkerOptions
from tests.commands import call
from tests.evals.langsmith.asking import metadata, read_rows, request, task_of, told_of
from tests.wire.langsmith_server import LangSmithServer

SECRET = "lsv2-zanzibarquux"


def check_experiment(server: LangSmithServer, home: Path, run: str, name: str) -> None:
    """Each row is one run with its traces below it, and has its feedback once."""
    rows, roots = read_rows(home / "runs" / run / "results.jsonl")[name], server.roots(f"{run}-{name}")
    assert sorted(task_of(server, root) for root in roots) == sorted(rows)
    for root in roots:
        row = rows[task_of(server, root)]
        assert root["outputs"]["answer"] == row.answer
        assert len([one for one in server.below(root) if one["run_type"] == "llm"]) == row.calls
        assert told_of(server, root)["score"]["score"] == row.score
        keys = [one["key"] for one in server.feedback if one["run_id"] == root["id"]]
        assert len(keys) == len(set(keys))


def check_whole(server: LangSmithServer, run: str, names: set[str], tasks: int) -> None:
    """One dataset, and one experiment per system that knows the size of the whole."""
    (dataset,) = server.datasets.values()
    assert {one["name"] for one in server.sessions.values()} == {f"{run}-{name}" for name in names}
    assert {one["reference_dataset_id"] for one in server.sessions.values()} == {dataset["id"]}
    assert {metadata(one)["tasks"] for one in server.sessions.values()} == {tasks}
    assert len(server.examples) == tasks
    assert server.unknown == []


@pytest.mark.slow
def test_two_processes_report_to_one_experiment_per_system(
    langsmith_server: LangSmithServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSMITH_API_KEY", SECRET)
    asked = ("compare", "tacomas", "single", "--evolve", "none", "--benchmark", "archive", "--tasks", "6")
    call(tmp_path, *asked, "--langsmith", "--workers", "2")
    (folder,) = (tmp_path / "runs").iterdir()
    check_whole(langsmith_server, folder.name, {"tacomas", "single"}, 6)
    for name in ("tacomas", "single"):
        check_experiment(langsmith_server, tmp_path, folder.name, name)
    kept = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert kept
    assert not any(SECRET.encode() in one.read_bytes() for one in kept)


class MortalExecutor(LocalExecutor):
    """Its third job finds its worker dead, and the fourth one fails until `MortalExecutor.stops` is false."""

    stops = True
    texts: ClassVar[list[str]] = []
    jobs = 0

    def start(self, job: Job) -> None:
        self.jobs += 1
        self.texts.append(job.text)
        super().start(job)

    def wait(self) -> Sequence[Event | Ended]:
        if self.jobs == 3:
            return [Ended(self._todo.pop(), died=True)]
        if self.jobs == 4 and self.stops:
            return [Ended(self._todo.pop(), fault=RuntimeError("the machine is turned off"))]
        return super().wait()


def test_a_dead_worker_and_a_resumed_run_go_on_with_the_experiment(
    langsmith_server: LangSmithServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSMITH_API_KEY", SECRET)
    monkeypatch.setattr(shards, "SLICES", 5)
    monkeypatch.setattr(evaluation_workers, "open_workers", lambda options: nullcontext(MortalExecutor()))
    asked, options = request("dytopo", tasks=5, langsmith="questions"), WorkerOptions(workers=1)
    with (
        start_evaluation(asked, tmp_path, run="r") as run,
        upload_if_requested(run),
        pytest.raises(RuntimeError, match="turned off"),
    ):
        run_on_workers(run, tmp_path, options)
    assert 0 < len(langsmith_server.roots("r-dytopo")) < 5
    monkeypatch.setattr(MortalExecutor, "stops", False)
    with resume_evaluation("r", tmp_path) as run, upload_if_requested(run):
        run_on_workers(run, tmp_path, options)
    check_whole(langsmith_server, "r", {"dytopo"}, 5)
    check_experiment(langsmith_server, tmp_path, "r", "dytopo")
    assert MortalExecutor.texts
    assert not any(SECRET in text for text in MortalExecutor.texts)
