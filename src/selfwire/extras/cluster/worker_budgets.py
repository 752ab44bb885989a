"""Where the workers of a run share its budget and what providers allow."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from selfwire.core.errors import ConfigError
from selfwire.core.usage import Budget
from selfwire.extras.cluster.ray_executor import refuse_unreachable
from selfwire.extras.cluster.shared_ledger import (
    SERVER,
    find_budget_server,
    make_budget_address,
    open_store,
    share_ledger,
)
from selfwire.runs.spec import RunSpec, WorkerOptions


def choose_budget_address(request: RunSpec, folder: Path, options: WorkerOptions) -> str | None:
    """The address for workers; None where they need not share, or have no server for it.

    Args:
        folder: of the run.

    Raises:
        ConfigError: as `refuse_unshared_limits`.
    """
    refuse_unshared_limits(request, options)
    is_far = options.executor == "ray" and not find_budget_server()
    if is_far or not _shares_anything(request):
        return None
    return make_budget_address(folder)


@contextmanager
def share_rates(request: RunSpec, options: WorkerOptions) -> Iterator[str | None]:
    """Share what providers allow among workers that each pay for runs of their own; gives the address for them.

    Raises:
        ConfigError: as `refuse_unshared_limits`.
    """
    with TemporaryDirectory(prefix="selfwire-rates-") as folder:
        address = None if options.is_local else choose_budget_address(request, Path(folder), options)
        with nullcontext() if address is None else closing(share_ledger(address, Budget())):
            yield address


def refuse_unusable_cluster(request: RunSpec, options: WorkerOptions) -> None:
    """Check the servers of workers before a run begins.

    Raises:
        ConfigError: the cluster or the server of its budget cannot be reached, or as `refuse_unshared_limits`.
    """
    if options.is_local:
        return
    refuse_unshared_limits(request, options)
    if (server := find_budget_server()) and _shares_anything(request):
        open_store(server).close()
    if options.executor == "ray":
        refuse_unreachable(options.ray_address)


def _shares_anything(request: RunSpec) -> bool:
    return request.budget != Budget() or not request.models.calls_no_server


def refuse_unshared_limits(request: RunSpec, options: WorkerOptions) -> None:
    """Raise a ConfigError if a cluster is to share a budget or limits and has no server for them."""
    if options.executor != "ray" or find_budget_server():
        return
    if request.budget != Budget() or (request.models.limits_requests and not request.models.calls_no_server):
        what = "a budget" if request.budget != Budget() else "limits of requests and tokens"
        raise ConfigError(
            f"a cluster shares {what} in PostgreSQL; set {SERVER}=postgresql://..., or leave out --executor ray"
        )
