"""Doubles for EvoMAS's tests: prompts as they are, states and pools by hand."""

from selfwire.evolvers.evomas.state import Status, Subtask, TaskState
from selfwire.evolvers.prompted_model import PromptedModel
from tests.scripted import Answer, ScriptedModel, prompts

PROMPTS = prompts("evomas")
OBJECTIVE = "Which bridge is longer?"


def meta_model(**script: Answer) -> tuple[PromptedModel, ScriptedModel]:
    model = ScriptedModel(**script)
    return PromptedModel(model, PROMPTS), model


def subtask(number: int, status: Status = "pending", **fields: object) -> Subtask:
    return Subtask.model_validate({"id": f"s{number}", "goal": f"goal {number}", "status": status, **fields})


def state(*subtasks: Subtask, active: str | None = None, **fields: object) -> TaskState:
    first = next((one.id for one in subtasks if one.status == "pending"), None)
    given = {"objective": OBJECTIVE, "subtasks": subtasks, "active": active or first, **fields}
    return TaskState.model_validate(given)
