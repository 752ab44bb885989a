"""Worker processes of this machine, which end with their parent."""

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, NamedTuple, Self

from selfwire.runtime.jobs import Ended, Event, Job, read_end, run_job

PAUSE = 0.2
"""Most seconds of a wait for events."""
END = 5.0
"""Seconds until a process that was asked to end is killed."""


class _Worker(NamedTuple):
    process: Any  # of the context "spawn", whose class typeshed has for each system alone
    pipe: "Connection[Any, Any]"


class ProcessExecutor:
    """Fresh processes, as forks would inherit threads; one that has died is replaced.

    They end with this process, however that ends, and at once where an error leaves the block.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._idle: list[_Worker] = []
        self._busy: dict[Connection[Any, Any], tuple[_Worker, Job]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        everyone = [*self._idle, *(worker for worker, _ in self._busy.values())]
        for worker in everyone:
            worker.pipe.close()  # which ends an idle one
            if error is not None:
                worker.process.terminate()
        for worker in everyone:
            worker.process.join(END)
            worker.process.kill()
            worker.process.join()

    def start(self, job: Job) -> None:
        """Give a job to an idle process, or to a new one."""
        worker = self._idle.pop() if self._idle else _start_worker()
        self._busy[worker.pipe] = worker, job
        with suppress(OSError):  # it has died, which `wait` finds
            worker.pipe.send(job.text)

    def wait(self) -> Sequence[Event | Ended]:
        """Events and ends of jobs; waits shortly where there are none."""
        return [self._read(pipe) for pipe in wait([*self._busy], PAUSE) if isinstance(pipe, Connection)]

    def _read(self, pipe: "Connection[Any, Any]") -> Event | Ended:
        worker, job = self._busy[pipe]
        try:
            is_end, text = pipe.recv()
        except (EOFError, OSError):
            del self._busy[pipe]
            worker.process.join()
            return Ended(job, died=True)
        if not is_end:
            event: Event = json.loads(text)
            return event
        del self._busy[pipe]
        self._idle.append(worker)
        return read_end(job, text)


def _start_worker() -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_jobs, args=(theirs,))
    process.start()
    theirs.close()
    return _Worker(process, ours)


ENDED = 128 + signal.SIGTERM
"""Exit code of a process that was asked to end."""


def serve_jobs(pipe: "Connection[Any, Any]") -> None:
    """Run jobs one after another until the parent closes its end of the pipe or ends; Ctrl-C is the parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))  # so that what it holds of the system is given back
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def report(event: Event) -> None:
        pipe.send((False, json.dumps(event)))

    with suppress(EOFError, OSError):
        while True:
            pipe.send((True, run_job(pipe.recv(), report)))


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
