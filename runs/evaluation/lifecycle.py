"""Validates, starts and resumes evaluations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from selfwire.core.errors import ConfigError
from selfwire.core.task import Task
from selfwire.evals.benchmarks.benchmark import Benchmark, NeedsModel
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evals.evaluation.rows import TRIVIAL, ResultsFile
from selfwire.graphs.evolution.nodes import ELAPSED
from selfwire.graphs.method_protocol import Method
from selfwire.runs.evaluation.contamination import ContaminatedTasks, find_contaminated_tasks
from selfwire.runs.evaluation.noted_workflows import load_noted_workflows, note_workflows
from selfwire.runs.evaluation.pre_evolution import make_evolutions
from selfwire.runs.evaluation.request import EvaluationRequest, Slice, SystemSpec
from selfwire.runs.evaluation.run import Evaluation
from selfwire.runs.evaluation.shards import SystemShard
from selfwire.runs.evaluation.systems import (
    LoadedWorkflow,
    SolverFactory,
    System,
    load_system_workflow,
    make_system,
)
from selfwire.runs.folders import JOURNAL, get_run_folder, get_runs_folder
from selfwire.runs.lifecycle import RunPlan, make_run_name
from selfwire.runs.models import load_models_embedder, make_metered_model
from selfwire.runs.run_record import load_request, with_changes
from selfwire.runs.shards import merge_leftover_shards
from selfwire.runs.targets import describe_clashes
from selfwire.runs.training import UNTRAINED, is_untrained
from selfwire.runtime.journal import Journal
from selfwire.runtime.journalled_tools import JournalledTools
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.shared_ledger import open_ledger
from selfwire.runtime.sync import run_sync
from selfwire.runtime.workflow_library import open_library

SLICE = "slice"
"""Name of a shard's note that says what it is of its run."""
RESULTS = "results.jsonl"
"""Name of the file of results in a run's folder."""
OUT = "out"
"""Name of the journal's note that says where else the results go."""
SEEN = "seen"
"""Name of the journal's note that holds marks of the tasks that systems have learned from."""


@dataclass(frozen=True)
class EvaluationPlan(RunPlan[Evaluation]):
    """What an evaluation executes.

    Attributes:
        known: the tasks that these have learned from.
        out: file of results; one in the run's folder if None.
        retry_failed: whether a resumed run asks again for replies that were of no use.
        budget_address: where the processes of the run share its budget; None if one process has it.
        parent: the ledger of what this run is a part of, if it has a budget of its own.
        part: what it is of a run if it is a shard.
    """

    request: EvaluationRequest
    benchmark: Benchmark
    tasks: tuple[Task, ...]
    workflows: Mapping[str, LoadedWorkflow]
    known: ContaminatedTasks
    out: Path | None = None
    retry_failed: bool = False
    budget_address: str | None = None
    parent: Ledger | None = None
    part: Slice | None = None

    @property
    def command(self) -> str:
        """The command that the request says."""
        return self.request.command

    @property
    def corpus(self) -> list[object]:
        """The tasks, as JSON."""
        return [task.model_dump(mode="json") for task in self.tasks]

    async def note_start(self, journal: Journal) -> None:
        """Note the file of results, the workflows of the start and the tasks that they have learned from."""
        await journal.put_note(OUT, None if self.out is None else str(self.out))
        await journal.put_note(SEEN, [sorted(self.known.marks), self.known.tasks])
        await note_workflows(journal, self.workflows)
        if self.part:
            await journal.put_note(SLICE, self.part.model_dump(mode="json"))

    @contextmanager
    def open(self, journal: Journal) -> Iterator[Evaluation]:
        """The run on its journal."""
        request, folder = self.request, get_runs_folder(self.home) / journal.run
        evolutions = () if self.part else make_evolutions(request, folder, self.home)
        before = sum((one.spent for one in evolutions), journal.spend())
        elapsed = run_sync(journal.get_note(ELAPSED)) or 0.0
        if self.parent:
            ledger = Ledger(request.budget, self.parent, before, elapsed=elapsed)
        else:
            ledger = open_ledger(self.budget_address, request.budget, before, elapsed=elapsed)
        model = make_metered_model(
            request.models, journal=journal, ledger=ledger, at_once=request.concurrency, probe=True, home=self.home
        )
        judge = Ledger(parent=ledger) if isinstance(self.benchmark.environment, NeedsModel) else None
        bench = self.benchmark.with_model(model.with_ledger(judge)) if judge else self.benchmark
        toolbox = JournalledTools(bench.toolbox, journal)

        def build_system(entry: SystemSpec, one: LoadedWorkflow) -> System:
            labelled = model.with_labels(method=one.workflow.method, workflow=one.workflow.fingerprint)
            factory = SolverFactory(labelled, toolbox, self.embedder, request.calls_per_task)
            return make_system(entry, one, factory)

        out = run_sync(journal.get_note(OUT))
        try:
            yield Evaluation(
                request=request,
                benchmark=bench,
                workflows=dict(self.workflows),
                build_system=build_system,
                evolutions=evolutions,
                tasks=self.tasks,
                journal=journal,
                ledger=ledger,
                judge=judge,
                embedder=self.embedder.name,
                out=Path(out) if out else folder / RESULTS,
                notices=self.notices,
                retry_failed=self.retry_failed,
                measures_rule=self.part is None or self.part.with_rule,
            )
        finally:
            run_sync(journal.put_note(ELAPSED, ledger.spent.seconds))
            ledger.close()


