"""A tool for the recipes of Plancraft: all recipes of an item, always in the same words and order."""

import asyncio
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ToolError
from selfwire.core.scope import Scope

_LETTERS = "abcdefghi"


class RecipeSearch:
    """A tool that lists all recipes of an item."""

    @property
    def spec(self) -> ToolSpec:
        """Name, purpose and input of the tool."""
        item = {"type": "string", "description": "Name of one item as inventories write it, such as oak_planks."}
        return ToolSpec(
            name="recipe_search",
            description="List every recipe that makes an item: what goes into which grid slot, or what is smelted.",
            parameters={
                "type": "object",
                "properties": {"item": item},
                "required": ["item"],
                "additionalProperties": False,
            },
        )

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """List the recipes of `arguments["item"]`; ToolError names close items if there is no such item."""
        item = arguments.get("item")
        if not isinstance(item, str) or not item.strip():
            raise ToolError("recipe_search needs the name of an item as 'item'")
        return await asyncio.to_thread(format_recipes, "_".join(item.lower().split()).removeprefix("minecraft:")[:80])


@cache
def format_recipes(item: str) -> str:
    """Format all recipes of an item as text, sorted; ToolError if there is no such item.

    A shaped recipe shows the rows of the grid, with letters for alternatives; each slot may use another alternative. A
    shapeless recipe has a line for each possible set of items.
    """
    from plancraft.environment.items import ALL_ITEMS
    from plancraft.environment.recipes import RECIPES

    if item not in ALL_ITEMS:
        close = ", ".join(get_close_matches(item, sorted(ALL_ITEMS), n=5, cutoff=0.5))
        raise ToolError(f"there is no item {item!r}; " + (f"close names are {close}" if close else "check its name"))
    texts = sorted(_format_recipe(recipe) for recipe in RECIPES.get(item, ()))
    if not texts:
        return f"{item}: no recipe makes it; it must be in the inventory."
    return "\n".join(f"{item}, recipe {number} of {len(texts)}: {text}" for number, text in enumerate(texts, start=1))


def _format_recipe(recipe: Any) -> str:
    kind = str(recipe.recipe_type)
    body = {"shaped": _format_shaped, "shapeless": _format_shapeless, "smelting": _format_smelting}[kind](recipe)
    return f"{kind}, gives {recipe.result.count} {recipe.result.item}\n{body}"


def _format_shaped(recipe: Any) -> str:
    from plancraft.environment.recipes import id_to_item

    letters: dict[str, str] = {}

    def cell(ids: set[int]) -> str:
        names = sorted(id_to_item(number) or "empty" for number in ids)
        if len(names) == 1:
            return names[0]
        return letters.setdefault(" or ".join(names), f"({_LETTERS[len(letters)]})")

    rows = [
        "  ".join(f"[{row}{column}] {cell(ids)}" for column, ids in enumerate(cells, start=1))
        for row, cells in zip("ABC", recipe.kernel, strict=False)
    ]
    alternatives = [f"{letter} = {names}" for names, letter in letters.items()]
    size = (len(recipe.kernel), len(recipe.kernel[0]))
    free = [] if size == (3, 3) else ["The shape may stand elsewhere in the grid."]
    return "\n".join(rows + alternatives + free)


def _format_shapeless(recipe: Any) -> str:
    sets = sorted({" + ".join(f"{n} {item}" for item, n in sorted(counts.items())) for counts in recipe.ingredients})
    return "in any grid slots, one item in each: " + "\nor: ".join(sets)


def _format_smelting(recipe: Any) -> str:
    return "smelt " + " or ".join(sorted(recipe.ingredient))
