"""A Ray cluster as the place of workers: the same rows, and nodes may die."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from selfwire.cli.commands import STOPPED
from selfwire.evals.table import read_results
from selfwire.models.providers import make_chat_model
from tests import kills, processes
from tests.chaos_kinds import read_spend
from tests.commands import call
from tests.extras.cluster.test_workers import to_bytes
from tests.machines import wait_until
from tests.ray_cluster import ray_cluster
from tests.store import postgres
from tests.wire.server import WireServer, served

pytest.importorskip("ray", exc_type=ImportError)

pytestmark = pytest.mark.slow
METHODS = ("hiva", "hera", "tacomas", "dytopo", "evomas")
SIZES = ("--benchmark", "archive", "--evolve", "none")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ray_cluster(1, 1, 1) as found:  # processors by name only
        yield found


@pytest.fixture(scope="module")
def budget() -> Iterator[str]:
    """Where a cluster shares budgets."""
    with postgres.cluster() as found:
        yield f"{found.address}/postgres"


def find_tasks(address: str) -> list[int]:
    """Processes of a cluster that run a task of ours."""
    return [
        int(one.parent.name)
        for one in Path("/proc").glob("[0-9]*/cmdline")
        if read(one).startswith("ray::run_on_node") and address in read(Path(f"/proc/{get_parent(one)}/cmdline"))
    ]


def kill_a_worker(address: str) -> None:
    wait_until(lambda: bool(find_tasks(address)))
    os.kill(find_tasks(address)[0], signal.SIGKILL)


def kill_a_node(address: str) -> None:
    """SIGKILL of the node of a task, with all that runs there, but not of the first node."""

    def find() -> list[int]:
        first = min(find_nodes(address))
        nodes = (int(get_parent(Path(f"/proc/{one}/cmdline")) or first) for one in find_tasks(address))
        return [one for one in nodes if one != first]

    wait_until(lambda: bool(find()))
    os.kill(find()[0], signal.SIGKILL)


def find_nodes(address: str) -> list[int]:
    """The process of each node of a cluster."""
    return [
        int(one.parent.name)
        for one in Path("/proc").glob("[0-9]*/cmdline")
        if Path(read(one).partition("\0")[0]).name == "raylet" and address in read(one)
    ]


def read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def get_parent(cmdline: Path) -> str:
    return read(cmdline.with_name("stat")).rpartition(") ")[2].split(" ")[1]


def test_all_methods_have_the_same_rows_on_a_cluster_whose_budget_stops_them(
    tmp_path: Path, address: str, budget: str
) -> None:
    given, one, home = ("compare", *METHODS, "self-refine", *SIZES, "--tasks", "1"), tmp_path / "one", tmp_path / "ray"
    kills.call(one, *given, "--workers", "1")
    needed = read_spend(one)
    on_ray = ("--executor", "ray", "--ray-address", address, "--budget-calls")
    cluster = kills.start(home, *given, *on_ray, str(needed[0] // 2), SELFWIRE_BUDGET=budget)
    processes.wait_for(cluster, STOPPED)
    assert needed[0] // 4 < read_spend(home)[0] <= needed[0] // 2
    resumed = ("compare", "--resume", kills.run_of(home), *on_ray, str(needed[0]))
    out, _ = processes.wait_for(kills.start(home, *resumed, SELFWIRE_BUDGET=budget))
    assert "run compare-archive" in out
    assert read_spend(home) == needed
    alone, ray = (read_results(folder / "runs" / kills.run_of(folder) / "results.jsonl") for folder in (one, home))
    assert len(alone[1]) == len(alone[0].systems)
    assert to_bytes(ray[1]) == to_bytes(alone[1])


def test_a_node_that_dies_repeats_no_more_than_was_in_flight(tmp_path: Path) -> None:
    at_once, workers = 2, 3
    with WireServer(served(make_chat_model("offline"))) as server, ray_cluster(1, 2) as address:
        sizes = ("--benchmark", "archive", "--tasks", "16", "--concurrency", str(at_once))
        given = ("eval", "self-refine", *sizes, *kills.name_model(server))
        whole, home = tmp_path / "whole", tmp_path / "killed"
        processes.wait_for(kills.start(whole, *given))
        needed, before = len(server.asked), server.replied
        on_ray = ("--executor", "ray", "--ray-address", address, "--workers", str(workers))
        process = kills.start(home, *given, *on_ray)
        wait_until(lambda: server.replied >= before + needed // 4, process)
        kill_a_node(address)
        wait_until(lambda: server.replied >= before + needed // 2, process)
        process.kill()
        process.communicate()
        wait_until(lambda: not find_tasks(address))
        processes.wait_for(kills.start(home, "eval", "--resume", kills.run_of(home), "--workers", "2"))
        extra = len(server.asked) - 2 * needed
    assert 0 <= extra <= at_once * (2 + workers)
    expected, found = (read_results(one / "runs" / kills.run_of(one) / "results.jsonl") for one in (whole, home))
    assert to_bytes(found[1]) == to_bytes(expected[1])


def test_an_evolution_on_a_cluster_ends_the_same_whoever_is_killed(tmp_path: Path, address: str) -> None:
    at_once, workers, home = 2, 2, tmp_path / "killed"
    sizes = (*kills.TINY, "--concurrency", str(at_once))
    on_ray = ("--executor", "ray", "--ray-address", address, "--workers", str(workers))
    with WireServer(served(make_chat_model("offline"))) as server:
        expected, needed = kills.whole(tmp_path / "whole", server, sizes)
        process = kills.start(home, *kills.beginning(server, sizes), *on_ray)
        wait_until(lambda: server.replied >= needed + needed // 4, process)
        kill_a_worker(address)
        wait_until(lambda: server.replied >= needed + needed // 2, process)
        process.kill()
        process.communicate()
        wait_until(lambda: not find_tasks(address))
        processes.wait_for(kills.start(home, *kills.resumption(home), *on_ray))
        extra = len(server.asked) - 2 * needed
    assert 0 <= extra <= at_once * (1 + workers)
    assert asyncio.run(kills.result(home)) == expected


def test_without_a_cluster_the_command_says_how_to_start_one(tmp_path: Path) -> None:
    given = ("eval", "single", "--benchmark", "archive", "--tasks", "2", "--executor", "ray")
    assert "start one with `ray start --head`" in call(tmp_path, *given, code=2).output
    assert not list(tmp_path.iterdir())
