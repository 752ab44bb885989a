"""Plancraft: crafting plans, scored by the package's own simulator (Dagan et al., 2024; package plancraft 0.4.9).

An answer is a whole plan: its actions are run one after another from the given inventory. The task is solved if the
target is in the inventory at the end, or if the answer says `impossible` and the authors made the task so. A plan is
either actions or `impossible`: both in one answer would be a hedge that costs nothing.
"""

import asyncio
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from selfwire.core.errors import ConfigError, GradingError
from selfwire.core.task import Feedback, Splits, Task
from selfwire.core.values import fingerprint, to_plain_json
from selfwire.evals.benchmarks.benchmark import Benchmark, RuleEnvironment, TrivialRule, sample_tasks
from selfwire.tools.recipes import RecipeSearch

if TYPE_CHECKING:
    from selfwire.evals.benchmarks.crafting_table import AnswerLine, SimulationResult

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
"""Errors that the package raises on unexpected input."""


@cache
def load_tasks(split: str) -> tuple[Task, ...]:
    """All tasks of a split of the package.

    Ids and order follow from the text that a team reads: the package's own reveal properties that a team must not know.

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
    """Tasks of the package's train, val and test splits, shuffled by the seed; ConfigError if a split has fewer."""
    sizes = {"train": train, "val": gate, "test": test}
    drawn = [sample_tasks("plancraft", split, load_tasks(split), size, seed) for split, size in sizes.items()]
    return Splits(train=drawn[0], gate=drawn[1], test=drawn[2])


async def grade(task: Task, answer: str) -> Feedback:
    """Score 1 if the simulator rewards the answer, else 0; the text follows from answer, inventory and recipes alone.

    Raises:
        GradingError: the task's reference is not an example of the package, or the simulator failed.
    """
    try:
        return await asyncio.to_thread(_simulate, task, answer)
    except _TROUBLE as error:
        raise GradingError(
            f"the Plancraft simulator failed on task {task.id!r}: {error!r}; "
            f"the task needs an example of the package as its reference"
        ) from error


def _simulate(task: Task, answer: str) -> Feedback:
    from selfwire.evals.benchmarks.crafting_table import parse_lines, run_actions

    example = to_plain_json(task.reference)
    lines = parse_lines(answer)
    actions = tuple(line for line in lines if line.action)
    verbs = {line.verb for line in actions}
    if "impossible" in verbs and len(verbs) > 1:
        return _refused("the answer mixes actions with `impossible`; it must be either actions or that one line.")
    episode = run_actions(example, actions)
    skipped = [line for line in lines if not line.action]
    if verbs == {"impossible"} and not episode.success:
        return _refused("the answer `impossible` was not accepted.", steps=episode.steps, skipped=len(skipped))
    text = "Solved." if episode.success else _describe_failure(str(example["target"]), episode)
    return Feedback(
        score=float(episode.success),
        solved=episode.success,
        text=text + _name_skipped(skipped),
        details={"steps": episode.steps, "idle": len(episode.faults), "skipped": len(skipped)},
    )


def _refused(why: str, *, steps: int = 0, skipped: int = 0) -> Feedback:
    details = {"steps": steps, "idle": 0, "skipped": skipped}
    return Feedback(score=0, solved=False, text=f"Not solved: {why}", details=details)


def _describe_failure(target: str, episode: "SimulationResult") -> str:
    from selfwire.evals.benchmarks.crafting_table import MAX_STEPS, format_slots

    if not episode.steps:
        return "Not solved: the answer has no action."
    parts = [f"Not solved: there is no {target} in the inventory after {episode.steps} actions."]
    parts += [f"{fault[0].upper()}{fault[1:]}." for fault in episode.faults[:3]]
    if len(episode.faults) > 3:
        parts.append(f"{len(episode.faults) - 3} more actions did nothing.")
    if episode.left:
        parts.append(f"The limit of {MAX_STEPS} actions was reached; {episode.left} more were not run.")
    if episode.inventory.get(0, ("", 0))[0] == target:
        parts.append(f"{target} lies in [0] and was not moved into the inventory.")
    parts.append(f"At the end the slots hold {format_slots(episode.inventory)}.")
    return " ".join(parts)


def _name_skipped(skipped: "list[AnswerLine]") -> str:
    if not skipped:
        return ""
    first = skipped[0]
    more = f", nor are {len(skipped) - 1} more lines" if len(skipped) > 1 else ""
    return f" Line {first.number} ({first.text!r}) is no action{more}; an action is `{_EXAMPLE}`."


PLANCRAFT = Benchmark(
    name="plancraft",
    description="Craft an item out of an inventory, in the package's simulator.",
    load=make_splits,
    environment=RuleEnvironment("plancraft", grade, "goal"),
    toolbox={"recipe_search": RecipeSearch()},
    tools=("recipe_search",),
    baseline=TrivialRule(name="always impossible", answer=lambda question: "impossible: nobody tried"),
)
"""The benchmark; its baseline solves 100 of the 580 test tasks."""

_EXAMPLE = "move: from [I2] to [A1] with quantity 3"
