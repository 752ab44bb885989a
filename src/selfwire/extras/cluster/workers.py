"""The workers of all commands."""

from contextlib import AbstractContextManager

from selfwire.extras.cluster.child_processes import import_for_workers
from selfwire.extras.cluster.executors import WorkerOptions, open_executor
from selfwire.extras.cluster.jobs import Executor

MODULES = ("selfwire.extras.cluster.worker_imports",)


def prepare_workers(options: WorkerOptions) -> None:
    """Begin to import what processes need, while this one does something else."""
    if options.executor == "process" and not options.is_local:
        import_for_workers(MODULES)


def open_workers(options: WorkerOptions) -> AbstractContextManager[Executor]:
    """Workers, until the block ends.

    Raises:
        ConfigError: the cluster cannot be reached.
    """
    return open_executor(options, MODULES)
