"""The Plancraft simulator, run on the lines of an answer.

It is the package's own, with two savings that change no outcome: no pictures are drawn, and only recipes that use every
item in the grid are tried. Importing this module imports the package and its recipes, so importers do it late.
"""

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from plancraft.config import PlancraftExample
from plancraft.environment.env import PlancraftEnvironment
from plancraft.simple import PlancraftGymWrapper

MAX_STEPS = 64
"""Most steps of an episode; the package's default of 30 is too short for its longest plans."""

_SHOWN = 80
_LONGEST_LINE = 2000
_SLOTS = {"[0]": 0}
_SLOTS |= {f"[{row}{column}]": 1 + 3 * i + j for i, row in enumerate("ABC") for j, column in enumerate("123")}
_SLOTS |= {f"[I{number}]": 9 + number for number in range(1, 37)}
_NAMES = {index: name for name, index in _SLOTS.items()}
_DECORATION = re.compile(r"^[\s>*`-]*(?:\d{1,3}[.)]\s+)?[*`]*")
_ACTION = re.compile(r"(move|smelt): from (\[\w{1,8}\]) to (\[\w{1,8}\]) with quantity (\d{1,9})[`*.\s]*", re.I | re.A)
_IMPOSSIBLE = re.compile(r"impossible(?::.*|[`*.\s]*)", re.I)

Slots = dict[int, tuple[str, int]]


@dataclass(frozen=True)
class AnswerLine:
    """A line of an answer: an action for the simulator, `impossible`, or neither.

    Attributes:
        number: place in the answer, from 1, empty lines counted.
        action: input for the simulator; "" if the line is no action.
        verb: move, smelt or impossible; "" if the line is no action.
        source, target: slots of a move or smelt.
    """

    number: int
    text: str
    action: str = ""
    verb: str = ""
    source: str = ""
    target: str = ""
    quantity: int = 0


@dataclass(frozen=True)
class SimulationResult:
    """The simulator's result for an answer.

    Attributes:
        faults: actions without effect, in the order of the lines.
        left: number of actions after the end of the episode.
        inventory: slots at the end.
    """

    success: bool
    steps: int
    faults: tuple[str, ...]
    left: int
    inventory: Slots


def parse_lines(answer: str) -> tuple[AnswerLine, ...]:
    """Parse the lines of an answer that are not empty, without bullets, numbers and backticks."""
    numbered = enumerate(answer.splitlines(), start=1)
    return tuple(_line(number, raw[:_LONGEST_LINE]) for number, raw in numbered if raw.strip(" \t`"))


def _line(number: int, raw: str) -> AnswerLine:
    bare = _DECORATION.sub("", raw, count=1).rstrip()
    text = raw.strip() if len(raw.strip()) <= _SHOWN else raw.strip()[:_SHOWN] + "..."
    if _IMPOSSIBLE.fullmatch(bare):
        return AnswerLine(number, text, "impossible: said by the answer", "impossible")
    if found := _ACTION.fullmatch(bare):
        verb, source, target = found[1].lower(), found[2].upper(), found[3].upper()
        quantity = int(found[4])
        action = f"{verb}: from {source} to {target} with quantity {quantity}"
        return AnswerLine(number, text, action, verb, source, target, quantity)
    return AnswerLine(number, text)


class _NoPicture:
    """A stand-in for the picture of the simulator's table."""

    frame = None

    def _draw_nothing(self, *_: object, **__: object) -> None:
        return None

    add_item_to_slot = remove_item_from_slot = clear = _draw_nothing


class _CraftingTable(PlancraftEnvironment):  # type: ignore[misc]  # the package has no types
    """The package's crafting table without pictures, which tries only recipes that can match."""

    table: Any
    table_indexes: list[int]
    crafting_recipes: list[Any]
    state: dict[int, dict[str, Any]]

    def __init__(self) -> None:
        super().__init__()
        self.table = _NoPicture()
        self._using: dict[str, set[int]] = {}
        for index, recipe in enumerate(self.crafting_recipes):
            for item in recipe.inputs:
                self._using.setdefault(item, set()).add(index)

    def populate_craft_slot_craft_item(self) -> None:
        """Fill slot [0] as the package does; a recipe that lacks an item of the grid cannot match it."""
        every = self.crafting_recipes
        items = {self.state[slot]["type"] for slot in self.table_indexes if not self.slot_empty(slot)}
        able = set.intersection(*(self._using.get(item, set()) for item in items)) if items else set()
        self.crafting_recipes = [every[index] for index in sorted(able)]
        try:
            super().populate_craft_slot_craft_item()
        finally:
            self.crafting_recipes = every


