"""What EvoMAS asks models for: a plan, an assessment, a choice among solutions, a last answer (App. C)."""

from typing import Literal

from pydantic import Field

from selfwire.core.reply_schema import ReplySchema

Tag = Literal["TODO", "DONE", "FAILED", "NEED-REFINE"]


class PlannedSubtask(ReplySchema):
    """One subtask of the updated plan."""

    id: str = Field(default="", description="Id of a subtask that is in the plan already; empty for a new one.")
    goal: str = Field(description="What is to be done, in one sentence.")
    status: Tag = Field(default="TODO", description="Where it stands.")


class Plan(ReplySchema):
    """The planner's reply (Prompt 1). Its list is not limited here: what exceeds the plan's length is dropped."""

    subtasks: list[PlannedSubtask]
    active: str = Field(default="", description="Id or goal of the subtask to work on next.")
    summary: str = Field(default="", description="What the completed subtasks have brought, for later stages.")
    hint: str = Field(default="", description="What information, tools or agents the next stage may need.")


class Assessed(ReplySchema):
    """The evaluator's reply (Prompt 2)."""

    feedback: str = Field(description="What was accomplished, what is missing, what is wrong.")
    reward: float = Field(ge=0, le=1, description="1 if the subtask is done, 0 if it is not or only in part.")
    refine: bool = Field(default=True, description="With reward 0: whether another try at the same subtask may do it.")
    confidence: float = Field(default=0.5, ge=0, le=1, description="How sure you are.")


class LastAnswer(ReplySchema):
    """The answer that is put together where no subtask succeeded."""

    answer: str = Field(description="The whole answer to the task, in the form that the task demands.")
    basis: str = Field(default="", description="What it rests on, in a sentence.")