def start_evaluation(
    request: EvaluationRequest,
    home: Path | None = None,
    *,
    run: str | None = None,
    out: Path | None = None,
    parent: Ledger | None = None,
) -> AbstractContextManager[Evaluation]:
    """A new run; nothing is written unless every part of the request can be used.

    Args:
        out: file of results; one in the run's folder if None.
        parent: the ledger of what this run is a part of.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used, or no results can be written to `out`.
    """
    plan = replace(validate_request(request, home), parent=parent)
    if out is not None:
        ResultsFile(out).discard()
        plan = replace(plan, out=out.resolve())
    return plan.start(run or make_run_name(request.command, benchmark=request.benchmark))


def resume_evaluation(
    run: str,
    home: Path | None = None,
    *,
    limits: Mapping[str, float] | None = None,
    models: Mapping[str, object] | None = None,
    retry_failed: bool = False,
) -> AbstractContextManager[Evaluation]:
    """A run that stopped early, with everything that it has paid for; it repeats tasks that ended as errors.

    Args:
        limits: of the budget, by name, in place of those of the run; kept for the next time.
        models: fields of `ModelNames` from now on, of those in `CHANGEABLE_NAMES`; kept for the next time.
        retry_failed: whether replies on record that were of no use are asked for again.

    Raises:
        ConfigError: there is no such run, or a limit cannot be used.
        JournalError: it is not an evaluation, another process holds it, or config, code or corpus have changed.
    """
    path = get_run_folder(home, run) / JOURNAL
    plan = replace(_load_plan(path, home, limits, models), retry_failed=retry_failed)
    merge_leftover_shards(run, home, SystemShard)  # another command's run has been refused by now
    return plan.resume(path, retry_failed=retry_failed)


def load_plan(run: str, home: Path | None) -> EvaluationPlan:
    """What a run executes that has started; nothing is written.

    Raises:
        JournalError: it is not an evaluation.
    """
    return _load_plan(get_run_folder(home, run) / JOURNAL, home)


def _load_plan(
    path: Path,
    home: Path | None,
    limits: Mapping[str, float] | None = None,
    models: Mapping[str, object] | None = None,
) -> EvaluationPlan:
    return make_plan(with_changes(load_request(path, EvaluationRequest), limits, models), path, home)


