"""Evaluations: systems on the tasks of a benchmark; validated, started, resumed and executed."""

import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.core.errors import ConfigError, LibraryError, SelfwireError
from selfwire.core.plugins import compute_code_hash, get_version
from selfwire.core.scope import Scope
from selfwire.core.task import Splits, Task
from selfwire.core.trajectory import CUT, Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import format_count
from selfwire.evals.benchmarks.benchmark import Benchmark, NeedsModel, TooFewTasksError
from selfwire.evals.graders import GradedEnvironment
from selfwire.evals.table import TRIVIAL, Header, ResultsFile, SystemSummary, TaskRow, make_task_row
from selfwire.extras.cluster.shards import merge_leftover_shards
from selfwire.extras.cluster.shared_ledger import open_ledger
from selfwire.graphs.evolve import ELAPSED
from selfwire.graphs.rollouts import (
    JUDGE_NODE,
    RolloutContext,
    RolloutRunner,
    freeze_gc,
    is_of_grader,
    make_ungraded,
    run_together,
    stream_rollouts,
)
from selfwire.models.budget import Ledger
from selfwire.models.sync import run_sync
from selfwire.runs.inputs import (
    Given,
    SystemParts,
    describe_clashes,
    find_kind,
    find_teams_of,
    load_models,
    load_to_ask,
)
from selfwire.runs.pre_evolution import PreEvolution, compute_left, make_evolutions
from selfwire.runs.record import (
    JOURNAL,
    OUT,
    ROWS,
    ContaminatedTasks,
    ResumeChanges,
    RunPlan,
    find_contaminated_tasks,
    get_run_folder,
    get_runs_folder,
    list_run_names,
    load_request,
    make_run_name,
    note_status,
    raise_if_unanswered,
    refuse_changed_request,
    refuse_foreign_run,
    to_stop_status,
    track_status,
    with_changes,
)
from selfwire.runs.spec import LEAST, EvaluateSpec, GivenSizes, PreEvolutionSpec, find_most, fit_sizes
from selfwire.runs.systems import (
    LoadedTeam,
    MeasuredSystem,
    describe_origin,
    load_noted_teams,
    load_system_team,
    make_system,
    make_trivial_system,
    note_teams,
)
from selfwire.runs.training import UNTRAINED, is_untrained
from selfwire.store.journal import Journal, hash_body
from selfwire.store.journal_file import JournalReader
from selfwire.store.library import open_library
from selfwire.tools.own import JournalledTools

PHASE = "eval"
BESIDE = 4
"""Most tasks of the trivial baseline that run at once, beside the tasks of a system."""
READ_AT_ONCE = 100
"""Number of rows that are in memory at a time."""
NOTED_EVERY = 5.0
"""Seconds between two notes of the elapsed time."""
TOLD_EVERY = 0.1
"""Least seconds between two events of progress, as each adds up the spend; the last event has no delay."""

Event = dict[str, Any]
"""Progress: target, number, targets, done, total, score, errors, spend."""


class UploadedDataset(NamedTuple):
    """A run's tasks in LangSmith: the id of the dataset and their number."""

    id: str
    tasks: int


