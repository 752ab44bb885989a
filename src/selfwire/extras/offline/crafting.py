"""The crafting family: one step of each skill on tasks that ask for an item made from an inventory.

Agents exchange plain lines: `Recipe: 4 torch from [A1] coal, [B1] stick`, `Make 1: ...` for a chosen recipe, with the
level of the plan, `Need: 2 stick` for missing items, `No recipe: coal_ore`, `Stock: ...`, `Short: ...` and
`Verdict: ...`; actions have the form that the task asks for.
"""

import copy
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from math import ceil

from selfwire.core.errors import ToolError
from selfwire.extras.offline.crafting_language import (
    TARGET,
    Need,
    Notes,
    Recipe,
    Slots,
    find_recipes,
    parse_noted_recipe,
    parse_notes,
    parse_slots,
    parse_target,
)
from selfwire.extras.offline.skills import CriticView, Family, SkillInput, SkillOutput
from selfwire.tools.recipes import format_recipes

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


SEARCH = r"recipe"

_NOTE = re.compile(r"(?:Recipe|Make \d+|Need|No recipe|Stock|Short|Remark)\b")
SEARCHES = 16
"""Most recipes that one step looks up."""

TRIED = 2
"""Levels after which a plan that is still stuck looks impossible and not only unfinished."""

EASY = 2
"""Most filled slots of a recipe that an agent can lay out without the skill for it."""


def look_up(work: SkillInput) -> SkillOutput | None:
    """Search for what the plan lacks, or for the item itself; then pass on the recipes."""
    calls = _searches(work)
    if calls.calls:
        return calls
    known = _read_notes(work)
    texts = dict.fromkeys(str(recipe) for recipe in _found_recipes(work))
    fresh = [f"Recipe: {text}" for text in texts if text not in map(str, known.recipes)]
    fruitless = _searched_items(work) - {recipe.item for recipe in _found_recipes(work)} - known.dead
    notes = [*fresh, *(f"No recipe: {item}" for item in sorted(fruitless))]
    return SkillOutput(notes=tuple(notes)) if notes else None


def read(work: SkillInput) -> SkillOutput | None:
    """Pick a recipe of the item whose ingredients are all in stock."""
    known, stock = _read_notes(work), _stock(work)
    ready = [
        recipe for recipe in known.recipes if recipe.item == parse_target(work.task) and not _missing(recipe, stock)
    ]
    if known.plan or not ready:
        return None
    return SkillOutput(notes=(f"Make 1: {work.rng.choice(known.recipes) if work.slip else ready[0]}",))


