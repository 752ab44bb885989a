"""Doubles for EvoMAS's tests: prompts as they are, states and pools by hand."""

from importlib.resources import files

from selfwire.core.prompts import Prompts
from selfwire.evolvers.evomas.meta import Meta
from selfwire.evolvers.evomas.state import Status, Subtask, TaskState
from tests.evolvers.tacomas.doubles import Answer, ScriptedModel

PROMPTS = Prompts(
    texts={
        file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
        for file in files("selfwire.evolvers").joinpath("prompts", "evomas").iterdir()
        if file.name.endswith(".md")
    }
)
OBJECTIVE = "Which bridge is longer?"


def meta(**script: Answer) -> tuple[Meta, ScriptedModel]:
    """Planner and evaluator over a scripted model."""
    model = ScriptedModel(**script)
    return Meta(model, PROMPTS), model


def subtask(number: int, status: Status = "pending", **fields: object) -> Subtask:
    return Subtask.model_validate({"id": f"s{number}", "goal": f"goal {number}", "status": status, **fields})


def state(*subtasks: Subtask, active: str | None = None, **fields: object) -> TaskState:
    first = next((one.id for one in subtasks if one.status == "pending"), None)
    given = {"objective": OBJECTIVE, "subtasks": subtasks, "active": active or first, **fields}
    return TaskState.model_validate(given)
