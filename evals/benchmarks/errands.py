"""Errands: generated tasks whose right agent depends on a hidden state, without any language model.

A task is a sequence of situations that must be settled one after another within T stages. The router reads a text about
the stage; the hidden situation decides who can settle it, and every split words it differently. In a stage, each layer
passes on the word of one of its agents, chosen at random: the situation is settled if the last word is its helper's;
`relay` passes on the word that it got, and any other agent spoils it. So superfluous agents cost, as in a team. A task
is solved when all situations are settled, which is the only reward.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.values import FrozenModel
from selfwire.evals.benchmarks.errands_wordings import (
    COMPLAINTS,
    HELPERS,
    PEOPLE,
    PLACES,
    SITUATIONS,
    THINGS,
)

POOL = tuple(Agent(id=name, role=role, prompt=role) for name, role in HELPERS.items())
STAGES = 6
"""T, most stages of a task."""
RELAY = tuple(HELPERS).index("relay")
RIGHT = np.array([tuple(HELPERS).index(situation.helper) for situation in SITUATIONS])
"""(situations,) index of the agent that settles each."""

Integers = npt.NDArray[np.int64]


class Errand(FrozenModel):
    """One task.

    Args:
        name: of the client.
        situations: indices of `SITUATIONS`, in order.
        texts: the wording of each situation.
        complaint: feedback after a failed attempt.
    """

    name: str
    situations: tuple[int, ...]
    texts: tuple[str, ...]
    complaint: str

    def rows(self, settled: int, failed: bool) -> tuple[str, ...]:
        """The rows of the task state, active subtask first.

        Args:
            settled: number of settled situations.
            failed: whether the last stage settled nothing.
        """
        complaint = f"Feedback: {self.complaint}" if failed else "Feedback: none yet."
        return (
            f"Active subtask: {self.texts[settled]}",
            f"Objective: run {len(self.texts)} errands for {self.name}.",
            f"Completed: {settled} of {len(self.texts)}.",
            complaint,
        )


def generate_errands(count: int, *, length: int, seed: int, held_out: bool = False) -> tuple[Errand, ...]:
    """Generate tasks; equal arguments give equal tasks.

    Args:
        count: number of tasks.
        length: situations per task.
        seed: of the generator.
        held_out: whether to use wordings that no task for learning has.
    """
    return tuple(
        _generate_errand(length, Scope(seed=seed, task=f"{held_out}/{index}"), held_out) for index in range(count)
    )


def _generate_errand(length: int, scope: Scope, held_out: bool) -> Errand:
    random = scope.random("errands")
    situations = random.integers(len(SITUATIONS), size=length).tolist()
    texts = []
    for one in situations:
        wordings = SITUATIONS[one].held_out if held_out else SITUATIONS[one].known
        wording = wordings[random.integers(len(wordings))]
        thing, place = THINGS[random.integers(len(THINGS))], PLACES[random.integers(len(PLACES))]
        texts.append(wording.format(thing=thing, place=place))
    name = PEOPLE[random.integers(len(PEOPLE))]
    complaint = COMPLAINTS[random.integers(len(COMPLAINTS))].format(name=name)
    return Errand(name=name, situations=tuple(situations), texts=tuple(texts), complaint=complaint)


def has_settled(situations: Integers, order: Integers, random: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Whether layers settle situations: (B,) for (B,) situations and orders (B, L, K), padded with -1."""
    right = np.zeros(len(situations), dtype=np.bool_)
    for layer in range(order.shape[1]):
        sizes = (order[:, layer] >= 0).sum(axis=1)
        picked = order[np.arange(len(order)), layer, (random.random(len(order)) * sizes).astype(np.int64)]
        right = np.where(picked == RELAY, right, picked == RIGHT[situations])
    return right


def compute_settling_chances(layers: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
    """(situations,) probability that a stage with these layers settles each situation."""
    chance = np.zeros(len(SITUATIONS))
    for layer in layers:
        members = np.array(layer)
        helping = (members[None, :] == RIGHT[:, None]).mean(axis=1)
        chance = helping + (members == RELAY).mean() * chance
    return chance
