"""Errands: wordings of situations, each of which one helper can settle; who it is stands nowhere in the text.

A task is a sequence of situations that must be settled one after another. The hidden situation decides who can settle
it, and has several wordings. The world relays and the benchmark stages say what becomes of an errand.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.values import FrozenModel

HELPERS = {
    "librarian": "Looks things up in archives, books and records.",
    "courier": "Carries things through the town, fast and on time.",
    "negotiator": "Talks people round and settles prices.",
    "tinker": "Repairs broken things with tools and glue.",
    "registrar": "Fills in forms and gets permits and stamps from offices.",
    "watcher": "Waits, keeps watch and reports what happens.",
    "relay": "Repeats what the others said and adds nothing.",
}
POOL = tuple(Agent(id=name, role=role, prompt=role) for name, role in HELPERS.items())
RELAY = tuple(HELPERS).index("relay")
RIGHT = np.repeat(np.arange(RELAY), 2)
"""(situations,) index of the agent that settles each; one of its two is easy to guess, the other is not."""

Integers = npt.NDArray[np.int64]


class Situation(FrozenModel):
    """A hidden state, its helper and its wordings."""

    helper: str
    known: tuple[str, ...]


class Wordings(FrozenModel):
    """The texts of `errands.json`."""

    situations: tuple[Situation, ...]
    things: tuple[str, ...]
    places: tuple[str, ...]
    people: tuple[str, ...]
    complaints: tuple[str, ...]


@cache
def load_wordings() -> Wordings:
    """The texts of all errands; the situations are in the order of `RIGHT`."""
    text = (files("selfwire.evals.benchmarks") / "errands.json").read_text(encoding="utf-8")
    return Wordings.model_validate_json(text)


class Errand(FrozenModel):
    """A task: indices of situations in order with their wordings, and the feedback after a failed attempt."""

    name: str
    situations: tuple[int, ...]
    texts: tuple[str, ...]
    complaint: str


def generate_errands(count: int, *, length: int, seed: int, kinds: int = len(RIGHT)) -> tuple[Errand, ...]:
    """Generate tasks of `length` situations; equal arguments give equal tasks.

    Args:
        kinds: how many situations there are, the first ones.
    """
    # the word in the name of the task decides what is drawn, and published rows were drawn with it
    return tuple(_generate_errand(length, Scope(seed=seed, task=f"False/{index}"), kinds) for index in range(count))


def _generate_errand(length: int, scope: Scope, kinds: int) -> Errand:
    random, found = scope.random("errands"), load_wordings()

    def pick(options: Sequence[str]) -> str:
        return options[int(random.integers(len(options)))]

    situations = random.integers(kinds, size=length).tolist()
    texts = []
    for situation in (found.situations[index] for index in situations):
        wording = pick(situation.known)
        texts.append(wording.format(thing=pick(found.things), place=pick(found.places)))
    name = pick(found.people)
    complaint = pick(found.complaints).format(name=name)
    return Errand(name=name, situations=tuple(situations), texts=tuple(texts), complaint=complaint)
