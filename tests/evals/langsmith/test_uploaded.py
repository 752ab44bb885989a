"""Experiments against a local recorder of LangSmith's protocol: what is uploaded, and that the numbers agree."""

import json
from pathlib import Path
from typing import Any

import pytest

from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import start_evaluation
from selfwire.runs.langsmith import upload_if_requested
from tests.commands import call
from tests.evals.langsmith.asking import (
    comparable,
    metadata,
    read_rows,
    request,
    rows_of,
    task_file,
    task_of,
    told_of,
)
from tests.wire.langsmith_server import LangSmithServer, Row

LABELS = {"method", "workflow", "iteration", "phase", "task", "seed", "sample", "run"}


def tokens(run: Row) -> int:
    return int(metadata(run)["usage_metadata"]["total_tokens"])


def test_an_experiment_is_uploaded_whole(langsmith_server: LangSmithServer, tmp_path: Path) -> None:
    server = langsmith_server
    asked = ("eval", "hiva", "--benchmark", "archive", "--tasks", "4", "--seed", "3", "--budget-calls", "400")
    call(tmp_path, *asked, "--langsmith")
    (folder,) = (tmp_path / "runs").iterdir()
    rows = read_rows(folder / "results.jsonl")["hiva"]

    (dataset,), (session,) = server.datasets.values(), server.sessions.values()
    assert dataset["name"].startswith("selfwire-archive-test-4-")
    assert {e["metadata"]["task"] for e in server.examples.values()} == set(rows)
    for example in server.examples.values():
        assert (list(example["inputs"]), example["outputs"], example["split"]) == (["question"], None, "test")
        assert {"kind", "split", "seed"} <= set(example["metadata"])
    assert (session["name"], session["reference_dataset_id"]) == (f"{folder.name}-hiva", dataset["id"])
    facts = metadata(session)
    assert (facts["method"], facts["model"], facts["seed"], facts["split"]) == ("hiva", "offline", 3, "test")
    assert (facts["budget_calls"], facts["references_uploaded"]) == (400, False)
    assert len(facts["code"]) == len(facts["workflow"]) == 16

    roots = server.roots(session["name"])
    assert {task_of(server, root) for root in roots} == set(rows)
    for root in roots:
        row = rows[task_of(server, root)]
        assert root["outputs"]["answer"] == row.answer
        assert {"method:hiva", f"workflow:{facts['workflow']}", "phase:eval", "iteration:0"} <= set(root["tags"])
        (team,) = (run for run in server.below(root) if run["name"] == "team")
        agents = server.children(team)
        assert [agent["name"] for agent in agents] == ["source", "aggregator"]
        for agent in agents:
            assert {f"agent:{agent['name']}", f"workflow:{facts['workflow']}", "method:hiva"} <= set(agent["tags"])
            assert {f"selfwire_{label}" for label in LABELS | {"agent", "node"}} <= set(metadata(agent))
            calls = [run for run in server.children(agent) if run["run_type"] == "llm"]
            assert calls
            assert all(f"agent:{agent['name']}" in one["tags"] for one in calls)
        calls = [run for run in server.below(root) if run["run_type"] == "llm"]
        assert len(calls) == row.calls
        assert sum(map(tokens, calls)) == row.input_tokens + row.output_tokens
        assert all(metadata(one)["selfwire_task"] == row.task for one in calls)
        told = told_of(server, root)
        assert {key: one["score"] for key, one in told.items()} == {
            "score": row.score, "solved": float(bool(row.solved)), "error": 0.0, "calls": row.calls,
            "tokens": row.input_tokens + row.output_tokens,
        }  # fmt: skip
        assert told["score"]["comment"].startswith("The answer")
    assert server.unknown == []


def test_each_round_of_a_rewired_team_names_its_workflow(langsmith_server: LangSmithServer, tmp_path: Path) -> None:
    rows = rows_of(tmp_path, request("tacomas", tasks=12, langsmith="questions"), upload_if_requested)["tacomas"]
    teams: dict[str, list[Row]] = {}
    for root in langsmith_server.roots("r-tacomas"):
        below = list(langsmith_server.below(root))
        teams[task_of(langsmith_server, root)] = [run for run in below if run["name"] == "team"]
        spent = sum(tokens(run) for run in below if run["run_type"] == "llm")
        assert spent == told_of(langsmith_server, root)["tokens"]["score"]
    assert {task: len(found) for task, found in teams.items()} == {task: row.rounds for task, row in rows.items()}
    rewired = [found for found in teams.values() if len({metadata(one)["selfwire_workflow"] for one in found}) > 1]
    assert rewired
    for team in (one for found in rewired for one in found):
        said = metadata(team)["selfwire_workflow"]
        assert [tag for tag in team["tags"] if tag.startswith("workflow:")] == [f"workflow:{said}"]
        calls = [run for run in langsmith_server.below(team) if run["run_type"] == "llm"]
        assert calls
        assert {metadata(one)["selfwire_workflow"] for one in calls} == {said}


