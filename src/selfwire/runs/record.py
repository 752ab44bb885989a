"""The record of a run on disk: its folder, its status, what it resumes from, and the tasks that it has learned from."""

import asyncio
import hashlib
import os
import re
import secrets
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from textwrap import shorten
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from pydantic import Field, ValidationError
from pydantic_core import to_jsonable_python

from selfwire.core.errors import (
    ConfigError,
    JournalError,
    LibraryError,
    ModelError,
    RefusedError,
    SelfwireError,
    StoppedError,
    UnansweredError,
    format_error,
    format_first_fault,
)
from selfwire.core.plugins import compute_code_hash, get_version, is_graph, outside_methods
from selfwire.core.task import Splits, Task
from selfwire.core.usage import Budget, Usage, sum_usages
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, fingerprint, to_canonical_json
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.models.budget import Ledger, enforce_deadline
from selfwire.models.sync import run_sync
from selfwire.runs.inputs import LoadedModels
from selfwire.runs.spec import RunSpec, require_names
from selfwire.store.journal import Journal
from selfwire.store.journal_file import (
    CODE,
    STARTED,
    VERSION,
    JournalReader,
    Lease,
    is_held,
    read_header,
    read_spend,
    refuse_other_facts,
)
from selfwire.store.library import format_home_option, home_folder, open_library, to_local_folder
from selfwire.store.trust import is_agreed, is_own, make_mark
from selfwire.tools.ready import end_servers, find_foreign_tools, find_server_files

JOURNAL = "journal.sqlite"
CHECKPOINTS = "checkpoints.sqlite"
PARTS = "parts"
"""Folder in a run's folder with a folder per job of a worker."""
EVOLVED = "evolved"
"""Folder in a run's folder with a home per system that is evolved before it is measured."""
ROWS = "rows"
"""Notes of an evaluation's rows are called rows/<system>/<task>."""
SUMMARY = "summary"
"""Name of the journal's note with a run's command, method and status, as JSON."""

INTERRUPTED = "interrupted"
"""Status of a run whose process ended without noting it, as after kill -9."""
ENDED = ("finished", "stopped")
"""First words of the statuses of a run that has ended."""

ABLATION, WORLD = "ablate", "ablate --world"
STUDIES = (ABLATION, WORLD)
"""Commands of studies; the same command again continues them."""


T = TypeVar("T")


class RunSummary(FrozenModel):
    """A line of the list of runs.

    Args:
        summary: its note: command, method, benchmark, model, status, iteration, score, ...; the status of a run whose
            process is gone is `INTERRUPTED`.
        started: when it began, in UTC as ISO 8601; "" for a time beyond the calendar.
        spend: sum of its settled calls, of evolutions inside it too; None if a journal cannot be read.
        open_calls: calls without a recorded answer.
        open_tokens: the most tokens that those can have cost.
        trouble: why its journal cannot be read.
    """

    run: str
    summary: FrozenJson = Field(default_factory=FrozenMap)
    started: str = ""
    spend: Usage | None = None
    open_calls: int = 0
    open_tokens: int = 0
    trouble: str = ""


def get_runs_folder(home: str | Path | None) -> Path:
    """Find the folder with a folder per run.

    Raises:
        ConfigError: the home is an address or a file, and not a folder.
    """
    return home_folder(to_local_folder(home)) / "runs"


def get_run_folder(home: str | Path | None, run: str) -> Path:
    """Find the folder of a run.

    Raises:
        ConfigError: there is no such run; the message lists the runs.
    """
    folder = get_runs_folder(home)
    is_name = run not in ("", "..") and Path(run).name == run
    if not is_name or not os.path.exists(folder / run / JOURNAL):  # it may be too long a name
        names = list_run_names(home)
        known = f"runs are {', '.join(names[-12:])}" if names else "there are none"
        raise ConfigError(f"there is no run {run!r} in {folder}; {_describe_team(home, run) or known}")
    return folder / run


