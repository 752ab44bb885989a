import random
import subprocess
import sys
from collections.abc import Sequence

import pytest

from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.evals.benchmarks.plancraft import PLANCRAFT, load_tasks
from selfwire.evals.instructions import paraphrases
from selfwire.extras.offline import crafting
from selfwire.extras.offline.crafting import CraftingLayout, ShortageError
from selfwire.extras.offline.crafting_language import Need, find_recipes, parse_noted_recipe, parse_notes, parse_slots
from selfwire.extras.offline.model import OfflineChat
from selfwire.extras.offline.skills import CriticView, OfferedTool, SkillInput, SkillOutput, ToolResult
from selfwire.extras.offline.vocabulary import active_skills, family_of
from selfwire.tools.recipes import format_recipes
from tests.extras.offline.replies import run_team

TASK = """Craft an item of type: torch
inventory:
 - oak_log [I1] quantity 2
 - coal [I4] quantity 1

Answer with actions."""
SEARCH = OfferedTool("recipe_search", "List recipes.", {"properties": {"item": {"type": "string"}}})
TORCH = "4 torch from [A1] charcoal or coal, [B1] stick"
STICK = "4 stick from [A1] oak_planks, [B1] oak_planks"
PLANKS = "4 oak_planks from [A1] oak_log"
PLAN = (f"Make 1: {TORCH}", "Need: 1 stick", f"Make 2: {STICK}", "Need: 2 oak_planks", f"Make 3: {PLANKS}")
MOVES = (
    "move: from [I1] to [A1] with quantity 1",
    "move: from [0] to [I2] with quantity 4",
    "move: from [I2] to [A1] with quantity 1",
    "move: from [I2] to [B1] with quantity 1",
    "move: from [0] to [I3] with quantity 4",
    "move: from [I4] to [A1] with quantity 1",
    "move: from [I3] to [B1] with quantity 1",
    "move: from [0] to [I4] with quantity 4",
)


def work(
    *lines: str, results: Sequence[str] = (), tool: bool = False, task: str = TASK, slip: bool = False
) -> SkillInput:
    found = tuple(ToolResult("recipe_search", {"item": item}, format_recipes(item)) for item in results)
    peers = (("planner", "\n".join(lines)),) if lines else ()
    tools = (SEARCH,) if tool else ()
    return SkillInput(task, peers, results=found, tools=tools, slip=slip, rng=random.Random(1))


def notes(move: SkillOutput | None) -> tuple[str, ...]:
    assert move is not None
    assert not move.calls
    return move.notes


def test_every_recipe_that_the_search_lists_is_understood_and_survives_being_noted() -> None:
    from plancraft.environment.recipes import RECIPES

    for item in sorted(RECIPES):
        found = find_recipes(format_recipes(item)) if RECIPES[item] else []
        assert len(found) >= len(RECIPES[item])
        assert {name for one in found for _, items in one.cells for name in items} == {
            name for recipe in RECIPES[item] for name in recipe.inputs
        }
        for one in found:
            assert parse_noted_recipe(str(one)) == one


def test_plan_looks_up_the_item_itself_and_chooses_one_recipe() -> None:
    move = crafting.plan(work(tool=True))
    assert move is not None
    assert move.calls == (("recipe_search", {"item": "torch"}),)
    assert notes(crafting.plan(work(results=["torch"]))) == (f"Make 1: {TORCH}", "Need: 1 stick")


def test_plan_expands_one_level_and_no_more() -> None:
    move = crafting.plan(work(*PLAN[:2], tool=True))
    assert move is not None
    assert move.calls == (("recipe_search", {"item": "stick"}),)
    chosen = notes(crafting.plan(work(*PLAN[:2], results=["stick"])))
    assert [line.split(" from")[0] for line in chosen if line.startswith("Make")] == ["Make 2: 1 stick"]


def test_plan_prefers_what_is_in_the_inventory() -> None:
    task = TASK.replace("coal [I4]", "oak_planks [I4]").replace("oak_log", "dirt")
    assert "oak_planks" in notes(crafting.plan(work(*PLAN[:2], results=["stick"], task=task)))[0]


def test_plan_says_what_no_recipe_makes() -> None:
    assert notes(crafting.plan(work(*PLAN[:1], "Need: 1 allium", results=["allium"]))) == ("No recipe: allium",)
    assert crafting.plan(work(*PLAN[:1], "Need: 1 allium", "No recipe: allium", tool=True)) is None


def test_plan_works_from_recipes_that_others_looked_up() -> None:
    recipe = f"Recipe: {STICK}"
    assert notes(crafting.plan(work(*PLAN[:2], recipe))) == (f"Make 2: {STICK}", "Need: 2 oak_planks")


