"""Monty: programs of a part of Python, in fresh interpreters of workers that serve again."""

import asyncio
import os
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError, SandboxError
from selfwire.core.protocols import MEBIBYTE, Execution, Limits
from selfwire.models.sync import run_sync
from selfwire.tools.sandbox import monty
from selfwire.tools.sandbox.monty import Monty, find_working_monty, stop_idle_workers
from tests.sandboxed import needs_monty

pytestmark = needs_monty
QUICK = Limits(seconds=20)


AS_ON_WINDOWS = """
import asyncio, os, subprocess, sys
import pydantic_monty, zoneinfo
for name in ("fcntl", "pwd", "resource"):
    sys.modules[name] = None
for name in ("fork", "geteuid", "getuid", "killpg", "sysconf"):
    delattr(os, name)
sys.platform = "win32"
from selfwire.tools.sandbox import sandbox_waiting
from selfwire.tools.sandbox.sandbox import find_sandbox
def read_no_fields(folder):
    raise FileNotFoundError(folder)  # there is no /proc
sandbox_waiting._read_fields = read_no_fields
print(asyncio.run(find_sandbox().run("print(2 + 2)")).stdout, end="")
"""


async def ran(code: str, stdin: str = "", limits: Limits = QUICK) -> Execution:
    return await find_working_monty().run(code, stdin, limits=limits)


async def test_a_program_reads_its_input_and_writes() -> None:
    code = "import sys\nname = input('?')\nprint(name * 2, input())\nprint('oops', file=sys.stderr)"
    assert await ran(code, "ab\ncd\n") == Execution(stdout="?abab cd\n", stderr="oops\n", exit_status=0)
    assert "EOF when reading a line" in (await ran("input()")).stderr


def test_it_runs_with_what_python_has_on_windows() -> None:
    done = subprocess.run([sys.executable, "-c", AS_ON_WINDOWS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("4\n", "")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import socket", "ModuleNotFoundError: No module named 'socket'"),
        ("class A(int): pass", "NotImplementedError"),
        ("def f(): yield 1", "NotImplementedError"),
        ("exit()", "NameError: name 'exit' is not defined"),
        ("import sys\nsys.stdin", "AttributeError: module 'sys' has no attribute 'stdin'"),
        ("import os\nos.environ", "RuntimeError: 'os.environ' is not supported"),
    ],
)
async def test_what_monty_does_not_know_says_so_and_what_does(code: str, said: str) -> None:
    done = await ran(code)
    assert done.exit_status == 1
    assert said in done.stderr
    assert "knows a part of Python only; the sandbox bubblewrap, on Linux, runs all of it" in done.stderr


@pytest.mark.parametrize("code", ["no_such", "1 / 0", "def f(:", "raise NotImplementedError('later')"])
async def test_a_program_that_is_wrong_anywhere_gets_no_such_hint(code: str) -> None:
    done = await ran(code)
    assert done.exit_status == 1
    assert "Monty" not in done.stderr


async def test_what_uses_too_much_is_stopped() -> None:
    bomb = await ran("x = 'y'\nwhile True: x += x", limits=Limits(seconds=20, memory=64 * MEBIBYTE))
    assert "MemoryError" in bomb.stderr
    flood = await ran("print('so far')\nwhile True: print('x' * 99)", limits=Limits(seconds=20, output=500))
    assert (flood.truncated, flood.exit_status, len(flood.stdout)) == (True, None, 500)
    late = await ran("import time\nprint('so far')\ntime.sleep(0.1)\ntime.sleep(60)", limits=Limits(seconds=0.5))
    assert (late.timed_out, late.exit_status) == (True, None)


async def test_time_of_earlier_programs_does_not_count() -> None:
    busy = "import time\nbegan = time.monotonic()\nwhile time.monotonic() < began + 0.7: pass"
    stop_idle_workers()
    assert (await ran(busy)).exit_status == 0
    assert (await ran("import time\ntime.sleep(0.4)", limits=Limits(seconds=0.6))).exit_status == 0


async def test_nothing_is_left_for_the_next_program() -> None:
    stop_idle_workers()
    assert (await ran("import json\nx = 1\njson.dumps = None\nimport math\nmath.pi = 3")).exit_status in (0, 1)
    (worker,) = monty._get_idle_workers()
    done = await ran("import json, math\nprint(json.dumps(round(math.pi, 2)))\nprint(x)")
    assert done.stdout == "3.14\n"
    assert "NameError" in done.stderr
    assert monty._get_idle_workers() == [worker]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and sets limits of another process")
async def test_the_interpreter_can_open_nothing_and_has_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFWIRE_SECRET", "zanzibarquux")
    stop_idle_workers()
    program = asyncio.create_task(ran("while True: pass", limits=Limits(seconds=5)))
    try:
        while not (found := find_interpreter_limits()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        limits, environments = found
        assert "Max file size             0 " in limits
        assert "zanzibarquux" not in environments
    finally:
        program.cancel()
        await asyncio.wait([program])


def find_interpreter_limits() -> tuple[str, str] | None:
    """Limits of the process that runs the program, and environments of it and its worker."""
    for worker in find_children(os.getpid()):
        for process in find_children(worker):
            limits = Path(f"/proc/{process}/limits").read_text()
            if "Max open files            0 " in limits:
                return limits, "".join(Path(f"/proc/{one}/environ").read_text() for one in (worker, process))
    return None


def find_children(process: int) -> list[int]:
    threads = Path(f"/proc/{process}/task").iterdir()
    return [int(one) for thread in threads for one in (thread / "children").read_text().split()]


async def test_a_worker_that_ends_is_an_error_and_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_idle_workers()
    monkeypatch.setattr(monty, "_read_script", lambda name: "raise SystemExit")
    with pytest.raises(SandboxError, match="the worker of Monty ended"):
        await Monty().run("1")
    assert monty._get_idle_workers() == []


async def test_a_worker_with_a_fault_of_its_own_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_idle_workers()
    monkeypatch.setattr(monty, "_make_request", lambda *_: b'{"act": "run"}')
    with pytest.raises(SandboxError, match="the worker of Monty ended"):
        await Monty().run("1", limits=Limits(seconds=60))
    assert monty._get_idle_workers() == []


async def test_a_worker_that_cannot_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_idle_workers()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(SandboxError, match="a worker of Monty could not be started"):
        await Monty().run("1")


async def test_a_run_can_be_cancelled() -> None:
    task = asyncio.create_task(ran("import time\ntime.sleep(60)", limits=Limits(seconds=60)))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_it_works_from_other_loops_and_side_by_side() -> None:
    async def many() -> list[str]:
        return [one.stdout for one in await asyncio.gather(*(ran(f"print({n})") for n in range(12)))]

    assert run_sync(many()) == asyncio.run(many()) == [f"{n}\n" for n in range(12)]


def test_without_it_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    find_working_monty.cache_clear()
    monkeypatch.setattr(monty, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install pydantic-monty"):
        find_working_monty()
    monkeypatch.setattr(monty, "find_spec", util.find_spec)
    monkeypatch.setattr(monty, "_read_script", lambda name: "raise SystemExit")
    with pytest.raises(ConfigError, match=r"Monty does not work here \(no output\)"):
        find_working_monty()
