"""The examples of docs/evaluation.md run as they stand there."""

import os
import re
from pathlib import Path

import pytest

from tests.processes import start, wait_for
from tests.wire.langsmith_server import LangSmithServer

PAGE = Path(__file__).parents[3] / "docs" / "evaluation.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
TESTS = next(example for example in EXAMPLES if "pytest.mark" in example)
(PROGRAM,) = (example for example in EXAMPLES if "pytest.mark" not in example)
pytestmark = pytest.mark.slow


def ran(folder: Path, *command: str, **settings: str) -> str:
    environment = {**os.environ, "SELFWIRE_HOME": str(folder), **settings}
    out, _ = wait_for(start("tests.processes:run_python", *command, cwd=folder, env=environment))
    return out


def test_the_program_prints_a_score(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    score, errors = ran(tmp_path, "program.py").split()
    assert 0 <= float(score) <= 1
    assert errors == "0"


def test_the_marked_tests_pass_and_tell_nobody(tmp_path: Path) -> None:
    (tmp_path / "test_team.py").write_text(TESTS)
    with LangSmithServer() as server:
        settings = {"LANGSMITH_TEST_TRACKING": "false", "LANGSMITH_ENDPOINT": server.url}
        assert "5 passed" in ran(tmp_path, "-m", "pytest", "-q", "test_team.py", **settings)
        assert server.asked == []


def test_with_tracking_every_marked_test_is_a_run_with_its_score_and_its_team(tmp_path: Path) -> None:
    (tmp_path / "test_team.py").write_text(TESTS)
    with LangSmithServer() as server:
        tracking = {"LANGSMITH_TRACING": "true", "LANGSMITH_TEST_TRACKING": "true"}
        settings = {**tracking, "LANGSMITH_ENDPOINT": server.url}
        assert "5 passed" in ran(tmp_path, "-m", "pytest", "-q", "test_team.py", **settings)
        server.settled()
    (session,) = server.sessions.values()
    roots = server.roots(session["name"])
    assert len(roots) == len(server.examples) == 4
    for root in roots:
        assert root["outputs"]["answer"]
        assert "team" in {run["name"] for run in server.below(root)}
        keys = {told["key"] for told in server.feedback if told["run_id"] == root["id"]}
        assert {"pass", "score", "solved", "error"} <= keys
    assert all(example["outputs"] is None for example in server.examples.values())
    assert server.unknown == []
