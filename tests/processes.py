"""Processes that tests start, kill and wait for.

They are forked from one that has imported what they need already: `python -m tests.processes` reads requests, a JSON
line each. A Python with LangGraph takes seconds to start, a fork some milliseconds.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NoReturn, TextIO

from langsmith.utils import get_env_var

from selfwire.cli import main as selfwire_main
from selfwire.cli.commands import COMMANDS, load_command
from selfwire.core import plugins
from selfwire.graphs import method
from selfwire.models.openai_chat import load_certificates

ROOT = Path(__file__).parents[1]
_ASKING = threading.Lock()
"""Held until a request is answered, as golden runs ask from two threads."""
PRELOADED = ("selfwire.models.openai_chat", "bm25s", "scipy.stats")


@dataclass
class Process:
    """A process that was started; `returncode` is as `subprocess` gives it, None while it runs.

    Args:
        pid: of the process.
        out: file that gets what it prints.
        errors: file that gets what it prints as errors.
    """

    pid: int
    out: Path
    errors: Path
    returncode: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._descriptor = os.pidfd_open(self.pid)  # can be read from its end on, which takes no request to look at
        self._end = select.poll()
        self._end.register(self._descriptor, select.POLLIN)

    def poll(self, timeout: float = 0) -> int | None:
        """Return the exit code, None if it still runs after some seconds."""
        if self.returncode is None and self._end.poll(1000 * timeout):
            self.returncode = _request(poll=self.pid)
            os.close(self._descriptor)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = 600) -> tuple[str, str]:
        """Wait for the end; returns what was printed to both streams."""
        if self.poll(timeout) is None:
            self.kill()
            raise TimeoutError(f"process {self.pid} has not ended:\n{self.errors.read_text()}")
        return self.out.read_text(), self.errors.read_text()


def start(function: str, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] = os.environ) -> Process:
    """Run a function without parameters in a new process, as a program with these arguments.

    Args:
        function: as `module:name`.
        arguments: that it finds in `sys.argv`.
        cwd: its folder.
        env: its environment.
    """
    folder = Path(mkdtemp(dir=_folder()))
    out, errors = folder / "out", folder / "errors"
    for file in (out, errors):
        file.touch()  # it may be killed before it opens them
    place = {"cwd": str(cwd or Path.cwd()), "env": {**env}, "out": str(out), "errors": str(errors)}
    pid = _request(function=function, arguments=arguments, **place)
    assert pid is not None, f"{function} cannot be imported"
    return Process(pid, out, errors)


def start_selfwire(*arguments: str, **options: Any) -> Process:
    """Start the command line in a new process."""
    return start("tests.processes:run_selfwire", *arguments, **options)


def run_selfwire() -> None:
    """What `selfwire` runs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts tests may ignore Ctrl-C
    for cached in (plugins.outside_methods, method.installed_methods):
        cached.cache_clear()  # its path may lead to packages that the process it was forked from does not see
    selfwire_main()


def run_python() -> None:
    """What `python FILE` and `python -m MODULE` run."""
    if sys.argv[1] == "-m":
        sys.argv = sys.argv[2:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = sys.argv[1:]
        sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
        runpy.run_path(sys.argv[0], run_name="__main__")


def wait_for(process: Process, code: int = 0) -> tuple[str, str]:
    """Wait for a process that ends with this code; returns what it printed to both streams."""
    out, errors = process.communicate()
    if process.returncode != code:
        raise AssertionError(f"exit code {process.returncode}, not {code}:\n{out}\n{errors}")
    return out, errors


def kill_when(process: Process, until: Callable[[], bool]) -> None:
    """Kill -9 as soon as something holds."""
    while not until():
        assert process.poll() is None, f"it ended before it could be killed: {process.communicate()}"
        time.sleep(0.001)
    process.kill()
    process.communicate()


def children() -> list[int]:
    """Processes that were started here and have not ended."""
    path = Path(f"/proc/{_server().pid}/task/{_server().pid}/children")
    return [int(one) for one in path.read_text().split()]


@cache
def _folder() -> str:
    return mkdtemp(prefix="selfwire-tests-")


@cache
def _server() -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.processes"]
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=ROOT
    )
    atexit.register(server.communicate)  # the end of its input ends it
    return server


def _request(**body: Any) -> int | None:
    with _ASKING:
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(body) + "\n")
        server.stdin.flush()
        answer: int | None = json.loads(server.stdout.readline())
    return answer


def _serve(requests: TextIO, answers: TextIO) -> Callable[[], None] | None:
    """Answer requests until they end; returns, in every process that was forked, what it must run."""
    for line in requests:
        body = json.loads(line)
        if "poll" in body:
            ended, status = os.waitpid(body["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        else:
            function = _load(body["function"])
            gc.freeze()
            answer = os.fork()
            if answer == 0:
                _become(body)
                return function
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return None


def _load(name: str) -> Callable[[], None]:
    module, _, function = name.partition(":")
    found: Callable[[], None] = getattr(import_module(module), function)
    return found


def _become(body: Mapping[str, Any]) -> None:
    """Take over arguments, environment, folder and files of a process that was asked for."""
    os.environ.clear()
    os.environ.update(body["env"])
    os.chdir(body["cwd"])
    sys.path[:0] = [one for one in body["env"].get("PYTHONPATH", "").split(os.pathsep) if one and one not in sys.path]
    sys.argv = ["selfwire", *body["arguments"]]
    get_env_var.cache_clear()  # type: ignore[attr-defined]  # LangSmith keeps what it has read
    for stream, path in ((sys.stdin, os.devnull), (sys.stdout, body["out"]), (sys.stderr, body["errors"])):
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(file, stream.fileno())
        os.close(file)


def _run(function: Callable[[], None]) -> NoReturn:
    """Run a function as the whole of this process, which ends without taking down all that it has imported."""
    code = 0
    try:
        function()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # noqa: T201
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter does with all of them
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for name in PRELOADED:
        import_module(name)
    for name in COMMANDS:
        load_command(name)
    load_certificates()
    if (forked := _serve(sys.stdin, sys.stdout)) is not None:
        _run(forked)