@cache
def _blank() -> tuple[Any, _CraftingTable]:
    """A simulator and a table to copy: building them reads hundreds of pictures (0.1 to 0.3 s)."""
    example = {"target": "stick", "inventory": {}, "slotted_inventory": {}, "num_distractors": 0, "impossible": False}
    unknown = dict.fromkeys(
        ("optimal_path_length", "optimal_path", "inventory_trace", "items_used", "unique_items_used", "complexity")
    )
    rest = {"complexity_bin": 0, "complexity_split": "", "unseen_in_train": False, "unseen_in_val": False}
    empty = PlancraftExample(**example, **unknown, **rest, split="train", id="")
    return PlancraftGymWrapper(empty, max_steps=MAX_STEPS), _CraftingTable()


def make_simulator(example: Mapping[str, Any]) -> Any:
    """A new simulator of an example, given as JSON; the example is copied, since the simulator changes it."""
    wrapper, table = (copy.copy(made) for made in _blank())
    wrapper.example = PlancraftExample(**copy.deepcopy(dict(example)))
    wrapper.environment = table
    table.reset(wrapper.example.slotted_inventory)
    return wrapper


def get_first_observation(example: Mapping[str, Any]) -> str:
    """Objective and inventory in the simulator's words."""
    return str(make_simulator(example).step("")[0]["text"])


def run_actions(example: Mapping[str, Any], actions: tuple[AnswerLine, ...]) -> SimulationResult:
    """Run the actions on an example, given as JSON, until the simulator ends the episode."""
    run = make_simulator(example)
    run.step("")
    faults: list[str] = []
    reward, steps = 0.0, 0
    for line in actions:
        before = _slots(run)
        _, reward, terminated, truncated, _ = run.step(line.action)
        if truncated:
            break
        steps += 1
        if terminated:
            break
        if _slots(run) == before:
            faults.append(f"line {line.number} ({line.text!r}) did nothing: {_why_idle(line, before)}")
    return SimulationResult(reward == 1.0, steps, tuple(faults), len(actions) - steps, _slots(run))


def _slots(run: Any) -> Slots:
    return {slot: (str(item["type"]), int(item["quantity"])) for slot, item in sorted(run.environment.state.items())}


def format_slots(slots: Slots) -> str:
    """Format slots and their contents in a line."""
    return ", ".join(f"{item} {_NAMES[slot]} quantity {count}" for slot, (item, count) in slots.items()) or "nothing"


def _why_idle(line: AnswerLine, slots: Slots) -> str:
    """Explain why an action changed nothing, by the visible table before it."""
    for slot in (line.source, line.target):
        if slot not in _SLOTS:
            return f"there is no slot {slot}; slots are [0], [A1] to [C3] and [I1] to [I36]"
    if line.target == "[0]":
        return "nothing can be put into [0]"
    if line.source == line.target:
        return "source and target are the same slot"
    if not 1 <= line.quantity <= 64:
        return f"the quantity must be 1 to 64, not {line.quantity}"
    if _SLOTS[line.source] not in slots:
        if line.source != "[0]":
            return f"{line.source} is empty"
        grid = {slot: held for slot, held in slots.items() if slot < 10}
        return f"[0] is empty, for the grid makes nothing; it holds {format_slots(grid)}"
    item, count = slots[_SLOTS[line.source]]
    if count < line.quantity:
        return f"{line.source} holds {count} {item}, not {line.quantity}"
    if line.verb == "smelt":
        return f"{item} cannot be smelted, from {line.source}, or what it gives does not fit into {line.target}"
    held = slots.get(_SLOTS[line.target], ("nothing", 0))
    return f"{line.quantity} {item} do not fit into {line.target}, which holds {held[1]} {held[0]}"
