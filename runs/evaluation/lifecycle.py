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
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evals.evaluation.rows import ResultsFile
from selfwire.graphs.evolution.nodes import ELAPSED
from selfwire.runs.evaluation.contamination import ContaminatedTasks, find_contaminated_tasks
from selfwire.runs.evaluation.pre_evolution import make_evolutions
from selfwire.runs.evaluation.request import EvaluationRequest, SystemSpec
from selfwire.runs.evaluation.run import WORKFLOWS, Evaluation, note_workflows
from selfwire.runs.evaluation.shards import Shard, merge_leftover_shards
from selfwire.runs.evaluation.systems import (
    TRIVIAL,
    LoadedWorkflow,
    SolverFactory,
    System,
    load_system_workflow,
    make_system,
)
from selfwire.runs.folders import JOURNAL, get_run_folder, get_runs_folder
from selfwire.runs.models import get_embedder_name, make_metered_model
from selfwire.runs.run_record import (
    REQUEST,
    compute_run_hashes,
    load_request,
    shorten_name,
    to_corpus_json,
    with_limits,
)
from selfwire.runtime.embeddings import load_embedder
from selfwire.runtime.journal import Journal
from selfwire.runtime.journalled_tools import add_journal
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.sync import run_sync
from selfwire.runtime.workflow_library import open_library

RESULTS = "results.jsonl"
"""Name of the file of results in a run's folder."""
OUT = "out"
"""Name of the journal's note that says where else the results go."""
SEEN = "seen"
"""Name of the journal's note that holds marks of the tasks that contestants have learned from."""


class ValidatedRequest(NamedTuple):
    """What trying a request has brought."""

    bench: Benchmark
    tasks: tuple[Task, ...]
    embeds: Embedder
    notices: tuple[str, ...]
    workflows: Mapping[str, LoadedWorkflow]
    known: ContaminatedTasks


