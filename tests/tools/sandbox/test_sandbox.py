"""Programs in bubblewrap; tests/abuse holds those that would do harm."""

import asyncio
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from selfwire.core.errors import SandboxError
from selfwire.core.protocols import MEBIBYTE, Execution, Limits
from selfwire.models.sync import run_sync
from selfwire.tools.sandbox import sandbox_programs, sandbox_waiting
from selfwire.tools.sandbox.bubblewrap import _find_complaint, find_working_bubblewrap
from selfwire.tools.sandbox.syscall_filter import make_filter
from tests.sandboxed import needs_sandbox

pytestmark = needs_sandbox
QUICK = Limits(seconds=20)


async def ran(code: str, stdin: str = "", limits: Limits = QUICK) -> Execution:
    return await find_working_bubblewrap().run(code, stdin, limits=limits)


def test_a_program_that_cannot_be_started_is_a_complaint() -> None:
    assert "No such file" in str(_find_complaint(replace(find_working_bubblewrap(), bwrap="/nowhere/bwrap")))


async def test_a_program_reads_its_input_writes_and_ends() -> None:
    done = await ran("import sys\nprint(input() * 2)\nprint('oops', file=sys.stderr)\nsys.exit(3)", "ab\n")
    assert done == Execution(stdout="abab\n", stderr="oops\n", exit_status=3)


@pytest.mark.parametrize(
    "code",
    [
        "exit()",
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: 'int' = 1\nassert A() == A()",
        "import inspect\ndef f(): pass\nassert 'def f' in inspect.getsource(f)",
        "import json, math, re, heapq, itertools, collections, decimal, random, threading, tempfile",
        "open('/tmp/x', 'w').write('y'); assert open('x').read() == 'y'",
        "open('/dev/null', 'w').write('y'); import os; os.urandom(3)",
        "assert __name__ == '__main__'",
    ],
)
async def test_ordinary_programs_work(code: str) -> None:
    assert await ran(code) == Execution(exit_status=0)


@pytest.mark.parametrize("code", ["def f(:", "x = '\0'", "raise ValueError('\ud800')", "import no_such_module"])
async def test_a_program_that_is_none_ends_badly(code: str) -> None:
    assert (await ran(code)).exit_status == 1


@pytest.mark.parametrize("folder", [Path("/home"), Path("/root"), Path.home()])
async def test_homes_hold_nothing_but_the_way_to_the_interpreter(folder: Path) -> None:
    done = await ran(f"import os\nfor _, names, files in os.walk({str(folder)!r}):\n    print(names, files)\n    break")
    prefix = find_working_bubblewrap().interpreter.prefix
    way = [prefix.relative_to(folder).parts[0]] if prefix.is_relative_to(folder) else []
    assert done.stdout in ("", f"{way} []\n")


async def test_other_processes_are_out_of_sight() -> None:
    done = await ran("import os\nprint(len([one for one in os.listdir('/proc') if one.isdigit()]), os.getuid())")
    assert done.stdout == "2 65534\n"


FORKS = """
import os, time
n = 1
try:
    while True:
        if not os.fork():
            time.sleep(60)
        n += 1
except OSError:
    print(n)
"""
BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


def processes_with(word: str) -> int:
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += word.encode() in path.read_bytes()
    return found


async def test_a_fork_bomb_is_bounded_and_cleared_away() -> None:
    done = await ran(FORKS, limits=Limits(seconds=20, processes=8))
    assert 1 < int(done.stdout) <= 8
    marked = 128 * MEBIBYTE + os.getpid()  # among the arguments of these processes and of no others
    bomb = asyncio.create_task(ran(BOMB, limits=Limits(seconds=2, memory=marked)))
    await asyncio.sleep(1)
    assert processes_with(str(marked)) >= 2
    assert (await bomb).timed_out
    for _ in range(100):  # the kernel takes them away in its own time
        if not processes_with(str(marked)):
            return
        await asyncio.sleep(0.1)
    pytest.fail("processes of the fork bomb are left")


UNMAPPED = """
import os
held = []
for _ in range(40):
    held.append(os.memfd_create('x'))
    for _ in range(16):
        os.write(held[-1], b'y' * 2**20)
time.sleep(60)
"""
SHARES = "import os, time\nfor _ in range(2): os.fork()\nx = bytearray(b'y') * (100 * 2**20)\ntime.sleep(60)"
LIMITED = Limits(seconds=30, memory=256 * MEBIBYTE)


@pytest.mark.parametrize("code", [UNMAPPED, SHARES], ids=["memory of no process", "many processes"])
async def test_memory_is_limited_for_all_processes_together(code: str) -> None:
    sandbox = replace(find_working_bubblewrap(), filters=False)  # as on a kernel without seccomp
    done = await sandbox.run(code, limits=LIMITED)
    assert "MemoryError: the program's processes together held more than 320 MiB" in done.stderr
    assert done.exit_status == 137


async def test_memory_that_processes_share_counts_once() -> None:
    code = "import os, time\nx = bytearray(b'y') * (200 * 2**20)\nfor _ in range(2): os.fork()\ntime.sleep(0.5)"
    assert (await ran(code, limits=LIMITED)).exit_status == 0


