"""Where jobs run: in this process, in processes of this machine, or on a Ray cluster."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from selfwire.core.values import FrozenModel
from selfwire.extras.cluster.child_processes import ProcessExecutor, import_for_workers
from selfwire.extras.cluster.jobs import Executor, LocalExecutor
from selfwire.extras.cluster.ray_executor import RayExecutor


class WorkerOptions(FrozenModel):
    """Number and place of workers; results depend on neither.

    Args:
        workers: None for one process, or all processors of a cluster.
        ray_address: of a running cluster; "" without one.
    """

    workers: int | None = None
    executor: Literal["process", "ray"] = "process"
    ray_address: str = ""

    @property
    def is_local(self) -> bool:
        """Whether this process does everything."""
        return self.executor == "process" and (self.workers or 1) == 1

    def with_usual(self, workers: int) -> "WorkerOptions":
        """Set the number of processes where none is given."""
        return self.replace(workers=workers) if self.workers is None and self.executor == "process" else self


MODULES = ("selfwire.extras.cluster.worker_imports",)
"""Imported in workers before a job needs them."""


def prepare_workers(options: WorkerOptions) -> None:
    """Begin to import what processes need, while this one does something else."""
    if options.executor == "process" and not options.is_local:
        import_for_workers(MODULES)


def open_workers(options: WorkerOptions) -> AbstractContextManager[Executor]:
    """Workers, until the block ends.

    Raises:
        ConfigError: the cluster cannot be reached.
    """
    if options.is_local:
        return nullcontext(LocalExecutor())
    if options.executor == "process":
        return ProcessExecutor(options.workers or 1, MODULES)
    return RayExecutor(options.ray_address, options.workers, MODULES)