@contextmanager
def start_evaluation(
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
    trial = validate_request(request, home)
    if out is not None:
        ResultsFile(out).discard()
    name = run or f"{request.command}-{shorten_name(request.benchmark)}-{secrets.token_hex(3)}"
    told = compute_run_hashes(request, to_corpus_json(trial.tasks), trial.embeds.name)
    journal = Journal.create(get_runs_folder(home) / name / JOURNAL, run=name, facts=told)
    try:
        run_sync(_write_start_notes(journal, request, trial, out and out.resolve()))
        with _open_run(request, journal, home, trial) as opened:
            yield opened
    finally:
        journal.close()


@contextmanager
def resume_evaluation(
    run: str, home: Path | None = None, *, limits: Mapping[str, float] | None = None
) -> Iterator[Evaluation]:
    """A run that stopped early, with everything that it had paid for; tasks that ended as errors are tried again.

    Args:
        run: name of the run.
        home: folder of runs and library.
        limits: of the budget, by name, in place of those that the run has had; kept for the next time.

    Raises:
        ConfigError: there is no such run, or a limit cannot be used.
        JournalError: it is no evaluation, another process holds it, or config, code or corpus have changed.
    """
    path = get_run_folder(home, run) / JOURNAL
    merge_leftover_shards(run, home)
    request = with_limits(load_request(path, EvaluationRequest), limits or {})
    embeds, notice = load_embedder(get_embedder_name(request.models))
    workflows, known = get_start_notes(path)
    bench, tasks = load_request_tasks(request, known)
    trial = ValidatedRequest(bench, tasks, embeds, (notice,) if notice else (), workflows, known)
    journal = Journal.open(path, compute_run_hashes(request, to_corpus_json(trial.tasks), embeds.name))
    try:
        run_sync(journal.put_note(REQUEST, request.model_dump(mode="json")))
        with _open_run(request, journal, home, trial) as opened:
            yield opened
    finally:
        journal.close()


@contextmanager
def open_shard(part: Shard) -> Iterator[Evaluation]:
    """One contestant of a run that has begun, in a journal of its own; its tasks and its calls' scopes are the run's.

    Raises:
        JournalError: a journal cannot be used.
    """
    request = load_request(part.whole, EvaluationRequest)
    workflows, known = get_start_notes(part.whole)
    bench, tasks = load_request_tasks(request, known)
    embeds, _ = load_embedder(get_embedder_name(request.models))
    alone = request.alone(part.name)
    trial = ValidatedRequest(bench, tasks, embeds, (), {part.name: workflows[part.name]}, known)
    told = compute_run_hashes(alone, to_corpus_json(tasks), embeds.name)
    journal = Journal.create(part.own, run=part.run, facts=told)
    run_sync(_write_start_notes(journal, alone, trial, part.own.with_name(RESULTS)))
    journal.close()
    part.copy_from_run()
    journal = Journal.open(part.own, told)
    try:
        with _open_run(alone, journal, part.home, trial) as opened:
            yield opened
    finally:
        journal.close()


def validate_request(request: EvaluationRequest, home: Path | None) -> ValidatedRequest:
    """Try every part of a request without writing anything.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    if any(entry.name == TRIVIAL for entry in request.entries):
        raise ConfigError(f"{TRIVIAL!r} is the benchmark's own rule, which is always printed; call it something else")
    for evolution in make_evolutions(request, get_runs_folder(home) / "none", home):
        evolution.checked()
    journal = Journal.memory()
    try:
        model = make_metered_model(request.models, journal=journal, ledger=Ledger(request.budget), home=home)
        embeds, notice = load_embedder(get_embedder_name(request.models))
        bench, _ = load_request_tasks(request, ContaminatedTasks())
        wiring = SolverFactory(model, bench.toolbox, embeds, request.calls_per_task)
        with open_library(home, create=False) as library:
            workflows = {
                entry.name: run_sync(load_system_workflow(entry, wiring, bench, library)) for entry in request.entries
            }
    finally:
        journal.close()
    known = find_contaminated_tasks(workflows.values(), request, home)
    bench, tasks = load_request_tasks(request, known)
    notices = (*([notice] if notice else ()), *_cautions(request, tasks, known))
    return ValidatedRequest(bench, tasks, embeds, notices, workflows, known)


def _cautions(request: EvaluationRequest, tasks: Sequence[Task], known: ContaminatedTasks) -> Iterator[str]:
    if len(tasks) < request.tasks:
        yield (
            f"{request.tasks - len(tasks)} of {request.tasks} tasks are left out: a contestant has learned from them, "
            f"and there are no others"
        )
    for run in known.unknown:
        yield f"run {run} is gone, so nobody knows whether these tasks are among those that it has learned from"


def load_request_tasks(request: EvaluationRequest, known: ContaminatedTasks) -> tuple[Benchmark, tuple[Task, ...]]:
    """The benchmark, and the tasks of the split that no contestant has learned from, in their order.

    Raises:
        ConfigError: there are not enough tasks.
    """
    with suppress(ConfigError):
        return _tasks(request, known, known.tasks)
    return _tasks(request, known, 0)


def _tasks(request: EvaluationRequest, known: ContaminatedTasks, more: int) -> tuple[Benchmark, tuple[Task, ...]]:
    evolving = request.evolving
    others = {"train": evolving.train, "gate": evolving.gate} if evolving else {"train": 0, "gate": 0}
    sizes = {**others, "test": 0, request.split: request.tasks + more}
    wanted = 4 * sum(sizes.values())  # generated tasks share entities, so some are left over
    bench = load_benchmark(
        request.benchmark, seed=request.seed, size=wanted, grader=request.grader, rubric=request.rubric
    )
    tasks: tuple[Task, ...] = getattr(bench.splits(request.seed, **sizes), request.split)
    fresh = [task for task in tasks if not known.has_task(task)]
    if not fresh:
        raise ConfigError(f"a contestant has learned from all {len(tasks)} tasks; choose another --seed or --split")
    return bench, tuple(fresh[: request.tasks])


async def _write_start_notes(
    journal: Journal, request: EvaluationRequest, trial: ValidatedRequest, out: Path | None
) -> None:
    await journal.put_note(REQUEST, request.model_dump(mode="json"))
    await journal.put_note(OUT, None if out is None else str(out))
    await journal.put_note(SEEN, [sorted(trial.known.marks), trial.known.tasks])
    await note_workflows(journal, trial.workflows)


def get_start_notes(path: Path) -> tuple[dict[str, LoadedWorkflow], ContaminatedTasks]:
    """The workflows of the start, as a name in the library may mean another by now, and what they had learned from.

    Raises:
        JournalError: there are none.
    """
    journal = Journal.open_read_only(path)
    try:
        bodies = run_sync(journal.get_note(WORKFLOWS))
        if bodies is None:
            raise JournalError(f"run {journal.run!r} ended before it had begun; start a new run")
        marks, tasks = run_sync(journal.get_note(SEEN))
        workflows = {
            name: LoadedWorkflow.model_validate(run_sync(journal.get_body(body))) for name, body in bodies.items()
        }
        return workflows, ContaminatedTasks(frozenset(marks), tasks)
    finally:
        journal.close()


@contextmanager
def _open_run(
    request: EvaluationRequest, journal: Journal, home: Path | None, trial: ValidatedRequest
) -> Iterator[Evaluation]:
    evolutions = make_evolutions(request, get_runs_folder(home) / journal.run, home)
    before = sum((one.spent for one in evolutions), journal.spend())
    ledger = Ledger(request.budget, spent=before, elapsed=run_sync(journal.get_note(ELAPSED)) or 0.0)
    model = make_metered_model(
        request.models, journal=journal, ledger=ledger, at_once=request.concurrency, probe=True, home=home
    )
    judge = Ledger(parent=ledger) if isinstance(trial.bench.environment, NeedsModel) else None
    bench = trial.bench.with_model(model.with_ledger(judge)) if judge else trial.bench
    toolbox = add_journal(bench.toolbox, journal)

    def entered(entry: SystemSpec, one: LoadedWorkflow) -> System:
        labelled = model.with_labels(method=one.workflow.method, workflow=one.workflow.fingerprint)
        return make_system(entry, one, SolverFactory(labelled, toolbox, trial.embeds, request.calls_per_task, ledger))

    out = run_sync(journal.get_note(OUT))
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
            out=Path(out) if out else get_runs_folder(home) / journal.run / RESULTS,
            notices=trial.notices,
        )
    finally:
        run_sync(journal.put_note(ELAPSED, ledger.spent.seconds))