def test_look_up_hands_recipes_on_and_decides_nothing() -> None:
    move = crafting.look_up(work(tool=True))
    assert move is not None
    assert move.calls == (("recipe_search", {"item": "torch"}),)
    assert notes(crafting.look_up(work(results=["torch"]))) == (f"Recipe: {TORCH}",)
    assert notes(crafting.look_up(work(results=["allium"]))) == ("No recipe: allium",)


def test_read_takes_a_recipe_only_if_everything_is_there() -> None:
    assert crafting.read(work(f"Recipe: {TORCH}")) is None
    task = TASK.replace("oak_log", "stick")
    assert notes(crafting.read(work(f"Recipe: {TORCH}", task=task))) == (f"Make 1: {TORCH}",)


def test_act_turns_a_plan_into_actions_with_slots() -> None:
    assert notes(crafting.act(work(*PLAN))) == MOVES
    assert crafting.act(work("Recipe: " + TORCH)) is None


def test_act_says_what_runs_out() -> None:
    assert notes(crafting.act(work(*PLAN[:4]))) == ("Short: 2 oak_planks",)


def test_inventory_counts_what_the_plan_takes() -> None:
    task = TASK.replace("oak_log [I1] quantity 2", "oak_planks [I1] quantity 1")
    lacking = notes(crafting.inventory(work(PLAN[0], PLAN[2], task=task)))
    assert lacking == ("Stock: 1 oak_planks lacking", "Need: 1 oak_planks")
    assert notes(crafting.inventory(work(*PLAN))) == ("Stock: enough of all that the plan takes",)
    assert crafting.inventory(work()) is None


@pytest.mark.parametrize(
    ("lines", "stuck"),
    [
        (PLAN, False),
        (PLAN[:2], True),
        ((*PLAN, "Short: 1 coal"), True),
        (("No recipe: torch",), True),
        ((f"Recipe: {TORCH}",), False),
        ((), False),
    ],
)
def test_feasibility_speaks_up_only_when_a_plan_is_stuck(lines: tuple[str, ...], stuck: bool) -> None:
    assert bool(crafting.feasibility(work(*lines))) == stuck


def test_a_slip_spoils_each_step() -> None:
    assert notes(crafting.act(work(*PLAN, slip=True))) != MOVES
    assert notes(crafting.plan(work(results=["torch"], slip=True))) == (f"Make 1: {TORCH}",)
    assert crafting.feasibility(work(*PLAN[:2], slip=True)) is None
    assert crafting.feasibility(work(*PLAN, slip=True)) is not None
    short = TASK.replace("oak_log [I1] quantity 2", "oak_planks [I1] quantity 1")
    assert notes(crafting.inventory(work(PLAN[0], PLAN[2], task=short, slip=True)))[0].startswith("Stock: enough")


def test_the_answer_is_actions_or_a_verdict_or_notes() -> None:
    assert crafting.answer(work(*PLAN).with_notes(*MOVES)) == "\n".join(MOVES)
    assert crafting.answer(work(*MOVES)) == "\n".join(MOVES)
    stuck = crafting.answer(work(*PLAN[:2]).with_notes("Verdict: for want of 1 stick"))
    assert stuck.split("\n") == [f"- {PLAN[0]}", "- Need: 1 stick", "impossible: for want of 1 stick"]
    assert crafting.answer(work(*PLAN[:2], "impossible: so I think")).endswith("\nimpossible: so I think")
    assert "impossible" not in crafting.answer(work(*PLAN[:2], "impossible: x").with_notes(PLAN[2]))
    assert crafting.answer(work(*PLAN, f"Recipe: {STICK}")) == "\n".join(f"- {line}" for line in PLAN)
    assert crafting.answer(work()) == "Nothing is known yet."


def test_an_easy_recipe_needs_no_skill_and_a_hard_one_does() -> None:
    task = TASK.replace("oak_log", "stick")
    assert crafting.answer(work(f"Make 1: {TORCH}", task=task)).startswith("move: from [I4] to [A1]")
    hard = f"Make 1: {TORCH}, [C1] stick"
    assert crafting.answer(work(hard, task=task)) == f"- {hard}"


def test_a_layout_goes_in_no_circles_and_says_what_lacks() -> None:
    recipes = map(parse_noted_recipe, ("9 coal from [A1] coal_block", "1 coal_block from [A1] coal"))
    table = CraftingLayout({}, {recipe.item: recipe for recipe in recipes if recipe})
    with pytest.raises(ShortageError, match=r"1 coal"):
        table.provide(Need(1, ("coal",)))


def test_a_layout_takes_one_item_at_a_time_where_stacks_are_too_small() -> None:
    recipe = parse_noted_recipe("1 chest from [A1] oak_planks or spruce_planks, [A2] oak_planks or spruce_planks")
    assert recipe is not None
    table = CraftingLayout({"[I1]": ("oak_planks", 1), "[I2]": ("spruce_planks", 3)}, {"chest": recipe})
    table.provide(Need(2, ("chest",)))
    assert [action.split()[2] for action in table.actions] == ["[I2]", "[I2]", "[0]", "[I2]", "[I1]", "[0]"]


