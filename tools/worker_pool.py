"""Worker processes for computations that may never end: killed at a time limit, and started anew."""

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from selfwire.core.errors import ToolError

SECONDS = 30.0
"""Processor time of a request; wall time says little on a busy machine."""
PATIENCE = 300.0
"""Wall time of a request in seconds, with the start of a worker."""


class ToolWorkerError(Exception):
    """A worker of a tool crashed or reached its time limit; the message names the limits."""


class WorkerPool:
    """A pool with at most one worker process per processor; workers start when needed and end with this process.

    Args:
        module: the worker's module, which calls `worker_loop.serve`, found without the working directory; or a whole
            command.
        seconds: processor time of a request.
        patience: wall time of a request in seconds.
    """

    def __init__(self, module: str | Sequence[str], seconds: float = SECONDS, patience: float = PATIENCE) -> None:
        self._command = (sys.executable, "-P", "-m", module) if isinstance(module, str) else module
        self._seconds, self._patience = seconds, patience
        self._idle: queue.LifoQueue[_WorkerProcess | None] = queue.LifoQueue()
        for _ in range(os.cpu_count() or 1):
            self._idle.put(None)

    def ask(self, request: Mapping[str, Any]) -> Any:
        """Return a worker's reply; blocks. ToolWorkerError if the worker crashed or reached its time limit."""
        worker = self._idle.get()
        try:
            worker = worker or _WorkerProcess(self._command)
            return json.loads(worker.ask({**request, "seconds": self._seconds}, self._patience))
        except (OSError, ValueError) as error:
            if worker is not None:
                worker.end()
            worker = None
            limits = f"{self._seconds:g} seconds to compute or {self._patience:g} in all"
            raise ToolWorkerError(f"it broke, or took more than {limits}") from error
        finally:
            self._idle.put(worker)


def ask_for_agent(pool: WorkerPool, request: Mapping[str, Any], what: str, way_out: str) -> str:
    """Return the text of a worker's reply; blocks. ToolError with the worker's own error, or if it was stopped.

    Args:
        what: name of what is asked for, for the error.
    """
    try:
        reply = pool.ask(request)
    except ToolWorkerError as error:
        raise ToolError(f"the {what} was stopped: {error}; {way_out}") from error
    if "error" in reply:
        raise ToolError(reply["error"])
    return str(reply["text"])


class _WorkerProcess:
    def __init__(self, command: Sequence[str]) -> None:
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True)
        atexit.register(self.end)

    def ask(self, request: Mapping[str, Any], seconds: float) -> str:
        """Return the worker's line; "" if it ended, or was killed at the time limit."""
        stdin, stdout = self._process.stdin, self._process.stdout
        late = threading.Timer(seconds, self._process.kill)
        late.start()
        try:
            if stdin is None or stdout is None:
                return ""
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            return stdout.readline()
        finally:
            late.cancel()

    def end(self) -> None:
        atexit.unregister(self.end)
        self._process.kill()
        with suppress(OSError):  # unread input is lost
            self._process.communicate()
