"""The crafting family: what each skill does in one step on tasks that ask for an item out of an inventory.

Agents exchange plain lines: `Recipe: 4 torch from [A1] coal, [B1] stick`, `Make 1: ...` for a recipe that
was chosen, with the level of the plan, `Need: 2 stick` for what is lacking, `No recipe: coal_ore`,
`Stock: ...`, `Short: ...` and `Verdict: ...`; actions stand as the task asks for them.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

from selfwire.runtime.offline.crafting_language import (
    TARGET,
    Need,
    Notes,
    Recipe,
    find_recipes,
    parse_noted_recipe,
    parse_notes,
    parse_slots,
    parse_target,
)
from selfwire.runtime.offline.crafting_layout import Layout, ShortageError
from selfwire.runtime.offline.skills import CriticView, Family, SkillInput, SkillOutput

SEARCH = r"recipe"

_NOTE = re.compile(r"(?:Recipe|Make \d+|Need|No recipe|Stock|Short|Remark)\b")
SEARCHES = 16
"""How many recipes one step looks up."""

TRIED = 2
"""After how many levels a plan that is still stuck looks hopeless rather than unfinished."""

EASY = 2
"""How many filled slots a recipe may have that someone lays out who has no skill for it."""


def look_up(work: SkillInput) -> SkillOutput | None:
    """One round of searches for what the plan lacks, or for the item itself; then hand on the recipes."""
    calls = _searches(work)
    if calls.calls:
        return calls
    known = _known(work)
    texts = dict.fromkeys(str(recipe) for recipe in _searched(work))
    fresh = [f"Recipe: {text}" for text in texts if text not in map(str, known.recipes)]
    fruitless = _asked(work) - {recipe.item for recipe in _searched(work)} - known.dead
    notes = [*fresh, *(f"No recipe: {item}" for item in sorted(fruitless))]
    return SkillOutput(notes=tuple(notes)) if notes else None


def read(work: SkillInput) -> SkillOutput | None:
    """Pick a recipe of the item, out of those looked up, whose ingredients are all there."""
    known, held = _known(work), _held(work)
    ready = [
        recipe for recipe in known.recipes if recipe.item == parse_target(work.task) and not _missing(recipe, held)
    ]
    if known.plan or not ready:
        return None
    return SkillOutput(notes=(f"Make 1: {work.rng.choice(known.recipes) if work.slip else ready[0]}",))


def plan(work: SkillInput) -> SkillOutput | None:
    """One level: choose a recipe for everything that is lacking and note what those recipes lack."""
    known = _known(work)
    wanted = _wanted(work, known)
    if not wanted:
        return None
    calls = _searches(work)
    if calls.calls:
        return calls
    held, chosen, notes = _held(work), dict(known.plan), []
    recipes = [*known.recipes, *_searched(work)]
    for need in wanted:
        fitting = [one for one in recipes if one.item in need.items and not _circular(one, chosen)]
        if fitting:
            best = min(fitting, key=lambda one: _promise(one, held))
            chosen[best.item] = best
            notes.append(f"Make {known.levels + 1}: {best}")
            times = -(-need.count // best.makes)
            lacking = [Need(best.wants[items] * times, items) for items in _missing(best, held)]
            notes += [f"Need: {one}" for one in lacking if not any(item in chosen for item in one.items)]
        elif _asked(work) | known.dead >= set(need.items):
            notes.append(f"No recipe: {' or '.join(need.items)}")
    if work.slip and notes:
        notes.pop()
    return SkillOutput(notes=tuple(dict.fromkeys(notes))) if notes else None


def inventory(work: SkillInput) -> SkillOutput | None:
    """Match what the plan takes with the stock, by number, and note what is lacking."""
    known = _known(work)
    if parse_target(work.task) not in known.plan or known.open:
        return None
    table = Layout(parse_slots(work.task), known.plan)
    try:
        table.provide(Need(1, (parse_target(work.task),)))
    except ShortageError as shortage:
        if not work.slip:
            return SkillOutput(notes=(f"Stock: {shortage.need} lacking", f"Need: {shortage.need}"))
    return SkillOutput(notes=("Stock: enough of all that the plan takes",))


def act(work: SkillInput) -> SkillOutput | None:
    """Turn a plan into actions with slots, or say what runs out."""
    known, target = _known(work), parse_target(work.task)
    if target not in known.plan or known.moves or known.short:
        return None
    table = Layout(parse_slots(work.task), known.plan)
    try:
        table.provide(Need(1, (target,)))
    except ShortageError as shortage:
        return SkillOutput(notes=(f"Short: {shortage.need}",))
    actions = table.actions
    if work.slip and actions:
        at = work.rng.randrange(len(actions))
        actions[at] = re.sub(r"\d+$", "64", actions[at])
    return SkillOutput(notes=tuple(actions))


def feasibility(work: SkillInput) -> SkillOutput | None:
    """Say `impossible` when the plan is stuck."""
    known, target = _known(work), parse_target(work.task)
    if not known.plan and target not in known.dead:
        return None
    lacking = [str(need) for need in known.open] + list(known.short) + ([target] if target in known.dead else [])
    stuck = bool(lacking) and not known.moves
    if stuck == work.slip:
        return None
    return SkillOutput(notes=(f"Verdict: for want of {lacking[0] if lacking else target}",))


def answer(work: SkillInput) -> str:
    """Actions if there are any, else the verdict if there is one; without either, what others can use."""
    own = parse_notes(_lines(work.notes))
    others = [parse_notes(_news(_lines([text]), work.task)) for _, text in reversed(work.peers)]
    moves = next((one.moves for one in (own, *others) if one.moves), ()) or _easy(work)
    if moves:
        return "\n".join(moves)
    known = _known(work)
    useful = [line for line in work.lines if _NOTE.match(line) and not _settled(line, known)]
    verdicts = own.verdicts or tuple(why for other in others for why in other.verdicts if not own.plan)
    said = [f"impossible: {verdict}" for verdict in verdicts[:1]]
    return "\n".join([*(f"- {line}" for line in dict.fromkeys(useful)), *said]) or "Nothing is known yet."


def missing(evidence: CriticView) -> tuple[str, ...]:
    """Skills whose step does not show in the trace, or whose kind of fault the feedback names."""
    known = parse_notes(_news(_lines([evidence.trace]), evidence.task))
    told = evidence.feedback
    if not known.plan:
        return ("plan", "act")
    stuck = bool(known.open or known.dead) and not known.moves
    refused = "`impossible` was not accepted" in told
    found = []
    if stuck or refused:
        found += ["plan"] if refused or known.levels < TRIED else ["feasibility", "plan"]
    elif not known.moves:
        found.append("act")
    if known.short or re.search(r"\bholds \d+ \w+, not \d+", told):
        found.append("inventory")
    if stuck and not refused:
        found.append("feasibility")
    return tuple(dict.fromkeys(found))


def concepts(task: str) -> tuple[str, ...]:
    """What such a task is about, and what it needs."""
    return "crafting", "recipes", "planning", "inventory", parse_target(task).split("_")[-1]


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
    parallel=lambda task: 0.2,
)


def _lines(texts: Iterable[str]) -> list[str]:
    return [line.strip().removeprefix("- ").strip() for text in texts for line in text.split("\n")]


def _known(work: SkillInput) -> Notes:
    """What others and this agent have noted."""
    return parse_notes(_news(work.lines, work.task))


def _news(lines: Iterable[str], task: str) -> list[str]:
    """The lines without what is quoted of the task: its examples of actions are nobody's plan."""
    told, said = ([line for line in one if line] for one in (_lines([task]), lines))
    pairs = set(pairwise(told))
    quoted = {at + step for at, pair in enumerate(pairwise(said)) if pair in pairs for step in (0, 1)}
    return [line for at, line in enumerate(said) if at not in quoted]


