"""Starts and resumes evaluations: from a request to the live parts, and back from a run's files."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from selfwire.core.errors import ConfigError
from selfwire.core.ports import Embedder
from selfwire.core.task import Task
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.benchmarks.catalogue import benchmark as load_benchmark
from selfwire.evals.evaluation.contestants import TRIVIAL, Found, Wiring, entrant, found, trivial
from selfwire.evals.evaluation.request import EvaluationRequest
from selfwire.evals.evaluation.run import Evaluation
from selfwire.evals.models import embedder_name, metered
from selfwire.evals.recording import REQUEST, asked, corpus, facts, short_name, with_limits
from selfwire.evals.runs import JOURNAL, run_folder, runs_folder
from selfwire.graphs.evolution.phases import ELAPSED
from selfwire.runtime.budget import Ledger
from selfwire.runtime.embeddings import embedder
from selfwire.runtime.journal import Journal
from selfwire.runtime.journalled import journalled
from selfwire.runtime.library import open_library
from selfwire.runtime.sync import run_sync

RESULTS = "results.jsonl"
"""Name of the file of results in a run's folder."""
OUT = "out"
"""Name of the journal's note that says where else the results go."""
WORKFLOWS = "workflows"
"""Name of the journal's note that holds every contestant's workflow, as hashes by name."""


class Trial(NamedTuple):
    """What trying a request has brought."""

    bench: Benchmark
    tasks: tuple[Task, ...]
    embeds: Embedder
    notices: tuple[str, ...]
    workflows: Mapping[str, Found]


@contextmanager
def started(
    request: EvaluationRequest, home: Path | None = None, *, run: str | None = None, out: Path | None = None
) -> Iterator[Evaluation]:
    """A new run; nothing is written before every part of the request has been found usable.

    Args:
        request: what to do.
        home: folder of runs and library.
        run: its name.
        out: file of results; one in the run's folder if None.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    trial = checked(request, home)
    name = run or f"{request.command}-{short_name(request.benchmark)}-{secrets.token_hex(3)}"
    told = facts(request, corpus(trial.tasks), trial.embeds.name)
    journal = Journal.create(runs_folder(home) / name / JOURNAL, run=name, facts=told)
    try:
        run_sync(_begun(journal, request, trial.workflows, out and out.resolve()))
        with _opened(request, journal, home, trial, trial.workflows) as opened:
            yield opened
    finally:
        journal.close()


@contextmanager
def resumed(run: str, home: Path | None = None, *, limits: Mapping[str, float] | None = None) -> Iterator[Evaluation]:
    """A run that stopped early, with everything that it had paid for; tasks that ended as errors are tried again.

    Args:
        run: name of the run.
        home: folder of runs and library.
        limits: of the budget, by name, in place of those that the run has had; kept for the next time.

    Raises:
        ConfigError: there is no such run, or a limit cannot be used.
        JournalError: it is no evaluation, another process holds it, or config, code or corpus have changed.
    """
    path = run_folder(home, run) / JOURNAL
    request = with_limits(asked(path, EvaluationRequest), limits or {})
    embeds, notice = embedder(embedder_name(request.models))
    bench = bench_of(request)
    trial = Trial(bench, tasks_of(request, bench), embeds, (notice,) if notice else (), {})
    journal = Journal.open(path, facts(request, corpus(trial.tasks), embeds.name))
    try:
        workflows = run_sync(_begun_with(journal))
        run_sync(journal.note(REQUEST, request.model_dump(mode="json")))
        with _opened(request, journal, home, trial, workflows) as opened:
            yield opened
    finally:
        journal.close()


def checked(request: EvaluationRequest, home: Path | None) -> Trial:
    """Try every part of a request without writing anything.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    if any(entry.name == TRIVIAL for entry in request.entries):
        raise ConfigError(f"{TRIVIAL!r} is the benchmark's own rule, which is always printed; call it something else")
    journal = Journal.memory()
    try:
        model = metered(request.models, journal=journal, ledger=Ledger(request.budget), home=home)
        bench = bench_of(request)
        tasks = tasks_of(request, bench)
        embeds, notice = embedder(embedder_name(request.models))
        wiring = Wiring(model, bench.toolbox, embeds, request.calls_per_task)
        with open_library(home, create=False) as library:
            workflows = {entry.name: run_sync(found(entry, wiring, bench, library)) for entry in request.entries}
        return Trial(bench, tasks, embeds, (notice,) if notice else (), workflows)
    finally:
        journal.close()


def bench_of(request: EvaluationRequest) -> Benchmark:
    """The benchmark with enough tasks."""
    wanted = 4 * request.tasks  # generated tasks share entities, so some are left over
    return load_benchmark(request.benchmark, seed=request.seed, size=wanted, grader=request.grader)


def tasks_of(request: EvaluationRequest, bench: Benchmark) -> tuple[Task, ...]:
    """The tasks of the split, in the order of their numbers.

    Raises:
        ConfigError: there are not enough.
    """
    sizes = {"train": 0, "gate": 0, "test": 0, request.split: request.tasks}
    found: tuple[Task, ...] = getattr(bench.splits(request.seed, **sizes), request.split)
    return found


async def _begun(
    journal: Journal, request: EvaluationRequest, workflows: Mapping[str, Found], out: Path | None
) -> None:
    await journal.note(REQUEST, request.model_dump(mode="json"))
    await journal.note(OUT, None if out is None else str(out))
    bodies = {name: await journal.put_body(one.model_dump(mode="json")) for name, one in workflows.items()}
    await journal.note(WORKFLOWS, bodies)


async def _begun_with(journal: Journal) -> dict[str, Found]:
    """The workflows of the start: a name in the library may mean another by now."""
    bodies = await journal.noted(WORKFLOWS)
    return {name: Found.model_validate(await journal.get_body(body)) for name, body in bodies.items()}


@contextmanager
def _opened(
    request: EvaluationRequest, journal: Journal, home: Path | None, trial: Trial, workflows: Mapping[str, Found]
) -> Iterator[Evaluation]:
    elapsed = run_sync(journal.noted(ELAPSED)) or 0.0
    ledger = Ledger(request.budget, spent=journal.spend(), elapsed=elapsed)
    model = metered(request.models, journal=journal, ledger=ledger, probe=True, home=home)
    toolbox = journalled(trial.bench.toolbox, journal)
    entrants = [trivial(trial.bench.baseline)]
    for entry in request.entries:
        one = workflows[entry.name]
        labelled = model.labelled(method=one.workflow.method, workflow=one.workflow.fingerprint)
        wiring = Wiring(labelled, toolbox, trial.embeds, request.calls_per_task)
        entrants.append(entrant(entry, one, wiring))
    out = run_sync(journal.noted(OUT))
    try:
        yield Evaluation(
            request=request,
            benchmark=trial.bench,
            entrants=entrants,
            tasks=trial.tasks,
            journal=journal,
            ledger=ledger,
            embedder=trial.embeds.name,
            out=Path(out) if out else runs_folder(home) / journal.run / RESULTS,
            notices=trial.notices,
        )
    finally:
        run_sync(journal.note(ELAPSED, ledger.spent.seconds))
