"""Router trainings: an open evolution, with a training loop instead of the outer graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import is_graph
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.evals.table import SystemSummary, summarise_trajectories
from selfwire.evolvers.router.config import ROUTER
from selfwire.evolvers.router.reinforce import Update
from selfwire.graphs.method import Method, RouterPlan, RouterTraining, find_method, installed_methods
from selfwire.graphs.rollouts import collect_rollouts
from selfwire.graphs.router import Training, batch_tasks
from selfwire.runs.evolution import HERE, OpenEvolution, TaskPlace, resume_evolution, validate_request
from selfwire.runs.record import ResumeChanges, get_runs_folder, make_run_name, note_status, track_status
from selfwire.runs.spec import EvolveSpec

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

    run: OpenEvolution
    plan: RouterPlan
    state: Path

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for the user, such as batches of another size than requested."""
        wanted, samples, tasks = self.plan.train.batch, self.plan.config.samples, len(self.run.splits.train)
        made = batch_tasks(wanted, samples, tasks) * samples
        why = f"{tasks} train tasks, {samples} runs of each"
        smaller = (f"every update learns from {made} episodes, not from {wanted}: there are {why}",)
        return (*self.run.notices, *(smaller if made != wanted else ()))

    async def execute(self, on_update: Callable[[Update], None] = lambda update: None) -> Team:
        """Train, or resume the training; see `Training.execute`.

        Raises:
            BudgetError, OutageError, ModelError: it stopped and can be resumed.
        """
        run = self.run
        training = Training(
            run=run.run,
            seed=run.config.seed,
            rollout_context=run.rollout_context,
            rollout_fn=run.method.ask_samples,
            ctx=run.ctx,
            tasks=run.splits.train,
            config=self.plan.config,
            train=self.plan.train,
            state=self.state,
            save=self._save,
        )
        async with track_status(self.run):
            team = await training.execute(run.seed_team, on_update)
        await note_status(run, "finished", iteration=self.plan.train.updates)
        return team

    async def tested(self, team: Team) -> list[SystemSummary]:
        """Test the trained router, the router that training began with, an untrained one, and choices by chance.

        Raises:
            BudgetError, OutageError, ModelError: as `execute`.
        """
        run = self.run
        found = []
        async with track_status(self.run):
            for name, method, routed in self._ways(team):
                scope = Scope(run=run.run, seed=run.config.seed, phase=f"test-{name}")
                ctx = replace(run.ctx, options=method.config, scope=scope)
                done = await collect_rollouts(run.rollout_context, method.ask, routed, run.splits.test, ctx)
                found.append(summarise_trajectories(name, done))
        await note_status(run, "finished", iteration=self.plan.train.updates, score=found[0].score)
        return found

    def _ways(self, team: Team) -> Iterator[tuple[str, Method[Any], Team]]:
        run = self.run
        yield "trained", run.method, team
        initial = run.seed_team
        untrained = initial.replace(memory={name: kept for name, kept in initial.memory.items() if name != ROUTER})
        if untrained != initial:
            yield "as it began", run.method, initial
        yield "untrained", run.method, untrained
        if random_control := describe_router(run.method.name).random_control:
            yield "random", random_control(run.method), untrained

    async def _save(self, team: Team, updates: int) -> None:
        run = self.run
        facts = {"method": team.method, "benchmark": self.run.benchmark.name, **run.facts, "updates": updates}
        await run.library.save(run.config.name, team, run=run.run, step=updates, facts=facts)


@contextmanager
def start_training(
    request: EvolveSpec, home: Path | None = None, *, run: str | None = None, place: TaskPlace = HERE
) -> Iterator[OpenTraining]:
    """Start a training.

    Args:
        request: as for an evolution; `train` of the method's config says how to train.
        place: where episodes are run.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    router = describe_router(request.method)
    plan = replace(validate_request(request, home, check=router.plan), command="train", place=place)
    name = run or make_run_name("train", request.method, benchmark=request.benchmark)
    with plan.start(name) as opened:
        yield _open_training(opened, home)


@contextmanager
def resume_training(
    run: str, home: Path | None = None, *, changes: ResumeChanges = ResumeChanges(), place: TaskPlace = HERE
) -> Iterator[OpenTraining]:
    """Resume a training; arguments and errors as for `evolution.resume_evolution`."""
    with resume_evolution(run, home, changes=changes, command="train", place=place) as opened:
        yield _open_training(opened, home)


def _open_training(run: OpenEvolution, home: Path | None) -> OpenTraining:
    method, state = run.method, get_runs_folder(home) / run.run / STATE
    plan = describe_router(method.name).plan(method, run.seed_team)
    return OpenTraining(run, plan, state)


def is_untrained(method: Method[Any], team: Team) -> bool:
    """Whether runs of a team ask a router that was never trained."""
    router = method.router
    if router is None or ROUTER in team.memory:
        return False
    try:
        router.plan(method, team)
    except ConfigError:  # no run asks it
        return False
    return True


def describe_router(method: str) -> RouterTraining:
    """Find how the router of a method is trained.

    Raises:
        ConfigError: there is no such method, or it has no router.
    """
    router = find_method(method).router
    if router is None and is_graph(method):
        raise ConfigError(f"the router of a graph of your own learns by `selfwire evolve {method} --method router`")
    if router is None:
        others = ", ".join(known.name for known in installed_methods() if known.router)
        raise ConfigError(f"{method} has no router to train; {others} have")
    return router
