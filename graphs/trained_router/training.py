"""Router training as a loop that can be resumed: collect episodes, update, keep the weights, save versions."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.trained_router.config import RouterConfig, TrainConfig
from selfwire.evolvers.trained_router.decisions import Episode
from selfwire.evolvers.trained_router.reinforce import Update
from selfwire.evolvers.trained_router.weights import read_weights, write_atomically
from selfwire.graphs.rollout_context import RolloutContext
from selfwire.graphs.rollouts import RolloutFn, RolloutRunner, collect_rollouts, stream_rollouts
from selfwire.graphs.trained_router.heads import load_weights, with_weights
from selfwire.graphs.trained_router.learning import to_router_episode, update_router

PHASE = "train"
UPDATE = "update"
"""Prefix of the journal's notes of updates: `update/1`, `update/2`, ..."""

Save = Callable[[Workflow, int], Awaitable[None]]
"""Saves a version of the workflow after an update."""


@dataclass(frozen=True)
class Training:
    """A router training.

    Attributes:
        seed: of everything drawn.
        rollout_context: runs and grades episodes, through the journal.
        rollout_fn: runs a question several times; its trajectories note the router's decisions.
        runner: runs the questions, here or on workers.
        state: file of the weights after the last update, optimiser and all.
        save: called after every `checkpoint_every` updates and after the last.
    """

    run: str
    seed: int
    rollout_context: RolloutContext
    rollout_fn: RolloutFn
    tasks: Sequence[Task]
    config: RouterConfig
    train: TrainConfig
    embedder: Embedder
    state: Path
    save: Save
    runner: RolloutRunner = stream_rollouts

    async def execute(
        self,
        workflow: Workflow,
        on_update: Callable[[Update], None] = lambda update: None,
        on_episode: Callable[[Trajectory], None] = lambda trajectory: None,
    ) -> Workflow:
        """Train, or continue the training of the state file.

        A kill loses at most one update, whose calls are replayed from the journal, so the weights come out the same.

        Args:
            workflow: to start from, the same one when it continues; it may be trained already.

        Returns:
            The workflow with its trained weights, without the optimiser's state.

        Raises:
            BudgetError, OutageError, ModelError: it stopped and can be resumed.
            ConfigError: the state file or the weights cannot be used, or the runs use no router.
            ValueError: there is no such device.
        """
        await asyncio.to_thread(_check_device, self.train.device)
        begun, done = await asyncio.to_thread(load_weights, workflow), 0
        before = begun.card.updates if begun else 0
        if await asyncio.to_thread(self.state.exists):
            weights = await asyncio.to_thread(read_weights, self.state)
            workflow, done = with_weights(workflow, weights), weights.card.updates - before
            await self._keep(workflow, done)
        for number in range(done, self.train.updates):
            episodes = await self._collect(workflow, number, on_episode)
            workflow, weights, update = await update_router(workflow, episodes, self.config, self.train, self.embedder)
            update = update.replace(number=number + 1)  # of this training; the weights count earlier ones too
            await self.rollout_context.journal.put_note(f"{UPDATE}/{update.number}", update.model_dump(mode="json"))
            await asyncio.to_thread(write_atomically, self.state, weights.packed)
            await self._keep(workflow, number + 1)
            on_update(update)
        return _drop_optimiser(workflow)

    async def _collect(
        self, workflow: Workflow, number: int, on_episode: Callable[[Trajectory], None]
    ) -> list[Episode]:
        scope = Scope(run=self.run, seed=self.seed, iteration=number, phase=PHASE)
        wanted = batch_tasks(self.train.batch, self.config.samples, len(self.tasks))
        drawn = scope.random("tasks").permutation(len(self.tasks))[:wanted]
        tasks = [self.tasks[int(index)] for index in drawn]
        rollout_context = replace(self.rollout_context, samples=self.config.samples)
        found = await collect_rollouts(
            rollout_context, self.rollout_fn, workflow, tasks, scope, on_episode, runner=self.runner
        )
        partial = self.train.partial
        episodes = [episode for one in found if (episode := to_router_episode(one, partial=partial)) is not None]
        if not episodes and any(one.error is None for one in found):
            raise ConfigError("the runs left their router nothing to choose; train with a team that branches")
        return episodes

    async def _keep(self, workflow: Workflow, done: int) -> None:
        """Save a version if one is due; saving it twice changes nothing."""
        if done and (done % self.train.checkpoint_every == 0 or done == self.train.updates):
            await self.save(_drop_optimiser(workflow), done)


def batch_tasks(episodes: int, samples: int, tasks: int) -> int:
    """Number of different tasks that an update draws for about so many episodes: at least one, at most all."""
    return min(tasks, max(1, episodes // samples))


def _check_device(name: str) -> None:
    from selfwire.evolvers.trained_router.head import get_device

    get_device(name)  # before any run is paid for


def _drop_optimiser(workflow: Workflow) -> Workflow:
    weights = load_weights(workflow)
    return workflow if weights is None else with_weights(workflow, weights.without_optimiser())
