"""`LANGSMITH_TRACING=true` alone: an evolution's traces say where they were made, and hold no reference."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evals.langsmith.asking import metadata, task_file
from tests.processes import start_selfwire, wait_for
from tests.wire.langsmith_server import LangSmithServer, Row

SIZES = tuple("--gate mean --iterations 2 --batch 2 --gate-tasks 2 --train 4 --gate-size 4 --test 2".split())


@pytest.mark.slow
def test_an_evolution_is_traced_by_iteration_phase_task_and_agent_with_feedback_and_without_references(
    tmp_path: Path,
) -> None:
    file = task_file(tmp_path, [f"{'broken-' if n % 4 == 3 else ''}zanzibarquux-{n}" for n in range(10)])
    grader = ("--grader", "tests.evals.langsmith.graders:judged")
    with LangSmithServer() as server:
        settings = {"LANGSMITH_TRACING": "true", "LANGSMITH_ENDPOINT": server.url, "SELFWIRE_HOME": str(tmp_path)}
        command = [sys.executable, "-c", "from selfwire.cli import main; main()", "evolve", "hiva", "--benchmark", file]
        subprocess.run([*command, *grader, *SIZES], env={**os.environ, **settings}, check=True, capture_output=True)
        server.settled(quiet=1.0)
    tasks = [run for run in server.runs.values() if run["name"] == "task"]
    assert {(metadata(run)["selfwire_phase"], metadata(run)["selfwire_iteration"]) for run in tasks} >= {
        ("rollout", 0), ("rollout", 1), ("test", 0),
    }  # fmt: skip
    for task in tasks:
        (result,) = task["outputs"]["results"]
        graded = {"score": 0.5, "solved": False, "text": "Half of it is right."}
        assert (result["feedback"], result["error"]) in ((graded, None), (None, "not graded: GradingError"))
        check_labels(server, task)
    assert {task["outputs"]["results"][0]["error"] is None for task in tasks} == {True, False}
    assert "zanzibarquux" not in json.dumps([server.runs, server.sessions])
    assert server.unknown == []


def check_labels(server: LangSmithServer, task: Row) -> None:
    told = metadata(task)
    place = {name: told[name] for name in ("selfwire_phase", "selfwire_iteration", "selfwire_task", "selfwire_method")}
    agents = [run for run in server.below(task) if any(tag.startswith("agent:") for tag in run["tags"])]
    assert agents
    for run in agents:
        assert place.items() <= metadata(run).items()
        assert f"iteration:{told['selfwire_iteration']}" in run["tags"]
    teams = [run for run in server.below(task) if run["name"] == "team"]  # a baseline that votes has several
    assert {tag for run in teams for tag in run["tags"] if tag.startswith("workflow:")} == {
        f"workflow:{told['selfwire_workflow']}"
    }


@pytest.mark.slow
@pytest.mark.parametrize("grader", ["judged", "judged_at_once"])
def test_what_a_grader_asks_of_a_model_reaches_no_trace(tmp_path: Path, grader: str) -> None:
    file = task_file(tmp_path, [f"zanzibarquux-{n}" for n in range(3)])
    asked = ("eval", "single", "--benchmark", file, "--grader", f"tests.evals.langsmith.graders:{grader}")
    with LangSmithServer() as server:
        settings = {"LANGSMITH_TRACING": "true", "LANGSMITH_ENDPOINT": server.url, "SELFWIRE_HOME": str(tmp_path)}
        wait_for(start_selfwire(*asked, "--tasks", "3", env={**os.environ, **settings}))
        server.settled()
    assert len([run for run in server.runs.values() if run["name"] == "task"]) >= 3
    assert "zanzibarquux" not in json.dumps([server.runs, server.sessions])