@dataclass
class OpenEvaluation:
    """An evaluation that can be run now.

    Attributes:
        workflows: of the systems, by name; `evolve` replaces those that evolve.
        parts: that systems are made with.
        evolutions: of systems that are evolved first.
        judge: pays for the calls of a model that grades; None if none does.
        notices: what the user should know.
        retry_failed: whether replies on record that were of no use are asked for again.
        get_rollout_runner: puts the tasks to a system; `runs.langsmith` sets one that reports to LangSmith.
        dataset: in LangSmith, to which workers report too; None if nothing is uploaded.
    """

    request: EvaluateSpec
    benchmark: Benchmark
    workflows: dict[str, LoadedTeam]
    parts: SystemParts
    evolutions: Sequence[PreEvolution]
    tasks: Sequence[Task]
    journal: Journal
    ledger: Ledger
    embedder: str
    folder: Path
    out: Path
    judge: Ledger | None = None
    notices: tuple[str, ...] = ()
    retry_failed: bool = False
    get_rollout_runner: Callable[[MeasuredSystem], RolloutRunner] = lambda system: stream_rollouts
    dataset: UploadedDataset | None = None
    _noted: float = field(default=-math.inf, init=False)

    @property
    def run(self) -> str:
        """Name of the run."""
        return self.journal.run

    @property
    def command(self) -> str:
        """The command that starts such runs."""
        return self.request.command

    @property
    def labels(self) -> dict[str, str]:
        """The names of the systems, for lists of runs."""
        return {"method": ", ".join(self.request.targets)}

    @property
    def spent(self) -> Usage:
        """The cost so far, that of evolutions included."""
        return self.ledger.spent

    @property
    def origins(self) -> tuple[str, ...]:
        """A line per system with the origin of its team."""
        evolved = {evolution.entry.name for evolution in self.evolutions}
        return tuple(
            describe_origin(entry, self.workflows[entry.name], self.request.models.agent, evolves=entry.name in evolved)
            for entry in self.request.entries
        )

    @property
    def systems(self) -> list[MeasuredSystem]:
        """The trivial baseline, then the systems of the request."""
        entries = self.request.entries
        return [
            make_trivial_system(self.benchmark.baseline, self.parts),
            *(self.make_system(entry.name) for entry in entries),
        ]

    def make_system(self, name: str) -> MeasuredSystem:
        """Make a system of the request by its name."""
        entry = next(entry for entry in self.request.entries if entry.name == name)
        return make_system(entry, self.workflows[name], self.parts)

    def get_scope(self, name: str) -> Scope:
        """Return the scope of a system's calls."""
        return Scope(run=f"{self.run}/{name}", seed=self.request.seed, phase=PHASE)

    @property
    def rollout_context(self) -> RolloutContext:
        """Environment, journal and limits of the rollouts."""
        request, environment = self.request, self.benchmark.environment
        if isinstance(environment, GradedEnvironment):
            environment = environment.with_timeout(request.grading_timeout)
        return RolloutContext(
            environment=environment,
            journal=self.journal,
            ledger=self.ledger,
            concurrency=request.concurrency,
            calls_per_task=request.calls_per_task,
            keep_errors_below=1.0,
            capped=request.calls_per_task is not None,
            replays_grades=False,
            judge=self.judge,
        )

    def evolve(
        self,
        on_event: Callable[[PreEvolution, Event], None] = lambda evolution, event: None,
        run_all: Callable[[Sequence[PreEvolution]], None] | None = None,
    ) -> None:
        """Evolve the systems that are to be evolved first; blocks.

        Args:
            run_all: runs what is left of them; by default they run here, one after another.

        Raises:
            BudgetError, OutageError, ModelError: it stopped early and can be resumed.
        """
        left = [evolution for evolution in self.evolutions if not evolution.is_finished]
        run_sync(note_status(self, "running"))
        try:
            (run_all or partial(self._evolve_here, on_event))(left)
        except BaseException as error:
            run_sync(note_status(self, to_stop_status(error)))
            raise_if_unanswered(self, error)
            raise
        for evolution in self.evolutions:
            self.workflows[evolution.entry.name] = evolution.result(self.run)
        run_sync(note_teams(self.journal, self.workflows))

    def _evolve_here(self, on_event: Callable[[PreEvolution, Event], None], evolutions: Sequence[PreEvolution]) -> None:
        for evolution in evolutions:
            run_sync(note_status(self, f"evolving {evolution.entry.name}"))
            left = compute_left(self.request.budget, self.ledger.spent, evolution.spent)
            evolution.run(left, self.ledger, partial(on_event, evolution), retry_failed=self.retry_failed)

    async def execute(self, on_event: Callable[[Event], None] = lambda event: None) -> tuple[SystemSummary, ...]:
        """Run tasks without a row or with an error; write the file of results; return the table's lines.

        Raises:
            BudgetError, OutageError: it stopped early and can be resumed; the rows so far are written.
        """
        with self.journal.on_this_loop():
            await self.measure(on_event)
            return await self.finish()

    async def measure(self, on_event: Callable[[Event], None] = lambda event: None) -> None:
        """Run tasks without a row or with an error; raises as `execute`."""
        async with track_status(self):
            await self._run_all(on_event)

    async def finish(self) -> tuple[SystemSummary, ...]:
        """Write the file of results, and note that the run is finished; return the table's lines."""
        lines = await self.write_results(complete=True)
        score, errors = lines[-1].score if len(lines) == 2 else None, sum(line.errors for line in lines[1:])
        await note_status(self, "finished", score=score, errors=errors)
        return lines

    async def write_results(self, *, complete: bool) -> tuple[SystemSummary, ...]:
        """Write the rows so far to the file of results; return the table's lines."""
        lines = tuple(SystemSummary(system.info) for system in self.systems)
        file, oracle = ResultsFile(self.out, way_out="move it away, then resume the run"), False
        for line in lines:
            async for texts, rows in self._read([_note(line.info.name, task.id) for task in self.tasks]):
                file.add(texts)
                for row in rows:
                    line.add(row)
                    oracle = oracle or row.oracle
        file.finish(self._header(oracle, complete=complete))
        return lines

    async def rows(self) -> AsyncIterator[TaskRow]:
        """Read all rows so far, system by system in the order of the tasks."""
        for system in self.systems:
            async for _, rows in self._read([_note(system.name, task.id) for task in self.tasks]):
                for row in rows:
                    yield row

    async def _read(self, names: Sequence[str]) -> AsyncIterator[tuple[list[str], list[TaskRow]]]:
        """Read notes of rows, some at a time: their texts in the journal, and the rows."""
        for start in range(0, len(names), READ_AT_ONCE):
            some = names[start : start + READ_AT_ONCE]
            found = await self.journal.get_notes(some)
            texts = [found[name] for name in some if name in found]
            yield texts, [TaskRow.model_validate_json(text) for text in texts]

    async def _run_all(self, on_event: Callable[[Event], None]) -> None:
        """Run the systems one after another, and the benchmark's rule at the same time; it finishes even if they stop.

        It goes first where a model grades, whose calls may be refused, and where `concurrency` is 1, as there the
        grader may bear no more.
        """
        rule, *requested = self.systems
        stopped: list[Exception] = []

        async def one_after_another() -> None:
            try:
                for number, system in enumerate(requested, 1):
                    await self._run(system, number, self.rollout_context, on_event)
            except (SelfwireError, ValueError, RuntimeError) as error:  # the latter two are faults of workers
                stopped.append(error)

        with freeze_gc():
            ruled = self._run(rule, 0, self._rule_context, on_event)
            if self.judge or self.request.concurrency == 1:
                await ruled
                await one_after_another()
            else:
                await run_together([one_after_another(), ruled])
        if stopped:
            raise stopped[0]

    @property
    def _rule_context(self) -> RolloutContext:
        """The rollout context of the benchmark's own rule; calls of its grader count for no task.

        A grader may fail on all of its answers, which are empty.
        """
        context = replace(self.rollout_context, ungraded=math.inf)
        if self.judge:
            return replace(context, capped=True, calls_per_task=0)
        at_once = min(self.request.concurrency, BESIDE)
        return replace(context, ledger=Ledger(), capped=False, concurrency=at_once)

    async def _run(
        self, system: MeasuredSystem, number: int, context: RolloutContext, on_event: Callable[[Event], None]
    ) -> None:
        ctx = system.ctx.where(self.get_scope(system.name))
        targets, count = len(self.request.entries), SystemSummary(system.info)
        async for _, rows in self._read(await self.journal.list_note_names(_note(system.name))):
            for row in rows:
                if row.score is not None:
                    count.add(row)
        todo = [task for task in self.tasks if task.id not in count.scores]
        last, pending, errors = -math.inf, False, list[str]()

        def tell() -> None:
            nonlocal last, pending
            last, pending = time.monotonic(), False
            on_event(
                {
                    "target": system.name, "number": number, "targets": targets, "done": count.tasks,
                    "total": len(self.tasks), "score": count.score, "errors": count.errors, "spend": self.ledger.spent,
                }
            )  # fmt: skip

        async def keep(task: Task, found: Sequence[Trajectory]) -> None:
            nonlocal pending
            count.add(row := await self.save_row(system.name, task, found[0]))
            errors.append(row.error or "")
            pending, now = True, time.monotonic()
            await self._note_time(now)
            if count.tasks == len(self.tasks) or now - last >= TOLD_EVERY:
                tell()

        try:
            await self.get_rollout_runner(system)(context, system.rollout_fn, system.workflow, todo, ctx, keep)
        finally:
            if pending:  # it was stopped
                tell()
        if errors and context.ungraded < math.inf and count.score is None and all(map(is_of_grader, errors)):
            raise make_ungraded(f"all of {format_count(len(errors), 'answer')}", errors[-1])

    async def save_row(self, name: str, task: Task, done: Trajectory) -> TaskRow:
        """Save the row of a system's task in the journal, with the trajectory; return the row."""
        scope, spent = self.get_scope(name), done.usage
        if done.feedback is None or done.notes.get(CUT):  # what failed has no steps and was paid for
            here: dict[str, str | int] = {"run": scope.run, "iteration": 0, "phase": PHASE, "task": task.id}
            judged = await self.journal.spend_at(**here, node=JUDGE_NODE)
            spent = (await self.journal.spend_at(**here)).subtract(judged)
        body = done.model_dump_json(exclude_defaults=True)
        row = make_task_row(name, task.question, done, spent, hash_body(body))
        await self.journal.put_note_and_body(_note(name, task.id), row.model_dump_json(), row.trajectory, body)
        return row

    async def _note_time(self, now: float) -> None:
        if now - self._noted > NOTED_EVERY:
            self._noted = now
            await self.journal.put_note(ELAPSED, self.ledger.spent.seconds)  # for a budget after a kill

    def _header(self, oracle: bool, *, complete: bool) -> Header:
        request = self.request
        return Header(
            selfwire=get_version(),
            code=compute_code_hash(),
            run=self.run,
            benchmark=request.benchmark,
            grader=self.benchmark.environment.name,
            split=request.split,
            seed=request.seed,
            tasks=len(self.tasks),
            models={**request.models.roles, **request.models.named},
            embedder=self.embedder,
            calls_per_task=request.calls_per_task,
            systems=tuple(system.info for system in self.systems),
            oracle=oracle,
            stand_in=request.models.is_offline,
            complete=complete,
        )