def _describe_team(home: str | Path | None, name: str) -> str:
    """Describe the saved team of a name by the run that made it; "" if there is none."""
    with suppress(LibraryError, ConfigError), open_library(home, create=False) as library:
        return f"{name!r} is a saved team, which run {run_sync(library.find(name)).run!r} made"
    return ""


def list_run_names(home: str | Path | None) -> tuple[str, ...]:
    """List the names of the runs, the newest last."""
    journals = get_runs_folder(home).glob(f"*/{JOURNAL}")
    return tuple(
        path.parent.name for path in sorted(journals, key=lambda path: (get_start_time(path), path.parent.name))
    )


def has_ended(summary: Mapping[str, object]) -> bool:
    """Whether a run's summary says that the run has ended; without that it runs or was killed."""
    return str(summary.get("status", "stopped")).startswith(ENDED)


def get_start_time(journal: Path) -> float:
    """Find when a run was started: by its journal, else by the times of its files; 0 without any."""
    found = 0.0
    with suppress(OSError):
        found = journal.parent.stat().st_ctime
    with suppress(OSError):
        found = journal.with_name(f"{journal.name}.lease").stat().st_mtime  # never written after that
    return _read_start_time(journal, found)


@lru_cache(maxsize=4096)
def _read_start_time(journal: Path, file_time: float) -> float:
    with suppress(JournalError, *FAULTS):
        return datetime.fromisoformat(read_header(journal, check=False).facts[STARTED]).timestamp()
    return file_time


FAULTS = (sqlite3.Error, ValueError, LookupError, TypeError, AttributeError, OSError, OverflowError, RecursionError)
"""Errors of files that are being written, were damaged, or hold something else than a run writes."""


@contextmanager
def explain_foreign(run: str) -> Iterator[None]:
    """Turn errors of a run whose files hold something else than a run writes into a JournalError."""
    try:
        yield
    except (SelfwireError, BrokenPipeError):
        raise
    except FAULTS as error:
        raise JournalError(
            f"run {run!r} holds something that selfwire did not write ({format_error(error)[:STATUS]}); "
            f"`selfwire clean {run}` removes it"
        ) from None


def summarise_run(home: str | Path | None, run: str) -> RunSummary:
    """Summarise a run; `trouble` says why a journal cannot be read."""
    path = get_run_folder(home, run) / JOURNAL
    listed = RunSummary(run=run)
    try:
        with explain_foreign(run):
            started = datetime.fromtimestamp(get_start_time(path), UTC)
            listed = listed.replace(started=started.isoformat("T", "seconds"))
            held = is_held(path)  # a process that ends now notes so before the status is read
            with JournalReader(path) as journal:
                summary = check_summary(run, journal.note(SUMMARY))
                if not held and not has_ended(summary):
                    summary["status"] = INTERRUPTED
                if _only_prunes(journal.note(REQUEST)):
                    summary["verb"] = "prune"
                own, calls = journal.spend(), [journal.count_unsettled()]
            spend = sum_usages([own, *read_evolutions(path, JournalReader.spend)])
            calls += read_evolutions(path, JournalReader.count_unsettled)
            open_calls, open_tokens = map(sum, zip(*calls, strict=True))
            return listed.replace(summary=summary, spend=spend, open_calls=open_calls, open_tokens=open_tokens)
    except JournalError as error:
        return listed.replace(trouble=str(error))


def read_evolutions(path: Path, read: Callable[[JournalReader], T]) -> list[T]:
    """Read something from the journals of the evolutions inside an evaluation, whose cost is part of its own.

    Args:
        path: the evaluation's own journal; other runs have none inside.
    """
    found = []
    for inside in sorted((path.parent / EVOLVED).glob(f"*/runs/*/{JOURNAL}")):
        with JournalReader(inside) as journal:
            found.append(read(journal))
    return found


