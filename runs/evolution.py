"""Validates, starts, resumes and executes evolutions."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Toolbox
from selfwire.core.task import Splits
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.graphs.checkpoints import sqlite_saver
from selfwire.graphs.evolution.config import EvolutionContext
from selfwire.graphs.evolution.graph import Event, run_evolution
from selfwire.graphs.evolution.nodes import ELAPSED, EvolutionState
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.method_registry import make_method
from selfwire.graphs.ready_tools import BENCHMARK
from selfwire.graphs.rollouts import RolloutRunner, stream_rollouts
from selfwire.runs.controls import with_random_edits
from selfwire.runs.folders import CHECKPOINTS, JOURNAL, get_run_folder, get_runs_folder
from selfwire.runs.lifecycle import RunPlan, make_run_name, note_status, track_status
from selfwire.runs.models import load_models_embedder, make_metered_model
from selfwire.runs.requests import EvolveRequest
from selfwire.runs.run_record import load_request, with_changes
from selfwire.runs.shards import merge_leftover_shards
from selfwire.runs.targets import describe_clashes, require_saved
from selfwire.runs.workflow_checks import make_seed, refuse_missing_tools, refuse_other_method, refuse_unreadable_memory
from selfwire.runtime.journal import Journal
from selfwire.runtime.journalled_tools import JournalledTools
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.metered import MeteredModel
from selfwire.runtime.sync import run_sync
from selfwire.runtime.versions import Version
from selfwire.runtime.workflow_library import WorkflowLibrary, open_library

SEED = "seed"
"""Name of the journal's note that holds the body of the initial workflow."""


@dataclass(frozen=True)
class EvolutionRun:
    """An evolution that can be run now.

    Attributes:
        context: what the outer evolution needs.
        notices: what the user should know, such as a fallback.
    """

    request: EvolveRequest
    benchmark: Benchmark
    context: EvolutionContext
    model: MeteredModel
    toolbox: Toolbox
    saver: BaseCheckpointSaver[Any]
    notices: tuple[str, ...] = ()
    command: str = "evolve"

    @property
    def labels(self) -> dict[str, str]:
        """Method, and the name that the workflow is saved under."""
        return {"method": self.request.method, "name": self.context.config.name}

    @property
    def journal(self) -> Journal:
        """The run's journal."""
        return self.context.journal

    @property
    def ledger(self) -> Ledger:
        """The run's budget and spend."""
        return self.context.ledger

    @property
    def spent(self) -> Usage:
        """The cost so far."""
        return self.journal.spend()

    async def find_evolved(self) -> Version | None:
        """The version that the name means now, if this run has made it; None while that is the initial workflow."""
        name, library = self.context.config.name, self.context.library
        if name not in await library.names():
            return None
        head = await library.head(name)
        unchanged = head.fingerprint == self.context.seed_workflow.fingerprint
        return None if unchanged or head.run != self.context.run else head

    async def execute(self, on_event: Callable[[Event], None] = lambda event: None) -> EvolutionState:
        """Run the evolution, or continue it; see `run_evolution`.

        Raises:
            BudgetError, OutageError, ModelError: it stopped early and can be resumed.
        """
        async with track_status(self):
            final = await run_evolution(self.context, self.saver, on_event)
        await self.note_end(final)
        return final

    async def note_end(self, final: EvolutionState) -> None:
        """Note that the run is finished, with its score on the test tasks."""
        await note_status(self, "finished", iteration=final["iteration"], score=_score(final))