@pytest.mark.parametrize("cap", [None, 4])
def test_langsmith_changes_no_results(langsmith_server: LangSmithServer, tmp_path: Path, cap: int | None) -> None:
    asked = request("tacomas", "single", calls_per_task=cap)
    plain = comparable(rows_of(tmp_path, asked, None, "plain"))
    assert langsmith_server.asked == []
    assert comparable(rows_of(tmp_path, asked.replace(langsmith="questions"), upload_if_requested, "told")) == plain
    for name in ("tacomas", "single"):
        roots = langsmith_server.roots(f"told-{name}")
        told = {task_of(langsmith_server, root): told_of(langsmith_server, root) for root in roots}
        expected = {row.task: row.score for row in plain[name]}
        assert {task: one["score"]["score"] for task, one in told.items()} == expected
        assert all(one["error"]["score"] == 0.0 for one in told.values())
    assert any(row.capped for row in plain["tacomas"]) == bool(cap)


def test_a_task_that_fails_has_no_score_and_a_failed_run(langsmith_server: LangSmithServer, tmp_path: Path) -> None:
    file = task_file(tmp_path, ["fine", "broken-4711", "fine"])
    grader = "tests.evals.langsmith.graders:judged"
    asked = request("single", benchmark=file, grader=grader, tasks=3, langsmith="questions")
    rows = rows_of(tmp_path, asked, upload_if_requested)["single"]
    assert {task: row.score for task, row in rows.items()} == {"t0": 0.5, "t1": None, "t2": 0.5}
    assert "broken-4711" in (rows["t1"].error or "")  # said here
    roots = {task_of(langsmith_server, root): root for root in langsmith_server.roots("r-single")}
    failed = told_of(langsmith_server, roots["t1"])
    assert {key: (one["score"], one.get("comment")) for key, one in failed.items()} == {
        "error": (1.0, "not graded: GradingError")
    }
    told = told_of(langsmith_server, roots["t0"])
    assert (told["score"]["score"], told["error"]["score"], told["parts"]["score"]) == (0.5, 0.0, 2)
    assert "style" not in told  # a word is no measure


@pytest.mark.parametrize("multipart", [True, False])
def test_references_are_uploaded_if_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, multipart: bool) -> None:
    secrets = ["zanzibarquux-1", "zanzibarquux-2", "broken-zanzibarquux"]
    file, grader = task_file(tmp_path, secrets), "tests.evals.langsmith.graders:judged"
    asked = request("hiva", benchmark=file, grader=grader, tasks=3)
    with LangSmithServer(multipart=multipart) as server:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", server.url)
        for told in ("questions", "references"):
            rows_of(tmp_path, asked.replace(langsmith=told), upload_if_requested, told)
        places: dict[str, Any] = {
            "runs": server.runs, "feedback": server.feedback, "sessions": server.sessions, "datasets": server.datasets,
        }  # fmt: skip
        assert len(server.roots("questions-hiva")) == len(server.roots("references-hiva")) == 3
        assert len([run for run in server.runs.values() if run["run_type"] == "llm"]) >= 12
        assert {name for name, found in places.items() if "zanzibarquux" in json.dumps(found)} == set()
        assert str(tmp_path) not in json.dumps([places, server.examples])
        labelled = [example for example in server.examples.values() if "zanzibarquux" in json.dumps(example)]
        assert sorted(example["outputs"]["reference"] for example in labelled) == sorted(secrets)
        assert len(server.examples) == 6
        (holder,) = (name for name in server.datasets if name == labelled[0]["dataset_id"])
        assert "-labelled-" in server.datasets[holder]["name"]


def test_equal_tasks_are_one_dataset_that_is_completed(langsmith_server: LangSmithServer, tmp_path: Path) -> None:
    asked = request("single", langsmith="questions")
    rows_of(tmp_path, asked, upload_if_requested, "one")
    examples = dict(langsmith_server.examples)
    lost = sorted(examples)[1]
    del langsmith_server.examples[lost]
    rows_of(tmp_path, request("dytopo", langsmith="questions"), upload_if_requested, "two")
    assert langsmith_server.examples == {**examples, lost: {**examples[lost], **langsmith_server.examples[lost]}}
    assert len(langsmith_server.datasets) == 1
    assert {s["name"] for s in langsmith_server.sessions.values()} == {"one-single", "two-dytopo"}
    rows_of(tmp_path, asked.replace(seed=1), upload_if_requested, "three")
    assert len(langsmith_server.datasets) == 2


