"""Starts, finds and resumes evolutions: from a request to the live parts, and back from a run's files."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from langgraph.checkpoint.base import BaseCheckpointSaver

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder, Toolbox
from selfwire.core.task import Splits
from selfwire.core.workflow import Workflow
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.graphs.checkpoints import sqlite_saver
from selfwire.graphs.evolution.config import EvolutionContext
from selfwire.graphs.evolution.graph import Event, run_evolution
from selfwire.graphs.evolution.nodes import ELAPSED, EvolutionState
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.method_registry import make_method
from selfwire.runs.controls import with_random_edits
from selfwire.runs.folders import CHECKPOINTS, JOURNAL, SUMMARY, get_run_folder, get_runs_folder
from selfwire.runs.models import get_embedder_name, make_metered_model
from selfwire.runs.requests import EvolveRequest
from selfwire.runs.run_record import REQUEST, compute_run_hashes, load_request, shorten_name, track_status, with_limits
from selfwire.runtime.embeddings import load_embedder
from selfwire.runtime.journal import Journal
from selfwire.runtime.journalled_tools import add_journal
from selfwire.runtime.ledger import Ledger, enforce_deadline
from selfwire.runtime.metered import MeteredModel
from selfwire.runtime.sync import run_sync
from selfwire.runtime.workflow_library import WorkflowLibrary, open_library

SEED = "seed"
"""Name of the journal's note that holds the body of the workflow that it starts from."""


@dataclass(frozen=True)
class EvolutionRun:
    """An evolution that can be run now.

    Attributes:
        request: what was asked.
        benchmark: its tasks and tools.
        parts: what the outer evolution needs.
        model: all models, metered.
        saver: of the outer evolution.
        notices: what the user should know, such as a fallback.
    """

    request: EvolveRequest
    benchmark: Benchmark
    parts: EvolutionContext
    model: MeteredModel
    toolbox: Toolbox
    saver: BaseCheckpointSaver[Any]
    notices: tuple[str, ...] = ()

    async def execute(self, on_event: Callable[[Event], None] = lambda event: None) -> EvolutionState:
        """Run, or go on with, the evolution; see `run_evolution`.

        Raises:
            BudgetError, OutageError, ModelError: it stopped early and can be resumed.
        """
        async with track_status(self.tell), enforce_deadline(self.parts.ledger):
            final = await run_evolution(self.parts, self.saver, on_event)
        await self.tell("finished", iteration=final["iteration"], **_scores(final))
        return final

    async def tell(self, status: str, **more: Any) -> None:
        """Note how the run stands, for lists of runs."""
        summary = {
            "command": "evolve",
            "method": self.request.method,
            "benchmark": self.request.benchmark,
            "model": self.request.models.agent,
            "name": self.parts.config.name,
            "status": status,
        }
        await self.parts.journal.put_note(SUMMARY, {**summary, **more})


@contextmanager
def start_evolution(
    request: EvolveRequest, home: Path | None = None, *, run: str | None = None
) -> Iterator[EvolutionRun]:
    """A new run; nothing is written before every part of the request has been found usable.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    trial = validate_request(request, home)
    name = run or f"{request.method}-{shorten_name(request.benchmark)}-{secrets.token_hex(3)}"
    told = compute_run_hashes(request, splits(request), trial.embeds.name)
    journal = Journal.create(get_runs_folder(home) / name / JOURNAL, run=name, facts=told)
    try:
        run_sync(_write_start_notes(journal, request, trial.seed))
        with _open_run(request, journal, home, trial.embeds, trial.notices) as opened:
            yield opened
    finally:
        journal.close()


@contextmanager
def resume_evolution(
    run: str, home: Path | None = None, *, limits: Mapping[str, float] | None = None, command: str = "evolve"
) -> Iterator[EvolutionRun]:
    """A run that stopped early, with everything that it had paid for.

    Args:
        run: name of the run.
        home: folder of runs and library.
        limits: of the budget, by name, in place of those that the run has had; kept for the next time.
        command: that begins such runs.

    Raises:
        ConfigError: there is no such run, or a limit cannot be used.
        JournalError: another command began it, another process holds it, or config, code or corpus have changed.
    """
    path = get_run_folder(home, run) / JOURNAL
    request = with_limits(load_request(path, EvolveRequest, command), limits or {})
    embeds, notice = load_embedder(get_embedder_name(request.models))
    journal = Journal.open(path, compute_run_hashes(request, splits(request), embeds.name))
    try:
        with _open_run(request, journal, home, embeds, (notice,) if notice else ()) as opened:
            run_sync(journal.put_note(REQUEST, request.model_dump(mode="json")))
            yield opened
    finally:
        journal.close()


async def _write_start_notes(journal: Journal, request: EvolveRequest, seed: Workflow) -> None:
    await journal.put_note(REQUEST, request.model_dump(mode="json"))
    await journal.put_note(SEED, await journal.put_body(seed.model_dump(mode="json")))


class ValidatedRequest(NamedTuple):
    """What trying a request has brought: what the user should know, embedder, method and the workflow of the start."""

    notices: tuple[str, ...]
    embeds: Embedder
    method: Method
    seed: Workflow


def validate_request(request: EvolveRequest, home: Path | None) -> ValidatedRequest:
    """Try every part of a request without writing anything.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    journal = Journal.memory()
    try:
        model = make_metered_model(request.models, journal=journal, ledger=Ledger(request.budget), home=home)
        bench = _benchmark(request)
        splits(request)
        embeds, notice = load_embedder(get_embedder_name(request.models))
        made = make_method(request.method, model=model, toolbox=bench.toolbox, embedder=embeds, config=request.config)
        with open_library(home, create=False) as library:
            seed = _seed(made, request, bench, library)
        return ValidatedRequest((notice,) if notice else (), embeds, made, seed)
    finally:
        journal.close()