@pytest.mark.skipif(not make_filter(platform.machine()), reason="the numbers of system calls are not known here")
@pytest.mark.parametrize(
    "call",
    [
        "memfd_create(b'x', 0)",
        "ptrace(16, 1, 0, 0)",
        "shmget(0, 4096, 0o1600)",
        "unshare(0x10000000)",
        "socket(40, 1, 0)",  # vsock, to the host of a virtual machine
        "socket(38, 5, 0)",  # the kernel's ciphers
    ],
)
async def test_calls_that_pass_by_the_limits_or_namespaces_are_refused(call: str) -> None:
    code = f"import ctypes\nlib = ctypes.CDLL(None, use_errno=True)\nprint(lib.{call}, ctypes.get_errno())"
    assert (await ran(code)).stdout == "-1 1\n"


async def test_sockets_of_the_namespace_are_made() -> None:
    code = "import socket\nprint([socket.socket(family).family.value for family in (1, 2, 10)])"
    assert (await ran(code)).stdout == "[1, 2, 10]\n"


@pytest.mark.parametrize("make", ["open(str(n), 'w')", "os.symlink('x', str(n))"])
async def test_files_and_folders_are_limited_in_number(make: str) -> None:
    done = await ran(f"import os\nfor n in range(10**7): {make}", limits=Limits(seconds=30, entries=1000))
    assert "OSError: the program made more than 1000 files and folders" in done.stderr
    assert done.exit_status == 137


async def test_nothing_of_the_start_is_left_in_the_main_module() -> None:
    done = await ran("print(sorted(one for one in globals() if not one.startswith('__')))")
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_endless_output_is_cut_off(stream: str) -> None:
    code = f"import sys\nwhile True: print('x' * 999, file=sys.{stream})"
    done = await ran(code, limits=Limits(seconds=30, output=5000))
    assert done.truncated
    assert (done.timed_out, done.exit_status, len(getattr(done, stream))) == (False, None, 5000)


async def test_who_sleeps_past_the_time_is_stopped() -> None:
    began = time.monotonic()
    done = await ran("import time\nprint('so far', flush=True)\ntime.sleep(60)", limits=Limits(seconds=1))
    assert time.monotonic() - began < 30  # and not 60
    assert done == Execution(stdout="so far\n", exit_status=None, timed_out=True)


async def test_who_uses_up_the_processor_is_stopped() -> None:
    done = await ran("while True: pass", limits=Limits(seconds=60, processor=1))
    assert done == Execution(exit_status=None, timed_out=True)


async def test_who_waits_for_a_processor_is_not_stopped_and_at_last_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_waiting, "_inspect", lambda process: (0.0, True))  # others have the processors
    assert (await ran("import time\ntime.sleep(1.5)", limits=Limits(seconds=0.5))).exit_status == 0
    with pytest.raises(SandboxError, match=r"too busy to run the program: in \d+ s it had 0 of its 0.1"):
        await ran("import time\ntime.sleep(60)", limits=Limits(seconds=0.1))


async def test_many_processes_share_the_time_of_one_program() -> None:
    code = "import os\nfor _ in range(6): os.fork()\nwhile True: pass"
    done = await ran(code, limits=Limits(seconds=2, processor=60, processes=128))
    assert done == Execution(exit_status=None, timed_out=True)


async def test_children_do_not_outlive_the_program() -> None:
    done = await ran("import os, time\nif not os.fork():\n    time.sleep(60)\n    print('still here')")
    assert done == Execution(exit_status=0)


async def test_a_run_can_be_cancelled() -> None:
    task = asyncio.create_task(ran("import time\ntime.sleep(60)", limits=Limits(seconds=60)))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_many_run_side_by_side() -> None:
    done = await asyncio.gather(*(ran(f"print({n})") for n in range(12)))
    assert [one.stdout for one in done] == [f"{n}\n" for n in range(12)]


def test_it_works_from_other_loops() -> None:
    assert run_sync(ran("print(1)")).stdout == asyncio.run(ran("print(1)")).stdout == "1\n"


@pytest.fixture
def empty_caches() -> Iterator[None]:
    def clear() -> None:
        find_working_bubblewrap.cache_clear()
        sandbox_programs._make_public_folder.cache_clear()
        sandbox_programs._copy_for_all_users.cache_clear()

    clear()
    yield
    clear()


@pytest.mark.usefixtures("empty_caches")
async def test_where_path_has_no_bubblewrap_the_packaged_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert Path(find_working_bubblewrap().bwrap).is_relative_to(sandbox_programs._make_public_folder())
    assert (await ran("print(1)")).stdout == "1\n"


@pytest.mark.usefixtures("empty_caches")
def test_a_python_that_nobody_may_read_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:  # `tmp_path` may lie in /dev, which sandboxes have anew
        hidden = Path(home) / "hidden" / "python"
        program = hidden / "bin" / f"python3.{sys.version_info.minor}"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\necho 42\n")
        program.chmod(0o755)
        hidden.parent.chmod(0o700)
        monkeypatch.setattr(sys, "base_prefix", str(hidden))
        monkeypatch.setattr(sandbox_programs, "_SYSTEM", tmp_path / "no system")
        source = sandbox_programs._make_public_folder() / "python" if os.geteuid() == 0 else hidden
        assert find_working_bubblewrap().interpreter == (program, hidden, source)
