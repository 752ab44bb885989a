"""Jobs for workers: functions by name, with arguments and results as JSON, wherever the workers run.

An executor runs jobs in processes of this machine or on a Ray cluster. `run_jobs` hands them out, gives a job back
whose worker has died, and stops after a fault.
"""

import builtins
import json
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, Self

from pydantic_core import to_jsonable_python

from selfwire.core import errors
from selfwire.core.errors import SelfwireError, WorkerError
from selfwire.core.values import FrozenModel

DEATHS = 3
"""Workers that may die at one job."""

Event = dict[str, Any]
"""Progress of a job, as JSON."""
Report = Callable[[Event], None]


class JobSettings(FrozenModel):
    """Settings that all jobs of a run share.

    Args:
        home: folder of runs and teams; None for the usual one.
        budget_address: where the run's budget is shared; None if it has none.
    """

    home: Path | None
    retry_failed: bool = False
    budget_address: str | None = None


@dataclass(frozen=True)
class Job:
    """A call of a function in a worker.

    Attributes:
        name: of the job, for messages.
        function: as `module:name`; it takes `arguments` by name, and first a callable for events.
        arguments: JSON.
        deaths: workers that have died at it.
    """

    name: str
    function: str
    arguments: dict[str, Any]
    deaths: int = 0

    @classmethod
    def of(cls, name: str, function: Callable[..., Any], /, **arguments: Any) -> Self:
        """A call of a module's function; models and paths among the arguments become JSON."""
        return cls(name, f"{function.__module__}:{function.__qualname__}", to_jsonable_python(arguments))

    @property
    def text(self) -> str:
        """Function and arguments, as they travel."""
        return json.dumps({"function": self.function, "arguments": self.arguments})


@dataclass(frozen=True)
class Ended:
    """The end of a job.

    Attributes:
        result: JSON.
        fault: the error that ended it.
        died: whether its worker died.
    """

    job: Job
    result: Any = None
    fault: Exception | None = None
    died: bool = False


class Executor(Protocol):
    """Workers, each of which runs one job at a time."""

    @property
    def workers(self) -> int:
        """The number of jobs that run at once."""

    def start(self, job: Job) -> None:
        """Give a job to a worker; at most `workers` may run."""

    def wait(self) -> Sequence[Event | Ended]:
        """Events and ends of jobs; waits shortly where there are none."""


def try_again(job: Job) -> Sequence[Job]:
    """The job once more.

    Raises:
        WorkerError: too many workers have died at it.
    """
    if job.deaths >= DEATHS:
        raise WorkerError(
            f"{job.deaths} workers in a row have died at {job.name}, as a process does that needs more memory than "
            f"there is; give fewer --workers, or more memory, and resume"
        )
    return [job]


def run_jobs(
    waiting: deque[Job],
    executor: Executor,
    on_event: Callable[[Event], None] = lambda event: None,
    give_back: Callable[[Job], Sequence[Job]] = try_again,
    cancelled: threading.Event | None = None,
) -> Generator[Ended, None, None]:
    """Run jobs in their order; yields the end of each that gave a result, as it comes.

    Args:
        waiting: jobs; while this runs, more may be added.
        give_back: the jobs in place of one whose worker has died.
        cancelled: another thread sets it where nobody waits for the jobs any more; those that have begun go on.

    Raises:
        SelfwireError, ValueError, RuntimeError: of the first job that failed; those that ran then have ended, and
            their results were yielded.
    """
    running, faults = 0, list[Exception]()

    def start_some() -> None:
        nonlocal running
        while waiting and not faults and running < executor.workers:
            executor.start(waiting.popleft())
            running += 1

    while (running or (waiting and not faults)) and not (cancelled and cancelled.is_set()):
        start_some()
        for told in executor.wait():
            if not isinstance(told, Ended):
                on_event(told)
                continue
            running -= 1
            if told.died:
                try:
                    waiting.extendleft(reversed(give_back(replace(told.job, deaths=told.job.deaths + 1))))
                except SelfwireError as fault:
                    faults.append(fault)
            elif told.fault:
                faults.append(told.fault)
            else:
                start_some()  # so that no worker waits for what is done with the result
                yield told
    if faults:
        raise faults[0]


@dataclass
class LocalExecutor:
    """This process as the only worker."""

    workers: int = field(default=1, init=False)
    _todo: list[Job] = field(default_factory=list, init=False)

    def start(self, job: Job) -> None:
        """Keep the job for `wait`."""
        self._todo.append(job)

    def wait(self) -> Sequence[Event | Ended]:
        """Run the job; its events come with its end."""
        job, told = self._todo.pop(), list[Event | Ended]()
        told.append(read_end(job, run_job(job.text, told.append)))
        return told


def run_job(text: str, report: Report) -> str:
    """Run a job in this process; returns its result, or the error that ended it, as JSON."""
    asked = json.loads(text)
    module, _, name = asked["function"].partition(":")
    try:
        result = getattr(import_module(module), name)(report, **asked["arguments"])
        return json.dumps({"result": to_jsonable_python(result)})
    except Exception as error:  # noqa: BLE001 - whoever started the job raises it
        known = isinstance(error, SelfwireError | ValueError)
        return json.dumps(
            {"error": type(error).__name__, "message": str(error) if known else traceback.format_exc(), "known": known}
        )


def read_end(job: Job, text: str) -> Ended:
    """The end of a job from what `run_job` has returned."""
    found = json.loads(text)
    return Ended(job, fault=_make_error(found)) if "error" in found else Ended(job, found["result"])


def _make_error(found: dict[str, Any]) -> Exception:
    """An error of ours by its class; another ValueError as one, and the rest with the lines of its traceback."""
    if not found["known"]:
        return RuntimeError(found["message"])
    schema = getattr(errors, found["error"], getattr(builtins, found["error"], ValueError))
    try:
        made = schema(found["message"])
    except TypeError:  # it is made of other parts
        made = ValueError(found["message"])
    return made if isinstance(made, Exception) else ValueError(found["message"])