def _note(name: str, task: str = "") -> str:
    return f"{ROWS}/{name}/{task}"


RESULTS = "results.jsonl"
"""Name of the file of results in a run's folder."""


@dataclass(frozen=True)
class EvaluationPlan(RunPlan[OpenEvaluation]):
    """An evaluation that can be started or resumed.

    Attributes:
        known: the tasks that these have learned from.
        out: file of results; one in the run's folder if None.
        retry_failed: whether a resumed run asks again for replies that were of no use.
        budget_address: where the processes of the run share its budget; None if one process has it.
        parent: the ledger of what this run is a part of, if it has a budget of its own.
        is_part: whether it is a shard, with some tasks of a system.
        given: objects behind names of the request.
    """

    request: EvaluateSpec
    tasks: tuple[Task, ...]
    workflows: Mapping[str, LoadedTeam]
    known: ContaminatedTasks
    out: Path | None = None
    retry_failed: bool = False
    budget_address: str | None = None
    parent: Ledger | None = None
    is_part: bool = False
    given: Given = field(default_factory=Given)

    @property
    def command(self) -> str:
        """The command of the request."""
        return self.request.command

    async def note_start(self, journal: Journal) -> None:
        """Note the file of results, the teams of the start and the tasks that they have learned from."""
        await journal.put_note(OUT, None if self.out is None else str(self.out))
        await self.known.note(journal)
        await note_teams(journal, self.workflows)

    @contextmanager
    def open(self, journal: Journal) -> Iterator[OpenEvaluation]:
        """Open the run on its journal."""
        request, folder = self.request, get_runs_folder(self.home) / journal.run
        evolutions = () if self.is_part else make_evolutions(request, folder, self.home)
        before = sum((evolution.spent for evolution in evolutions), journal.spend())
        elapsed = run_sync(journal.get_note(ELAPSED)) or 0.0
        if self.parent:
            ledger = Ledger(request.budget, self.parent, before, elapsed=elapsed)
        else:
            ledger = open_ledger(self.budget_address, request.budget, before, elapsed=elapsed)
        model = self.models.meter(journal, ledger, at_once=request.concurrency, probe=True)
        judge = Ledger(parent=ledger) if isinstance(self.benchmark.environment, NeedsModel) else None
        bench = self.benchmark.with_model(model.with_ledger(judge)) if judge else self.benchmark
        toolbox = JournalledTools(bench.toolbox, journal)

        out = run_sync(journal.get_note(OUT))
        try:
            yield OpenEvaluation(
                request=request,
                benchmark=bench,
                workflows=dict(self.workflows),
                parts=SystemParts(model, toolbox, self.models.embedder, request.calls_per_task),
                evolutions=evolutions,
                tasks=self.tasks,
                journal=journal,
                ledger=ledger,
                judge=judge,
                embedder=self.models.embedder.name,
                folder=folder,
                out=Path(out) if out else folder / RESULTS,
                notices=self.notices,
                retry_failed=self.retry_failed,
            )
        finally:
            run_sync(journal.put_note(ELAPSED, ledger.spent.seconds))
            ledger.close()


