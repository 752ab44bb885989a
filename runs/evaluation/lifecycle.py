"""Starts and resumes evaluations: from a request to the live parts, and back from a run's files."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from selfwire.core.errors import ConfigError, JournalError
from selfwire.core.protocols import Embedder
from selfwire.core.task import Task
from selfwire.evals.benchmarks.benchmark import Benchmark, NeedsModel
from selfwire.evals.benchmarks.catalogue import benchmark as load_benchmark
from selfwire.evals.evaluation.rows import ResultsFile
from selfwire.graphs.evolution.nodes import ELAPSED
from selfwire.runs.evaluation.contamination import Seen, seen
from selfwire.runs.evaluation.pre_evolution import evolutions_of
from selfwire.runs.evaluation.request import Entry, EvaluationRequest
from selfwire.runs.evaluation.run import WORKFLOWS, Evaluation, noted_workflows
from selfwire.runs.evaluation.shards import Part, gathered
from selfwire.runs.evaluation.systems import TRIVIAL, Entrant, Found, Wiring, entrant, found
from selfwire.runs.folders import JOURNAL, run_folder, runs_folder
from selfwire.runs.models import embedder_name, metered
from selfwire.runs.run_record import REQUEST, asked, corpus, facts, short_name, with_limits
from selfwire.runtime.embeddings import embedder
from selfwire.runtime.journal import Journal
from selfwire.runtime.journalled_tools import journalled
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.sync import run_sync
from selfwire.runtime.workflow_library import open_library

RESULTS = "results.jsonl"
"""Name of the file of results in a run's folder."""
OUT = "out"
"""Name of the journal's note that says where else the results go."""
SEEN = "seen"
"""Name of the journal's note that holds marks of the tasks that contestants have learned from."""


