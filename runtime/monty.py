"""Runs programs and tools in Monty, an interpreter of a part of Python that has no way to the host: on every platform.

A program has no files, no environment, no network and no processes, as Monty has none to give. A worker of ours
(`monty_worker.py`) starts a fresh interpreter process for each program; what hangs or crashes ends with its worker.
Workers that did their work wait for the next program, and end with this process.
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
from selfwire.core.execution import Execution, Limits
from selfwire.runtime.sandbox_waiting import PATIENCE, slots, wait_for_end

WAY_OUT = "install it with `pip install pydantic-monty`"


class Monty:
    """The sandbox; `find_working_monty` tries whether it works here."""

    name = "monty"

    async def run(self, code: str, stdin: str = "", *, limits: Limits = Limits()) -> Execution:
        """Run a program, which gets its input by `input()` only; raises SandboxError if Monty itself failed."""
        return await self._execute("run", code, stdin, limits)

    async def call(self, source: str, arguments: Mapping[str, Any], *, limits: Limits = Limits()) -> Execution:
        """Call the `tool_function` of a source; raises SandboxError as `run`."""
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


def _read_answer(worker: "_Worker", answer: bytes, limits: Limits) -> Execution:
    """What came of a program; the worker may serve again if it answered."""
    if worker.ended:
        return Execution(exit_status=None, timed_out=True)
    if not answer:
        worker.end()
        raise SandboxError("the worker of Monty ended while it ran the program")
    _idle().append(worker)
    return Execution.model_validate_json(answer)


def _clean(text: str) -> str:
    """Text without halves of surrogate pairs, which neither JSON nor Monty can pass on."""
    return text.encode("utf-8", "replace").decode()


class _Worker:
    """A process that runs one program at a time."""

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
        """Its number."""
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
        """End it and its interpreter at once."""
        self.ended = True
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._popen.pid, signal.SIGKILL)
            elif self._popen.stdin:
                self._popen.stdin.close()  # at which the worker ends its interpreter and itself
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            with suppress(OSError):
                pipe and pipe.close()


@cache
def _read_script(name: str) -> str:
    return (files("selfwire.runtime") / name).read_text(encoding="utf-8")


_WORKERS: dict[int, list[_Worker]] = {}
"""Workers that wait, by the process that started them: a fork of it must not use them too."""


def _idle() -> list[_Worker]:
    return _WORKERS.setdefault(os.getpid(), [])


def _take_worker() -> _Worker:
    idle = _idle()
    try:
        return idle.pop() if idle else _Worker()
    except OSError as error:
        raise SandboxError(f"a worker of Monty could not be started: {error}") from error


def end_workers() -> None:
    """End the workers that wait; later programs start new ones."""
    idle = _idle()
    while idle:
        idle.pop().end()


atexit.register(end_workers)


@cache
def find_working_monty() -> Monty:
    """Try Monty, once per process, for about 200 ms; ConfigError if it does not work."""
    worker = _Worker()
    timer = Timer(60, worker.end)
    timer.start()
    answer = worker.ask(_make_request("run", "print(6 * 7)", "", Limits()))
    timer.cancel()
    result = Execution.model_validate_json(answer) if answer else Execution(exit_status=None)
    if result.stdout != "42\n":
        worker.end()
        raise ConfigError(f"Monty does not work here ({result.stderr.strip()[-300:] or 'no output'}): {WAY_OUT}")
    _idle().append(worker)
    return Monty()


def _make_request(act: str, code: str, given: str, limits: Limits) -> bytes:
    """A line for a worker, whose own limit on time is wall time: ours counts the time of the program."""
    numbers = {**dict(limits), "wall": PATIENCE * limits.seconds}
    return json.dumps({"act": act, "code": _clean(code), "given": _clean(given), "limits": numbers}).encode()
