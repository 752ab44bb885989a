"""Trains a router on a benchmark, with the parts of an evolution and a training loop in place of the outer graph."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evals.statistics import IntervalEstimate, compute_wilson_interval
from selfwire.evolvers.trained_router.reinforce import Update
from selfwire.evolvers.trained_router.weights import ROUTER
from selfwire.graphs.descriptor import RouterPlan, RouterTraining
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.method_registry import describe_method, installed_methods
from selfwire.graphs.rollouts import collect_rollouts, compute_spent, to_rollout_fn
from selfwire.graphs.trained_router.training import Training, batch_tasks
from selfwire.runs.evolution import EvolutionRun, resume_evolution, start_evolution, validate_request
from selfwire.runs.folders import SUMMARY, get_runs_folder
from selfwire.runs.requests import EvolveRequest
from selfwire.runs.run_record import shorten_name, track_status
from selfwire.runtime.ledger import enforce_deadline

STATE = "router.safetensors"
"""File in a run's folder with the weights after the last update, optimiser included."""


class HeldOutResult(FrozenModel):
    """Result of one way to route on held-out tasks.

    Args:
        name: of the way.
        solved: share of solved tasks among those without an error; None if all had one.
        errors: number of tasks with an error.
        usage: of all tasks.
    """

    name: str
    solved: IntervalEstimate | None
    errors: int
    usage: Usage


@dataclass(frozen=True)
class OpenTraining:
    """A training that is ready to run.

    Attributes:
        run: the run whose parts it uses.
        plan: how the router draws and learns.
        state: file of the weights after the last update.
    """

    run: EvolutionRun
    plan: RouterPlan
    state: Path

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for the user, such as batches of another size than requested."""
        wanted, samples, tasks = self.plan.train.batch, self.plan.config.samples, len(self.run.parts.splits.train)
        made = batch_tasks(wanted, samples, tasks) * samples
        why = f"{tasks} train tasks, {samples} runs of each"
        smaller = (f"every update learns from {made} episodes, not from {wanted}: there are {why}",)
        return (*self.run.notices, *(smaller if made != wanted else ()))

    async def execute(
        self,
        on_update: Callable[[Update], None] = lambda update: None,
        on_episode: Callable[[Trajectory], None] = lambda trajectory: None,
    ) -> Workflow:
        """Train, or continue; see `Training.execute`.

        Raises:
            BudgetError, OutageError, ModelError: it stopped and can be resumed.
        """
        parts = self.run.parts
        training = Training(
            run=parts.run,
            seed=parts.config.seed,
            ground=parts.ground,
            play=lambda workflow, question, scope: parts.method.explore(workflow, question, scope=scope),
            tasks=parts.splits.train,
            config=self.plan.config,
            train=self.plan.train,
            embedder=self.plan.embedder,
            state=self.state,
            save=self._save,
        )
        async with track_status(self._write_status), enforce_deadline(parts.ledger):
            workflow = await training.execute(parts.seed_workflow, on_update, on_episode)
        await self._write_status("finished", iteration=self.plan.train.updates)
        return workflow

    async def tested(self, workflow: Workflow) -> list[HeldOutResult]:
        """Test on held-out tasks: the trained router, the one before training, an untrained one, and chance.

        Raises:
            BudgetError, OutageError, ModelError: as `execute`.
        """
        parts = self.run.parts
        found = []
        for name, method, routed in self._ways(workflow):
            scope = Scope(run=parts.run, seed=parts.config.seed, phase=f"test-{name}")
            done = await collect_rollouts(
                parts.ground, to_rollout_fn(method), routed, parts.splits.test, scope, lambda one: None
            )
            graded = [one.feedback.solved for one in done if one.feedback and one.error is None]
            solved = compute_wilson_interval(sum(graded), len(graded)) if graded else None
            found.append(
                HeldOutResult(name=name, solved=solved, errors=len(done) - len(graded), usage=compute_spent(done))
            )
        return found

    def _ways(self, workflow: Workflow) -> Iterator[tuple[str, Method, Workflow]]:
        parts = self.run.parts
        yield "trained", parts.method, workflow
        before = parts.seed_workflow
        untrained = before.replace(memory={name: kept for name, kept in before.memory.items() if name != ROUTER})
        if untrained != before:
            yield "as it began", parts.method, before
        yield "untrained", parts.method, untrained
        if by_chance := describe_router(parts.method.name).by_chance:
            yield "random", by_chance(parts.method), untrained

    async def _save(self, workflow: Workflow, updates: int) -> None:
        parts = self.run.parts
        facts = {"method": workflow.method, "benchmark": self.run.benchmark.name, "updates": updates}
        await parts.library.save(parts.config.name, workflow, run=parts.run, step=updates, facts=facts)

    async def _write_status(self, status: str, **more: Any) -> None:
        request = self.run.request
        facts = {"command": "train", "method": request.method, "benchmark": request.benchmark, "status": status}
        name = self.run.parts.config.name
        await self.run.parts.journal.put_note(SUMMARY, {**facts, "model": request.models.agent, "name": name, **more})


@contextmanager
def start_training(
    request: EvolveRequest, home: Path | None = None, *, run: str | None = None
) -> Iterator[OpenTraining]:
    """A new training run.

    Args:
        request: as for an evolution; `train` of the method's config says how to train.
        home: folder of runs and library.
        run: its name.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    router = describe_router(request.method)
    trial = validate_request(request, home)
    router.plan(trial.method, trial.seed)  # refuses before anything is written
    named = run or f"train-{request.method}-{shorten_name(request.benchmark)}-{secrets.token_hex(3)}"
    with start_evolution(request, home, run=named) as opened:
        yield _open_training(opened, home)


@contextmanager
def resume_training(
    run: str, home: Path | None = None, *, limits: Mapping[str, float] | None = None
) -> Iterator[OpenTraining]:
    """A training that stopped; arguments and errors as for `evolution.resume_evolution`."""
    with resume_evolution(run, home, limits=limits, command="train") as opened:
        yield _open_training(opened, home)


def _open_training(opened: EvolutionRun, home: Path | None) -> OpenTraining:
    method = opened.parts.method
    plan = describe_router(method.name).plan(method, opened.parts.seed_workflow)
    return OpenTraining(opened, plan, get_runs_folder(home) / opened.parts.run / STATE)


def describe_router(method: str) -> RouterTraining[Any]:
    """How the router of a method is trained.

    Raises:
        ConfigError: there is no such method, or it has no router.
    """
    router = describe_method(method).router
    if router is None:
        others = ", ".join(one.name for one in installed_methods() if one.router)
        raise ConfigError(f"{method} has no router to train; {others} have")
    return router