class Place:
    """Where an evolution runs its tasks: in this process."""

    def load_tasks(self, request: EvolveRequest) -> tuple[Benchmark, Splits]:
        """The benchmark and the tasks of all splits."""
        benchmark = _benchmark(request)
        return benchmark, _split(benchmark, request)

    async def load_seed(self, seed: Workflow, journal: Journal, library: WorkflowLibrary) -> None:
        """Load the bytes of the workflow of the start, and keep them: a file that they came from may be gone later."""
        await library.keep(await library.fetch(seed))

    def open_ledger(self, plan: "EvolutionPlan", journal: Journal, elapsed: float) -> Ledger:
        """What pays for calls."""
        return Ledger(plan.request.budget, plan.parent, journal.spend(), elapsed=elapsed)

    def open_runner(
        self, plan: "EvolutionPlan", method: Method, journal: Journal, ledger: Ledger
    ) -> AbstractContextManager[RolloutRunner]:
        """What runs tasks."""
        return nullcontext(stream_rollouts)


HERE = Place()


@dataclass(frozen=True)
class EvolutionPlan(RunPlan[EvolutionRun]):
    """What an evolution executes.

    Attributes:
        command: the command that starts and resumes it.
        parent: the ledger of the run that this one is a part of.
        place: where its tasks are run.
    """

    request: EvolveRequest
    command: str = field(default="evolve", kw_only=True)
    parent: Ledger | None = field(default=None, kw_only=True)
    place: Place = field(default=HERE, kw_only=True)

    @property
    def corpus(self) -> Splits:
        """The tasks of all splits."""
        return self.place.load_tasks(self.request)[1]

    @contextmanager
    def open(self, journal: Journal) -> Iterator[EvolutionRun]:
        """The run on its journal."""
        request, elapsed = self.request, run_sync(journal.get_note(ELAPSED)) or 0.0
        with closing(self.place.open_ledger(self, journal, elapsed)) as ledger, open_library(self.home) as library:
            models = make_metered_model(
                request.models,
                journal=journal,
                ledger=ledger,
                at_once=request.evolution.concurrency,
                probe=True,
                home=self.home,
            )
            model = models.with_labels(method=request.method)
            bench, tasks = self.place.load_tasks(request)
            bench = bench.with_model(model)
            toolbox = JournalledTools(bench.toolbox, journal)
            method = make_method(
                request.method, model=model, toolbox=toolbox, embedder=self.embedder, config=request.config
            )
            if request.random_edits is not None:
                method = with_random_edits(method, request.random_edits)
            seed = Workflow.model_validate(run_sync(journal.get_body(run_sync(journal.get_note(SEED)))))
            run_sync(self.place.load_seed(seed, journal, library))
            saver = sqlite_saver(get_runs_folder(self.home) / journal.run / CHECKPOINTS)
            try:
                with self.place.open_runner(self, method, journal, ledger) as runner:
                    context = EvolutionContext(
                        run=journal.run,
                        config=request.evolution,
                        method=method,
                        environment=bench.environment,
                        splits=tasks if request.tested else tasks.replace(test=()),
                        seed_workflow=seed,  # a name in the library may mean another by now
                        library=library,
                        journal=journal,
                        ledger=ledger,
                        tools=request.tools or (f"{BENCHMARK}:{request.benchmark}" if bench.toolbox else ""),
                        model=request.models.agent,
                        runner=runner,
                    )
                    yield EvolutionRun(request, bench, context, model, toolbox, saver, self.notices, self.command)
            finally:
                run_sync(journal.put_note(ELAPSED, ledger.spent.seconds))
                saver.close()


@dataclass(frozen=True)
class ValidatedEvolution(EvolutionPlan):
    """An evolution whose request can be used."""

    method: Method
    seed: Workflow

    async def note_start(self, journal: Journal) -> None:
        """Note the workflow of the start."""
        await journal.put_note(SEED, await journal.put_body(self.seed.model_dump(mode="json")))


