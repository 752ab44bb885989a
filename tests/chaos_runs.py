"""Disturbs evolutions at random and resumes them: `python -m tests.chaos_runs --minutes 15 --seed 1` prints a table.

An evolution runs through the real command line and the real OpenAI client against a local server that serves the
offline model. It is disturbed some times, each time in another way, and then resumed to its end. After that its result
is that of the run that nobody disturbed, no more requests were paid again than were in flight, no process is left, and
the journal can be opened.
"""

import argparse
import asyncio
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from selfwire.core.errors import SelfwireError
from selfwire.runs.folders import JOURNAL
from selfwire.runtime.journal import Journal
from selfwire.runtime.models import make_chat_model
from tests import kills, processes
from tests.wire.server import Fault, WireServer, broken, cut_off, rate_limited, served

METHODS = ("hiva", "hera", "dytopo")
DISK = "SELFWIRE_TEST_DISK"
"""Environment variable with the most bytes that a file of a process may have."""
PATIENT = ("--retries", "8")
STORMS: tuple[Callable[[], Fault], ...] = (lambda: rate_limited(0.02), broken, cut_off)


class Outcome(NamedTuple):
    """A disturbed run: its seed, method and disturbances, requests that were paid again, and what is wrong with it."""

    seed: int
    method: str
    disturbances: tuple[str, ...]
    again: int
    in_flight: int
    faults: tuple[str, ...]