def _only_prunes(request: object) -> bool:
    """Whether the request of an evolution leaves parts out and rewrites nothing."""
    evolution = request.get("evolution") if isinstance(request, dict) else None
    return isinstance(evolution, dict) and bool(evolution.get("pruning")) and evolution.get("iterations") == 0


def check_summary(run: str, summary: object) -> dict[str, Any]:
    """Return a run's summary; {} if the run ended before it had one.

    Raises:
        JournalError: it is no object that names a command.
    """
    if summary is None:
        return {}
    if isinstance(summary, dict) and isinstance(summary.get("command"), str):
        return summary
    what = "names no command" if isinstance(summary, dict) else "is no object"
    raise JournalError(f"the summary of run {run!r} {what}; `selfwire clean {run}` removes the run")


def list_held_runs(home: str | Path | None) -> tuple[str, ...]:
    """List the runs on which a process is at work."""
    return tuple(run for run in list_run_names(home) if is_held(get_runs_folder(home) / run / JOURNAL))


def remove_run(home: str | Path | None, run: str) -> None:
    """Delete a run's folder; of a folder that is a link, the link alone.

    Raises:
        ConfigError: there is no such run, or it cannot be deleted.
        JournalError: a process is at work on it.
    """
    _remove_folder(get_run_folder(home, run))


def _remove_folder(folder: Path) -> None:
    lease = Lease(folder / JOURNAL)
    try:
        if folder.is_symlink():
            folder.unlink()
        else:
            shutil.rmtree(folder)
    except OSError as error:
        raise ConfigError(f"run folder {folder} cannot be removed: {error}; check the folder's rights") from None
    finally:
        lease.release()


REQUEST = "request"
"""Name of the journal's note that holds the request."""
OUT = "out"
"""Name of the journal's note with another file for the results of an evaluation."""
SERVERS = "mcp_servers"
"""Name of the journal's note with fingerprints of the files of MCP servers."""
GRAPHS = "graphs"
"""Name of the journal's note with the graphs of the teams that a run asks, whose code is imported."""
MARK = "mark"
"""Name of the journal's note by which the user who began a run is known again."""
CALLS_PER_TASK = "calls_per_task"
CHANGEABLE_NAMES = {"structured", "requests_at_once", "requests_per_minute", "tokens_per_minute"}
"""Fields of `Models` that may be others when a run is resumed."""
CHANGEABLE: dict[str, bool | set[str]] = {"budget": True, "models": CHANGEABLE_NAMES, "evolution": {CALLS_PER_TASK}}
"""Fields of a request that may be others when a run is resumed."""

AnyRequest = TypeVar("AnyRequest", bound=RunSpec)


@dataclass(frozen=True)
class ResumeChanges:
    """Changes with which a run is resumed.

    Attributes:
        limits: of the budget, by name, in place of those of the run; kept for the next time.
        models: fields of `Models` from now on, of those in `CHANGEABLE_NAMES`; kept for the next time.
        retry_failed: whether replies on record that were of no use are asked for again.
        named: grader, tools and base_url that the user names anew, which must be those of the run.
        trusted: whether the user trusts whatever the run takes.
        ask: puts a question to the user, where a run of another origin takes something; False if nobody answers.
        calls_per_task: of an evolution or a training, calls reserved for each task; None to leave them.
    """

    limits: Mapping[str, float] = field(default_factory=FrozenMap)
    models: Mapping[str, object] = field(default_factory=FrozenMap)
    retry_failed: bool = False
    named: Mapping[str, str] = field(default_factory=FrozenMap)
    trusted: bool = False
    ask: Callable[[str], bool] = lambda question: False
    calls_per_task: int | None = None


