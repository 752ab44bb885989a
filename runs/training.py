"""Trains a router on a benchmark, with the parts of an evolution and a training loop in place of the outer graph."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evals.evaluation.table import SystemSummary, summarise_trajectories
from selfwire.evolvers.trained_router.config import ROUTER
from selfwire.evolvers.trained_router.reinforce import Update
from selfwire.graphs.descriptor import RouterPlan, RouterTraining
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.method_registry import describe_method, installed_methods
from selfwire.graphs.rollouts import SolverRollouts, TrainRollouts, collect_rollouts
from selfwire.graphs.trained_router.training import Training, batch_tasks
from selfwire.runs.evolution import HERE, EvolutionRun, Place, resume_evolution, validate_request
from selfwire.runs.folders import get_runs_folder
from selfwire.runs.lifecycle import make_run_name, note_status, track_status
from selfwire.runs.requests import EvolveRequest

UNTRAINED = "the router is untrained: its weights are random, and so are its choices"
STATE = "router.safetensors"
"""File in a run's folder with the weights after the last update, optimiser included."""


@dataclass(frozen=True)
class OpenTraining:
    """A training that is ready to run.

    Attributes:
        plan: how the router draws and learns.
        state: file of the weights after the last update.
    """

    run: EvolutionRun
    plan: RouterPlan
    state: Path

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for the user, such as batches of another size than requested."""
        wanted, samples, tasks = self.plan.train.batch, self.plan.config.samples, len(self.run.context.splits.train)
        made = batch_tasks(wanted, samples, tasks) * samples
        why = f"{tasks} train tasks, {samples} runs of each"
        smaller = (f"every update learns from {made} episodes, not from {wanted}: there are {why}",)
        return (*self.run.notices, *(smaller if made != wanted else ()))

    async def execute(
        self,
        on_update: Callable[[Update], None] = lambda update: None,
        on_episode: Callable[[Trajectory], None] = lambda trajectory: None,
    ) -> Workflow:
        """Train, or resume the training; see `Training.execute`.

        Raises:
            BudgetError, OutageError, ModelError: it stopped and can be resumed.
        """
        context = self.run.context
        training = Training(
            run=context.run,
            seed=context.config.seed,
            rollout_context=context.rollout_context,
            rollout_fn=TrainRollouts(context.method),
            runner=context.runner,
            tasks=context.splits.train,
            config=self.plan.config,
            train=self.plan.train,
            embedder=self.plan.embedder,
            state=self.state,
            save=self._save,
        )
        async with track_status(self.run):
            workflow = await training.execute(context.seed_workflow, on_update, on_episode)
        await self._note_end()
        return workflow

    async def _note_end(self, **more: Any) -> None:
        await note_status(self.run, "finished", iteration=self.plan.train.updates, **more)

    async def tested(self, workflow: Workflow) -> list[SystemSummary]:
        """Held-out tasks with the trained router, with the one that training began with, untrained, and by chance.

        Raises:
            BudgetError, OutageError, ModelError: as `execute`.
        """
        context = self.run.context
        found = []
        async with track_status(self.run):
            for name, method, routed in self._ways(workflow):
                scope = Scope(run=context.run, seed=context.config.seed, phase=f"test-{name}")
                rollout_fn, tasks = SolverRollouts(method), context.splits.test
                done = await collect_rollouts(
                    context.rollout_context, rollout_fn, routed, tasks, scope, lambda one: None, runner=context.runner
                )
                found.append(summarise_trajectories(name, done))
        await self._note_end(score=found[0].score)
        return found

    def _ways(self, workflow: Workflow) -> Iterator[tuple[str, Method, Workflow]]:
        context = self.run.context
        yield "trained", context.method, workflow
        initial = context.seed_workflow
        untrained = initial.replace(memory={name: kept for name, kept in initial.memory.items() if name != ROUTER})
        if untrained != initial:
            yield "as it began", context.method, initial
        yield "untrained", context.method, untrained
        if random_control := describe_router(context.method.name).random_control:
            yield "random", random_control(context.method), untrained

    async def _save(self, workflow: Workflow, updates: int) -> None:
        context = self.run.context
        known = {name: value for name in ("tools", "model") if (value := getattr(context, name))}
        facts = {"method": workflow.method, "benchmark": self.run.benchmark.name, **known, "updates": updates}
        await context.library.save(context.config.name, workflow, run=context.run, step=updates, facts=facts)


@contextmanager
def start_training(
    request: EvolveRequest, home: Path | None = None, *, run: str | None = None, place: Place = HERE
) -> Iterator[OpenTraining]:
    """A new training run.

    Args:
        request: as for an evolution; `train` of the method's config says how to train.
        place: where episodes are run.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    router = describe_router(request.method)
    plan = replace(validate_request(request, home), command="train", place=place)
    router.plan(plan.method, plan.seed)  # refuses before anything is written
    name = run or make_run_name("train", request.method, benchmark=request.benchmark)
    with plan.start(name) as opened:
        yield _open_training(opened, home)


@contextmanager
def resume_training(
    run: str,
    home: Path | None = None,
    *,
    limits: Mapping[str, float] | None = None,
    models: Mapping[str, object] | None = None,
    retry_failed: bool = False,
    place: Place = HERE,
) -> Iterator[OpenTraining]:
    """A training that stopped; arguments and errors as for `evolution.resume_evolution`."""
    with resume_evolution(
        run, home, limits=limits, models=models, retry_failed=retry_failed, command="train", place=place
    ) as opened:
        yield _open_training(opened, home)


def _open_training(run: EvolutionRun, home: Path | None) -> OpenTraining:
    method, state = run.context.method, get_runs_folder(home) / run.context.run / STATE
    plan = describe_router(method.name).plan(method, run.context.seed_workflow)
    return OpenTraining(run, plan, state)


def is_untrained(method: Method, workflow: Workflow) -> bool:
    """Whether runs of a workflow ask a router that was never trained."""
    router = describe_method(method.name).router
    if router is None or ROUTER in workflow.memory:
        return False
    try:
        router.plan(method, workflow)
    except ConfigError:  # no run asks it
        return False
    return True


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