class Chaos:
    """One run that is disturbed."""

    def __init__(self, home: Path, server: WireServer, method: str, rng: random.Random) -> None:
        self.home, self.server, self.method, self.rng = home, server, method, rng
        self.in_flight, self.injected, self.faults = 0, 0, list[str]()

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments that begin the run, or resume it if it had begun; a run that had not is begun anew."""
        if self.journal_exists():
            if asyncio.run(kills.has_begun(self.home)):
                return kills.resumption(self.home)
            shutil.rmtree(self.home)
        return (*kills.beginning(self.server, kills.TINY, (self.method,)), *PATIENT)

    def journal_exists(self) -> bool:
        """Whether a journal was made."""
        return any((self.home / "runs").glob(f"*/{JOURNAL}"))

    def start(self, **environment: str) -> processes.Process:
        """Begin the run, or resume it."""
        env = {**os.environ, "SELFWIRE_HOME": str(self.home), **environment}
        return processes.start("tests.chaos_runs:run_limited", *self.arguments, env=env)

    def stop(self, process: processes.Process) -> None:
        """Kill a process and count what was in flight."""
        process.kill()
        process.communicate()
        if self.journal_exists():
            self.in_flight += asyncio.run(kills.open_calls(self.home))

    def wait_for_replies(self, process: processes.Process, more: int) -> None:
        """Wait until the server has given some replies, or the process has ended."""
        until = self.server.replied + more
        while self.server.replied < until and process.poll() is None:
            time.sleep(0.002)

    def kill_early(self) -> None:
        """SIGKILL in the first 100 ms."""
        process = self.start()
        time.sleep(self.rng.uniform(0, 0.1))
        self.stop(process)

    def kill_late(self) -> None:
        """SIGKILL after some replies and some milliseconds."""
        process = self.start()
        self.wait_for_replies(process, self.rng.randint(1, 25))
        time.sleep(self.rng.uniform(0, 0.02))
        self.stop(process)

    def freeze(self) -> None:
        """SIGSTOP for a while, and then SIGKILL."""
        process = self.start()
        self.wait_for_replies(process, self.rng.randint(1, 15))
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.1, 1.0))
        process.send_signal(signal.SIGCONT)
        self.wait_for_replies(process, self.rng.randint(1, 5))
        self.stop(process)

    def storm(self) -> None:
        """A provider that refuses, breaks and cuts off its replies, and then SIGKILL."""
        faults = [self.rng.choice(STORMS)() for _ in range(self.rng.randint(1, 12))]
        self.server.faults.extend(faults)
        process = self.start()
        self.wait_for_replies(process, len(faults) + self.rng.randint(0, 10))
        self.stop(process)
        self.injected += len(faults) - len(self.server.faults)
        self.server.faults.clear()

    def fill_disk(self) -> None:
        """No file may grow beyond some size: it ends with an error in words."""
        process = self.start(**{DISK: str(self.rng.choice((20_000, 60_000, 150_000)))})
        _, errors = process.communicate()
        if "Traceback" in errors:
            self.faults.append(f"a full disk is a traceback: {errors.strip().splitlines()[-1]}")
        if self.journal_exists():
            self.in_flight += asyncio.run(kills.open_calls(self.home))

    def run_twice(self) -> None:
        """A second process on the same run is refused while the first one holds it."""
        first = self.start()
        self.wait_for_replies(first, self.rng.randint(2, 8))
        if first.poll() is None and self.journal_exists():
            second = self.start()
            _, errors = second.communicate()
            if second.returncode == 0 or "Traceback" in errors:
                self.faults.append(f"a second process was not refused in words: {errors.strip()[-200:]}")
        self.stop(first)

    def check(self, expected: kills.Result) -> Iterator[str]:
        """What is wrong after the last resume."""
        found = asyncio.run(kills.result(self.home))
        yield from (f"other {name}" for name in found._fields if getattr(found, name) != getattr(expected, name))
        try:
            Journal.open(self.home / "runs" / kills.run_of(self.home) / JOURNAL).close()
        except SelfwireError as error:
            yield f"the journal is not free: {error}"
        yield from (f"process {one} is left" for one in processes.children())


DISTURBANCES: dict[str, Callable[[Chaos], None]] = {
    "kill<100ms": Chaos.kill_early,
    "kill": Chaos.kill_late,
    "stop": Chaos.freeze,
    "storm": Chaos.storm,
    "disk": Chaos.fill_disk,
    "twice": Chaos.run_twice,
}


def run_limited() -> None:
    """What `selfwire` runs, with files of a limited size if the environment says so."""
    if size := os.environ.get(DISK):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), resource.RLIM_INFINITY))
    processes.run_selfwire()


def disturb(folder: Path, server: WireServer, seed: int, whole: tuple[kills.Result, int], method: str) -> Outcome:
    """Disturb one run and resume it to its end; everything follows from the seed, except when exactly it happens."""
    rng, (expected, requests) = random.Random(seed), whole
    chaos, asked = Chaos(folder / f"{method}-{seed}", server, method, rng), len(server.asked)
    kinds = tuple(rng.choice(list(DISTURBANCES)) for _ in range(rng.randint(1, 4)))
    for kind in kinds:
        DISTURBANCES[kind](chaos)
    last = chaos.start()
    _, errors = last.communicate()
    if last.returncode != 0:
        wrong = [f"it ended with {last.returncode}: {errors.strip()[-300:]}"]
        return Outcome(seed, method, kinds, 0, chaos.in_flight, tuple(wrong))
    again = len(server.asked) - asked - chaos.injected - requests
    wrong = [*chaos.faults, *chaos.check(expected)]
    if again > chaos.in_flight:
        wrong.append(f"{again} requests again, {chaos.in_flight} in flight")
    return Outcome(seed, method, kinds, again, chaos.in_flight, tuple(wrong))


def disturb_all(seeds: Iterator[int], until: Callable[[int], bool]) -> Iterator[Outcome]:
    """Disturb runs of all methods in turn until it is enough."""
    with tempfile.TemporaryDirectory() as name, WireServer(served(make_chat_model("offline"))) as server:
        folder, whole = Path(name), dict[str, tuple[kills.Result, int]]()
        for number, seed in enumerate(seeds):
            if until(number):
                return
            method = METHODS[number % len(METHODS)]
            if method not in whole:
                whole[method] = kills.whole(folder / method, server, kills.TINY, [method])
            yield disturb(folder, server, seed, whole[method], method)


def main() -> None:
    """Print a row per run and a summary; the exit status is 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    end, kinds, wrong, runs = time.monotonic() + 60 * given.minutes, Counter[str](), 0, 0
    for one in disturb_all(iter(range(given.seed, given.seed + 10**6)), lambda _: time.monotonic() > end):
        kinds.update(one.disturbances)
        runs, wrong = runs + 1, wrong + bool(one.faults)
        verdict = "; ".join(one.faults) or "equal"
        kills.told(
            f"seed {one.seed:4} {one.method:7} again {one.again} of {one.in_flight} in flight  "
            f"{', '.join(one.disturbances)}: {verdict}"
        )
    kills.told(f"{runs - wrong} of {runs} equal; {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
