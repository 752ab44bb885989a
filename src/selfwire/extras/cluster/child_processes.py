"""Worker processes of this machine, which end with their parent."""

import atexit
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, NamedTuple, Self

from selfwire.extras.cluster.jobs import Ended, Event, Job, read_end, run_job

PAUSE = 0.2
"""Most seconds of a wait for events."""
SAFE_PATH = "PYTHONSAFEPATH"
"""Environment variable of Python, for a child whose flags `multiprocessing` chooses."""
_CHANGING = threading.Lock()
END = 5.0
"""Seconds until a process that was asked to end is killed."""


HAS_FORK_SERVER = sys.platform == "linux"
"""Whether processes are forked from one that has imported what they need; elsewhere each imports it."""
MODULES = ("selfwire.extras.cluster.worker_imports",)
"""Imported in workers before a job needs them."""


class _ChildProcess(NamedTuple):
    process: Any  # of a context whose class typeshed has for each system alone
    pipe: "Connection[Any, Any]"


class ProcessExecutor:
    """Processes that share nothing with this one; one that has died is replaced.

    They end with this process, however that ends, and at once where an error leaves the block.

    Args:
        modules: imported before workers need them, on Linux once for all of them. That process stays until this one
            ends, so that the next executor starts at once.
    """

    def __init__(self, workers: int, modules: Sequence[str] = ()) -> None:
        self.workers, self.modules = workers, modules
        self._forks = False
        self._idle: list[_ChildProcess] = []
        self._busy: dict[Connection[Any, Any], tuple[_ChildProcess, Job]] = {}

    def __enter__(self) -> Self:
        self._forks = import_for_workers(self.modules)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        busy = [worker for worker, _ in self._busy.values()]
        for worker in (*self._idle, *busy):
            worker.pipe.close()  # which ends an idle one
        for worker in busy:
            if error is not None:
                worker.process.terminate()
        for worker in (*self._idle, *busy):
            worker.process.join(END)
            worker.process.kill()
            worker.process.join()

    def start(self, job: Job) -> None:
        """Give a job to an idle process, or to a new one."""
        worker = self._idle.pop() if self._idle else _start_worker(self._forks)
        self._busy[worker.pipe] = worker, job
        with suppress(OSError):  # it has died, which `wait` finds
            worker.pipe.send(job.text)

    def wait(self) -> Sequence[Event | Ended]:
        """Events and ends of jobs; waits shortly where there are none."""
        ready = wait([*self._busy], PAUSE)
        return [self._read(pipe) for pipe in [*self._busy] if pipe in ready]

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


def import_for_workers(modules: Sequence[str]) -> bool:
    """Begin to import modules in the process that workers are forked from; returns at once.

    Returns:
        Whether there is one. It listens at a socket among the temporary files, whose path may be too long for that.
    """
    if not HAS_FORK_SERVER:
        return False
    forkserver.set_forkserver_preload([*modules])
    _start_resource_tracker()  # which lets signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as Ctrl-C is this process's alone
    try:
        with _leave_out_working_directory():
            forkserver.ensure_running()
    except OSError:
        return False
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return True


def _start_resource_tracker() -> None:
    """Start the process that removes what killed workers leave, with its messages on that discarded.

    It reports a killed worker's semaphores as leaked, or as unknown, although it removes them. Windows has none.
    """
    if sys.platform == "win32":
        return
    try:
        shown = os.dup(2)
    except OSError:  # there is no such stream
        with _leave_out_working_directory():
            resource_tracker.ensure_running()
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        with _leave_out_working_directory():
            resource_tracker.ensure_running()
    finally:
        os.dup2(shown, 2)
        os.close(shown)
        os.close(nowhere)


def _start_worker(forks: bool) -> _ChildProcess:
    _start_resource_tracker()
    context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_jobs, args=(theirs, dict(os.environ)))
    with _leave_out_working_directory():
        process.start()
    theirs.close()
    return _ChildProcess(process, ours)


@contextmanager
def _leave_out_working_directory() -> Iterator[None]:
    """Have Python processes that start here find no module in the working directory, whose files may be another user's.

    What this process searches is passed on to a worker once that has imported what it needs by itself.
    """
    with _CHANGING:  # of two threads the second would keep what the first has set
        before = os.environ.get(SAFE_PATH)
        os.environ[SAFE_PATH] = "1"
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(SAFE_PATH, None)
            else:
                os.environ[SAFE_PATH] = before


ENDED = 128 + signal.SIGTERM
"""Exit code of a process that was asked to end."""


def serve_jobs(pipe: "Connection[Any, Any]", environment: Mapping[str, str]) -> None:
    """Run jobs one after another until the parent closes its end of the pipe or ends; Ctrl-C is the parent's.

    Args:
        environment: the parent's.
    """
    os.environ.clear()  # of the time when the first worker was started
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))  # so that what it holds of the system is given back
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def report(event: Event) -> None:
        pipe.send((False, json.dumps(event)))

    try:
        with suppress(EOFError, OSError):
            while True:
                pipe.send((True, run_job(pipe.recv(), report)))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        atexit._run_exitfuncs()  # which no fork runs by itself: they remove folders, and end the processes of tools


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
