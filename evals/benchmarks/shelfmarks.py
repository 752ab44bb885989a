"""Shelf marks: generated tasks of six kinds, in which each kind needs two of four rules and any other rule spoils it.

An item comes to one of six rooms, and its mark has two parts by the rules of that room. The rules stand in no task and
in no prompt: only the feedback on a wrong mark states them. Who follows a rule for every item is right in one room out
of six at most, whether one agent follows two rules or a chain of agents several; a team that hands each item to the
right two of four agents is right in all of them.

`one_room` has the items of one room, which the seed chooses, and scores an answer of the right form 0.1, with a part by
the rules of the room 0.55, and with both 1: a prompt with both rules is right on every item, and one rule shows in the
score. No group of runs scores 0, so that a method which adds agents where all fails has no reason to.
"""

import random
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from selfwire.core.task import Feedback, Task
from selfwire.evals.benchmarks.benchmark import (
    RIGHT,
    Benchmark,
    RuleEnvironment,
    TrivialRule,
    make_answer_rule,
    make_disjoint_loader,
    refuse_size,
    reject,
)

FORM = "End with a line that starts with 'Answer:' and gives only the mark."
MOST = 20_000
"""Most tasks of a benchmark: they differ in title, maker, year and width."""


class ShelfItem(NamedTuple):
    """The catalogue entry of an item."""

    title: str
    maker: str
    year: int
    width: int


class MarkRule(NamedTuple):
    """A rule as feedback states it, and the part of a mark that it makes."""

    text: str
    part: Callable[[ShelfItem], str]


RULES: Mapping[str, MarkRule] = {
    "mirror": MarkRule("the year mirrored", lambda item: str(item.year)[::-1]),
    "initials": MarkRule("the maker's initials", lambda item: "".join(word[0] for word in item.maker.split())),
    "vowels": MarkRule(
        "the title without its vowels",
        lambda item: "".join(letter for letter in item.title.upper() if letter.isalpha() and letter not in "AEIOU"),
    ),
    "digit sum": MarkRule("the digit sum of the width", lambda item: str(sum(map(int, str(item.width))))),
}
ROOMS: Mapping[str, tuple[str, str]] = {
    "map room": ("mirror", "initials"),
    "music room": ("mirror", "vowels"),
    "print room": ("mirror", "digit sum"),
    "coin room": ("initials", "vowels"),
    "photo room": ("initials", "digit sum"),
    "poster room": ("vowels", "digit sum"),
}
"""The two rules of each room; each pair of the four rules belongs to a room."""

_FIRST = ("Amber", "Broken", "Crimson", "Distant", "Eastern", "Frozen", "Golden", "Hidden", "Idle", "Northern")
_SECOND = ("Harbour", "Garden", "Bridge", "Winter", "Mountain", "Lantern", "River", "Orchard", "Signal", "Meadow")
_GIVEN = ("Ada", "Bruno", "Clara", "Dario", "Edith", "Felix", "Greta", "Hugo", "Irma", "Jonas")
_FAMILY = ("Tron", "Vask", "Lind", "Moreau", "Okafor", "Petri", "Quist", "Rossi", "Sandoval", "Weber")


@lru_cache(maxsize=8)
def generate_tasks(size: int, seed: int, only: str = "") -> tuple[Task, ...]:
    """Generate tasks on different items, of one room or of all in turn; ConfigError if the size is not 1 to `MOST`."""
    refuse_size(size, MOST, "shelf marks")
    rng, rooms = random.Random(f"shelfmarks {seed}"), [only] if only else list(ROOMS)
    items = dict[ShelfItem, None]()
    while len(items) < size:
        items.setdefault(draw_item(rng))
    return tuple(_to_task(seed, n, rooms[n % len(rooms)], item) for n, item in enumerate(items))


def make_mark(item: ShelfItem, room: str) -> str:
    """Make the mark of an item by the rules of a room."""
    return "/".join(sorted(RULES[rule].part(item) for rule in ROOMS[room]))


def draw_item(rng: random.Random) -> ShelfItem:
    """Draw the entry of an item."""
    title = f"The {rng.choice(_FIRST)} {rng.choice(_SECOND)}"
    maker = f"{rng.choice(_GIVEN)} {rng.choice(_FAMILY)}"
    return ShelfItem(title, maker, rng.randint(1701, 1989), rng.randint(101, 989))


def _to_task(seed: int, number: int, room: str, item: ShelfItem) -> Task:
    return Task(
        id=f"shelfmarks-{seed}-{number}",
        input=f"The {room} has got a new item: '{item.title}' by {item.maker}, made in {item.year}, {item.width} mm "
        "wide. Which shelf mark does it get?\nThe mark has two parts by the rules of the room, joined by a slash: "
        f"digits before letters, numbers by their first digit, letters by the alphabet.\n{FORM}",
        kind=room,
        reference=make_mark(item, room),
    )


def compare(task: Task, right: str, given: str) -> Feedback:
    """Compare the marks; if they differ, state the rules of the room, and never the mark itself."""
    if "".join(given.upper().split()) == right:
        return RIGHT
    first, second = (RULES[rule].text for rule in ROOMS[task.kind])
    return reject(f"The mark is wrong. A mark of the {task.kind} holds {first} and {second}, and nothing else.")


def compare_parts(task: Task, right: str, given: str) -> Feedback:
    """0.1 for a mark of any kind, and 0.9 for the share of parts that are right, of as many as are given or wanted."""
    wanted, parts = right.split("/"), "".join(given.upper().split()).split("/")
    score = 0.1 + 0.9 * len(set(wanted) & set(parts)) / max(len(wanted), len(parts))
    found = compare(task, right, given)
    return found if found.solved else found.replace(score=score)


grade = make_answer_rule("shelfmarks", compare)
grade_parts = make_answer_rule("one-room", compare_parts)
ENVIRONMENT = RuleEnvironment("shelfmarks", grade, "normal_form")
NO_MARK = TrivialRule("no mark", lambda question: "Answer: none")
ONE_ROOM = RuleEnvironment(
    "one-room",
    grade_parts,
    "0.1 for a mark of any kind, 0.9 for the share of its parts that are right",
)


def shelfmarks(size: int = 600, *, seed: int = 0) -> Benchmark:
    """The benchmark of a seed; agents hold no tools."""
    return Benchmark(
        name="shelfmarks",
        description="Marks of items for six rooms with rules of their own, which only feedback states.",
        load=make_disjoint_loader(lambda: generate_tasks(size, seed)),
        environment=ENVIRONMENT,
        baseline=NO_MARK,
    )


def one_room(size: int = 600, *, seed: int = 0) -> Benchmark:
    """The benchmark of a seed, which also chooses the room; agents hold no tools."""
    room = list(ROOMS)[seed % len(ROOMS)]
    return Benchmark(
        name="one-room",
        description=f"Marks of items for the {room}, with two rules that only feedback states.",
        load=make_disjoint_loader(lambda: generate_tasks(size, seed, room)),
        environment=ONE_ROOM,
        baseline=NO_MARK,
    )
