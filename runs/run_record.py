"""The record of a run: its request, and the hashes that must stay the same when it is resumed."""

import hashlib
import re
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from selfwire.core.budget import Budget
from selfwire.core.errors import JournalError, format_first_fault
from selfwire.core.values import fingerprint
from selfwire.graphs.method_names import outside_methods
from selfwire.runs.folders import SUMMARY
from selfwire.runs.requests import Request
from selfwire.runtime.journal import Journal
from selfwire.runtime.sync import run_sync

REQUEST = "request"
"""Name of the journal's note that holds the request."""
CHANGEABLE_NAMES = {"structured", "requests_at_once", "requests_per_minute", "tokens_per_minute"}
"""Fields of `ModelNames` that may be others when a run is resumed."""
CHANGEABLE: dict[str, bool | set[str]] = {"budget": True, "models": CHANGEABLE_NAMES}
"""Fields of a request that may be others when a run is resumed."""
ROOMS = ("bench", "cli", "core", "evals", "evolvers", "graphs", "nodes", "report", "runs", "runtime", "tools")

AnyRequest = TypeVar("AnyRequest", bound=Request)


def load_request(path: Path, schema: type[AnyRequest], command: str | None = None) -> AnyRequest:
    """The request of a run; nothing is written.

    Args:
        command: that starts such runs; None if the schema says it.

    Raises:
        JournalError: it is not a run of this kind, or it ended before it began.
    """
    with closing(Journal.open_read_only(path)) as journal:
        found, began = run_sync(journal.get_note(REQUEST)), (run_sync(journal.get_note(SUMMARY)) or {}).get("command")
        if command and began not in (None, command):
            raise JournalError(
                f"run {journal.run!r} was begun by `selfwire {began}`, not by `selfwire {command}`; "
                f"go on with `selfwire {began} --resume {journal.run}`"
            )
        try:
            return schema.model_validate(found)
        except ValidationError as error:
            wrong = f"{format_first_fault(error)}; is it a run of another command?"
            why = "it ended before it had begun" if found is None else wrong
            raise JournalError(
                f"run {journal.run!r} holds no request that can be resumed ({why}); start a new run"
            ) from None


def with_changes(
    request: AnyRequest, limits: Mapping[str, float] | None, models: Mapping[str, object] | None
) -> AnyRequest:
    """The request with some limits of its budget replaced, and some of the fields that say how models are called."""
    budget = Budget.model_validate({**request.budget.model_dump(), **(limits or {})})
    return request.replace(budget=budget, models=request.models.replace(**(models or {})))


def compute_run_hashes(request: Request, corpus: object, embedder: str) -> dict[str, str]:
    """Hashes that must be the same when a run is resumed, and the versions of other packages' methods.

    Args:
        request: of the run; what is `CHANGEABLE` may be another.
    """
    points = [outside_methods()[name][0] for name in request.targets if name in outside_methods()]
    packages = sorted({f"{point.dist.name} {point.dist.version}" for point in points if point.dist})
    return {
        "config": fingerprint(request.model_dump(mode="json", exclude=CHANGEABLE)),
        "code": compute_code_hash(),
        "corpus": fingerprint(corpus),
        "embedder": embedder,
        **({"method": ", ".join(packages)} if packages else {}),
    }


@cache
def compute_code_hash() -> str:
    """SHA-256, shortened, over selfwire's own sources and prompts, as they were when first asked for."""
    digest = hashlib.sha256()
    for room in ROOMS:
        root = Path(str(files(f"selfwire.{room}")))
        for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".md", ".json", ".toml")):
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def get_version() -> str:
    """The version of the installed distribution, or "unknown" in a source tree that is not installed."""
    try:
        return version("selfwire")
    except PackageNotFoundError:  # pragma: no cover - the tests run on an installed distribution
        return "unknown"


def shorten_name(benchmark: str) -> str:
    """A benchmark's name, or that of its file, as it can stand in names of runs and workflows."""
    name = benchmark.partition("@")[0] if benchmark.startswith("hf:") else benchmark
    return re.sub(r"[^A-Za-z0-9]+", "-", Path(name).stem).strip("-")[:32] or "tasks"
