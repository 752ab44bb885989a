"""A Ray cluster as the place of workers: the same rows, and nodes may die."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from selfwire.evals.evaluation.rows import read_results
from selfwire.runtime.models import make_chat_model
from tests import kills, processes
from tests.commands import call
from tests.ray_cluster import ray_cluster
from tests.runs.evaluation.test_workers import to_bytes, wait_until
from tests.wire.server import WireServer, served

pytest.importorskip("ray", exc_type=ImportError)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ray_cluster(1, 1, 1) as found:
        yield found


def find_tasks(address: str) -> list[int]:
    """Processes of a cluster that run a task of ours."""
    return [
        int(one.parent.name)
        for one in Path("/proc").glob("[0-9]*/cmdline")
        if read(one).startswith("ray::run_on_node") and address in read(Path(f"/proc/{get_parent(one)}/cmdline"))
    ]


def read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def get_parent(cmdline: Path) -> str:
    return read(cmdline.with_name("stat")).rpartition(") ")[2].split(" ")[1]


def test_all_methods_and_baselines_have_the_same_rows_on_a_cluster(tmp_path: Path, address: str) -> None:
    given = ("compare", "all", "--benchmark", "archive", "--tasks", "2", "--evolve", "none")
    kills.call(tmp_path / "one", *given, "--workers", "1")
    cluster = kills.start(tmp_path / "ray", *given, "--executor", "ray", "--ray-address", address)
    out, _ = processes.wait_for(cluster)
    assert "run compare-archive" in out
    one, ray = (read_results(home / "runs" / kills.run_of(home) / "results.jsonl") for home in tmp_path.iterdir())
    assert len(one[1]) == 2 * len(one[0].contestants)
    assert to_bytes(ray[1]) == to_bytes(one[1])


def test_kills_on_a_cluster_repeat_no_more_than_was_in_flight(tmp_path: Path, address: str) -> None:
    at_once, workers = 2, 2
    with WireServer(served(make_chat_model("offline"))) as server:
        model = ("--model", "openai:gpt-4o-mini", "--base-url", server.url, "--embedder", "hashing")
        sizes = ("--benchmark", "archive", "--tasks", "24", "--concurrency", str(at_once))
        given = ("eval", "self-refine", *sizes, *model)
        whole, home = tmp_path / "whole", tmp_path / "killed"
        processes.wait_for(kills.start(whole, *given))
        needed, before = len(server.asked), server.replied
        on_ray = ("--executor", "ray", "--ray-address", address, "--workers", str(workers))
        process = kills.start(home, *given, *on_ray)
        wait_until(lambda: server.replied >= before + needed // 4)
        os.kill(find_tasks(address)[0], signal.SIGKILL)
        wait_until(lambda: server.replied >= before + needed // 2)
        process.kill()
        process.communicate()
        wait_until(lambda: not find_tasks(address), 60)
        processes.wait_for(kills.start(home, "eval", "--resume", kills.run_of(home), "--workers", "2"))
        extra = len(server.asked) - 2 * needed
    assert 0 <= extra <= at_once * (1 + workers)
    expected, found = (read_results(one / "runs" / kills.run_of(one) / "results.jsonl") for one in (whole, home))
    assert to_bytes(found[1]) == to_bytes(expected[1])


def test_without_a_cluster_the_command_says_how_to_start_one(tmp_path: Path) -> None:
    given = ("eval", "single", "--benchmark", "archive", "--tasks", "2", "--executor", "ray")
    assert "start one with `ray start --head`" in call(tmp_path, *given, code=2).output
    assert not list(tmp_path.iterdir())