def load_request(path: Path, schema: type[AnyRequest], *commands: str) -> AnyRequest:
    """Load the request of a run; nothing is written.

    Args:
        commands: that start such runs; none if the schema says it.

    Raises:
        JournalError: it is not a run of this kind, or it ended before it began.
    """
    with JournalReader(path) as journal:
        found, summary = journal.note(REQUEST), journal.note(SUMMARY)
        began = check_summary(journal.run, summary).get("command")
        if commands and began not in (None, *commands):
            again = "start the same command again" if began in STUDIES else f"`selfwire {began} --resume {journal.run}`"
            raise JournalError(
                f"run {journal.run!r} was begun by `selfwire {began}`, not by `selfwire {commands[0]}`; "
                f"go on with {again}"
            )
        try:
            return schema.model_validate(found)
        except ValidationError as error:
            wrong = f"{format_first_fault(error)}; is it a run of another command, or of another version of selfwire?"
            why = "it ended before it had begun" if found is None else wrong
            raise JournalError(
                f"run {journal.run!r} holds no request that can be resumed ({why}); start a new run"
            ) from None


def with_changes(request: AnyRequest, changes: ResumeChanges) -> AnyRequest:
    """Replace some limits of a request's budget, and some fields of its models."""
    budget = Budget.model_validate({**request.budget.model_dump(), **changes.limits})
    return request.replace(budget=budget, models=request.models.replace(**changes.models))


def refuse_foreign_run(
    path: Path,
    request: RunSpec,
    changes: ResumeChanges = ResumeChanges(),
    *,
    find_agreed: Callable[[], Collection[str]] | None = None,
) -> None:
    """Refuse a run that another user has made or changed, before anything that it names is imported or called.

    Args:
        path: of the journal.
        request: that the run goes on with.
        find_agreed: of a run that goes on with what its caller names, so that only teams and the file of results come
            from its journal: finds the graphs of teams to which the user has agreed. None if all comes from it.

    Raises:
        JournalError: code or config have changed since the run began.
        ConfigError: the run takes something that the user has not agreed to, or that is not what the user names.
    """
    refuse_other_request(path, request)
    with JournalReader(path, check=False) as journal:
        out, noted, mark = journal.note(OUT), journal.note(GRAPHS) or [], journal.note(MARK)
        graphs = noted if isinstance(noted, list) else [noted]
        text, taken = _describe_for_mark(journal.run, request, out, graphs), list_taken(request, out, graphs)
    if find_agreed is not None:
        taken = {name: value for name, value in taken.items() if name in ("out", "teams")}
    for name, value in changes.named.items():
        found = request.models.base_url if name == "base_url" else getattr(request, name)
        if value != found:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"run {path.parent.name!r} has {option} {found or 'none'}, not {value}; "
                "leave it out, or start a new run"
            )
        taken.pop(name, None)
    if not taken or changes.trusted or is_own(text, mark):
        return
    way_out = "if you trust it, resume the run with --trust-run"
    if find_agreed is not None:
        left = {*map(str, graphs)} - {*find_agreed()} if "teams" in taken else ()
        taken = {name: value for name, value in list_taken(request, out, left).items() if name in taken}
        if not taken:
            return
        remove = f"selfwire clean {path.parent.name}{format_home_option(path.parents[2])}"
        way_out = f"`{remove}` removes it, and then the same call starts anew"
    listed = ", ".join(f"{what} {value}" for what, value in taken.values())
    origin = f"run {path.parent.name!r} in {path.parent.parent} is not known as a run of yours, and names {listed}"
    question = f"{origin}; nothing of that is used yet. Do you trust it?"
    if not is_agreed(path, hashlib.sha256(text.encode()).hexdigest(), question, changes.ask):
        raise ConfigError(f"{origin}; nothing of that was used; {way_out}")


def refuse_other_request(path: Path, request: RunSpec) -> None:
    """Refuse a run whose request is not that with which it began, or that other code began; imports nothing.

    Raises:
        JournalError: the run began with another request, or under other code.
    """
    now = {CODE: compute_code_hash(), "config": compute_config_hash(request), VERSION: get_version()}
    then = read_header(path, check=False).facts
    refuse_other_facts(path, {name: then[name] for name in ("run", *now) if name in then}, now)


