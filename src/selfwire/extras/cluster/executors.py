"""Where jobs run: in this process, in processes of this machine, or on a Ray cluster."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from selfwire.core.values import FrozenModel
from selfwire.extras.cluster.child_processes import ProcessExecutor
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


def open_executor(options: WorkerOptions, modules: Sequence[str] = ()) -> AbstractContextManager[Executor]:
    """Workers, until the block ends.

    Args:
        modules: imported before a job needs them.

    Raises:
        ConfigError: the cluster cannot be reached.
    """
    if options.is_local:
        return nullcontext(LocalExecutor())
    if options.executor == "process":
        return ProcessExecutor(options.workers or 1, modules)
    return RayExecutor(options.ray_address, options.workers, modules)
