"""What a disturbed process does to itself before it runs the command line; its environment says what.

`tests.chaos_runs` starts it.
"""

import ctypes
import os
import random
import resource
import signal
import sqlite3
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from tests import processes

DISK = "SELFWIRE_TEST_DISK"
"""Environment variable with the most bytes that a file may have."""
COMMIT = "SELFWIRE_TEST_COMMIT"
"""Environment variable with the number of the commit in which the process is killed."""
CLOCK = "SELFWIRE_TEST_CLOCK"
"""Environment variable with the seed of a clock that jumps."""
READ_ONLY = "SELFWIRE_TEST_READ_ONLY"
"""Environment variable that makes the superuser heed the rights of files."""
JUMPS = (0.0, 3600.0, -3600.0, 86400.0 * 400, -86400.0 * 400)
OVERRIDE = ~0b110
"""Mask without the capabilities to write and to read files against their rights."""


def run_disturbed() -> None:
    """What `selfwire` runs, in a process that disturbs itself."""
    if size := os.environ.get(DISK):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), resource.RLIM_INFINITY))
    if number := os.environ.get(COMMIT):
        _die_in_commit(int(number))
    if seed := os.environ.get(CLOCK):
        _make_clock_jump(random.Random(seed))
    if os.environ.get(READ_ONLY) and os.geteuid() == 0:
        _heed_rights()
    processes.run_selfwire()


def _die_in_commit(number: int) -> None:
    """Kill this process before, in or after a commit of any SQLite file."""
    left, when = [number], random.Random(number).randrange(3)

    def commit(act: Callable[[], Any]) -> Any:
        left[0] -= 1
        if left[0]:
            return act()
        if when == 1:
            threading.Thread(target=_kill_soon).start()
        if when > 0:
            act()
        os.kill(os.getpid(), signal.SIGKILL)

    class MortalCursor(sqlite3.Cursor):
        def execute(self, sql: str, *values: Any) -> Any:
            act = super().execute
            return commit(lambda: act(sql, *values)) if sql == "COMMIT" else act(sql, *values)

    class MortalConnection(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> Any:
            act = super().execute
            return commit(lambda: act(sql, *values)) if sql == "COMMIT" else act(sql, *values)

        def commit(self) -> Any:
            return commit(super().commit)

        def cursor(self, *_: Any) -> Any:
            return super().cursor(MortalCursor)

    connect = sqlite3.connect
    sqlite3.connect = lambda *given, **named: connect(*given, factory=MortalConnection, **named)  # type: ignore[assignment]


def _kill_soon() -> None:
    time.sleep(random.uniform(0, 0.0002))
    os.kill(os.getpid(), signal.SIGKILL)


def _make_clock_jump(rng: random.Random) -> None:
    """Let the wall clock jump by hours and years, to and fro."""
    real = time.time
    time.time = lambda: real() + rng.choice(JUMPS)


def _heed_rights() -> None:
    libc, header = ctypes.CDLL(None, use_errno=True), struct.pack("=Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    assert libc.capget(header, data) == 0
    effective, permitted, *rest = struct.unpack("=6I", data.raw)
    left = struct.pack("=6I", effective & OVERRIDE & 0xFFFFFFFF, permitted & OVERRIDE & 0xFFFFFFFF, *rest)
    assert libc.capset(header, left) == 0
