"""The cost of a program in each sandbox that works here, beside a bare subprocess, and what many of them leave behind.

Cold includes what is done once per process: trying, and the start of a worker. Bubblewrap starts anew for each program;
Monty's workers serve again.
"""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.measuring import Elapsed, Row, measure_by_turns
from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Execution, Sandbox
from selfwire.tools.sandbox.bubblewrap import find_working_bubblewrap
from selfwire.tools.sandbox.monty import find_working_monty, stop_idle_workers

CODE = "print(sum(range(100)))"
SOURCE = "def tool_function(n):\n    return sum(range(n))"
BARE = "a bare subprocess"
SUBREAPER = 36  # of prctl(2)
Act = Callable[[], Awaitable[None]]


def measure_sandboxes(rounds: int = 15, at_once: int = 200) -> list[Row]:
    """Measure; sandboxes that do not work here are left out."""
    acts: dict[str, Act] = {BARE: _run_bare}
    colds: dict[str, Act] = {}
    for find in (find_working_bubblewrap, find_working_monty):
        with suppress(ConfigError):
            sandbox: Sandbox = find()
            acts |= {f"{sandbox.name}, run": _make_run(sandbox), f"{sandbox.name}, call": _make_call(sandbox)}
            colds[f"{sandbox.name}, run, cold"] = _make_cold(find, _make_run(sandbox))
    warm = measure_by_turns(*acts.values(), rounds=rounds)
    cold = measure_by_turns(*colds.values(), rounds=max(rounds // 3, 1))
    rows = [
        Row(what=name, value=took.wall * 1e3, unit="ms")
        for name, took in [*zip(acts, warm, strict=True), *zip(colds, cold, strict=True)]
    ]
    for name, act in acts.items():
        per_second = asyncio.run(_measure_throughput(act, at_once))
        rows.append(Row(what=f"{name}: {at_once} at once", value=per_second, unit="per second"))
    return [*rows, *(_measure_leftovers(name, act, at_once) for name, act in acts.items() if name != BARE)]


def _make_run(sandbox: Sandbox) -> Act:
    async def act() -> None:
        _check((done := await sandbox.run(CODE)).stdout == "4950\n", done)

    return act


def _make_call(sandbox: Sandbox) -> Act:
    async def act() -> None:
        _check((done := await sandbox.call(SOURCE, {"n": 100})).result == "4950", done)

    return act


def _check(right: bool, done: Execution) -> None:
    if not right:
        raise AssertionError(f"the bench went wrong: {done}")  # pragma: no cover - a bench is run by hand


async def _run_bare() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", CODE, stdout=asyncio.subprocess.PIPE)
    await process.communicate()


def _make_cold(find: Any, run: Act) -> Act:
    async def act() -> None:
        find.cache_clear()
        stop_idle_workers()
        find()
        await run()

    return act


async def _measure_throughput(act: Act, number: int) -> float:
    slots = asyncio.Semaphore(2 * (os.cpu_count() or 1))

    async def run() -> None:
        async with slots:
            await act()

    start = Elapsed.now()
    await asyncio.gather(*(run() for _ in range(number)))
    return number / start.until_now().wall


def _measure_leftovers(name: str, act: Act, number: int) -> Row:
    left = count_leftovers(lambda: asyncio.run(_measure_throughput(act, number)))
    kinds = ", ".join(left)
    return Row(what=f"{name}: {kinds} left after {number} at once", value=sum(left.values()), unit="", bound=0)


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
