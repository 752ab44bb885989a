"""Plancraft's environment against the package's own planner, which expands recipes to the end."""

from typing import Any

import pytest

from selfwire.core.task import Task
from selfwire.core.values import thawed
from selfwire.evals.benchmarks import plancraft
from selfwire.evals.benchmarks.plancraft import PLANCRAFT, PlancraftEnvironment
from tests.evals.benchmarks.sweeps import graded, solved, unsolved

pytestmark = pytest.mark.slow


def feasible() -> tuple[Task, ...]:
    return tuple(task for task in plancraft.tasks("val.small") if not task.reference["impossible"])


def planned(task: Task) -> str:
    """The planner's actions, one per line."""
    from plancraft.environment.planner import get_subplans

    example: Any = thawed(task.reference)
    slots = {int(slot): dict(held) for slot, held in example["slotted_inventory"].items()}
    steps = get_subplans({"inventory": slots, "target": example["target"]})[0]
    return "\n".join(line for step in steps for line in step)


async def test_the_planner_solves_every_feasible_task_of_val_small() -> None:
    tasks = feasible()
    plans = {task.id: planned(task) for task in tasks}
    assert len(tasks) == 90
    assert unsolved(await graded(PlancraftEnvironment(), tasks, lambda task: plans[task.id])) == {}
    cut = await graded(PlancraftEnvironment(), tasks, lambda task: plans[task.id].rpartition("\n")[0])
    assert solved(cut) == 0


async def test_always_impossible_solves_the_infeasible_tasks_and_no_other() -> None:
    tasks = plancraft.tasks("val.small")
    found = await graded(PlancraftEnvironment(), tasks, lambda task: PLANCRAFT.baseline.answer(task.input))
    assert solved(found) == len(tasks) - len(feasible())
