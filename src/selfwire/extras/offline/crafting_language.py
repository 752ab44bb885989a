"""Parses crafting tasks, results of recipe searches, and notes of a plan."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

TARGET = re.compile(r"Craft an item of type: (\w+)")

_HELD = re.compile(r"^\s*- (\w+) (\[\w+\]) quantity (\d+)$", re.MULTILINE)
_HEADER = re.compile(r"^(\w+), recipe \d+ of \d+: (shaped|shapeless|smelting), gives (\d+) \w+$", re.MULTILINE)
_CELL = re.compile(r"(\[[ABC][123]\]) (\(\w\)|\w+)")
_LETTER = re.compile(r"^(\(\w\)) = (.+)$", re.MULTILINE)
_NOTED = re.compile(r"(\d+) (\w+) (?:from (\[.+)|by smelting (.+))")
_GRID = tuple(f"[{row}{column}]" for row in "ABC" for column in "123")

Slots = dict[str, tuple[str, int]]


@dataclass(frozen=True)
class Recipe:
    """A way to make an item; cells are (grid slot, alternative items for it), for smelting one without a slot."""

    item: str
    makes: int
    cells: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def smelts(self) -> bool:
        """Whether it needs the furnace instead of the grid."""
        return self.cells[0][0] == ""

    @property
    def wants(self) -> dict[tuple[str, ...], int]:
        """How many cells each set of alternatives fills."""
        found: dict[tuple[str, ...], int] = {}
        for _, items in self.cells:
            found[items] = found.get(items, 0) + 1
        return found

    def __str__(self) -> str:
        if self.smelts:
            return f"{self.makes} {self.item} by smelting {' or '.join(self.cells[0][1])}"
        filled = ", ".join(f"{slot} {' or '.join(items)}" for slot, items in self.cells)
        return f"{self.makes} {self.item} from {filled}"


@dataclass(frozen=True)
class Need:
    """A number of items, each of any of some kinds."""

    count: int
    items: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.count} {' or '.join(self.items)}"


def parse_target(task: str) -> str:
    """The item that a task asks for; "" if it is no crafting task."""
    found = TARGET.search(task)
    return found[1] if found else ""


def parse_slots(task: str) -> Slots:
    """Item and count by slot."""
    return {slot: (item, int(count)) for item, slot, count in _HELD.findall(task)}


def find_recipes(text: str) -> list[Recipe]:
    """The recipes that a recipe search lists."""
    _, *parts = _HEADER.split(text)
    headers = zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True)
    return [
        Recipe(item, int(makes), cells) for item, kind, makes, body in headers for cells in _cells(kind, body) if cells
    ]


def _cells(kind: str, body: str) -> list[tuple[tuple[str, tuple[str, ...]], ...]]:
    if kind == "smelting":
        return [(("", tuple(body.split("smelt ", 1)[-1].strip().split(" or "))),)]
    if kind == "shaped":
        letters = dict(_LETTER.findall(body))
        rows = [(slot, tuple(letters.get(cell, cell).split(" or "))) for slot, cell in _CELL.findall(body)]
        return [tuple((slot, items) for slot, items in rows if items != ("empty",))]
    sets = [re.findall(r"(\d+) (\w+)", line.split(": ", 1)[-1]) for line in body.strip().split("\n")]
    spread = [[item for count, item in counted for _ in range(int(count))] for counted in sets]
    return [tuple((slot, (item,)) for slot, item in zip(_GRID, items, strict=False)) for items in spread]


def parse_noted_recipe(text: str) -> Recipe | None:
    """The recipe in a note."""
    found = _NOTED.search(text)
    if found is None:
        return None
    if found[4]:
        return Recipe(found[2], int(found[1]), (("", tuple(found[4].split(" or "))),))
    cells = re.findall(r"(\[[ABC][123]\]) ([^,\[]+)", found[3])
    return Recipe(found[2], int(found[1]), tuple((slot, tuple(items.strip().split(" or "))) for slot, items in cells))


@dataclass(frozen=True)
class Notes:
    """Parsed notes about a plan.

    Attributes:
        levels: how often the plan was expanded.
        dead: items that no recipe makes.
        short: needs that ran out when the plan was laid out.
        verdicts: reasons why the task is impossible.
    """

    recipes: tuple[Recipe, ...]
    plan: dict[str, Recipe]
    levels: int
    needs: tuple[Need, ...]
    dead: frozenset[str]
    short: tuple[str, ...]
    verdicts: tuple[str, ...]
    moves: tuple[str, ...]

    @property
    def open(self) -> tuple[Need, ...]:
        """Needs for which no recipe was chosen."""
        return tuple(need for need in self.needs if not any(item in self.plan for item in need.items))


def parse_notes(lines: Iterable[str]) -> Notes:
    """Parse lines; of two recipes chosen for an item, the first counts."""
    return _notes_in(tuple(lines))


@lru_cache(maxsize=1024)
def _notes_in(lines: tuple[str, ...]) -> Notes:
    recipes: dict[str, Recipe] = {}
    plan: dict[str, Recipe] = {}
    needs: dict[str, Need] = {}
    levels, dead, short, verdicts, moves = 0, set[str](), list[str](), list[str](), list[str]()
    for line in lines:
        head, _, rest = line.partition(": ")
        if head == "Recipe" and (recipe := parse_noted_recipe(rest)):
            recipes[rest] = recipe
        elif (made := re.fullmatch(r"Make (\d+)", head)) and (recipe := parse_noted_recipe(rest)):
            plan.setdefault(recipe.item, recipe)
            levels = max(levels, int(made[1]))
        elif head == "Need" and (found := re.fullmatch(r"(\d+) (\w+(?: or \w+)*)", rest)):
            needs.setdefault(found[2], Need(int(found[1]), tuple(found[2].split(" or "))))
        elif head == "No recipe":
            dead.update(rest.split(" or "))
        elif head == "Short":
            short.append(rest)
        elif head in {"Verdict", "impossible"}:
            verdicts.append(rest)
        elif re.match(r"(?:move|smelt): from \[", line):
            moves.append(line)
    return Notes(
        recipes=tuple(recipes.values()),
        plan=plan,
        levels=levels,
        needs=tuple(needs.values()),
        dead=frozenset(dead),
        short=tuple(short),
        verdicts=tuple(verdicts),
        moves=tuple(moves),
    )
