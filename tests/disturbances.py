"""Ways to disturb a run: `DISTURBANCES` by name."""

import os
import random
import signal
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from selfwire.core.errors import SelfwireError
from selfwire.runs.record import JOURNAL, list_run_names
from selfwire.store.journal import Journal
from selfwire.store.journal_file import is_held
from tests import machines, processes
from tests.chaos_child import CLOCK, COMMIT, DISK, READ_ONLY
from tests.chaos_kinds import Kind, Result, count_open_calls
from tests.machines import Machines
from tests.wire.proxy import SPOILS, Proxy
from tests.wire.server import Fault, WireServer, broken, cut_off, lying, rate_limited

STORMS: tuple[Callable[[], Fault], ...] = (lambda: rate_limited(0.02), broken, cut_off)
USAGES: tuple[Any, ...] = (None, {}, [], "much", -1, 10**30, 1.5)
"""What a lying provider gives as a count of tokens, or as the whole of its counts."""
NEIGHBOUR = ("eval", "single", "--benchmark", "archive", "--tasks", "3")
GRACE = 5.0
"""Seconds within which processes end whose parent was killed."""


def _show_difference(found: Any, expected: Any) -> str:
    if not isinstance(found, Counter):
        return str(found)
    return f"{dict(found - expected)} in place of {dict(expected - found)}"


