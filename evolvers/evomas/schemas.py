"""Replies that EvoMAS asks models for: a plan (Prompt 1), an assessment (Prompt 2), the final answer (App. C).

A plan's list is not limited here, as what exceeds a plan's length is dropped; models read the docstrings of classes.
"""

from typing import ClassVar, Literal

from pydantic import Field

from selfwire.core.chat import ReplySchema

Tag = Literal["TODO", "DONE", "FAILED", "NEED-REFINE"]


class PlannedSubtask(ReplySchema):
    """One subtask of the plan."""

    id: str = Field(default="", description="Its id if it is in the plan already; empty if it is new.")
    goal: str = Field(description="What to do, in one sentence.")
    status: Tag = Field(default="TODO", description="Where it stands.")


class Plan(ReplySchema):
    """The updated plan."""

    MAX_TOKENS: ClassVar[int] = 1500

    subtasks: list[PlannedSubtask] = Field(description="The whole plan, in order.")
    active: str = Field(default="", description="Id of the subtask to work on next; its goal if it is new.")
    summary: str = Field(default="", description="What the completed subtasks have found, in a few sentences.")
    hint: str = Field(default="", description="What the next subtask needs, in one sentence.")


class Assessed(ReplySchema):
    """The judgement of a subtask."""

    MAX_TOKENS: ClassVar[int] = 600

    feedback: str = Field(description="What is done, what is missing and what is wrong.")
    reward: float = Field(ge=0, le=1, description="1 if the subtask is done; 0 if it is not, or only in part.")
    refine: bool = Field(default=True, description="With reward 0: whether another try may succeed.")
    confidence: float = Field(default=0.5, ge=0, le=1, description="How sure you are, from 0 to 1.")


class LastAnswer(ReplySchema):
    """The final answer."""

    basis: str = Field(default="", description="Which findings decide the answer, in one sentence.")
    answer: str = Field(description="The answer alone, in exactly the form that the task asks for.")