@contextmanager
def _open_run(
    request: EvolveRequest, journal: Journal, home: Path | None, embeds: Embedder, notices: tuple[str, ...]
) -> Iterator[EvolutionRun]:
    elapsed = run_sync(journal.get_note(ELAPSED)) or 0.0
    ledger = Ledger(request.budget, spent=journal.spend(), elapsed=elapsed)
    at_once = request.evolution.concurrency
    models = make_metered_model(request.models, journal=journal, ledger=ledger, at_once=at_once, probe=True, home=home)
    model = models.with_labels(method=request.method)
    bench = _benchmark(request).with_model(model)
    toolbox = add_journal(bench.toolbox, journal)
    made = make_method(request.method, model=model, toolbox=toolbox, embedder=embeds, config=request.config)
    seed = Workflow.model_validate(run_sync(journal.get_body(run_sync(journal.get_note(SEED)))))
    with open_library(home) as library:
        run_sync(library.keep(run_sync(library.fetch(seed))))  # a file that it came from may be gone at the resume
        parts = EvolutionContext(
            run=journal.run,
            config=request.evolution,
            method=with_random_edits(made, request.random_edits) if request.random_edits is not None else made,
            environment=bench.environment,
            splits=splits(request) if request.tested else splits(request).replace(test=()),
            seed_workflow=seed,  # a name in the library may mean another by now
            library=library,
            journal=journal,
            ledger=ledger,
        )
        saver = sqlite_saver(get_runs_folder(home) / journal.run / CHECKPOINTS)
        try:
            yield EvolutionRun(request, bench, parts, model, toolbox, saver, notices)
        finally:
            run_sync(journal.put_note(ELAPSED, ledger.spent.seconds))
            saver.close()


def _benchmark(request: EvolveRequest) -> Benchmark:
    sizes = request.sizes
    wanted = 4 * (sizes.train + sizes.gate + sizes.test)  # generated tasks share entities, so many are left over
    return load_benchmark(
        request.benchmark, seed=request.evolution.seed, size=wanted, grader=request.grader, rubric=request.rubric
    )


def splits(request: EvolveRequest) -> Splits:
    """The tasks that an evolution learns from, is chosen by and is tested on.

    Raises:
        ConfigError: there are not enough, or the gate has none.
    """
    sizes = request.sizes
    if request.evolution.gate == "paired" and not sizes.gate and request.evolution.iterations:
        raise ConfigError("the paired gate needs gate tasks; give --gate-size above 0, or --gate off")
    return _benchmark(request).splits(request.evolution.seed, train=sizes.train, gate=sizes.gate, test=sizes.test)


def _seed(made: Method, request: EvolveRequest, bench: Benchmark, library: WorkflowLibrary) -> Workflow:
    if request.seed_team is None:
        return made.make_initial_workflow(bench.tools)
    workflow = run_sync(library.load(request.seed_team))
    if workflow.method != made.name:
        raise ConfigError(f"seed team {request.seed_team!r} belongs to {workflow.method}, not to {made.name}")
    workflow = made.prepare_workflow(workflow)
    made.check_learned(workflow)
    missing = {tool for agent in workflow.agents for tool in agent.tools} - set(bench.toolbox)
    if missing:
        told = ", ".join(sorted(missing))
        raise ConfigError(f"seed team {request.seed_team!r} holds {told}, which {bench.name} lacks; lend other tools")
    return workflow


def _scores(final: EvolutionState) -> dict[str, Any]:
    scores = [score for score in final.get("test", {}).get("after", {}).get("scores", []) if score is not None]
    return {"score": sum(scores) / len(scores)} if scores else {}
