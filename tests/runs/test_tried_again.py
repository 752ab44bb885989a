"""Test tasks of a finished evolution that ended as errors are tried again, and nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest

from selfwire.graphs.evolve import EvolutionConfig
from selfwire.models.providers import make_chat_model
from selfwire.runs.evolution import load_tasks
from selfwire.runs.spec import EvolveSpec, Sizes
from tests.commands import call
from tests.wire.server import WireServer, refused, served

SIZES = ("--train", "2", "--batch", "2", "--gate", "off", "--gate-size", "0", "--test", "4", "--iterations", "1")


@pytest.mark.slow
def test_resuming_a_finished_evolution_tries_its_failed_test_tasks_again(tmp_path: Path) -> None:
    sizes, evolution = Sizes(train=2, gate=0, test=4), EvolutionConfig(name="w", gate="off")
    victim = load_tasks(EvolveSpec(benchmark="archive", sizes=sizes, evolution=evolution))[1].test[1].input

    def concerned(body: dict[str, Any]) -> bool:
        return any(victim in str(message["content"]) for message in body["messages"])

    def called(*arguments: str) -> str:
        return call(tmp_path, "evolve", *arguments).stdout

    with WireServer(served(make_chat_model("offline"))) as server:
        server.picky = lambda body: refused() if concerned(body) else None
        model = ("--model", "openai:local", "--base-url", server.url, "--embedder", "hashing", "--retries", "0")
        first = called("hiva", "--benchmark", "archive", "--no-baselines", *SIZES, *model)
        [run] = re.findall(r"run (hiva-archive-\w+):", first)
        assert "1 of 4 test tasks ended as errors and count for neither side" in " ".join(first.split())
        assert f"selfwire evolve --resume {run}" in first

        server.picky, before = (lambda body: None), len(server.asked)
        again = called("--resume", run)
        sent = server.asked[before:]
    assert "count for neither side" not in again
    assert f"was finished already: {len(sent)} calls went to tasks that had ended as errors" in " ".join(again.split())
    assert sent
    assert all(concerned(one.body) for one in sent)