def _settled(line: str, known: Notes) -> bool:
    """Whether a recipe was looked up for something that has one by now."""
    recipe = parse_noted_recipe(line) if line.startswith("Recipe: ") else None
    return recipe is not None and recipe.item in known.plan


def _easy(work: SkillInput) -> tuple[str, ...]:
    """The actions of a single recipe of very few slots, which needs no skill."""
    known, target = _known(work), parse_target(work.task)
    recipe = known.plan.get(target)
    if recipe is None or len(known.plan) > 1 or len(recipe.cells) > EASY:
        return ()
    table = Layout(parse_slots(work.task), known.plan)
    try:
        table.provide(Need(1, (target,)))
    except ShortageError:
        return ()
    return tuple(table.actions)


def _wanted(work: SkillInput, known: Notes) -> list[Need]:
    """What a recipe is to be chosen for: the item itself, then what is lacking."""
    target = parse_target(work.task)
    if target not in known.plan:
        return [] if target in known.dead else [Need(1, (target,))]
    return [need for need in known.open if not known.dead.issuperset(need.items)]


def _searches(work: SkillInput) -> SkillOutput:
    """One round of searches for wanted items that are not known; none if a round for them is in already."""
    known, asked = _known(work), _asked(work)
    items = dict.fromkeys(item for need in _wanted(work, known) for item in need.items)
    unknown = [item for item in items if item not in known.dead | {recipe.item for recipe in known.recipes}]
    tool = work.tool(SEARCH)
    if tool is None or asked & items.keys() or not (inputs := list(tool.parameters.get("properties", {}))):
        return SkillOutput()
    return SkillOutput(calls=tuple((tool.name, {inputs[0]: item}) for item in unknown[:SEARCHES]))


def _asked(work: SkillInput) -> set[str]:
    """Items that a recipe search of this tool loop was about."""
    return {str(value) for result in work.results for value in result.arguments.values()}


def _searched(work: SkillInput) -> list[Recipe]:
    return [recipe for result in work.results for recipe in find_recipes(result.text)]


def _held(work: SkillInput) -> frozenset[str]:
    return frozenset(item for item, _ in parse_slots(work.task).values())


def _missing(recipe: Recipe, held: Iterable[str]) -> list[tuple[str, ...]]:
    """Sets of alternatives of which nothing is in the inventory."""
    return [items for items in recipe.wants if not set(items) & set(held)]


def _promise(recipe: Recipe, held: Iterable[str]) -> tuple[float, int]:
    """The smaller, the more of what a recipe takes is there."""
    missing = len(_missing(recipe, held))
    return missing / len(recipe.wants), missing


def _circular(recipe: Recipe, chosen: dict[str, Recipe]) -> bool:
    """Whether a recipe takes nothing but what is to be made of its own result."""
    return any(set(items) <= chosen.keys() for items in recipe.wants)
