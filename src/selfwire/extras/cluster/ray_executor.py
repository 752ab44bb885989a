"""Workers on a Ray cluster that runs already."""

import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from selfwire.core.errors import ConfigError, refuse_missing
from selfwire.extras.cluster.jobs import Ended, Event, Job, read_end, run_job

PAUSE = 0.2
"""Most seconds of a wait for ends."""
PATIENCE = 5.0
"""Seconds for which a cluster is waited for."""


class RayExecutor:
    """Tasks of one CPU each on the nodes of a cluster, which end with this process.

    Args:
        address: of the cluster, as `ray.init` takes it.
        workers: most tasks at once; None for the CPUs of the cluster.
        modules: imported by processes of the cluster before a job needs them.

    Raises:
        ConfigError: Ray is not installed, or no cluster answers there.
    """

    def __init__(self, address: str, workers: int | None = None, modules: Sequence[str] = ()) -> None:
        refuse_unreachable(address)
        ray: Any = import_module("ray")
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, ignore_reinit_error=True)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise _make_error(address, error) from error
        self._ray = ray
        self._run = ray.remote(num_cpus=1, max_retries=0)(run_on_node)
        self.workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._running: dict[Any, Job] = {}
        self.modules = modules

    def __enter__(self) -> Self:
        load = self._ray.remote(num_cpus=1, max_retries=0)(import_on_node)
        for _ in range(self.workers):
            load.remote(self.modules)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._running:
            self._ray.cancel(task, force=True)
        self._ray.shutdown()

    def start(self, job: Job) -> None:
        """Give a job to the cluster, which finds a node for it."""
        self._running[self._run.remote(job.text)] = job

    def wait(self) -> Sequence[Event | Ended]:
        """Ends of jobs; waits shortly where there are none."""
        ended, _ = self._ray.wait([*self._running], num_returns=1, timeout=PAUSE)
        return [self._read(task) for task in ended]

    def _read(self, task: Any) -> Ended:
        job = self._running.pop(task)
        try:
            return read_end(job, self._ray.get(task))
        except self._ray.exceptions.RayTaskError as error:  # before selfwire ran
            why = str(error).strip().rpartition("\n")[2]
            fault = ConfigError(f"a node of Ray cannot run selfwire ({why}); install the same version on all nodes")
            return Ended(job, fault=fault)
        except self._ray.exceptions.RayError:
            return Ended(job, died=True)


def refuse_unreachable(address: str) -> None:
    """Raise a ConfigError where Ray is not installed, or no server listens, for which Ray would wait for minutes."""
    refuse_missing("ray", "a cluster")
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
        except (OSError, OverflowError) as error:
            raise _make_error(address, error) from None


def _make_error(address: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"no Ray cluster answers at {address!r} ({error}); start one with `ray start --head`, or leave out "
        "--executor ray"
    )


def import_on_node(modules: Sequence[str]) -> None:
    """Import what jobs need; a job says what is missing."""
    with suppress(ImportError):
        for name in modules:
            import_module(name)


def run_on_node(text: str) -> str:
    """Run a job in this process of Ray's; its progress stays here."""
    return run_job(text, lambda event: None)
