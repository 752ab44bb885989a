"""The workers of all commands."""

from contextlib import AbstractContextManager

from selfwire.runtime.child_processes import import_for_workers
from selfwire.runtime.executors import WorkerOptions, open_executor
from selfwire.runtime.jobs import Executor

MODULES = ("selfwire.runs.worker_imports",)


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