def start_evaluation(
    request: EvaluateSpec,
    home: Path | None = None,
    *,
    run: str | None = None,
    out: Path | None = None,
    parent: Ledger | None = None,
) -> AbstractContextManager[OpenEvaluation]:
    """Start a new run; nothing is written unless every part of the request can be used.

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
    run: str, home: Path | None = None, changes: ResumeChanges = ResumeChanges()
) -> AbstractContextManager[OpenEvaluation]:
    """Resume a run that stopped early; answered calls are not paid for again, tasks with errors are repeated.

    Raises:
        ConfigError: there is no such run, or a limit cannot be used.
            Or the run is another user's, and takes what this user has not agreed to.
        JournalError: it is not an evaluation, another process holds it, or config, code or tasks have changed.
    """
    path = get_run_folder(home, run) / JOURNAL
    refuse_foreign_run(path, load_request(path, EvaluateSpec, "eval", "compare"), changes)
    plan = replace(load_plan(path, home, changes), retry_failed=changes.retry_failed)
    merge_leftover_shards(run, home)  # another command's run has been refused by now
    return plan.resume(path, retry_failed=changes.retry_failed)


def start_or_resume(
    request: EvaluateSpec, home: Path | None, run: str, given: Given, notices: tuple[str, ...] = ()
) -> AbstractContextManager[OpenEvaluation]:
    """Start a run, or resume the run of this name with the limits of this request; raises as `resume_evaluation`.

    Args:
        notices: for the user, before those of the run.
    """
    if run not in list_run_names(home):
        return validate_request(request, home, given).with_notices(notices).start(run)
    path = get_run_folder(home, run) / JOURNAL
    refuse_changed_request(path, load_request(path, EvaluateSpec), request)
    refuse_foreign_run(path, request, find_agreed=partial(_list_agreed_graphs, request, home, given))
    plan = make_plan(request, path, home, partial(load_request_tasks, given=given), given)
    merge_leftover_shards(run, home)
    return plan.with_notices(notices).resume(path)


def _list_agreed_graphs(request: EvaluateSpec, home: Path | None, given: Given) -> set[str]:
    """List the graphs of the teams that the caller hands over, or that are named and agreed to.

    Raises:
        ConfigError: another user has saved a team of a graph that is named, and the user has not agreed to it.
    """
    found = {team.method for team in given.teams.values()}
    with open_library(home, create=False) as library:
        for target in (entry.target for entry in request.entries):
            if target not in given.teams and not find_kind(target):
                with suppress(LibraryError):  # what is no longer there is not agreed to
                    found.add(run_sync(load_to_ask(target, library))[0].method)
    return found


def load_plan(path: Path, home: Path | None, changes: ResumeChanges = ResumeChanges()) -> EvaluationPlan:
    """Load the plan of a run that has started from its journal; nothing is written.

    Raises:
        JournalError: it is not an evaluation.
    """
    return make_plan(with_changes(load_request(path, EvaluateSpec), changes), path, home)


def make_plan(
    request: EvaluateSpec,
    path: Path,
    home: Path | None,
    load: Callable[[EvaluateSpec, ContaminatedTasks], tuple[Benchmark, tuple[Task, ...]]] | None = None,
    given: Given = Given(),
) -> EvaluationPlan:
    """Load all that a spec names, and the teams of the start from the journal.

    Args:
        load: in place of `load_request_tasks`.
        given: objects behind names of the request.
    """
    teams, known = get_start_notes(path)
    models, tasks = load_models(request.models, home, given.models), (load or load_request_tasks)(request, known)
    return EvaluationPlan(request, home, models, models.notices, *tasks, teams, known, given=given)


def validate_request(request: EvaluateSpec, home: Path | None, given: Given = Given()) -> EvaluationPlan:
    """Try every part of a request without writing anything.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    if any(entry.name == TRIVIAL for entry in request.entries):
        raise ConfigError(f"{TRIVIAL!r} is the name of the trivial baseline, which is always measured; choose another")
    with closing(Journal.memory()) as journal:
        models = load_models(request.models, home, given.models, find_teams_of(request, home, given))
        model = models.meter(journal, Ledger(request.budget))
        bench, _ = load_request_tasks(request, ContaminatedTasks(), given)
        parts = SystemParts(model, bench.toolbox, models.embedder, request.calls_per_task)
        with open_library(home, create=False) as library:
            teams = {
                entry.name: run_sync(load_system_team(entry, parts, bench, library, given.teams))
                for entry in request.entries
            }
            clashes = describe_clashes((entry.target for entry in request.entries), run_sync(library.names()))
        untrained = [
            entry.name
            for entry in request.entries
            for team in [teams[entry.name].workflow]
            if not (request.evolving and entry.name in request.evolving.names)
            and is_untrained(parts.open(team.method, entry.config)[0], team)
        ]
    for evolution in make_evolutions(request, get_runs_folder(home) / "none", home):
        evolution.validate()
    known = find_contaminated_tasks((team.run for team in teams.values() if team.learned and team.run), home)
    bench, tasks = load_request_tasks(request, known, given)
    notices = (
        *bench.notes,
        *models.notices,
        *clashes,
        *(f"{name}: {UNTRAINED}" for name in untrained),
        *_cautions(request, tasks, known),
    )
    return EvaluationPlan(request, home, models, notices, bench, tasks, teams, known, given=given)