def plan(work: SkillInput) -> SkillOutput | None:
    """Plan a level: choose a recipe for each missing item and note the items that those recipes lack."""
    known = _read_notes(work)
    wanted = _list_needs(work, known)
    if not wanted:
        return None
    calls = _searches(work)
    if calls.calls:
        return calls
    stock, chosen, notes = _stock(work), dict(known.plan), []
    recipes = [*known.recipes, *_found_recipes(work)]
    for need in wanted:
        fitting = [recipe for recipe in recipes if recipe.item in need.items and not _circular(recipe, chosen)]
        if fitting:
            best = min(fitting, key=lambda recipe: _rank(recipe, stock))
            chosen[best.item] = best
            notes.append(f"Make {known.levels + 1}: {best}")
            times = -(-need.count // best.makes)
            lacking = [Need(best.wants[items] * times, items) for items in _missing(best, stock)]
            notes += [f"Need: {need}" for need in lacking if not any(item in chosen for item in need.items)]
        elif _searched_items(work) | known.dead >= set(need.items):
            notes.append(f"No recipe: {' or '.join(need.items)}")
    if work.slip and notes:
        notes.pop()
    return SkillOutput(notes=tuple(dict.fromkeys(notes))) if notes else None


def inventory(work: SkillInput) -> SkillOutput | None:
    """Compare the numbers that the plan takes with the stock, and note what is missing."""
    known = _read_notes(work)
    if parse_target(work.task) not in known.plan or known.open:
        return None
    _, lacking = _lay_out(work.task, known)
    if lacking and not work.slip:
        return SkillOutput(notes=(f"Stock: {lacking} lacking", f"Need: {lacking}"))
    return SkillOutput(notes=("Stock: enough of all that the plan takes",))


def act(work: SkillInput) -> SkillOutput | None:
    """Turn a plan into actions with slots, or say what runs out."""
    known = _read_notes(work)
    if parse_target(work.task) not in known.plan or known.moves or known.short:
        return None
    actions, lacking = _lay_out(work.task, known)
    if lacking:
        return SkillOutput(notes=(f"Short: {lacking}",))
    if work.slip and actions:
        at = work.rng.randrange(len(actions))
        actions[at] = re.sub(r"\d+$", "64", actions[at])
    return SkillOutput(notes=tuple(actions))


def feasibility(work: SkillInput) -> SkillOutput | None:
    """Say `impossible` when the plan is stuck."""
    known, target = _read_notes(work), parse_target(work.task)
    if not known.plan and target not in known.dead:
        return None
    lacking = [str(need) for need in known.open] + list(known.short) + ([target] if target in known.dead else [])
    stuck = bool(lacking) and not known.moves
    if stuck == work.slip:
        return None
    return SkillOutput(notes=(f"Verdict: for want of {lacking[0] if lacking else target}",))


def answer(work: SkillInput) -> str:
    """Actions if there are any, else the verdict, else the notes that others can use."""
    own = parse_notes(_lines(work.notes))
    others = [parse_notes(_drop_quotes(_lines([text]), work.task)) for _, text in reversed(work.peers)]
    moves = next((member.moves for member in (own, *others) if member.moves), ()) or _easy(work)
    if moves:
        return "\n".join(moves)
    known = _read_notes(work)
    useful = [line for line in work.lines if _NOTE.match(line) and not _has_plan(line, known)]
    verdicts = own.verdicts or tuple(why for other in others for why in other.verdicts if not own.plan)
    ruling = [f"impossible: {verdict}" for verdict in verdicts[:1]]
    return "\n".join([*(f"- {line}" for line in dict.fromkeys(useful)), *ruling]) or "Nothing is known yet."


def missing(evidence: CriticView) -> tuple[str, ...]:
    """Skills whose step the trace does not show, or whose fault the feedback names."""
    known = parse_notes(_drop_quotes(_lines([evidence.trace]), evidence.task))
    if not known.plan:
        return ("plan", "act")
    stuck = bool(known.open or known.dead) and not known.moves
    refused = "`impossible` was not accepted" in evidence.feedback
    found = []
    if stuck or refused:
        found += ["plan"] if refused or known.levels < TRIED else ["feasibility", "plan"]
    elif not known.moves:
        found.append("act")
    if known.short or re.search(r"\bholds \d+ \w+, not \d+", evidence.feedback):
        found.append("inventory")
    if stuck and not refused:
        found.append("feasibility")
    return tuple(dict.fromkeys(found))


def concepts(task: str) -> tuple[str, ...]:
    """The concepts of such a task, and what it needs."""
    return "crafting", "recipes", "planning", "inventory", parse_target(task).split("_")[-1]


@lru_cache(maxsize=256)
def parallel(task: str) -> float:
    """High if the item is made of several sorts of things, each of which can be provided by itself."""
    try:
        known = find_recipes(format_recipes(parse_target(task)))
    except ToolError:  # no such item
        return 0.2
    return 0.8 if any(len(recipe.wants) > 1 for recipe in known) else 0.2


def is_crafting_question(task: str) -> bool:
    """Whether the task asks for an item to be crafted."""
    return bool(TARGET.search(task))


FAMILY = Family(
    name="crafting",
    recognises=is_crafting_question,
    abilities={
        "look up": look_up,
        "read": read,
        "plan": plan,
        "inventory": inventory,
        "act": act,
        "feasibility": feasibility,
    },
    answer=answer,
    missing=missing,
    concepts=concepts,
    needs=SEARCH,
    parallel=parallel,
)


def _lines(texts: Iterable[str]) -> list[str]:
    return [line.strip().removeprefix("- ").strip() for text in texts for line in text.split("\n")]


def _read_notes(work: SkillInput) -> Notes:
    return parse_notes(_drop_quotes(work.lines, work.task))


def _drop_quotes(lines: Iterable[str], task: str) -> list[str]:
    """The lines without quotes of the task, whose examples of actions are not a plan."""
    quotable, written = ([line for line in part if line] for part in (_lines([task]), lines))
    pairs = set(pairwise(quotable))
    quoted = {at + step for at, pair in enumerate(pairwise(written)) if pair in pairs for step in (0, 1)}
    return [line for at, line in enumerate(written) if at not in quoted]


def _has_plan(line: str, known: Notes) -> bool:
    recipe = parse_noted_recipe(line) if line.startswith("Recipe: ") else None
    return recipe is not None and recipe.item in known.plan


def _easy(work: SkillInput) -> tuple[str, ...]:
    """The actions of a single recipe with few slots, which needs no skill."""
    known = _read_notes(work)
    recipe = known.plan.get(parse_target(work.task))
    if recipe is None or len(known.plan) > 1 or len(recipe.cells) > EASY:
        return ()
    actions, lacking = _lay_out(work.task, known)
    return () if lacking else tuple(actions)


def _lay_out(task: str, known: Notes) -> tuple[list[str], Need | None]:
    """The actions of the plan, and what runs out before it is done."""
    table = CraftingLayout(parse_slots(task), known.plan)
    try:
        table.provide(Need(1, (parse_target(task),)))
    except ShortageError as shortage:
        return table.actions, shortage.need
    return table.actions, None


def _list_needs(work: SkillInput, known: Notes) -> list[Need]:
    target = parse_target(work.task)
    if target not in known.plan:
        return [] if target in known.dead else [Need(1, (target,))]
    return [need for need in known.open if not known.dead.issuperset(need.items)]


def _searches(work: SkillInput) -> SkillOutput:
    """Searches for needed items without a recipe; none if they were searched already."""
    known, asked = _read_notes(work), _searched_items(work)
    items = dict.fromkeys(item for need in _list_needs(work, known) for item in need.items)
    unknown = [item for item in items if item not in known.dead | {recipe.item for recipe in known.recipes}]
    tool = work.tool(SEARCH)
    if tool is None or asked & items.keys() or not (inputs := list(tool.parameters.get("properties", {}))):
        return SkillOutput()
    return SkillOutput(calls=tuple((tool.name, {inputs[0]: item}) for item in unknown[:SEARCHES]))


def _searched_items(work: SkillInput) -> set[str]:
    return {str(value) for result in work.results for value in result.arguments.values()}


def _found_recipes(work: SkillInput) -> list[Recipe]:
    return [recipe for result in work.results for recipe in find_recipes(result.text)]


def _stock(work: SkillInput) -> frozenset[str]:
    return frozenset(item for item, _ in parse_slots(work.task).values())


def _missing(recipe: Recipe, stock: Iterable[str]) -> list[tuple[str, ...]]:
    """Sets of alternatives of which none is in stock."""
    return [items for items in recipe.wants if not set(items) & set(stock)]


def _rank(recipe: Recipe, stock: Iterable[str]) -> tuple[float, int]:
    """A sort key: smaller if more ingredients of a recipe are in stock."""
    missing = len(_missing(recipe, stock))
    return missing / len(recipe.wants), missing


def _circular(recipe: Recipe, chosen: dict[str, Recipe]) -> bool:
    return any(set(items) <= chosen.keys() for items in recipe.wants)