def start_evolution(
    request: EvolveRequest,
    home: Path | None = None,
    *,
    run: str | None = None,
    parent: Ledger | None = None,
    place: Place = HERE,
) -> AbstractContextManager[EvolutionRun]:
    """A new run; nothing is written unless every part of the request can be used.

    Args:
        parent: the ledger of the run that this one is a part of.
        place: where tasks are run.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    plan = replace(validate_request(request, home), parent=parent, place=place)
    return plan.start(run or make_run_name(request.method, benchmark=request.benchmark))


def resume_evolution(
    run: str,
    home: Path | None = None,
    *,
    limits: Mapping[str, float] | None = None,
    models: Mapping[str, object] | None = None,
    retry_failed: bool = False,
    command: str = "evolve",
    parent: Ledger | None = None,
    place: Place = HERE,
) -> AbstractContextManager[EvolutionRun]:
    """A run that stopped early, with everything that it has paid for.

    Args:
        parent: the ledger of the run that this one is a part of, which knows its cost so far.
        limits: of the budget, by name, in place of those of the run; kept for the next time.
        models: fields of `ModelNames` from now on, of those in `CHANGEABLE_NAMES`; kept for the next time.
        retry_failed: whether replies on record that were of no use are asked for again.
        place: where tasks are run.

    Raises:
        ConfigError: there is no such run, or a limit cannot be used.
        JournalError: another command started it, another process holds it, or config, code or corpus have changed.
    """
    path = get_run_folder(home, run) / JOURNAL
    request = with_changes(load_request(path, EvolveRequest, command), limits, models)
    merge_leftover_shards(run, home)
    loaded = load_models_embedder(request.models)
    plan = EvolutionPlan(request, home, *loaded, command=command, parent=parent, place=place)
    return plan.resume(path, retry_failed=retry_failed)


def validate_request(request: EvolveRequest, home: Path | None) -> ValidatedEvolution:
    """Try every part of a request without writing anything.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    with closing(Journal.memory()) as journal:
        model = make_metered_model(request.models, journal=journal, ledger=Ledger(request.budget), home=home)
        bench, _ = HERE.load_tasks(request)
        embedder, notices = load_models_embedder(request.models)
        method = make_method(
            request.method, model=model, toolbox=bench.toolbox, embedder=embedder, config=request.config
        )
        with open_library(home, create=False) as library:
            seed = _seed(method, request, bench, library)
        notices = (*bench.notes, *notices, *describe_clashes([request.evolution.name], [request.evolution.name]))
        return ValidatedEvolution(request, home, embedder, notices, method, seed)


def _benchmark(request: EvolveRequest) -> Benchmark:
    sizes = request.sizes
    wanted = 4 * (sizes.train + sizes.gate + sizes.test)  # generated tasks share entities, so many are left over
    return load_benchmark(
        request.benchmark,
        seed=request.evolution.seed,
        size=wanted,
        grader=request.grader,
        rubric=request.rubric,
        tools=request.tools,
        own_data=request.own_data,
    )


def splits(request: EvolveRequest) -> Splits:
    """The tasks that an evolution learns from, is chosen by and is tested on.

    Raises:
        ConfigError: there are not enough, or the gate has none.
    """
    return HERE.load_tasks(request)[1]


def _split(benchmark: Benchmark, request: EvolveRequest) -> Splits:
    sizes = request.sizes
    if request.evolution.gate == "paired" and not sizes.gate and request.evolution.iterations:
        raise ConfigError("the paired gate needs gate tasks; give --gate-size above 0, or --gate off")
    return benchmark.splits(request.evolution.seed, train=sizes.train, gate=sizes.gate, test=sizes.test)


def _seed(method: Method, request: EvolveRequest, bench: Benchmark, library: WorkflowLibrary) -> Workflow:
    if request.seed_team is None:
        return make_seed(method, bench)
    workflow = run_sync(library.load(require_saved(request.seed_team)))
    what = f"seed team {request.seed_team!r}"
    refuse_other_method(workflow, method.name, what)
    workflow = method.prepare_workflow(workflow)
    refuse_unreadable_memory(method, workflow, what)
    refuse_missing_tools(workflow, bench.toolbox, what, f", which {bench.name} lacks; lend other tools")
    return workflow


def _score(final: EvolutionState) -> float | None:
    scores = [score for score in final.get("test", {}).get("after", {}).get("scores", []) if score is not None]
    return sum(scores) / len(scores) if scores else None