def _cautions(request: EvaluateSpec, tasks: Sequence[Task], known: ContaminatedTasks) -> Iterator[str]:
    if len(tasks) < request.tasks:
        learned = ["a system has learned from them, and there are no others"] if known.marks else []
        repeated = ["they repeat the question of another; a larger --tasks may have more questions"]
        why = [*learned, *(repeated if request.command == "compare" else [])]
        yield f"{request.tasks - len(tasks)} of {request.tasks} tasks are left out: {', or '.join(why)}"
    yield from known.describe_unknown()


def load_request_tasks(
    request: EvaluateSpec, known: ContaminatedTasks, given: Given = Given()
) -> tuple[Benchmark, tuple[Task, ...]]:
    """Load the benchmark, and the tasks of the split that no system has learned from, in their order.

    A comparison has a question that repeats once, as several would count one chance several times.
    One in which nobody is evolved sets tasks aside for evolutions too, where there are enough, so that the
    tasks of a seed do not depend on who takes part.

    Raises:
        ConfigError: there are not enough tasks.
    """
    if request.command == "compare" and request.evolving is None:
        with suppress(ConfigError):
            evolving = request.replace(evolving=PreEvolutionSpec())
            return _tasks(evolving, known, _count_more(evolving, known), given)

    def fits(more: int) -> bool:
        with suppress(TooFewTasksError):
            _deal(request, more, given)
            return True
        return False

    more = _count_more(request, known)
    with suppress(TooFewTasksError):
        return _tasks(request, known, more, given)
    return _tasks(request, known, find_most(more, fits), given)


