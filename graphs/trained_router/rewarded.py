"""What `RoutedTeam` and `LearnedRouter` share: rewards, updates, and weights in a file."""

import math
import threading
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder
from selfwire.core.workflow import Workflow
from selfwire.evolvers.trained_router.config import RouterConfig, SamplingConfig, TrainConfig
from selfwire.evolvers.trained_router.decisions import Episode
from selfwire.evolvers.trained_router.reinforce import Update
from selfwire.evolvers.trained_router.weights import read_weights, refuse_other_pool, write_atomically
from selfwire.graphs.trained_router.heads import load_weights, with_weights
from selfwire.graphs.trained_router.learning import update_router
from selfwire.runtime.blobs import find_blob
from selfwire.runtime.sync import run_sync


class RewardedRouter:
    """A router that learns from the rewards of its runs.

    Args:
        workflow: its agents are those to choose from; its memory may hold weights.
        sampling: how agents are drawn.
        train: how one update is made.

    Raises:
        ConfigError, LibraryError: the workflow's weights cannot be used.
    """

    def __init__(self, workflow: Workflow, embedder: Embedder, sampling: SamplingConfig, train: TrainConfig) -> None:
        self.embedder, self.train = embedder, train
        self.config = RouterConfig(sampling=sampling, transfer=True)
        self._workflow, self._weights = workflow, load_weights(workflow)
        self._rewarded: list[Episode] = []
        self._updating = threading.Lock()

    @property
    def workflow(self) -> Workflow:
        """The workflow with the weights of the last update, to be saved in a library or lent to another team."""
        if self._weights is not None and find_blob(self._workflow.memory["router"]["weights"]) is None:
            with_weights(self._workflow, self._weights)  # others pushed the bytes out of this process
        return self._workflow

    def learn(self) -> Update:
        """Update the weights by all runs that were rewarded since the last update; see `alearn`."""
        return run_sync(self.alearn())

    async def alearn(self) -> Update:
        """Update the weights by all runs that were rewarded since the last update.

        A run counts by how much better its reward is than the mean of the others: where all are equal, and with a
        single one, nothing changes, and `skipped` of the update is true.

        Raises:
            ConfigError: no run was rewarded, or another update is under way.
        """
        if not self._updating.acquire(blocking=False):
            raise ConfigError("another update is under way; wait for it before the next learn()")
        try:
            episodes = tuple(self._rewarded)
            if not episodes:
                raise ConfigError("there is nothing to learn from; reward a few runs first, then call learn()")
            self._workflow, self._weights, update = await update_router(
                self.workflow, episodes, self.config, self.train, self.embedder
            )
            del self._rewarded[: len(episodes)]
            return update
        finally:
            self._updating.release()

    def save(self, path: str | Path) -> None:
        """Write the weights to a safetensors file, with what the next update needs.

        Raises:
            ConfigError: there are none yet, or the file cannot be written.
        """
        if self._weights is None:
            raise ConfigError("there are no weights to save before the first learn()")
        write_atomically(Path(path), self._weights.packed)

    def load(self, path: str | Path) -> None:
        """Take the weights of a file; they may have been trained for other agents.

        Raises:
            ConfigError: they cannot be read, or belong to another embedder.
        """
        weights = read_weights(Path(path))
        refuse_other_pool(weights.card, self._workflow.agents, self.embedder.name, transfer=True)
        self._workflow, self._weights = with_weights(self._workflow, weights), weights

    def _add_reward(self, episode: Episode, reward: float | None) -> None:
        self._rewarded.append(episode.replace(reward=reward))


def check_reward(score: Any) -> float:
    """A reward as a number.

    Raises:
        ValueError: it is none, or not in [0, 1].
    """
    try:
        reward = float(score)
    except (TypeError, ValueError):
        reward = math.nan
    if not 0 <= reward <= 1:
        raise ValueError(f"a reward is a number in [0, 1], 1 for the best, not {score!r}")
    return reward
