"""Where jobs run: in this process, in processes of this machine, or on a Ray cluster."""

from contextlib import AbstractContextManager, nullcontext

from selfwire.extras.cluster.child_processes import MODULES, ProcessExecutor, import_for_workers
from selfwire.extras.cluster.jobs import Executor, LocalExecutor
from selfwire.extras.cluster.ray_executor import RayExecutor
from selfwire.runs.spec import WorkerOptions


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
