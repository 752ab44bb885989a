"""Lays out a plan: chooses the slots of each action."""

import copy
from math import ceil

from selfwire.extras.offline.crafting_language import Need, Recipe, Slots

DEEPEST = 12
"""Deepest chain of recipes before a plan counts as circular."""


class ShortageError(Exception):
    """A plan cannot be laid out because an item runs out."""

    def __init__(self, need: Need) -> None:
        super().__init__(str(need))
        self.need = need


class CraftingLayout:
    """The actions of a plan so far, and item and count by slot after them."""

    def __init__(self, slots: Slots, plan: dict[str, Recipe]) -> None:
        self.slots = dict(slots)
        self.actions: list[str] = []
        self._plan = plan

    def provide(self, need: Need, depth: int = 0) -> None:
        """Craft what is missing of a need; raises ShortageError if no recipe of the plan makes it."""
        lacking = need.count - sum(count for item, count in self.slots.values() if item in need.items)
        if lacking <= 0:
            return
        recipe = next((self._plan[item] for item in need.items if item in self._plan), None)
        if recipe is None or depth > DEEPEST:
            raise ShortageError(Need(lacking, need.items))
        self.craft(recipe, ceil(lacking / recipe.makes), depth)

    def craft(self, recipe: Recipe, times: int, depth: int = 0) -> None:
        """Craft a recipe a number of times, and its ingredients before; raises ShortageError if one runs out."""
        for _ in range(2):  # making one thing may use up another
            for items, cells in recipe.wants.items():
                self.provide(Need(cells * times, items), depth + 1)
        if recipe.smelts:
            self._smelt(recipe, times)
        elif not self._fill(recipe, times):
            for _ in range(times):
                if not self._fill(recipe, 1):
                    items = max(recipe.wants, key=lambda cell: recipe.wants[cell])
                    raise ShortageError(Need(1, items))  # pragma: no cover - what it takes was provided above

    def _smelt(self, recipe: Recipe, times: int) -> None:
        left = times
        for slot, (item, count) in sorted(self.slots.items()):
            if left and item in recipe.cells[0][1]:
                taken = min(left, count)
                self._take(slot, taken)
                self._put(f"smelt: from {slot} to {{}} with quantity {taken}", recipe.item, taken)
                left -= taken

    def _fill(self, recipe: Recipe, times: int) -> bool:
        """Fill the grid for several crafts at once, each cell from one slot; undo it if that fails."""
        before, done = copy.copy(self.slots), len(self.actions)
        for cell, items in recipe.cells:
            sources = [(count, slot) for slot, (item, count) in self.slots.items() if item in items and count >= times]
            if not sources:
                self.slots, self.actions = before, self.actions[:done]
                return False
            slot = max(sources)[1]
            self._take(slot, times)
            self.actions.append(f"move: from {slot} to {cell} with quantity {times}")
        for _ in range(times):
            self._put(f"move: from [0] to {{}} with quantity {recipe.makes}", recipe.item, recipe.makes)
        return True

    def _take(self, slot: str, count: int) -> None:
        item, held = self.slots.pop(slot)
        if held > count:
            self.slots[slot] = (item, held - count)

    def _put(self, action: str, item: str, count: int) -> None:
        free = [f"[I{number}]" for number in range(1, 37) if f"[I{number}]" not in self.slots]
        like = [slot for slot, held in self.slots.items() if held[0] == item]
        slot = (free or like or ["[I36]"])[0]
        self.slots[slot] = (item, count + (self.slots[slot][1] if slot in like else 0))
        self.actions.append(action.format(slot))