def make_plan(
    request: EvaluationRequest,
    path: Path,
    home: Path | None,
    load: Callable[[EvaluationRequest, ContaminatedTasks], tuple[Benchmark, tuple[Task, ...]]] | None = None,
) -> EvaluationPlan:
    """What a request says, with the workflows that a journal has from the start.

    Args:
        load: in place of `load_request_tasks`.
    """
    embedder, notices = load_models_embedder(request.models)
    workflows, known = get_start_notes(path)
    return EvaluationPlan(
        request, home, embedder, notices, *(load or load_request_tasks)(request, known), workflows, known
    )


def validate_request(request: EvaluationRequest, home: Path | None) -> EvaluationPlan:
    """Try every part of a request without writing anything.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    if any(entry.name == TRIVIAL for entry in request.entries):
        raise ConfigError(f"{TRIVIAL!r} is the name of the trivial baseline, which is always measured; choose another")
    for evolution in make_evolutions(request, get_runs_folder(home) / "none", home):
        evolution.validate()
    with closing(Journal.memory()) as journal:
        model = make_metered_model(request.models, journal=journal, ledger=Ledger(request.budget), home=home)
        embedder, notices = load_models_embedder(request.models)
        bench, _ = load_request_tasks(request, ContaminatedTasks())
        factory = SolverFactory(model, bench.toolbox, embedder, request.calls_per_task)
        with open_library(home, create=False) as library:
            workflows = {
                entry.name: run_sync(load_system_workflow(entry, factory, bench, library)) for entry in request.entries
            }
            clashes = describe_clashes((entry.target for entry in request.entries), run_sync(library.names()))
        untrained = [
            entry.name
            for entry in request.entries
            if not (request.evolving and entry.name in request.evolving.names)
            and isinstance(method := factory.solver(workflows[entry.name].workflow.method, entry.config), Method)
            and is_untrained(method, workflows[entry.name].workflow)
        ]
    known = find_contaminated_tasks(workflows.values(), request, home)
    bench, tasks = load_request_tasks(request, known)
    notices = (
        *bench.notes,
        *notices,
        *clashes,
        *(f"{name}: {UNTRAINED}" for name in untrained),
        *_cautions(request, tasks, known),
    )
    return EvaluationPlan(request, home, embedder, notices, bench, tasks, workflows, known)


def _cautions(request: EvaluationRequest, tasks: Sequence[Task], known: ContaminatedTasks) -> Iterator[str]:
    if len(tasks) < request.tasks:
        yield (
            f"{request.tasks - len(tasks)} of {request.tasks} tasks are left out: a system has learned from them, "
            f"and there are no others"
        )
    for run in known.unknown:
        yield f"run {run} is gone, so nobody knows whether these tasks are among those that it has learned from"


def load_request_tasks(request: EvaluationRequest, known: ContaminatedTasks) -> tuple[Benchmark, tuple[Task, ...]]:
    """The benchmark, and the tasks of the split that no system has learned from, in their order.

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
        request.benchmark,
        seed=request.seed,
        size=wanted,
        grader=request.grader,
        rubric=request.rubric,
        tools=request.tools,
        own_data=request.own_data,
    )
    tasks: tuple[Task, ...] = getattr(bench.splits(request.seed, **sizes), request.split)
    fresh = [task for task in tasks if not known.has_task(task)]
    if not fresh:
        raise ConfigError(f"a system has learned from all {len(tasks)} tasks; choose another --seed or --split")
    return bench, tuple(fresh[: request.tasks])


def get_start_notes(path: Path) -> tuple[dict[str, LoadedWorkflow], ContaminatedTasks]:
    """The workflows of the start, which the library may not have any more, and the tasks that they have learned from.

    Raises:
        JournalError: there are none.
    """
    with closing(Journal.open_read_only(path)) as journal:
        workflows = run_sync(load_noted_workflows(journal))
        marks, tasks = run_sync(journal.get_note(SEEN))
        return workflows, ContaminatedTasks(frozenset(marks), tasks)