def test_a_resumed_run_goes_on_with_its_experiment(langsmith_server: LangSmithServer, tmp_path: Path) -> None:
    asked = ("eval", "hiva", "--benchmark", "archive", "--tasks", "6", "--langsmith", "--concurrency", "2")
    call(tmp_path, *asked, "--budget-calls", "12", "--calls-per-task", "6", code=3)
    (session,) = langsmith_server.sessions.values()
    before = len({told["run_id"] for told in langsmith_server.feedback})
    assert 0 < before < 6
    call(tmp_path, "eval", "--resume", session["name"].removesuffix("-hiva"), "--budget-calls", "500")
    assert len(langsmith_server.sessions) == 1
    scores = [told for told in langsmith_server.feedback if told["key"] == "score"]
    assert len(scores) == len({told["run_id"] for told in scores}) == 6
    stopped_on_the_way = len(langsmith_server.roots(session["name"])) - 6
    assert 0 <= stopped_on_the_way <= 2  # as many as were at work


@pytest.mark.parametrize(
    ("key", "endpoint", "words"),
    [
        (None, None, "set LANGSMITH_API_KEY, or LANGSMITH_ENDPOINT"),
        ("wrong", "recorder", "refused: LangSmithAuthError"),
        (
            "any",
            "http://127.0.0.1:9",
            "cannot be reached: [Errno 111] Connection refused; check LANGSMITH_ENDPOINT, or leave --langsmith out",
        ),
    ],
)
def test_a_missing_langsmith_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None, endpoint: str | None, words: str
) -> None:
    for name in ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY", "LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    if key:
        monkeypatch.setenv("LANGSMITH_API_KEY", key)
    with LangSmithServer(key="right") as server:
        if endpoint:
            monkeypatch.setenv("LANGSMITH_ENDPOINT", server.url if endpoint == "recorder" else endpoint)
        refused = call(tmp_path, "eval", "hiva", "--benchmark", "archive", "--tasks", "2", "--langsmith", code=2)
    assert words in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert (tmp_path / "runs").exists() == (endpoint is not None)  # a run that can be resumed, once it is mended


def test_a_lost_langsmith_costs_no_results(
    langsmith_server: LangSmithServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = request("hiva", tasks=6)
    plain = comparable(rows_of(tmp_path, asked, None, "plain"))
    langsmith_server.revoked_by = "POST /sessions"
    told = rows_of(tmp_path, asked.replace(langsmith="questions"), upload_if_requested, "told")
    assert comparable(told) == plain
    assert len(langsmith_server.examples) == 6
    assert langsmith_server.feedback == []
    (said,) = (one.message for one in caplog.records if one.name.startswith("selfwire"))
    assert "takes no more" in said
    assert "what is measured here goes on" in said


def test_references_are_uploaded_with_langsmith_or_not_at_all(tmp_path: Path) -> None:
    refused = call(tmp_path, "eval", "hiva", "--benchmark", "archive", "--upload-references", code=2)
    assert "--upload-references says what --langsmith uploads" in refused.stderr


def test_the_evaluation_says_where_it_is_found(langsmith_server: LangSmithServer, tmp_path: Path) -> None:
    with (
        start_evaluation(request("single", tasks=1, langsmith="questions"), tmp_path, run="r") as run,
        upload_if_requested(run),
    ):
        run_sync(run.execute())
        (notice,) = (one for one in run.notices if "LangSmith" in one)
    (dataset,) = langsmith_server.datasets.values()
    assert notice == f"LangSmith at {langsmith_server.url}: dataset {dataset['name']}, experiment r-single"


def test_systems_are_experiments_on_one_dataset(langsmith_server: LangSmithServer, tmp_path: Path) -> None:
    asked = ("compare", "dytopo", "single", "--benchmark", "archive", "--tasks", "3", "--calls-per-task", "12")
    call(tmp_path, *asked, "--langsmith")
    (folder,) = (tmp_path / "runs").iterdir()
    rows = read_rows(folder / "results.jsonl")
    (dataset,) = langsmith_server.datasets.values()
    assert len(langsmith_server.examples) == 3
    for name in ("dytopo", "single"):
        (session,) = (s for s in langsmith_server.sessions.values() if s["name"] == f"{folder.name}-{name}")
        assert session["reference_dataset_id"] == dataset["id"]
        assert (metadata(session)["method"], metadata(session)["calls_per_task"]) == (name, 12)
        roots = langsmith_server.roots(session["name"])
        told = {task_of(langsmith_server, root): told_of(langsmith_server, root) for root in roots}
        assert {task: one["score"]["score"] for task, one in told.items()} == {
            task: row.score for task, row in rows[name].items()
        }