@pytest.mark.parametrize(
    ("trace", "feedback", "missing"),
    [
        ("", "", ("plan", "act")),
        (f"Recipe: {TORCH}", "the answer has no action", ("plan", "act")),
        ("\n".join(PLAN), "the answer has no action", ("act",)),
        ("\n".join(PLAN[:2]), "the answer has no action", ("plan", "feasibility")),
        ("\n".join(PLAN[:4]), "the answer has no action", ("feasibility", "plan")),
        ("\n".join(PLAN[:2]), "the answer `impossible` was not accepted", ("plan",)),
        ("\n".join([*PLAN, *MOVES]), "did nothing: [I1] holds 2 oak_log, not 64", ("inventory",)),
        ("\n".join([*PLAN, *MOVES]), "there is no torch in the inventory", ()),
    ],
)
def test_critics_name_what_the_trace_does_not_show(trace: str, feedback: str, missing: tuple[str, ...]) -> None:
    assert crafting.missing(CriticView(task=TASK, trace=trace, feedback=feedback)) == missing


def test_the_family_is_recognised_by_its_task_alone() -> None:
    assert family_of(TASK) is crafting.FAMILY
    assert not crafting.is_crafting_question("Who designed the harbour of Elmstead?")
    assert parse_slots(TASK) == {"[I1]": ("oak_log", 2), "[I4]": ("coal", 1)}


def test_most_wordings_switch_their_skill_on_and_no_other_of_crafting() -> None:
    ours = ("plan", "inventory", "act", "feasibility")
    hits = {name: [name in active_skills(text) for text in paraphrases()[name]] for name in ours}
    assert all(len(found) >= 5 for found in hits.values())
    assert sum(map(sum, hits.values())) >= 0.8 * sum(map(len, hits.values()))
    for name, texts in paraphrases().items():
        for text in texts:
            assert set(active_skills(text)) & set(ours) <= {name}, text


def test_a_prompt_without_instructions_switches_nothing_of_crafting_on() -> None:
    assert active_skills("You are a capable generalist. Work on the task and answer it.") == ("look up", "read")


def test_the_model_knows_recipes_from_the_search_only() -> None:
    code = "import sys, selfwire.extras.offline.vocabulary; sys.exit('plancraft' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


GENERALIST = ("You are a capable generalist. Work on the task and answer it.",)


def team(*skills: str) -> tuple[str, ...]:
    return tuple(" ".join(paraphrases()[skill][0] for skill in agent.split("+")) for agent in skills)


async def solved(prompts: Sequence[str], chosen: Sequence[Task]) -> float:
    score, [tool] = 0.0, PLANCRAFT.toolbox.values()
    for task in chosen:
        text = await run_team(prompts, task.input, tool, OfflineChat(error_rate=0))
        score += (await PLANCRAFT.environment.grade(task, text, scope=Scope())).score
    return score / len(chosen)


@pytest.mark.parametrize(
    ("prompts", "least", "most"),
    [
        (GENERALIST, 0.05, 0.3),
        (team("plan"), 0.05, 0.3),
        (team("act"), 0.0, 0.0),
        (team("plan+act"), 0.4, 0.5),
        (team("plan+feasibility"), 0.2, 0.4),
        (team("plan", "act+feasibility"), 0.6, 0.7),
        (team("plan", "plan", "act+feasibility"), 0.8, 0.95),
        (team("plan+inventory", "plan+inventory", "plan+inventory", "act+feasibility"), 0.9, 1.0),
    ],
)
async def test_what_chains_of_skills_solve(prompts: tuple[str, ...], least: float, most: float) -> None:
    assert least <= await solved(prompts, load_tasks("val.small")) <= most


def test_notes_are_understood_whatever_else_is_said() -> None:
    known = parse_notes(["I think so.", "Need: nothing", "Make 1: nonsense", "move: it", *PLAN])
    assert (known.levels, len(known.needs), known.moves, known.open) == (3, 2, (), ())


def test_the_tasks_own_examples_are_nobodys_plan_where_a_message_quotes_them() -> None:
    examples = "move: from [I2] to [A1] with quantity 3\nsmelt: from [I5] to [I6] with quantity 1"
    task = f"{TASK}\nWrite one per line:\n{examples}"
    quoted = work("Overall objective:", *task.split("\n"), task=task)
    assert crafting.answer(quoted) == "Nothing is known yet."
    assert crafting.missing(CriticView(task, task)) == ("plan", "act")
    assert crafting.answer(work("Done:", examples.split("\n")[1], task=task)) == examples.split("\n")[1]