def _count_more(request: EvaluateSpec, known: ContaminatedTasks) -> int:
    """Count the tasks that may have to be left out: those of saved systems, and then those of evolutions inside."""
    evolving = request.evolving
    return known.tasks + (evolving.train + evolving.gate_size if evolving and known.tasks else 0)


def _tasks(
    request: EvaluateSpec, known: ContaminatedTasks, more: int, given: Given
) -> tuple[Benchmark, tuple[Task, ...]]:
    bench, splits = _deal(request, more, given)
    tasks: tuple[Task, ...] = getattr(splits, request.split)
    if request.evolving and more:  # an evolution inside deals its tasks out without these
        _, inside = _deal(request, 0, given)
        learned = ContaminatedTasks.of((*inside.train, *inside.gate), request.benchmark)
        known = known._replace(marks=known.marks | learned.marks)
    fresh = [task for task in tasks if not known.has_task(task, request.benchmark)]
    if not fresh:
        raise ConfigError(f"a system has learned from all {len(tasks)} tasks; choose another --seed or --split")
    if request.command == "compare":
        firsts = {task.input: task.id for task in reversed(fresh)}
        fresh = [task for task in fresh if firsts[task.input] == task.id]
    return bench, tuple(fresh[: request.tasks])


def _deal(request: EvaluateSpec, more: int, given: Given) -> tuple[Benchmark, Splits]:
    """Deal tasks out, and so many more of those that are measured."""
    evolving = request.evolving
    others = {"train": evolving.train, "gate": evolving.gate_size} if evolving else {"train": 0, "gate": 0}
    sizes = {**others, "test": 0, request.split: request.tasks + more}
    wanted = 4 * sum(sizes.values())  # generated tasks share entities, so some are left over
    bench = given.load_benchmark(request, request.seed, wanted)
    return bench, bench.splits(request.seed, **sizes)


