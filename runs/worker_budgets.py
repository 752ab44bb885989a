"""Where the workers of a run share its budget and what providers allow."""

from pathlib import Path
from typing import Protocol

from selfwire.core.budget import Budget
from selfwire.core.errors import ConfigError
from selfwire.runs.requests import ModelNames
from selfwire.runtime.executors import WorkerOptions
from selfwire.runtime.shared_ledger import SERVER, find_budget_server, make_budget_address


class Limited(Protocol):
    """A request."""

    @property
    def budget(self) -> Budget:
        """The limits of the run."""

    @property
    def models(self) -> ModelNames:
        """The models."""


def choose_budget_address(request: Limited, folder: Path, options: WorkerOptions) -> str | None:
    """The address for workers; None where they need not share, or have no server for it.

    Args:
        folder: of the run.
    """
    is_far = options.executor == "ray" and not find_budget_server()
    if is_far or (request.budget == Budget() and request.models.calls_no_server):
        return None
    return make_budget_address(folder)


def refuse_unshared_budget(budget: Budget, options: WorkerOptions) -> None:
    """Raise a ConfigError if a cluster is to share a budget and has no server for it."""
    if options.executor == "ray" and budget != Budget() and not find_budget_server():
        raise ConfigError(
            f"a cluster shares a budget in PostgreSQL; set {SERVER}=postgresql://..., or leave out --executor ray"
        )
