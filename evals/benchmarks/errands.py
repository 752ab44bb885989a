"""Errands: a generated family of tasks whose right agent depends on the hidden state; no language model acts in it.

A task is a row of situations that must be settled one after another within T stages. What the router reads of a
stage is text; who can settle it follows from the situation, which the text words differently in every split. In a
stage, each layer hands on the word of one of its agents, drawn at random: a situation is settled once the last
word is that of its helper, `relay` hands on the word that it got, and any other agent spoils it. So every agent
too many costs, as it does in a team. A task is solved when all situations are settled: the only reward.
"""

from collections.abc import Sequence
from typing import NamedTuple

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
        name: of whoever sends the errand.
        situations: what must be settled, in order, as indices of `SITUATIONS`.
        texts: how each of them is worded.
        complaint: what is said after an attempt that did not settle it.
    """

    name: str
    situations: tuple[int, ...]
    texts: tuple[str, ...]
    complaint: str

    def rows(self, settled: int, failed: bool) -> tuple[str, ...]:
        """The rows of the task state, active subtask first.

        Args:
            settled: how many situations are settled.
            failed: whether the stage before settled nothing.
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
        count: how many.
        length: situations per task.
        seed: of the generator.
        held_out: whether to word them as no task for learning is worded.
    """
    return tuple(_errand(length, Scope(seed=seed, task=f"{held_out}/{index}"), held_out) for index in range(count))


def _errand(length: int, scope: Scope, held_out: bool) -> Errand:
    random = scope.random("errands")
    situations = random.integers(len(SITUATIONS), size=length).tolist()
    texts = []
    for one in situations:
        wordings = SITUATIONS[one].held_out if held_out else SITUATIONS[one].known
        worded = wordings[random.integers(len(wordings))]
        thing, place = THINGS[random.integers(len(THINGS))], PLACES[random.integers(len(PLACES))]
        texts.append(worded.format(thing=thing, place=place))
    name = PEOPLE[random.integers(len(PEOPLE))]
    complaint = COMPLAINTS[random.integers(len(COMPLAINTS))].format(name=name)
    return Errand(name=name, situations=tuple(situations), texts=tuple(texts), complaint=complaint)


class Standing(NamedTuple):
    """How B tasks stand.

    Attributes:
        settled: (B,) situations that are settled.
        failed: (B,) whether the stage before settled nothing.
    """

    settled: Integers
    failed: npt.NDArray[np.bool_]


def start_errand(count: int) -> Standing:
    """B tasks before their first stage."""
    return Standing(np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_))


def has_settled(situations: Integers, order: Integers, random: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Whether layers settle situations: (B,) for (B,) situations and orders (B, L, K), -1 behind the last agent."""
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
