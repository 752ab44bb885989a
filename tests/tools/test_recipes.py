import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.errors import ToolError
from selfwire.core.scope import Scope
from selfwire.tools.recipes import RecipeSearch, format_recipes


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("torch", ("shaped, gives 4 torch", "[A1] (a)", "[B1] stick", "(a) = charcoal or coal")),
        ("cake", ("[A1] milk_bucket  [A2] milk_bucket  [A3] milk_bucket", "[C3] wheat")),
        ("fire_charge", ("gives 3 fire_charge", "1 blaze_powder + 1 charcoal + 1 gunpowder\nor: 1 blaze_powder")),
        ("glass", ("smelting, gives 1 glass\nsmelt red_sand or sand",)),
        ("coal", ("recipe 1 of 2: shapeless, gives 9 coal", "recipe 2 of 2: smelting, gives 1 coal")),
        ("smoker", ("[A1] empty  [A2] (a)  [A3] empty",)),
        ("iron_ore", ("no recipe makes it",)),
    ],
)
def test_lists_every_recipe_of_an_item(item: str, words: tuple[str, ...]) -> None:
    text = format_recipes(item)
    for one in words:
        assert one in text


def test_text_is_in_sorted_order_and_the_same_each_time() -> None:
    text = format_recipes("stick")
    assert text.index("gives 1 stick") < text.index("gives 4 stick")
    format_recipes.cache_clear()
    assert format_recipes("stick") == text


def test_every_recipe_of_the_package_is_listed_with_all_its_ingredients() -> None:
    from plancraft.environment.recipes import RECIPES

    for item in sorted(RECIPES):
        text = format_recipes(item) if RECIPES[item] else ""
        assert text.count(f"{item}, recipe ") == len(RECIPES[item])
        for recipe in RECIPES[item]:
            assert all(ingredient in text for ingredient in recipe.inputs)


async def test_names_are_read_leniently() -> None:
    assert await RecipeSearch().run({"item": " minecraft:Oak Planks "}, scope=Scope()) == format_recipes("oak_planks")


@pytest.mark.parametrize("arguments", [{}, {"item": ""}, {"item": 3}, {"item": None}, {"name": "torch"}])
async def test_a_call_without_an_item_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ToolError, match="needs the name of an item"):
        await RecipeSearch().run(arguments, scope=Scope())


async def test_an_unknown_item_is_refused_with_close_names() -> None:
    with pytest.raises(ToolError, match="no item 'oak_plank'; close names are oak_planks"):
        await RecipeSearch().run({"item": "oak_plank"}, scope=Scope())


@given(st.text(max_size=300))
async def test_any_name_gives_recipes_or_a_tool_error(name: str) -> None:
    try:
        said = await RecipeSearch().run({"item": name}, scope=Scope())
    except ToolError as error:
        said = str(error)
    assert 0 < len(said) < 900
