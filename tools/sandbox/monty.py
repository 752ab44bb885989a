"""Runs programs and tools on every platform in Monty, an interpreter of a part of Python without access to the host.

Monty offers no files, no environment, no network and no processes. A worker process (`monty_worker.py`) starts a fresh
interpreter process for each program; if a program hangs or crashes, its worker is stopped. Idle workers wait for the
next program, and end with this process.
"""

import asyncio
import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from typing import Any

from selfwire.core.errors import ConfigError, SandboxError
from selfwire.core.protocols import Execution, Limits
from selfwire.tools.sandbox.sandbox_waiting import PATIENCE, slots, wait_for_end

WAY_OUT = "install it with `pip install pydantic-monty`"


class Monty:
    """The sandbox Monty; `find_working_monty` checks that it works on this machine."""

    name = "monty"

    async def run(self, code: str, stdin: str = "", *, limits: Limits = Limits()) -> Execution:
        """Run a program, which reads its input by `input()` only; raises SandboxError if Monty itself fails."""
        return await self._execute("run", code, stdin, limits)

    async def call(self, source: str, arguments: Mapping[str, Any], *, limits: Limits = Limits()) -> Execution:
        """Call the `tool_function` of a source; raises SandboxError as `run` does."""
        return await self._execute("call", source, json.dumps(dict(arguments), ensure_ascii=False), limits)

    async def _execute(self, act: str, code: str, given: str, limits: Limits) -> Execution:
        request = _make_request(act, code, given, limits)
        async with slots():
            worker = _take_worker()
            answer = asyncio.ensure_future(asyncio.to_thread(worker.ask, request))
            try:
                await wait_for_end(worker.process, (answer,), limits.seconds)
            finally:
                if not answer.done():
                    worker.end()
                    await asyncio.shield(answer)
            return _read_answer(worker, answer.result(), limits)


def _read_answer(worker: "_MontyWorker", answer: bytes, limits: Limits) -> Execution:
    """Read a worker's answer; a worker that answered becomes idle again."""
    if worker.ended:
        return Execution(exit_status=None, timed_out=True)
    if not answer:
        worker.end()
        raise SandboxError("the worker of Monty ended while it ran the program")
    _get_idle_workers().append(worker)
    return Execution.model_validate_json(answer)


def _replace_surrogates(text: str) -> str:
    """Replace halves of surrogate pairs, which neither JSON nor Monty can transport."""
    return text.encode("utf-8", "replace").decode()


class _MontyWorker:
    """A process that runs a program at a time."""

    def __init__(self) -> None:
        spec = find_spec("pydantic_monty")
        if spec is None or spec.origin is None:
            raise ConfigError(f"there is no Monty here: {WAY_OUT}")
        script, result = (_read_script(f"{name}.py") for name in ("monty_worker", "result_text"))
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-c", script, result, str(Path(spec.origin).parents[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ},  # Windows needs it
            cwd=Path(sys.executable).anchor,
            start_new_session=True,
        )
        self.ended = False

    @property
    def process(self) -> int:
        """The process id."""
        return self._popen.pid

    def ask(self, request: bytes) -> bytes:
        """Send a request and wait for the answer; empty if the worker ended."""
        if self._popen.stdin is None or self._popen.stdout is None:
            raise AssertionError("it was started with pipes")  # pragma: no cover - tells mypy so
        with suppress(BrokenPipeError):
            self._popen.stdin.write(request + b"\n")
            self._popen.stdin.flush()
            return self._popen.stdout.readline()
        return b""

    def end(self) -> None:
        """Stop the worker and its interpreter at once."""
        self.ended = True
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._popen.pid, signal.SIGKILL)
            elif self._popen.stdin:
                self._popen.stdin.close()  # makes the worker end its interpreter and itself
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            with suppress(OSError):
                pipe and pipe.close()


@cache
def _read_script(name: str) -> str:
    return (files("selfwire.tools.sandbox") / name).read_text(encoding="utf-8")


_WORKERS: dict[int, list[_MontyWorker]] = {}
"""Idle workers, by the id of the process that started them, as a fork must not use its parent's workers."""


def _get_idle_workers() -> list[_MontyWorker]:
    return _WORKERS.setdefault(os.getpid(), [])


def _take_worker() -> _MontyWorker:
    idle = _get_idle_workers()
    try:
        return idle.pop() if idle else _MontyWorker()
    except OSError as error:
        raise SandboxError(f"a worker of Monty could not be started: {error}") from error


def stop_idle_workers() -> None:
    """Stop idle workers; later programs start new workers."""
    idle = _get_idle_workers()
    while idle:
        idle.pop().end()


atexit.register(stop_idle_workers)


@cache
def find_working_monty() -> Monty:
    """Try Monty, once per process, for about 200 ms; ConfigError if it does not work."""
    worker = _MontyWorker()
    timer = Timer(60, worker.end)
    timer.start()
    answer = worker.ask(_make_request("run", "print(6 * 7)", "", Limits()))
    timer.cancel()
    result = Execution.model_validate_json(answer) if answer else Execution(exit_status=None)
    if result.stdout != "42\n":
        worker.end()
        raise ConfigError(f"Monty does not work here ({result.stderr.strip()[-300:] or 'no output'}): {WAY_OUT}")
    _get_idle_workers().append(worker)
    return Monty()


def _make_request(act: str, code: str, given: str, limits: Limits) -> bytes:
    """Write a request as a line; the worker limits wall time, and this process the program's own time."""
    numbers = {**dict(limits), "wall": PATIENCE * limits.seconds}
    texts = {"code": _replace_surrogates(code), "given": _replace_surrogates(given)}
    return json.dumps({"act": act, **texts, "limits": numbers}).encode()