class Trial(NamedTuple):
    """What trying a request has brought."""

    bench: Benchmark
    tasks: tuple[Task, ...]
    embeds: Embedder
    notices: tuple[str, ...]
    workflows: Mapping[str, Found]
    known: Seen


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
        ConfigError, LibraryError: a name, file or option cannot be used, or no results can be written to `out`.
    """
    trial = checked(request, home)
    if out is not None:
        ResultsFile(out).discard()
    name = run or f"{request.command}-{short_name(request.benchmark)}-{secrets.token_hex(3)}"
    told = facts(request, corpus(trial.tasks), trial.embeds.name)
    journal = Journal.create(runs_folder(home) / name / JOURNAL, run=name, facts=told)
    try:
        run_sync(_begun(journal, request, trial, out and out.resolve()))
        with _opened(request, journal, home, trial) as opened:
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
    gathered(run, home)
    request = with_limits(asked(path, EvaluationRequest), limits or {})
    embeds, notice = embedder(embedder_name(request.models))
    workflows, known = begun_with(path)
    bench, tasks = tasks_of(request, known)
    trial = Trial(bench, tasks, embeds, (notice,) if notice else (), workflows, known)
    journal = Journal.open(path, facts(request, corpus(trial.tasks), embeds.name))
    try:
        run_sync(journal.note(REQUEST, request.model_dump(mode="json")))
        with _opened(request, journal, home, trial) as opened:
            yield opened
    finally:
        journal.close()


@contextmanager
def part_of(part: Part) -> Iterator[Evaluation]:
    """One contestant of a run that has begun, in a journal of its own; its tasks and its calls' scopes are the run's.

    Raises:
        JournalError: a journal cannot be used.
    """
    request = asked(part.whole, EvaluationRequest)
    workflows, known = begun_with(part.whole)
    bench, tasks = tasks_of(request, known)
    embeds, _ = embedder(embedder_name(request.models))
    alone = request.alone(part.name)
    trial = Trial(bench, tasks, embeds, (), {part.name: workflows[part.name]}, known)
    told = facts(alone, corpus(tasks), embeds.name)
    journal = Journal.create(part.own, run=part.run, facts=told)
    run_sync(_begun(journal, alone, trial, part.own.with_name(RESULTS)))
    journal.close()
    part.begun()
    journal = Journal.open(part.own, told)
    try:
        with _opened(alone, journal, part.home, trial) as opened:
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
    for evolution in evolutions_of(request, runs_folder(home) / "none", home):
        evolution.checked()
    journal = Journal.memory()
    try:
        model = metered(request.models, journal=journal, ledger=Ledger(request.budget), home=home)
        embeds, notice = embedder(embedder_name(request.models))
        bench, _ = tasks_of(request, Seen())
        wiring = Wiring(model, bench.toolbox, embeds, request.calls_per_task)
        with open_library(home, create=False) as library:
            workflows = {entry.name: run_sync(found(entry, wiring, bench, library)) for entry in request.entries}
    finally:
        journal.close()
    known = seen(workflows.values(), request, home)
    bench, tasks = tasks_of(request, known)
    notices = (*([notice] if notice else ()), *_cautions(request, tasks, known))
    return Trial(bench, tasks, embeds, notices, workflows, known)


def _cautions(request: EvaluationRequest, tasks: Sequence[Task], known: Seen) -> Iterator[str]:
    if len(tasks) < request.tasks:
        yield (
            f"{request.tasks - len(tasks)} of {request.tasks} tasks are left out: a contestant has learned from them, "
            f"and there are no others"
        )
    for run in known.unknown:
        yield f"run {run} is gone, so nobody knows whether these tasks are among those that it has learned from"


def tasks_of(request: EvaluationRequest, known: Seen) -> tuple[Benchmark, tuple[Task, ...]]:
    """The benchmark, and the tasks of the split that no contestant has learned from, in their order.

    Raises:
        ConfigError: there are not enough tasks.
    """
    with suppress(ConfigError):
        return _tasks(request, known, known.tasks)
    return _tasks(request, known, 0)


def _tasks(request: EvaluationRequest, known: Seen, more: int) -> tuple[Benchmark, tuple[Task, ...]]:
    evolving = request.evolving
    others = {"train": evolving.train, "gate": evolving.gate} if evolving else {"train": 0, "gate": 0}
    sizes = {**others, "test": 0, request.split: request.tasks + more}
    wanted = 4 * sum(sizes.values())  # generated tasks share entities, so some are left over
    bench = load_benchmark(
        request.benchmark, seed=request.seed, size=wanted, grader=request.grader, rubric=request.rubric
    )
    tasks: tuple[Task, ...] = getattr(bench.splits(request.seed, **sizes), request.split)
    fresh = [task for task in tasks if not known.holds(task)]
    if not fresh:
        raise ConfigError(f"a contestant has learned from all {len(tasks)} tasks; choose another --seed or --split")
    return bench, tuple(fresh[: request.tasks])


async def _begun(journal: Journal, request: EvaluationRequest, trial: Trial, out: Path | None) -> None:
    await journal.note(REQUEST, request.model_dump(mode="json"))
    await journal.note(OUT, None if out is None else str(out))
    await journal.note(SEEN, [sorted(trial.known.marks), trial.known.tasks])
    await noted_workflows(journal, trial.workflows)


def begun_with(path: Path) -> tuple[dict[str, Found], Seen]:
    """The workflows of the start, as a name in the library may mean another by now, and what they had learned from.

    Raises:
        JournalError: there are none.
    """
    journal = Journal.reading(path)
    try:
        bodies = run_sync(journal.noted(WORKFLOWS))
        if bodies is None:
            raise JournalError(f"run {journal.run!r} ended before it had begun; start a new run")
        marks, tasks = run_sync(journal.noted(SEEN))
        workflows = {name: Found.model_validate(run_sync(journal.get_body(body))) for name, body in bodies.items()}
        return workflows, Seen(frozenset(marks), tasks)
    finally:
        journal.close()


@contextmanager
def _opened(request: EvaluationRequest, journal: Journal, home: Path | None, trial: Trial) -> Iterator[Evaluation]:
    evolutions = evolutions_of(request, runs_folder(home) / journal.run, home)
    before = sum((one.spent for one in evolutions), journal.spend())
    ledger = Ledger(request.budget, spent=before, elapsed=run_sync(journal.noted(ELAPSED)) or 0.0)
    model = metered(request.models, journal=journal, ledger=ledger, at_once=request.concurrency, probe=True, home=home)
    judge = Ledger(parent=ledger) if isinstance(trial.bench.environment, NeedsModel) else None
    bench = trial.bench.with_model(model.paid_by(judge)) if judge else trial.bench
    toolbox = journalled(bench.toolbox, journal)

    def entered(entry: Entry, one: Found) -> Entrant:
        labelled = model.labelled(method=one.workflow.method, workflow=one.workflow.fingerprint)
        return entrant(entry, one, Wiring(labelled, toolbox, trial.embeds, request.calls_per_task, ledger))

    out = run_sync(journal.noted(OUT))
    try:
        yield Evaluation(
            request=request,
            benchmark=bench,
            workflows=dict(trial.workflows),
            entered=entered,
            evolutions=evolutions,
            tasks=trial.tasks,
            journal=journal,
            ledger=ledger,
            judge=judge,
            embedder=trial.embeds.name,
            out=Path(out) if out else runs_folder(home) / journal.run / RESULTS,
            notices=trial.notices,
        )
    finally:
        run_sync(journal.note(ELAPSED, ledger.spent.seconds))
