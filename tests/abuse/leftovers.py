"""Leftovers of programs on this machine: processes, namespaces, open files and mounts."""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from selfwire.tools.sandbox.monty import stop_idle_workers

SUBREAPER = 36  # of prctl(2)


def count_leftovers(act: Callable[[], object]) -> Mapping[str, int]:
    """Leftovers of an act by kind, once Monty's workers that wait have ended; empty without Linux's /proc."""
    if sys.platform != "linux":
        return {}
    process = ctypes.CDLL(None)
    process.prctl(SUBREAPER, 1)  # processes that lost their parent become ours
    stop_idle_workers()
    before = _take_stock()
    act()
    stop_idle_workers()
    for _ in range(50):  # the kernel takes them away in its own time
        if (after := _take_stock()) == before:
            break
        time.sleep(0.1)
    process.prctl(SUBREAPER, 0)
    return {kind: len(after[kind] - before[kind]) for kind in before}


def _take_stock() -> dict[str, set[str]]:
    """Processes of ours, their namespaces, open files and mounts."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    processes, waiting = {str(os.getpid())}, [str(os.getpid())]
    while waiting:
        with suppress(OSError):  # it ends just now
            for thread in Path("/proc", waiting.pop(), "task").iterdir():
                children = (thread / "children").read_text().split()
                processes.update(children)
                waiting += children
    return {
        "processes": processes,
        "namespaces": {namespace for process in processes for namespace in _read_namespaces(process)},
        "open files": {path.name for path in Path("/proc/self/fd").iterdir()},
        "mounts": set(Path("/proc/self/mountinfo").read_text().splitlines()),
    }


def _read_namespaces(process: str) -> Iterator[str]:
    with suppress(OSError):  # it ends just now
        for path in Path("/proc", process, "ns").iterdir():
            yield os.readlink(path)