class Disturbed:
    """One run that is disturbed.

    Attributes:
        in_flight: calls without a recorded reply, at all kills.
        injected: requests that the server or the proxy did not answer well.
        lied: whether the provider gave wrong counts, so that the spend is another.
        kills: by what was killed.
        asked: requests before it began.
        unsure: calls that workers held when they were killed, at most.
    """

    def __init__(
        self,
        home: Path,
        server: WireServer,
        proxy: Proxy,
        shared: Machines,
        kind: Kind,
        rng: random.Random,
        seconds: float = 0.0,
        requests: int = 0,
    ) -> None:
        self.home, self.server, self.proxy, self.kind, self.rng, self.seconds = home, server, proxy, kind, rng, seconds
        self.shared, self.requests, self.asked = shared, requests, len(server.asked)
        self.in_flight = self.injected = self.unsure = 0
        self.kills = Counter[str]()
        self.faults: list[str] = []
        self.lied = False

    @property
    def run(self) -> str | None:
        """Its name; None as long as there is none."""
        names = list_run_names(self.home)
        return names[0] if names else None

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments that begin the run, or resume it if it has begun."""
        self.home.mkdir(exist_ok=True)
        if self.kind.resumes and self.run:
            return self.kind.resume(self.home, self.run)
        return self.kind.begin(self.proxy.url, self.home)

    def start(self, **environment: str) -> processes.Process:
        """Begin the run, or resume it."""
        return self.call(self.arguments, environment)

    def call(self, arguments: Sequence[str], environment: Mapping[str, str]) -> processes.Process:
        """Start the command line in the home."""
        env = {**os.environ, "SELFWIRE_HOME": str(self.home), **environment}
        return processes.start("tests.chaos_child:run_disturbed", *arguments, env=env)

    def stop(self, process: processes.Process) -> None:
        """Kill a process and count what was in flight."""
        process.kill()
        self.end(process)

    def end(self, process: processes.Process) -> str:
        """Wait for the end of a process, and count what was in flight if it was killed; what it said as errors."""
        _, errors = process.communicate()
        self.kills["driver"] += process.returncode == -signal.SIGKILL
        if left := machines.wait_for_workers(self.home, process.pid):
            self.faults.append(f"workers {left} have not ended")
        self.in_flight += count_open_calls(self.home) if self.kind.wired else 0
        return errors

    def wait(self, process: processes.Process, replies: int) -> None:
        """Wait until the server has given some replies; for about as long if there is no server."""
        until, end = self.server.replied + replies, time.monotonic() + replies / 25 * self.seconds
        while process.poll() is None:
            if self.server.replied >= until if self.kind.wired else time.monotonic() > end:
                return
            time.sleep(0.002)

    def kill_early(self) -> None:
        """SIGKILL in the first 100 ms."""
        process = self.start()
        time.sleep(self.rng.uniform(0, 0.1))
        self.stop(process)

    def kill_late(self) -> None:
        """SIGKILL after some replies and some milliseconds."""
        process = self.start()
        self.wait(process, self.rng.randint(1, 25))
        time.sleep(self.rng.uniform(0, 0.02))
        self.stop(process)

    def kill_in_commit(self) -> None:
        """SIGKILL before, in or after some commit."""
        self.end(self.start(**{COMMIT: str(self.rng.randint(1, self.rng.choice((20, 200))))}))

    def freeze(self, least: float = 0.1, most: float = 1.0) -> None:
        """SIGSTOP for a while, and then SIGKILL."""
        process = self.start()
        self.wait(process, self.rng.randint(1, 15))
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(least, most))
        process.send_signal(signal.SIGCONT)
        self.wait(process, self.rng.randint(1, 5))
        self.stop(process)

    def freeze_long(self) -> None:
        """SIGSTOP for a minute."""
        self.freeze(60, 61)

    def storm(self) -> None:
        """A provider that refuses, breaks and cuts off its replies, and then SIGKILL."""
        faults = [self.rng.choice(STORMS)() for _ in range(self.rng.randint(1, 12))]
        self.server.faults.extend(faults)
        process = self.start()
        self.wait(process, len(faults) + self.rng.randint(0, 10))
        self.stop(process)
        self.injected += len(faults) - len(self.server.faults)
        self.server.faults.clear()

    def spoil(self) -> None:
        """Replies that come in drops, by halves, with a wrong length, as garbage or not at all, and then SIGKILL."""
        before = self.proxy.spoiled
        self.proxy.spoils.extend(self.rng.choice(SPOILS) for _ in range(self.rng.randint(1, 8)))
        process = self.start()
        self.wait(process, self.rng.randint(1, 20))
        self.stop(process)
        self.proxy.spoils.clear()
        self.injected += self.proxy.spoiled - before

    def lie(self) -> None:
        """A provider that gives wrong counts of tokens, and then SIGKILL."""
        for _ in range(self.rng.randint(1, 6)):
            counts = {name: self.rng.choice(USAGES) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
            self.server.faults.append(lying(usage=self.rng.choice((counts, counts, *USAGES))))
        lies = len(self.server.faults)
        process = self.start()
        self.wait(process, lies + self.rng.randint(0, 10))
        self.stop(process)
        used = lies - len(self.server.faults)
        self.lied, self.injected = self.lied or used > 0, self.injected + used
        self.server.faults.clear()

    def fill_disk(self) -> None:
        """No file may grow beyond some size: it ends with an error in words."""
        self._end_in_words(self.start(**{DISK: str(self.rng.choice((20_000, 60_000, 150_000)))}), "a full disk")

    def write_protect(self) -> None:
        """Nothing in the home may be written: it ends with an error in words."""
        with _read_only(self.home):
            process = self.start(**{READ_ONLY: "1"})
            self._end_in_words(process, "a read-only home")
        if self.kind.resumes and process.returncode == 0:
            self.faults.append("a read-only home was written to")

    def _end_in_words(self, process: processes.Process, what: str) -> None:
        errors = self.end(process)
        if "Traceback" in errors:
            self.faults.append(f"{what} is a traceback: {errors.strip().splitlines()[-1]}")

    def lock(self) -> None:
        """Another program locks a file for a while; the run waits, and then SIGKILL."""
        process = self.start()
        self.wait(process, self.rng.randint(1, 8))
        files = sorted(self.home.rglob("*.sqlite"))
        if files and process.poll() is None:
            with closing(sqlite3.connect(self.rng.choice(files), timeout=5, isolation_level=None)) as other:
                other.execute("BEGIN EXCLUSIVE")
                time.sleep(self.rng.uniform(0.1, 2))
                other.execute("ROLLBACK")
        self.wait(process, self.rng.randint(1, 8))
        if process.poll() not in (None, 0):
            self.faults.append(f"a locked file ended it: {process.communicate()[1].strip()[-200:]}")
        self.stop(process)

    def jump(self) -> None:
        """The clock jumps to and fro, and then SIGKILL."""
        process = self.start(**{CLOCK: str(self.rng.random())})
        self.wait(process, self.rng.randint(5, 20))
        if process.poll() not in (None, 0):
            self.faults.append(f"a clock that jumps ended it: {process.communicate()[1].strip()[-200:]}")
        self.stop(process)

    def run_twice(self) -> None:
        """A second process on the same run is refused while the first one holds it."""
        first = self.start()
        self.wait(first, self.rng.randint(2, 8))
        if first.poll() is None and self.kind.resumes and self.run and is_held(self.journal):
            second = self.start()
            _, errors = second.communicate()
            if first.poll() is None and (second.returncode == 0 or "Traceback" in errors):
                self.faults.append(f"a second process was not refused in words: {errors.strip()[-200:]}")
        self.stop(first)

    def run_beside(self) -> None:
        """Another run in the same home, and commands that read, while it runs; then SIGKILL."""
        process = self.start()
        self.wait(process, self.rng.randint(1, 8))
        env, before = {**os.environ, "SELFWIRE_HOME": str(self.home)}, {*list_run_names(self.home)}
        if before or not self.kind.resumes:
            for command in (NEIGHBOUR, ("runs",), ("history",)):
                processes.wait_for(processes.start_selfwire(*command, env=env))
            others = [name for name in list_run_names(self.home) if name not in before]
            processes.wait_for(processes.start_selfwire("clean", *others, "--yes", env=env))
        self.stop(process)

    @property
    def journal(self) -> Path:
        """Of the run."""
        assert self.run
        return self.home / "runs" / self.run / JOURNAL

    def check(self, expected: Result, printed: str) -> Iterator[str]:
        """What is wrong after the last resume."""
        found = self.kind.read(self.home, printed)
        unsure = ("spend", "rows", "trajectories") if self.lied else ()  # all hold counts of tokens
        for name in expected:
            if found[name] != expected[name] and name not in unsure:
                yield f"other {name}: {_show_difference(found[name], expected[name])[:2000]}"
        for path in self.home.rglob("*.sqlite"):
            try:
                if path.name == JOURNAL:
                    Journal.open(path).close()
                with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
                    other.execute("BEGIN EXCLUSIVE")
            except (SelfwireError, sqlite3.Error) as error:
                yield f"{path.name} is not free: {error}"
        yield from (f"process {one} is left" for one in self.processes_left())

    def processes_left(self) -> list[int]:
        """Processes that were started for the run, directly or by such a one, and have not ended in time."""
        end = time.monotonic() + GRACE
        while left := [*processes.children(), *_find_processes(self.home)]:
            if time.monotonic() > end:
                return left
            time.sleep(0.05)
        return []


def _find_processes(home: Path) -> Iterator[int]:
    """Processes that were executed, and not only forked, with this home in their environment."""
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"SELFWIRE_HOME={home}\0".encode() in file.read_bytes():
                yield int(file.parent.name)
        except OSError:  # it has ended, or is somebody else's
            continue


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    """Take the right to write from a folder and all in it."""
    folder.mkdir(exist_ok=True)
    rights = {path: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
    for path, mode in rights.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in rights.items():
            path.chmod(mode)


DISTURBANCES: dict[str, Callable[[Disturbed], None]] = {
    "kill<100ms": Disturbed.kill_early,
    "kill": Disturbed.kill_late,
    "commit": Disturbed.kill_in_commit,
    "stop": Disturbed.freeze,
    "stop 60 s": Disturbed.freeze_long,
    "storm": Disturbed.storm,
    "spoil": Disturbed.spoil,
    "lie": Disturbed.lie,
    "disk": Disturbed.fill_disk,
    "read-only": Disturbed.write_protect,
    "lock": Disturbed.lock,
    "clock": Disturbed.jump,
    "twice": Disturbed.run_twice,
    "beside": Disturbed.run_beside,
}
KILLS = ("kill<100ms", "kill", "commit")
"""Disturbances that are a kill and no more."""
LONG = ("stop 60 s",)
"""Disturbances that take long, and so are rare."""
