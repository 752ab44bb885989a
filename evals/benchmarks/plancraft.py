"""Plancraft: crafting plans, scored by the package's own simulator (Dagan et al., 2024; package plancraft 0.4.9).

An answer is a whole plan: its actions are run one after another from the given inventory. It is
solved if the target is in the inventory when they end, or if the answer says `impossible` and the
package's authors made the task so. A plan is either actions or `impossible`: in one answer, the
claim would be a hedge that costs nothing.
"""

import asyncio
import json
import random
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from selfwire.core.errors import ConfigError, GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Splits, Task
from selfwire.core.values import fingerprint, to_plain_json
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule
from selfwire.tools.recipes import RecipeSearch

if TYPE_CHECKING:
    from selfwire.evals.benchmarks.crafting_table import Line, SimulationResult

SPLITS = ("train", "val", "test", "val.small", "test.small")
"""The package's splits; the small ones are parts of val and test."""

KIND = "crafting"

ANSWER_FORMAT = """\
Slots: [0] is the output of the crafting grid; [A1] [A2] [A3], [B1] [B2] [B3], [C1] [C2] [C3] are the rows of the \
3x3 grid; [I1] to [I36] hold the inventory. Items that lie in the grid as a recipe asks make its result appear in \
[0]; moving it from [0] to a free inventory slot crafts it and uses up one item of every filled grid slot. Smelting \
needs no grid and no fuel. Nothing can be put into [0].
Answer with one action per line, in the order in which they are done, and nothing else:
move: from [I2] to [A1] with quantity 3
smelt: from [I5] to [I6] with quantity 1
If the item cannot be made from this inventory, answer with this one line instead:
impossible: reason"""

_TROUBLE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What the package raises when it meets something that it did not expect."""


@cache
def load_tasks(split: str) -> tuple[Task, ...]:
    """All tasks of a split of the package, in an order that says nothing of them.

    Ids and order are made from what a team may read, since the package numbers and sorts its
    examples by what it may not.

    Raises:
        ConfigError: there is no such split.
    """
    if split not in SPLITS:
        raise ConfigError(f"Plancraft has no split {split!r}; splits are {', '.join(SPLITS)}")
    stored = json.loads((files("plancraft") / "data" / f"{split}.json").read_text(encoding="utf-8"))
    return tuple(sorted((to_task(example) for example in stored), key=lambda task: task.id))


def to_task(example: dict[str, object]) -> Task:
    """A task from an example as the package stores it."""
    from selfwire.evals.benchmarks.crafting_table import get_first_observation

    seen = get_first_observation(example)
    text = f"{seen}\n\n{ANSWER_FORMAT}"
    return Task(id=f"plancraft-{fingerprint(seen)}", input=text, kind=KIND, reference=example)


def make_splits(seed: int, train: int, gate: int, test: int) -> Splits:
    """Tasks of the package's train, val and test splits, shuffled by the seed.

    Raises:
        ConfigError: a split has fewer tasks.
    """
    sizes = {"train": ("train", train), "gate": ("val", gate), "test": ("test", test)}
    return Splits(**{name: _drawn(seed, split, size) for name, (split, size) in sizes.items()})


def _drawn(seed: int, split: str, size: int) -> tuple[Task, ...]:
    """So many tasks of a split in an order of its own; a larger draw begins with the smaller one."""
    shuffled = list(load_tasks(split))
    if size > len(shuffled):
        raise ConfigError(f"Plancraft's split {split!r} has {len(shuffled)} tasks, not {size}; ask for fewer")
    random.Random(f"plancraft {split} {seed}").shuffle(shuffled)
    return tuple(shuffled[:size])


class PlancraftEnvironment:
    """Runs an answer in the simulator and says what happened."""

    name = "plancraft"

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score an answer: 1 if the simulator rewards it, else 0.

        The text says which lines are no actions, which did nothing and why, and what is in the
        slots at the end: all of it follows from answer, inventory and recipes.

        Raises:
            GradingError: the task's reference is not an example of the package, or the simulator failed.
        """
        try:
            return await asyncio.to_thread(_assessed, task, answer)
        except _TROUBLE as error:
            raise GradingError(
                f"the Plancraft simulator failed on task {task.id!r}: {error!r}; "
                f"the task needs an example of the package as its reference"
            ) from error


def _assessed(task: Task, answer: str) -> Feedback:
    from selfwire.evals.benchmarks.crafting_table import parse_lines, run_actions

    example = to_plain_json(task.reference)
    read = parse_lines(answer)
    actions = tuple(line for line in read if line.action)
    verbs = {line.verb for line in actions}
    if "impossible" in verbs and len(verbs) > 1:
        return _refused("the answer mixes actions with `impossible`; it must be either actions or that one line.")
    episode = run_actions(example, actions)
    skipped = [line for line in read if not line.action]
    if verbs == {"impossible"} and not episode.success:
        return _refused("the answer `impossible` was not accepted.", steps=episode.steps, skipped=len(skipped))
    return Feedback(
        score=float(episode.success),
        solved=episode.success,
        text="Solved." + _unread(skipped) if episode.success else _told(str(example["target"]), episode, skipped),
        details={"steps": episode.steps, "idle": len(episode.faults), "skipped": len(skipped)},
    )


def _refused(why: str, *, steps: int = 0, skipped: int = 0) -> Feedback:
    details = {"steps": steps, "idle": 0, "skipped": skipped}
    return Feedback(score=0, solved=False, text=f"Not solved: {why}", details=details)


def _told(target: str, episode: "SimulationResult", skipped: "list[Line]") -> str:
    """What happened in an episode without success."""
    from selfwire.evals.benchmarks.crafting_table import MAX_STEPS, format_slots

    if not episode.steps:
        start = "Not solved: the answer has no action."
        return start + _unread(skipped)
    said = [f"Not solved: there is no {target} in the inventory after {episode.steps} actions."]
    said += [f"{fault[0].upper()}{fault[1:]}." for fault in episode.faults[:3]]
    if len(episode.faults) > 3:
        said.append(f"{len(episode.faults) - 3} more actions did nothing.")
    if episode.left:
        said.append(f"The limit of {MAX_STEPS} actions was reached; {episode.left} more were not run.")
    if episode.inventory.get(0, ("", 0))[0] == target:
        said.append(f"{target} lies in [0] and was not moved into the inventory.")
    said.append(f"At the end the slots hold {format_slots(episode.inventory)}.")
    return " ".join(said) + _unread(skipped)


def _unread(skipped: "list[Line]") -> str:
    """Name lines that are no action."""
    if not skipped:
        return ""
    first = skipped[0]
    more = f", nor are {len(skipped) - 1} more lines" if len(skipped) > 1 else ""
    return f" Line {first.number} ({first.text!r}) is no action{more}; an action is `{_EXAMPLE}`."


PLANCRAFT = Benchmark(
    name="plancraft",
    description="Craft an item out of an inventory, in the package's simulator.",
    load=make_splits,
    environment=PlancraftEnvironment(),
    toolbox={"recipe_search": RecipeSearch()},
    tools=("recipe_search",),
    baseline=TrivialRule(name="always impossible", answer=lambda question: "impossible: nobody tried"),
)
"""The benchmark; its baseline solves 100 of the 580 test tasks."""

_EXAMPLE = "move: from [I2] to [A1] with quantity 3"
