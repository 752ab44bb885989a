"""What workers need and how tests find them: PostgreSQL, a Ray cluster, processes with a journal of a run open."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from threading import Event, Thread
from typing import Self

from selfwire.extras.cluster.shared_ledger import SERVER
from selfwire.runs.record import JOURNAL
from tests.journals import read_journal
from tests.processes import Process
from tests.ray_cluster import ray_cluster
from tests.store import postgres

FORK_SERVER = "multiprocessing.forkserver"
"""In the command line of the process that workers are forked from."""
NODES = (1, 1, 2)
"""Processors of the nodes of a Ray cluster."""
GRACE = 60.0
"""Seconds within which workers end whose driver is gone."""


class Machines(ExitStack):
    """A PostgreSQL server and a Ray cluster, each started when it is first needed."""

    @cached_property
    def postgres(self) -> postgres.Cluster:
        return self.enter_context(postgres.cluster())

    @cached_property
    def ray(self) -> str:
        """The cluster's address."""
        return self.enter_context(ray_cluster(*NODES))

    def __enter__(self) -> Self:
        return super().__enter__()

    def environment(self, *, on_server: bool) -> dict[str, str]:
        """What processes must know to share a budget, on the server or in a file."""
        return {SERVER: f"{self.postgres.address}/postgres" if on_server else ""}


def find_workers(home: Path, driver: int) -> dict[int, list[Path]]:
    """Workers of a run in a home by their process, each with the journals that it has open."""
    found: dict[int, list[Path]] = {pid: [] for pid in find_children(driver)}
    for fd in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            path, pid = Path(os.readlink(fd)), int(fd.parts[2])
            if pid != driver and path.name == JOURNAL and path.is_relative_to(home):
                found.setdefault(pid, []).append(path)
    return found


def find_children(pid: int) -> list[int]:
    """Worker processes that a process has started and that still run."""
    servers = [one for one in _list_children(pid) if FORK_SERVER in read_command(one)]
    return [one for server in servers for one in _list_children(server)]


def _list_children(pid: int) -> list[int]:
    found = list[int]()
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(one) for one in path.read_text().split()]
    return found


def read_command(pid: int) -> str:
    """The command line of a process; "" if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def is_alive(pid: int) -> bool:
    """Whether a process runs, and is no zombie."""
    with suppress(OSError):
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def kill_worker(home: Path, pid: int, driver: int) -> int:
    """Kill -9; returns how many of its calls were under way, which are counted while the driver stands still."""
    with suppress(ProcessLookupError):
        os.kill(driver, signal.SIGSTOP)
        try:
            journals = find_workers(home, driver).get(pid, [])
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not is_alive(pid))
            return count_open_calls(journals)
        finally:
            os.kill(driver, signal.SIGCONT)
    return 0


def wait_for_workers(home: Path, driver: int) -> list[int]:
    """Wait until the workers of a driver that is gone have ended; those that have not in time."""
    end = time.monotonic() + GRACE
    while left := [*find_workers(home, driver)]:
        if time.monotonic() > end:
            return left
        time.sleep(0.05)
    return []


def count_open_calls(journals: Iterator[Path] | list[Path]) -> int:
    """Model calls that were reserved, and neither settled nor failed in any of these journals."""
    reserved, others = set[str](), set[str]()
    for path in journals:
        with suppress(FileNotFoundError), closing(read_journal(path)) as journal:
            for row in asyncio.run(journal.rows("model")):
                name = f"{row.scope.model_dump_json()} {row.request} {row.attempt}"
                (reserved if row.state == "reserved" else others).add(name)
    return len(reserved - others)


def wait_until(holds: Callable[[], bool], process: Process | None = None, seconds: float = 300) -> None:
    """Wait until something holds, as long as a process runs that brings it about."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert process is None or process.poll() is None, process.errors.read_text()
        assert time.monotonic() < deadline, process.errors.read_text() if process else ""
        time.sleep(0.01)


@contextmanager
def count_lost_seconds() -> Iterator[Callable[[], float]]:
    """Count the seconds for which a thread that had to run had no processor, as others had them."""
    ended, lost = Event(), [0.0]

    def look() -> None:
        before = time.monotonic()
        while not ended.wait(0.01):
            now = time.monotonic()
            lost[0] += max(0.0, now - before - 0.015)
            before = now

    thread = Thread(target=look)
    thread.start()
    try:
        yield lambda: lost[0]
    finally:
        ended.set()
        thread.join()