def refuse_changed_request(path: Path, began: RunSpec, request: RunSpec) -> None:
    """Refuse to go on with a run by another request than that with which it began, but for what is `CHANGEABLE`.

    Raises:
        JournalError: they differ; the message names the fields, or the code where other code began the run.
    """
    then, now = (_list_fields(spec.model_dump(mode="json", exclude=CHANGEABLE)) for spec in (began, request))
    differ = [
        f"{name} {then.get(name)!r}, not {now.get(name)!r}" for name in then | now if then.get(name) != now.get(name)
    ]
    if differ:
        refuse_other_request(path, began)  # other code may write the same request in another way
        raise JournalError(
            f"run {path.parent.name!r} began with {'; '.join(differ)}; give the same again, or name a new run"
        )


def _list_fields(values: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _list_fields(value, f"{name}.") if isinstance(value, Mapping) else {f"{within}{name}": value}
    return found


def refuse_other_part(path: Path, request: RunSpec, whole: RunSpec) -> None:
    """Refuse a part of a run that is not what the run asks for; imports nothing.

    Args:
        request: of the part, in its journal.
        whole: the request that the run has for the part.

    Raises:
        JournalError: they differ in more than what is `CHANGEABLE` and the file of prices, or other code began it.
    """
    refuse_other_request(path, request)
    prices = {"prices": None}
    if compute_config_hash(request.replace(models=request.models.replace(**prices))) != compute_config_hash(
        whole.replace(models=whole.models.replace(**prices))
    ):
        raise JournalError(f"run file {path} is not of the evolution that its run asks for; start a new run")


def list_taken(request: RunSpec, out: object, graphs: Collection[object] = ()) -> dict[str, tuple[str, str]]:
    """List what a run takes beyond models and tasks: kind and value, by the name of the field.

    Args:
        out: its other file of results.
        graphs: of its teams.
    """
    langsmith = getattr(request, "langsmith", "off")
    named = [target for target in request.targets if is_graph(target)]
    found = {
        "graphs": ("the code of the graphs", ", ".join(named)),
        "teams": ("the code of the graphs of teams", ", ".join(sorted({*map(str, graphs)} - {*named}))),
        "grader": ("the code of the grader", request.grader if ":" in request.grader else ""),
        "tools": ("the tools", ", ".join(find_foreign_tools(request.tools or ""))),
        "base_url": ("the address", request.models.base_url or ""),
        "out": ("the file of results", str(out or "")),
        "langsmith": ("an upload to LangSmith of", "" if langsmith == "off" else langsmith),
    }
    return {name: (what, value) for name, (what, value) in found.items() if value}


def _describe_for_mark(run: str, request: RunSpec, out: object, graphs: object) -> str:
    """Write all of a run that its mark covers: its name, its request without what may change, its file of results.

    And the graphs of its teams.
    """
    fixed = request.model_dump(mode="json", exclude=CHANGEABLE)
    return to_canonical_json([run, fixed, out, graphs])


def compute_config_hash(request: RunSpec) -> str:
    """Compute the hash of a request without what is `CHANGEABLE`."""
    return fingerprint(request.model_dump(mode="json", exclude=CHANGEABLE))


def compute_run_hashes(request: RunSpec, tasks: object, embedder: str) -> dict[str, str]:
    """Compute the hashes that must be equal when a run is resumed, and the versions of selfwire and other packages.

    Args:
        request: of the run; what is `CHANGEABLE` may be another.
    """
    points = [outside_methods()[name][0] for name in request.targets if name in outside_methods()]
    packages = sorted({f"{point.dist.name} {point.dist.version}" for point in points if point.dist})
    return {
        "config": compute_config_hash(request),
        CODE: compute_code_hash(),
        VERSION: get_version(),
        "task set": fingerprint(to_jsonable_python(tasks)),
        "embedder": embedder,
        **({"method": ", ".join(packages)} if packages else {}),
    }


def shorten_name(benchmark: str) -> str:
    """Shorten the name of a benchmark or file for names of runs and teams."""
    name = benchmark.partition("@")[0] if benchmark.startswith("hf:") else benchmark
    return re.sub(r"[^A-Za-z0-9]+", "-", Path(name).stem).strip("-")[:32] or "tasks"


def shorten_method(name: str) -> str:
    """Shorten the name of a graph of the user's own to that of its module or file; a method's stays."""
    return shorten_name(name.rpartition(":")[0]) if is_graph(name) else name


class OpenRun(Protocol):
    """A run that is open."""

    @property
    def command(self) -> str:
        """The command that starts and resumes such runs."""

    @property
    def request(self) -> RunSpec:
        """The spec of the run."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Facts that lists of runs show beside the spec: method and name."""

    @property
    def journal(self) -> Journal:
        """The run's journal."""

    @property
    def ledger(self) -> Ledger:
        """The run's budget and spend."""

    @property
    def spent(self) -> Usage:
        """The cost so far."""


OpenRunT = TypeVar("OpenRunT", bound=OpenRun)


@asynccontextmanager
async def open_in_thread(manager: AbstractContextManager[OpenRunT]) -> AsyncIterator[OpenRunT]:
    """Open and close a run without blocking the event loop; an error that stops it gets a note on how it goes on."""
    opened = await asyncio.to_thread(manager.__enter__)
    try:
        yield opened
    except BaseException as error:
        if not isinstance(error, SelfwireError) or isinstance(error, StoppedError | ModelError):
            error.add_note(f"the same call with run_name={opened.journal.run!r} goes on, and pays for nothing twice")
        if not await asyncio.to_thread(manager.__exit__, type(error), error, error.__traceback__):
            raise
    else:
        await asyncio.to_thread(manager.__exit__, None, None, None)


@dataclass(frozen=True)
class RunPlan(ABC, Generic[OpenRunT]):
    """A run that can be started or resumed: a spec, and everything that it names, loaded once."""

    request: RunSpec
    home: Path | None
    models: LoadedModels
    notices: tuple[str, ...]
    benchmark: Benchmark
    tasks: Splits | tuple[Task, ...]

    @property
    @abstractmethod
    def command(self) -> str:
        """The command that starts and resumes such runs."""

    @abstractmethod
    def open(self, journal: Journal) -> AbstractContextManager[OpenRunT]:
        """Open the run on its journal."""

    def with_notices(self, notices: Sequence[str]) -> Self:
        """The plan with more for the user, before its own notices."""
        return replace(self, notices=(*notices, *self.notices))

    async def note_start(self, journal: Journal) -> None:
        """Note things that may change later, such as saved teams."""

    def create_journal(self, path: Path, run: str) -> Journal:
        """Create the journal of a new run, with the request and the notes of the start.

        Raises:
            JournalError: the file exists or cannot be made.
        """

        def fill(journal: Journal) -> None:
            run_sync(self._note_request(journal))
            run_sync(self.note_start(journal))
            run_sync(journal.put_note(SERVERS, _digest_servers(self.request)))
            out, graphs = (run_sync(journal.get_note(name)) for name in (OUT, GRAPHS))
            text = _describe_for_mark(run, self.request, out, graphs or [])
            run_sync(journal.put_note(MARK, make_mark(text)))
            run_sync(journal.put_note(SUMMARY, make_summary(self.command, self.request, "running")))

        return Journal.create(path, run=run, facts=self._hashes, fill=fill)

    @contextmanager
    def start(self, run: str) -> Iterator[OpenRunT]:
        """Start a new run in a folder of its name.

        Raises:
            ConfigError: the name is none that a run can have.
            JournalError: there is such a run already, or its journal cannot be made.
        """
        require_names("a run", [run])
        path = get_runs_folder(self.home) / run / JOURNAL
        journal = self.create_journal(path, run)
        with end_servers(), _remove_if_unanswered(path), closing(journal), self.open(journal) as opened:
            yield opened

    @contextmanager
    def resume(self, path: Path, *, retry_failed: bool = False) -> Iterator[OpenRunT]:
        """Resume a run that stopped early, and note its request, whose limits may be new.

        Args:
            retry_failed: whether replies on record that were of no use are asked for again.

        Raises:
            JournalError: another process holds the run, or config, code or tasks have changed.
        """
        with end_servers(), _remove_if_unanswered(path), closing(Journal.open(path, self._hashes)) as journal:
            changed = _describe_changed_servers(self.request, run_sync(journal.get_note(SERVERS)))
            with replace(self, notices=(*self.notices, *changed)).open(journal) as opened:
                if retry_failed:
                    journal.retry_failed()
                run_sync(self._note_request(journal))
                yield opened

    @property
    def _hashes(self) -> dict[str, str]:
        return compute_run_hashes(self.request, self.tasks, self.models.embedder.name)

    async def _note_request(self, journal: Journal) -> None:
        await journal.put_note(REQUEST, self.request.model_dump(mode="json"))


def _digest_servers(request: RunSpec) -> dict[str, str]:
    """Fingerprints of the files of MCP servers, by path."""
    files = find_server_files(request.tools or "")
    if not files:
        return {}
    from selfwire.tools.mcp import read_servers

    return {path: read_servers(path).digest for path in files}


def _describe_changed_servers(request: RunSpec, then: object) -> Iterator[str]:
    for path, digest in _digest_servers(request).items():
        if not isinstance(then, dict) or then.get(path) != digest:
            yield f"{path} has changed since the run began: from now on its tools are those of the changed MCP servers"


@contextmanager
def _remove_if_unanswered(path: Path) -> Iterator[None]:
    """Remove a run that an UnansweredError ends, unless a journal below its folder has a paid call after all."""
    try:
        yield
    except UnansweredError:
        if not any(read_spend(found).calls for found in path.parent.rglob(JOURNAL)):
            _remove_folder(path.parent)
        raise


def make_run_name(*parts: str, benchmark: str) -> str:
    """Make a new name for a run on a benchmark, of at most 64 characters."""
    named = "-".join([*map(shorten_method, parts), shorten_name(benchmark)])
    return f"{named[:57]}-{secrets.token_hex(3)}"


async def is_finished(run: OpenRun) -> bool:
    """Whether a run is finished."""
    return (await run.journal.get_note(SUMMARY) or {}).get("status") == "finished"


async def note_status(run: OpenRun, status: str, **more: Any) -> None:
    """Note the status of a run for lists of runs; other facts of earlier phases are kept.

    Args:
        status: running, finished, or stopped and why.
        more: iteration, score, errors; None is left out.
    """
    before = await run.journal.get_note(SUMMARY) or {}
    known = {name: value for name, value in more.items() if value is not None}
    summary = make_summary(run.command, run.request, status)
    await run.journal.put_note(SUMMARY, {**before, **summary, **run.labels, **known})


def make_summary(command: str, request: RunSpec, status: str) -> dict[str, str]:
    """Make the facts that lists of runs show of every run."""
    has_own_models = command in ("eval", "compare") and all(map(is_graph, request.targets))
    model = "of its own" if has_own_models else request.models.agent
    return {"command": command, "benchmark": request.benchmark, "model": model, "status": status}


@asynccontextmanager
async def track_status(run: OpenRun) -> AsyncIterator[None]:
    """Note that a run is running, and why it stops if it does; stop it at its deadline."""
    await note_status(run, "running")
    try:
        async with enforce_deadline(run.ledger):
            yield
    except BaseException as error:
        await note_status(run, to_stop_status(error))
        raise_if_unanswered(run, error)
        raise


def raise_if_unanswered(run: OpenRun, error: BaseException) -> None:
    """Raise an UnansweredError if a provider has refused a run before it answered anything.

    A run that is a part of another is left to that one.
    """
    if isinstance(error, RefusedError) and run.ledger.parent is None and run.spent.calls == 0:
        raise UnansweredError.of(error, "no run is kept: start again") from error


STATUS = 400
"""Most characters of a status, which lists of runs show below their table."""


def to_stop_status(error: BaseException) -> str:
    """Make the status of a run that an error has stopped."""
    if isinstance(error, BrokenPipeError):
        why = "nobody reads what it prints"
    else:
        why = format_error(error) if isinstance(error, Exception) else "interrupted"
    return shorten(f"stopped: {why}", STATUS, placeholder="...")


SEEN = "seen"
"""Name of the journal's note with marks of the tasks that a team, or a measured system, has learned from."""


class ContaminatedTasks(NamedTuple):
    """The tasks that systems have learned from.

    Attributes:
        marks: fingerprints of the tasks' texts, and of their entities and groups beside the name of the benchmark.
        tasks: how many.
        unknown: runs that a system came from and that have no journal, so that their tasks are not known.
    """

    marks: frozenset[str] = frozenset()
    tasks: int = 0
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, tasks: Iterable[Task], benchmark: str) -> "ContaminatedTasks":
        """Mark tasks of a benchmark."""
        marked = [mark_task(task, benchmark) for task in tasks]
        return cls(frozenset().union(*marked), len(marked))

    def has_task(self, task: Task, benchmark: str) -> bool:
        """Whether a system has learned from a task, or from one of its benchmark that shares its group or an entity."""
        return bool(self.marks) and not self.marks.isdisjoint(mark_task(task, benchmark))

    def describe_unknown(self) -> Iterator[str]:
        """Describe that tasks of runs without a journal are not known; empty without such runs."""
        for run in self.unknown:
            yield f"run {run} has no journal here, so nobody knows whether its team has learned from these tasks"

    async def note(self, journal: Journal) -> None:
        """Keep the marks in a run's journal."""
        await journal.put_note(SEEN, [sorted(self.marks), self.tasks, *self.unknown])

    @classmethod
    def load(cls, journal: JournalReader) -> "ContaminatedTasks":
        """Read the marks of a run's journal; empty if there are none."""
        marks, tasks, *unknown = journal.note(SEEN) or ([], 0)
        return cls(frozenset(marks), tasks, tuple(unknown))


def find_contaminated_tasks(runs: Iterable[str], home: Path | None) -> ContaminatedTasks:
    """Find the tasks that runs have learned from, in their journals.

    Args:
        runs: that evolved the systems of an evaluation.
    """
    found, unknown = ContaminatedTasks(), set[str]()
    for run in sorted(set(runs)):
        path = get_runs_folder(home) / run / JOURNAL
        if not path.exists():
            unknown.add(run)
        inside = read_evolutions(path, ContaminatedTasks.load)  # of an evaluation that evolved it first
        if not inside and path.exists():
            with JournalReader(path) as journal:
                inside = [ContaminatedTasks.load(journal)]
        for own in inside:
            found = ContaminatedTasks(found.marks | own.marks, found.tasks + own.tasks)
            unknown.update(own.unknown)
    return found._replace(unknown=tuple(sorted(unknown)))


def mark_task(task: Task, benchmark: str) -> set[str]:
    """Make the fingerprints by which a task is recognised."""
    shared = [*(("entity", entity) for entity in task.entities), *([("group", task.group)] if task.group else [])]
    return {fingerprint(["text", task.input]), *(fingerprint([kind, benchmark, name]) for kind, name in shared)}
