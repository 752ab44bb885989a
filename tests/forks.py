"""Processes that tests kill, forked from one that has done the imports, so that a start costs next to nothing.

All forks hash strings alike. A test that compares processes starts at least one of them afresh, so that what depends
on the order of a set differs between them.
"""

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

_IMPORTS = ("selfwire.cli.app", "selfwire.runs.evaluation.lifecycle", "langchain_openai", "openai.resources.chat")


class Fork:
    """A process that can be used like one of `subprocess.Popen`, with text that it printed.

    Args:
        code: what it runs, as `python -c` does.
        arguments: its arguments.
        environment: its environment.
        imports: modules that are imported before, once for all forks.
    """

    def __init__(
        self, code: str, arguments: Sequence[str], environment: Mapping[str, str], imports: Sequence[str] = ()
    ) -> None:
        self._printed = [tempfile.NamedTemporaryFile("r", prefix="fork-") for _ in range(2)]
        self.returncode: int | None = None
        self.pid: int = _ask(
            code=code,
            arguments=[str(one) for one in arguments],
            environment=dict(environment),
            imports=[*_IMPORTS, *imports],
            files=[one.name for one in self._printed],
            folder=os.getcwd(),
        )

    def poll(self) -> int | None:
        """Its return code; None while it runs."""
        if self.returncode is None:
            self.returncode = _ask(ended=self.pid)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it with 9."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = 600) -> tuple[str, str]:
        """Wait for its end; returns what it printed to both streams."""
        until = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("a fork", timeout)
            time.sleep(0.01)
        out, errors = (one.read() for one in self._printed)
        for one in self._printed:
            one.close()
        return out, errors


Process: TypeAlias = "subprocess.Popen[str] | Fork"


def start_module(
    module: str, *arguments: object, fresh: bool = False, imports: Sequence[str] = (), **settings: str
) -> Process:
    """Start `python -m module`, in a fork or afresh.

    Args:
        module: which.
        arguments: of it.
        fresh: whether it is not a fork.
        imports: modules that are imported once for all forks.
        settings: environment variables.
    """
    texts, environment = [str(one) for one in arguments], {**os.environ, **settings}
    if not fresh:
        return Fork(f"import runpy; runpy.run_module({module!r}, run_name='__main__')", texts, environment, imports)
    command = [sys.executable, "-m", module, *texts]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@cache
def _parent() -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)
    return process


def _ask(**request: Any) -> Any:
    parent = _parent()
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(json.dumps(request) + "\n")
    parent.stdin.flush()
    return json.loads(parent.stdout.readline())


def _serve() -> None:
    """Fork what is asked for, and tell how it ended, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        request = json.loads(line)
        if "ended" in request:
            answer = _ended(request["ended"])
        else:
            for name in request["imports"]:
                importlib.import_module(name)
            answer = os.fork()
            if answer == 0:
                _become(**request)
                return
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


def _ended(process: int) -> int | None:
    found, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _become(
    code: str, arguments: list[str], environment: dict[str, str], imports: list[str], files: list[str], folder: str
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in zip((0, 1, 2), (os.devnull, *files), strict=True):
        os.dup2(os.open(name, os.O_RDWR), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["-c", *arguments]
    exec(code, {"__name__": "__main__"})


if __name__ == "__main__":
    _serve()