def get_start_notes(path: Path) -> tuple[dict[str, LoadedTeam], ContaminatedTasks]:
    """Read the teams of the start and the tasks that they have learned from; the library may have lost them.

    Raises:
        JournalError: there are none.
    """
    with JournalReader(path, check=False) as journal:
        return load_noted_teams(journal), ContaminatedTasks.load(journal)


def fit_evaluation(request: EvaluateSpec, given: GivenSizes, objects: Given = Given()) -> tuple[EvaluateSpec, str]:
    """Fit the sizes of an evaluation to its tasks; see `fit_evolution`.

    Args:
        given: of --train, --gate-size and --tasks; only of --tasks where nothing is evolved first.
    """
    evolving = request.evolving

    def resize(sizes: Mapping[str, int]) -> EvaluateSpec:
        tasks = request.replace(tasks=sizes["--tasks"])
        if evolving is None:
            return tasks
        return tasks.replace(evolving=evolving.replace(train=sizes["--train"], gate_size=sizes["--gate-size"]))

    usual = {"--tasks": request.tasks}
    if evolving is not None:
        usual = {"--train": evolving.train, "--gate-size": evolving.gate_size, **usual}
    sizes, note = fit_sizes(
        request.benchmark,
        {name: given.get(name) for name in usual},
        usual,
        lambda found: load_request_tasks(resize(found), ContaminatedTasks(), objects),
        least=LEAST if evolving else 1,
        names_interval=False,  # tasks that a system has learned from may be left out yet; the table has the interval
    )
    return resize(sizes), note
